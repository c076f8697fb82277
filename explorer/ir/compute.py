"""Compute definitions: what an operation computes, as `linalg.generic` over memrefs.

A kernel is a `func.func` whose arguments are buffers. Its body is a list of *statements*:

    linalg.generic   iteration domain + affine accesses + scalar body      (KernelBuilder.generic)
    affine.for nest  with memref.load / memref.store, where the access
                     depends on data (gather, argmax, recurrences)         (KernelBuilder.nest)

Example, a convolution without padding:

    k = KernelBuilder("conv")
    x = k.argument("x", (1, 3, 10, 10), f32, "input")
    w = k.argument("w", (8, 3, 3, 3), f32, "weight")
    y = k.argument("y", (1, 8, 8, 8), f32, "output")
    n, o, i, j = k.dimensions(n=1, o=8, i=8, j=8)
    k.generic("init", [], (y, (n, o, i, j)), lambda s: s.constant(0.0))
    n, o, i, j, c, p, q = k.dimensions(n=1, o=8, i=8, j=8, c=3, p=3, q=3)
    k.generic("main", [(x, (n, c, i + p, j + q)), (w, (o, c, p, q))], (y, (n, o, i, j)),
              lambda s, x, w, y: y + x * w, reductions="c p q", accumulates=True)
    function = k.finish(kind="convolution")

The scheduler (`explorer.kernels`) turns statements into loop nests; nothing here knows about
layouts, vectors or threads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects import affine, arith, func, math, memref
from xdsl.dialects.builtin import (
    AffineMapAttr,
    AnyFloat,
    ArrayAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    Signedness,
    StringAttr,
    i1,
)
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.dialects.linalg.ops import YieldOp as LinalgYieldOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
)
from xdsl.utils.exceptions import VerifyException

ROLES = ("input", "weight", "output", "scratch")
STAGES = ("halo", "init", "main", "epilogue", "plain")

Subscript = AffineExpr | int


@dataclass(frozen=True)
class Dimension:
    """One loop of an iteration domain: its name, extent and the affine expression that names it."""

    name: str
    extent: int


@dataclass(frozen=True)
class Buffer:
    """A memref argument of a kernel. `role` is one of ROLES."""

    name: str
    role: str
    value: SSAValue

    @property
    def type(self) -> MemRefType[Attribute]:
        assert isinstance(self.value.type, MemRefType)
        return self.value.type


class Scalar:
    """A scalar SSA value that records arithmetic into a block (floats, integers, i1, index)."""

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
        """C's remainder, with the sign of the dividend; integers only."""
        return self._binary(other, None, arith.RemUIOp if self._is_unsigned() else arith.RemSIOp)

    def maximum(self, other: Scalar | float) -> Scalar:
        integer = arith.MaxUIOp if self._is_unsigned() else arith.MaxSIOp
        return self._binary(other, arith.MaximumfOp, integer)

    def minimum(self, other: Scalar | float) -> Scalar:
        integer = arith.MinUIOp if self._is_unsigned() else arith.MinSIOp
        return self._binary(other, arith.MinimumfOp, integer)

    def power(self, other: Scalar | float) -> Scalar:
        return self._binary(other, math.PowFOp, math.IPowIOp)

    def logical_and(self, other: Scalar) -> Scalar:
        return self._binary(other, None, arith.AndIOp)

    def logical_or(self, other: Scalar) -> Scalar:
        return self._binary(other, None, arith.OrIOp)

    def logical_xor(self, other: Scalar) -> Scalar:
        return self._binary(other, None, arith.XOrIOp)

    def unary(self, operation: type[Operation]) -> Scalar:
        """A function of the `math` dialect: `x.unary(math.ExpOp)`."""
        op = operation.create(operands=[self.value], result_types=[self.value.type])
        op.properties = _fastmath(operation)
        return self._record(op)

    def negate(self) -> Scalar:
        if self._is_float():
            return self._record(arith.NegfOp(self.value))
        return self.constant(0) - self

    def compare(self, predicate: str, other: Scalar | float) -> Scalar:
        """predicate: eq, ne, lt, le, gt, ge. An i1 scalar; NaN is only unequal."""
        right = self._coerce(other)
        if self._is_float():
            name = {"ne": "une"}.get(predicate, "o" + predicate)
            return self._record(arith.CmpfOp(self.value, right.value, name))
        prefix = "u" if self._is_unsigned() else "s"
        name = predicate if predicate in ("eq", "ne") else prefix + predicate
        return self._record(arith.CmpiOp(self.value, right.value, name))

    def select(self, if_true: Scalar | float, if_false: Scalar | float) -> Scalar:
        """self is an i1 scalar: `condition.select(a, b)`. At most one branch may be a number."""
        if not isinstance(if_true, Scalar):
            assert isinstance(if_false, Scalar)
            if_true = if_false.constant(if_true)
        right = if_true._coerce(if_false)
        return self._record(arith.SelectOp(self.value, if_true.value, right.value))

    def convert(self, target: Attribute) -> Scalar:
        """Cast between element types with C's rules (float to integer truncates)."""
        source = self.value.type
        if source == target:
            return self
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

    def constant(self, value: float) -> Scalar:
        """A constant of this scalar's type."""
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
        right = self._coerce(other)
        operation = float_op if self._is_float() else integer_op
        if operation is None:
            raise TypeError(f"{integer_op.name} is not defined for {self.value.type}")
        op = operation.create(
            operands=[self.value, right.value],
            result_types=[self.value.type],
            properties=_fastmath(operation),
        )
        return self._record(op)

    def _record(self, op: Operation) -> Scalar:
        self.block.add_op(op)
        return Scalar(self.block, op.results[0])


