"""Iterations of loops, and branches, as operations of their own: what passes write out.

`unroll_control.py` does so where all sizes are known, `write_out_control.py` where some are open.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Block, Operation, SSAValue

from explorer.ir.operation import IDENTITY, TopOperation, identity_of, set_identity
from explorer.ir.origins import set_origins
from explorer.ir.rewriting import Declined, RecordedRewriter
from explorer.ir.top.control import LoopOp
from explorer.ir.top.elementwise import BinaryOp
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
from explorer.ir.weights import Weights
from explorer.passes.analysis.matching import constant, weight_name
from explorer.passes.sizes.infer_shapes import infer_again

MAX_OPERATIONS = 4096
"""Of one unrolled loop: beyond that the program would be too long to compile."""


def loop_length(op: TopOperation) -> int:
    """Operations of one iteration, nested ones included."""
    *inner, _ = op.regions[0].block.ops
    return sum(1 for o in inner for _ in o.walk())


def read_values(op: TopOperation) -> list[SSAValue]:
    """Operands, and what regions take from outside."""
    inside = {value for block in _blocks(op) for value in block.args}
    inside |= {result for inner in op.walk() for result in inner.results}
    read = [o for inner in op.walk() for o in inner.operands]
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


def iteration_number(op: LoopOp, number: int, rewriter: RecordedRewriter) -> SSAValue:
    """The number of an iteration, counted from 0, as a constant.

    It is stored under a name of its own: a store compares what comes under one name with all that
    it has under that name.
    """
    name = weight_name(op, "number") + (f".{number + 1}" if number else "")
    return rewriter.add_weight(op, name, np.array(number, np.int64))


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


def check_harmless(block: Block, what: str, weights: Weights | None = None) -> None:
    """Declined for a block that must not run where the program would not have run it.

    weights: with them a division by constants, none of which is 0, is no reason.
    """
    for inner in block.walk():
        if not isinstance(inner, BinaryOp) or inner.get("kind") not in ("div", "mod"):
            continue
        divisor = None if weights is None else constant(inner.operands[1], weights)
        if divisor is not None and divisor.all():
            continue
        if not isinstance(element_type_of(inner.results[0]), AnyFloat):
            raise Declined(f"{identity_of(inner)} in {what} may divide by zero")
