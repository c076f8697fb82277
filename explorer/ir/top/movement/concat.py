"""Tensors one behind the other along an axis."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from xdsl.dialects.builtin import BoolAttr, IntegerAttr, TensorType
from xdsl.ir import SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    result_def,
    var_operand_def,
)

from explorer.ir.compute import KernelBuilder
from explorer.ir.gradients import GradientBuild
from explorer.ir.interfaces import (
    AlongAxis,
    Blockable,
    Differentiable,
    JoinsPieces,
    Piece,
    Reshaped,
    Rows,
    SizeConstrained,
    SizeContents,
    Status,
    require_rows,
)
from explorer.ir.operation import Access
from explorer.ir.sizes.dimensions import (
    sum_of,
)
from explorer.ir.sizes.relations import Relation
from explorer.ir.top.definitions import (
    CHANNELS,
    common_extents,
    domain,
)
from explorer.ir.top.movement.operation import (
    MovementOperation,
    clear_behind,
    same_element,
)
from explorer.ir.types import (
    Shape,
    shape_of,
    static_shape,
)


@irdl_op_definition
class ConcatOp(
    Differentiable, JoinsPieces, SizeConstrained, AlongAxis, Blockable, MovementOperation
):
    """All inputs one behind the other along an axis.

    in_place: every input is written where the result has it, so that there is nothing to copy.
    """

    name = "top.concat"

    inputs = var_operand_def(TensorType)
    axis = prop_def(IntegerAttr)
    in_place = opt_prop_def(BoolAttr)
    output = result_def(TensorType)

    def pieces(self) -> Sequence[Piece]:
        axis, found, start = self.get("axis"), [], 0
        for operand in self.operands:
            found.append(Piece(self.output, operand, axis, start))
            start += static_shape(operand)[axis]
        return found

    def moved_operands(self) -> Sequence[SSAValue]:
        return tuple(self.operands)

    def result_shape(self) -> Shape:
        shapes, axis = [shape_of(o) for o in self.operands], self.get("axis")
        if not shapes:
            raise ValueError("nothing to concatenate")
        rank = len(shapes[0])
        if not 0 <= axis < rank or any(len(shape) != rank for shape in shapes):
            raise ValueError(f"{shapes} cannot be joined along axis {axis}")
        result = []
        for position, sizes in enumerate(zip(*shapes, strict=True)):
            numbers = {size for size in sizes if isinstance(size, int)}
            if position == axis:
                result.append(sum_of(sizes))
            elif len(numbers) > 1:
                raise ValueError(f"{shapes} cannot be joined along axis {axis}: axis {position}")
            else:
                result.append(numbers.pop() if numbers else sizes[0])
        return tuple(result)

    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        return (np.concatenate(operands, axis=self.get("axis")),)

    def why_not_blocked(self, block: int) -> str:
        is_along = self.get("axis") == CHANNELS
        if not is_along or any(static_shape(o)[CHANNELS] % block for o in self.operands):
            return "the channels that it joins do not fill whole blocks"
        return ""

    def reshaped_operands(self) -> Sequence[int]:
        return range(len(self.operands))

    def before_reshape(self, around: Sequence[Reshaped]) -> Mapping[str, int]:
        """All inputs are reshaped alike but for their sizes along the axis."""
        axes = {own.axis(self.get("axis")) for own in around}
        (axis,) = axes if len(axes) == 1 else (None,)
        if axis is None:
            raise ValueError("its axis is none before the reshapes")
        others = {(*own.source[:axis], *own.source[axis + 1 :]) for own in around}
        if len(others) != 1:
            raise ValueError("its inputs had different shapes before")
        return {"axis": axis}

    def size_relations(self, contents: SizeContents) -> Iterator[Relation]:
        shapes = [shape_of(o) for o in self.operands]
        for axis, sizes in enumerate(zip(*shapes, strict=True)):
            if axis != self.get("axis"):
                for size in sizes[1:]:
                    yield "equal", sizes[0], size

    def carried_axis(self, index: int, axis: int) -> int:
        require_rows(axis != self.get("axis"), "it joins along the rows")
        return axis

    def check_rows(self, given: Sequence[Status], result: Rows, contents: SizeContents) -> None:
        is_same = all(status == result for status in given)
        require_rows(is_same, "its operands' rows are not the same")

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        axis, offset = self.get("axis"), 0
        covered = list(output.shape)
        for access, operand in zip(inputs, self.operands, strict=True):
            extents = common_extents(access.shape, output.shape)
            extents[axis] = static_shape(operand)[axis]
            if extents[axis] == 0:
                continue
            d = k.dimensions(**domain(extents))
            target = [s + offset if a == axis and offset else s for a, s in enumerate(d)]
            k.generic("plain", [access.at(*d)], output.at(*target), same_element)
            offset += extents[axis]
            covered = common_extents(covered, extents)
        covered[axis] = offset
        clear_behind(k, output, covered)
        return "copy"

    def operand_gradient(self, index: int, g: SSAValue, build: GradientBuild) -> SSAValue:
        axis = self.get("axis")
        sizes = [
            build.sizes(o, [axis], "the gradient of a concatenation")[0] for o in self.operands
        ]
        begin = sum(sizes[:index])
        return build.slice(g, axis, begin, begin + sizes[index])
