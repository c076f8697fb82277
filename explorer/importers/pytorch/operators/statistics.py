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
from explorer.importers.building.expr import Expr
from explorer.importers.pytorch.operators.node import AtenNode
from explorer.importers.pytorch.operators.promotion import as_value, common_dtype
from explorer.importers.pytorch.operators.reductions import p_norm
from explorer.ir.top.indexing import GatherElementsOp
from explorer.ir.top.reductions.arg import ArgOp
from explorer.ir.top.reductions.cumulative import CumulativeOp
from explorer.ir.top.reductions.reduction import TopKOp

_MOST_PAIRS = 1 << 24
"""Comparisons of each element with each other one."""


def _zero_place(build: Build) -> Expr:
    return build.weight(np.array(0, np.int64))


def _ordered(x: Expr, axis: int, build: Build) -> Sequence[Expr]:
    """The elements of an axis from the least to the largest, what is no number last, with their
    places."""
    (size,) = build.sizes(x, [axis], "sorting")
    if not build.is_float(x):
        return build.values(TopKOp, [x], k=size, axis=axis, largest=False)
    # Numbers come first whatever the sort makes of NaN: infinities stand for it.
    is_nan = build.unary("is_nan", x)
    key = build.select(is_nan, build.scalar_like(np.inf, x), x)
    keys, places = build.values(TopKOp, [key], k=size, axis=axis, largest=False)
    taken = build.value(GatherElementsOp, [build.cast(is_nan, np.uint8), places], axis=axis)
    # Stable among infinities, so those that are NaN need their own order.
    order = build.values(TopKOp, [taken], k=size, axis=axis, largest=False)[1]
    values = build.value(GatherElementsOp, [keys, order], axis=axis)
    marks = build.cast(build.value(GatherElementsOp, [taken, order], axis=axis), np.bool_)
    places = build.value(GatherElementsOp, [places, order], axis=axis)
    return [build.select(marks, build.scalar_like(np.nan, x), values), places]


def _whole_or_axis(node: AtenNode, x: Expr, build: Build) -> tuple[Expr, int]:
    """The tensor and the axis along which it is looked at; all of it as a row without `dim`."""
    if not node.has("dim") or not build.rank(x):
        return build.reshape(x, [-1]), 0
    return x, build.axis(node.integer("dim", build), build.rank(x))


# -- quantiles -------------------------------------------------------------------------------------


def quantile(node: AtenNode, build: Build) -> Expr:
    """Where a share q of an axis lies below; between two elements as `interpolation` says."""
    whole = node.operand("self")
    x, axis = _whole_or_axis(node, whole, build)
    rank = build.rank(x)
    x = build.transpose(x, [*(a for a in range(rank) if a != axis), axis])
    (size,) = build.sizes(x, [rank - 1], "a quantile")
    values, _ = _ordered(x, rank - 1, build)
    is_nan = build.cast(build.unary("is_nan", x), np.int64)
    missing = build.reduce("sum", is_nan, [rank - 1], True)
    shares = as_value(node, "q", build.dtype(x), build)
    counted = build.binary("sub", build.weight(np.array(size - 1, np.int64)), missing)
    ignores = "nanquantile" in node.call.target
    last = build.cast(counted, build.dtype(x)) if ignores else build.scalar_like(size - 1, x)
    last = build.binary("max", last, build.scalar_like(0, x))
    place = build.binary("mul", last, build.reshape(shares, [-1]))  # (..., shares)
    place = build.expand(place, [*build.all_sizes(x)[:-1], build.all_sizes(place)[-1]])
    result = _between(values, place, node.text("interpolation", "linear"), build)
    if not ignores:
        is_any = build.binary("greater", missing, _zero_place(build))
        result = build.select(is_any, build.scalar_like(np.nan, x), result)
    result = build.transpose(result, [rank - 1, *range(rank - 1)])
    lead = [1] if not build.rank(shares) else build.all_sizes(result)[:1]
    if node.flag("keepdim"):
        kept = [1] * build.rank(whole)
        if node.has("dim") and build.rank(whole):
            others = iter(build.all_sizes(result)[1:])
            kept = [1 if a == axis else next(others) for a in range(build.rank(whole))]
        result = build.reshape(result, [*lead, *kept])
    return result if build.rank(shares) else build.squeeze(result, [0])


