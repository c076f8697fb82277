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

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Block, Operation, SSAValue

from explorer.ir.operation import IDENTITY, TopOperation, identity_of, set_identity
from explorer.ir.origins import set_origins
from explorer.ir.rewriting import Declined, RecordedRewriter, Rule
from explorer.ir.top.control import IfOp, LoopOp
from explorer.ir.top.elementwise import BinaryOp, SelectOp
from explorer.ir.top.movement.concat import ConcatOp
from explorer.ir.top.movement.reshape import ReshapeOp
from explorer.ir.top.shapes import ShapeOp
from explorer.ir.top.support.iterations import counted_iterations
from explorer.ir.types import (
    element_type_of,
    is_static,
    numpy_dtype,
    shape_of,
    static_shape,
    tensor_type,
)
from explorer.passes.analysis.matching import constant, weight_name
from explorer.passes.sizes.infer_shapes import infer_again

MAX_OPERATIONS = 4096
"""Of one unrolled loop: beyond that the program would be too long to compile."""


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
            index = rewriter.add_weight(op, weight_name(op, "number"), np.array(number, np.int64))
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


def loop_length(op: TopOperation) -> int:
    """Operations of one iteration, nested ones included."""
    *inner, _ = op.regions[0].block.ops
    return sum(1 for o in inner for _ in o.walk())


def read_values(op: LoopOp) -> list[SSAValue]:
    """The loop's operands, and what its body takes from outside."""
    inside = {value for block in _blocks(op) for value in block.args}
    inside |= {result for inner in op.body.walk() for result in inner.results}
    read = [*op.operands, *(o for inner in op.body.walk() for o in inner.operands)]
    return [value for value in read if value not in inside]


def _blocks(op: Operation) -> list[Block]:
    """The blocks of an operation's regions, nested ones included."""
    return [b for o in op.walk() for region in o.regions for b in region.blocks]


def trip_count(op: LoopOp, rewriter: RecordedRewriter) -> int:
    """How often a loop runs; Declined where that depends on data."""
    trips = op.get("trip_count")
    if trips is None and op.count is not None:
        count = constant(op.count, rewriter.weights)
        trips = None if count is None else int(count.item())
    if trips is None and (op.count is not None or op.condition is None):
        raise Declined(f"how often {identity_of(op)} runs depends on data")
    if op.condition is None:
        assert trips is not None
        return max(trips, 0)
    first = constant(op.condition, rewriter.weights)
    last = op.body.block.last_op
    assert last is not None
    goes_on = last.operands[0]
    passed_on = goes_on is op.body.block.args[1]
    next_one = first if passed_on else constant(goes_on, rewriter.weights)
    if trips is not None and first is not None and next_one is not None and next_one.item():
        return max(trips, 0) if first.item() else 0
    if not all(is_static(row) for row in last.operands[1 + len(op.states) :]):
        raise Declined(f"the sizes of the rows of {identity_of(op)} are not known yet")
    counted = counted_iterations(
        op.body.block,
        op.condition,
        list(op.states),
        lambda value: constant(value, rewriter.weights),
        trips,
    )
    if counted is None:
        raise Declined(f"when {identity_of(op)} ends depends on data")
    return counted


def copy_block(
    block: Block, arguments: Sequence[SSAValue], anchor: Operation, rewriter: RecordedRewriter
) -> list[SSAValue]:
    """A copy of a block's operations before `anchor`; what the block returns.

    The copies stand for no tensor of the source: that is the last iteration's, if it is any.
    """
    values: dict[SSAValue, SSAValue] = dict(zip(block.args, arguments, strict=True))
    *inner, returned = block.ops
    for op in inner:
        copy = op.clone(values)
        for nested in copy.walk():
            set_origins(nested, [None] * len(nested.results))
            if IDENTITY in nested.attributes:
                set_identity(nested, rewriter.names.fresh(identity_of(nested)))
        rewriter.insert_before(anchor, copy, like=op)
        # The body's types were inferred for all iterations; sizes of this one may be known better.
        if isinstance(copy, TopOperation) and not copy.regions:
            infer_again(copy, rewriter, "fold-constants")
            values |= dict(zip(op.results, copy.results, strict=True))
    return [values.get(value, value) for value in returned.operands]


def is_known_row(rows: SSAValue) -> bool:
    """Whether all sizes of a row are known, of the rows that a loop collects."""
    return all(isinstance(size, int) for size in shape_of(rows)[1:])


def join_rows(
    rows: Sequence[SSAValue], result: SSAValue, op: LoopOp, rewriter: RecordedRewriter
) -> SSAValue:
    """All rows along a new first axis; where there are none, their sizes are known."""
    if not rows:
        sizes = [size for size in shape_of(result)[1:] if isinstance(size, int)]
        empty = np.zeros((0, *sizes), numpy_dtype(element_type_of(result)))
        return rewriter.add_weight(op, weight_name(op, "rows"), empty)
    parts = [_with_first_axis(row, op, rewriter) for row in rows]
    joined = ConcatOp.make([parts], axis=0)
    rewriter.insert_before(op, joined)
    return joined.output


def _with_first_axis(row: SSAValue, op: LoopOp, rewriter: RecordedRewriter) -> SSAValue:
    """The row with a new first axis; sizes that are not known yet are asked of the row itself."""
    if is_static(row):
        part = ReshapeOp.make([row, None], shape=[1, *static_shape(row)])
    else:
        one = rewriter.add_weight(op, weight_name(op, "one"), np.ones(1, np.int64))
        sizes = ShapeOp.make([row])
        target = ConcatOp.make([[one, sizes.output]], axis=0)
        kind = tensor_type(element_type_of(row), (1, *shape_of(row)))
        part = ReshapeOp.make([row, target.output], [kind], allow_zero=True)
        rewriter.insert_before(op, sizes)
        rewriter.insert_before(op, target)
    rewriter.insert_before(op, part)
    return part.output


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
            index = rewriter.add_weight(op, weight_name(op, "number"), np.array(number, np.int64))
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


def check_harmless(block: Block, what: str) -> None:
    """Declined for a block that must not run where the program would not have run it."""
    for inner in block.walk():
        divides = isinstance(inner, BinaryOp) and inner.get("kind") in ("div", "mod")
        if divides and not isinstance(element_type_of(inner.results[0]), AnyFloat):
            raise Declined(f"{identity_of(inner)} in {what} may divide by zero")
