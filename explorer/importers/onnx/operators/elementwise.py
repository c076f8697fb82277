"""Elementwise operators: one number in, one number out, broadcast as NumPy does."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import onnx

from explorer.importers.building.expr import Expr, maximum, minimum, where
from explorer.importers.onnx.file.tensors import dtype_of
from explorer.importers.onnx.program.build import Build
from explorer.importers.onnx.program.nodes import Node, Unsupported, converts
from explorer.ir.top.casting import BitcastOp
from explorer.ir.top.elementwise import CastOp, SelectOp
from explorer.ir.types import element_type_from_numpy

# fmt: off
_UNARY = {
    "Relu": "relu", "Sigmoid": "sigmoid", "Tanh": "tanh", "Erf": "erf", "Exp": "exp", "Log": "log",
    "Sqrt": "sqrt", "Abs": "abs", "Neg": "neg", "Floor": "floor", "Ceil": "ceil", "Round": "round",
    "Sin": "sin", "Cos": "cos", "Sign": "sign", "Reciprocal": "reciprocal", "Softplus": "softplus",
    "HardSwish": "hard_swish", "Not": "not", "IsNaN": "is_nan", "BitwiseNot": "bit_not",
    "Tan": "tan", "Asin": "asin", "Acos": "acos", "Atan": "atan", "Sinh": "sinh", "Cosh": "cosh",
    "Asinh": "asinh", "Acosh": "acosh", "Atanh": "atanh",
}
_BINARY = {
    "Add": "add", "Sub": "sub", "Mul": "mul", "Div": "div", "And": "and", "Or": "or", "Xor": "xor",
    "Equal": "equal", "Less": "less", "LessOrEqual": "less_equal", "Greater": "greater",
    "GreaterOrEqual": "greater_equal", "BitwiseAnd": "bit_and", "BitwiseOr": "bit_or",
    "BitwiseXor": "bit_xor",
}
# fmt: on
_VARIADIC = {"Sum": "add", "Mean": "add", "Max": "max", "Min": "min"}


@converts(*_UNARY)
def unary(node: Node, build: Build) -> Expr:
    return node.operand(0).unary(_UNARY[node.operator])


@converts("LeakyRelu")
def leaky_relu(node: Node, build: Build) -> Expr:
    return node.operand(0).unary("leaky_relu", alpha=node.number("alpha", 0.01))


@converts("Elu")
def elu(node: Node, build: Build) -> Expr:
    return node.operand(0).unary("elu", alpha=node.number("alpha", 1.0))


@converts("Celu", since=12)
def celu(node: Node, build: Build) -> Expr:
    """alpha * elu(x / alpha), as ONNX's own function has it; with a scalar, which keeps rank 0."""
    x, alpha = node.operand(0), node.number("alpha", 1.0)
    scaled = x / alpha if alpha != 1 else x
    return scaled.unary("elu", alpha=1.0).scaled(alpha)


@converts("Selu", since=6)
def selu(node: Node, build: Build) -> Expr:
    """gamma * elu(x, alpha); the defaults are Klambauer et al., 2017."""
    alpha = node.number("alpha", 1.67326319217681884765625)
    gamma = node.number("gamma", 1.05070102214813232421875)
    return node.operand(0).unary("elu", alpha=alpha).scaled(gamma)


@converts("Shrink", since=9)
def shrink(node: Node, build: Build) -> Expr:
    """x + bias below -lambd, x - bias above lambd, 0 between. Of integers it is computed in floats
    that hold them, as in onnxruntime, for -lambd is no unsigned number."""
    x = node.operand(0)
    dtype = x.dtype
    is_wide = dtype.kind in "iu" and dtype.itemsize >= 4
    wide = x if x.is_float else x.astype(np.float64 if is_wide else np.float32)
    limit, bias = (
        wide.constant(node.number(name, default))
        for name, default in (("lambd", 0.5), ("bias", 0.0))
    )
    raised, lowered = wide + bias, wide - bias
    is_above = limit < wide
    is_below = wide < -limit
    above = where(is_above, lowered, wide.constant(0))
    return where(is_below, raised, above).astype(dtype)