def _between(values: Expr, place: Expr, mode: str, build: Build) -> Expr:
    """What sorted values are at places, of which one may lie between two of them."""
    axis = build.rank(values) - 1

    def at(number: Expr) -> Expr:
        index = build.cast(number, np.int64)
        return build.value(GatherElementsOp, [values, index], axis=axis)

    if mode in ("lower", "higher", "nearest"):
        kind = {"lower": "floor", "higher": "ceil", "nearest": "round"}[mode]
        return at(build.unary(kind, place))
    below = build.unary("floor", place)
    low, high = at(below), at(build.unary("ceil", place))
    if mode == "midpoint":
        share: Expr = build.scalar_like(0.5, values)
        is_between = build.binary("less", below, place)
        share = build.select(is_between, share, build.scalar_like(0, values))
    elif mode == "linear":
        share = build.binary("sub", place, below)
    else:
        raise Unsupported(f"interpolation={mode!r}")
    return build.binary("add", low, build.binary("mul", share, build.binary("sub", high, low)))


def nan_median(node: AtenNode, build: Build) -> Expr | list[Expr]:
    """The element in the middle of those that are numbers, the lower one of two."""
    x, is_whole = node.operand("self"), not node.has("dim")
    if not build.rank(x):
        return x if is_whole else [x, _zero_place(build)]
    x, axis = _whole_or_axis(node, x, build)
    values, places = _ordered(x, axis, build)
    is_number = build.unary("not", build.unary("is_nan", x))
    count = build.reduce("sum", build.cast(is_number, np.int64), [axis], True)
    one, two = (build.weight(np.array(n, np.int64)) for n in (1, 2))
    middle = build.binary("div", build.binary("sub", count, one), two)
    middle = build.binary("max", middle, _zero_place(build))
    found = [build.value(GatherElementsOp, [v, middle], axis=axis) for v in (values, places)]
    if not node.flag("keepdim"):
        found = [build.squeeze(v, [axis]) for v in found]
    return found[0] if is_whole else found


def mode(node: AtenNode, build: Build) -> list[Expr]:
    """The element of an axis that comes most often, the least of several, and its last place."""
    x = node.operand("self")
    if not build.rank(x):
        return [x, _zero_place(build)]
    rank = build.rank(x)
    axis = build.axis(node.integer("dim", build, -1), rank)
    known = build.sizes(x, range(rank), "the most frequent elements")
    if int(np.prod(known)) * known[axis] > _MOST_PAIRS:
        raise Unsupported(f"the most frequent of {known[axis]} elements: too many comparisons")
    row = build.transpose(x, [*(a for a in range(rank) if a != axis), axis])
    pairs = build.binary("equal", build.unsqueeze(row, [rank - 1]), build.unsqueeze(row, [rank]))
    counts = build.reduce("sum", build.cast(pairs, np.int64), [rank])
    is_most = build.binary("equal", counts, build.reduce("max", counts, [rank - 1], True))
    top = _largest(row, build)
    least = build.reduce("min", build.select(is_most, row, top), [rank - 1], True)
    is_found = build.cast(build.binary("equal", row, least), np.uint8)
    place = build.value(
        ArgOp, [is_found], kind="max", axis=rank - 1, keepdims=True, select_last=True
    )
    found = [least, place]
    if node.flag("keepdim"):
        order = [*range(axis), rank - 1, *range(axis, rank - 1)]
        return [build.transpose(v, order) for v in found]
    return [build.squeeze(v, [rank - 1]) for v in found]


def _largest(x: Expr, build: Build) -> Expr:
    if build.is_float(x):
        return build.scalar_like(np.inf, x)
    return build.weight(np.array(np.iinfo(build.dtype(x)).max, build.dtype(x)))


# -- counting --------------------------------------------------------------------------------------


