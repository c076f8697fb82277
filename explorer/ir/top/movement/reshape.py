"""Other shapes for the same elements: in order (reshape), or repeated (expand)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import BoolAttr, DenseArrayBase, TensorType
from xdsl.ir import SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    result_def,
)

from explorer.ir.compute import KernelBuilder
from explorer.ir.gradients import GradientBuild
from explorer.ir.interfaces import (
    Differentiable,
    Rows,
    SizeConstrained,
    SizeContents,
    Status,
    aligned_axis,
    require_rows,
)
from explorer.ir.operation import Access
from explorer.ir.sizes.dimensions import (
    product,
    reshaped,
)
from explorer.ir.sizes.relations import Relation, broadcast_relations, divisible, same_count
from explorer.ir.sizes.symbols import Expression
from explorer.ir.top.definitions import (
    CHANNELS,
    clear_padding_channels,
    domain,
)
from explorer.ir.top.elementwise import broadcast_shapes
from explorer.ir.top.movement.operation import MovementOperation, clear_behind, same_element
from explorer.ir.top.reshaping import common_pieces, define_flat_copy, joined_subscripts
from explorer.ir.types import (
    Shape,
    format_shape,
    is_static,
    shape_of,
    static_shape,
)


@irdl_op_definition
class ReshapeOp(Differentiable, SizeConstrained, MovementOperation):
    """The same elements, in row-major order, under another shape.

    shape: the result's sizes, at most one -1 (what remains). Or the operand `target`, an i64
    vector by ONNX's rules: 0 copies the input's size unless `allow_zero`.
    """

    name = "top.reshape"
    SIZES_FROM: ClassVar[int | None] = 1

    input = operand_def(TensorType)
    target = opt_operand_def(TensorType)
    shape = opt_prop_def(DenseArrayBase)
    allow_zero = opt_prop_def(BoolAttr)
    output = result_def(TensorType)

    @property
    def is_view(self) -> bool:
        return self.has_plain_buffers

    @property
    def is_sized_by_contents(self) -> bool:
        return self.target is not None

    def moved_axis(self, axis: int) -> int:
        """The axis of the same extent with as many elements before it."""
        own, result = shape_of(self.input), self.result_shape()
        for position, size in enumerate(result):
            is_same = size == own[axis] and is_static(self.input)
            if is_same and product(result[:position]) == product(own[:axis]):
                return position
        return super().moved_axis(axis)

    def result_shape(self) -> Shape:
        if self.target is not None:
            return self.declared_or_unknown(self.numbers_of("the target", self.target))
        return reshaped(shape_of(self.input), self._sizes())

    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        x, *rest = operands
        if not rest:
            return (x.reshape(self._sizes()),)
        copies = not self.get("allow_zero", False)
        sizes = [
            x.shape[axis] if size == 0 and copies else int(size)
            for axis, size in enumerate(rest[0])
        ]
        return (x.reshape(sizes),)

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        """Loops over the pieces that both shapes consist of, so that subscripts stay linear."""
        (x,) = inputs
        source, target = static_shape(self.input), static_shape(self.output)
        pieces = common_pieces(source, target)
        if pieces is None:
            define_flat_copy(k, x, source, output, target)
        else:
            d = k.dimensions(**{f"d{i}": size for i, size in enumerate(pieces or [1])})
            read = x.at(*joined_subscripts(source, pieces, d))
            k.generic(
                "plain", [read], output.at(*joined_subscripts(target, pieces, d)), same_element
            )
        if output.rank > CHANNELS:
            clear_padding_channels(k, output, target[CHANNELS])
        return "copy"

    def _sizes(self) -> tuple[int, ...]:
        return self.get("shape", ())

    def size_relations(self, contents: SizeContents) -> Iterator[Relation]:
        """As many elements before as after; what is left for a size of -1 is a whole number."""
        source = shape_of(self.input)
        before = product(source)
        target = list(self._sizes()) if self.target is None else contents.sizes(self.target)
        if before is None or target is None:
            return
        copies = self.target is not None and not self.get("allow_zero", False)
        sizes = [
            source[a] if copies and t == 0 and a < len(source) else t for a, t in enumerate(target)
        ]
        after = product([s for s in sizes if s != -1])
        if after is None or not after.terms:
            return
        if -1 not in sizes:
            yield same_count(before, after)
        elif after.is_number:
            yield from divisible(before, after.constant)

    def end_of_numbers(self, contents: SizeContents) -> Expression | None:
        return contents.end(self.input)

    def carried_rows(self, index: int, rows: Rows, result: Rows) -> Rows:
        """Rows come first in both shapes: the first part of one is the first part of the other."""
        return result

    def check_rows(self, given: Sequence[Status], result: Rows, contents: SizeContents) -> None:
        require_rows(
            isinstance(given[0], Rows), "its shape depends on the size, its elements do not"
        )

    def label(self) -> str:
        return "reshape"

    def operand_gradient(self, index: int, g: SSAValue, build: GradientBuild) -> SSAValue:
        return build.reshape(g, build.all_sizes(self.operands[0]))


@irdl_op_definition
class ExpandOp(Differentiable, SizeConstrained, MovementOperation):
    """Repeats elements so that input and `shape` broadcast to one another, as ONNX's Expand.

    shape: a property, or the operand `target` (an i64 vector).
    """

    name = "top.expand"
    SIZES_FROM: ClassVar[int | None] = 1

    input = operand_def(TensorType)
    target = opt_operand_def(TensorType)
    shape = opt_prop_def(DenseArrayBase)
    output = result_def(TensorType)

    @property
    def is_view(self) -> bool:
        """Nothing is repeated, at most axes of extent 1 are put in front."""
        if not self.has_plain_buffers:
            return False
        return prod(static_shape(self.input)) == prod(static_shape(self.output))

    @property
    def is_sized_by_contents(self) -> bool:
        return self.target is not None

    def result_shape(self) -> Shape:
        shape = shape_of(self.input)
        if self.target is None:
            return broadcast_shapes(shape, self.get("shape", ()))
        length = self.numbers_of("the target", self.target)
        rank = max(length, len(shape)) if isinstance(length, int) else length
        return self.declared_or_unknown(rank)

    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        x, *rest = operands
        target = tuple(int(size) for size in rest[0]) if rest else self.get("shape", ())
        return (np.broadcast_to(x, np.broadcast_shapes(x.shape, target)),)

    def size_relations(self, contents: SizeContents) -> Iterator[Relation]:
        target = self.get("shape") if self.target is None else contents.sizes(self.target)
        if target is not None:
            yield from broadcast_relations([shape_of(self.input), tuple(target)])

    def end_of_numbers(self, contents: SizeContents) -> Expression | None:
        return contents.end(self.input)

    def carried_axis(self, index: int, axis: int) -> int:
        return aligned_axis(self, index, axis)

    def check_rows(self, given: Sequence[Status], result: Rows, contents: SizeContents) -> None:
        """Rows that stay where they are, or a constant that is repeated for every row."""
        shape = shape_of(self.input)
        axis = result.axis - len(shape_of(self.output)) + len(shape)
        is_repeated = axis < 0 or shape[axis] == 1
        require_rows(isinstance(given[0], Rows) or is_repeated, "it repeats rows")

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        (x,) = inputs
        own = [1] * (output.rank - x.rank) + list(x.shape)
        extents = [
            result if size == 1 else min(size, result)
            for size, result in zip(own, output.shape, strict=True)
        ]
        d = k.dimensions(**domain(extents))
        k.generic("plain", [x.broadcast(d)], output.at(*d), same_element)
        clear_behind(k, output, extents)
        return "copy"

    def label(self) -> str:
        return f"expand to {format_shape(shape_of(self.output))}"

    def operand_gradient(self, index: int, g: SSAValue, build: GradientBuild) -> SSAValue:
        return g
