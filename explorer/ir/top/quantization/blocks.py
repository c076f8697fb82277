"""Numbers with a scale for every block of an axis: `top.dequantize_blocks`.

    %w = top.dequantize_blocks(%q, %scale, %zero)
             %q : tensor<4096x11008x!top.quantized<ui4, axis 0, block 32>>
             %scale, %zero : tensor<128x11008xf32>, tensor<128x11008xui4>     %w like %q, in f32

So the weights of language models are stored: 4 bits each, and a scale for 32 to 128 of them. The
type says which numbers share parameters; these are operands, for there are too many for a type.
Reference: ONNX operators, DequantizeLinear-21; Frantar et al., "GPTQ: Accurate Post-Training
Quantization for Generative Pre-trained Transformers", 2023.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import AnyFloat, TensorType
from xdsl.ir import Attribute
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    result_def,
)

from explorer.ir.compute import KernelBuilder, Scalar, ScalarBuilder, Subscript
from explorer.ir.operation import Access, TopOperation
from explorer.ir.top.arithmetic import in_arithmetic_types
from explorer.ir.top.definitions import domain
from explorer.ir.top.support.operands import require_slices
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
    type; it is computed in f32 (f64 where that is one) and rounded once.
    """

    name = "top.dequantize_blocks"
    FAMILY: ClassVar[str] = "quantization"
    KEEPS_FINITE: ClassVar[bool] = True
    TAKES_QUANTIZED: ClassVar[bool] = True

    input = operand_def(TensorType)
    scale = operand_def(TensorType)
    zero_point = opt_operand_def(TensorType)
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
