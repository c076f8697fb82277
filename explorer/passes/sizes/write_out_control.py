"""Loops and branches that read open sizes are written out, before the sizes stay open.

    %h, %rows = top.loop(%h0, %seq) {scans = 1} {          seq = 1..8
      (%t, %h): %n = step(%h, %x[%t]); top.return(%n, %n)
    }
 => %n0 = step(%h0, %x[0])
    %n1 = step(%n0, %x[1])
    %h1 = top.select(%is_run, %n1, %n0)                    true where seq > 1
    ...                                                    8 steps
    %rows = top.concat(%n0, %h1, ...)[:%seq]

Iterations after the call's last one keep the states, so that the last states are those of a call.
A loop that counts down to the place of the first element begins with the largest place: then an
iteration reads the same place in every call, and those before the call's first one keep the
states. What data decide is selected as in programs of fixed sizes (`unroll_control.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import i64
from xdsl.ir import Operation, SSAValue

from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.rewriting import Declined, RecordedRewriter
from explorer.ir.rewriting.passes import EventLog
from explorer.ir.sizes.dimensions import dimension_of
from explorer.ir.sizes.symbols import Expression, larger, number, smaller
from explorer.ir.structure import value_name
from explorer.ir.top.casting import CastOp
from explorer.ir.top.control import IfOp, LoopOp
from explorer.ir.top.elementwise import BinaryOp, SelectOp
from explorer.ir.top.movement.reshape import ReshapeOp
from explorer.ir.top.movement.slices import FAR, SliceOp
from explorer.ir.top.sizes import FoundContents
from explorer.ir.types import element_type_of, numpy_dtype, shape_of, tensor_type
from explorer.passes.analysis.matching import weight_name
from explorer.passes.sizes.infer_shapes import infer_function
from explorer.passes.sizes.open_shapes import OpenNames
from explorer.passes.sizes.written_out import (
    MAX_OPERATIONS,
    check_harmless,
    copy_block,
    iteration_number,
    join_rows,
    loop_length,
    read_values,
    trip_count,
)


class NotWrittenOut(Exception):
    """Why control flow cannot be written out for all sizes, and the operation."""

    def __init__(self, reason: str, op: TopOperation) -> None:
        super().__init__(reason)
        self.op = op


@dataclass(frozen=True)
class _Runs:
    """When an iteration runs: where a call has more than `place` of them, and the flag holds."""

    place: int
    guard: Expression
    """1 where the call has it, else 0."""
    flag: SSAValue | None


@dataclass
class WriteOutControl:
    """Writes out what of a function's control flow reads open sizes."""

    function: func.FuncOp
    names: OpenNames
    rewriter: RecordedRewriter
    events: EventLog
    guards: dict[str, Expression] = field(default_factory=dict)
    """By the name of a select's result: 1 in calls in which its first choice is taken, else 0."""

    def run(self) -> None:
        """Changes the function, and fills `guards`.

        NotWrittenOut names an operation that data decide, or that would be too long.
        """
        while (op := self._next()) is not None:
            try:
                with self.events.rewrite("write-out", op, "its iterations end with the call's"):
                    if isinstance(op, LoopOp):
                        self._loop(op)
                    else:
                        self._branch(op)
            except Declined as error:
                raise NotWrittenOut(str(error), op) from None

    def _next(self) -> LoopOp | IfOp | None:
        contents = FoundContents(self.rewriter.weights)
        for op in self.function.body.block.ops:
            if isinstance(op, LoopOp | IfOp) and any(
                self._is_open(value, contents) for value in read_values(op)
            ):
                return op
        return None

    def _is_open(self, value: SSAValue, contents: FoundContents) -> bool:
        sizes = [self.names.of_size(size) for size in shape_of(value)]
        if any(size is None or not size.is_number for size in sizes):
            return True
        array = contents.array(value)
        found = () if array is None else array.reshape(-1)
        return any(not self.names.over_open(e).is_number for e in found)

    # -- branches --------------------------------------------------------------------------------
    def _branch(self, op: IfOp) -> None:
        """Both branches, and one of them selected."""
        branches = [region.block for region in op.regions]
        for branch in branches:
            last = branch.last_op
            assert last is not None
            for value, result in zip(last.operands, op.results, strict=True):
                if value.type != result.type:
                    raise Declined(f"the branches of {identity_of(op)} differ in shape")
            check_harmless(branch, "a branch", self.rewriter.weights)
        yes, no = (copy_block(branch, [], op, self.rewriter) for branch in branches)
        condition = op.condition
        if shape_of(condition):
            condition = self._added(op, ReshapeOp.make([condition, None], shape=[]))
        pairs = zip(yes, no, strict=True)
        self.rewriter.replace(
            op, [self._added(op, SelectOp.make([condition, a, b])) for a, b in pairs]
        )

    # -- loops -----------------------------------------------------------------------------------
    def _loop(self, op: LoopOp) -> None:
        limit, has_flag = self._limit(op)
        most = max(limit.value(self.names.largest), 0)
        size = most * loop_length(op)
        if size > MAX_OPERATIONS:
            raise Declined(
                f"its {most} iterations would become {size} operations; at most {MAX_OPERATIONS} "
                "are written out"
            )
        if has_flag and op.get("scans"):
            raise Declined("data decide how many rows it collects")
        if has_flag or not limit.is_number:
            check_harmless(op.body.block, "an iteration", self.rewriter.weights)
        is_down = self._counts_down(op, limit, most)
        leading = 0 if op.condition is None else 1
        states: list[SSAValue] = [*([] if op.condition is None else [op.condition]), *op.states]
        rows: list[list[SSAValue]] = [[] for _ in range(op.get("scans"))]
        for step in range(most):
            place = most - 1 - step if is_down else step
            runs = _Runs(place, _is_above(limit, place), states[0] if has_flag else None)
            index = iteration_number(op, step, self.rewriter)
            results = copy_block(op.body.block, [index, *states], op, self.rewriter)
            kept: dict[SSAValue, SSAValue] = {}
            for old, new in zip(states, results, strict=False):
                if new is not old and new not in kept:
                    kept[new] = self._kept(op, new, old, runs)
            collected = results[len(states) :]
            states = [kept.get(value, value) for value in results[: len(states)]]
            for row, value in zip(rows, collected, strict=True):
                row.append(kept[value] if value in kept else self._row(op, value, runs))
        joined = [
            self._join(op, row, result, limit, is_down)
            for row, result in zip(rows, op.results[len(op.states) :], strict=True)
        ]
        last = [*states[leading:], *joined]
        for result, value in zip(op.results, last, strict=True):
            self.rewriter.set_type(result, value.type)
        self.rewriter.replace(op, last)
        infer_function(self.function, self.rewriter, self.events.pass_name)

    def _limit(self, op: LoopOp) -> tuple[Expression, bool]:
        """The most iterations, an expression of open sizes, and whether data may end them."""
        known = op.get("trip_count")
        if op.count is None or known is not None:
            try:
                return number(trip_count(op, self.rewriter)), False
            except Declined:
                if known is None:
                    raise
                return number(max(known, 0)), op.condition is not None
        found = FoundContents(self.rewriter.weights).single(op.count)
        if found is None:
            raise Declined(f"data decide how often {identity_of(op)} runs")
        return larger(self.names.over_open(found), number(0)), op.condition is not None

    def _counts_down(self, op: LoopOp, limit: Expression, most: int) -> bool:
        """Whether all that reads the iteration's number is `last - number`, where last differs
        from the number of the call's last iteration by a constant.

        Then last becomes what it is in the call with the most iterations: an iteration reads the
        same place in every call.
        """
        if limit.is_number or op.condition is not None:
            return False
        contents = FoundContents(self.rewriter.weights)
        lasts: list[tuple[Operation, int]] = []
        for use in op.body.block.args[0].uses:
            user = use.operation
            if not isinstance(user, BinaryOp) or user.get("kind") != "sub" or use.index != 1:
                return False
            last = contents.single(user.operands[0])
            if last is None or not (more := self.names.over_open(last) - limit).is_number:
                return False
            lasts.append((user, most + more.constant))
        for user, last in lasts:
            kind = numpy_dtype(element_type_of(user.operands[0]))
            self.rewriter.set_operand(user, 0, self._weight(op, "last", np.array(last, kind)))
        return bool(lasts)

    def _kept(self, op: LoopOp, new: SSAValue, old: SSAValue, runs: _Runs) -> SSAValue:
        """A state after an iteration, or what it was before."""
        if new.type != old.type:
            raise Declined(
                f"the state {value_name(old)} of {identity_of(op)} has another size after each "
                "iteration"
            )
        if runs.flag is not None:
            new = self._added(op, SelectOp.make([runs.flag, new, old]))
        return self._selected(op, new, old, runs)

    def _row(self, op: LoopOp, value: SSAValue, runs: _Runs) -> SSAValue:
        """A row; zero where the iteration does not run, so that nothing is computed for it."""
        if runs.guard == number(1) or not shape_of(value):
            return value
        nothing = np.zeros((), numpy_dtype(element_type_of(value)))
        return self._selected(op, value, self._weight(op, "nothing", nothing), runs)

    def _selected(self, op: LoopOp, new: SSAValue, old: SSAValue, runs: _Runs) -> SSAValue:
        """`new` where the iteration runs. A mask of the call takes the place of the condition
        where the tensor has an axis for it (`open_operations.py`)."""
        if runs.guard == number(1):
            return new
        if shape_of(new):
            condition = self._weight(op, "runs", np.array(True))
            found = self._added(op, SelectOp.make([condition, new, old]))
            self.guards[value_name(found)] = runs.guard
            return found
        place = self._weight(op, "place", np.array(runs.place, np.int64))
        below = self._added(op, BinaryOp.make([place, self._count(op, [])], kind="less"))
        return self._added(op, SelectOp.make([below, new, old]))

    # -- rows ------------------------------------------------------------------------------------
    def _join(
        self, op: LoopOp, rows: list[SSAValue], result: SSAValue, limit: Expression, is_down: bool
    ) -> SSAValue:
        """The rows of a call along a new first axis."""
        turning = [use.operation for use in result.uses] if is_down else []
        is_turned = bool(turning) and all(_turns_first_axis(user) for user in turning)
        joined = join_rows(rows[::-1] if is_turned else rows, result, op, self.rewriter)
        if limit.is_number:
            return joined
        found = self._cut(op, joined, limit, len(rows) if is_down and not is_turned else 0)
        for user in turning if is_turned else ():
            self.rewriter.set_type(user.results[0], found.type)
            self.rewriter.replace(user, found)
        return found

    def _cut(self, op: LoopOp, rows: SSAValue, limit: Expression, end: int) -> SSAValue:
        """The first rows, or the last ones before `end`, as many as the call has iterations."""
        stop = self._count(op, [1])
        start = self._weight(op, "start", np.array([end], np.int64))
        if end:
            start, stop = self._added(op, BinaryOp.make([start, stop], kind="sub")), start
        kind = tensor_type(element_type_of(rows), (dimension_of(limit), *shape_of(rows)[1:]))
        return self._added(op, SliceOp.make([rows, start, stop, None], [kind], axes=[0]))

    # -- operations ------------------------------------------------------------------------------
    def _count(self, op: LoopOp, shape: list[int]) -> SSAValue:
        """The number of iterations of a call."""
        assert op.count is not None
        count = op.count
        if element_type_of(count) != i64:
            count = self._added(op, CastOp.make([count], to=i64))
        return self._added(op, ReshapeOp.make([count, None], shape=shape))

    def _weight(self, op: LoopOp, role: str, array: np.ndarray) -> SSAValue:
        return self.rewriter.add_weight(op, weight_name(op, role), array)

    def _added(self, anchor: Operation, op: Operation) -> SSAValue:
        self.rewriter.insert_before(anchor, op)
        return op.results[0]


def _is_above(limit: Expression, place: int) -> Expression:
    """1 where limit > place, else 0."""
    return smaller(number(1), larger(number(0), limit - place))


def _turns_first_axis(op: Operation) -> bool:
    """Whether an operation takes all elements of the first axis from the last to the first."""
    if not isinstance(op, SliceOp) or not op.is_static_slice:
        return False
    bounds = list(zip(op.get("starts"), op.get("stops"), op.get("steps"), strict=True))
    whole = all((start, step) == (0, 1) and stop >= FAR for start, stop, step in bounds[1:])
    return bounds[0] == (-1, -1, -1) and whole
