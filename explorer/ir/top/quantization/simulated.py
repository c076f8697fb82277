"""`top.simulate_quantization`: what quantizing costs a tensor, in floats.

    %s = top.simulate_quantization(%x) {tensor = "relu3"} : tensor<1x8x6x6xf32>

Its three parameters lie in tables beside the kernel, where a program that is built may have others
written over them: one program answers for all thresholds of all its tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects import math
from xdsl.dialects.builtin import Float32Type, StringAttr, TensorType
from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def

from explorer.ir.compute import KernelBuilder, Scalar, ScalarBuilder
from explorer.ir.operation import Access
from explorer.ir.top.support.broadcasting import ElementwiseOperation, iteration
from explorer.ir.top.support.quantized_scalars import Tables
from explorer.ir.types import element_type_of, shape_of, tensor_type

UNQUANTIZED = (2.0**-100, -(2.0**127), 2.0**127)
"""Parameters that change no number: a float whose exponent is above -77 is a multiple of the scale,
and one below is 0 for whoever adds it to anything."""
TABLES = ("scale", "lowest", "highest")


@irdl_op_definition
class SimulateQuantizationOp(ElementwiseOperation):
    """clip(round_half_even(x / scale), lowest, highest) * scale, all in f32.

    lowest and highest are those of the storage, less the zero point. `tensor` is the source's.
    """

    name = "top.simulate_quantization"

    FAMILY: ClassVar[str] = "quantization"
    KEEPS_FINITE: ClassVar[bool] = True

    input = operand_def(TensorType)
    tensor = prop_def(StringAttr)
    output = result_def(TensorType)

    def infer_types(self) -> list[Attribute]:
        if element_type_of(self.input) != Float32Type():
            raise ValueError(f"{self.name} takes f32, not {element_type_of(self.input)}")
        return [tensor_type(Float32Type(), shape_of(self.input))]

    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        """With the parameters that it begins with, which change nothing."""
        return (np.array(operands[0]),)

    def kernel_constants(self) -> Tables:
        return [
            (name, np.array([number], np.float32))
            for name, number in zip(TABLES, UNQUANTIZED, strict=True)
        ]

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        x, *tables = inputs
        d = k.dimensions(**iteration(output.shape))

        def body(
            s: ScalarBuilder, x: Scalar, scale: Scalar, lowest: Scalar, highest: Scalar
        ) -> Scalar:
            rounded = (x / scale).unary(math.RoundEvenOp)
            return rounded.maximum(lowest).minimum(highest) * scale

        k.generic("plain", [x.at(*d), *(t.at(0) for t in tables)], output.at(*d), body)
        return "elementwise"

    def label(self) -> str:
        return "simulate quantization"
