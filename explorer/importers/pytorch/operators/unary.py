"""Elementwise calls of one tensor: functions of each number."""

from __future__ import annotations

import math
from collections.abc import Callable

import ml_dtypes
import numpy as np

from explorer.importers.building.build import Build
from explorer.importers.building.expr import Expr, maximum, minimum, where
from explorer.importers.pytorch.operators.node import AtenNode
from explorer.importers.pytorch.operators.promotion import as_float, category
from explorer.ir.top.elementwise import UnaryOp

ERFC_END = 30.0
"""Beyond which erfc is 0 in doubles."""


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
    return as_float(node.operand("self")).unary(kind)


def unary(node: AtenNode, build: Build) -> Expr:
    """A function that keeps the type of numbers."""
    return node.operand("self").unary(_UNARY[plain_name(node)])


def rounded(node: AtenNode, build: Build) -> Expr:
    """Rounds to whole numbers, which whole numbers are already."""
    x = node.operand("self")
    return x.unary(_OF_WHOLE[plain_name(node)]) if x.is_float else x


def round_decimals(node: AtenNode, build: Build) -> Expr:
    """Rounds to a number of decimals: what is scaled by a power of ten is rounded."""
    x, decimals = node.operand("self"), node.integer("decimals", build, 0)
    power = float(10.0 ** abs(decimals))
    scalar = x.constant(power)
    first, second = ("mul", "div") if decimals >= 0 else ("div", "mul")
    return x.binary(first, scalar).round().binary(second, scalar)


def trunc(node: AtenNode, build: Build) -> Expr:
    """Rounds towards zero."""
    return truncated(node.operand("self"))


def truncated(x: Expr) -> Expr:
    if not x.is_float:
        return x
    return abs(x).floor() * x.sign()


def frac(node: AtenNode, build: Build) -> Expr:
    """x minus its whole part."""
    x = node.operand("self")
    return x - truncated(x)


def sign(node: AtenNode, build: Build) -> Expr:
    """-1, 0 or 1"""
    x = node.operand("self")
    if category(x.dtype) == 0:
        return x
    return x.sign()


def logical_not(node: AtenNode, build: Build) -> Expr:
    """True where x is 0."""
    return ~node.operand("self").astype(np.bool_)


def bitwise_not(node: AtenNode, build: Build) -> Expr:
    """All bits turned."""
    x = node.operand("self")
    return x.unary("not" if x.dtype == np.bool_ else "bit_not")


def is_nan(node: AtenNode, build: Build) -> Expr:
    """True where x is not a number; whole numbers always are."""
    x = node.operand("self")
    if not x.is_float:
        return x.astype(np.bool_) & build.weight(np.array(False))
    return x.is_nan()


def is_real(node: AtenNode, build: Build) -> Expr:
    """True of every real number."""
    return node.operand("self").astype(np.bool_) | build.weight(np.array(True))


def is_infinite(node: AtenNode, build: Build) -> Expr:
    """True where x is infinite, of either sign or of one."""
    x, name = as_float(node.operand("self")), plain_name(node)
    positive, negative = name != "isneginf", name != "isposinf"
    return x.unary("is_infinite", float(positive), float(negative))


def is_finite(node: AtenNode, build: Build) -> Expr:
    """True where x is a number and not infinite."""
    x = as_float(node.operand("self"))
    return ~(x.unary("is_infinite", 1.0, 1.0) | x.is_nan())


def sign_bit(node: AtenNode, build: Build) -> Expr:
    """True where x is negative, and where it is -0."""
    x = node.operand("self")
    if not x.is_float:
        return x < 0
    is_negative = x < 0
    # 1 / -0 is minus infinity.
    inverse = x.reciprocal()
    return is_negative | ((x == 0) & (inverse < 0))


_Formula = Callable[[Expr, Build], Expr]


def _of_scaled(kind: str, before: float, after: float) -> _Formula:
    """after * kind(before * x), rounded once to what x has"""

    def formula(x: Expr, build: Build) -> Expr:
        return x.wide().scaled(before).unary(kind).scaled(after).astype(x.dtype)

    return formula


def _times(factor: float) -> _Formula:
    return lambda x, build: x.scaled(factor)


def square(x: Expr, build: Build) -> Expr:
    return x * x


def rsqrt(x: Expr, build: Build) -> Expr:
    return x.sqrt().reciprocal()


def power_of_two(x: Expr, build: Build) -> Expr:
    """2^x: powers of whole numbers are exact, which e^(x log(2)) are not."""
    wide = x.wide()
    return (2**wide).astype(x.dtype)


