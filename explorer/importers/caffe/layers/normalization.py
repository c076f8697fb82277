"""Normalizations.

BatchNorm    (x - mean / f) / sqrt(variance / f + eps)      f is the third blob
LRN          x / (k + alpha / n * sum of n squares)^beta
Normalize    x / sqrt(sum of squares + eps) * scale         of SSD
"""

from __future__ import annotations

import numpy as np

from explorer.importers.building.build import Build, Unsupported
from explorer.importers.building.expr import Expr
from explorer.importers.building.formulas import centered
from explorer.importers.caffe.layers.node import CaffeNode, enum_of
from explorer.ir.top.pooling import PoolOp
from explorer.ir.top.reductions.local_response_norm import LocalResponseNormOp
from explorer.ir.top.reductions.normalization import BatchNormOp, SoftmaxOp


def batch_norm(node: CaffeNode, build: Build) -> Expr:
    """(x - mean) / sqrt(variance + eps), with statistics divided by the factor that is stored."""
    x = node.operand(0)
    channels = x.sizes([1], "statistics of channels")[0]
    factor = float(node.numbers(2, 1, build)[0])
    share = 0.0 if factor == 0.0 else 1.0 / factor
    mean, variance = (
        (node.numbers(index, channels, build) * share).astype(np.float32) for index in (0, 1)
    )
    ones, zeros = np.ones(channels, np.float32), np.zeros(channels, np.float32)
    parameters = [build.weight(array) for array in (ones, zeros, mean, variance)]
    return build.value(BatchNormOp, [x, *parameters], epsilon=node.own.number("eps", 1e-5))


def lrn(node: CaffeNode, build: Build) -> Expr:
    """x by a power of the sum of squares around it, across channels or within one."""
    x, size = node.operand(0), node.own.integer("local_size", 5)
    alpha, beta = node.own.number("alpha", 1.0), node.own.number("beta", 0.75)
    region = enum_of(node.own.word("norm_region", "ACROSS_CHANNELS"), _REGIONS)
    if size < 1 or size % 2 == 0:
        raise ValueError(f"local_size is {size}; an odd number expected")
    if region == "ACROSS_CHANNELS":
        bias = node.own.number("k", 1.0)
        return build.value(LocalResponseNormOp, [x], size=size, alpha=alpha, beta=beta, bias=bias)
    reach = size // 2
    squares = build.value(
        PoolOp,
        [x * x],
        kind="average",
        window=(size, size),
        strides=(1, 1),
        pads=(reach,) * 4,
        dilations=(1, 1),
    )
    return x / (squares.scaled(alpha) + 1.0) ** beta


_REGIONS = ("ACROSS_CHANNELS", "WITHIN_CHANNEL")


def mvn(node: CaffeNode, build: Build) -> Expr:
    """x minus its mean, by its standard deviation, over images or over all channels."""
    x = node.operand(0)
    first = 1 if node.own.is_set("across_channels", False) else 2
    axes = range(first, x.rank)
    if not axes:
        raise ValueError(f"no axes from {first} on in {x.rank}")
    _, apart = centered(x, axes)
    if not node.own.is_set("normalize_variance", True):
        return apart
    deviation = apart.square().mean(axes, keepdims=True).sqrt()
    return apart / (deviation + deviation.constant(node.own.number("eps", 1e-9)))


def normalize(node: CaffeNode, build: Build) -> Expr:
    """x by its length, over the whole image or over channels, times a scale for channels."""
    x = node.operand(0)
    channels, rank = x.sizes([1], "scales of channels")[0], x.rank
    axes = range(1, rank) if node.own.is_set("across_spatial", True) else [1]
    total = x.reduce("sum_square", axes, keepdims=True)
    epsilon = total.constant(node.own.number("eps", 1e-10))
    length = (total + epsilon).sqrt()
    count = 1 if node.own.is_set("channel_shared", True) else channels
    scale = node.weight(0, (count,), build).reshape([count, *[1] * (rank - 2)])
    return x / length * scale


def softmax(node: CaffeNode, build: Build) -> Expr:
    """exp(x) / sum(exp(x)) along an axis, that of channels unless said."""
    x = node.operand(0)
    axis = build.axis(node.own.integer("axis", 1), x.rank)
    if len(node.outputs) > 1:
        raise Unsupported("a second result")
    return build.value(SoftmaxOp, [x], axis=axis, logarithm=False)


CONVERTERS = {
    "BatchNorm": batch_norm,
    "LRN": lrn,
    "MVN": mvn,
    "Normalize": normalize,
    "Softmax": softmax,
}
