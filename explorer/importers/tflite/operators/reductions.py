"""Reductions, softmax and norms."""

from __future__ import annotations

from math import prod

import numpy as np

from explorer.importers.building.build import Build, Unsupported
from explorer.importers.building.expr import Expr, maximum
from explorer.importers.building.quantized_types import as_stored
from explorer.importers.tflite.operators.int16 import softmax_of_int16
from explorer.importers.tflite.operators.integers import (
    doubled,
    kept_within,
    multiplier_of,
    nearest_away,
    stored_as,
)
from explorer.importers.tflite.operators.node import TfliteNode, as_images, kind_of
from explorer.ir.requantization import integer_limits
from explorer.ir.top.quantization.fixed_point_softmax import FixedPointSoftmaxOp
from explorer.ir.top.reductions.arg import ArgOp
from explorer.ir.top.reductions.local_response_norm import LocalResponseNormOp
from explorer.ir.top.reductions.normalization import SoftmaxOp


def reduction(node: TfliteNode, build: Build) -> Expr:
    """Axes become one number; of quantized numbers the largest, the least and the sum only."""
    kind = _REDUCTIONS[node.operator]
    x, axes, keeps = _reduced(node, build)
    if node.is_quantized and kind == "sum":
        return _sum_of_integers(node, x, axes, keeps, build)
    if node.is_quantized and (
        kind not in ("max", "min") or kind_of(node.tensor(0)) != node.result_kind
    ):
        raise Unsupported("of quantized numbers it cannot be imported yet")
    return as_stored(x, build).reduce(kind, axes, keeps)


_REDUCTIONS = {
    "SUM": "sum",
    "REDUCE_MAX": "max",
    "REDUCE_MIN": "min",
    "REDUCE_PROD": "prod",
    "REDUCE_ALL": "min",
    "REDUCE_ANY": "max",
}


