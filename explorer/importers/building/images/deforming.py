"""Convolutions whose windows are deformed: each of their places is moved by a computed offset.

    x (N, C, spatial...), offsets (N, groups * window * axes, out...)  ->  (N, outputs, out...)

Source: Zhu et al., "Deformable ConvNets v2", 2018.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from explorer.importers.building.build import Build
from explorer.importers.building.expr import Expr
from explorer.importers.building.images.sampling import sampled, taps_of


@dataclass(frozen=True)
class Places:
    """Where a window lies before it is deformed; one number for each axis of an image."""

    sizes: Sequence[int]
    strides: Sequence[int]
    dilations: Sequence[int]
    begins: Sequence[int]
    """Pixels before the image that the first window covers."""

    def of_elements(self, out: Sequence[int]) -> np.ndarray:
        """Of the window's elements in the image: (axes, window, out), row-major."""
        rank = len(self.sizes)
        axes = []
        for axis in range(rank):
            begins = np.arange(out[axis]) * self.strides[axis] - self.begins[axis]
            within = np.arange(self.sizes[axis]) * self.dilations[axis]
            own = [-1 if a == axis else 1 for a in range(rank)]
            places = within.reshape([*own, *[1] * rank]) + begins.reshape([*[1] * rank, *own])
            axes.append(np.broadcast_to(places, (*self.sizes, *out)))
        return np.stack(axes).reshape(rank, prod(self.sizes), prod(out))


def deformed(
    x: Expr,
    weight: Expr,
    offset: Expr,
    mask: Expr | None,
    bias: Expr | None,
    window: Places,
    group_counts: tuple[int, int],
    build: Build,
) -> Expr:
    """The convolution; mask (N, groups * window, out...) weighs what the window's places read.
    Places, and all that is computed with them, are f32 at least.

    group_counts: of the convolution's channels, and of channels with offsets of their own.
    """
    dtype, (groups, parts) = x.dtype, group_counts
    x, weight, offset = x.wide(), weight.wide(), offset.wide()
    mask, bias = (None if v is None else v.wide() for v in (mask, bias))
    rank, count = len(window.sizes), prod(window.sizes)
    channels, *sizes = x.sizes(range(1, 2 + rank), "a deformed convolution")
    out = offset.sizes(range(2, 2 + rank), "a deformed convolution")
    places = window.of_elements(out).astype(x.dtype)
    area, batch, share = prod(out), x.dim(0), channels // parts
    moved = offset.reshape([batch, parts, count, rank, area])
    columns = []
    for part in range(parts):
        own = moved.slice(1, part, part + 1).squeeze([1])
        taps = []
        for axis, size in enumerate(sizes):
            shift = own.slice(2, axis, axis + 1).squeeze([2])
            position = build.weight(places[axis]) + shift
            flat = position.reshape([batch, count * area])
            taps.append(taps_of(flat, size, "linear", "zeros", False, build))
        found = sampled(x.slice(1, part * share, (part + 1) * share), taps, build)
        values = found.reshape([batch, share, count, area])
        if mask is not None:
            whole = mask.reshape([batch, parts, count, area])
            values = values * whole.slice(1, part, part + 1)
        columns.append(values)
    outputs = weight.sizes([0], "a deformed convolution")[0]
    inner = channels // groups * count
    stacked = build.concat(columns, 1).reshape([batch, groups, inner, area])
    filters = weight.reshape([groups, outputs // groups, inner])
    result = (filters @ stacked).reshape([batch, outputs, *out])
    if bias is None:
        return result.astype(dtype)
    return (result + bias.reshape([outputs, *[1] * rank])).astype(dtype)
