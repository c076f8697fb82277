"""Operators of onnxruntime's own domain, and experimental ones of ONNX's first years."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from explorer.importers.building.expr import Expr
from explorer.importers.onnx.program.build import Build
from explorer.importers.onnx.program.nodes import Node, Unsupported, converts
from explorer.ir.top.movement.slices import TO_THE_END
from explorer.ir.top.reductions.normalization import LayerNormOp

MICROSOFT = "com.microsoft"


@converts("Gelu", domain=MICROSOFT)
def gelu(node: Node, build: Build) -> Expr:
    return node.operand(0).unary("gelu")


@converts("BiasGelu", domain=MICROSOFT)
def bias_gelu(node: Node, build: Build) -> Expr:
    return (node.operand(0) + node.operand(1)).unary("gelu")


@converts("FastGelu", domain=MICROSOFT)
def fast_gelu(node: Node, build: Build) -> Expr:
    x, bias = node.operand(0), node.optional(1)
    return (x if bias is None else x + bias).unary("gelu_tanh")


@converts("QuickGelu", domain=MICROSOFT)
def quick_gelu(node: Node, build: Build) -> Expr:
    """x * sigmoid(alpha * x)"""
    x = node.operand(0)
    return x * x.scaled(node.number("alpha", 1.702)).sigmoid()


@converts("SkipLayerNormalization", domain=MICROSOFT)
def skip_layer_normalization(node: Node, build: Build) -> Sequence[Expr | None]:
    """The sum of x, skip and bias, normalized over the last axis; the sum itself is result 3.

    The skip broadcasts to x. Narrow floats are computed with in f32. Results 1 and 2 (mean,
    1 / deviation) are for training, and onnxruntime does not compute them either.
    """
    scale, shift, bias = node.operand(2), node.optional(3), node.optional(4)
    return _skip_normalized(node, scale, shift, bias, True, build)


@converts("SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def skip_rms_normalization(node: Node, build: Build) -> Sequence[Expr | None]:
    """The same without a mean (RMS normalization) and without a shift."""
    return _skip_normalized(node, node.operand(2), None, node.optional(3), False, build)


def _skip_normalized(
    node: Node,
    scale: Expr,
    shift: Expr | None,
    bias: Expr | None,
    centered: bool,
    build: Build,
) -> Sequence[Expr | None]:
    x = node.operand(0)
    dtype = x.dtype
    wide = np.dtype(np.float32) if dtype.itemsize < 4 else dtype
    added = [x, node.operand(1), *([] if bias is None else [bias])]
    total, *others = (value.astype(wide) for value in added)
    for other in others:
        total = total + other
    if any(other.rank > x.rank for other in added):
        raise ValueError(f"a skip or bias of more dimensions than {x.shape}")
    normalized = build.value(
        LayerNormOp,
        [total, *(None if p is None else p.astype(wide) for p in (scale, shift))],
        axis=total.rank - 1,
        epsilon=node.number("epsilon", 1e-12),
        centered=None if centered else False,
    )
    return [normalized.astype(dtype), None, None, total.astype(dtype)]


@converts("CDist", domain=MICROSOFT)
def distances(node: Node, build: Build) -> Expr:
    """Of all rows of one matrix from all rows of another, squared or not.

    Differences are squared and added; onnxruntime subtracts products from squares, which cancels.
    """
    metric = node.text("metric", "sqeuclidean")
    if metric not in ("euclidean", "sqeuclidean"):
        raise Unsupported(f"the metric {metric}")
    apart = node.operand(0).unsqueeze([1]) - node.operand(1).unsqueeze([0])
    if metric == "euclidean":
        return apart.reduce("l2", [2])
    return apart.square().sum([2])


@converts("Affine")
def affine(node: Node, build: Build) -> Expr:
    """alpha * x + beta"""
    x = node.operand(0).scaled(node.number("alpha", 1.0))
    beta = node.number("beta", 0.0)
    return x + beta if beta else x


@converts("ImageScaler")
def image_scaler(node: Node, build: Build) -> Expr:
    """scale * x + bias of the channel"""
    x = node.operand(0).scaled(node.number("scale", 1.0))
    bias = np.array(node.numbers("bias") or (0.0,), x.dtype)
    return x + build.weight(bias.reshape(-1, 1, 1))


@converts("Crop")
def crop(node: Node, build: Build) -> Expr:
    """`border`: left, top, right, bottom; `scale`: height and width of what stays."""
    x = node.operand(0)
    left, top, right, bottom = node.integers("border") or (0, 0, 0, 0)
    size = node.integers("scale")
    if size is not None:
        bounds = {2: (top, top + size[0], 1), 3: (left, left + size[1], 1)}
    else:
        bounds = {2: (top, -bottom or TO_THE_END, 1), 3: (left, -right or TO_THE_END, 1)}
    return x.slices(bounds)