def mean(node: TfliteNode, build: Build) -> Expr:
    """The average along axes.

    Of quantized numbers the sum without its zero points, times 1 / count and the ratio of the
    scales as one multiplier, with two roundings.
    Source: tensorflow/lite/kernels/internal/reference/reduce.h, `QuantizedMeanOrSum`.
    """
    x, axes, keeps = _reduced(node, build)
    if not node.is_quantized:
        return x.mean(axes, keeps)
    centered, count = _centered_sum(node, x, axes, keeps, build)
    if not count:
        raise Unsupported("a mean of no integers")
    multiplier, exponent = _ratio_of(node)
    shift = min(count.bit_length() - 1, 32, 31 + exponent)
    scaled = doubled(centered, (multiplier << shift) // count, exponent - shift, build)
    return _moved(scaled, node, build)


def _sum_of_integers(node: TfliteNode, x: Expr, axes: list[int], keeps: bool, build: Build) -> Expr:
    """The sum without its zero points, times the ratio of the scales.

    Of unsigned bytes with the two roundings of the reference kernel. That one is wrong for signed
    numbers, of which this is what the optimized kernel makes, in singles, ties away from zero. The
    sum of no numbers is stored as 0, whatever the zero point.
    Source: tensorflow/lite/kernels/internal/optimized/reduce.h, `QuantizedMeanOrSum`.
    """
    kind, source = node.require_quantized(), kind_of(node.tensor(0))
    assert source is not None
    if 0 in x.shape:
        return stored_as(as_stored(x, build).sum(axes, keeps), kind, build)
    if node.tensor(0).element_type == "uint8":
        centered, _ = _centered_sum(node, x, axes, keeps, build)
        return _moved(doubled(centered, *_ratio_of(node), build), node, build)
    count = _count_of(node, x, axes)
    ratio = np.float32(source.scale_array[0] / kind.scale_array[0])
    bias = np.float32(np.float32(-source.zero_point_array[0]) * ratio) * np.float32(count)
    total = as_stored(x, build).astype(np.int32).sum(axes, keeps)
    single = total.astype(np.float32)
    # A product of singles is exact in doubles: it is rounded before the bias comes.
    product = single.astype(np.float64).scaled(float(ratio))
    moved = product.astype(np.float32) + float(bias)
    rounded = kept_within(nearest_away(moved), (-(1 << 31), (1 << 31) - 128))
    return _moved(rounded.astype(np.int64), node, build)


def _count_of(node: TfliteNode, x: Expr, axes: list[int]) -> int:
    """How many numbers become one. Unsupported for so many that sums may exceed 32 bits."""
    count = prod(x.sizes(axes, f"a {node.operator} of integers"))
    if count >= (1 << 20):
        raise Unsupported(f"a {node.operator} of {count} integers")
    return count


def _centered_sum(
    node: TfliteNode, x: Expr, axes: list[int], keeps: bool, build: Build
) -> tuple[Expr, int]:
    """The sum of stored numbers without their zero points, in 64 bits, and how many these are."""
    source = kind_of(node.tensor(0))
    assert source is not None
    count = _count_of(node, x, axes)
    numbers = as_stored(x, build).astype(np.int64)
    return numbers.sum(axes, keeps) - int(source.zero_point_array[0]) * count, count


def _ratio_of(node: TfliteNode) -> tuple[int, int]:
    """The ratio of the operand's scale and the result's as a multiplier and an exponent."""
    kind, source = node.require_quantized(), kind_of(node.tensor(0))
    assert source is not None
    return multiplier_of(float(source.scale_array[0]) / float(kind.scale_array[0]))


def _moved(scaled: Expr, node: TfliteNode, build: Build) -> Expr:
    """Whole numbers with the zero point of the result, kept within its storage."""
    kind = node.require_quantized()
    moved = scaled + int(kind.zero_point_array[0])
    return stored_as(kept_within(moved, integer_limits(kind.storage)), kind, build)


def _reduced(node: TfliteNode, build: Build) -> tuple[Expr, list[int], bool]:
    """The operand, the axes that go, and whether they stay with size 1."""
    x = node.operand(0, build)
    axes = build.axes(node.integers_of(1, "axes", build), x.rank)
    return x, axes, bool(node.integer("keep_dims"))


def arg(node: TfliteNode, build: Build) -> Expr:
    """Where the largest or least element of an axis stands, the first of equal ones."""
    x = node.operand(0, build)
    kind = "max" if node.operator == "ARG_MAX" else "min"
    axis = build.axis(node.integers_of(1, "the axis", build)[0], x.rank)
    stored = as_stored(x, build)  # of one scale, which keeps the order
    place = build.value(ArgOp, [stored], kind=kind, axis=axis, keepdims=False, select_last=False)
    return place.astype(np.dtype(node.result.element_type))


def softmax(node: TfliteNode, build: Build) -> Expr:
    """exp(beta x) / sum(exp(beta x)) along the last axis; of bytes in fixed point.

    Source of the latter: tensorflow/lite/kernels/internal/reference/softmax.h.
    """
    x, beta = node.operand(0, build), node.number("beta", 1.0)
    if node.is_quantized:
        to = node.require_quantized()
        source = kind_of(node.tensor(0))
        types = node.tensor(0).element_type, node.result.element_type
        if types == ("int16", "int16") and source is not None:
            factor = float(source.scale_array[0]) * float(np.float32(beta))
            return softmax_of_int16(x, factor, to, build)
        if types[0] == "int16":
            raise Unsupported(f"from {types[0]} to {types[1]} it cannot be imported yet")
        return build.value(FixedPointSoftmaxOp, [x], axis=x.rank - 1, beta=beta, to=to)
    axis = x.rank - 1
    if beta > 1:  # the product with the greatest number may overflow
        x = x - x.max([axis], True)
    return build.value(SoftmaxOp, [x.scaled(beta)], axis=axis, logarithm=False)


def log_softmax(node: TfliteNode, build: Build) -> Expr:
    """The logarithm of the softmax along the last axis."""
    node.require_plain()
    x = node.plain(0)
    return build.value(SoftmaxOp, [x], axis=x.rank - 1, logarithm=True)


def l2_normalization(node: TfliteNode, build: Build) -> Expr:
    """x divided by its length along the last axis, which is at least 1e-6."""
    node.require_plain()
    x = node.plain(0)
    return x / maximum(x.square().sum([x.rank - 1], True).sqrt(), 1e-6)


def local_response_normalization(node: TfliteNode, build: Build) -> Expr:
    """x / (bias + alpha * sum of squares of the neighbouring channels) ^ beta."""
    node.require_plain()
    x, size = as_images(node, 0, build), 2 * node.integer("radius") + 1
    y = build.value(
        LocalResponseNormOp,
        [x.value],
        size=size,
        alpha=node.number("alpha") * size,  # which the operation divides by the size
        beta=node.number("beta"),
        bias=node.number("bias"),
    )
    return x.result(y, build)


CONVERTERS = {
    **dict.fromkeys(_REDUCTIONS, reduction),
    "MEAN": mean,
    "ARG_MAX": arg,
    "ARG_MIN": arg,
    "SOFTMAX": softmax,
    "LOG_SOFTMAX": log_softmax,
    "L2_NORMALIZATION": l2_normalization,
    "LOCAL_RESPONSE_NORMALIZATION": local_response_normalization,
}