def histogram(node: AtenNode, build: Build) -> Expr:
    """How many elements lie in each of `bins` parts between two numbers, the last of them with its
    end; between the least and the largest element where both are 0."""
    x, bins = build.reshape(node.operand("self"), [-1]), node.integer("bins", build, 100)
    low, high = node.number("min", 0.0), node.number("max", 0.0)
    if low == high:
        raise Unsupported("bounds that the data decide: give min and max")
    is_inside = build.binary(
        "and",
        build.binary("greater_equal", x, build.scalar_like(low, x)),
        build.binary("less_equal", x, build.scalar_like(high, x)),
    )
    place = build.scaled(build.binary("sub", x, build.scalar_like(low, x)), bins)
    place = build.binary("div", place, build.scalar_like(high - low, x))
    place = build.binary("min", build.unary("floor", place), build.scalar_like(bins - 1, x))
    numbers = build.weight(np.arange(bins).astype(build.dtype(x)))
    is_here = build.binary("equal", build.unsqueeze(place, [1]), numbers)
    is_here = build.binary("and", is_here, build.unsqueeze(is_inside, [1]))
    return build.reduce("sum", build.cast(is_here, build.dtype(x)), [0])


def is_in(node: AtenNode, build: Build) -> Expr:
    """True where an element is one of others; with `invert` where it is none."""
    names = [
        node.one_of(*pair) for pair in (("elements", "element"), ("test_elements", "test_element"))
    ]
    dtype = common_dtype(node, names, build)
    x, others = (as_value(node, name, dtype, build) for name in names)
    row = build.reshape(others, [-1])
    is_same = build.binary("equal", build.unsqueeze(x, [build.rank(x)]), row)
    found = build.reduce("max", build.cast(is_same, np.uint8), [build.rank(x)])
    found = build.cast(found, np.bool_)
    return build.unary("not", found) if node.flag("invert") else found


# -- lines -----------------------------------------------------------------------------------------


def _neighbours(x: Expr, axis: int, build: Build) -> tuple[Expr, Expr]:
    (size,) = build.sizes(x, [axis], "neighbours")
    return build.slice(x, axis, 0, max(size - 1, 0)), build.slice(x, axis, 1, max(size, 1))


def trapezoid(node: AtenNode, build: Build) -> Expr:
    """The area under the line through points y, a number apart or at places x: whole or so far."""
    y = node.operand("y")
    axis = build.axis(node.integer("dim", build, -1), build.rank(y))
    low, high = _neighbours(y, axis, build)
    heights = build.scaled(build.binary("add", low, high), 0.5)
    if node.has("x"):
        x = node.operand("x")
        if build.rank(x) == 1:
            x = build.reshape(x, [-1, *[1] * (build.rank(y) - 1 - axis)])
        along = build.rank(x) - (build.rank(y) - axis)
        below, above = _neighbours(x, along, build)
        heights = build.binary("mul", heights, build.binary("sub", above, below))
    else:
        heights = build.scaled(heights, node.number("dx", 1.0))
    if "cumulative" not in node.call.target:
        return build.reduce("sum", heights, [axis])
    return build.value(
        CumulativeOp, [heights], kind="sum", axis=axis, exclusive=False, reverse=False
    )


# -- choices ---------------------------------------------------------------------------------------


def pair_distances(node: AtenNode, build: Build) -> Expr:
    """The norms of the differences of all pairs of rows."""
    x = node.operand("self")
    (rows,) = build.sizes(x, [0], "pairs of rows")
    first, second = np.triu_indices(rows, 1)
    apart = build.binary("sub", build.gather(x, first, 0), build.gather(x, second, 0))
    return p_norm(apart, node.number("p", 2.0), [1], False, build)


def combinations(node: AtenNode, build: Build) -> Expr:
    """All choices of r elements of a row, in its order."""
    x, count = node.operand("self"), node.integer("r", build, 2)
    (size,) = build.sizes(x, [0], "choices")
    drawn = repeated_choices if node.flag("with_replacement") else choices
    places = list(drawn(range(size), count))
    return build.gather(x, np.array(places, np.int64).reshape(len(places), count), 0)


def cartesian_product(node: AtenNode, build: Build) -> Expr:
    """All choices of one element of each row."""
    rows = node.tensors("tensors")
    if len(rows) == 1:
        return rows[0]
    sizes = [build.sizes(row, [0], "choices")[0] for row in rows]
    columns = [
        build.expand(build.reshape(row, [size, *[1] * (len(rows) - 1 - index)]), sizes)
        for index, (row, size) in enumerate(zip(rows, sizes, strict=True))
    ]
    return build.concat([build.reshape(column, [-1, 1]) for column in columns], 1)


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
