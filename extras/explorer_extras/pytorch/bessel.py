"""Bessel functions of the orders 0 and 1, computed in doubles: series near 0, asymptotic ones far.

aten.special_i0e(x)                 e^-|x| I0(x)
aten.special_bessel_y1(x)           nothing below 0, minus infinity at it

Source: Abramowitz and Stegun, "Handbook of Mathematical Functions", 9.1.10 to 9.1.13, 9.2.5,
9.2.6, 9.6.10 to 9.6.13, 9.6.24, 9.7.1 and 9.7.2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from explorer.importers.building.build import Build
from explorer.importers.building.expr import Expr, maximum, minimum, where
from explorer.importers.pytorch.operators.unary import square
from explorer_extras.pytorch.special import (
    Formula,
    in_doubles,
    of_x,
    polynomial,
    where_less,
)

_FAR = 15.0
"""Where asymptotic series take over from those of powers, which lose e^15 of 1e16 here."""
_NEAR_K, _FAR_K = 1.5, 30.0
"""The same for K, with its integral between both: its series of powers lose e^(2 x)."""
_STEP, _STEPS = 0.125, 32
"""Of the sum for K's integral, exact to 1e-16 between 1.5 and 30."""
_POWERS, _INVERSE_POWERS = 40, 22


def _harmonic(count: int) -> float:
    return math.fsum(1 / k for k in range(1, count + 1))


def _near(x: Expr, order: int, sign: float, has_harmonics: bool, build: Build) -> Expr:
    """The sum of (sign x^2 / 4)^k / (k! (k + order)!), each times H_k + H_(k + order) if asked."""
    coefficients = []
    for k in range(_POWERS):
        factor = _harmonic(k) + _harmonic(k + order) if has_harmonics else 1.0
        divisor = math.factorial(k) * math.factorial(k + order)
        coefficients.append(sign**k * factor / divisor)
    return polynomial(coefficients, square(x, build) * 0.25)


def _first(x: Expr, order: int, sign: float, build: Build) -> Expr:
    """I (sign 1) or J (sign -1) near 0."""
    series = _near(x, order, sign, False, build)
    return series * (x * 0.5) if order else series


def _second(x: Expr, order: int, sign: float, build: Build) -> Expr:
    """K, or -pi / 2 Y, near 0: logarithms of x and the first kind."""
    logarithm = (x * 0.5).log() + np.euler_gamma
    main = logarithm * _first(x, order, sign, build)
    rest = _near(x, order, sign, True, build) * 0.5
    if not order:
        return rest - main
    rest = rest * (x * 0.5)
    inverse = x.reciprocal()
    if sign > 0:
        return inverse + (main - rest)
    return inverse + (rest - main)


def _expansion(order: int) -> list[float]:
    """Numbers before x^-k: (4 n^2 - 1) (4 n^2 - 9) ... / (k! 8^k)"""
    found = [1.0]
    for k in range(1, _INVERSE_POWERS):
        found.append(found[-1] * (4 * order**2 - (2 * k - 1) ** 2) / (8 * k))
    return found


def _split(x: Expr, bound: float) -> tuple[Expr, Expr]:
    """What near and what far formulas may compute with."""
    limit = x.constant(bound)
    return minimum(x, limit), maximum(x, limit)


def _modified_first(order: int, is_scaled: bool, x: Expr, build: Build) -> Expr:
    size = abs(x)
    near, far = _split(size, _FAR)
    fading = (-near).exp()
    low = _first(near, order, 1.0, build) * fading
    numbers = [(-1) ** k * a for k, a in enumerate(_expansion(order))]
    high = polynomial(numbers, far.reciprocal())
    high = high * far.sqrt().scaled(math.sqrt(2 * math.pi)).reciprocal()
    value = where_less(size, _FAR, low, high)
    if not is_scaled:  # the exponential overflows before the function does
        grown = size.scaled(0.5).exp()
        value = value * grown * grown
    return value * x.sign() if order else value


def _modified_second(order: int, is_scaled: bool, x: Expr, build: Build) -> Expr:
    near, far = minimum(x, _NEAR_K), maximum(x, _FAR_K)
    low = _second(near, order, 1.0, build) * near.exp()
    middle = _integral(x.clip(_NEAR_K, _FAR_K), order)
    high = polynomial(_expansion(order), far.reciprocal())
    root = far.sqrt().reciprocal().scaled(math.sqrt(math.pi / 2))
    value = where_less(x, _FAR_K, where_less(x, _NEAR_K, low, middle), high * root)
    if not is_scaled:
        value = value * (-x).exp()
    return _right_of_zero(x, math.inf, value)


def _integral(x: Expr, order: int) -> Expr:
    """e^x K(x), the integral of exp(x - x cosh t) cosh(n t) over t > 0 (9.6.24), as a sum."""
    total = x.constant(0.5)
    for step in range(1, _STEPS):
        t = step * _STEP
        total = total + (x * (1 - math.cosh(t))).exp().scaled(math.cosh(order * t))
    return total.scaled(_STEP)


def _right_of_zero(x: Expr, limit: float, value: Expr) -> Expr:
    """The value; a limit at 0, and nothing left of it."""
    return where_less(x, 0.0, x.constant(math.nan), where(x == 0, limit, value))


def _waves(order: int, is_second: bool, x: Expr, build: Build) -> Expr:
    """J and Y far from 0: waves that fade with the root of x."""
    inverse = x.reciprocal()
    even, odd = (
        [(-1) ** k * a for k, a in enumerate(_expansion(order)[first::2])] for first in (0, 1)
    )
    squared = square(inverse, build)
    p = polynomial(even, squared)
    q = polynomial(odd, squared) * inverse
    phase = x + -(2 * order + 1) * math.pi / 4
    sine, cosine = (phase.unary(kind) for kind in ("sin", "cos"))
    if is_second:
        wave = p * sine + q * cosine
    else:
        wave = p * cosine - q * sine
    return wave * x.sqrt().reciprocal().scaled(math.sqrt(2 / math.pi))


def _bessel_first(order: int, x: Expr, build: Build) -> Expr:
    size = abs(x)
    near, far = _split(size, _FAR)
    low, high = _first(near, order, -1.0, build), _waves(order, False, far, build)
    value = where_less(size, _FAR, low, high)
    return value * x.sign() if order else value


def _bessel_second(order: int, x: Expr, build: Build) -> Expr:
    near, far = _split(x, _FAR)
    low = _second(near, order, -1.0, build).scaled(-2 / math.pi)
    value = where_less(x, _FAR, low, _waves(order, True, far, build))
    return _right_of_zero(x, -math.inf, value)


def _both_orders(name: str, formula: Callable[..., Expr], *settings: bool) -> dict:
    """{"i0": ..., "i1": ...} for "i#"."""
    return {name.replace("#", str(n)): partial(formula, n, *settings) for n in (0, 1)}


_OF_SELF: dict[str, Formula] = {
    "i0": partial(_modified_first, 0, False),
    **_both_orders("special_i#", _modified_first, False),
    **_both_orders("special_i#e", _modified_first, True),
    **_both_orders("special_modified_bessel_i#", _modified_first, False),
    **_both_orders("special_modified_bessel_k#", _modified_second, False),
    **_both_orders("special_bessel_j#", _bessel_first),
    **_both_orders("special_bessel_y#", _bessel_second),
}
_OF_X: dict[str, Formula] = _both_orders(
    "special_scaled_modified_bessel_k#", _modified_second, True
)

CONVERTERS = {
    **{name: in_doubles(formula) for name, formula in _OF_SELF.items()},
    **{name: of_x(formula) for name, formula in _OF_X.items()},
}
