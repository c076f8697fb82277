"""Statistics: quantiles, medians, modes, histograms, and sums under lines.

aten.quantile(x, 0.5)               sorted x at 0.5 (n - 1), between two elements
aten.trapezoid.dx(y, dx=2)          sum(y[1:] + y[:-1])
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations as choices
from itertools import combinations_with_replacement as repeated_choices

import numpy as np

from explorer.importers.building.build import Build, Unsupported
from explorer.importers.building.expr import Expr, maximum, minimum, where
from explorer.importers.pytorch.operators.node import AtenNode
from explorer.importers.pytorch.operators.promotion import as_value, common_dtype
from explorer.importers.pytorch.operators.reductions import neighbours, p_norm
from explorer.ir.top.indexing import GatherElementsOp
from explorer.ir.top.reductions.arg import ArgOp
from explorer.ir.top.reductions.cumulative import CumulativeOp
from explorer.ir.top.reductions.reduction import TopKOp

_MAX_PAIRS = 1 << 24
"""Comparisons of each element with each other one."""


def _zero_place(build: Build) -> Expr:
    return build.weight(np.array(0, np.int64))


def _ordered(x: Expr, axis: int, build: Build) -> Sequence[Expr]:
    """The elements of an axis from the least to the largest, what is no number last, with their
    places."""
    (size,) = x.sizes([axis], "sorting")
    if not x.is_float:
        return build.values(TopKOp, [x], k=size, axis=axis, largest=False)
    # Numbers come first whatever the sort makes of NaN: infinities stand for it.
    is_nan = x.is_nan()
    key = where(is_nan, np.inf, x)
    keys, places = build.values(TopKOp, [key], k=size, axis=axis, largest=False)
    taken = build.value(GatherElementsOp, [is_nan.astype(np.uint8), places], axis=axis)
    # Stable among infinities, so those that are NaN need their own order.
    order = build.values(TopKOp, [taken], k=size, axis=axis, largest=False)[1]
    values = build.value(GatherElementsOp, [keys, order], axis=axis)
    marks = build.value(GatherElementsOp, [taken, order], axis=axis).astype(np.bool_)
    places = build.value(GatherElementsOp, [places, order], axis=axis)
    return [where(marks, np.nan, values), places]


def _whole_or_axis(node: AtenNode, x: Expr, build: Build) -> tuple[Expr, int]:
    """The tensor and the axis along which it is looked at; all of it as a row without `dim`."""
    if not node.has("dim") or not x.rank:
        return x.reshape([-1]), 0
    return x, build.axis(node.integer("dim", build), x.rank)


# -- quantiles -------------------------------------------------------------------------------------


def quantile(node: AtenNode, build: Build) -> Expr:
    """Where a share q of an axis lies below; between two elements as `interpolation` says."""
    whole = node.operand("self")
    x, axis = _whole_or_axis(node, whole, build)
    rank = x.rank
    x = x.transpose([*(a for a in range(rank) if a != axis), axis])
    (size,) = x.sizes([rank - 1], "a quantile")
    values, _ = _ordered(x, rank - 1, build)
    is_nan = x.is_nan().astype(np.int64)
    missing = is_nan.sum([rank - 1], True)
    shares = as_value(node, "q", x.dtype, build)
    counted = build.weight(np.array(size - 1, np.int64)) - missing
    ignores = "nanquantile" in node.call.target
    last = counted.astype(x.dtype) if ignores else x.constant(size - 1)
    last = maximum(last, 0)
    place = last * shares.reshape([-1])  # (..., shares)
    place = place.broadcast_to([*x.all_sizes()[:-1], place.all_sizes()[-1]])
    result = _between(values, place, node.text("interpolation", "linear"), build)
    if not ignores:
        is_any = missing > _zero_place(build)
        result = where(is_any, np.nan, result)
    result = result.transpose([rank - 1, *range(rank - 1)])
    lead = [1] if not shares.rank else result.all_sizes()[:1]
    if node.flag("keepdim"):
        kept = [1] * whole.rank
        if node.has("dim") and whole.rank:
            others = iter(result.all_sizes()[1:])
            kept = [1 if a == axis else next(others) for a in range(whole.rank)]
        result = result.reshape([*lead, *kept])
    return result if shares.rank else result.squeeze([0])


def _between(values: Expr, place: Expr, mode: str, build: Build) -> Expr:
    """What sorted values are at places, of which one may lie between two of them."""
    axis = values.rank - 1

    def at(number: Expr) -> Expr:
        return build.value(GatherElementsOp, [values, number.astype(np.int64)], axis=axis)

    if mode in ("lower", "higher", "nearest"):
        kind = {"lower": "floor", "higher": "ceil", "nearest": "round"}[mode]
        return at(place.unary(kind))
    below = place.floor()
    low, high = at(below), at(place.ceil())
    if mode == "midpoint":
        share: Expr = values.constant(0.5)
        is_between = below < place
        share = where(is_between, share, 0)
    elif mode == "linear":
        share = place - below
    else:
        raise Unsupported(f"interpolation={mode!r}")
    return low + share * (high - low)


def nan_median(node: AtenNode, build: Build) -> Expr | list[Expr]:
    """The element in the middle of those that are numbers, the lower one of two."""
    x, is_whole = node.operand("self"), not node.has("dim")
    if not x.rank:
        return x if is_whole else [x, _zero_place(build)]
    x, axis = _whole_or_axis(node, x, build)
    values, places = _ordered(x, axis, build)
    is_number = ~x.is_nan()
    count = is_number.astype(np.int64).sum([axis], True)
    one, two = (build.weight(np.array(n, np.int64)) for n in (1, 2))
    middle = maximum((count - one) / two, _zero_place(build))
    found = [build.value(GatherElementsOp, [v, middle], axis=axis) for v in (values, places)]
    if not node.flag("keepdim"):
        found = [v.squeeze([axis]) for v in found]
    return found[0] if is_whole else found


def mode(node: AtenNode, build: Build) -> list[Expr]:
    """The element of an axis that comes most often, the least of several, and its last place."""
    x = node.operand("self")
    if not x.rank:
        return [x, _zero_place(build)]
    rank = x.rank
    axis = build.axis(node.integer("dim", build, -1), rank)
    known = x.sizes(range(rank), "the most frequent elements")
    if int(np.prod(known)) * known[axis] > _MAX_PAIRS:
        raise Unsupported(f"the most frequent of {known[axis]} elements: too many comparisons")
    row = x.transpose([*(a for a in range(rank) if a != axis), axis])
    pairs = row.unsqueeze([rank - 1]) == row.unsqueeze([rank])
    counts = pairs.astype(np.int64).sum([rank])
    is_most = counts == counts.max([rank - 1], True)
    top = _largest(row, build)
    least = where(is_most, row, top).min([rank - 1], True)
    is_found = (row == least).astype(np.uint8)
    place = build.value(
        ArgOp, [is_found], kind="max", axis=rank - 1, keepdims=True, select_last=True
    )
    found = [least, place]
    if node.flag("keepdim"):
        order = [*range(axis), rank - 1, *range(axis, rank - 1)]
        return [v.transpose(order) for v in found]
    return [v.squeeze([rank - 1]) for v in found]


def _largest(x: Expr, build: Build) -> Expr:
    if x.is_float:
        return x.constant(np.inf)
    return x.constant(True if x.is_boolean else np.iinfo(x.dtype).max)


# -- counting --------------------------------------------------------------------------------------


def histogram(node: AtenNode, build: Build) -> Expr:
    """How many elements lie in each of `bins` parts between two numbers, the last of them with its
    end; between the least and the largest element where both are 0."""
    x, bins = node.operand("self").reshape([-1]), node.integer("bins", build, 100)
    low, high = node.number("min", 0.0), node.number("max", 0.0)
    if low == high:
        raise Unsupported("bounds that the data decide: give min and max")
    is_inside = (x >= low) & (x <= high)
    place = minimum(((x - low).scaled(bins) / (high - low)).floor(), bins - 1)
    numbers = build.weight(np.arange(bins).astype(x.dtype))
    is_here = (place.unsqueeze([1]) == numbers) & is_inside.unsqueeze([1])
    return is_here.astype(x.dtype).sum([0])


def is_in(node: AtenNode, build: Build) -> Expr:
    """True where an element is one of others; with `invert` where it is none."""
    names = [
        node.one_of(*pair) for pair in (("elements", "element"), ("test_elements", "test_element"))
    ]
    dtype = common_dtype(node, names)
    x, others = (as_value(node, name, dtype, build) for name in names)
    row = others.reshape([-1])
    is_same = x.unsqueeze([x.rank]) == row
    found = is_same.astype(np.uint8).max([x.rank]).astype(np.bool_)
    return ~found if node.flag("invert") else found


# -- lines -----------------------------------------------------------------------------------------


def trapezoid(node: AtenNode, build: Build) -> Expr:
    """The area under the line through points y, a number apart or at places x: whole or so far."""
    y = node.operand("y")
    axis = build.axis(node.integer("dim", build, -1), y.rank)
    low, high = neighbours(y, axis)
    heights = (low + high) * 0.5
    if node.has("x"):
        x = node.operand("x")
        if x.rank == 1:
            x = x.reshape([-1, *[1] * (y.rank - 1 - axis)])
        along = x.rank - (y.rank - axis)
        below, above = neighbours(x, along)
        heights = heights * (above - below)
    else:
        heights = heights.scaled(node.number("dx", 1.0))
    if "cumulative" not in node.call.target:
        return heights.sum([axis])
    return build.value(
        CumulativeOp, [heights], kind="sum", axis=axis, exclusive=False, reverse=False
    )


# -- choices ---------------------------------------------------------------------------------------


def pair_distances(node: AtenNode, build: Build) -> Expr:
    """The norms of the differences of all pairs of rows."""
    x = node.operand("self")
    (rows,) = x.sizes([0], "pairs of rows")
    first, second = np.triu_indices(rows, 1)
    return p_norm(x.take(first, 0) - x.take(second, 0), node.number("p", 2.0), [1], False)


def combinations(node: AtenNode, build: Build) -> Expr:
    """All choices of r elements of a row, in its order."""
    x, count = node.operand("self"), node.integer("r", build, 2)
    (size,) = x.sizes([0], "choices")
    drawn = repeated_choices if node.flag("with_replacement") else choices
    places = list(drawn(range(size), count))
    return x.take(np.array(places, np.int64).reshape(len(places), count), 0)


def cartesian_product(node: AtenNode, build: Build) -> Expr:
    """All choices of one element of each row."""
    rows = node.tensors("tensors")
    if len(rows) == 1:
        return rows[0]
    sizes = [row.sizes([0], "choices")[0] for row in rows]
    columns = [
        row.reshape([size, *[1] * (len(rows) - 1 - index)]).broadcast_to(sizes)
        for index, (row, size) in enumerate(zip(rows, sizes, strict=True))
    ]
    return build.concat([column.reshape([-1, 1]) for column in columns], 1)


CONVERTERS = {
    **{f"{n}{o}": quantile for n in ("quantile", "nanquantile") for o in ("", ".scalar")},
    "nanmedian": nan_median,
    "nanmedian.dim": nan_median,
    "mode": mode,
    "histc": histogram,
    **{f"isin.{o}": is_in for o in ("Tensor_Tensor", "Tensor_Scalar", "Scalar_Tensor")},
    **{
        f"{n}.{o}": trapezoid
        for n in ("trapezoid", "trapz", "cumulative_trapezoid")
        for o in ("x", "dx")
    },
    "pdist": pair_distances,
    "_pdist_forward": pair_distances,
    "combinations": combinations,
    "cartesian_prod": cartesian_product,
}
