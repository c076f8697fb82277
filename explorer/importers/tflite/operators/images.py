"""Images in other sizes, and transposed convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from explorer.importers.building.build import Build, Unsupported
from explorer.importers.building.expr import Expr
from explorer.importers.building.quantized_types import as_quantized, as_stored
from explorer.importers.building.windows import Window, is_finite_everywhere, sum_of_products
from explorer.importers.tflite.operators.activations import activated, limits
from explorer.importers.tflite.operators.integers import divided_away, stored_as
from explorer.importers.tflite.operators.node import Images, TfliteNode, as_images, kind_of
from explorer.importers.tflite.operators.schemes import DOUBLE, HALF, multiplies_singles
from explorer.importers.tflite.operators.wide_sums import (
    has_wide_bias,
    is_wide,
    wide,
    wide_sums,
)
from explorer.importers.tflite.operators.windows import same_padding
from explorer.ir.requantization import RequantizationAttr
from explorer.ir.top.interpolation import InterpolateOp
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.movement.pad import PadOp
from explorer.ir.top.quantization.quantized import RequantizeOp
from explorer.ir.top.support.taps import Taps, without_zeros
from explorer.ir.types import QuantizedType


def resize_bilinear(node: TfliteNode, build: Build) -> Expr:
    """Two taps along each of height and width.

    Signed bytes in integers with 10 bits behind the point, unsigned ones in single precision.
    Source: tensorflow/lite/kernels/internal/reference/resize_bilinear.h.
    """
    x = as_images(node, 0, build)
    if node.is_quantized:
        kind = node.require_quantized()
        stored = as_stored(x.value, build)
        if node.result.element_type == "int8":
            made = _resized_integers(node, stored, build)
        elif node.result.element_type == "uint8":
            made = _resized_floats(node, stored, build)
        else:
            raise Unsupported("of numbers of 16 bits it cannot be imported yet")
        return x.result(stored_as(made, kind, build), build)
    y = x.value
    for between in _between(node, y, build):
        y = _interpolated(y, between, build)
    return x.result(y, build)


@dataclass(frozen=True)
class _Between:
    """Of each place of a result along an axis: its neighbours in the operand, and the share of the
    second one (f32)."""

    axis: int
    low: np.ndarray
    high: np.ndarray
    share: np.ndarray

    @property
    def shares(self) -> tuple[np.ndarray, np.ndarray]:
        return np.float32(1) - self.share, self.share

    @property
    def has_whole_steps(self) -> bool:
        """Are both shares multiples of 2^-7? Bytes times two of them have 24 bits at most."""
        return bool(np.all(self.share * 128 == np.rint(self.share * 128)))


def _between(node: TfliteNode, x: Expr, build: Build) -> list[_Between]:
    """Along height and width, but for an axis whose elements stay where they are."""
    found = []
    for axis, target in zip((2, 3), _sizes(node, build), strict=True):
        (size,) = x.sizes([axis], "a resize")
        if size == target:
            continue
        places = _places(node, size, target)
        low = np.maximum(np.floor(places).astype(np.int64), 0)
        high = np.clip(np.ceil(places).astype(np.int64), 0, size - 1)
        found.append(_Between(axis, low, high, places - low.astype(np.float32)))
    return found


def _interpolated(x: Expr, between: _Between, build: Build) -> Expr:
    weights = np.stack(between.shares, 1)
    taps = without_zeros(Taps(np.stack([between.low, between.high], 1), weights))
    positions = build.weight(taps.positions.astype(np.int64))
    shares = build.weight(taps.weights.astype(np.float32))
    return build.value(InterpolateOp, [x, positions, shares], axis=between.axis)


FRACTION_BITS = 10
"""Behind the point of places between integers."""


def _resized_integers(node: TfliteNode, x: Expr, build: Build) -> Expr:
    """The four neighbours by whole shares; ties away from zero."""
    unit, total = 1 << FRACTION_BITS, 1
    y = x.astype(np.int32)
    for axis, target in zip((2, 3), _sizes(node, build), strict=True):
        (size,) = x.sizes([axis], "a resize")
        if size == target:
            continue
        total *= unit
        scale = (unit * size + target // 2) // target
        if node.integer("align_corners") and target > 1:
            scale = (unit * (size - 1) + (target - 1) // 2) // (target - 1)
        places = np.arange(target, dtype=np.int64) * scale
        if node.integer("half_pixel_centers"):
            places = places + scale // 2 - unit // 2
        low = np.maximum(np.trunc(places / unit).astype(np.int64), 0)
        high = np.minimum(np.trunc((places + unit - 1) / unit).astype(np.int64), size - 1)
        share = places - unit * low
        along = [-1 if a == axis else 1 for a in range(4)]
        lower, upper = (
            y.take(np.minimum(neighbour, size - 1), axis)
            * build.weight(part.astype(np.int32).reshape(along))
            for neighbour, part in ((low, unit - share), (high, share))
        )
        y = lower + upper
    return x if total == 1 else divided_away(y, y.constant(total))


def _resized_floats(node: TfliteNode, x: Expr, build: Build) -> Expr:
    """The four neighbours by shares, added up in the kernel's order, and a half; cut off.

    Shares of few bits times bytes are exact in single precision, and so are their sums: then one
    axis after the other gives the same numbers, the inner one first, while there are few rows.
    """
    found = _between(node, x, build)
    if not found:
        return x
    y = x.astype(np.float32)
    if all(between.has_whole_steps for between in found):
        for between in reversed(found):
            y = _interpolated(y, between, build)
    elif len(found) == 2:
        rows, columns = found
        y = _sum_of_four(y, rows, columns, build)
    else:
        y = _weighted(y, found[0], build)
    return (y + 0.5).floor()


def _sum_of_four(x: Expr, rows: _Between, columns: _Between, build: Build) -> Expr:
    above, below = (_share(x, rows, which, build) for which in (0, 1))  # before they are wide
    parts = [_share(y, columns, which, build) for which in (0, 1) for y in (above, below)]
    return reduce(lambda total, part: total + part, parts)


def _weighted(x: Expr, between: _Between, build: Build) -> Expr:
    return _share(x, between, 0, build) + _share(x, between, 1, build)


def _share(x: Expr, between: _Between, which: int, build: Build) -> Expr:
    """The first or second neighbour of each place, times its share."""
    along = [-1 if a == between.axis else 1 for a in range(4)]
    taken = x.take((between.low, between.high)[which], between.axis)
    return taken * build.weight(between.shares[which].reshape(along))


def resize_nearest_neighbor(node: TfliteNode, build: Build) -> Expr:
    """The nearest element of each place along height and width."""
    x = as_images(node, 0, build)
    y = x.value
    for axis, target in zip((2, 3), _sizes(node, build), strict=True):
        (size,) = y.sizes([axis], "a resize")
        is_aligned = bool(node.integer("align_corners"))
        half = np.float32(0.5 if node.integer("half_pixel_centers") else 0)
        places = (np.arange(target, dtype=np.float32) + half) * _scale(node, size, target)
        rounded = np.floor(places + np.float32(0.5)) if is_aligned else np.floor(places)
        nearest = np.clip(rounded.astype(np.int64), 0, size - 1)
        y = y.take(nearest, axis)
    return x.result(y, build)


def _sizes(node: TfliteNode, build: Build) -> list[int]:
    sizes = node.integers_of(1, "the size of an image", build)
    if len(sizes) != 2 or min(sizes) < 1:
        raise ValueError(f"an image of the size {sizes}")
    return sizes


def _scale(node: TfliteNode, size: int, target: int) -> np.float32:
    if node.integer("align_corners") and target > 1:
        return np.float32(size - 1) / np.float32(target - 1)
    return np.float32(size) / np.float32(target)


def _places(node: TfliteNode, size: int, target: int) -> np.ndarray:
    """Where each element of the result lies in the operand, in single precision."""
    numbers, scale = np.arange(target, dtype=np.float32), _scale(node, size, target)
    if node.integer("half_pixel_centers"):
        return (numbers + np.float32(0.5)) * scale - np.float32(0.5)
    return numbers * scale


def transpose_conv(node: TfliteNode, build: Build) -> Expr:
    """A convolution with mirrored filters over the image with zeros between its pixels.

    Dumoulin and Visin, "A guide to convolution arithmetic for deep learning", 2016, section 4.
    """
    sizes = node.integers_of(0, "the shape of the result", build)
    x, filters = as_images(node, 2, build), build.known(node.plain(1), "filters")
    if node.result_kind is not None:
        return x.result(_transposed_integers(node, x, filters, sizes[1:3], build), build)
    node.require_plain()
    bias = node.plain(3) if node.has(3) else None
    y = _transposed(node, x, filters, bias, sizes[1:3], build)
    return x.result(activated(y, node.activation), build)


def _transposed_integers(
    node: TfliteNode, x: Images, filters: np.ndarray, sizes: list[int], build: Build
) -> Expr:
    """Zeros between pixels are the zero point; sums are rounded as those of CONV_2D."""
    source, weight, to = kind_of(node.tensor(2)), kind_of(node.tensor(1)), node.result_kind
    if source is None or weight is None or to is None:
        raise Unsupported(f"{node.tensor(2).element_type} times {node.tensor(1).element_type}")
    strides = node.integer("stride_h", 1), node.integer("stride_w", 1)
    is_same = node.options.get("padding", "SAME") == "SAME"
    places = {"x": 2, "bias": 3}
    how = HALF if node.tensor(2).element_type == "int16" else DOUBLE
    if how is HALF and node.has(3) and not has_wide_bias(node, 3):
        raise Unsupported("numbers of 16 bits with a bias of 32, which the kernel reads as 64")
    if is_wide(node, node.plain(1), build, **places):
        image, long_filters = wide(x.value, build), filters.astype(np.int64)
        sums = _spread_conv(image, long_filters, None, sizes, strides, is_same, build)
        return wide_sums(node, sums, how, build, **places)
    bias = node.plain(3) if node.has(3) else None
    if bias is not None and how is HALF:
        bias = build.weight(build.known(bias, "a bias").astype(np.int32))
    sums = _spread_conv(x.value, filters, bias, sizes, strides, is_same, build, weight)
    by = RequantizationAttr.get(to, how, limits(to, node.activation), multiplies_singles(node, 2))
    return build.value(RequantizeOp, [sums], by=by)


def conv_3d_transpose(node: TfliteNode, build: Build) -> Expr:
    """As TRANSPOSE_CONV, of volumes; filters are (d, h, w, O, C)."""
    node.require_plain()
    sizes = node.integers_of(0, "the shape of the result", build)
    filters = np.moveaxis(build.known(node.plain(1), "filters"), -2, 0)
    if any(node.integer(f"dilation_{axis}_factor", 1) != 1 for axis in "dhw"):
        raise Unsupported("dilations, which the kernel does not look at")
    strides = [node.integer(f"stride_{axis}", 1) for axis in "dhw"]
    bias = node.plain(3) if node.has(3) else None
    x, is_same = as_images(node, 2, build), node.options.get("padding", "SAME") == "SAME"
    y = _spread_conv(x.value, filters, bias, sizes[1:4], strides, is_same, build)
    return x.result(activated(y, node.activation), build)


def transposed_with_bias(node: TfliteNode, build: Build) -> Expr:
    """As TRANSPOSE_CONV, with a bias; its size follows from the strides. Of MediaPipe.

    Source: mediapipe/util/tflite/operations/transpose_conv_bias.cc. The options are those of
    `TfLiteTransposeConvParams`: padding, stride of width, of height, as i32.
    """
    node.require_plain()
    options = np.frombuffer(node.file.custom_options[:12], np.int32).tolist()
    if len(options) != 3:
        raise ValueError("its options are missing")
    padding, stride_w, stride_h = options
    filters = build.known(node.plain(1), "filters")
    x = as_images(node, 0, build)
    known = x.value.sizes([2, 3], "a transposed convolution")
    is_same = padding == 1
    if padding not in (1, 2) or min(stride_w, stride_h) < 1:
        raise ValueError(f"options {options}")
    sizes = [
        n * stride if is_same else (n - 1) * stride + width
        for n, stride, width in zip(known, (stride_h, stride_w), filters.shape[1:3], strict=True)
    ]
    bias = node.plain(2) if node.has(2) else None
    strides = (stride_h, stride_w)
    return x.result(_spread_conv(x.value, filters, bias, sizes, strides, is_same, build), build)


def _transposed(
    node: TfliteNode,
    x: Images,
    filters: np.ndarray,
    bias: Expr | None,
    sizes: list[int],
    build: Build,
) -> Expr:
    strides = node.integer("stride_h", 1), node.integer("stride_w", 1)
    is_same = node.options.get("padding", "SAME") == "SAME"
    return _spread_conv(x.value, filters, bias, sizes, strides, is_same, build)


def _spread_conv(
    x: Expr,
    filters: np.ndarray,
    bias: Expr | None,
    sizes: list[int],
    strides: Sequence[int],
    is_same: bool,
    build: Build,
    kind: QuantizedType | None = None,
) -> Expr:
    """`filters`: (O, h, w, C), quantized ones of `kind`, as x then is. What no window reaches
    at the end is bias alone."""
    rank = x.rank - 2
    if filters.ndim != rank + 2 or len(sizes) != rank:
        raise ValueError(f"filters of {filters.ndim} axes for an image of {rank + 2}")
    known = x.sizes(range(2, 2 + rank), "a transposed convolution")
    low, high = [0] * rank, [0] * rank
    for axis in range(rank):
        width, stride = filters.shape[1 + axis], strides[axis]
        cut = same_padding(sizes[axis], width, stride) if is_same else 0
        reached = (known[axis] - 1) * stride + 1
        low[axis] = width - 1 - cut // 2
        high[axis] = sizes[axis] + width - 1 - reached - low[axis]
    if min(*low, *high) < 0:
        raise Unsupported(f"a transposed convolution to {sizes} of images of {known}")
    if kind is None and not is_finite_everywhere(filters):
        weight = build.weight(np.ascontiguousarray(np.moveaxis(filters, (-1, 0), (0, 1))))
        ones, zeros = (1,) * rank, (0,) * rank
        window = Window(filters.shape[1:-1], tuple(strides), ones, zeros, zeros)
        return sum_of_products(x, weight, bias, window, (low, high), 1, build)
    source = x.element_type
    between = int(source.zero_point_array[0]) if isinstance(source, QuantizedType) else 0
    spread = build.value(
        PadOp,
        [as_stored(x, build), None],
        low=[0, 0, *low],
        high=[0, 0, *high],
        interior=[0, 0, *(stride - 1 for stride in strides)],
        value=float(between),
    )
    if isinstance(source, QuantizedType):
        spread = as_quantized(spread, source, build)
    mirrored = np.ascontiguousarray(np.moveaxis(np.flip(filters, tuple(range(1, rank + 1))), -1, 1))
    weight = build.weight(mirrored, "", kind)
    return build.value(
        ConvOp,
        [spread, weight, bias, None],
        strides=[1] * rank,
        pads=[0] * (2 * rank),
        dilations=[1] * rank,
        group=1,
    )


CONVERTERS = {
    "RESIZE_BILINEAR": resize_bilinear,
    "RESIZE_NEAREST_NEIGHBOR": resize_nearest_neighbor,
    "TRANSPOSE_CONV": transpose_conv,
    "CONV_3D_TRANSPOSE": conv_3d_transpose,
    "custom.Convolution2DTransposeBias": transposed_with_bias,
}
