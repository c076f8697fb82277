"""Reductions: sums, means, extremes and where they are, running sums, sorted elements."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from explorer.importers.building.attention_scores import length
from explorer.importers.building.build import Build, Unsupported
from explorer.importers.building.expr import Expr, Number, maximum, where
from explorer.importers.building.formulas import centered
from explorer.importers.pytorch.operators.elementwise import log_of_sum
from explorer.importers.pytorch.operators.node import AtenNode
from explorer.importers.pytorch.operators.promotion import as_float
from explorer.ir.top.movement.slices import TO_THE_END
from explorer.ir.top.reductions.arg import ArgOp
from explorer.ir.top.reductions.cumulative import CumulativeOp
from explorer.ir.top.reductions.reduction import TopKOp

LONGEST_UNROLLED = 64
"""Steps that are written out one after another."""


def axes_of(node: AtenNode, x: Expr, build: Build, name: str = "dim") -> list[int]:
    """The axes that are asked for; all of them where none is."""
    rank = x.rank
    asked = node.integers(name, build, [])
    return build.axes(asked, max(rank, 1)) if asked and rank else list(range(rank))


def _widened(node: AtenNode, x: Expr) -> Expr:
    """Sums of whole numbers and of truth values are int64."""
    dtype = node.dtype()
    if dtype is not None:
        return x.astype(dtype)
    return x if x.is_float else x.astype(np.int64)


def total(node: AtenNode, build: Build) -> Expr:
    """The sum along axes."""
    x = _widened(node, node.operand("self"))
    return x.sum(axes_of(node, x, build), node.flag("keepdim"))


def product(node: AtenNode, build: Build) -> Expr:
    """The product along axes."""
    x = _widened(node, node.operand("self"))
    return x.reduce("prod", axes_of(node, x, build), node.flag("keepdim"))


def mean(node: AtenNode, build: Build) -> Expr:
    """The average along axes."""
    x, dtype = node.operand("self"), node.dtype()
    x = x if dtype is None else x.astype(dtype)
    return x.mean(axes_of(node, x, build), node.flag("keepdim"))


def ignoring_nan(node: AtenNode, build: Build) -> Expr:
    """The sum or the average of the elements that are numbers."""
    x = _widened(node, node.operand("self"))
    axes, keeps = axes_of(node, x, build), node.flag("keepdim")
    if not x.is_float:
        return x.sum(axes, keeps)
    is_number = ~x.is_nan()
    numbers = where(is_number, x, 0)
    sums = numbers.sum(axes, keeps)
    if "nansum" in node.call.target:
        return sums
    return sums / is_number.astype(x.dtype).sum(axes, keeps)


def extreme(node: AtenNode, build: Build) -> Expr:
    """The largest or the least element along axes."""
    x = node.operand("self")
    kind = "max" if "max" in node.call.target else "min"
    return _extreme(kind, x, axes_of(node, x, build), node.flag("keepdim"))


def _extreme(kind: str, x: Expr, axes: Sequence[int], keeps: bool) -> Expr:
    if x.dtype == np.bool_ and axes:
        return x.astype(np.uint8).reduce(kind, axes, keeps).astype(np.bool_)
    return x.reduce(kind, axes, keeps)


def both_extremes(node: AtenNode, build: Build) -> list[Expr]:
    """The least and the largest element."""
    x = node.operand("self")
    axes = axes_of(node, x, build)
    return [_extreme(kind, x, axes, node.flag("keepdim")) for kind in ("min", "max")]


def truth(node: AtenNode, build: Build) -> Expr:
    """Whether all elements, or any of them, are other than 0."""
    x = node.operand("self")
    kind = "min" if node.call.target.startswith("aten.all") else "max"
    return _extreme(kind, x.astype(np.bool_), axes_of(node, x, build), node.flag("keepdim"))


def extreme_with_place(node: AtenNode, build: Build) -> list[Expr]:
    """The largest or least element of an axis, and where it stands."""
    x, keeps = node.operand("self"), node.flag("keepdim")
    kind = "max" if "max" in node.call.target else "min"
    if not x.rank:
        return [x, build.weight(np.array(0, np.int64))]
    axis = build.axis(node.integer("dim", build), x.rank)
    return [_extreme(kind, x, [axis], keeps), _place(kind, x, axis, keeps, build)]


def place(node: AtenNode, build: Build) -> Expr:
    """Where the largest or least element stands: along an axis, or in all elements as a row."""
    x = node.operand("self")
    kind, keeps = "max" if "max" in node.call.target else "min", node.flag("keepdim")
    if not x.rank:
        return build.weight(np.array(0, np.int64))
    if node.has("dim"):
        return _place(kind, x, build.axis(node.integer("dim", build), x.rank), keeps, build)
    found = _place(kind, x.reshape([-1]), 0, False, build)
    return found.reshape([1] * x.rank) if keeps else found


def _place(kind: str, x: Expr, axis: int, keeps: bool, build: Build) -> Expr:
    if x.dtype == np.bool_:
        x = x.astype(np.uint8)
    return build.value(ArgOp, [x], kind=kind, axis=axis, keepdims=keeps, select_last=False)


def _correction(node: AtenNode) -> float:
    if node.has("unbiased"):
        return 1.0 if node.flag("unbiased") else 0.0
    if node.call.target.split(".")[-1] in ("correction", "correction_names"):
        return node.number("correction", 1.0)
    return 1.0


def _spread(node: AtenNode, build: Build) -> tuple[Expr, Expr]:
    """Variance (of `std` its root) and mean along axes, computed in f32 at least.

    `correction` is what the divisor is less than the count.
    """
    dtype = node.operand("self").dtype
    x = node.operand("self").wide()
    axes, keeps = axes_of(node, x, build), node.flag("keepdim")
    _, apart = centered(x, axes)
    divisor = _divisor(x, axes, _correction(node), build)
    if "std" in node.call.target:
        spread = _deviation(apart, axes, keeps, divisor)
    else:
        spread = (apart.reduce("sum_square", axes, keeps) if axes else apart.square()) / divisor
    return spread.astype(dtype), x.mean(axes, keeps).astype(dtype)


def _divisor(x: Expr, axes: Sequence[int], correction: float, build: Build) -> Number:
    """The number of elements along axes, without the correction; 0 at least."""
    if all(x.size(axis) is not None for axis in axes):
        return max(math.prod(x.sizes(axes, "a variance")) - correction, 0.0)
    count = math.prod(length(x, axis, build).astype(x.dtype) for axis in axes)
    return maximum(count - correction, 0.0)


def _deviation(apart: Expr, axes: Sequence[int], keeps: bool, divisor: Number) -> Expr:
    """The root of the mean square, of fractions of the largest: no square is 0 or infinite."""
    if not axes:
        return (apart.square() / divisor).sqrt()
    limits = np.finfo(apart.dtype)
    largest = abs(apart).max(axes, True).clip(float(limits.tiny), float(limits.max))
    squares = (apart / largest).reduce("sum_square", axes, True) / divisor
    result = squares.sqrt() * largest
    return result if keeps else result.squeeze(axes)


def variance(node: AtenNode, build: Build) -> Expr:
    """The average of the squares of what elements are apart from their mean, or its root."""
    return _spread(node, build)[0]


def variance_and_mean(node: AtenNode, build: Build) -> list[Expr]:
    """The variance or its root, and the mean."""
    return list(_spread(node, build))


def norm(node: AtenNode, build: Build) -> Expr:
    """(sum of |x|^p)^(1/p) along axes; the largest or least size for infinite p."""
    x = node.operand("self" if node.has("self") else "x")
    dtype = node.dtype()
    x = as_float(x if dtype is None else x.astype(dtype))
    p = node.number("p" if node.has("p") else "ord", 2.0)
    return p_norm(x, p, axes_of(node, x, build), node.flag("keepdim"))


def p_norm(x: Expr, p: float, axes: Sequence[int], keeps: bool) -> Expr:
    if not axes:
        magnitude = abs(x)
        return magnitude if p else x.astype(np.bool_).astype(x.dtype)
    if p in (1.0, 2.0):
        return x.reduce("l1" if p == 1 else "l2", axes, keeps)
    if math.isinf(p):
        return abs(x).reduce("max" if p > 0 else "min", axes, keeps)
    if p == 0:
        return x.astype(np.bool_).astype(x.dtype).sum(axes, keeps)
    return (abs(x) ** p).sum(axes, keeps) ** (1 / p)


def distance(node: AtenNode, build: Build) -> Expr:
    """The norm of the difference of two tensors."""
    apart = node.operand("self") - node.operand("other")
    return p_norm(apart, node.number("p", 2.0), list(range(apart.rank)), False)


def log_sum_exp(node: AtenNode, build: Build) -> Expr:
    """log(sum(exp(x))) along axes, without overflow."""
    x = as_float(node.operand("self"))
    axes, keeps = axes_of(node, x, build), node.flag("keepdim")
    if not axes:
        return x
    greatest = x.max(axes, True)
    is_infinite = greatest.unary("is_infinite", 1.0, 1.0)
    shift = where(is_infinite, 0, greatest)
    sums = (x - shift).exp().sum(axes, True)
    result = sums.log() + shift
    return result if keeps else result.squeeze(axes)


def count_nonzero(node: AtenNode, build: Build) -> Expr:
    """How many elements along axes are other than 0."""
    x = node.operand("self")
    return x.astype(np.bool_).astype(np.int64).sum(axes_of(node, x, build))


# -- along an axis ---------------------------------------------------------------------------------


def running(node: AtenNode, build: Build) -> Expr:
    """Running sums or products along an axis."""
    x = _widened(node, node.operand("self"))
    kind = "prod" if "prod" in node.call.target else "sum"
    if not x.rank:
        return x
    axis = build.axis(node.integer("dim", build), x.rank)
    return build.value(CumulativeOp, [x], kind=kind, axis=axis, exclusive=False, reverse=False)


def running_log_sum(node: AtenNode, build: Build) -> Expr:
    """Logarithms of running sums of exponentials, from sums of twice as many elements each time.

    No maximum of the whole row is taken off: it would make what precedes it vanish. Source:
    W. D. Hillis and G. L. Steele, "Data parallel algorithms" (1986).
    """
    x = as_float(node.operand("self"))
    if not x.rank:
        return x
    axis = build.axis(node.integer("dim", build), x.rank)
    (size,) = x.sizes([axis], "running sums")
    reach = 1
    while reach < size:
        low = [reach if a == axis else 0 for a in range(x.rank)]
        before = x.slice(axis, 0, size - reach).pad(low, [0] * x.rank, -math.inf)
        x = log_of_sum(x, before, 1.0, build)
        reach *= 2
    return x


def top_k(node: AtenNode, build: Build) -> list[Expr]:
    """The k largest or least elements of an axis, in order, and where they stood."""
    x, k = node.operand("self"), node.integer("k", build)
    if not x.rank:
        return [x, build.weight(np.array(0, np.int64))]
    axis = build.axis(node.integer("dim", build, -1), x.rank)
    return _best(x, k, axis, node.flag("largest", True), build)


def sort(node: AtenNode, build: Build) -> list[Expr]:
    """The elements of an axis in order, and where they stood; equal ones keep theirs."""
    x = node.operand("self")
    if not x.rank:
        return [x, build.weight(np.array(0, np.int64))]
    axis = build.axis(node.integer("dim", build, -1), x.rank)
    (size,) = x.sizes([axis], "sorting")
    return _best(x, size, axis, node.flag("descending"), build)


def sorted_places(node: AtenNode, build: Build) -> Expr:
    """Where the elements of an axis stand when they are in order."""
    return sort(node, build)[1]


def sorted_values(node: AtenNode, build: Build) -> Expr:
    """The elements of the first axis in order."""
    x = node.operand("self")
    if not x.rank:
        return x
    (size,) = x.sizes([0], "sorting")
    return _best(x, size, 0, False, build)[0]


def _best(x: Expr, k: int, axis: int, largest: bool, build: Build) -> list[Expr]:
    wide = x.astype(np.uint8) if x.dtype == np.bool_ else x
    values, places = build.values(TopKOp, [wide], k=k, axis=axis, largest=largest)
    return [values.astype(x.dtype), places]


def k_th(node: AtenNode, build: Build) -> list[Expr]:
    """The k-th least element of an axis, and where it stands."""
    x, k, keeps = node.operand("self"), node.integer("k", build), node.flag("keepdim")
    if not x.rank:
        return [x, build.weight(np.array(0, np.int64))]
    axis = build.axis(node.integer("dim", build, -1), x.rank)
    found = _best(x, k, axis, False, build)
    last = [value.slice(axis, k - 1, k) for value in found]
    return last if keeps else [value.squeeze([axis]) for value in last]


def median(node: AtenNode, build: Build) -> Expr | list[Expr]:
    """The element in the middle, the lower one of two: of an axis with its place, or of all."""
    x = node.operand("self")
    if x.is_float and "nan" in node.call.target:
        raise Unsupported("a median of the elements that are numbers")
    is_whole = not node.has("dim")
    if is_whole:
        x = x.reshape([-1])
    elif not x.rank:
        return [x, build.weight(np.array(0, np.int64))]
    axis = build.axis(node.integer("dim", build, 0), x.rank)
    (size,) = x.sizes([axis], "a median")
    k = (size + 1) // 2
    values, places = _best(x, k, axis, False, build)
    middle = [value.slice(axis, k - 1, k) for value in (values, places)]
    if not node.flag("keepdim"):
        middle = [value.squeeze([axis]) for value in middle]
    return middle[0] if is_whole else middle


def difference(node: AtenNode, build: Build) -> Expr:
    """What neighbours along an axis differ by, as often as asked for."""
    x = node.operand("self")
    axis = build.axis(node.integer("dim", build, -1), x.rank)
    ends = [node.optional(name) for name in ("prepend", "append")]
    first, last = ([] if end is None else [end] for end in ends)
    x = build.concat([*first, x, *last], axis)
    for _ in range(node.integer("n", build, 1)):
        low, high = neighbours(x, axis)
        if x.dtype == np.bool_:
            x = high ^ low
        else:
            x = high - low
    return x


def neighbours(x: Expr, axis: int) -> tuple[Expr, Expr]:
    """The elements of an axis but for the last, and but for the first."""
    size = x.size(axis)
    if size is None:
        return x.slice(axis, 0, -1), x.slice(axis, 1, TO_THE_END)
    return x.slice(axis, 0, max(size - 1, 0)), x.slice(axis, 1, max(size, 1))


def running_extreme(node: AtenNode, build: Build) -> list[Expr]:
    """The largest or least element up to each place of an axis, and where it stands, the last of
    equal ones."""
    x = node.operand("self")
    if not x.rank:
        return [x, build.weight(np.array(0, np.int64))]
    kind = "max" if "max" in node.call.target else "min"
    axis = build.axis(node.integer("dim", build), x.rank)
    (size,) = x.sizes([axis], "running extremes")
    if size > LONGEST_UNROLLED:
        raise Unsupported(f"running extremes of {size} elements; {LONGEST_UNROLLED} at most")
    values, places = [], []
    for end in range(1, size + 1):
        part = x.slice(axis, 0, end)
        values.append(_extreme(kind, part, [axis], True))
        place = build.value(ArgOp, [part], kind=kind, axis=axis, keepdims=True, select_last=True)
        places.append(place)
    return [build.concat(values, axis), build.concat(places, axis)]


def trace(node: AtenNode, build: Build) -> Expr:
    """The sum of a matrix' diagonal."""
    x = node.operand("self")
    rows, columns = x.sizes([0, 1], "a diagonal")
    places = np.arange(min(rows, columns)) * (columns + 1)
    wide = x if x.is_float else x.astype(np.int64)
    return wide.reshape([-1]).take(places, 0).sum([0])


