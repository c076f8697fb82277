"""Elementwise calls of one tensor: functions of each number."""

from __future__ import annotations

import math
from collections.abc import Callable

import ml_dtypes
import numpy as np

from explorer.importers.building.build import Build
from explorer.importers.building.expr import Expr
from explorer.importers.pytorch.operators.node import AtenNode
from explorer.importers.pytorch.operators.promotion import as_float, category
from explorer.ir.top.elementwise import UnaryOp


def plain_name(node: AtenNode) -> str:
    """The function of a call, without `aten`, its overload, and what says that it writes."""
    name = node.call.target.removeprefix("aten.").split(".")[0]
    return name if name.endswith("__") else name.rstrip("_")


# fmt: off
_FLOAT_UNARY = {
    "sigmoid": "sigmoid", "special_expit": "sigmoid", "tanh": "tanh", "erf": "erf",
    "special_erf": "erf", "exp": "exp", "log": "log", "sqrt": "sqrt", "sin": "sin", "cos": "cos",
    "tan": "tan", "asin": "asin", "acos": "acos", "atan": "atan", "sinh": "sinh", "cosh": "cosh",
    "asinh": "asinh", "acosh": "acosh", "atanh": "atanh", "reciprocal": "reciprocal",
    "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arcsinh": "asinh", "arccosh": "acosh",
    "arctanh": "atanh", "silu": "silu", "mish": "mish", "hardswish": "hard_swish",
}
_UNARY = {"relu": "relu", "abs": "abs", "absolute": "abs", "neg": "neg", "negative": "neg"}
_OF_WHOLE = {"floor": "floor", "ceil": "ceil", "round": "round"}
# fmt: on


def float_unary(node: AtenNode, build: Build) -> Expr:
    """A function of real numbers; whole ones become float32."""
    kind = _FLOAT_UNARY[plain_name(node)]
    return build.unary(kind, as_float(node.operand("self"), build))


def unary(node: AtenNode, build: Build) -> Expr:
    """A function that keeps the type of numbers."""
    return build.unary(_UNARY[plain_name(node)], node.operand("self"))


def rounded(node: AtenNode, build: Build) -> Expr:
    """Rounds to whole numbers, which whole numbers are already."""
    x = node.operand("self")
    return build.unary(_OF_WHOLE[plain_name(node)], x) if build.is_float(x) else x


def round_decimals(node: AtenNode, build: Build) -> Expr:
    """Rounds to a number of decimals: what is scaled by a power of ten is rounded."""
    x, decimals = node.operand("self"), node.integer("decimals", build, 0)
    power = float(10.0 ** abs(decimals))
    scalar = build.scalar_like(power, x)
    first, second = ("mul", "div") if decimals >= 0 else ("div", "mul")
    return build.binary(second, build.unary("round", build.binary(first, x, scalar)), scalar)


def trunc(node: AtenNode, build: Build) -> Expr:
    """Rounds towards zero."""
    return truncated(node.operand("self"), build)


def truncated(x: Expr, build: Build) -> Expr:
    if not build.is_float(x):
        return x
    whole = build.unary("floor", build.unary("abs", x))
    return build.binary("mul", whole, build.unary("sign", x))


def frac(node: AtenNode, build: Build) -> Expr:
    """x minus its whole part."""
    x = node.operand("self")
    return build.binary("sub", x, truncated(x, build))


def sign(node: AtenNode, build: Build) -> Expr:
    """-1, 0 or 1"""
    x = node.operand("self")
    if category(build.dtype(x)) == 0:
        return x
    return build.unary("sign", x)


def logical_not(node: AtenNode, build: Build) -> Expr:
    """True where x is 0."""
    return build.unary("not", build.cast(node.operand("self"), np.bool_))


def bitwise_not(node: AtenNode, build: Build) -> Expr:
    """All bits turned."""
    x = node.operand("self")
    return build.unary("not" if build.dtype(x) == np.bool_ else "bit_not", x)


def is_nan(node: AtenNode, build: Build) -> Expr:
    """True where x is not a number; whole numbers always are."""
    x = node.operand("self")
    if not build.is_float(x):
        return build.binary("and", build.cast(x, np.bool_), build.weight(np.array(False)))
    return build.unary("is_nan", x)


def is_real(node: AtenNode, build: Build) -> Expr:
    """True of every real number."""
    x = build.cast(node.operand("self"), np.bool_)
    return build.binary("or", x, build.weight(np.array(True)))


