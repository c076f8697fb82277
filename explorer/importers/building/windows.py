"""Windows that slide over images: convolutions and pools of all formats.

    window = Window((3, 3), (2, 2), (1, 1), (1, 1), (1, 1))
    pooled("max", x, window, window.surpluses(x), None, build)
    transposed_conv(x, filters, bias, window, (1, 1), 1, build)

Images are (N, C, spatial...).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from explorer.importers.building.attention_scores import counted_to, length
from explorer.importers.building.build import Build
from explorer.importers.building.expr import Expr, maximum, minimum
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.movement.pad import PadOp
from explorer.ir.top.movement.slices import TO_THE_END
from explorer.ir.top.pooling import PoolOp


@dataclass(frozen=True)
class Window:
    """Sizes per spatial axis; `begins` and `ends` are the pads."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    begins: tuple[int, ...]
    ends: tuple[int, ...]

    @property
    def rank(self) -> int:
        return len(self.sizes)

    @property
    def pads(self) -> tuple[int, ...]:
        return (*self.begins, *self.ends)

    def reach(self, axis: int) -> int:
        """Elements from the first to the last that the window touches."""
        return (self.sizes[axis] - 1) * self.dilations[axis] + 1

    def surplus(self, axis: int, size: int) -> int:
        """Elements beyond the end pad that the last window touches where sizes are rounded up.

        A window that would begin behind the input is left out (ONNX, opset 22; PyTorch).
        """
        padded = size + self.begins[axis] + self.ends[axis]
        stride = self.strides[axis]
        count = -(-(padded - self.reach(axis)) // stride) + 1
        if (count - 1) * stride >= size + self.begins[axis]:
            count -= 1
        return max((count - 1) * stride + self.reach(axis) - padded, 0)

    def missing(self, axis: int, size: int | None) -> int:
        """Elements that the first window lacks; 0 where it fits, or where nobody knows."""
        if size is None:
            return 0
        padded = size + self.begins[axis] + self.ends[axis]
        return max(self.reach(axis) - padded, 0)

    def surpluses(self, x: Expr) -> tuple[int, ...]:
        """The surplus of each spatial axis of x.

        Of an axis of open size it is the largest one: what no window reaches changes nothing.
        Undecided where a window may begin after such an axis (end pad + stride > reach).
        """
        found: list[int] = []
        for axis, stride in enumerate(self.strides):
            size = x.size(2 + axis)
            if size is None and self.ends[axis] + stride <= self.reach(axis):
                found.append(stride - 1)
            else:
                (size,) = x.sizes([2 + axis], "ceil_mode")
                found.append(self.surplus(axis, size))
        return tuple(found)


def same(x: Expr, window: Window, is_upper: bool, fill: float | None) -> tuple[Expr, Window]:
    """x and its window, padded so that every axis has ceil(size / stride) positions; the larger
    part of an odd number comes last (is_upper) or first.

    How many elements come before an axis of open size with a stride can depend on the size of the
    call. Then x is padded with `fill` as any size needs it, and the elements that this size reads
    are taken; Undecided without `fill`.
    """
    build = x.build
    begins, ends = [0] * window.rank, [0] * window.rank
    for axis in range(window.rank):
        stride, reach, own = window.strides[axis], window.reach(axis), 2 + axis
        if fill is None and stride != 1:
            x.sizes([own], "auto_pad")
        size = x.size(own)
        if stride == 1 or size is not None:
            last = 1 if size is None else (size - 1) % stride + 1
            totals = [max(reach - last, 0)]
        else:
            totals = [max(reach - last, 0) for last in range(1, stride + 1)]
        before = [total // 2 if is_upper else total - total // 2 for total in totals]
        low, high = max(before), max(t - b for t, b in zip(totals, before, strict=True))
        if len(set(before)) == 1:
            begins[axis], ends[axis] = low, high
            continue
        count = length(x, own, build)
        positions = (count + (stride - 1)).binary("div", stride)
        read = (positions - 1) * stride + reach
        total = maximum(read - count, 0)
        half = total.binary("div", 2)
        places = counted_to(read, build) + (low - (half if is_upper else total - half))
        around = [[n if a == own else 0 for a in range(x.rank)] for n in (low, high)]
        x = x.pad(around[0], around[1], fill or 0.0)
        x = x.take(minimum(places, length(x, own, build) - 1), own)
    return x, replace(window, begins=tuple(begins), ends=tuple(ends))


def conv(
    x: Expr, weight: Expr, bias: Expr | None, window: Window, group: int, build: Build
) -> Expr:
    return build.value(
        ConvOp,
        [x, weight, bias, None],
        strides=window.strides,
        pads=window.pads,
        dilations=window.dilations,
        group=group,
    )


def transposed_conv(
    x: Expr,
    weight: Expr,
    bias: Expr | None,
    window: Window,
    extra: Sequence[int],
    group: int,
    build: Build,
) -> Expr:
    """A convolution with mirrored filters over the input with zeros between its elements.

    weight: (C, M / group, window...). extra: elements more at the ends of the result. Weights that
    may be infinite meet no zeros: see `sum_of_products`.
    Dumoulin and Visin, "A guide to convolution arithmetic for deep learning", 2016, section 4.
    """
    rank = window.rank
    low = [window.reach(a) - 1 - window.begins[a] for a in range(rank)]
    high = [window.reach(a) - 1 - window.ends[a] + extra[a] for a in range(rank)]
    filters = build.knowledge.needed(weight)
    is_finite = filters is not None and is_finite_everywhere(filters)
    if x.is_float and not is_finite:
        return sum_of_products(x, weight, bias, window, (low, high), group, build)
    spread = build.value(
        PadOp,
        [x, None],
        low=[0, 0, *(max(n, 0) for n in low)],
        high=[0, 0, *(max(n, 0) for n in high)],
        interior=[0, 0, *(stride - 1 for stride in window.strides)],
        value=0.0,
    )
    spread = _cut(spread, low, high)
    if filters is None:
        mirrored = _mirrored_in_a_run(weight, group)
    else:
        mirrored = build.weight(_mirrored(filters, group), f"{build.name_of(weight)}.mirrored")
    ones, zeros = (1,) * rank, (0,) * rank
    plain = Window(window.sizes, ones, window.dilations, zeros, zeros)
    return conv(spread, mirrored, bias, plain, group, build)


def sum_of_products(
    x: Expr,
    weight: Expr,
    bias: Expr | None,
    window: Window,
    around: tuple[Sequence[int], Sequence[int]],
    group: int,
    build: Build,
) -> Expr:
    """A transposed convolution as its definition has it: every element times every tap, each
    product added where it belongs. No weight meets a zero that is no element of x.

        taps = conv(x, weight : (M window, C / group, 1...))     every product, summed over channels
        y = pad(taps[0]) {interior} + pad(taps[1]) {interior}    axis after axis

    weight: (C, M / group, window...). around: zeros before and behind x with zeros between its
    elements, of the convolution with mirrored filters that it replaces.
    """
    rank, wide = window.rank, x.wide()
    channels, per_group = weight.sizes([0, 1], "a transposed convolution")
    taps = math.prod(window.sizes)
    grouped = weight.astype(wide.dtype).reshape([group, channels // group, per_group * taps])
    filters = grouped.transpose([0, 2, 1]).reshape(
        [group * per_group * taps, channels // group, *(1,) * rank]
    )
    ones, zeros = (1,) * rank, (0,) * rank
    products = conv(wide, filters, None, Window(ones, ones, ones, zeros, zeros), group, build)
    y = products.reshape([x.dim(0), group * per_group, *window.sizes, *x.all_sizes()[2:]])
    for axis in range(rank):
        y = _added(y, axis, window, build)
    low, high = ([n - window.reach(a) + 1 for a, n in enumerate(side)] for side in around)
    y = y.pad([0, 0, *(max(n, 0) for n in low)], [0, 0, *(max(n, 0) for n in high)])
    y = _cut(y, low, high)
    if bias is not None:
        y = y + bias.astype(wide.dtype).reshape([-1, *(1,) * rank])
    return y.astype(x.dtype)


def _added(products: Expr, axis: int, window: Window, build: Build) -> Expr:
    """(N, M, taps, ...) to (N, M, ...): those of each tap at its places along a spatial axis."""
    place = products.rank - 1 - window.rank + axis
    dilation, count = window.dilations[axis], window.sizes[axis]
    zeros = [0] * (products.rank - 1)
    placed = []
    for tap in range(count):
        low, high, interior = list(zeros), list(zeros), list(zeros)
        low[place], high[place] = tap * dilation, (count - 1 - tap) * dilation
        interior[place] = window.strides[axis] - 1
        one = products.slice(2, tap, tap + 1).squeeze([2])
        placed.append(
            build.value(PadOp, [one, None], low=low, high=high, interior=interior, value=0.0)
        )
    return reduce(operator.add, placed)


def _cut(x: Expr, low: Sequence[int], high: Sequence[int]) -> Expr:
    """Without the elements at the ends of spatial axes that numbers less than 0 cut off, which pads
    larger than the window are."""
    if min(*low, *high) >= 0:
        return x
    known = x.sizes(range(2, x.rank), "a transposed convolution")
    return x.slices(
        {2 + a: (max(-low[a], 0), size + min(high[a], 0), 1) for a, size in enumerate(known)}
    )


def is_finite_everywhere(filters: np.ndarray) -> bool:
    """Whether zero times any of them is zero."""
    return filters.dtype.kind in "iub" or bool(np.isfinite(filters.astype(np.float64)).all())


def _mirrored(filters: np.ndarray, group: int) -> np.ndarray:
    """(C, M / group, window...) of a transposed convolution as (M, C / group, window...)."""
    channels, per_group, *sizes = filters.shape
    grouped = filters.reshape(group, channels // group, per_group, *sizes)
    swapped = np.swapaxes(grouped, 1, 2).reshape(group * per_group, channels // group, *sizes)
    return np.ascontiguousarray(np.flip(swapped, tuple(range(2, swapped.ndim))))


def _mirrored_in_a_run(weight: Expr, group: int) -> Expr:
    """The same of filters that are computed."""
    known = weight.sizes(range(weight.rank), "a transposed convolution")
    channels, per_group, *sizes = known
    grouped = weight.reshape([group, channels // group, per_group, *sizes])
    swapped = grouped.transpose([0, 2, 1, *range(3, 3 + len(sizes))])
    filters = swapped.reshape([group * per_group, channels // group, *sizes])
    backwards = (-1, -TO_THE_END, -1)
    return filters.slices(dict.fromkeys(range(2, 2 + len(sizes)), backwards))


# -- pools -----------------------------------------------------------------------------------------


def pooled(
    kind: str,
    x: Expr,
    window: Window,
    surplus: Sequence[int],
    includes_padding: bool | None,
    build: Build,
) -> Expr:
    """surplus: elements behind the end pads that rounding sizes up adds."""
    ends = [end + more for end, more in zip(window.ends, surplus, strict=True)]
    return build.value(
        PoolOp,
        [x],
        kind=kind,
        window=window.sizes,
        strides=window.strides,
        pads=[*window.begins, *ends],
        dilations=window.dilations,
        includes_padding=includes_padding,
    )


def average_pooled(
    x: Expr, window: Window, surplus: Sequence[int], counts_padding: bool, build: Build
) -> Expr:
    """What rounding sizes up adds at the end never counts, what the pads add counts if asked.

    Where both meet, the pads become elements of the input first.
    """
    if not counts_padding or not any(surplus):
        # Without pads all windows have the same size: the division is by a constant.
        is_constant = counts_padding or not any((*window.pads, *surplus))
        return pooled("average", x, window, surplus, is_constant, build)
    x = x.pad([0, 0, *window.begins], [0, 0, *window.ends])
    zeros = (0,) * window.rank
    unpadded = Window(window.sizes, window.strides, window.dilations, zeros, zeros)
    return pooled("average", x, unpadded, surplus, False, build)


def power_pooled(x: Expr, p: float, window: Window, surplus: Sequence[int], build: Build) -> Expr:
    """(sum of |x|^p over the window)^(1/p); the sum is the average times the window's size.

    Powers of narrow floats are f32: that of the largest f16 is none of f16's numbers.
    """
    average = pooled("average", power_of(x.wide(), p), window, surplus, True, build)
    return root_of(average.scaled(math.prod(window.sizes)), p).astype(x.dtype)


def power_of(x: Expr, p: float) -> Expr:
    """|x|^p"""
    if p == 2:
        return x * x
    magnitude = abs(x)
    return magnitude if p == 1 else magnitude**p


def root_of(x: Expr, p: float) -> Expr:
    """x^(1/p)"""
    if p == 2:
        return x.sqrt()
    return x if p == 1 else x ** (1 / p)
