"""Images in another size, read between their pixels, or cut into blocks.

aten.upsample_bilinear2d.vec(x, [64, 64], False, None)      interpolation axis by axis
aten.grid_sampler(x, grid, mode, padding, align)            taps at computed places
"""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, prod

import numpy as np

from explorer.importers.building.build import Build, Unsupported
from explorer.importers.building.expr import Expr
from explorer.importers.building.images.computed_resize import ComputedManner, resize_by_data
from explorer.importers.building.images.resizing import Manner, ResizedAxis, resized
from explorer.importers.building.images.sampling import sampled, taps_of
from explorer.importers.pytorch.operators.node import AtenNode
from explorer.ir.top.indexing import ScatterNdOp

_CUBIC = -0.75


def upsample(node: AtenNode, build: Build) -> Expr:
    """In another size: the nearest pixel, or what lies between pixels."""
    x = node.operand("input" if node.has("input") else "self")
    name = node.call.target.removeprefix("aten.").split(".")[0]
    rank = x.rank - 2
    scales, is_aligned = _scales(node, rank), node.flag("align_corners")
    if any(x.size(axis) is None for axis in range(2, 2 + rank)):
        return _upsample_open(node, x, scales, _manner(name, is_aligned, x.dtype), build)
    known = x.sizes(range(2, 2 + rank), "another size")
    if node.has("output_size"):
        targets = node.integers("output_size", build)
    else:
        targets = [floor(s * (f or 1.0)) for s, f in zip(known, scales, strict=True)]
    if is_aligned and name.endswith("_aa"):  # only the distance of pixels is that of corners
        if 1 in targets or 1 in known:
            raise Unsupported("aligned corners of a single pixel")
        scales = [(t - 1) / (s - 1) for s, t in zip(known, targets, strict=True)]
        is_aligned = False
    axes = [
        ResizedAxis(axis, size, target, target / size if scale is None else scale)
        for axis, (size, target, scale) in enumerate(zip(known, targets, scales, strict=True), 2)
        if size != target or (scale is not None and scale != 1.0)
    ]
    return resized(x, axes, _manner(name, is_aligned, x.dtype), build)


def _upsample_open(
    node: AtenNode, x: Expr, scales: Sequence[float | None], manner: Manner, build: Build
) -> Expr:
    """`upsample` of sizes that a call decides."""
    if manner.antialias or (manner.is_fixed_point and not x.is_float):
        raise Unsupported("an antialiased image, or one of bytes, of a size that a call decides")
    axes = list(range(2, x.rank))
    computed = ComputedManner(
        manner.mode, manner.coordinates, manner.nearest, manner.cubic_coefficient
    )
    if node.has("output_size"):
        vector = build.shape_vector(node.sizes("output_size"))
        return resize_by_data(x, vector, False, axes, computed, build)
    vector = build.weight(np.array([scale or 1.0 for scale in scales], np.float32))
    return resize_by_data(x, vector, True, axes, computed, build)


def _manner(name: str, is_aligned: bool, dtype: np.dtype) -> Manner:
    """Coordinates as PyTorch has them for each mode; in doubles between those of an image."""
    if "nearest" in name:
        exact = "exact" in name
        return Manner(
            mode="nearest",
            coordinates="half_pixel" if exact else "asymmetric",
            nearest="round_prefer_ceil" if exact else "floor",
        )
    return Manner(
        mode="cubic" if "bicubic" in name else "linear",
        coordinates="align_corners" if is_aligned else "half_pixel",
        nearest="floor",
        antialias=name.endswith("_aa"),
        cubic_coefficient=-0.5 if name.endswith("_aa") else _CUBIC,
        exclude_outside=name.endswith("_aa"),
        is_fixed_point=True,
        kind=np.float64 if dtype == np.float64 else np.float32,
    )


def _scales(node: AtenNode, rank: int) -> list[float | None]:
    """How much each axis grows, where the call says it."""
    listed = node.argument("scale_factors")
    if isinstance(listed, tuple):
        return [float(s) if isinstance(s, int | float) else None for s in listed]
    names = {1: ("scales",), 2: ("scales_h", "scales_w"), 3: ("scales_d", "scales_h", "scales_w")}
    return [node.number(name) if node.has(name) else None for name in names[rank]]


def grid_sample(node: AtenNode, build: Build) -> Expr:
    """x: (N, C, spatial...), read at the places of a grid, whose numbers reach from -1 to 1 and
    name the last axis first."""
    dtype = node.operand("input").dtype
    x, grid = (node.operand(name).wide() for name in ("input", "grid"))
    rank = x.rank - 2
    mode = ("linear", "nearest", "cubic")[node.integer("interpolation_mode", build, 0)]
    border = ("zeros", "border", "reflection")[node.integer("padding_mode", build, 0)]
    is_aligned = node.flag("align_corners")
    known = x.sizes(range(2, 2 + rank), "reading at places")
    points = grid.reshape([grid.dim(0), -1, rank])
    taps = []
    for axis, size in enumerate(known):
        number = rank - 1 - axis
        place = points.slice(2, number, number + 1).squeeze([2])
        pixels = _pixels(place, size, is_aligned)
        taps.append(taps_of(pixels, size, mode, border, is_aligned, build))
    spatial = [grid.dim(1 + axis) for axis in range(rank)]
    return sampled(x, taps, build).reshape([x.dim(0), x.dim(1), *spatial]).astype(dtype)