def is_infinite(node: AtenNode, build: Build) -> Expr:
    """True where x is infinite, of either sign or of one."""
    x, name = as_float(node.operand("self"), build), plain_name(node)
    positive, negative = name != "isneginf", name != "isposinf"
    return build.unary("is_infinite", x, float(positive), float(negative))


def is_finite(node: AtenNode, build: Build) -> Expr:
    """True where x is a number and not infinite."""
    x = as_float(node.operand("self"), build)
    other = build.binary("or", build.unary("is_infinite", x, 1.0, 1.0), build.unary("is_nan", x))
    return build.unary("not", other)


def sign_bit(node: AtenNode, build: Build) -> Expr:
    """True where x is negative, and where it is -0."""
    x = node.operand("self")
    if not build.is_float(x):
        return build.binary("less", x, build.scalar_like(0, x))
    is_negative = build.binary("less", x, build.scalar_like(0, x))
    # 1 / -0 is minus infinity.
    inverse = build.unary("reciprocal", x)
    is_zero = build.binary("equal", x, build.scalar_like(0, x))
    below = build.binary("less", inverse, build.scalar_like(0, x))
    return build.binary("or", is_negative, build.binary("and", is_zero, below))


_Formula = Callable[[Expr, Build], Expr]


def _of_scaled(kind: str, before: float, after: float) -> _Formula:
    """after * kind(before * x)"""

    def formula(x: Expr, build: Build) -> Expr:
        return build.scaled(build.unary(kind, build.scaled(x, before)), after)

    return formula


def _times(factor: float) -> _Formula:
    return lambda x, build: build.scaled(x, factor)


def square(x: Expr, build: Build) -> Expr:
    return build.binary("mul", x, x)


def rsqrt(x: Expr, build: Build) -> Expr:
    return build.unary("reciprocal", build.unary("sqrt", x))


def _erfc(x: Expr, build: Build) -> Expr:
    return build.binary("sub", build.scalar_like(1, x), build.unary("erf", x))


def _softsign(x: Expr, build: Build) -> Expr:
    magnitude = build.unary("abs", x)
    return build.binary("div", x, build.binary("add", magnitude, build.scalar_like(1, x)))


def _log_sigmoid(x: Expr, build: Build) -> Expr:
    """-softplus(-x)"""
    return build.unary("neg", build.unary("softplus", build.unary("neg", x)))


def _tanhshrink(x: Expr, build: Build) -> Expr:
    return build.binary("sub", x, build.unary("tanh", x))


def _sinc(x: Expr, build: Build) -> Expr:
    """sin(pi x) / (pi x), 1 at 0."""
    angle = build.scaled(x, math.pi)
    quotient = build.binary("div", build.unary("sin", angle), angle)
    is_zero = build.binary("equal", x, build.scalar_like(0, x))
    return build.select(is_zero, build.scalar_like(1, x), quotient)


def _normal_distribution(x: Expr, build: Build) -> Expr:
    """(1 + erf(x / sqrt(2))) / 2"""
    part = build.unary("erf", build.scaled(x, math.sqrt(0.5)))
    return build.scaled(build.binary("add", part, build.scalar_like(1, x)), 0.5)


def _entropy(x: Expr, build: Build) -> Expr:
    """-x log x; 0 at 0, minus infinity below."""
    value = build.unary("neg", build.binary("mul", x, build.unary("log", x)))
    zero = build.scalar_like(0, x)
    value = build.select(build.binary("equal", x, zero), zero, value)
    below = build.binary("less", x, zero)
    return build.select(below, build.scalar_like(-math.inf, x), value)


def log_plus_one(x: Expr, build: Build) -> Expr:
    """log(1 + x) with its digits near 0: log(u) x / (u - 1), where u is the sum as it was rounded.

    Source: D. Goldberg, "What every computer scientist should know about floating-point
    arithmetic" (1991), theorem 4. Of e^y it is softplus(y).
    """
    made = x.owner
    if isinstance(made, UnaryOp) and made.kind.data == "exp":
        return build.unary("softplus", made.input)
    one = build.scalar_like(1, x)
    u = build.binary("add", one, x)
    log = build.unary("log", u)
    near = build.binary("mul", log, build.binary("div", x, build.binary("sub", u, one)))
    near = build.select(build.binary("equal", u, one), x, near)
    # Of so large a number, the infinite one among them, 1 is no digit.
    return build.select(build.binary("equal", u, x), log, near)


