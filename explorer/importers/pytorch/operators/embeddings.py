"""Tables of rows: bags of their rows, and rows that may only be so long.

aten.embedding_bag(W, [4, 1, 7], [0, 2])        W[4] + W[1] and W[7]: bags begin at 0 and at 2
aten.embedding_renorm(W, [4], 1.0, 2.0)         W, whose row 4 is shortened to length 1

Which rows a bag holds only a run decides, so that every bag chooses among all rows that are taken.
"""

from __future__ import annotations

import numpy as np

from explorer.importers.building.attention_scores import counted
from explorer.importers.building.build import Build
from explorer.importers.building.expr import Expr
from explorer.importers.pytorch.operators.node import AtenNode
from explorer.importers.pytorch.operators.reductions import p_norm
from explorer.ir.top.indexing import GatherOp

_MEAN, _MAX = 1, 2
"""`mode`; 0 is the sum."""
_TINY = 1e-7
"""What PyTorch adds to a length before it divides by it."""


def embedding_bag(node: AtenNode, build: Build) -> list[Expr]:
    """The sum, mean or maximum of the rows of each bag; zeros for one without rows."""
    node.require_unused(1, "what a backward pass of bags needs")
    weight, places = node.operand("weight"), node.operand("indices")
    is_in = _bags(node, places, build)
    rows = build.value(GatherOp, [weight, places], axis=0)
    if node.has("per_sample_weights"):
        rows = build.binary("mul", rows, build.unsqueeze(node.operand("per_sample_weights"), [1]))
    zero, mode = build.scalar_like(0, rows), node.integer("mode", build, 0)
    rows, chosen = build.unsqueeze(rows, [0]), build.unsqueeze(is_in, [2])
    counts = build.reduce("sum", build.cast(chosen, build.dtype(rows)), [1])
    if mode == _MAX:
        least = build.scalar_like(-np.inf, rows)
        largest = build.reduce("max", build.select(chosen, rows, least), [1])
        return [build.select(build.binary("equal", counts, zero), zero, largest)]
    total = build.reduce("sum", build.select(chosen, rows, zero), [1])
    if mode == _MEAN:
        least = build.scalar_like(1, rows)
        total = build.binary("div", total, build.binary("max", counts, least))
    return [total]


def _bags(node: AtenNode, places: Expr, build: Build) -> Expr:
    """(bags, places): whether the place is in the bag."""
    offsets = build.cast(node.operand("offsets"), np.int64)
    (count,) = build.sizes(offsets, [0], "bags")
    if node.flag("include_last_offset"):
        count -= 1
        ends = build.slice(offsets, 0, 1, count + 1)
    else:
        last = build.weight(np.array([np.iinfo(np.int64).max]))
        ends = build.concat([build.slice(offsets, 0, 1, count), last], 0)
    begins = build.slice(offsets, 0, 0, count)
    numbers = build.reshape(build.cast(counted(places, 0, build), np.int64), [-1])
    is_in = build.binary(
        "and",
        build.binary("less_equal", build.unsqueeze(begins, [1]), numbers),
        build.binary("less", numbers, build.unsqueeze(ends, [1])),
    )
    padding = node.integer("padding_idx", build, -1)
    if padding < 0:
        return is_in
    is_padding = build.binary("equal", places, build.scalar_like(padding, places))
    return build.binary("and", is_in, build.unary("not", is_padding))


def shortened(node: AtenNode, build: Build) -> Expr:
    """The table, with the rows that are taken no longer than a length."""
    table, places = node.operand("self"), node.operand("indices")
    longest = build.scalar_like(node.number("max_norm"), table)
    length = p_norm(table, node.number("norm_type"), [1], True, build)
    factor = build.binary(
        "div", longest, build.binary("add", length, build.scalar_like(_TINY, length))
    )
    (rows,) = build.sizes(table, [0], "a table")
    numbers = build.weight(np.arange(rows).reshape(-1, 1).astype(build.dtype(places)))
    is_here = build.binary("equal", numbers, build.reshape(places, [1, -1]))
    uses = build.reduce("sum", build.cast(is_here, build.dtype(table)), [1], True)
    is_taken = build.binary("greater", uses, build.scalar_like(0, table))
    is_long = build.binary("greater", length, longest)
    one = build.scalar_like(1, table)
    factor = build.select(build.binary("and", is_taken, is_long), factor, one)
    return build.binary("mul", table, factor)


CONVERTERS = {
    "embedding_bag": embedding_bag,
    "embedding_bag.padding_idx": embedding_bag,
    "_embedding_bag": embedding_bag,
    "_embedding_bag_forward_only": embedding_bag,
    "embedding_renorm": shortened,
}
