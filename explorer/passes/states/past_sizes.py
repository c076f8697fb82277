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
from explorer.ir.top.movement.reshape import ReshapeOp
from explorer.ir.top.movement.slices import SliceOp
from explorer.ir.top.shapes import RangeOp, ShapeOp
from explorer.ir.types import element_type_of, is_static, numpy_dtype, static_shape
from explorer.passes.states.editing import Editing
from explorer.passes.states.growth import Refused


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
        if isinstance(op, WeightOp):
            self.edit.pure.add(op.output)
        elif isinstance(op, ShapeOp):
            self._shape(op)
        elif isinstance(op, RangeOp):
            self._range(op)
        elif isinstance(op, SliceOp) and self._has_content(op, range(1, len(op.operands))):
            self._slice(op)
        else:
            self._pass_content(op)

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
        """What begins at the valid length is gathered; what ends there ends at the capacity."""
        starts = op.operands[1]
        axes = op.get("axes")
        if starts not in self.content:
            self._pass_content(op)
            return
        steps = self.edit.constant(op.operands[3]) if len(op.operands) > 3 else 1
        if axes is None or len(axes) != 1 or steps not in (None, 1) or not is_static(op.output):
            raise Refused("more than one axis begins with the past's size", op)
        axis = axes[0] % len(static_shape(op.input))
        count = static_shape(op.output)[axis]
        with self.edit.events.rewrite("gather", op, "it begins at the valid length"):
            start = self.content[starts]
            scalar = self.edit.added(op, ReshapeOp.make([start, None], shape=[]))
            kind = numpy_dtype(element_type_of(scalar))
            places = self.edit.counted_from(op, scalar, np.arange(count).astype(kind))
            self.places.add(places)
            source = self.content.get(op.input, op.input)
            gather = GatherOp.make([source, places], axis=axis)
            axes = self.growth.of_value(op.output)
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
