"""Where data comes from and goes: weights, transfers between devices, layout changes, return."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import StringAttr, TensorType
from xdsl.ir import Attribute
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import IsTerminator

from explorer.ir.compute import KernelBuilder
from explorer.ir.deferred import ArrayForm
from explorer.ir.operation import Access, TopOperation
from explorer.ir.types import layout_of, tensor_type, with_layout


@irdl_op_definition
class WeightOp(TopOperation):
    """A constant of the `Weights` store beside the IR. `weight` is its name there."""

    name = "top.weight"
    FAMILY: ClassVar[str] = "weight"

    weight = prop_def(StringAttr)
    output = result_def(TensorType)

    def infer_types(self) -> list[Attribute]:
        return [self.output.type]

    def label(self) -> str:
        return f"weight {self.weight.data}"


@irdl_op_definition
class TransferOp(TopOperation):
    """Moves a tensor to another device; its value stays what it was. `to` names the device."""

    name = "top.transfer"
    FAMILY: ClassVar[str] = "transfer"
    TAKES_QUANTIZED: ClassVar[bool] = True

    input = operand_def(TensorType)
    to = prop_def(StringAttr)
    output = result_def(TensorType)

    def infer_types(self) -> list[Attribute]:
        return [self.input.type]

    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        return (operands[0],)

    def label(self) -> str:
        return f"to {self.to.data}"


@irdl_op_definition
class ConvertLayoutOp(TopOperation):
    """Copies a tensor into another physical layout; what it means stays the same.

    tensor<1x3x8x8xf32>  ->  tensor<1x3x8x8xf32, #top.encoding<block = 16, halo = [1, 1, 1, 1]>>
    """

    name = "top.convert_layout"
    FAMILY: ClassVar[str] = "movement"
    TAKES_QUANTIZED: ClassVar[bool] = True
    KEEPS_FINITE: ClassVar[bool] = True

    input = operand_def(TensorType)
    output = result_def(TensorType)

    def infer_types(self) -> list[Attribute]:
        if not self.results:
            return [self.input.type]
        return [with_layout(self.input.type, layout_of(self.output))]

    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        return (operands[0],)

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        """Copies the channels that both sides have; padding channels of the output become 0.

        Whole blocks and the rest of the channels are two statements: each lies evenly in blocks.
        """
        (source,) = inputs
        if output.rank < 2:
            d = k.dimensions(**_names(output.shape or (1,)))
            k.generic("plain", [source.broadcast(d)], output.broadcast(d), lambda s, x: x)
            return "copy"
        batch, channels, *spatial = output.shape
        shared = min(source.shape[1], channels)
        block = layout_of(self.input).block or layout_of(self.output).block or shared or 1
        whole = shared // block * block
        if shared < channels:
            d = k.dimensions(**_names(output.shape))
            k.generic("init", [], output.at(*d), lambda s: s.constant(0))
        for first, count in ((0, whole), (whole, shared - whole)):
            if count:
                d = k.dimensions(**_names((batch, count, *spatial)))
                at = (d[0], d[1] + first if first else d[1], *d[2:])
                k.generic("plain", [source.at(*at)], output.at(*at), lambda s, x: x)
        return "copy"

    def label(self) -> str:
        layout = layout_of(self.output)
        form = f"nchw{layout.block}c" if layout.block else "nchw"
        halo = " +halo" if any(layout.halo) else ""
        return f"to {form}{halo}"


@irdl_op_definition
class ReturnOp(TopOperation):
    """Ends a function with its results."""

    name = "top.return"
    FAMILY: ClassVar[str] = "output"
    TAKES_QUANTIZED: ClassVar[bool] = True

    values = var_operand_def(TensorType)

    traits = traits_def(IsTerminator())

    def infer_types(self) -> list[Attribute]:
        return []


def _names(shape: Sequence[int]) -> dict[str, int]:
    return {f"d{i}": size for i, size in enumerate(shape)}


def weight_type(
    array: np.ndarray | ArrayForm, element_type: Attribute | None = None
) -> TensorType[Attribute]:
    """The tensor type of a weight's array; its element type where that is not NumPy's."""
    from explorer.ir.types import element_type_from_numpy

    return tensor_type(element_type or element_type_from_numpy(array.dtype), array.shape)
