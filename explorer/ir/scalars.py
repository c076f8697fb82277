"""Scalar values that record arithmetic, as in `y + x * w`, into a block of `arith` and `math`.

Elements narrower than 32 bits (f16, bf16, f8, f4) and integers narrower than 8 are stored as they
are and computed in f32 (i8): they are widened where arithmetic meets them.
"""

from __future__ import annotations

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import (
    AnyFloat,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    Signedness,
    i1,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from explorer.ir.loop_dialect import FloatRemainderOp, HighProductOp, UpperProductOp
from explorer.ir.types import arithmetic_type


class Scalar:
    """A scalar SSA value that records arithmetic into a block (floats, integers, i1, index).

    Arithmetic on types that are for storage only gives their arithmetic type.
    """

    def __init__(self, block: Block, value: SSAValue):
        self.block = block
        self.value = value

    # -- arithmetic --------------------------------------------------------------------------
    def __add__(self, other: Scalar | float) -> Scalar:
        return self._binary(other, arith.AddfOp, arith.AddiOp)

    def __sub__(self, other: Scalar | float) -> Scalar:
        return self._binary(other, arith.SubfOp, arith.SubiOp)

    def __mul__(self, other: Scalar | float) -> Scalar:
        return self._binary(other, arith.MulfOp, arith.MuliOp)

    def __truediv__(self, other: Scalar | float) -> Scalar:
        integer = arith.DivUIOp if self._is_unsigned() else arith.DivSIOp
        return self._binary(other, arith.DivfOp, integer)

    def remainder(self, other: Scalar | float) -> Scalar:
        """C's remainder, with the sign of the dividend (fmod for floats)."""
        integer = arith.RemUIOp if self._is_unsigned() else arith.RemSIOp
        return self._binary(other, FloatRemainderOp, integer)

    def copy_sign(self, other: Scalar) -> Scalar:
        """The magnitude of this float with another's sign."""
        return self._binary(other, math.CopySignOp, math.CopySignOp)

    def shift_left(self, other: Scalar | float) -> Scalar:
        return self._binary(other, None, arith.ShLIOp)

    def shift_right(self, other: Scalar | float) -> Scalar:
        """The sign comes in at the top of a signed integer, zero at an unsigned one's."""
        return self._binary(other, None, arith.ShRUIOp if self._is_unsigned() else arith.ShRSIOp)

    def maximum(self, other: Scalar | float) -> Scalar:
        integer = arith.MaxUIOp if self._is_unsigned() else arith.MaxSIOp
        return self._binary(other, arith.MaximumfOp, integer)

    def minimum(self, other: Scalar | float) -> Scalar:
        integer = arith.MinUIOp if self._is_unsigned() else arith.MinSIOp
        return self._binary(other, arith.MinimumfOp, integer)

    def power(self, other: Scalar | float) -> Scalar:
        return self._binary(other, math.PowFOp, math.IPowIOp)

    def logical_and(self, other: Scalar | float) -> Scalar:
        return self._binary(other, None, arith.AndIOp)

    def logical_or(self, other: Scalar | float) -> Scalar:
        return self._binary(other, None, arith.OrIOp)

    def logical_xor(self, other: Scalar | float) -> Scalar:
        return self._binary(other, None, arith.XOrIOp)

    def high_product(self, other: Scalar) -> Scalar:
        """(self * other + 2^30) >> 31, of i32."""
        op = HighProductOp.create(
            operands=[self.value, other.value], result_types=[self.value.type]
        )
        return self._record(op)

    def upper_product(self, other: Scalar) -> Scalar:
        """floor(self * other / 2^32), of i32."""
        op = UpperProductOp.create(
            operands=[self.value, other.value], result_types=[self.value.type]
        )
        return self._record(op)

    def unary(self, operation: type[Operation]) -> Scalar:
        """A function of the `math` dialect: `x.unary(math.ExpOp)`."""
        wide = self.widened()
        op = operation.create(operands=[wide.value], result_types=[wide.value.type])
        op.properties = _fastmath(operation)
        return self._record(op)

    def negate(self) -> Scalar:
        if self._is_float():
            return self._record(arith.NegfOp(self.widened().value))
        return self.constant(0) - self

    def compare(self, predicate: str, other: Scalar | float) -> Scalar:
        """predicate: eq, ne, lt, le, gt, ge. An i1 scalar; NaN is only unequal."""
        left, right = self.widened(), self._coerce(other).widened()
        if self._is_float():
            name = {"ne": "une"}.get(predicate, "o" + predicate)
            return self._record(arith.CmpfOp(left.value, right.value, name))
        prefix = "u" if self._is_unsigned() else "s"
        name = predicate if predicate in ("eq", "ne") else prefix + predicate
        return self._record(arith.CmpiOp(left.value, right.value, name))

    def select(self, if_true: Scalar | float, if_false: Scalar | float) -> Scalar:
        """self is an i1 scalar: `condition.select(a, b)`. At most one branch may be a number."""
        if not isinstance(if_true, Scalar):
            assert isinstance(if_false, Scalar)
            if_true = if_false.constant(if_true)
        right = if_true._coerce(if_false)
        if if_true.value.type != right.value.type:
            if_true, right = if_true.widened(), right.widened()
        return self._record(arith.SelectOp(self.value, if_true.value, right.value))

    def widened(self) -> Scalar:
        """The value in its arithmetic type."""
        return self.convert(arithmetic_type(self.value.type))

    def convert(self, target: Attribute) -> Scalar:
        """Cast between element types with C's rules (float to integer truncates)."""
        source = self.value.type
        if source == target:
            return self
        wide_source, wide_target = arithmetic_type(source), arithmetic_type(target)
        if source != wide_source and target != wide_source:
            return self.convert(wide_source).convert(target)
        if target != wide_target and source != wide_target:
            return self.convert(wide_target).convert(target)
        if isinstance(source, IndexType) or isinstance(target, IndexType):
            if isinstance(source, AnyFloat) or isinstance(target, AnyFloat):
                return self.convert(IntegerType(64)).convert(target)
            return self._record(arith.IndexCastOp(self.value, target))
        if target == i1:
            return self.compare("ne", self.constant(0))
        operation = _conversion(source, target)
        op = operation.create(operands=[self.value], result_types=[target])
        op.properties = _fastmath(operation)
        return self._record(op)

    def bitcast(self, target: Attribute) -> Scalar:
        """The same bits as another type of the same width."""
        if self.value.type == target:
            return self
        return self._record(arith.BitcastOp(self.value, target))

    def constant(self, value: float) -> Scalar:
        """A constant of this scalar's arithmetic type."""
        return constant_scalar(self.block, value, self.value.type)

    # -- implementation ----------------------------------------------------------------------
    def _is_float(self) -> bool:
        return isinstance(self.value.type, AnyFloat)

    def _is_unsigned(self) -> bool:
        return _is_unsigned(self.value.type)

    def _coerce(self, other: Scalar | float) -> Scalar:
        return other if isinstance(other, Scalar) else self.constant(other)

    def _binary(
        self,
        other: Scalar | float,
        float_op: type[Operation] | None,
        integer_op: type[Operation],
    ) -> Scalar:
        left, right = self.widened(), self._coerce(other).widened()
        operation = float_op if self._is_float() else integer_op
        if operation is None:
            raise TypeError(f"{integer_op.name} is not defined for {self.value.type}")
        op = operation.create(
            operands=[left.value, right.value],
            result_types=[left.value.type],
            properties=_fastmath(operation),
        )
        return self._record(op)

    def _record(self, op: Operation) -> Scalar:
        self.block.add_op(op)
        return Scalar(self.block, op.results[0])


def constant_scalar(block: Block, value: float, element_type: Attribute) -> Scalar:
    """Appends an `arith.constant` of the element's arithmetic type (index included) to the block.

    Constants of `arith` are signless: one of an unsigned type is its bits under that type.
    """
    element_type = arithmetic_type(element_type)
    if isinstance(element_type, AnyFloat):
        attribute: Attribute = FloatAttr(float(value), element_type)
    elif _is_unsigned(element_type):
        assert isinstance(element_type, IntegerType)
        signless = constant_scalar(block, value, IntegerType(element_type.width.data))
        return signless.convert(element_type)
    else:
        assert isinstance(element_type, IntegerType | IndexType)
        attribute = IntegerAttr(int(value), element_type)
    op = arith.ConstantOp(attribute)
    block.add_op(op)
    return Scalar(block, op.results[0])


def _is_unsigned(kind: Attribute) -> bool:
    return isinstance(kind, IntegerType) and kind.signedness.data == Signedness.UNSIGNED


def _fastmath(operation: type[Operation]) -> dict[str, Attribute]:
    """Operations of arith and math that carry a fastmath flag need it set explicitly."""
    fields = getattr(operation, "get_irdl_definition", None)
    if fields is not None and "fastmath" in operation.get_irdl_definition().properties:  # pyright: ignore
        return {"fastmath": arith.FastMathFlagsAttr("none")}
    if fields is not None and "overflowFlags" in operation.get_irdl_definition().properties:  # pyright: ignore
        return {"overflowFlags": arith.IntegerOverflowAttr("none")}
    return {}


def _conversion(source: Attribute, target: Attribute) -> type[Operation]:
    unsigned = (
        isinstance(source, IntegerType) and source.signedness.data == Signedness.UNSIGNED
    ) or source == i1
    if isinstance(source, AnyFloat) and isinstance(target, AnyFloat):
        return arith.ExtFOp if target.bitwidth > source.bitwidth else arith.TruncFOp
    if isinstance(source, AnyFloat):
        assert isinstance(target, IntegerType)
        is_unsigned = target.signedness.data == Signedness.UNSIGNED
        return arith.FPToUIOp if is_unsigned else arith.FPToSIOp
    if isinstance(target, AnyFloat):
        return arith.UIToFPOp if unsigned else arith.SIToFPOp
    assert isinstance(source, IntegerType) and isinstance(target, IntegerType)
    if target.width.data < source.width.data:
        return arith.TruncIOp
    if target.width.data == source.width.data:
        return arith.BitcastOp
    return arith.ExtUIOp if unsigned else arith.ExtSIOp