def cross(node: AtenNode, build: Build) -> Expr:
    """The product of vectors in space along an axis of size 3."""
    x, y = node.operand("self"), node.operand("other")
    rank = max(x.rank, y.rank)
    if node.has("dim") or "linalg" in node.call.target:
        axis = build.axis(node.integer("dim", build, -1), rank)
    else:
        axis = next(a for a in range(rank) if x.size(a) == 3)
    places = np.array([1, 2, 0]), np.array([2, 0, 1])
    x1, y2, x2, y1 = (
        v.take(place, axis)
        for v, place in ((x, places[0]), (y, places[1]), (x, places[1]), (y, places[0]))
    )
    return x1 * y2 - x2 * y1


def renormalized(node: AtenNode, build: Build) -> Expr:
    """Slices of an axis whose norm is too large, scaled down to it. Norms of half floats are
    computed in f32, as they may leave the range of f16; factors have the type of x."""
    x, limit = node.operand("self"), node.number("maxnorm")
    axis = build.axis(node.integer("dim", build), x.rank)
    others = [a for a in range(x.rank) if a != axis]
    size = p_norm(x.wide(), node.number("p"), others, True)
    factor = size.constant(limit) / (size + 1e-7)
    return x * where(size > limit, factor.astype(x.dtype), 1)


