"""Activations: functions of one number with settings.

aten.gelu(x, approximate="tanh")        top.unary gelu_tanh
aten.softplus(x, beta=2)                softplus(2 x) / 2
"""

from __future__ import annotations

import numpy as np

from explorer.importers.building.build import Build, Unsupported
from explorer.importers.building.expr import Expr, maximum, minimum, where
from explorer.importers.pytorch.operators.node import AtenNode
from explorer.ir.top.reductions.normalization import SoftmaxOp


def gelu(node: AtenNode, build: Build) -> Expr:
    """x times the normal distribution up to x, or its approximation by tanh."""
    kind = "gelu_tanh" if node.text("approximate") == "tanh" else "gelu"
    return node.operand("self").unary(kind)


def leaky_relu(node: AtenNode, build: Build) -> Expr:
    """x, or a part of it where it is negative."""
    return node.operand("self").unary("leaky_relu", node.number("negative_slope", 0.01))


def random_leaky_relu(node: AtenNode, build: Build) -> Expr:
    """Without training the slope is the middle of its bounds."""
    if node.flag("training"):
        raise Unsupported("a random slope: export the module in evaluation mode")
    slope = (node.number("lower", 1 / 8) + node.number("upper", 1 / 3)) / 2
    return node.operand("self").unary("leaky_relu", slope)


def noiseless_leaky_relu(node: AtenNode, build: Build) -> list[Expr]:
    """The same, and the noise as it was."""
    return [random_leaky_relu(node, build), node.operand("noise")]


def elu(node: AtenNode, build: Build) -> Expr:
    """scale x, or scale alpha (exp(input_scale x) - 1) where x is negative."""
    x = node.operand("self")
    alpha, scale = node.number("alpha", 1.0), node.number("scale", 1.0)
    factor = node.number("input_scale", 1.0)
    if factor == 1.0:
        return x.unary("elu", alpha).scaled(scale)
    negative = x.scaled(factor).unary("elu", 1.0).scaled(alpha)
    return where(x > 0, x, negative).scaled(scale)


def celu(node: AtenNode, build: Build) -> Expr:
    """max(x, 0) + min(0, alpha (exp(x / alpha) - 1))"""
    x, alpha = node.operand("self"), node.number("alpha", 1.0)
    return x.scaled(1 / alpha).unary("elu", 1.0).scaled(alpha)


def selu(node: AtenNode, build: Build) -> Expr:
    """Klambauer et al., "Self-Normalizing Neural Networks", 2017."""
    return node.operand("self").unary("elu", 1.6732632423543772) * 1.0507009873554805


def relu6(node: AtenNode, build: Build) -> Expr:
    """x, at least 0 and at most 6."""
    return _clipped(node.operand("self"), 0.0, 6.0)


def hard_tanh(node: AtenNode, build: Build) -> Expr:
    """x, kept between two numbers."""
    x = node.operand("self")
    return _clipped(x, node.scalar("min_val", -1.0), node.scalar("max_val", 1.0))


def _clipped(x: Expr, low: float, high: float) -> Expr:
    if x.is_float:
        return x.clip(low, high)
    return minimum(maximum(x, low), high)


def hard_sigmoid(node: AtenNode, build: Build) -> Expr:
    """(x + 3) / 6, at least 0 and at most 1."""
    return node.operand("self").unary("hard_sigmoid", 1 / 6, 0.5)


def softplus(node: AtenNode, build: Build) -> Expr:
    """log(1 + exp(beta x)) / beta, and x itself above the threshold."""
    x = node.operand("self")
    beta, threshold = node.number("beta", 1.0), node.number("threshold", 20.0)
    scaled = x.scaled(beta)
    smooth = scaled.softplus().scaled(1 / beta)
    if threshold >= 20:  # where both are the same number already
        return smooth
    return where(scaled > threshold, x, smooth)


def hard_shrink(node: AtenNode, build: Build) -> Expr:
    """0 between -lambda and lambda, else x."""
    x, size = node.operand("self"), node.number("lambd", 0.5)
    is_kept = abs(x) > size
    kept = where(is_kept, x, 0)
    return where(x.is_nan(), x, kept)