def constant_scalar(block: Block, value: float, element_type: Attribute) -> Scalar:
    """Appends an `arith.constant` of the element type (index included) to the block.

    Constants of `arith` are signless: one of an unsigned type is its bits under that type.
    """
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


class Statement(GenericOp):
    """A `linalg.generic` that knows its iteration domain (`loop.dims`).

    Plain linalg reads loop ranges back off operand shapes. That has no answer where a loop never
    stands alone in a subscript (a pooling window, the interior of a haloed buffer), so here the
    extents are stated, and the verifier checks every access against them.
    """

    def verify_(self) -> None:
        self.get_irdl_definition().verify(self)
        extents = [d.extent for d in statement_dimensions(self)]
        for operand, attribute in zip(self.operands, self.indexing_maps.data, strict=True):
            assert isinstance(operand.type, MemRefType)
            name = operand.name_hint or "a buffer"
            for axis, (subscript, size) in enumerate(
                zip(attribute.data.results, operand.type.get_shape(), strict=True)
            ):
                lowest, highest = subscript_range(subscript, extents)
                if lowest < 0 or highest >= size:
                    raise VerifyException(
                        f"dimension {axis} of {name} has {size} elements, and "
                        f"{subscript} reaches from {lowest} to {highest}"
                    )


def subscript_range(subscript: AffineExpr, extents: Sequence[int]) -> tuple[int, int]:
    """Smallest and largest value of a linear subscript over an iteration domain."""
    if isinstance(subscript, AffineConstantExpr):
        return subscript.value, subscript.value
    if isinstance(subscript, AffineDimExpr):
        return 0, extents[subscript.position] - 1
    assert isinstance(subscript, AffineBinaryOpExpr), subscript
    left = subscript_range(subscript.lhs, extents)
    right = subscript_range(subscript.rhs, extents)
    if subscript.kind is AffineBinaryOpKind.Add:
        return left[0] + right[0], left[1] + right[1]
    if subscript.kind is AffineBinaryOpKind.Mul:
        corners = [a * b for a in left for b in right]
        return min(corners), max(corners)
    raise VerifyException(f"{subscript} is not linear")


