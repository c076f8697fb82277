"""Control flow that compiled code does not have: short loops unrolled, both branches computed.

Where data decide when a short loop ends, all iterations that there may be are computed and the
states of the last one that should run are selected.

   %s, %rows = top.loop(%x) {trip_count = 2, scans = 1} {
     (%i, %state): %n = top.unary(%state) {kind = "neg"}; top.return(%n, %state)
   }
=> %n1 = top.unary(%x) {kind = "neg"}
   %n2 = top.unary(%n1) {kind = "neg"}
   %rows = top.concat(reshape(%x), reshape(%n1)) {axis = 0}
"""

from __future__ import annotations

from xdsl.ir import Block, SSAValue

from explorer.ir.operation import identity_of
from explorer.ir.rewriting import Declined, RecordedRewriter, Rule
from explorer.ir.top.control import IfOp, LoopOp
from explorer.ir.top.elementwise import SelectOp
from explorer.ir.top.movement.reshape import ReshapeOp
from explorer.ir.types import (
    is_static,
    shape_of,
)
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


class UnrollLoop(Rule):
    """loop(s, 3 times) { body }   =>   body(body(body(s)))

    Applies when the number of iterations is constant, or its condition counts to one, up to 4,096
    operations. Pays because compiled code has no loops around kernels, and because what an
    iteration computes from its number is a constant.
    """

    matches = (LoopOp,)

    def rewrite(self, op: LoopOp, rewriter: RecordedRewriter) -> None:
        trips = trip_count(op, rewriter)
        returned = op.body.block.last_op
        assert returned is not None
        if trips and not all(is_static(value) for value in read_values(op)):
            raise Declined(f"the sizes of what {identity_of(op)} reads are not known yet")
        size = trips * loop_length(op)
        if size > MAX_OPERATIONS:
            raise Declined(f"{identity_of(op)} would become {size} operations")
        count = len(op.states)
        if not trips and not all(is_known_row(result) for result in op.results[count:]):
            raise Declined(f"{identity_of(op)} never runs, and the size of its rows is not known")
        states: list[SSAValue] = list(op.states)
        rows: list[list[SSAValue]] = [[] for _ in returned.operands[count + self._flags(op) :]]
        for number in range(trips):
            index = iteration_number(op, number, rewriter)
            flags = [] if op.condition is None else [op.condition]
            values = copy_block(op.body.block, [index, *flags, *states], op, rewriter)
            values = values[self._flags(op) :]
            states = values[:count]
            for row, value in zip(rows, values[count:], strict=True):
                row.append(value)
        joined = [
            join_rows(row, result, op, rewriter)
            for row, result in zip(rows, op.results[count:], strict=True)
        ]
        for result, value in zip(op.results, [*states, *joined], strict=True):
            rewriter.set_type(result, value.type)
        rewriter.replace(op, [*states, *joined])

    @staticmethod
    def _flags(op: LoopOp) -> int:
        return 0 if op.condition is None else 1


def is_known_row(rows: SSAValue) -> bool:
    """Whether all sizes of a row are known, of the rows that a loop collects."""
    return all(isinstance(size, int) for size in shape_of(rows)[1:])


class ComputeBothBranches(Rule):
    """if(c) { a } { b }   =>   select(c, a, b)

    Applies when both branches have results of the same static type and none of their operations
    could trap (an integer division). Pays because compiled code has no branches around kernels.
    """

    matches = (IfOp,)

    def rewrite(self, op: IfOp, rewriter: RecordedRewriter) -> None:
        branches = [region.block for region in op.regions]
        for branch in branches:
            self._check(branch, op)
        yes, no = (copy_block(branch, [], op, rewriter) for branch in branches)
        condition = op.condition
        if shape_of(condition):
            reshape = ReshapeOp.make([condition, None], shape=[])
            rewriter.insert_before(op, reshape)
            condition = reshape.output
        chosen = []
        for a, b in zip(yes, no, strict=True):
            select = SelectOp.make([condition, a, b])
            rewriter.insert_before(op, select)
            chosen.append(select.output)
        rewriter.replace(op, chosen)

    @staticmethod
    def _check(branch: Block, op: IfOp) -> None:
        last = branch.last_op
        assert last is not None
        for value, result in zip(last.operands, op.results, strict=True):
            if not is_static(value) or value.type != result.type:
                raise Declined(f"the branches of {identity_of(op)} differ in the result's shape")
        check_harmless(branch, "a branch")


class MaskIterations(Rule):
    """loop(s, at most 2 times, while c) { body }   =>   select(c, body(s), s), then once more

    Applies when data decide whether a loop goes on, but not how often at most: its trip count is
    constant, it collects no rows (their number would depend on data), its states keep static types,
    no operation of the body could trap, and the iterations have up to 4,096 operations. Pays
    because compiled code has no loops around kernels: iterations that are not to run are computed,
    and what was before them is selected.
    """

    matches = (LoopOp,)

    def rewrite(self, op: LoopOp, rewriter: RecordedRewriter) -> None:
        trips, goes_on = self._check(op)
        states: list[SSAValue] = list(op.states)
        for number in range(trips):
            index = iteration_number(op, number, rewriter)
            before = [goes_on, *states]
            after = copy_block(op.body.block, [index, *before], op, rewriter)
            chosen = []
            for old, new in zip(before, after, strict=True):
                if old is new:
                    chosen.append(new)
                    continue
                select = SelectOp.make([goes_on, new, old])
                rewriter.insert_before(op, select)
                chosen.append(select.output)
            goes_on, *states = chosen
        rewriter.replace(op, states)

    @staticmethod
    def _check(op: LoopOp) -> tuple[int, SSAValue]:
        """How often it runs at most, and the flag that it begins with."""
        trips = op.get("trip_count")
        if op.condition is None or trips is None:
            raise Declined(f"the most iterations of {identity_of(op)} are not known")
        if op.get("scans"):
            raise Declined(f"how many rows {identity_of(op)} collects depends on data")
        if not all(is_static(value) for value in (*op.states, *op.results)):
            raise Declined(f"the sizes of the states of {identity_of(op)} are not known")
        size = trips * sum(1 for _ in op.body.walk())
        if size > MAX_OPERATIONS:
            raise Declined(f"{identity_of(op)} would become {size} operations")
        check_harmless(op.body.block, "an iteration")
        return trips, op.condition