def _pixels(place: Expr, size: int, is_aligned: bool) -> Expr:
    """From -1 ... 1 to pixels: the ends are the outermost pixels' centers, or their edges."""
    shifted = place + 1
    if is_aligned:
        return shifted.scaled((size - 1) / 2)
    return shifted.scaled(size / 2) - 0.5


# -- blocks ----------------------------------------------------------------------------------------


def _block_places(node: AtenNode, image: list[int], build: Build) -> np.ndarray:
    """Where each element of a block (rows) stands at each place (columns), in the padded image."""
    block, dilation, padding, stride = (
        _pair(node.integers(name, build, [default]))
        for name, default in (("kernel_size", 1), ("dilation", 1), ("padding", 0), ("stride", 1))
    )
    flat = np.zeros((1, 1), np.int64)
    for a in range(2):
        padded = image[a] + 2 * padding[a]
        steps = (padded - (block[a] - 1) * dilation[a] - 1) // stride[a] + 1
        places = (np.arange(block[a]) * dilation[a])[:, np.newaxis] + np.arange(steps) * stride[a]
        joined = flat[:, np.newaxis, :, np.newaxis] * padded + places[np.newaxis, :, np.newaxis]
        flat = joined.reshape(flat.shape[0] * places.shape[0], -1)
    return flat


def _pair(numbers: list[int]) -> tuple[int, int]:
    return (numbers[0], numbers[-1])


def image_to_columns(node: AtenNode, build: Build) -> Expr:
    """(N, C, H, W) -> (N, C * block, places): blocks of an image as columns."""
    x = node.operand("self")
    is_single = x.rank == 3
    x = x.unsqueeze([0]) if is_single else x
    channels, *image = x.sizes([1, 2, 3], "blocks")
    places = _block_places(node, image, build)
    top, left = _pair(node.integers("padding", build, [0]))
    padded = x.pad([0, 0, top, left], [0, 0, top, left])
    pixels = (image[0] + 2 * top) * (image[1] + 2 * left)
    flat = padded.reshape([x.dim(0), channels, pixels])  # of an empty batch, too
    columns = flat.take(places, 2)
    y = columns.reshape([x.dim(0), channels * places.shape[0], places.shape[1]])
    return y.squeeze([0]) if is_single else y


def columns_to_image(node: AtenNode, build: Build) -> Expr:
    """The sum of blocks that overlap: (N, C * block, places) -> (N, C, H, W)."""
    x = node.operand("self")
    is_single = x.rank == 2
    x = x.unsqueeze([0]) if is_single else x
    image = list(_pair(node.integers("output_size", build)))
    places = _block_places(node, image, build)
    channels = x.sizes([1], "blocks")[0] // places.shape[0]
    top, left = _pair(node.integers("padding", build, [0]))
    padded = [image[0] + 2 * top, image[1] + 2 * left]
    split = x.reshape([x.dim(0), channels, places.size])
    zeros = x.constant(0).broadcast_to([prod(padded), x.dim(0), channels])
    updates = split.transpose([2, 0, 1])
    indices = build.weight(places.reshape(-1, 1))
    summed = build.value(ScatterNdOp, [zeros, indices, updates], reduction="add")
    whole = summed.transpose([1, 2, 0]).reshape([x.dim(0), channels, *padded])
    y = whole.slices({2: (top, top + image[0], 1), 3: (left, left + image[1], 1)})
    return y.squeeze([0]) if is_single else y


def affine_grid(node: AtenNode, build: Build) -> Expr:
    """theta: (N, axes, axes + 1), a map from where pixels are to where they are read."""
    theta = node.operand("theta")
    batch, _, *spatial = node.integers("size", build)
    axes, is_aligned = len(spatial), node.flag("align_corners")
    if axes not in (2, 3):
        raise Unsupported(f"a grid of {axes} axes")
    centers = np.meshgrid(*(_centers(size, is_aligned) for size in spatial), indexing="ij")
    places = np.stack([*reversed(centers), np.ones(spatial)], -1).reshape(-1, axes + 1)
    points = build.weight(places.astype(theta.dtype))
    return (points @ theta.transpose([0, 2, 1])).reshape([batch, *spatial, axes])


def _centers(size: int, is_aligned: bool) -> np.ndarray:
    """Where the pixels of an axis lie between -1 and 1: from corner to corner, or inside them."""
    numbers = np.arange(size, dtype=np.float64)
    if is_aligned:
        return 2 * numbers / max(size - 1, 1) - 1 if size > 1 else np.zeros(1)
    return (2 * numbers + 1) / size - 1


_UPSAMPLES = (
    [f"upsample_nearest{d}d" for d in (1, 2, 3)]
    + [f"_upsample_nearest_exact{d}d" for d in (1, 2, 3)]
    + ["upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d"]
    + ["_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"]
)

CONVERTERS = {
    **{f"{name}{end}": upsample for name in _UPSAMPLES for end in ("", ".vec")},
    "grid_sampler": grid_sample,
    "grid_sampler_2d": grid_sample,
    "grid_sampler_3d": grid_sample,
    "affine_grid_generator": affine_grid,
    "im2col": image_to_columns,
    "col2im": columns_to_image,
}