@converts("HardSigmoid")
def hard_sigmoid(node: Node, build: Build) -> Expr:
    alpha, beta = node.number("alpha", 0.2), node.number("beta", 0.5)
    return node.operand(0).unary("hard_sigmoid", alpha, beta)


@converts("Gelu")
def gelu(node: Node, build: Build) -> Expr:
    is_tanh = node.text("approximate", "none") == "tanh"
    return node.operand(0).unary("gelu_tanh" if is_tanh else "gelu")


@converts("Mish")
def mish(node: Node, build: Build) -> Expr:
    """x * tanh(softplus(x))"""
    x = node.operand(0)
    return x * x.softplus().tanh()


@converts(*_BINARY, since=7)
def binary(node: Node, build: Build) -> Expr:
    return node.operand(0).binary(_BINARY[node.operator], node.operand(1))


@converts(*_BINARY, "Pow", "PRelu", until=6)
def legacy_binary(node: Node, build: Build) -> Expr:
    """Before opset 7 the right operand is aligned at `axis`, and only if `broadcast` is set."""
    left, right = node.operand(0), node.operand(1)
    if node.operator == "PRelu":
        return left.binary("prelu", _per_channel(right, left))
    rank, missing = left.rank, left.rank - right.rank
    if node.integer("broadcast", 0) and "axis" in node.attributes:
        trailing = missing - build.axis(node.integer("axis"), rank)
        right = right.reshape([*right.all_sizes(), *[1] * trailing])
    return left.binary(_BINARY.get(node.operator, "pow"), right)


@converts("Pow", since=7)
def power(node: Node, build: Build) -> Expr:
    """The result has the base's type; base and exponent have both their numbers until then.

    (-1) ^ 16777217 is -1, though float32, the type of the base, has no such exponent.
    """
    base, exponent = node.operand(0), node.operand(1)
    known = build.knowledge.array(exponent)
    if known is not None:
        with np.errstate(over="ignore", invalid="ignore"):
            kept = known.astype(base.dtype).astype(known.dtype)
        if np.array_equal(kept, known):
            return base ** exponent.astype(base.dtype)
    wide = _type_that_has_both(base.dtype, exponent.dtype)
    return (base.astype(wide) ** exponent.astype(wide)).astype(base.dtype)


def _type_that_has_both(base: np.dtype, exponent: np.dtype) -> np.dtype:
    """The narrowest type with all numbers of two, as far as there is one: float64 rounds int64."""
    if base == exponent:
        return base
    integers = [np.iinfo(dtype) for dtype in (base, exponent) if dtype.kind in "iu"]
    if len(integers) == 2:
        common = np.result_type(base, exponent)
        return common if common.kind in "iu" else base
    floats = [dtype for dtype in (base, exponent) if dtype.kind not in "iu"]
    digits = [ml_dtypes.finfo(dtype).nmant + 1 for dtype in floats]
    digits += [limits.bits - (limits.min < 0) for limits in integers]
    for dtype in (*floats, np.dtype(np.float32), np.dtype(np.float64)):
        limits = ml_dtypes.finfo(dtype)
        if limits.nmant + 1 >= max(digits) and all(
            limits.max >= ml_dtypes.finfo(other).max for other in floats
        ):
            return dtype
    return np.dtype(np.float64)


@converts("PRelu", since=7)
def prelu(node: Node, build: Build) -> Expr:
    x, slope = node.operand(0), node.operand(1)
    return x.binary("prelu", slope)


@converts("Mod", since=10)
def modulo(node: Node, build: Build) -> Expr:
    """`fmod = 1` has the dividend's sign (C), else the result has the divisor's (Python)."""
    kind = "fmod" if node.integer("fmod", 0) else "mod"
    return node.operand(0).binary(kind, node.operand(1))


