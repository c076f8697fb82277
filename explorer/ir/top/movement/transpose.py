"""The axes of a tensor in another order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, TensorType
from xdsl.ir import SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
)

from explorer.ir.compute import KernelBuilder
from explorer.ir.gradients import GradientBuild
from explorer.ir.interfaces import Differentiable
from explorer.ir.operation import Access
from explorer.ir.top.definitions import (
    common_extents,
    domain,
)
from explorer.ir.top.movement.operation import MovementOperation, clear_behind, same_element
from explorer.ir.types import (
    Shape,
    shape_of,
    static_shape,
)


@irdl_op_definition
class TransposeOp(Differentiable, MovementOperation):
    """Axes in another order: axis a of the result is axis permutation[a] of the input."""

    name = "top.transpose"
    READS_ANY_LAYOUT: ClassVar[bool] = True

    input = operand_def(TensorType)
    permutation = prop_def(DenseArrayBase)
    output = result_def(TensorType)

    def moved_axis(self, axis: int) -> int:
        return self.get("permutation").index(axis)

    @property
    def is_view(self) -> bool:
        """Moving axes of extent 1 moves no element."""
        if not self.has_plain_buffers:
            return False
        sizes = static_shape(self.input)
        order = [axis for axis in self.get("permutation") if sizes[axis] != 1]
        return order == sorted(order)

    def result_shape(self) -> Shape:
        shape, permutation = shape_of(self.input), self.get("permutation")
        if sorted(permutation) != list(range(len(shape))):
            raise ValueError(f"{list(permutation)} is no order of the axes of {shape}")
        return tuple(shape[axis] for axis in permutation)

    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        return (np.transpose(operands[0], self.get("permutation")),)

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        (x,) = inputs
        permutation = self.get("permutation")
        extents = common_extents([x.shape[axis] for axis in permutation], output.shape)
        d = k.dimensions(**domain(extents))
        source = [d[permutation.index(axis)] for axis in range(x.rank)]
        k.generic("plain", [x.at(*source)], output.at(*d), same_element)
        clear_behind(k, output, extents)
        return "copy"

    def carried_axis(self, index: int, axis: int) -> int:
        return self.get("permutation").index(axis)

    def label(self) -> str:
        return f"transpose {', '.join(map(str, self.get('permutation')))}"

    def operand_gradient(self, index: int, g: SSAValue, build: GradientBuild) -> SSAValue:
        return build.transpose(g, np.argsort(self.get("permutation")).tolist())
