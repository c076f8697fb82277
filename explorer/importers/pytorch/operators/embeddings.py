"""Tables of rows: bags of their rows, and rows that may only be so long.

aten.embedding_bag(W, [4, 1, 7], [0, 2])        W[4] + W[1] and W[7]: bags begin at 0 and at 2
aten.embedding_renorm(W, [4], 1.0, 2.0)         W, whose row 4 is shortened to length 1

Which rows a bag holds only a run decides, so that every bag chooses among all rows that are taken.
"""

from __future__ import annotations

import numpy as np

from explorer.importers.building.attention_scores import counted
from explorer.importers.building.build import Build
from explorer.importers.building.expr import Expr, maximum, where
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
        rows = rows * node.operand("per_sample_weights").unsqueeze([1])
    zero, mode = rows.constant(0), node.integer("mode", build, 0)
    rows, chosen = rows.unsqueeze([0]), is_in.unsqueeze([2])
    counts = chosen.astype(rows.dtype).sum([1])
    if mode == _MAX:
        least = rows.constant(-np.inf)
        largest = where(chosen, rows, least).max([1])
        return [where(counts == zero, zero, largest)]
    total = where(chosen, rows, zero).sum([1])
    if mode == _MEAN:
        least = rows.constant(1)
        total = total / maximum(counts, least)
    return [total]


def _bags(node: AtenNode, places: Expr, build: Build) -> Expr:
    """(bags, places): whether the place is in the bag."""
    offsets = node.operand("offsets").astype(np.int64)
    (count,) = offsets.sizes([0], "bags")
    if node.flag("include_last_offset"):
        count -= 1
        ends = offsets.slice(0, 1, count + 1)
    else:
        last = build.weight(np.array([np.iinfo(np.int64).max]))
        ends = build.concat([offsets.slice(0, 1, count), last], 0)
    begins = offsets.slice(0, 0, count)
    numbers = counted(places, 0, build).astype(np.int64).reshape([-1])
    is_in = (begins.unsqueeze([1]) <= numbers) & (numbers < ends.unsqueeze([1]))
    padding = node.integer("padding_idx", build, -1)
    if padding < 0:
        if not node.call.target.endswith(".padding_idx") or not node.has("padding_idx"):
            return is_in
        padding += node.operand("weight").sizes([0], "rows from the end")[0]
    return is_in & ~(places == padding)


def shortened(node: AtenNode, build: Build) -> Expr:
    """The table, with the rows that are taken no longer than a length."""
    table, places = node.operand("self"), node.operand("indices")
    longest = table.constant(node.number("max_norm"))
    length = p_norm(table, node.number("norm_type"), [1], True)
    factor = longest / (length + _TINY)
    (rows,) = table.sizes([0], "a table")
    numbers = build.weight(np.arange(rows).reshape(-1, 1).astype(places.dtype))
    is_here = numbers == places.reshape([1, -1])
    uses = is_here.astype(table.dtype).sum([1], True)
    is_taken = uses > 0
    is_long = length > longest
    one = table.constant(1)
    return table * where(is_taken & is_long, factor, one)


CONVERTERS = {
    "embedding_bag": embedding_bag,
    "embedding_bag.padding_idx": embedding_bag,
    "_embedding_bag": embedding_bag,
    "_embedding_bag_forward_only": embedding_bag,
    "embedding_renorm": shortened,
}