@converts("BitShift", since=11)
def shift(node: Node, build: Build) -> Expr:
    direction = node.text("direction", "")
    if direction not in ("LEFT", "RIGHT"):
        raise ValueError(f"attribute direction is {direction!r}; LEFT or RIGHT expected")
    return node.operand(0).binary(f"shift_{direction.lower()}", node.operand(1))


@converts("IsInf", since=10)
def is_infinite(node: Node, build: Build) -> Expr:
    positive, negative = (node.integer(f"detect_{sign}", 1) for sign in ("positive", "negative"))
    return node.operand(0).unary("is_infinite", float(positive), float(negative))


@converts(*_VARIADIC)
def variadic(node: Node, build: Build) -> Expr:
    operands = node.given()
    if not operands:
        raise ValueError("no operand")
    result = operands[0]
    for operand in operands[1:]:
        result = result.binary(_VARIADIC[node.operator], operand)
    return result.scaled(1 / len(operands)) if node.operator == "Mean" else result


@converts("Where", since=9)
def conditional(node: Node, build: Build) -> Expr:
    return build.value(SelectOp, [node.operand(0), node.operand(1), node.operand(2)])


@converts("Cast")
def cast(node: Node, build: Build) -> Expr:
    target = node.attributes.get("to")
    if isinstance(target, str):  # before opset 6 a name: "FLOAT"
        target = onnx.TensorProto.DataType.Value(target.upper())
    if not isinstance(target, int):
        raise ValueError("attribute to is missing")
    if target == onnx.TensorProto.STRING:
        raise Unsupported("casts to strings")
    return _cast(node.operand(0), dtype_of(target, "the result"), node, build)


@converts("CastLike", since=15)
def cast_like(node: Node, build: Build) -> Expr:
    return _cast(node.operand(0), node.operand(1).dtype, node, build)


def _cast(x: Expr, dtype: np.dtype, node: Node, build: Build) -> Expr:
    """`saturate` and `round_mode` say what becomes of numbers that do not fit a float8."""
    target = element_type_from_numpy(dtype)
    if x.element_type == target:
        return x
    rounding = node.text("round_mode", "up") if "round_mode" in node.attributes else None
    saturate = None if node.integer("saturate", 1) else False
    return build.value(CastOp, [x], to=target, saturate=saturate, rounding=rounding)


@converts("BitCast", since=26)
def bitcast(node: Node, build: Build) -> Expr:
    target = element_type_from_numpy(dtype_of(node.integer("to"), "the result"))
    return build.value(BitcastOp, [node.operand(0)], to=target)


@converts("Clip", until=10)
def clip_by_attributes(node: Node, build: Build) -> Expr:
    low = node.number("min", -math.inf) if "min" in node.attributes else None
    high = node.number("max", math.inf) if "max" in node.attributes else None
    return _clip(node.operand(0), low, high)


@converts("Clip", since=11)
def clip(node: Node, build: Build) -> Expr:
    """Bounds that are weights become properties."""
    x, low, high = node.operand(0), node.optional(1), node.optional(2)
    stored_low, stored_high = build.stored(low), build.stored(high)
    if (low is None or stored_low is not None) and (high is None or stored_high is not None):
        lowest = None if stored_low is None else stored_low.item()
        highest = None if stored_high is None else stored_high.item()
        return _clip(x, lowest, highest)
    if low is not None:
        x = maximum(x, low)
    return x if high is None else minimum(x, high)


def _clip(x: Expr, low: float | None, high: float | None) -> Expr:
    if low is not None and high is not None and x.is_float:
        return x.clip(float(low), float(high))
    if low == 0 and high is None:
        return x.relu()
    if low is not None:
        x = maximum(x, low)
    return x if high is None else minimum(x, high)


def _per_channel(slope: Expr, x: Expr) -> Expr:
    """One slope per channel of (N, C, ...)."""
    if slope.rank != 1 or slope.size(0) == 1:
        return slope
    return slope.reshape([slope.all_sizes()[0], *[1] * (x.rank - 2)])
