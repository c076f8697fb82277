"""Concats: of concats, of neighbouring slices, of constants, of nothing.

   %1 = top.slice(%x) {starts = [0, 0], stops = [1, 4], ...} : tensor<1x4xf32>
   %2 = top.slice(%x) {starts = [0, 4], stops = [1, 8], ...} : tensor<1x4xf32>
   %3 = top.concat(%1, %2) {axis = 1} : tensor<1x8xf32>
   top.return(%3)
=> top.return(%x)                                                      %x : tensor<1x8xf32>
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from xdsl.ir import SSAValue

from explorer.ir.operation import identity_of
from explorer.ir.rewriting import Declined, RecordedRewriter, Rule
from explorer.ir.top.movement.concat import ConcatOp
from explorer.ir.top.movement.slices import SliceOp
from explorer.ir.types import shape_of
from explorer.passes.analysis.matching import constant, is_used_once, maker, weight_name
from explorer.passes.simplify.movement.slices import make_slice, static_ranges

Joined = TypeVar("Joined")

LARGEST_JOINED_BYTES = 1 << 20


class MergeConcats(Rule):
    """concat(concat(a, b), c)   =>   concat(a, b, c)

    Applies to concats along the same axis when nothing else reads the inner one. Pays because its
    elements are copied once instead of twice. Exact.
    """

    matches = (ConcatOp,)

    def rewrite(self, op: ConcatOp, rewriter: RecordedRewriter) -> None:
        axis = op.get("axis")
        inner = [
            m
            for m in (maker(value, ConcatOp) for value in op.inputs)
            if m is not None and m.get("axis") == axis
        ]
        if not inner:
            return
        single = [m for m in inner if is_used_once(m)]
        if not single:
            raise Declined(f"{identity_of(inner[0])} is needed elsewhere too")
        values: list[SSAValue] = []
        for value in op.inputs:
            nested = maker(value, ConcatOp)
            values.extend(nested.inputs if nested is not None and nested in single else [value])
        rewriter.replace(op, op.altered(inputs=values), absorbs=single)


class DropEmptyInputs(Rule):
    """concat(a, b : 0x8, c) {axis = 0}   =>   concat(a, c)

    Applies when an input has no elements and another one has. Pays because nothing is read for
    it. Exact.
    """

    matches = (ConcatOp,)

    def rewrite(self, op: ConcatOp, rewriter: RecordedRewriter) -> None:
        axis = op.get("axis")
        kept = [value for value in op.inputs if shape_of(value)[axis] != 0]
        if kept and len(kept) < len(op.inputs):
            rewriter.replace(op, op.altered(inputs=kept))


class JoinNeighbours(Rule):
    """concat(slice(x) {0:4}, slice(x) {4:8})   =>   slice(x) {0:8}

    Applies to slices of one value whose positions continue one another along the axis and agree
    along all others. Pays because one copy is made instead of several, or none. Exact.
    """

    matches = (ConcatOp,)

    def rewrite(self, op: ConcatOp, rewriter: RecordedRewriter) -> None:
        axis = op.get("axis")

        def join(a: SSAValue, b: SSAValue) -> SliceOp | None:
            return _joined(maker(a, SliceOp), maker(b, SliceOp), axis)

        found = _first_pair(op.inputs, join)
        if found is None:
            return
        index, new = found
        rewriter.insert_before(op, new)
        values = [*op.inputs[:index], new.output, *op.inputs[index + 2 :]]
        rewriter.replace(op, op.altered(inputs=values))


def _joined(first: SliceOp | None, second: SliceOp | None, axis: int) -> SliceOp | None:
    """The slice that takes what both take one after the other; None if no single one does."""
    if first is None or second is None or first.input is not second.input:
        return None
    a, b = static_ranges(first), static_ranges(second)
    if a is None or b is None or not a[axis] or not b[axis]:
        return None
    if any(list(x) != list(y) for i, (x, y) in enumerate(zip(a, b, strict=True)) if i != axis):
        return None
    step = b[axis][0] - a[axis][-1]
    if any(len(r) > 1 and r.step != step for r in (a[axis], b[axis])) or step == 0:
        return None
    whole = range(a[axis][0], b[axis][-1] + (1 if step > 0 else -1), step)
    return make_slice(first.input, [whole if i == axis else r for i, r in enumerate(a)])


class JoinConstants(Rule):
    """concat(x, constant a, constant b)   =>   concat(x, constant [a, b])

    Applies to neighbouring constants of up to 1 MiB together. Pays because one copy is made
    instead of two. Exact.
    """

    matches = (ConcatOp,)

    def rewrite(self, op: ConcatOp, rewriter: RecordedRewriter) -> None:
        axis = op.get("axis")

        def join(a: SSAValue, b: SSAValue) -> np.ndarray | None:
            first, second = constant(a, rewriter.weights), constant(b, rewriter.weights)
            if first is None or second is None:
                return None
            return np.concatenate([first, second], axis)

        found = _first_pair(op.inputs, join)
        if found is None or len(op.inputs) == 2:
            return  # constants only: `fold-constants`
        index, array = found
        if array.nbytes > LARGEST_JOINED_BYTES:
            raise Declined(f"the joined constant would have {array.nbytes} bytes")
        value = rewriter.add_weight(op, weight_name(op, "joined"), array)
        values = [*op.inputs[:index], value, *op.inputs[index + 2 :]]
        rewriter.replace(op, op.altered(inputs=values))


def _first_pair(
    values: Sequence[SSAValue], join: Callable[[SSAValue, SSAValue], Joined | None]
) -> tuple[int, Joined] | None:
    """The first two neighbours that can be joined, and what they become."""
    for index in range(len(values) - 1):
        joined = join(values[index], values[index + 1])
        if joined is not None:
            return index, joined
    return None


CONCAT_RULES: tuple[type[Rule], ...] = (
    MergeConcats,
    DropEmptyInputs,
    JoinNeighbours,
    JoinConstants,
)
