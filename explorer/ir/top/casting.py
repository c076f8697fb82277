"""Casts: a number in another element type, or the same bits as another one.

    top.cast {to = i32}       2.7 -> 2
    top.bitcast {to = i32}    1.0 -> 1065353216

Reference: ONNX operators, Cast and BitCast.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import (
    AnyFloat,
    BoolAttr,
    Float8E4M3FNType,
    Float8E4M3FNUZType,
    Float8E5M2FNUZType,
    Float8E5M2Type,
    Float8E8M0FNUType,
    IntegerType,
    Signedness,
    StringAttr,
    TensorType,
    f32,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def

from explorer.ir.compute import KernelBuilder, Scalar
from explorer.ir.gradients import GradientBuild
from explorer.ir.interfaces import ComputesSizes, Differentiable, Elements, SizeContents
from explorer.ir.operation import Access
from explorer.ir.sizes.symbols import Expression
from explorer.ir.top.support.broadcasting import ElementwiseOperation, iteration
from explorer.ir.top.support.operands import require_slices
from explorer.ir.types import (
    element_type_of,
    is_static,
    layout_of,
    numpy_dtype,
    shape_of,
    stored_type,
    tensor_type,
    widened,
)

_SATURATING = (Float8E4M3FNType, Float8E4M3FNUZType, Float8E5M2Type, Float8E5M2FNUZType)
_U8, _U32 = (IntegerType(bits, Signedness.UNSIGNED) for bits in (8, 32))
_LARGEST_EXPONENT = 254
"""Of a float that is a number; 255 says infinity or NaN."""
_INFINITY = 0x7F800000
"""The bits of a positive infinite float."""


@irdl_op_definition
class CastOp(Differentiable, ComputesSizes, ElementwiseOperation):
    """Converts the element type as C does: floats truncate towards zero, nonzero becomes true.

    Floats are rounded to nearest, ties to even. Integers lose their upper bits. To float8, with
    `saturate` (the default), what is too large becomes the largest number, infinity too; without
    it, infinity or NaN. To f8E8M0FNU (a power of two) `rounding` is up (the default), down or
    nearest.
    """

    name = "top.cast"
    KEEPS_FINITE: ClassVar[bool] = True

    input = operand_def(TensorType)
    to = prop_def(Attribute)
    saturate = opt_prop_def(BoolAttr)
    rounding = opt_prop_def(StringAttr)
    output = result_def(TensorType)

    def infer_types(self) -> list[Attribute]:
        if self.get("rounding", "up") not in ("up", "down", "nearest"):
            raise ValueError(f"rounding is {self.get('rounding')!r}; up, down or nearest expected")
        return [tensor_type(self.to, shape_of(self.input))]

    def computed_sizes(self, elements: Elements) -> np.ndarray | None:
        """The same numbers, where it neither rounds nor wraps around."""
        kinds = [numpy_dtype(element_type_of(v)) for v in (self.input, self.output)]
        if any(kind.kind not in "iuf" or kind.itemsize < 4 for kind in kinds):
            return None
        return elements(self.input)

    def end_of_numbers(self, contents: SizeContents) -> Expression | None:
        return contents.end(self.input)

    @property
    def _limit(self) -> float | None:
        """The largest number of a type that saturates."""
        if not isinstance(self.to, _SATURATING) or not self.get("saturate", True):
            return None
        import ml_dtypes

        return float(ml_dtypes.finfo(numpy_dtype(self.to)).max)

    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        (x,) = operands
        dtype = numpy_dtype(self.to)
        if x.dtype == dtype:
            return (x,)
        with np.errstate(all="ignore"):
            wide = widened(x)
            if isinstance(self.to, Float8E8M0FNUType):
                return (_to_power_of_two(wide, self.get("rounding", "up"), self._saturates),)
            if self._limit is not None:
                wide = np.clip(wide.astype(np.float32), -self._limit, self._limit)
            if isinstance(self.to, IntegerType) and self.to.width.data in (2, 4):
                wide = wide.astype(np.int64)  # ml_dtypes would take a float's bits modulo 2^32
            return (wide.astype(dtype),)

    @property
    def _saturates(self) -> bool:
        return self.get("saturate", True)

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        d = k.dimensions(**iteration(output.shape))
        k.generic("plain", [inputs[0].at(*d)], output.at(*d), lambda s, x: self._body(x))
        return "elementwise"

    def _body(self, x: Scalar) -> Scalar:
        if x.value.type == self.to:
            return x
        if isinstance(self.to, Float8E8M0FNUType):
            return _power_of_two_body(x.convert(f32), self.get("rounding", "up"), self._saturates)
        limit = self._limit
        if limit is not None:
            x = x.convert(f32).maximum(-limit).minimum(limit)
        return x.convert(self.to)

    def label(self) -> str:
        return f"cast {self.to}"

    def operand_gradient(self, index: int, g: SSAValue, build: GradientBuild) -> SSAValue:
        return build.cast(g, build.dtype(self.operands[0]))


def _to_power_of_two(x: np.ndarray, rounding: str, saturates: bool) -> np.ndarray:
    """The exponents of floats. NaN is NaN; infinity is that, too, or saturates as ONNX has it."""
    bits = np.asarray(x, np.float32, order="C").view(np.uint32)  # a scalar stays one
    exponent = bits >> 23 & 0xFF
    is_number = exponent <= _LARGEST_EXPONENT
    grows = _rounds_up(bits, exponent, rounding) & is_number
    if saturates:
        grows &= exponent < _LARGEST_EXPONENT
        exponent = exponent - (bits == _INFINITY)
    codes = np.asarray(exponent + grows, np.uint8)
    return codes.view(numpy_dtype(Float8E8M0FNUType()))


def _rounds_up(bits: np.ndarray, exponent: np.ndarray, rounding: str) -> np.ndarray:
    fraction = bits & 0x7FFFFF
    if rounding == "down":
        return np.zeros_like(bits, bool)
    if rounding == "up":
        return fraction > 0
    # A tie goes up, but between 0 and the smallest power it goes down.
    return (fraction > 0x400000) | ((fraction == 0x400000) & (exponent > 0))


def _power_of_two_body(x: Scalar, rounding: str, saturates: bool) -> Scalar:
    bits = x.bitcast(_U32)
    exponent = bits.shift_right(bits.constant(23)).logical_and(bits.constant(0xFF))
    fraction = bits.logical_and(bits.constant(0x7FFFFF))
    if rounding == "nearest":
        is_tie = fraction.compare("eq", 0x400000).logical_and(exponent.compare("gt", 0))
        grows = fraction.compare("gt", 0x400000).logical_or(is_tie)
    else:
        grows = fraction.compare("gt", 0 if rounding == "up" else 0x7FFFFF)
    last = _LARGEST_EXPONENT - 1 if saturates else _LARGEST_EXPONENT
    grows = grows.logical_and(exponent.compare("le", last))
    code = grows.select(exponent + 1, exponent)
    if saturates:
        code = bits.compare("eq", _INFINITY).select(code.constant(_LARGEST_EXPONENT), code)
    code = code.convert(_U8)
    return code.bitcast(Float8E8M0FNUType())


@irdl_op_definition
class BitcastOp(ElementwiseOperation):
    """The same bits as an element type of the same width (ONNX's BitCast).

    From and to quantized types it is their stored integers; nothing is done then.
    """

    name = "top.bitcast"
    TAKES_QUANTIZED: ClassVar[bool] = True

    input = operand_def(TensorType)
    to = prop_def(Attribute)
    output = result_def(TensorType)

    @property
    def keeps_stored(self) -> bool:
        """Whether the numbers in memory stay what they are."""
        return stored_type(element_type_of(self.input)) == stored_type(self.to)

    def why_not_blocked(self, block: int) -> str:
        if not self.keeps_stored:
            return f"{self.name} has no blocked form"
        return ""

    @property
    def is_view(self) -> bool:
        """Where the numbers in memory stay what and where they are."""
        ends = (self.input, self.output)
        is_same = layout_of(self.input) == layout_of(self.output)
        return self.keeps_stored and is_same and all(is_static(v) for v in ends)

    def infer_types(self) -> list[Attribute]:
        source, target = stored_type(element_type_of(self.input)), stored_type(self.to)
        if _width(source) != _width(target):
            raise ValueError(f"{source} and {target} are not equally wide")
        for kind in (element_type_of(self.input), self.to):
            require_slices(kind, shape_of(self.input))
        return [tensor_type(self.to, shape_of(self.input))]

    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        (x,) = operands
        if x.dtype == numpy_dtype(self.to):
            return (x,)
        return (np.ascontiguousarray(x).view(numpy_dtype(self.to)).reshape(x.shape),)

    def missing_form(self) -> str:
        kinds = stored_type(element_type_of(self.input)), stored_type(self.to)
        has_floats = any(isinstance(kind, AnyFloat) for kind in kinds)
        if IntegerType(1) in kinds and has_floats:
            return "bits of booleans as floats have no compiled form"
        return ""

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        """Booleans are bytes 0 and 1 in memory: a number is made of them, and tested."""
        self.check_form()
        d, to = k.dimensions(**iteration(output.shape)), stored_type(self.to)

        def body(s: object, x: Scalar) -> Scalar:
            if IntegerType(1) in (x.value.type, to):
                return x.convert(to)
            return x.bitcast(to)

        k.generic("plain", [inputs[0].at(*d)], output.at(*d), body)
        return "elementwise"

    def label(self) -> str:
        return f"bitcast {self.to}"


def _width(element_type: Attribute) -> int:
    """Bits of an element; a boolean is a byte."""
    assert isinstance(element_type, IntegerType | AnyFloat), element_type
    bits = element_type.bitwidth
    return 8 if bits == 1 else bits
