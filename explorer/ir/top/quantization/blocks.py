"""Numbers with a scale for every block of an axis: `top.dequantize_blocks`, `top.quantize_blocks`.

    %w = top.dequantize_blocks(%q, %scale, %zero)
             %q : tensor<4096x11008x!top.quantized<ui4, axis 0, block 32>>
             %scale, %zero : tensor<128x11008xf32>, tensor<128x11008xui4>     %w like %q, in f32

So the weights of language models are stored: 4 bits each, and a scale for 32 to 128 of them. The
type says which numbers share parameters; these are operands, for there are too many for a type.
Reference: ONNX operators, DequantizeLinear-21; Frantar et al., "GPTQ: Accurate Post-Training
Quantization for Generative Pre-trained Transformers", 2023.

Rows that are multiplied with such weights get blocks of their own when the program runs:

    %q, %scale, %sums = top.quantize_blocks(%x) {block = 32}
             %x : tensor<1x4096xf32>      %q : tensor<1x4096x!top.quantized<i8, axis 1, block 32>>
             %scale : tensor<1x128xf32>   %sums : tensor<1x128xi32>
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects import math
from xdsl.dialects.builtin import AnyFloat, IntegerAttr, TensorType
from xdsl.ir import Attribute
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
)

from explorer.ir.compute import KernelBuilder, Scalar, ScalarBuilder, Subscript
from explorer.ir.operation import Access, TopOperation
from explorer.ir.top.arithmetic import in_arithmetic_types
from explorer.ir.top.definitions import domain
from explorer.ir.top.quantization.dynamic import I8, SYMMETRIC_LEVELS
from explorer.ir.top.support.operands import require_slices
from explorer.ir.top.support.quantized_scalars import F32, I32
from explorer.ir.types import (
    QuantizedType,
    Shape,
    arithmetic_type,
    element_type_of,
    numpy_dtype,
    shape_of,
    static_shape,
    tensor_type,
)


@irdl_op_definition
class DequantizeBlocksOp(TopOperation):
    """(x - zero point) * scale, with one of each for every block of the operand's type.

    scale: floats; as x, but ceil(size / block_size) along the axis, and perhaps 1 along others.
    zero_point: of scale's shape, integers or floats; none is 0. The result has scale's element
    type; it is computed in f32 (f64 where that is one) and rounded once. accuracy_level: of what a
    product multiplies with these numbers, as a file permits it (MatMulNBits of onnxruntime).
    """

    name = "top.dequantize_blocks"
    FAMILY: ClassVar[str] = "quantization"
    KEEPS_FINITE: ClassVar[bool] = True
    TAKES_QUANTIZED: ClassVar[bool] = True

    input = operand_def(TensorType)
    scale = operand_def(TensorType)
    zero_point = opt_operand_def(TensorType)
    accuracy_level = opt_prop_def(IntegerAttr)
    output = result_def(TensorType)

    @property
    def blocks(self) -> QuantizedType:
        """The operand's element type; ValueError where that has no blocks."""
        kind = element_type_of(self.input)
        if not isinstance(kind, QuantizedType) or not kind.block_size:
            raise ValueError(f"{self.name} takes numbers in blocks, not {kind}")
        return kind

    def infer_types(self) -> list[Attribute]:
        shape = shape_of(self.input)
        require_slices(self.blocks, shape)
        if not isinstance(element_type_of(self.scale), AnyFloat):
            raise ValueError(f"scales are floats, not {element_type_of(self.scale)}")
        for operand, role in ((self.scale, "scales"), (self.zero_point, "zero points")):
            if operand is not None:
                self._check_parameters(shape_of(operand), role)
        return [tensor_type(element_type_of(self.scale), shape)]

    def _check_parameters(self, own: Shape, role: str) -> None:
        shape, block, blocked = (
            shape_of(self.input),
            self.blocks.block_size,
            self.blocks.axis_number,
        )
        expected = [
            -(-size // block) if axis == blocked and isinstance(size, int) else size
            for axis, size in enumerate(shape)
        ]
        is_fitting = len(own) == len(shape) and all(
            isinstance(a, str) or isinstance(b, str) or a == b or (a == 1 and axis != blocked)
            for axis, (a, b) in enumerate(zip(own, expected, strict=True))
        )
        if not is_fitting:
            raise ValueError(f"{role} {own} for blocks of {block} along axis {blocked} of {shape}")

    @in_arithmetic_types
    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        x, scale, *zero = operands
        axis, wide = self.blocks.axis_number, arithmetic_type(element_type_of(self.output))
        wide = numpy_dtype(wide)
        block_of = np.arange(x.shape[axis]) // self.blocks.block_size
        real = x.astype(wide)
        with np.errstate(all="ignore"):
            if zero:
                real = real - np.take(zero[0].astype(wide), block_of, axis=axis)
            return (real * np.take(scale, block_of, axis=axis),)

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        """A statement for all whole blocks, and one for a last block that is cut off."""
        sizes, axis = static_shape(self.input), self.blocks.axis_number
        block = self.blocks.block_size
        whole, rest = divmod(sizes[axis], block)
        for blocks, size, first in ((whole, block, 0), (1, rest, whole)):
            d = k.dimensions(**domain([*sizes[:axis], blocks, size, *sizes[axis + 1 :]]))
            outer, inner = d[:axis], d[axis + 2 :]
            at: list[Subscript] = [*outer, (d[axis] + first) * block + d[axis + 1], *inner]
            block_at: list[Subscript] = [*outer, d[axis] + first, *inner]
            x, *parameters = inputs
            reads = [x.at(*at), *(p.broadcast(block_at) for p in parameters)]
            k.generic("plain", reads, output.at(*at), self._scalar)
        return "copy"

    def _scalar(self, s: ScalarBuilder, x: Scalar, scale: Scalar, *zero: Scalar) -> Scalar:
        kind = arithmetic_type(element_type_of(self.output))
        real = x.convert(kind)
        if zero:
            real = real - zero[0].convert(kind)
        return real * scale.convert(kind)

    def label(self) -> str:
        return f"dequantize blocks of {self.blocks.block_size}"


@irdl_op_definition
class QuantizeBlocksOp(TopOperation):
    """Signed bytes for every block of the last axis of x (f32), their scales (f32), sums (i32).

        range = max(|x|)        scale = range / 127        q = round(x (127 / range)), 0 for range 0

    Rounding is to even; the last axis has whole blocks. A block with a number that is not finite
    has the scale NaN or infinity, so that its product is NaN. Source: onnxruntime, MLAS
    (`QuantizeARow_CompInt8`), which MatMulNBits with accuracy_level = 4 calls.
    """

    name = "top.quantize_blocks"
    FAMILY: ClassVar[str] = "quantization"

    input = operand_def(TensorType)
    block = prop_def(IntegerAttr)
    output = result_def(TensorType)
    scale = result_def(TensorType)
    sums = result_def(TensorType)

    def infer_types(self) -> list[Attribute]:
        shape, block = shape_of(self.input), self.get("block")
        if element_type_of(self.input) != F32:
            raise ValueError(f"{self.name} takes f32, not {element_type_of(self.input)}")
        depth = shape[-1] if shape else None
        if block < 1 or not isinstance(depth, int) or depth % block:
            raise ValueError(f"{self.name} of {shape}: whole blocks of {block} expected")
        kind = QuantizedType.in_blocks(I8, len(shape) - 1, block)
        blocks = (*shape[:-1], depth // block)
        return [tensor_type(kind, shape), tensor_type(F32, blocks), tensor_type(I32, blocks)]

    @in_arithmetic_types
    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        (x,) = operands
        levels = np.float32(SYMMETRIC_LEVELS)
        split = x.reshape(*x.shape[:-1], x.shape[-1] // self.get("block"), self.get("block"))
        reach = np.max(np.abs(split), axis=-1, keepdims=True, initial=0)
        with np.errstate(all="ignore"):
            steps = split * np.where(reach == 0, np.float32(0), levels / reach)
            whole = np.where(np.isnan(steps), 0, np.clip(np.rint(steps), -levels, levels))
            scale = (reach / levels)[..., 0]
        q = whole.astype(np.int8)
        return q.reshape(x.shape), scale, q.sum(axis=-1, dtype=np.int32)

    def define(
        self, k: KernelBuilder, inputs: Sequence[Access], output: Access, *others: Access
    ) -> str:
        (x,), (scale, sums), block = inputs, others, self.get("block")
        rows = (*static_shape(self.input)[:-1], static_shape(self.scale)[-1])
        ranges = k.argument("ranges", rows, F32, "scratch")
        d = k.dimensions(**domain(rows))
        k.generic("plain", [], (ranges, d), lambda s: s.constant(0.0))
        k.generic("plain", [], sums.at(*d), lambda s: s.constant(0))
        *outer, number, step = d = k.dimensions(**domain([*rows, block]))
        own: list[Subscript] = [*outer, number * block + step]
        k.generic(
            "plain",
            [x.at(*own)],
            (ranges, d[:-1]),
            lambda s, x, y: x.unary(math.AbsFOp).maximum(y),
            reductions=list(domain([*rows, block]))[-1],
            accumulates=True,
        )
        k.dimensions(**domain([*rows, block]))
        k.generic("plain", [x.at(*own), (ranges, d[:-1])], output.at(*own), _in_steps)
        k.dimensions(**domain([*rows, block]))
        k.generic(
            "plain",
            [output.at(*own)],
            sums.at(*d[:-1]),
            lambda s, q, y: y + q.convert(I32),
            reductions=list(domain([*rows, block]))[-1],
            accumulates=True,
        )
        d = k.dimensions(**domain(rows))
        k.generic("plain", [(ranges, d)], scale.at(*d), lambda s, r: r / SYMMETRIC_LEVELS)
        return "quantize_blocks"

    def label(self) -> str:
        return f"quantize blocks of {self.get('block')}"


def _in_steps(s: ScalarBuilder, x: Scalar, reach: Scalar) -> Scalar:
    """A number in steps of its block's scale; what is no number is 0."""
    factor = s.constant(SYMMETRIC_LEVELS, F32) / reach
    steps = x * reach.compare("eq", 0.0).select(0.0, factor)
    whole = steps.unary(math.RoundEvenOp).maximum(-SYMMETRIC_LEVELS).minimum(SYMMETRIC_LEVELS)
    return steps.compare("eq", steps).select(whole, 0.0).convert(I32).convert(I8)