class ScalarBuilder:
    """First argument of a statement's body: makes constants and, in nests, loads and stores."""

    def __init__(self, block: Block, element_type: Attribute | None):
        self.block = block
        self.element_type = element_type

    def constant(self, value: float, element_type: Attribute | None = None) -> Scalar:
        chosen = element_type or self.element_type
        assert chosen is not None, "a constant in a nest needs its element type"
        return constant_scalar(self.block, value, chosen)

    def index(self, value: int) -> Scalar:
        return constant_scalar(self.block, value, IndexType())

    def load(self, buffer: Buffer, indices: Sequence[Scalar]) -> Scalar:
        """Loads one element; the indices are index scalars, data-dependent ones allowed."""
        op = memref.LoadOp.get(buffer.value, [i.value for i in indices])
        op.results[0].name_hint = buffer.name
        self.block.add_op(op)
        return Scalar(self.block, op.results[0])

    def store(self, value: Scalar, buffer: Buffer, indices: Sequence[Scalar]) -> None:
        self.block.add_op(memref.StoreOp.get(value.value, buffer.value, [i.value for i in indices]))


class KernelBuilder:
    """Builds one kernel function out of statements."""

    def __init__(self, name: str):
        self.name = name
        self._block = Block()
        self._roles: list[str] = []
        self._names: list[str] = []
        self._dimensions: list[Dimension] = []

    def argument(
        self, name: str, shape: Sequence[int], element_type: Attribute, role: str
    ) -> Buffer:
        """A buffer argument, shape in elements; a scalar has shape (1,)."""
        assert role in ROLES, role
        value = self._block.insert_arg(MemRefType(element_type, list(shape)), len(self._block.args))
        value.name_hint = name
        self._roles.append(role)
        self._names.append(name)
        return Buffer(name, role, value)

    def dimensions(self, **extents: int) -> tuple[AffineExpr, ...]:
        """Declares the iteration domain of the next `generic`, in iteration order."""
        self._dimensions = [Dimension(n, e) for n, e in extents.items()]
        return tuple(AffineExpr.dimension(i) for i in range(len(extents)))

    def generic(
        self,
        stage: str,
        reads: Sequence[tuple[Buffer, Sequence[Subscript]]],
        write: tuple[Buffer, Sequence[Subscript]],
        body: Callable[..., Scalar],
        reductions: str = "",
        accumulates: bool = False,
    ) -> GenericOp:
        """One statement over the declared domain; none where a dimension is empty.

        `body` receives a ScalarBuilder, one Scalar for every read and, if `accumulates`, the
        output's present value; it returns what is stored. `reductions` names the dimensions
        (separated by blanks) over which the output is updated repeatedly.
        """
        assert stage in STAGES, stage
        reduced = set(reductions.split())
        accesses = [*reads, write]
        element_types = [buffer.type.element_type for buffer, _ in accesses]
        block = Block(arg_types=element_types)
        for (buffer, _), argument in zip(accesses, block.args, strict=True):
            argument.name_hint = buffer.name
        scalars = [Scalar(block, argument) for argument in block.args]
        given = scalars if accumulates else scalars[:-1]
        result = body(ScalarBuilder(block, element_types[-1]), *given)
        block.add_op(LinalgYieldOp(result.value))
        iterators = [
            IteratorTypeAttr.reduction() if d.name in reduced else IteratorTypeAttr.parallel()
            for d in self._dimensions
        ]
        op = Statement(
            [buffer.value for buffer, _ in reads],
            [write[0].value],
            Region(block),
            [self._map(subscripts) for _, subscripts in accesses],
            iterators,
        )
        op.attributes["loop.dims"] = ArrayAttr(
            [StringAttr(f"{d.name}={d.extent}") for d in self._dimensions]
        )
        op.attributes["loop.stage"] = StringAttr(stage)
        if all(d.extent for d in self._dimensions):
            self._block.add_op(op)
        return op

    def nest(
        self,
        extents: Mapping[str, int],
        body: Callable[..., None],
        parallel: str = "",
    ) -> None:
        """An explicit loop nest, none where an extent is 0.

        `body` receives a ScalarBuilder and one index Scalar per loop.

        `parallel` names the outer loops (separated by blanks) whose iterations are independent.
        Data-dependent indices must be kept in range by the body (see `clamp_index`).
        """
        if not all(extents.values()):
            return
        outer: affine.ForOp | None = None
        parent = self._block
        indices: list[SSAValue] = []
        independent = set(parallel.split())
        for name, extent in extents.items():
            loop = make_loop(0, extent, name)
            if name in independent:
                loop.attributes["loop.independent"] = StringAttr("true")
            indices.append(loop.body.block.args[0])
            _insert_before_yield(parent, loop)
            parent = loop.body.block
            outer = outer or loop
        assert outer is not None, "a nest needs at least one loop"
        scratch = Block()
        body(ScalarBuilder(scratch, None), *[Scalar(scratch, i) for i in indices])
        for op in list(scratch.ops):
            op.detach()
            _insert_before_yield(parent, op)

    def finish(self, kind: str, parameters: Mapping[str, int] | None = None) -> func.FuncOp:
        """Closes the function. `kind` names the family that the scheduler chooses by:

        convolution, depthwise, matmul, elementwise, pool, reduce, copy, plain, explicit.
        """
        self._block.add_op(func.ReturnOp())
        function = func.FuncOp(
            self.name, ([a.type for a in self._block.args], []), Region(self._block)
        )
        function.attributes["kernel.kind"] = StringAttr(kind)
        function.attributes["kernel.roles"] = ArrayAttr([StringAttr(r) for r in self._roles])
        function.attributes["kernel.names"] = ArrayAttr([StringAttr(n) for n in self._names])
        for name, value in (parameters or {}).items():
            function.attributes[f"kernel.{name}"] = IntegerAttr(value, 64)
        return function

    def _map(self, subscripts: Sequence[Subscript]) -> AffineMapAttr:
        expressions = [AffineExpr.constant(s) if isinstance(s, int) else s for s in subscripts]
        return AffineMapAttr(AffineMap(len(self._dimensions), 0, tuple(expressions)))


