"""Functions of each element, and arithmetic of several tensors.

Source: the layers' own headers, include/caffe/layers/*.hpp of BVLC/caffe.
"""

from __future__ import annotations

import math

import numpy as np

from explorer.importers.building.build import Build, Unsupported
from explorer.importers.building.expr import Expr
from explorer.importers.caffe.layers.node import CaffeNode, enum_of


def unary(node: CaffeNode, build: Build) -> Expr:
    """A function of each element."""
    return node.operand(0).unary(_UNARY[node.operator])


_UNARY = {"AbsVal": "abs", "BNLL": "softplus", "Sigmoid": "sigmoid", "TanH": "tanh"}


def relu(node: CaffeNode, build: Build) -> Expr:
    """max(x, 0), or negative_slope * x below zero."""
    slope = node.own.number("negative_slope", 0.0)
    if slope:
        return node.operand(0).unary("leaky_relu", slope)
    return node.operand(0).relu()


def relu6(node: CaffeNode, build: Build) -> Expr:
    """x kept within 0 and 6."""
    return node.operand(0).clip(0.0, 6.0)


def clip(node: CaffeNode, build: Build) -> Expr:
    """x kept within `min` and `max`."""
    if not node.own.has("min") or not node.own.has("max"):
        raise ValueError("min or max is missing")
    low, high = node.own.number("min", 0.0), node.own.number("max", 0.0)
    return node.operand(0).clip(low, high)


def elu(node: CaffeNode, build: Build) -> Expr:
    """x, or alpha * (e^x - 1) below zero."""
    return node.operand(0).unary("elu", node.own.number("alpha", 1.0))


def swish(node: CaffeNode, build: Build) -> Expr:
    """x / (1 + e^(-beta x))"""
    x = node.operand(0)
    return x * x.scaled(_beta(node)).sigmoid()


def _beta(node: CaffeNode) -> float:
    return node.own.number("beta", 1.0)


def prelu(node: CaffeNode, build: Build) -> Expr:
    """x, or the slope of its channel times x below zero."""
    x = node.operand(0)
    channels = x.sizes([1], "slopes for channels")[0]
    count = 1 if node.own.is_set("channel_shared", False) else channels
    return x.binary("prelu", _along(node.weight(0, (count,), build), 1, x, build))


def power(node: CaffeNode, build: Build) -> Expr:
    """(shift + scale * x)^power"""
    exponent = node.own.number("power", 1.0)
    base = _affine(node)
    if exponent == 1.0:
        return base
    return base**exponent


def exp(node: CaffeNode, build: Build) -> Expr:
    """base^(shift + scale * x); without a base e."""
    base = node.own.number("base", -1.0)
    return _affine(node).scaled(_logarithm(base)).exp()


def log(node: CaffeNode, build: Build) -> Expr:
    """The logarithm of shift + scale * x to a base; without one the natural one."""
    base = node.own.number("base", -1.0)
    return _affine(node).log().scaled(1 / _logarithm(base))


def _logarithm(base: float) -> float:
    if base == -1.0:
        return 1.0
    if base <= 0 or base == 1.0:
        raise ValueError(f"base {base:g}; a positive one other than 1, or -1 for e, expected")
    return math.log(base)


def threshold(node: CaffeNode, build: Build) -> Expr:
    """1 where x is larger than the threshold, else 0."""
    x = node.operand(0)
    return (x > x.constant(node.own.number("threshold", 0.0))).astype(np.float32)


def eltwise(node: CaffeNode, build: Build) -> Expr:
    """The sum of all operands with coefficients, their product, or the largest."""
    kind = enum_of(node.own.word("operation", "SUM"), ("PROD", "SUM", "MAX"))
    values, factors = node.bottoms, node.own.numbers("coeff")
    if len(values) < 2:
        raise ValueError("two bottoms at least are expected")
    shapes = {value.shape for value in values}
    if len(shapes) > 1:
        raise Unsupported(f"operands of different shapes: {sorted(map(str, shapes))}")
    if factors:
        if kind != "SUM" or len(factors) != len(values):
            raise ValueError(f"{len(factors)} coefficients for {kind} of {len(values)} operands")
        pairs = zip(values, factors, strict=True)
        values = [value.scaled(factor) for value, factor in pairs]
    operation = {"PROD": "mul", "SUM": "add", "MAX": "max"}[kind]
    result = values[0]
    for value in values[1:]:
        result = result.binary(operation, value)
    return result


def axpy(node: CaffeNode, build: Build) -> Expr:
    """a * x + y, with one a for each channel. Of SENet."""
    a, x, y = node.operand(0), node.operand(1), node.operand(2)
    return x * a.reshape([*x.all_sizes()[:2], *[1] * (x.rank - 2)]) + y


def scale(node: CaffeNode, build: Build) -> Expr:
    """x times the second operand or weights along some axes, and a bias."""
    x = node.operand(0)
    first = 0 if len(node.bottoms) > 1 else 1
    factors, axis, shape = _parameter(node, x, build)
    y = x * _along(factors, axis, x, build)
    if node.own.is_set("bias_term", False):
        shift = node.weight(first, shape, build)
        y = y + _along(shift, axis, x, build)
    return y


def bias(node: CaffeNode, build: Build) -> Expr:
    """x plus the second operand or weights along some axes."""
    x = node.operand(0)
    shift, axis, _ = _parameter(node, x, build)
    return x + _along(shift, axis, x, build)


def _parameter(node: CaffeNode, x: Expr, build: Build) -> tuple[Expr, int, list[int]]:
    """What stands along axes of x: its value, the first axis, sizes."""
    rank = x.rank
    axis = build.axis(node.own.integer("axis", 1), rank)
    if len(node.bottoms) > 1:
        other = node.operand(1)
        return other, axis, other.sizes(range(other.rank), "a factor")
    count = node.own.integer("num_axes", 1)
    end = rank if count == -1 else axis + count
    if not axis <= end <= rank:
        raise ValueError(f"{count} axes from axis {axis} on of {rank}")
    shape = x.sizes(range(axis, end), "weights along axes")
    return node.weight(0, shape, build), axis, shape


def _along(value: Expr, axis: int, x: Expr, build: Build) -> Expr:
    """The value with sizes of 1 behind, so that its first axis is that axis of x."""
    behind = x.rank - axis - value.rank
    if behind < 0:
        raise ValueError(f"{value.rank} axes from axis {axis} on of {x.rank}")
    return value.reshape([*value.all_sizes(), *[1] * behind]) if behind else value


def _affine(node: CaffeNode) -> Expr:
    """shift + scale * x"""
    y = node.operand(0).scaled(node.own.number("scale", 1.0))
    shift = node.own.number("shift", 0.0)
    return y + shift if shift else y


CONVERTERS = {
    **dict.fromkeys(_UNARY, unary),
    "ReLU": relu,
    "ReLU6": relu6,
    "Clip": clip,
    "ELU": elu,
    "Swish": swish,
    "PReLU": prelu,
    "Power": power,
    "Exp": exp,
    "Log": log,
    "Threshold": threshold,
    "Eltwise": eltwise,
    "Axpy": axpy,
    "Scale": scale,
    "Bias": bias,
}