_FORMULAS: dict[str, _Formula] = {
    "log2": _of_scaled("log", 1.0, 1 / math.log(2)),
    "log10": _of_scaled("log", 1.0, 1 / math.log(10)),
    "exp2": _of_scaled("exp", math.log(2), 1.0),
    "special_exp2": _of_scaled("exp", math.log(2), 1.0),
    "log1p": log_plus_one,
    "special_log1p": log_plus_one,
    "rsqrt": rsqrt,
    "erfc": _erfc,
    "special_erfc": _erfc,
    "rad2deg": _times(180 / math.pi),
    "deg2rad": _times(math.pi / 180),
    "log_sigmoid": _log_sigmoid,
    "sinc": _sinc,
    "special_sinc": _sinc,
    "special_entr": _entropy,
    "special_ndtr": _normal_distribution,
}
_KEEPING_FORMULAS: dict[str, _Formula] = {
    "square": square,
    "softsign": _softsign,
    "tanhshrink": _tanhshrink,
}


def formula(node: AtenNode, build: Build) -> Expr:
    """A function of real numbers that other functions make up."""
    return _FORMULAS[plain_name(node)](as_float(node.operand("self"), build), build)


def keeping_formula(node: AtenNode, build: Build) -> Expr:
    """A function that other functions make up, and that keeps the type of numbers."""
    return _KEEPING_FORMULAS[plain_name(node)](node.operand("self"), build)


def expm1(node: AtenNode, build: Build) -> Expr:
    """exp(x) - 1, with its digits near 0: ELU below it."""
    x = as_float(node.operand("self"), build)
    y = build.unary("exp", x)
    above = build.binary("sub", y, build.scalar_like(1, y))
    is_above = build.binary("greater", x, build.scalar_like(1, x))
    near = build.unary("elu", build.binary("min", x, build.scalar_like(0, x)), 1.0)
    # Between 0 and 1: e^x - 1 = (1 - e^-x) e^x.
    mirrored = build.unary("elu", build.unary("neg", build.unary("relu", x)), 1.0)
    middle = build.binary("mul", build.unary("neg", mirrored), y)
    is_negative = build.binary("less", x, build.scalar_like(0, x))
    return build.select(is_above, above, build.select(is_negative, near, middle))


def angle(node: AtenNode, build: Build) -> Expr:
    """Half a turn for negative numbers, 0 for others."""
    x = as_float(node.operand("self"), build)
    is_negative = build.binary("less", x, build.scalar_like(0, x))
    turned = build.select(is_negative, build.scalar_like(math.pi, x), build.scalar_like(0, x))
    return build.select(build.unary("is_nan", x), x, turned)


def nan_to_num(node: AtenNode, build: Build) -> Expr:
    """Numbers in the place of what is none, and of the infinities."""
    x = node.operand("self")
    if not build.is_float(x):
        return x
    info = ml_dtypes.finfo(build.dtype(x))
    nan, high, low = (
        default if node.argument(name) is None else node.number(name)
        for name, default in (
            ("nan", 0.0),
            ("posinf", float(info.max)),
            ("neginf", float(info.min)),
        )
    )
    result = build.select(build.unary("is_infinite", x, 1.0, 0.0), build.scalar_like(high, x), x)
    below = build.unary("is_infinite", x, 0.0, 1.0)
    result = build.select(below, build.scalar_like(low, x), result)
    return build.select(build.unary("is_nan", x), build.scalar_like(nan, x), result)


def logit(node: AtenNode, build: Build) -> Expr:
    """log(x / (1 - x)), x kept from 0 and 1 by eps."""
    x = as_float(node.operand("self"), build)
    if node.has("eps"):
        eps = node.number("eps")
        x = build.unary("clip", x, eps, 1 - eps)
    rest = build.binary("sub", build.scalar_like(1, x), x)
    return build.unary("log", build.binary("div", x, rest))


CONVERTERS = {
    **dict.fromkeys(_FLOAT_UNARY, float_unary),
    **dict.fromkeys(_UNARY, unary),
    **dict.fromkeys(_OF_WHOLE, rounded),
    **dict.fromkeys(_FORMULAS, formula),
    **dict.fromkeys(_KEEPING_FORMULAS, keeping_formula),
    "round.decimals": round_decimals,
    "trunc": trunc,
    "fix": trunc,
    "frac": frac,
    "sign": sign,
    "sgn": sign,
    "logical_not": logical_not,
    "bitwise_not": bitwise_not,
    "isnan": is_nan,
    "isreal": is_real,
    "isinf": is_infinite,
    "isposinf": is_infinite,
    "isneginf": is_infinite,
    "isfinite": is_finite,
    "signbit": sign_bit,
    "expm1": expm1,
    "special_expm1": expm1,
    "angle": angle,
    "nan_to_num": nan_to_num,
    "logit": logit,
    "special_logit": logit,
}