def clamp_index(s: ScalarBuilder, index: Scalar, extent: int) -> Scalar:
    """Python's negative indices resolved, then kept inside [0, extent): no data leaves a buffer."""
    zero, size = s.index(0), s.index(extent)
    wrapped = index.compare("lt", zero).select(index + size, index)
    return wrapped.maximum(zero).minimum(s.index(extent - 1))


def make_loop(lower: int, upper: int, name: str) -> affine.ForOp:
    """An empty `affine.for` named `name` (attribute loop.name and the index's name hint)."""
    block = Block([affine.YieldOp.get()], arg_types=[IndexType()])
    block.args[0].name_hint = name
    loop = affine.ForOp.from_region([], [], [], [], lower, upper, Region(block))
    loop.attributes["loop.name"] = StringAttr(name)
    return loop


def _insert_before_yield(block: Block, op: Operation) -> None:
    last = block.last_op
    if isinstance(last, affine.YieldOp):
        block.insert_op_before(op, last)
    else:
        block.add_op(op)


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


def statement_dimensions(op: Operation) -> list[Dimension]:
    """The named iteration domain of a statement made by `KernelBuilder.generic`."""
    names = op.attributes["loop.dims"]
    assert isinstance(names, ArrayAttr)
    pairs = [str(a.data).split("=") for a in names.data if isinstance(a, StringAttr)]
    return [Dimension(name, int(extent)) for name, extent in pairs]


__all__ = [
    "AffineConstantExpr",
    "AffineDimExpr",
    "Buffer",
    "Dimension",
    "KernelBuilder",
    "Scalar",
    "ScalarBuilder",
    "clamp_index",
    "constant_scalar",
    "make_loop",
    "statement_dimensions",
]
