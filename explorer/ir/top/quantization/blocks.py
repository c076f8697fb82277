"""Numbers with a scale for every block of an axis: `top.dequantize_blocks`.

    %w = top.dequantize_blocks(%q, %scale, %zero) {axis = 0, block_size = 32}
             %q : tensor<4096x11008xui4>    %scale : tensor<128x11008xf32>    %w like %q, in f32

So the weights of language models are stored: 4 bits each, and a scale for 32 to 128 of them. The
parameters are operands, for there are too many of them for a type (`top.quantized`).
Reference: ONNX operators, DequantizeLinear-21; Frantar et al., "GPTQ: Accurate Post-Training
Quantization for Generative Pre-trained Transformers", 2023.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import AnyFloat, IntegerAttr, TensorType
from xdsl.ir import Attribute
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
    result_def,
)

from explorer.ir.compute import KernelBuilder, Scalar, ScalarBuilder, Subscript
from explorer.ir.operation import Access, TopOperation
from explorer.ir.top.arithmetic import in_arithmetic_types
from explorer.ir.top.definitions import domain
from explorer.ir.types import (
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
    """(x - zero point) * scale, with one of each for `block_size` elements along `axis`.

    scale: floats; as x, but ceil(size / block_size) along the axis, and perhaps 1 along others.
    zero_point: of scale's shape, integers or floats; none is 0. The result has scale's element
    type; it is computed in f32 (f64 where that is one) and rounded once.
    """

    name = "top.dequantize_blocks"
    FAMILY: ClassVar[str] = "quantization"
    KEEPS_FINITE: ClassVar[bool] = True

    input = operand_def(TensorType)
    scale = operand_def(TensorType)
    zero_point = opt_operand_def(TensorType)
    axis = prop_def(IntegerAttr)
    block_size = prop_def(IntegerAttr)
    output = result_def(TensorType)

    def infer_types(self) -> list[Attribute]:
        shape, block, axis = shape_of(self.input), self.get("block_size"), self.get("axis")
        if not 0 <= axis < len(shape) or block < 1:
            raise ValueError(f"blocks of {block} along axis {axis} of {shape}")
        if not isinstance(element_type_of(self.scale), AnyFloat):
            raise ValueError(f"scales are floats, not {element_type_of(self.scale)}")
        for operand, role in ((self.scale, "scales"), (self.zero_point, "zero points")):
            if operand is not None:
                self._check_parameters(shape_of(operand), role)
        return [tensor_type(element_type_of(self.scale), shape)]

    def _check_parameters(self, own: Shape, role: str) -> None:
        shape, block, blocked = shape_of(self.input), self.get("block_size"), self.get("axis")
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
        axis, wide = self.get("axis"), numpy_dtype(arithmetic_type(element_type_of(self.output)))
        block_of = np.arange(x.shape[axis]) // self.get("block_size")
        real = x.astype(wide)
        with np.errstate(all="ignore"):
            if zero:
                real = real - np.take(zero[0].astype(wide), block_of, axis=axis)
            return (real * np.take(scale, block_of, axis=axis),)

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        """A statement for all whole blocks, and one for a last block that is cut off."""
        sizes, axis, block = static_shape(self.input), self.get("axis"), self.get("block_size")
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
        return f"dequantize blocks of {self.get('block_size')}"
