"""What is beyond the valid length is read nowhere: keys without a share, and zeros.

    %p = top.softmax(%scores)
 => %masked = top.select(%valid, %scores, -inf)
    %p = top.softmax(%masked)                   zeros where nothing is valid

What else mixes elements of the axis that grows is refused.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

import numpy as np
from xdsl.ir import SSAValue

from explorer.ir.operation import TopOperation
from explorer.ir.top.attention import ROWS, AttentionOp
from explorer.ir.top.casting import CastOp
from explorer.ir.top.data import ReturnOp, WeightOp
from explorer.ir.top.elementwise import BinaryOp, SelectOp
from explorer.ir.top.indexing import GatherOp
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.top.movement.concat import ConcatOp
from explorer.ir.top.movement.reshape import ExpandOp, ReshapeOp
from explorer.ir.top.movement.slices import SliceOp
from explorer.ir.top.movement.transpose import TransposeOp
from explorer.ir.top.reductions.cumulative import CumulativeOp
from explorer.ir.top.reductions.normalization import SoftmaxOp
from explorer.ir.top.reductions.reduction import ReduceOp
from explorer.ir.types import element_type_of, numpy_dtype, shape_of, static_shape
from explorer.passes.sizes.valid_keys import over_valid_keys
from explorer.passes.states.editing import Editing
from explorer.passes.states.growth import ELEMENTWISE, Refused, moved_axes

MOVING = (TransposeOp, ReshapeOp, ExpandOp)
EXTREMES = ("max", "min")
NEUTRAL = {"sum": 0, "prod": 1, "l1": 0, "l2": 0, "sum_square": 0}
"""Of reductions, what changes nothing."""


class ValidRows:
    def __init__(
        self,
        edit: Editing,
        length: SSAValue,
        capacity: int,
        rows: int,
        places: Container[SSAValue],
    ) -> None:
        """places: indices that count from the valid length on."""
        self.edit, self.growth, self.length = edit, edit.growth, length
        self.capacity, self.full, self.places = capacity, capacity - rows, places
        self.zeroed: set[SSAValue] = set()
        """Values that are 0 wherever nothing is valid."""
        self.valid: dict[tuple[int, int], SSAValue] = {}
        """Which places are valid, by the size of their axis and the number of axes after it."""

    def visit(self, op: TopOperation) -> None:
        if isinstance(op, WeightOp):
            return
        self._check(op)
        if isinstance(op, SoftmaxOp):
            self._mask(op)
        elif isinstance(op, AttentionOp):
            self._mask_keys(op)
            return
        elif isinstance(op, ReduceOp):
            self._mask_reduced(op)
        self.growth.follow(op)
        self._pass_zeros(op)

    def _check(self, op: TopOperation) -> None:
        """Refuses what mixes elements of the axis that grows."""
        read = enumerate(op.operands)
        growing = [(i, axes) for i, o in read if (axes := self.growth.of_value(o))]
        if not growing or isinstance(op, (*ELEMENTWISE, TransposeOp, ReturnOp)):
            return
        if isinstance(op, SoftmaxOp):
            return
        if isinstance(op, ReduceOp):
            if op.get("kind") in EXTREMES or op.get("kind") in NEUTRAL:
                return
        elif isinstance(op, AttentionOp):
            if all(axes == (self._key_axis(op, i),) for i, axes in growing):
                return
        elif isinstance(op, ReshapeOp | ExpandOp):
            if len(moved_axes(op, growing[0][1])) == len(growing[0][1]):
                return
        elif isinstance(op, ConcatOp):
            last = len(op.operands) - 1  # what is in front of it has its size in all calls
            if all(op.get("axis") not in axes or i == last for i, axes in growing):
                return
        elif isinstance(op, CumulativeOp):
            if not op.get("reverse"):
                return
        elif isinstance(op, MatMulOp):
            if self._multiplies_zeros(op):
                return
        elif isinstance(op, GatherOp):
            numbers = self.edit.constants(op.indices)
            is_inside = op.indices in self.places or (numbers is not None and numbers.min() >= 0)
            if op.get("axis") not in self.growth.of_value(op.input) or is_inside:
                return
        elif isinstance(op, SliceOp) and self._keeps_end(op, growing[0][1]):
            return
        raise Refused("it mixes elements of the axis that grows", op)

    def _multiplies_zeros(self, op: MatMulOp) -> bool:
        """Whether no sum is over elements that are not valid, or they are multiplied by 0."""
        left, right = op.operands[:2]
        ranks = [len(shape_of(value)) for value in (left, right)]
        inner = ranks[0] - 1, max(ranks[1] - 2, 0)
        pairs = zip(inner, (left, right), strict=True)
        is_summed = any(axis in self.growth.of_value(value) for axis, value in pairs)
        return not is_summed or left in self.zeroed or right in self.zeroed

    def _keeps_end(self, op: SliceOp, axes: Sequence[int]) -> bool:
        """Whether a slice cuts other axes, or takes every element of the axis that grows from one
        on that is counted from the beginning, to the end."""
        shape = static_shape(op.input)
        cut, starts, stops, steps = range(len(shape)), *map(op.get, ("starts", "stops", "steps"))
        if op.get("axes") is not None:
            cut = [axis % len(shape) for axis in op.get("axes")]
            starts, stops = (self._numbers(value) for value in (op.starts_value, op.stops_value))
            steps = [1] * len(cut) if op.steps_value is None else self._numbers(op.steps_value)
        if starts is None or stops is None or steps is None:
            return False
        return all(
            axis not in axes or (start >= 0 and stop >= shape[axis] and step == 1)
            for axis, start, stop, step in zip(cut, starts, stops, steps, strict=True)
        )

    def _numbers(self, value: SSAValue | None) -> list[int] | None:
        found = None if value is None else self.edit.constants(value)
        return None if found is None else found.ravel().tolist()

    def _mask(self, op: SoftmaxOp) -> None:
        """Scores of keys that are not valid are minus infinity."""
        axis = op.get("axis") % len(shape_of(op.operands[0]))
        if axis not in self.growth.of_value(op.operands[0]):
            return
        if op.get("logarithm"):
            raise Refused("a logarithm of it is taken", op)
        scores = op.operands[0]
        kind = numpy_dtype(element_type_of(scores))
        after = len(shape_of(scores)) - 1 - axis
        with self.edit.events.rewrite("mask", op, "only valid keys have a share"):
            user, place = _before_bias(op)
            valid = self._valid(user, static_shape(scores)[axis], after)
            nothing = self.edit.weight(user, "nothing", np.array(-np.inf, kind))
            masked = self.edit.added(user, SelectOp.make([valid, user.operands[place], nothing]))
            self.edit.rewriter.set_operand(user, place, masked)
        self.zeroed.add(op.results[0])

    def _key_axis(self, op: AttentionOp, index: int) -> int | None:
        """Which axis of an operand is that of the keys; None for queries."""
        rank = len(shape_of(op.operands[index]))
        return (None, rank + ROWS, rank + ROWS, rank - 1, rank - 1)[index]

    def _mask_keys(self, op: AttentionOp) -> None:
        if not self.growth.of_value(op.key):
            return
        with self.edit.events.rewrite("mask", op, "only valid keys have a share"):
            new = over_valid_keys(op, self._valid(op, self.capacity, 0), self.edit)
            self.edit.rewriter.replace(op, new)

    def _mask_reduced(self, op: ReduceOp) -> None:
        """What is not valid is the neutral number of a reduction."""
        shape = static_shape(op.input)
        axes = [axis for axis in self.growth.of_value(op.input) if axis in op.get("axes")]
        kind = numpy_dtype(element_type_of(op.input))
        for axis in axes:
            with self.edit.events.rewrite("mask", op, "only valid elements are reduced"):
                valid = self._valid(op, shape[axis], len(shape) - 1 - axis)
                neutral = self.edit.weight(op, "neutral", _neutral(op.get("kind"), kind))
                masked = self.edit.added(op, SelectOp.make([valid, op.input, neutral]))
                self.edit.rewriter.set_operand(op, 0, masked)

    def _valid(self, op: TopOperation, size: int, after: int) -> SSAValue:
        """Which places of a growing axis of that size are valid, with so many axes after it."""
        if (size, after) not in self.valid:
            places = np.arange(size, dtype=np.int64)
            numbers = self.edit.weight(op, "places", places.reshape(-1, *[1] * after))
            more = self.edit.weight(op, "rows", np.array(size - self.full, np.int64))
            end = self.edit.added(op, BinaryOp.make([self.length, more], kind="add"))
            valid = BinaryOp.make([numbers, end], kind="less")
            self.valid[size, after] = self.edit.added(op, valid)
        return self.valid[size, after]

    def _is_zero(self, value: SSAValue) -> bool:
        numbers = None if value in self.zeroed else self.edit.constants(value)
        return value in self.zeroed or (numbers is not None and not numbers.any())

    def _pass_zeros(self, op: TopOperation) -> None:
        moves = (*MOVING, CastOp, SliceOp)  # slices of growing axes: `_keeps_end`
        keeps = isinstance(op, moves) and op.operands[0] in self.zeroed
        scales = isinstance(op, BinaryOp) and (
            (op.get("kind") == "mul" and not self.zeroed.isdisjoint(op.operands))
            or (op.get("kind") == "div" and op.operands[0] in self.zeroed)
        )
        selects = isinstance(op, SelectOp) and all(map(self._is_zero, op.operands[1:]))
        if keeps or scales or selects:
            self.zeroed.add(op.results[0])


def _neutral(reduction: str, kind: np.dtype) -> np.ndarray:
    if reduction in NEUTRAL:
        return np.array(NEUTRAL[reduction], kind)
    is_most = reduction == "max"
    if kind.kind == "b":
        return np.array(not is_most)
    if kind.kind not in "iu":
        return np.array(-np.inf if is_most else np.inf, kind)
    return np.array(np.iinfo(kind).min if is_most else np.iinfo(kind).max, kind)


def _before_bias(op: SoftmaxOp) -> tuple[TopOperation, int]:
    """Which operand the scores are: of the softmax, or of the sum with a bias in front of it, so
    that attention is found in its usual form. Minus infinity stays what it is in a sum."""
    added = op.operands[0].owner
    if (
        not isinstance(added, BinaryOp)
        or added.get("kind") != "add"
        or not added.output.has_one_use()
    ):
        return op, 0
    whole = shape_of(added.output)
    products = [i for i, o in enumerate(added.operands) if _is_product(o) and shape_of(o) == whole]
    return (added, products[0]) if len(products) == 1 else (op, 0)


def _is_product(value: SSAValue) -> bool:
    """Whether it is a product of matrices, perhaps with a factor."""
    owner = value.owner
    while isinstance(owner, BinaryOp) and owner.get("kind") in ("mul", "div"):
        large = [o for o in owner.operands if shape_of(o) == shape_of(owner.output)]
        if len(large) != 1:
            return False
        owner = large[0].owner
    return isinstance(owner, MatMulOp)
