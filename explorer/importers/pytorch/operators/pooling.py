"""Pools over 1 to 3 spatial axes, of batches or of a single image.

aten.max_pool2d(x, [3, 3], [2, 2], [1, 1])      top.pool max
aten.adaptive_avg_pool2d(x, [1, 1])             the mean of the axes; windows where sizes divide
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from explorer.importers.building.build import Build
from explorer.importers.building.expr import Expr
from explorer.importers.building.images.interpolation import interpolate
from explorer.importers.building.windows import Window, average_pooled, pooled, power_pooled
from explorer.importers.pytorch.operators.node import AtenNode
from explorer.ir.top.indexing import GatherElementsOp, ScatterElementsOp
from explorer.ir.top.reductions.arg import ArgOp
from explorer.ir.top.support.taps import Taps


def _rank(node: AtenNode) -> int:
    """Spatial axes, by the digit in the name."""
    return next(int(c) for c in node.call.target if c.isdigit())


def _operand(node: AtenNode) -> Expr:
    return node.operand("self" if node.has("self") else "input")


def _spread(numbers: Sequence[int], rank: int) -> tuple[int, ...]:
    return tuple(numbers) * rank if len(numbers) == 1 else tuple(numbers)


def _on_batches(
    x: Expr, rank: int, build: Build, pool: Callable[[Expr], Sequence[Expr]]
) -> list[Expr]:
    """A pool of images (N, C, spatial...), of which a single one has no first axis."""
    if x.rank == rank + 2:
        return list(pool(x))
    if x.rank != rank + 1:
        raise ValueError(f"{x.rank} axes for {rank} spatial ones")
    return [y.squeeze([0]) for y in pool(x.unsqueeze([0]))]


def _window(node: AtenNode, rank: int, build: Build) -> Window:
    sizes = _spread(node.integers("kernel_size", build), rank)
    strides = _spread(node.integers("stride", build, []) or sizes, rank)
    pads = _spread(node.integers("padding", build, [0]), rank)
    return Window(sizes, strides, _spread(node.integers("dilation", build, [1]), rank), pads, pads)


def _surplus(node: AtenNode, x: Expr, window: Window) -> tuple[int, ...]:
    """What sizes that are rounded up add at the end; nothing where they need not be."""
    if not node.flag("ceil_mode"):
        return (0,) * window.rank
    return window.surpluses(x)


def max_pool(node: AtenNode, build: Build) -> list[Expr] | Expr:
    """The largest of each window, and where it stands in its plane."""
    rank, has_places = _rank(node), "indices" in node.call.target
    window = _window(node, rank, build)

    def pool(x: Expr) -> list[Expr]:
        surplus = _surplus(node, x, window)
        results = [pooled("max", x, window, surplus, None, build)]
        if has_places:
            results.append(pooled("max_position", x, window, surplus, None, build))
        return results

    return _on_batches(_operand(node), rank, build, pool)


def average_pool(node: AtenNode, build: Build) -> list[Expr]:
    """The average of each window: by its size with the padding, without it, or by a number."""
    rank = _rank(node)
    window = _window(node, rank, build)
    counts = node.flag("count_include_pad", True)

    def pool(x: Expr) -> list[Expr]:
        surplus = _surplus(node, x, window)
        if not node.has("divisor_override"):
            return [average_pooled(x, window, surplus, counts, build)]
        size, divisor = float(np.prod(window.sizes)), node.integer("divisor_override", build)
        if x.is_float:
            average = pooled("average", x, window, surplus, True, build)
            return [average.scaled(size / divisor)]
        average = pooled("average", x.astype(np.float64), window, surplus, True, build)
        total = average.scaled(size).round().astype(x.dtype)
        return [total.binary("div", divisor)]

    return _on_batches(_operand(node), rank, build, pool)


def power_pool(node: AtenNode, build: Build) -> list[Expr]:
    """(sum of x^p over the window)^(1/p)"""
    rank = _rank(node)
    window = _window(node, rank, build)
    p = node.number("norm_type", 2.0)
    return _on_batches(
        _operand(node),
        rank,
        build,
        lambda x: [power_pooled(x, p, window, _surplus(node, x, window), build)],
    )


def adaptive_average_pool(node: AtenNode, build: Build) -> list[Expr]:
    """As many averages as asked for along each axis."""
    return _adaptive(node, "average", build)[:1]


def adaptive_max_pool(node: AtenNode, build: Build) -> list[Expr]:
    """As many maxima as asked for along each axis, and where they stand in their plane."""
    return _adaptive(node, "max", build)


def _adaptive(node: AtenNode, kind: str, build: Build) -> list[Expr]:
    """Window i of n over an axis of size s reaches from floor(i s / n) to ceil((i + 1) s / n)."""
    rank, x = _rank(node), _operand(node)
    asked = node.sizes("output_size")
    has_places = kind == "max"

    def pool(x: Expr) -> list[Expr]:
        if not has_places and all(size == 1 for size in asked):
            return [x.mean(list(range(2, 2 + rank)), True)]
        known = x.sizes(range(2, 2 + rank), "an adaptive pool")
        targets = node.integers("output_size", build)
        targets = [own if t < 0 else t for own, t in zip(known, targets, strict=True)]
        if all(size % t == 0 for size, t in zip(known, targets, strict=True)):
            sizes = tuple(size // t for size, t in zip(known, targets, strict=True))
            zeros, ones = (0,) * rank, (1,) * rank
            window = Window(sizes, sizes, ones, zeros, zeros)
            results = [pooled(kind, x, window, zeros, True if kind == "average" else None, build)]
            if has_places:
                results.append(pooled("max_position", x, window, zeros, None, build))
            return results
        if has_places:
            return _uneven_maxima(x, known, targets, node.results_used(1), build)
        for axis, (size, target) in enumerate(zip(known, targets, strict=True), 2):
            x = _uneven_average(x, axis, size, target, build)
        return [x]

    return _on_batches(x, rank, build, pool)


def _bounds(size: int, target: int) -> list[tuple[int, int]]:
    return [(i * size // target, -(-(i + 1) * size // target)) for i in range(target)]


def _uneven_average(x: Expr, axis: int, size: int, target: int, build: Build) -> Expr:
    """Averages of windows of different sizes along one axis: each reads its own elements only."""
    begins, ends = np.array(_bounds(size, target)).T[..., np.newaxis]
    positions = begins + np.arange(int((ends - begins).max()))
    weights = np.where(positions < ends, 1 / (ends - begins), 0.0)
    return interpolate(x, axis, Taps(np.minimum(positions, size - 1), weights), build)


def _uneven_maxima(
    x: Expr, known: Sequence[int], targets: Sequence[int], has_places: bool, build: Build
) -> list[Expr]:
    """Maxima of windows of different sizes, and where the first of them stands in its plane."""
    if has_places:
        return _placed_maxima(x, known, targets, build)
    for axis, (size, target) in enumerate(zip(known, targets, strict=True), 2):
        parts = [
            x.slice(axis, begin, end).max([axis], True) for begin, end in _bounds(size, target)
        ]
        x = build.concat(parts, axis)
    return [x]


def _placed_maxima(
    x: Expr, known: Sequence[int], targets: Sequence[int], build: Build
) -> list[Expr]:
    """All windows side by side, as long as the longest: shorter ones repeat their last element."""
    rank, lead = len(known), x.all_sizes()[:2]
    positions = np.zeros((), np.int64)
    for i, (size, target) in enumerate(zip(known, targets, strict=True)):
        bounds = _bounds(size, target)
        longest = max(end - begin for begin, end in bounds)
        taken = np.array([[min(b + k, e - 1) for k in range(longest)] for b, e in bounds])
        x = x.take(taken, 2 + 2 * i)
        positions = np.expand_dims(positions, (-1, -2)) * size + taken
    order = [*range(0, 2 * rank, 2), *range(1, 2 * rank, 2)]
    positions = positions.transpose(order).reshape(*targets, -1)
    windows = x.transpose([0, 1, *(2 + axis for axis in order)])
    windows = windows.reshape([*lead, *targets, -1])
    last = 2 + rank
    first = build.value(ArgOp, [windows], kind="max", axis=last, keepdims=True, select_last=False)
    table = build.weight(positions).broadcast_to([*lead, *positions.shape])
    places = build.value(GatherElementsOp, [table, first], axis=last).squeeze([last])
    return [windows.max([last]), places]


def max_pool_gradient(node: AtenNode, build: Build) -> Expr:
    """What each result gets goes to where its maximum stood; from several windows it is summed."""
    x, places, given = (node.operand(name) for name in ("self", "indices", "grad_output"))
    lead = x.all_sizes()[: x.rank - 2]
    zeros, places, given = (
        v.reshape([*lead, -1]) for v in (x.constant(0).broadcast_to(x.all_sizes()), places, given)
    )
    total = build.value(ScatterElementsOp, [zeros, places, given], axis=len(lead), reduction="add")
    return total.reshape(x.all_sizes())


def unpool(node: AtenNode, build: Build) -> Expr:
    """Every element where its maximum stood in its plane, zero elsewhere."""
    x, places = node.operand("self"), node.operand("indices")
    rank = _rank(node)
    size = node.integers("output_size", build)
    lead = x.all_sizes()[: x.rank - rank]
    flat = [v.reshape([*lead, -1]) for v in (x, places)]
    zeros = x.constant(0).broadcast_to([*lead, int(np.prod(size))])
    written = build.value(
        ScatterElementsOp, [zeros, flat[1], flat[0]], axis=len(lead), reduction="none"
    )
    return written.reshape([*lead, *size])


CONVERTERS = {
    **{f"max_pool{d}d": max_pool for d in (1, 2, 3)},
    **{f"max_pool{d}d_with_indices": max_pool for d in (1, 2, 3)},
    **{f"avg_pool{d}d": average_pool for d in (1, 2, 3)},
    **{f"lp_pool{d}d": power_pool for d in (1, 2, 3)},
    **{f"adaptive_avg_pool{d}d": adaptive_average_pool for d in (1, 2, 3)},
    **{f"_adaptive_avg_pool{d}d": adaptive_average_pool for d in (2, 3)},
    **{f"adaptive_max_pool{d}d": adaptive_max_pool for d in (1, 2, 3)},
    "max_pool2d_with_indices_backward": max_pool_gradient,
    **{f"max_unpool{d}d": unpool for d in (2, 3)},
}
