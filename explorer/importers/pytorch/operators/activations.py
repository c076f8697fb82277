"""Activations: functions of one number with settings.

aten.gelu(x, approximate="tanh")        top.unary gelu_tanh
aten.softplus(x, beta=2)                softplus(2 x) / 2
"""

from __future__ import annotations

import numpy as np

from explorer.importers.building.build import Build, Unsupported
from explorer.importers.building.expr import Expr
from explorer.importers.pytorch.operators.node import AtenNode
from explorer.ir.top.reductions.normalization import SoftmaxOp


def gelu(node: AtenNode, build: Build) -> Expr:
    """x times the normal distribution up to x, or its approximation by tanh."""
    kind = "gelu_tanh" if node.text("approximate") == "tanh" else "gelu"
    return build.unary(kind, node.operand("self"))


def leaky_relu(node: AtenNode, build: Build) -> Expr:
    """x, or a part of it where it is negative."""
    return build.unary("leaky_relu", node.operand("self"), node.number("negative_slope", 0.01))


def random_leaky_relu(node: AtenNode, build: Build) -> Expr:
    """Without training the slope is the middle of its bounds."""
    if node.flag("training"):
        raise Unsupported("a random slope: export the module in evaluation mode")
    slope = (node.number("lower", 1 / 8) + node.number("upper", 1 / 3)) / 2
    return build.unary("leaky_relu", node.operand("self"), slope)


def noiseless_leaky_relu(node: AtenNode, build: Build) -> list[Expr]:
    """The same, and the noise as it was."""
    return [random_leaky_relu(node, build), node.operand("noise")]


def elu(node: AtenNode, build: Build) -> Expr:
    """scale x, or scale alpha (exp(input_scale x) - 1) where x is negative."""
    x = node.operand("self")
    alpha, scale = node.number("alpha", 1.0), node.number("scale", 1.0)
    factor = node.number("input_scale", 1.0)
    if factor == 1.0:
        return build.scaled(build.unary("elu", x, alpha), scale)
    negative = build.scaled(build.unary("elu", build.scaled(x, factor), 1.0), alpha)
    is_above = build.binary("greater", x, build.scalar_like(0, x))
    return build.scaled(build.select(is_above, x, negative), scale)


def celu(node: AtenNode, build: Build) -> Expr:
    """max(x, 0) + min(0, alpha (exp(x / alpha) - 1))"""
    x, alpha = node.operand("self"), node.number("alpha", 1.0)
    return build.scaled(build.unary("elu", build.scaled(x, 1 / alpha), 1.0), alpha)


def selu(node: AtenNode, build: Build) -> Expr:
    """Klambauer et al., "Self-Normalizing Neural Networks", 2017."""
    scaled = build.unary("elu", node.operand("self"), 1.6732632423543772)
    return build.scaled(scaled, 1.0507009873554805)


def relu6(node: AtenNode, build: Build) -> Expr:
    """x, at least 0 and at most 6."""
    return _clipped(node.operand("self"), 0.0, 6.0, build)


def hard_tanh(node: AtenNode, build: Build) -> Expr:
    """x, kept between two numbers."""
    x = node.operand("self")
    return _clipped(x, node.scalar("min_val", -1.0), node.scalar("max_val", 1.0), build)


def _clipped(x: Expr, low: float, high: float, build: Build) -> Expr:
    if build.is_float(x):
        return build.unary("clip", x, low, high)
    x = build.binary("max", x, build.scalar_like(low, x))
    return build.binary("min", x, build.scalar_like(high, x))


def hard_sigmoid(node: AtenNode, build: Build) -> Expr:
    """(x + 3) / 6, at least 0 and at most 1."""
    return build.unary("hard_sigmoid", node.operand("self"), 1 / 6, 0.5)


def softplus(node: AtenNode, build: Build) -> Expr:
    """log(1 + exp(beta x)) / beta, and x itself above the threshold."""
    x = node.operand("self")
    beta, threshold = node.number("beta", 1.0), node.number("threshold", 20.0)
    scaled = build.scaled(x, beta)
    smooth = build.scaled(build.unary("softplus", scaled), 1 / beta)
    if threshold >= 20:  # where both are the same number already
        return smooth
    is_above = build.binary("greater", scaled, build.scalar_like(threshold, x))
    return build.select(is_above, x, smooth)


def hard_shrink(node: AtenNode, build: Build) -> Expr:
    """0 between -lambda and lambda, else x."""
    x, size = node.operand("self"), node.number("lambd", 0.5)
    is_kept = build.binary("greater", build.unary("abs", x), build.scalar_like(size, x))
    kept = build.select(is_kept, x, build.scalar_like(0, x))
    return build.select(build.unary("is_nan", x), x, kept)


def soft_shrink(node: AtenNode, build: Build) -> Expr:
    """x moved towards 0 by lambda, which it does not pass."""
    x, size = node.operand("self"), node.number("lambd", 0.5)
    return build.binary("sub", x, build.unary("clip", x, -size, size))


def threshold(node: AtenNode, build: Build) -> Expr:
    """x above the threshold, else a value."""
    x = node.operand("self")
    limit, value = (build.scalar_like(node.scalar(name), x) for name in ("threshold", "value"))
    return build.select(build.binary("greater", x, limit), x, value)


def prelu(node: AtenNode, build: Build) -> Expr:
    """x, or x times its channel's slope where it is negative."""
    x = node.operand("self" if node.has("self") else "input")
    slope = node.operand("weight")
    if build.rank(slope) == 0:
        return build.binary("prelu", x, slope)
    if build.size(slope, 0) != 1 and build.rank(slope) == 1:
        slope = build.reshape(slope, [-1, *[1] * (build.rank(x) - 2)])
    elif build.rank(x) == 0:
        slope = build.reshape(slope, [])
    return build.binary("prelu", x, slope)


def glu(node: AtenNode, build: Build) -> Expr:
    """The first half of an axis times the sigmoid of the second."""
    x = node.operand("self")
    axis = build.axis(node.integer("dim", build, -1), build.rank(x))
    (size,) = build.sizes(x, [axis], "halves")
    if size % 2:
        raise ValueError(f"axis {axis} has {size} elements, which have no halves")
    value = build.slice(x, axis, 0, size // 2)
    gate = build.unary("sigmoid", build.slice(x, axis, size // 2, size))
    return build.binary("mul", value, gate)


def softmax(node: AtenNode, build: Build) -> Expr:
    """exp(x) / sum(exp(x)) along an axis, or its logarithm.

    Of `_safe_softmax` 0 where an axis has nothing but minus infinity.
    """
    x = node.operand("self")
    asked = node.dtype()
    x = build.cast(x, asked if asked is not None else node.result_dtype())
    rank = build.rank(x)
    properties = {
        "logarithm": "log" in node.call.target,
        "zero_masked": True if "safe" in node.call.target else None,
    }
    if not rank:
        softened = build.value(SoftmaxOp, [build.unsqueeze(x, [0])], axis=0, **properties)
        return build.squeeze(softened, [0])
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
    return [x, build.expand(build.weight(np.array(True)), build.all_sizes(x))]


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
