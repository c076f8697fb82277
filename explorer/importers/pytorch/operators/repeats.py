"""Different elements and repeated ones: results whose size only a run knows.

aten._unique2(x)                                  sorted values, where each is, how often
aten.unique_consecutive(x)                        the first of each run of equal ones
aten.repeat_interleave.self_Tensor(x, repeats)    element i as often as repeats[i] says
"""

from __future__ import annotations

import numpy as np

from explorer.importers.building.attention_scores import counted_to
from explorer.importers.building.build import Build
from explorer.importers.building.expr import Expr
from explorer.importers.pytorch.operators.joining import repeat_each
from explorer.importers.pytorch.operators.movement import expanded
from explorer.importers.pytorch.operators.node import AtenNode
from explorer.ir.top.indexing import GatherOp
from explorer.ir.top.movement.slices import TO_THE_END
from explorer.ir.top.reductions.cumulative import CumulativeOp
from explorer.ir.top.selection import NonZeroOp, UniqueOp


def unique(node: AtenNode, build: Build) -> list[Expr]:
    """The different elements in ascending order, which of them each is, and their counts."""
    x = node.operand("self")
    flat = x.reshape([-1])
    values, _, inverse, counts = build.values(UniqueOp, [flat], axis=0, is_sorted=True)
    return _asked(node, values, inverse.reshape(x.all_sizes()), counts, build)


def unique_slices(node: AtenNode, build: Build) -> list[Expr]:
    """The different slices along an axis in ascending order; the inverse is always there."""
    x = node.operand("self")
    axis = build.axis(node.integer("dim", build), x.rank)
    values, _, inverse, counts = build.values(UniqueOp, [x], axis=axis, is_sorted=True)
    return [values, inverse, counts]


def first_of_runs(node: AtenNode, build: Build) -> list[Expr]:
    """The first of each run of equal elements (slices along `dim`), which run each is in, and how
    long they are."""
    x = node.operand("self")
    whole = not node.has("dim")
    flat = x.reshape([-1]) if whole else x
    axis = 0 if whole else build.axis(node.integer("dim", build), x.rank)
    is_first = _is_first_of_run(flat, axis, build)
    begins = build.value(NonZeroOp, [is_first]).squeeze([0])
    values = build.value(GatherOp, [flat, begins], axis=axis)
    one = build.weight(np.array(1, np.int64))
    inverse = _running_sum(is_first.astype(np.int64), build) - one
    (size,) = is_first.sizes([0], "runs of elements")
    ends = build.concat([begins, build.weight(np.array([size], np.int64))], 0)
    counts = ends.slice(0, 1, TO_THE_END) - begins
    places = inverse.reshape(x.all_sizes()) if whole else inverse
    return _asked(node, values, places, counts, build)


def repeat_by_counts(node: AtenNode, build: Build) -> Expr:
    """Each slice of an axis as often as its count says; without a tensor the place of each."""
    given = node.operand("repeats")
    counts = given.astype(np.int64)
    if not node.has("self"):
        return _repeated_places(node, counts, build)
    if build.stored(given) is not None:
        return repeat_each(node, build)
    x = node.operand("self")
    x, axis = (
        (x, build.axis(node.integer("dim", build), x.rank))
        if node.has("dim")
        else (x.reshape([-1]), 0)
    )
    sizes = [x.all_sizes()[axis]]
    counts = expanded(counts.reshape([-1]), sizes)
    return build.value(GatherOp, [x, _repeated_places(node, counts, build)], axis=axis)


def _repeated_places(node: AtenNode, counts: Expr, build: Build) -> Expr:
    """The place i as often as counts[i] says: as many slices end before an element."""
    ends = _running_sum(counts, build)
    if node.has("output_size"):
        number = build.weight(np.arange(node.integer("output_size", build)))
    else:
        number = counted_to(counts.sum([0]), build)
    return (ends.unsqueeze([0]) <= number.unsqueeze([1])).astype(np.int64).sum([1])


def _is_first_of_run(x: Expr, axis: int, build: Build) -> Expr:
    """Of each slice along an axis, whether it differs from the one before."""
    (size,) = x.sizes([axis], "runs of elements")
    before, behind = (
        x.slice(axis, 0, max(size - 1, 0)),
        x.slice(axis, 1, max(size, 1)),
    )
    differs = ~(before == behind)
    others = [a for a in range(x.rank) if a != axis]
    any_differs = differs.astype(np.uint8).max(others)
    first = build.weight(np.ones(min(size, 1), np.uint8))
    return build.concat([first, any_differs], 0).astype(np.bool_)


def _running_sum(x: Expr, build: Build) -> Expr:
    return build.value(CumulativeOp, [x], kind="sum", axis=0, exclusive=False, reverse=False)


def _asked(node: AtenNode, values: Expr, places: Expr, counts: Expr, build: Build) -> list[Expr]:
    """What was not asked for is empty."""
    nothing = build.weight(np.zeros(0, np.int64))
    has_places, has_counts = node.flag("return_inverse"), node.flag("return_counts")
    return [values, places if has_places else nothing, counts if has_counts else nothing]


CONVERTERS = {
    "_unique2": unique,
    "unique_dim": unique_slices,
    "unique_consecutive": first_of_runs,
    "unique_dim_consecutive": first_of_runs,
    "repeat_interleave.Tensor": repeat_by_counts,
    "repeat_interleave.self_Tensor": repeat_by_counts,
}
