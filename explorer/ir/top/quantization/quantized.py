"""Between real and quantized numbers: `top.quantize`, `top.dequantize`, `top.requantize`.

    %q = top.quantize(%x) {to = !top.quantized<ui8, 0.1:128>} : tensor<4x!top.quantized<...>>
    %x = top.dequantize(%q) {to = f32} : tensor<4xf32>
    %n = top.requantize(%sum) {by = #top.requantization<!top.quantized<i8, 0.05:0>, ...>}

A quantized tensor says in its element type what its integers mean. Products of quantized tensors
are sums of integers (`top.conv`, `top.matmul`), movement keeps the type, and elementwise operations
compute in real numbers and quantize their result (`to`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import AnyFloat, IntegerType, TensorType
from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def

from explorer.ir.compute import KernelBuilder, Scalar, ScalarBuilder, Subscript
from explorer.ir.operation import Access
from explorer.ir.requantization import RequantizationAttr
from explorer.ir.top.arithmetic import in_arithmetic_types
from explorer.ir.top.support.broadcasting import ElementwiseOperation, iteration
from explorer.ir.top.support.operands import require_slices
from explorer.ir.top.support.quantized_scalars import (
    Tables,
    centered,
    centered_scalar,
    parameter_tables,
    real_array,
    real_scalar,
    requantization_tables,
    requantized_array,
    requantized_scalar,
    stored_array,
    stored_scalar,
    table_reads,
)
from explorer.ir.types import QuantizedType, element_type_of, shape_of, tensor_type


class QuantizationOperation(ElementwiseOperation):
    """What they share: one statement over all elements, with tables along the axis of scales."""

    FAMILY: ClassVar[str] = "quantization"
    KEEPS_FINITE: ClassVar[bool] = True
    TAKES_QUANTIZED: ClassVar[bool] = True
    KEEPS_FINITE: ClassVar[bool] = True

    @property
    def parameters(self) -> QuantizedType:
        """The quantized type whose scales may differ per slice: the operand's unless said."""
        kind = element_type_of(self.operands[0])
        if not isinstance(kind, QuantizedType):
            raise ValueError(f"{self.name} takes quantized numbers, not {kind}")
        return kind

    def kernel_shapes(
        self,
        operands: list[tuple[int, ...]],
        output: tuple[int, ...],
        kept: Collection[int] = (),
    ) -> tuple[list[tuple[int, ...]], tuple[int, ...]]:
        """Axes are merged only where no table runs along one of them."""
        if not self.parameters.is_per_tensor:
            return operands, output
        return super().kernel_shapes(operands, output, kept)

    def scalar(self, x: Scalar, *tables: Scalar) -> Scalar:
        """The result's element, of the operand's and those of the tables."""
        raise NotImplementedError(self.name)

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        x, *tables = inputs
        d = k.dimensions(**iteration(output.shape))
        slice_index: Subscript = (
            0 if self.parameters.is_per_tensor else d[self.parameters.axis.data]
        )

        def body(s: ScalarBuilder, x: Scalar, *elements: Scalar) -> Scalar:
            return self.scalar(x, *elements)

        reads = [x.at(*d), *table_reads(tables, slice_index)]
        k.generic("plain", reads, output.at(*d), body)
        return "elementwise"


@irdl_op_definition
class QuantizeOp(QuantizationOperation):
    """clip(round_half_even(x / scale) + zero point): real numbers to the stored ones of `to`.

    Numbers of 32 bits are kept below 2^31 - 127: singles hold none between that and 2^31.
    Reference: ONNX operators, QuantizeLinear.
    """

    name = "top.quantize"

    input = operand_def(TensorType)
    to = prop_def(QuantizedType)
    output = result_def(TensorType)

    @property
    def parameters(self) -> QuantizedType:
        return self.to

    def infer_types(self) -> list[Attribute]:
        if not isinstance(element_type_of(self.input), AnyFloat):
            raise ValueError(f"{self.name} takes floats, not {element_type_of(self.input)}")
        require_slices(self.to, shape_of(self.input))
        if self.to.storage.width.data > 16 and self.to.storage != IntegerType(32):
            raise ValueError(f"{self.name} makes integers of at most 16 bits, or i32")
        return [tensor_type(self.to, shape_of(self.input))]

    @in_arithmetic_types
    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        return (stored_array(operands[0], self.to),)

    def kernel_constants(self) -> Tables:
        return parameter_tables(self.to)

    def scalar(self, x: Scalar, *tables: Scalar) -> Scalar:
        return stored_scalar(x, self.to, *tables)

    def label(self) -> str:
        return f"quantize {self.to.storage}"


@irdl_op_definition
class DequantizeOp(QuantizationOperation):
    """(x - zero point) * scale: stored numbers to real ones, in f32, rounded to `to` at the end.

    Reference: ONNX operators, DequantizeLinear.
    """

    name = "top.dequantize"

    input = operand_def(TensorType)
    to = prop_def(Attribute)
    output = result_def(TensorType)

    def infer_types(self) -> list[Attribute]:
        require_slices(self.parameters, shape_of(self.input))
        if not isinstance(self.to, AnyFloat):
            raise ValueError(f"{self.name} makes floats, not {self.to}")
        return [tensor_type(self.to, shape_of(self.input))]

    @in_arithmetic_types
    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        return (real_array(operands[0], self.parameters),)

    def kernel_constants(self) -> Tables:
        return parameter_tables(self.parameters)

    def scalar(self, x: Scalar, *tables: Scalar) -> Scalar:
        return real_scalar(x, self.parameters, *tables).convert(self.to)

    def label(self) -> str:
        return "dequantize"


@irdl_op_definition
class RequantizeOp(QuantizationOperation):
    """Quantized numbers in another quantized type, by the scheme that `by` states.

    The zero points of its operand are one per tensor. See `explorer.ir.requantization`.
    """

    name = "top.requantize"

    input = operand_def(TensorType)
    by = prop_def(RequantizationAttr)
    output = result_def(TensorType)

    def infer_types(self) -> list[Attribute]:
        require_slices(self.parameters, shape_of(self.input))
        check_requantization(self.parameters, self.by)
        return [tensor_type(self.by.to, shape_of(self.input))]

    @in_arithmetic_types
    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        sums = centered(operands[0], self.parameters)
        return (requantized_array(sums, self.parameters, self.by),)

    def kernel_constants(self) -> Tables:
        return requantization_tables(self.parameters, self.by)

    def scalar(self, x: Scalar, *tables: Scalar) -> Scalar:
        return requantized_scalar(centered_scalar(x, self.parameters), self.by, *tables)

    def label(self) -> str:
        return f"requantize {self.by.to.storage}"


def check_requantization(kind: QuantizedType, by: RequantizationAttr) -> None:
    """ValueError where no kernel can requantize numbers of that type so."""
    by.check()
    zeros = kind.zero_point_array
    if np.any(zeros != zeros[0]):
        raise ValueError("what is requantized has one zero point")
    requantization_tables(kind, by)