def soft_shrink(node: AtenNode, build: Build) -> Expr:
    """x moved towards 0 by lambda, which it does not pass."""
    x, size = node.operand("self"), node.number("lambd", 0.5)
    return x - x.clip(-size, size)


def threshold(node: AtenNode, build: Build) -> Expr:
    """x above the threshold, else a value."""
    x = node.operand("self")
    limit, value = (x.constant(node.scalar(name)) for name in ("threshold", "value"))
    return where(x > limit, x, value)


def prelu(node: AtenNode, build: Build) -> Expr:
    """x, or x times its channel's slope where it is negative."""
    x = node.operand("self" if node.has("self") else "input")
    slope = node.operand("weight")
    if slope.rank == 0:
        return x.binary("prelu", slope)
    if slope.size(0) != 1 and slope.rank == 1:
        slope = slope.reshape([-1, *[1] * (x.rank - 2)])
    elif x.rank == 0:
        slope = slope.reshape([])
    return x.binary("prelu", slope)


def glu(node: AtenNode, build: Build) -> Expr:
    """The first half of an axis times the sigmoid of the second."""
    x = node.operand("self")
    axis = build.axis(node.integer("dim", build, -1), x.rank)
    (size,) = x.sizes([axis], "halves")
    if size % 2:
        raise ValueError(f"axis {axis} has {size} elements, which have no halves")
    return x.slice(axis, 0, size // 2) * x.slice(axis, size // 2, size).sigmoid()


def softmax(node: AtenNode, build: Build) -> Expr:
    """exp(x) / sum(exp(x)) along an axis, or its logarithm.

    Of `_safe_softmax` 0 where an axis has nothing but minus infinity.
    """
    x = node.operand("self")
    asked = node.dtype()
    x = x.astype(asked if asked is not None else node.result_dtype())
    rank = x.rank
    properties = {
        "logarithm": "log" in node.call.target,
        "zero_masked": True if "safe" in node.call.target else None,
    }
    if not rank:
        return build.value(SoftmaxOp, [x.unsqueeze([0])], axis=0, **properties).squeeze([0])
    axis = build.axis(node.integer("dim", build), rank)
    return build.value(SoftmaxOp, [x], axis=axis, **properties)


def dropout(node: AtenNode, build: Build) -> Expr:
    """Nothing happens where the module is evaluated."""
    if node.flag("train") and node.number("p", 0.5) > 0:
        raise Unsupported("random numbers: export the module in evaluation mode, module.eval()")
    return node.operand("input" if node.has("input") else "self")


def native_dropout(node: AtenNode, build: Build) -> list[Expr]:
    """Nothing happens where the module is evaluated; all elements are kept."""
    if node.flag("train") and node.number("p", 0.5) > 0:
        raise Unsupported("random numbers: export the module in evaluation mode, module.eval()")
    x = node.operand("input")
    return [x, build.weight(np.array(True)).broadcast_to(x.all_sizes())]


CONVERTERS = {
    "gelu": gelu,
    "leaky_relu": leaky_relu,
    "rrelu": random_leaky_relu,
    "rrelu_with_noise_functional": noiseless_leaky_relu,
    "elu": elu,
    "celu": celu,
    "selu": selu,
    "relu6": relu6,
    "hardtanh": hard_tanh,
    "hardsigmoid": hard_sigmoid,
    "softplus": softplus,
    "hardshrink": hard_shrink,
    "softshrink": soft_shrink,
    "threshold": threshold,
    "prelu": prelu,
    "_prelu_kernel": prelu,
    "glu": glu,
    "softmax.int": softmax,
    "log_softmax.int": softmax,
    "_softmax": softmax,
    "_log_softmax": softmax,
    "special_log_softmax": softmax,
    "_safe_softmax": softmax,
    "dropout": dropout,
    "feature_dropout": dropout,
    "alpha_dropout": dropout,
    "feature_alpha_dropout": dropout,
    "native_dropout": native_dropout,
}
