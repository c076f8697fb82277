"""Derivatives of the elementwise kinds, as functions of operand x and result y.

    "sigmoid": y * (1 - y)          "tanh": 1 - y * y          "mul": b to the left, a to the right

Where a function has a corner (relu at 0) the derivative is the one from the side on which the
operation itself takes that point; equal operands of a maximum take half each. Kinds that are
absent are not differentiable, or nobody asked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from explorer.ir.gradients import Term

Derivative = Callable[[Term, Term, float, float], Term]
"""dy/dx from x, y and the kind's two parameters."""


def _where(condition: Term, if_true: float, if_false: float, like: Term) -> Term:
    return condition.select(like.of(if_true), like.of(if_false))


def _clip(x: Term, y: Term, low: float, high: float) -> Term:
    inside = _where(x.compare("less_equal", high), 1, 0, x)
    return x.compare("greater_equal", low).select(inside, x.of(0))


def _hard_sigmoid(x: Term, y: Term, alpha: float, beta: float) -> Term:
    inside = _where(y.compare("less", 1), alpha, 0, x)
    return y.compare("greater", 0).select(inside, x.of(0))


def _hard_swish(x: Term, y: Term, alpha: float, beta: float) -> Term:
    """x (x + 3) / 6 between -3 and 3."""
    right = x.compare("less", 3).select(x * (1 / 3) + 0.5, x.of(1))
    return x.compare("greater", -3).select(right, x.of(0))


def _silu(x: Term, y: Term, alpha: float, beta: float) -> Term:
    s = (x * alpha).unary("sigmoid")
    return s + x * s * (1 - s) * alpha


def _mish(x: Term, y: Term, alpha: float, beta: float) -> Term:
    t = x.unary("softplus").unary("tanh")
    return t + x * x.unary("sigmoid") * (1 - t * t)


def _gelu(x: Term, y: Term, alpha: float, beta: float) -> Term:
    """The normal distribution's integral, plus x times its density."""
    integral = ((x * math.sqrt(0.5)).unary("erf") + 1) * 0.5
    density = (x * x * -0.5).unary("exp") * (1 / math.sqrt(2 * math.pi))
    return integral + x * density


def _gelu_tanh(x: Term, y: Term, alpha: float, beta: float) -> Term:
    c, cube = math.sqrt(2 / math.pi), 0.044715
    t = ((x + x * x * x * cube) * c).unary("tanh")
    return (t + 1) * 0.5 + x * (1 - t * t) * (x * x * (3 * cube) + 1) * (0.5 * c)


def _elu(x: Term, y: Term, alpha: float, beta: float) -> Term:
    return x.compare("greater_equal", 0).select(x.of(1), y + alpha)


def _nothing(x: Term, y: Term, alpha: float, beta: float) -> Term:
    return x.of(0)


UNARY_DERIVATIVES: Mapping[str, Derivative] = {
    "relu": lambda x, y, a, b: _where(x.compare("greater", 0), 1, 0, x),
    "leaky_relu": lambda x, y, a, b: _where(x.compare("greater_equal", 0), 1, a, x),
    "clip": _clip,
    "sigmoid": lambda x, y, a, b: y * (1 - y),
    "hard_sigmoid": _hard_sigmoid,
    "hard_swish": _hard_swish,
    "silu": _silu,
    "mish": _mish,
    "tanh": lambda x, y, a, b: 1 - y * y,
    "erf": lambda x, y, a, b: (-(x * x)).unary("exp") * (2 / math.sqrt(math.pi)),
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "elu": _elu,
    "softplus": lambda x, y, a, b: x.unary("sigmoid"),
    "neg": lambda x, y, a, b: x.of(-1),
    "abs": lambda x, y, a, b: x.unary("sign"),
    "sign": _nothing,
    "floor": _nothing,
    "ceil": _nothing,
    "round": _nothing,
    "sin": lambda x, y, a, b: x.unary("cos"),
    "cos": lambda x, y, a, b: -x.unary("sin"),
    "tan": lambda x, y, a, b: y * y + 1,
    "atan": lambda x, y, a, b: 1 / (x * x + 1),
    "asinh": lambda x, y, a, b: 1 / (x * x + 1).unary("sqrt"),
    "asin": lambda x, y, a, b: 1 / (1 - x * x).unary("sqrt"),
    "acos": lambda x, y, a, b: -1 / (1 - x * x).unary("sqrt"),
    "acosh": lambda x, y, a, b: 1 / (x * x - 1).unary("sqrt"),
    "atanh": lambda x, y, a, b: 1 / (1 - x * x),
    "sinh": lambda x, y, a, b: x.unary("cosh"),
    "cosh": lambda x, y, a, b: x.unary("sinh"),
    "exp": lambda x, y, a, b: y,
    "log": lambda x, y, a, b: 1 / x,
    "sqrt": lambda x, y, a, b: 0.5 / y,
    "reciprocal": lambda x, y, a, b: -(y * y),
}


def _power_of_exponent(a: Term, b: Term, y: Term) -> Term:
    """y log a; 0 where a is 0, and not a number below."""
    logarithm = a.compare("equal", 0).select(a.of(1), a).unary("log")
    return y * logarithm


def _power_of_base(a: Term, b: Term, y: Term) -> Term:
    """b a^(b - 1); 0 for the exponent 0, also at a = 0."""
    slope = b * a.power(b - 1)
    return b.compare("equal", 0).select(a.of(0), slope)


def _extremum(kind: str) -> tuple[Callable[[Term, Term, Term], Term], ...]:
    def part(own: Term, other: Term) -> Term:
        tie = _where(own.compare("equal", other), 0.5, 0, own)
        return own.compare(kind, other).select(own.of(1), tie)

    return (lambda a, b, y: part(a, b), lambda a, b, y: part(b, a))


def _share_of_length(a: Term, b: Term, y: Term) -> Term:
    """a / y; 0 at the origin."""
    is_zero = y.compare("equal", 0)
    return a / is_zero.select(y.of(1), y)


def _remainder(a: Term, b: Term, y: Term) -> Term:
    """a = quotient b + y with a whole quotient, whose negative this is."""
    return -((a - y) / b).unary("round")


BINARY_DERIVATIVES: Mapping[str, tuple[Callable[[Term, Term, Term], Term], ...]] = {
    "add": (lambda a, b, y: a.of(1), lambda a, b, y: a.of(1)),
    "sub": (lambda a, b, y: a.of(1), lambda a, b, y: a.of(-1)),
    "mul": (lambda a, b, y: b, lambda a, b, y: a),
    "div": (lambda a, b, y: 1 / b, lambda a, b, y: -(y / b)),
    "pow": (_power_of_base, _power_of_exponent),
    "max": _extremum("greater"),
    "min": _extremum("less"),
    "hypot": (_share_of_length, lambda a, b, y: _share_of_length(b, a, y)),
    "copy_sign": (
        lambda a, b, y: y.compare("equal", a).select(a.of(1), a.of(-1)),
        lambda a, b, y: a.of(0),
    ),
    "prelu": (
        lambda a, b, y: a.compare("greater_equal", 0).select(a.of(1), b),
        lambda a, b, y: a.compare("greater_equal", 0).select(a.of(0), a),
    ),
    "mod": (lambda a, b, y: a.of(1), _remainder),
    "fmod": (lambda a, b, y: a.of(1), _remainder),
}