def erfc(x: Expr, build: Build) -> Expr:
    """1 - erf(x), and for large x e^(-x²) times a continued fraction, without a difference of
    numbers that are near each other.

    Abramowitz and Stegun, 7.1.14. x² = c² + (x - c) (x + c), with c = x of few bits, so that c² is
    exact.
    """
    wide = x.wide()
    start, levels = (2.0, 52) if x.dtype == np.float64 else (1.0, 40)
    large = minimum(maximum(wide, start), ERFC_END)
    fraction = large
    for level in range(levels, 0, -1):
        fraction = large + level / 2 / fraction
    coarse = (large * 16).floor() / 16
    near = (coarse - large) * (coarse + large)
    tail = (-(coarse * coarse)).exp() * near.exp() / fraction / math.sqrt(math.pi)
    return where(wide < start, 1 - wide.erf(), tail).astype(x.dtype)


def _softsign(x: Expr, build: Build) -> Expr:
    return x / (abs(x) + 1)


def _log_sigmoid(x: Expr, build: Build) -> Expr:
    """-softplus(-x)"""
    return -(-x).softplus()


def _tanhshrink(x: Expr, build: Build) -> Expr:
    return x - x.tanh()


def _sinc(x: Expr, build: Build) -> Expr:
    """sin(pi x) / (pi x), 1 at 0."""
    angle = x.wide().scaled(math.pi)
    quotient = angle.sin() / angle
    return where(x == 0, 1, quotient.astype(x.dtype))


def _normal_distribution(x: Expr, build: Build) -> Expr:
    """erfc(-x / sqrt(2)) / 2"""
    return erfc(x.scaled(-math.sqrt(0.5)), build) * 0.5


def _entropy(x: Expr, build: Build) -> Expr:
    """-x log x; 0 at 0, minus infinity below."""
    value = -(x * x.log())
    zero = x.constant(0)
    value = where(x == zero, zero, value)
    return where(x < zero, -math.inf, value)


def log_plus_one(x: Expr, build: Build) -> Expr:
    """log(1 + x) with its digits near 0: log(u) x / (u - 1), where u is the sum as it was rounded.

    Source: D. Goldberg, "What every computer scientist should know about floating-point
    arithmetic" (1991), theorem 4. Of e^y it is softplus(y).
    """
    made = x.owner
    if isinstance(made, UnaryOp) and made.kind.data == "exp":
        return build.expr(made.input).softplus()
    one = x.constant(1)
    u = one + x
    log = u.log()
    near = log * (x / (u - one))
    near = where(u == one, x, near)
    # Of so large a number, the infinite one among them, 1 is no digit.
    return where(u == x, log, near)


_FORMULAS: dict[str, _Formula] = {
    "log2": _of_scaled("log", 1.0, 1 / math.log(2)),
    "log10": _of_scaled("log", 1.0, 1 / math.log(10)),
    "exp2": power_of_two,
    "special_exp2": power_of_two,
    "log1p": log_plus_one,
    "special_log1p": log_plus_one,
    "rsqrt": rsqrt,
    "erfc": erfc,
    "special_erfc": erfc,
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
    return _FORMULAS[plain_name(node)](as_float(node.operand("self")), build)


def keeping_formula(node: AtenNode, build: Build) -> Expr:
    """A function that other functions make up, and that keeps the type of numbers."""
    return _KEEPING_FORMULAS[plain_name(node)](node.operand("self"), build)


def expm1(node: AtenNode, build: Build) -> Expr:
    """exp(x) - 1, with its digits near 0: ELU below it."""
    x = as_float(node.operand("self"))
    y = x.exp()
    above = y - 1
    is_above = x > 1
    near = minimum(x, 0).unary("elu", 1.0)
    # Between 0 and 1: e^x - 1 = (1 - e^-x) e^x.
    mirrored = (-x.relu()).unary("elu", 1.0)
    middle = -mirrored * y
    return where(is_above, above, where(x < 0, near, middle))


def angle(node: AtenNode, build: Build) -> Expr:
    """Half a turn for negative numbers, 0 for others."""
    x = as_float(node.operand("self"))
    is_negative = x < 0
    turned = where(is_negative, x.constant(math.pi), 0)
    return where(x.is_nan(), x, turned)


def nan_to_num(node: AtenNode, build: Build) -> Expr:
    """Numbers in the place of what is none, and of the infinities."""
    x = node.operand("self")
    if not x.is_float:
        return x
    info = ml_dtypes.finfo(x.dtype)
    nan, high, low = (
        default if node.argument(name) is None else node.number(name)
        for name, default in (
            ("nan", 0.0),
            ("posinf", float(info.max)),
            ("neginf", float(info.min)),
        )
    )
    result = where(x.unary("is_infinite", 1.0, 0.0), high, x)
    below = x.unary("is_infinite", 0.0, 1.0)
    result = where(below, low, result)
    return where(x.is_nan(), nan, result)


def logit(node: AtenNode, build: Build) -> Expr:
    """log(x / (1 - x)), x kept from 0 and 1 by eps."""
    x = as_float(node.operand("self"))
    if node.has("eps"):
        eps = node.number("eps")
        x = x.clip(eps, 1 - eps)
    return (x / (1 - x)).log()


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
