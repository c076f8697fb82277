"""A past of several parts in one tensor: keys and values stacked, as onnxruntime exports them.

    %keys = top.concat(top.reshape(top.slice(%past)), %k) {axis = 2}          ... and %values
    %present = top.concat(top.reshape(%keys), top.reshape(%values)) {axis = 0}
 => %new = top.concat(top.reshape(%k), top.reshape(%v)) {axis = 0}
    %present = top.concat(%past, %new) {axis = 3}
    %keys = top.reshape(top.slice(%present))

What moves the past before new rows are joined to it (slices, gathers, transposes, reshapes) makes a
*view*, and what moves the joined rows makes the *stack*. All of it moves whole rows. So one row
with a number for each element decides: the stack of the views is the past as it was, and each view
of the new rows stacked is what was joined to that view.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.ir import Block, Operation, SSAValue

from explorer.ir.operation import TopOperation
from explorer.ir.structure import outermost
from explorer.ir.top.indexing import GatherOp
from explorer.ir.top.movement.concat import ConcatOp
from explorer.ir.top.movement.reshape import ReshapeOp
from explorer.ir.top.movement.slices import (
    TO_THE_END,
    SliceOp,
    slice_properties,
)
from explorer.ir.top.movement.transpose import TransposeOp
from explorer.ir.types import is_static, static_shape
from explorer.passes.states.editing import Editing
from explorer.passes.states.growth import moved_axes
from explorer.passes.states.past_sizes import slice_positions


@dataclass(frozen=True)
class _Move:
    """An operation that moves whole rows, for any number of them."""

    axis: int
    """That rows of the result follow each other along."""
    make: Callable[[Sequence[SSAValue]], TopOperation]
    indices: np.ndarray | None = None
    """Of a gather."""


@dataclass
class _Part:
    """What is made of a past, or of a past with new rows: values, with the axis of their rows."""

    axes: dict[SSAValue, int] = field(default_factory=dict)
    moves: dict[SSAValue, _Move] = field(default_factory=dict)


class StackedPast:
    """The views of one past, where new rows are joined to them, and what is made of that."""

    def __init__(self, past: SSAValue, axis: int, edit: Editing) -> None:
        block = past.owner
        assert isinstance(block, Block)
        self.past, self.axis, self.edit, self.block = past, axis, edit, block
        self.views, self.stacks = _Part({past: axis}), _Part()
        self.joins: dict[SSAValue, SSAValue] = {}
        """Views with new rows after them, and the new rows."""
        for op in block.ops:
            if isinstance(op, TopOperation):
                self._follow(op)

    def _follow(self, op: TopOperation) -> None:
        if isinstance(op, ConcatOp) and len(op.operands) == 2:
            view, new = op.operands
            known = {**self.views.axes, **self.stacks.axes}
            if self.views.axes.get(view) == op.get("axis") and new not in known:
                self.joins[op.output] = new
                self.stacks.axes[op.output] = op.get("axis")
                return
        for part in (self.views, self.stacks):
            axes = {part.axes.get(operand) for operand in _moved(op)}
            axis = axes.pop() if len(axes) == 1 else None
            move = None if axis is None else self._move(op, axis)
            if move is not None:
                part.axes[op.results[0]], part.moves[op.results[0]] = move.axis, move

    def _move(self, op: TopOperation, axis: int) -> _Move | None:
        """The operation for any number of rows, which its operands have along an axis."""
        if not all(map(is_static, (*op.operands, *op.results))):
            return None
        if isinstance(op, TransposeOp):
            order = list(op.get("permutation"))
            return _Move(order.index(axis), lambda x: TransposeOp.make(x, permutation=order))
        if isinstance(op, ConcatOp) and op.get("axis") != axis:
            return _Move(axis, lambda x: ConcatOp.make([x], axis=op.get("axis")))
        if isinstance(op, ReshapeOp):
            return self._reshape(op, axis)
        if isinstance(op, SliceOp):
            return self._slice(op, axis)
        return self._gather(op, axis) if isinstance(op, GatherOp) else None

    def _reshape(self, op: ReshapeOp, axis: int) -> _Move | None:
        places = self.edit.growth.of_value(op.output) or moved_axes(op, (axis,))
        shape = list(static_shape(op.output))
        if len(places) != 1 or 0 in shape:
            return None
        shape[places[0]] = -1
        return _Move(places[0], lambda x: ReshapeOp.make([*x, None], shape=shape))

    def _slice(self, op: SliceOp, axis: int) -> _Move | None:
        taken = slice_positions(op, self.edit)
        if taken is None or taken[axis] != range(static_shape(op.input)[axis]):
            return None
        every = slice_properties(taken)
        starts, steps, stops = (list(every[name]) for name in ("starts", "steps", "stops"))
        stops[axis] = TO_THE_END
        return _Move(axis, lambda x: SliceOp.make(x, starts=starts, stops=stops, steps=steps))

    def _gather(self, op: GatherOp, axis: int) -> _Move | None:
        own, indices = op.get("axis"), self.edit.constants(op.indices)
        if indices is None or own == axis:
            return None
        after = axis if axis < own else axis + indices.ndim - 1
        return _Move(after, lambda x: GatherOp.make(x, axis=own), indices)

    # -- one row -------------------------------------------------------------------------------
    def parts(self, made: SSAValue) -> dict[SSAValue, SSAValue]:
        """The joins that `made` is stacked of, with their new rows; none where it is no past
        with new rows after it."""
        if self.stacks.axes.get(made) != self.axis:
            return {}
        found: dict[SSAValue, SSAValue] = {}
        left = [made]
        while left:
            value = left.pop()
            if value in self.joins:
                found[value] = self.joins[value]
            else:
                left += _moved(_owner(value))
        row = _row(self.past, self.axis, 0)
        views = {join: self._view(join, row) for join in found}
        return found if np.array_equal(_computed(made, views, self.stacks), row) else {}

    def is_view_of_new(
        self, join: SSAValue, made: SSAValue, parts: Mapping[SSAValue, SSAValue]
    ) -> bool:
        """Whether the new rows of a join are its view of all new rows."""
        own, rows, first = self.joins[join], dict[SSAValue, np.ndarray](), 0
        for part, new in parts.items():
            axis = self.stacks.axes[part]
            rows[new] = _row(new, axis, first)
            first += rows[new].size
        if own not in rows:
            return False
        stacked = _computed(made, {part: rows[new] for part, new in parts.items()}, self.stacks)
        return np.array_equal(self._view(join, stacked), rows[own])

    def _view(self, join: SSAValue, row: np.ndarray) -> np.ndarray:
        return _computed(_owner(join).operands[0], {self.past: row}, self.views)

    # -- changes -------------------------------------------------------------------------------
    def append_once(self, made: SSAValue, parts: Mapping[SSAValue, SSAValue]) -> ConcatOp | None:
        """All new rows are stacked and appended by one operation, in the place of `made`; None
        where one part's new rows need another part."""
        anchor = self._anchor(list(parts.values()))
        if anchor is None:
            return None
        views = [join for join in self.joins if self.is_view_of_new(join, made, parts)]
        rows = self._emit(made, dict(parts), self.stacks, anchor, grows=False)
        joined = ConcatOp.make([[self.past, rows]], axis=self.axis)
        self.edit.rewriter.insert_before(anchor, joined)
        self.edit.growth.give(joined.output, (self.axis,))
        for join in views:
            view = _owner(join).operands[0]
            present: dict[SSAValue, SSAValue] = {self.past: joined.output}
            emitted = self._emit(view, present, self.views, anchor, grows=True)
            self.edit.rewriter.replace_uses(join, emitted)
        self.edit.rewriter.replace_uses(made, joined.output)
        return joined

    def _anchor(self, new: Sequence[SSAValue]) -> Operation | None:
        """The first operation that reads a join; what makes new rows moves there."""
        order = {op: place for place, op in enumerate(self.block.ops)}
        users = [outermost(use.operation, self.block) for join in self.joins for use in join.uses]
        first = min(users, key=order.__getitem__)
        needed, left = set[Operation](), list(new)
        while left:
            op = left.pop().owner
            if isinstance(op, Operation) and op not in needed and order[op] >= order[first]:
                needed.add(op)
                left += [operand for inner in op.walk() for operand in inner.operands]
        if any(operand in self.joins for op in needed for operand in op.operands):
            return None
        for op in sorted(needed, key=order.__getitem__):
            self.edit.rewriter.move_before(op, first)
        return first

    def _emit(
        self,
        value: SSAValue,
        known: dict[SSAValue, SSAValue],
        part: _Part,
        anchor: Operation,
        *,
        grows: bool,
    ) -> SSAValue:
        """`value` made of other rows."""
        if value not in known:
            op, move = _owner(value), part.moves[value]
            operands = [self._emit(o, known, part, anchor, grows=grows) for o in _moved(op)]
            if move.indices is not None:
                operands.append(self.edit.weight(op, "indices", move.indices, before=anchor))
            made = move.make(operands)
            self.edit.rewriter.insert_before(anchor, made, like=op)
            if grows:
                self.edit.growth.give(made.results[0], (move.axis,))
            known[value] = made.results[0]
        return known[value]

    def erase_unread(self) -> None:
        """Erases what nothing reads of the views and the joins any more."""
        for value in reversed([*self.views.moves, *self.stacks.axes]):
            op = _owner(value)
            if op.parent is not None and not any(result.uses for result in op.results):
                self.edit.rewriter.erase(op)


def _computed(value: SSAValue, rows: dict[SSAValue, np.ndarray], part: _Part) -> np.ndarray:
    """`value`, where others are rows."""
    if value not in rows:
        op, move = _owner(value), part.moves[value]
        operands = [_computed(operand, rows, part) for operand in _moved(op)]
        extra = [] if move.indices is None else [move.indices]
        made = move.make([*_moved(op), *op.operands[1:][: len(extra)]])
        (rows[value],) = made.evaluate(*operands, *extra)
        made.drop_all_references()
    return rows[value]


def _row(value: SSAValue, axis: int, first: int) -> np.ndarray:
    """One row, with consecutive numbers."""
    shape = [1 if each == axis else size for each, size in enumerate(static_shape(value))]
    return np.arange(first, first + int(np.prod(shape))).reshape(shape)


def _moved(op: TopOperation) -> Sequence[SSAValue]:
    """The operands that are moved."""
    return list(op.operands) if isinstance(op, ConcatOp) else list(op.operands[:1])


def _owner(value: SSAValue) -> TopOperation:
    op = value.owner
    assert isinstance(op, TopOperation)
    return op