def _overloads(*names: str) -> list[str]:
    ends = ("", ".dim", ".dim_IntList", ".dims", ".default", ".int", ".dim_int", ".IntList_out")
    return [f"{name}{end}" for name in names for end in ends]


CONVERTERS = {
    **dict.fromkeys(_overloads("sum"), total),
    **dict.fromkeys(_overloads("prod"), product),
    **dict.fromkeys(_overloads("mean"), mean),
    **dict.fromkeys(_overloads("nansum", "nanmean"), ignoring_nan),
    "amax": extreme,
    "amin": extreme,
    "max": extreme,
    "min": extreme,
    "aminmax": both_extremes,
    **dict.fromkeys(_overloads("all", "any"), truth),
    "max.dim": extreme_with_place,
    "min.dim": extreme_with_place,
    "argmax": place,
    "argmin": place,
    **dict.fromkeys(("var", "var.dim", "var.correction"), variance),
    **dict.fromkeys(("std", "std.dim", "std.correction"), variance),
    **dict.fromkeys(
        [f"{n}_mean{e}" for n in ("var", "std") for e in ("", ".dim", ".correction")],
        variance_and_mean,
    ),
    **dict.fromkeys(
        (
            "norm.Scalar",
            "norm.ScalarOpt_dim",
            "norm.ScalarOpt_dtype",
            "norm.ScalarOpt_dim_dtype",
            "linalg_vector_norm",
        ),
        norm,
    ),
    "dist": distance,
    "logsumexp": log_sum_exp,
    "special_logsumexp": log_sum_exp,
    "count_nonzero": count_nonzero,
    "count_nonzero.dim_IntList": count_nonzero,
    "cumsum": running,
    "cumprod": running,
    "logcumsumexp": running_log_sum,
    "_logcumsumexp": running_log_sum,
    "topk": top_k,
    "sort": sort,
    "sort.stable": sort,
    "argsort": sorted_places,
    "argsort.stable": sorted_places,
    "msort": sorted_values,
    "kthvalue": k_th,
    "median": median,
    "median.dim": median,
    "cross": cross,
    "linalg_cross": cross,
    "renorm": renormalized,
    "diff": difference,
    "cummax": running_extreme,
    "cummin": running_extreme,
    "trace": trace,
}
