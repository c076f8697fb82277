"""Sizes and numbers that follow from the size of a past.

   %n = top.shape(%present) {start = 2, end = 3}       as a size it is the capacity
   %ids = top.range(%n, ...)                           as a number it is the valid length
=> %ids = top.binary(%past_length, [0, 1 ..]) {kind = "add"}
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import SSAValue

from explorer.ir.operation import TopOperation
from explorer.ir.rewriting.copying import copy_operation
from explorer.ir.top.data import WeightOp
from explorer.ir.top.elementwise import BinaryOp
from explorer.ir.top.indexing import GatherOp
from explorer.ir.top.movement.reshape import ExpandOp, ReshapeOp
from explorer.ir.top.movement.slices import SliceOp, onnx_slice_range
from explorer.ir.top.shapes import RangeOp, ShapeOp
from explorer.ir.types import element_type_of, is_static, numpy_dtype, static_shape, tensor_type
from explorer.passes.simplify.fold_constants import SpecializeExpand, SpecializeReshape
from explorer.passes.sizes.infer_shapes import infer_again
from explorer.passes.states.editing import Editing
from explorer.passes.states.growth import Refused

KEEP_PAST = "keep-past"


class PastSizes:
    """What operations read of sizes that grow, at the valid length."""

    def __init__(
        self,
        edit: Editing,
        length: SSAValue,
        full: int,
    ) -> None:
        """full: rows of a past when the state is full."""
        self.edit, self.growth, self.length, self.full = edit, edit.growth, length, full
        self.content: dict[SSAValue, SSAValue] = {}
        """Values that the size of the past decides, with what they are at the valid length."""
        self.places: set[SSAValue] = set()
        """Indices that count from the valid length on."""

    def number(self, op: TopOperation) -> None:
        """Operands that the past's size decides are what they are at the valid length."""
        if not all(map(is_static, op.results)):
            op = self._with_known_shape(op)
        if isinstance(op, WeightOp):
            self.edit.pure.add(op.output)
        elif isinstance(op, ShapeOp):
            self._shape(op)
        elif isinstance(op, RangeOp):
            self._range(op)
        elif isinstance(op, SliceOp):
            self._slice(op)
        else:
            self._pass_content(op)

    def _with_known_shape(self, op: TopOperation) -> TopOperation:
        """The operation with the shape that follows from constants and from sizes as sizes."""
        with self.edit.events.rewrite("shape", op, "constants and sizes decide its shape"):
            if isinstance(op, SliceOp):
                taken = slice_positions(op, self.edit)
                if taken is not None:
                    shape = [len(positions) for positions in taken]
                    kind = tensor_type(element_type_of(op.output), shape)
                    self.edit.rewriter.set_type(op.output, kind)
            elif isinstance(op, ReshapeOp | ExpandOp):
                op = self._with_constant_target(op)
            infer_again(op, self.edit.rewriter, KEEP_PAST)
            if all(map(is_static, op.results)) and not self.growth.of_value(op.results[0]):
                self.growth.follow(op)
        return op

    def _with_constant_target(self, op: ReshapeOp | ExpandOp) -> TopOperation:
        target = None if op.target is None else self.edit.constants(op.target)
        if target is None or not is_static(op.input):
            return op
        self.edit.rewriter.set_operand(op, 1, self.edit.weight(op, "target", target))
        after = op.next_op
        if isinstance(op, ReshapeOp):
            SpecializeReshape().rewrite(op, self.edit.rewriter)
        else:
            SpecializeExpand().rewrite(op, self.edit.rewriter)
        assert after is not None and isinstance(after.prev_op, TopOperation)
        return after.prev_op

    def _has_content(self, op: TopOperation, places: Sequence[int]) -> bool:
        return any(op.operands[place] in self.content for place in places)

    def _shape(self, op: ShapeOp) -> None:
        """The sizes at full capacity, and at the valid length."""
        shape = static_shape(op.input)
        sizes = np.array(shape, np.int64)[op.get("start", 0) : op.get("end")]
        growing = self.growth.of_value(op.input)
        axes = list(range(len(shape)))[op.get("start", 0) : op.get("end")]
        grows = np.array([axis in growing for axis in axes])
        with self.edit.events.rewrite("size", op, "as a size it is the capacity's"):
            value = self.edit.weight(op, "sizes", sizes)
            if grows.any():
                fixed = self.edit.weight(op, "fixed", sizes - grows * self.full)
                chosen = self.edit.weight(op, "chosen", grows.astype(np.int64))
                own = self.edit.added(op, BinaryOp.make([chosen, self.length], kind="mul"))
                self.content[value] = self.edit.added(op, BinaryOp.make([own, fixed], kind="add"))
            self.edit.rewriter.replace(op, value)
        self.edit.pure.add(value)

    def _range(self, op: RangeOp) -> None:
        """Numbers that begin at the valid length; where only their end grows, there are more."""
        if not all(operand in self.edit.pure for operand in op.operands):
            if self._has_content(op, (0, 1, 2)):
                raise Refused("data and the past's size decide a range", op)
            return
        self.edit.pure.add(op.output)
        if op.delta in self.content:
            raise Refused("a step grows with the past", op)
        if op.start not in self.content:
            return
        step = self.edit.constant(op.delta)
        if step is None or not is_static(op.output):
            raise Refused("the step or the size of a range is not known", op)
        kind = numpy_dtype(element_type_of(op.output))
        steps = (np.arange(static_shape(op.output)[0]) * step).astype(kind)
        self.content[op.output] = self.edit.counted_from(op, self.content[op.start], steps)

    def _slice(self, op: SliceOp) -> None:
        """What begins at the valid length, or so many rows before its end, is gathered; what ends
        there ends at the capacity."""
        if not op.is_static_slice and op.operands[1] in self.content:
            steps = self.edit.constant(op.operands[3]) if len(op.operands) > 3 else 1
            if len(op.get("axes")) != 1 or steps not in (None, 1) or not is_static(op.output):
                raise Refused("more than one axis begins with the past's size", op)
            self._gather(op, op.get("axes")[0], self.content[op.operands[1]])
            return
        last = self._last_rows(op)
        if last is None:
            self._pass_content(op)
            return
        axis, begin = last
        with self.edit.events.rewrite("gather", op, "it ends with the valid length"):
            more = self.edit.weight(op, "begin", np.array(begin, np.int64))
            begins = self.edit.added(op, BinaryOp.make([self.length, more], kind="add"))
        self._gather(op, axis, begins)

    def _last_rows(self, op: SliceOp) -> tuple[int, int] | None:
        """The axis of which the last rows are taken, and the first of them for an empty past."""
        shape, taken = static_shape(op.input), slice_positions(op, self.edit)
        if taken is None or taken == [range(size) for size in shape]:
            return None
        cut = [axis for axis, size in enumerate(shape) if taken[axis] != range(size)]
        (axis,) = cut if len(cut) == 1 else (None,)
        if axis not in self.growth.of_value(op.input) or _first_taken(op, axis, self.edit) >= 0:
            return None
        begin = taken[axis].start - self.full
        is_last = taken[axis] == range(taken[axis].start, shape[axis])
        return (axis, begin) if is_last and begin >= 0 else None

    def _gather(self, op: SliceOp, axis: int, start: SSAValue) -> None:
        axis %= len(static_shape(op.input))
        count = static_shape(op.output)[axis]
        with self.edit.events.rewrite("gather", op, "it begins at the valid length"):
            scalar = self.edit.added(op, ReshapeOp.make([start, None], shape=[]))
            kind = numpy_dtype(element_type_of(scalar))
            places = self.edit.counted_from(op, scalar, np.arange(count).astype(kind))
            self.places.add(places)
            source = self.content.get(op.input, op.input)
            gather = GatherOp.make([source, places], axis=axis)
            axes = tuple(a for a in self.growth.of_value(op.output) if a != axis)
            if op.input in self.edit.pure:
                self.content[op.output] = self.edit.added(op, gather)
                self.edit.pure.add(op.output)
            else:
                self.edit.rewriter.replace(op, gather)
            self.growth.give(gather.output, axes)

    def _pass_content(self, op: TopOperation) -> None:
        """Operands are what they are at the valid length, but for sizes."""
        sizes_from = getattr(type(op), "SIZES_FROM", None)
        end = len(op.operands) if sizes_from is None else sizes_from
        places = [i for i in range(end) if op.operands[i] in self.content]
        is_pure = bool(op.operands) and all(operand in self.edit.pure for operand in op.operands)
        if is_pure:
            self.edit.pure.update(op.results)
        if not places:
            return
        axes = [self.growth.of_value(result) for result in op.results]
        if not is_pure:
            with self.edit.events.rewrite("number", op, "as a number it is the valid length's"):
                for place in places:
                    value = self.content[op.operands[place]]
                    self.places.add(value)
                    self.edit.rewriter.set_operand(op, place, value)
            return
        values = {op.operands[place]: self.content[op.operands[place]] for place in places}
        copy = copy_operation(op, dict(values))
        copy.attributes = {}
        with self.edit.events.rewrite("number", op, "as a number it is the valid length's"):
            self.edit.added(op, copy)
        self.content.update(zip(op.results, copy.results, strict=True))
        for found, new in zip(axes, copy.results, strict=True):
            self.growth.give(new, found)


def slice_positions(op: SliceOp, edit: Editing) -> list[range] | None:
    """What is taken of each axis; None where data decide it."""
    if not is_static(op.input):
        return None
    shape = static_shape(op.input)
    if op.is_static_slice:
        return op.ranges(shape)
    numbers = [edit.constants(bound) for bound in op.operands[1:]]
    known = [number.tolist() for number in numbers if number is not None]
    if len(known) != len(numbers):
        return None
    axes, taken = op.get("axes"), [range(size) for size in shape]
    known += [[1] * len(axes)] * (3 - len(known))
    for axis, start, stop, step in zip(axes, *known, strict=True):
        taken[axis] = onnx_slice_range(shape[axis], start, stop, step)
    return taken


def _first_taken(op: SliceOp, axis: int, edit: Editing) -> int:
    """The start of a slice along an axis as it is given: negative from the end."""
    if op.is_static_slice:
        return op.get("starts")[axis]
    starts = edit.constants(op.operands[1])
    assert starts is not None
    return int(starts[op.get("axes").index(axis)])
