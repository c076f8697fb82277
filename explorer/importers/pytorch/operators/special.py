"""Gamma functions, error functions and Chebyshev polynomials, computed in doubles.

aten.lgamma(x)                          Stirling's series behind eight steps of x
aten.special_ndtri(p)                   Newton's method on log(ndtr)
aten.special_chebyshev_polynomial_t     cos(n acos x), cosh(n acosh x) outside of -1 ... 1

Source: Abramowitz and Stegun, "Handbook of Mathematical Functions", chapters 6, 7, 22 and 23.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.polynomial import Polynomial

from explorer.importers.building.build import Build, Unsupported
from explorer.importers.building.expr import Expr
from explorer.importers.pytorch.operators.node import AtenNode
from explorer.importers.pytorch.operators.promotion import as_float, promoted
from explorer.importers.pytorch.operators.unary import plain_name, square, truncated

Formula = Callable[[Expr, Build], Expr]

_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66)
"""B2, B4, ...: with them the series below are exact to 1e-10 where they are used."""
_STEPS = 8
"""By which an argument is moved up until its series are that exact."""


def in_doubles(formula: Formula) -> Callable[[AtenNode, Build], Expr]:
    """A converter that computes in doubles; the result has the type of the operand."""

    def convert(node: AtenNode, build: Build) -> Expr:
        x = as_float(node.operand("self"), build)
        return build.cast(formula(build.cast(x, np.float64), build), build.dtype(x))

    convert.__module__ = __name__  # by which its family is found
    return convert


def plus(x: Expr, number: float, build: Build) -> Expr:
    return build.binary("add", x, build.scalar_like(number, x))


def polynomial(coefficients: Sequence[float], x: Expr, build: Build) -> Expr:
    """The first coefficient is that of x^0; by Horner's rule."""
    result = build.scalar_like(coefficients[-1], x)
    for number in reversed(coefficients[:-1]):
        result = plus(build.binary("mul", result, x), number, build)
    return result


def where_less(x: Expr, bound: float, if_true: Expr, if_false: Expr, build: Build) -> Expr:
    return build.select(build.binary("less", x, build.scalar_like(bound, x)), if_true, if_false)


def _sum(values: Sequence[Expr], build: Build) -> Expr:
    result = values[0]
    for value in values[1:]:
        result = build.binary("add", result, value)
    return result


# -- gamma functions -------------------------------------------------------------------------------


def _mirrored(x: Expr, build: Build) -> tuple[Expr, Expr]:
    """x, or 1 - x below 1/2, and pi times what x is apart from a whole number."""
    one = build.scalar_like(1, x)
    angle = build.scaled(build.binary("sub", x, build.unary("round", x)), math.pi)
    return where_less(x, 0.5, build.binary("sub", one, x), x, build), angle


def log_gamma(x: Expr, build: Build) -> Expr:
    """log|Gamma(x)|; 6.1.40, and the reflection 6.1.17 below 1/2."""
    y, angle = _mirrored(x, build)
    z = plus(y, _STEPS, build)
    passed = y
    for step in range(1, _STEPS):
        passed = build.binary("mul", passed, plus(y, step, build))
    inverse = build.unary("reciprocal", z)
    series = [b / ((2 * k) * (2 * k - 1)) for k, b in enumerate(_BERNOULLI, 1)]
    rest = build.binary("mul", inverse, polynomial(series, square(inverse, build), build))
    main = build.binary("mul", plus(z, -0.5, build), build.unary("log", z))
    main = plus(build.binary("sub", main, z), math.log(2 * math.pi) / 2, build)
    value = build.binary("sub", build.binary("add", main, rest), build.unary("log", passed))
    sine = build.unary("log", build.unary("abs", build.unary("sin", angle)))
    turned = build.binary("sub", build.scalar_like(math.log(math.pi), x), sine)
    result = where_less(x, 0.5, build.binary("sub", turned, value), value, build)
    infinite = build.unary("is_infinite", x, 1.0, 1.0)
    return build.select(infinite, build.scalar_like(math.inf, x), result)


def digamma(x: Expr, build: Build) -> Expr:
    """The derivative of log(Gamma(x)); 6.3.18 and 6.3.7. Nothing at whole numbers below 0."""
    y, angle = _mirrored(x, build)
    z = plus(y, _STEPS, build)
    inverse = build.unary("reciprocal", z)
    series = [0.0, *(-b / (2 * k) for k, b in enumerate(_BERNOULLI, 1))]
    tail = polynomial(series, square(inverse, build), build)
    main = build.binary("sub", build.unary("log", z), build.scaled(inverse, 0.5))
    steps = [build.unary("reciprocal", plus(y, step, build)) for step in range(_STEPS)]
    value = build.binary("sub", build.binary("add", main, tail), _sum(steps, build))
    cotangent = build.unary("reciprocal", build.unary("tan", angle))
    turned = build.binary("sub", value, build.scaled(cotangent, math.pi))
    zero = build.scalar_like(0, x)
    is_pole = build.binary("and", build.binary("less", x, zero), _is_zero(angle, build))
    turned = build.select(is_pole, build.scalar_like(math.nan, x), turned)
    return where_less(x, 0.5, turned, value, build)


def _is_zero(x: Expr, build: Build) -> Expr:
    return build.binary("equal", x, build.scalar_like(0, x))


def _polygamma(x: Expr, n: int, build: Build) -> Expr:
    """(-1)^(n + 1) n! zeta(n + 1, x); 6.4.10 and 23.2, and the reflection 6.4.7 below 1/2."""
    y, angle = _mirrored(x, build)
    s, z = n + 1, plus(y, _STEPS, build)

    def power(value: Expr) -> Expr:
        return build.binary("pow", value, build.scalar_like(-s, x))

    inverse = build.unary("reciprocal", z)
    series, rising = [0.5], 1.0
    for k, number in enumerate(_BERNOULLI, 1):
        # s (s + 1) ... (s + 2 k - 2) B2k / (2 k)! z^(1 - 2 k)
        rising = math.prod(range(s, s + 2 * k - 1)) * number / math.factorial(2 * k)
        series += [rising, 0.0]
    tail = build.binary("mul", power(z), polynomial(series[:-1], inverse, build))
    integral = build.scaled(build.binary("mul", power(z), z), 1 / n)
    zeta = _sum([*(power(plus(y, k, build)) for k in range(_STEPS)), integral, tail], build)
    value = build.scaled(zeta, (-1.0) ** (n + 1) * math.factorial(n))
    derivative = Polynomial([0, 1])  # of cot(pi x), in cot(pi x)
    for _ in range(n):
        derivative = derivative.deriv() * Polynomial([-math.pi, 0, -math.pi])
    cotangent = build.unary("reciprocal", build.unary("tan", angle))
    slope = polynomial([float(c) for c in derivative.coef], cotangent, build)
    turned = build.binary("sub", build.scaled(value, (-1.0) ** n), build.scaled(slope, math.pi))
    return where_less(x, 0.5, turned, value, build)


def polygamma(node: AtenNode, build: Build) -> Expr:
    """The n-th derivative of digamma."""
    n = node.integer("n", build)
    if n < 0:
        raise ValueError(f"derivative {n}")
    if n == 0:
        return in_doubles(digamma)(node, build)
    return in_doubles(lambda x, b: _polygamma(x, n, b))(node, build)


def multivariate_log_gamma(node: AtenNode, build: Build) -> Expr:
    """p (p - 1) / 4 log(pi), and the sum of log(Gamma(x - j / 2)) for j < p."""
    p = node.integer("p", build)

    def formula(x: Expr, build: Build) -> Expr:
        terms = [log_gamma(plus(x, -j / 2, build), build) for j in range(p)]
        return plus(_sum(terms, build), p * (p - 1) / 4 * math.log(math.pi), build)

    return in_doubles(formula)(node, build)


# -- error functions -------------------------------------------------------------------------------

_FROM = 4.0
"""Where the continued fraction of erfcx takes over; 14 levels are exact to 1e-11 there."""


def scaled_erfc(x: Expr, build: Build) -> Expr:
    """e^(x^2) erfc(x); 7.1.14 for large x."""
    small = build.binary("min", x, build.scalar_like(_FROM, x))
    rest = build.binary("sub", build.scalar_like(1, x), build.unary("erf", small))
    near = build.binary("mul", build.unary("exp", square(small, build)), rest)
    large = build.binary("max", x, build.scalar_like(_FROM, x))
    fraction = large
    for level in range(14, 0, -1):
        quotient = build.binary("div", build.scalar_like(level / 2, x), fraction)
        fraction = build.binary("add", large, quotient)
    far = build.scaled(build.unary("reciprocal", fraction), 1 / math.sqrt(math.pi))
    return where_less(x, _FROM, near, far, build)


def log_normal(x: Expr, build: Build) -> Expr:
    """The logarithm of the normal distribution's share below x."""
    turned = build.scaled(x, -math.sqrt(0.5))
    below = build.unary("log", build.scaled(scaled_erfc(turned, build), 0.5))
    below = build.binary("sub", below, build.scaled(square(x, build), 0.5))
    share = build.scaled(plus(build.unary("erf", build.scaled(x, math.sqrt(0.5))), 1.0, build), 0.5)
    return where_less(x, -1.0, below, build.unary("log", share), build)


def normal_quantile(p: Expr, build: Build) -> Expr:
    """Below which x a share p of the normal distribution lies.

    log(ndtr) is concave: Newton's method approaches from the left, of what lies left of 0.
    """
    rest = build.binary("sub", build.scalar_like(1, p), p)
    return _quantile_of(build.binary("min", p, rest), plus(p, -0.5, build), build)


def _quantile_of(share: Expr, side: Expr, build: Build) -> Expr:
    """share: at most 1/2, of the smaller side. side: negative for the left one."""
    goal = build.unary("log", share)
    x = build.unary("neg", build.unary("sqrt", build.scaled(goal, -2.0)))
    for _ in range(6):
        erfc = scaled_erfc(build.scaled(x, -math.sqrt(0.5)), build)
        value = build.unary("log", build.scaled(erfc, 0.5))
        value = build.binary("sub", value, build.scaled(square(x, build), 0.5))
        step = build.binary("mul", build.binary("sub", goal, value), erfc)
        x = build.binary("add", x, build.scaled(step, math.sqrt(math.pi / 2)))
    x = build.select(_is_zero(share, build), build.scalar_like(-math.inf, x), x)
    return where_less(side, 0.0, x, build.unary("neg", x), build)


def inverse_erf(x: Expr, build: Build) -> Expr:
    """ndtri((1 + x) / 2) / sqrt(2); near 0 the first terms of the series, which keep its digits."""
    size = build.unary("abs", x)
    rest = build.binary("sub", build.scalar_like(1, x), size)
    far = build.scaled(_quantile_of(build.scaled(rest, 0.5), x, build), math.sqrt(0.5))
    cubed = build.binary("mul", x, square(x, build))
    near = build.binary("add", x, build.scaled(cubed, math.pi / 12))
    return where_less(size, 1e-4, build.scaled(near, math.sqrt(math.pi) / 2), far, build)


def spherical_bessel(x: Expr, build: Build) -> Expr:
    """sin(x) / x, 1 at 0; 10.1.11."""
    quotient = build.binary("div", build.unary("sin", x), x)
    return build.select(_is_zero(x, build), build.scalar_like(1, x), quotient)


# -- Chebyshev polynomials -------------------------------------------------------------------------


def chebyshev(node: AtenNode, build: Build) -> Expr:
    """The polynomial of degree n, without its fraction; 0 for negative ones. 22.3.15 and 22.3.16,
    and the same with hyperbolic functions outside of -1 ... 1."""
    x, n = promoted(node, ("x", "n"), build)
    if not build.is_float(x):
        raise Unsupported("polynomials of whole numbers")
    name, dtype = plain_name(node), build.dtype(x)
    x, n = (build.cast(v, np.float64) for v in (x, n))
    n = truncated(n, build)
    if "shifted" in name:
        x = plus(build.scaled(x, 2.0), -1.0, build)
    kind = name[-1]
    size, one = build.unary("abs", x), build.scalar_like(1, x)
    angles = {
        "inside": build.unary("acos", build.binary("min", size, one)),
        "outside": build.unary("acosh", build.binary("max", size, one)),
    }
    is_outside = build.binary("greater", size, one)

    def of(kind: str) -> Expr:
        inside = _by_angle(kind, n, angles["inside"], "sin", "cos", build)
        outside = _by_angle(kind, n, angles["outside"], "sinh", "cosh", build)
        return build.select(is_outside, outside, inside)

    value = of(kind)
    is_negative = build.binary("less", x, build.scalar_like(0, x))
    if kind in "vw":  # each is the other's mirror image
        value = build.select(is_negative, of("w" if kind == "v" else "v"), value)
    half = build.scaled(n, 0.5)
    is_odd = build.binary("less", build.unary("floor", half), half)
    is_turned = build.binary("and", is_negative, is_odd)
    value = build.select(is_turned, build.unary("neg", value), value)
    return build.cast(where_less(n, 0.0, build.scalar_like(0, x), value, build), dtype)


def _by_angle(kind: str, n: Expr, angle: Expr, sine: str, cosine: str, build: Build) -> Expr:
    """T: cos(n a). U: sin((n + 1) a) / sin(a). V: cos((n + 1/2) a) / cos(a / 2), W with sines."""
    if kind == "t":
        return build.unary(cosine, build.binary("mul", n, angle))
    added, factor = (1.0, 1.0) if kind == "u" else (0.5, 0.5)
    count = plus(n, added, build)
    function = cosine if kind == "v" else sine
    dividend = build.unary(function, build.binary("mul", count, angle))
    divisor = build.unary(function, build.scaled(angle, factor))
    quotient = build.binary("div", dividend, divisor)
    if kind == "v":
        return quotient
    limit = build.scaled(count, 1 / factor)
    return build.select(_is_zero(angle, build), limit, quotient)


_FORMULAS: dict[str, Formula] = {
    "lgamma": log_gamma,
    "special_gammaln": log_gamma,
    "digamma": digamma,
    "special_digamma": digamma,
    "special_psi": digamma,
    "special_erfcx": scaled_erfc,
    "special_log_ndtr": log_normal,
    "special_ndtri": normal_quantile,
    "erfinv": inverse_erf,
    "special_erfinv": inverse_erf,
}
_OF_X: dict[str, Formula] = {"special_spherical_bessel_j0": spherical_bessel}


def of_x(formula: Formula) -> Callable[[AtenNode, Build], Expr]:
    """As `in_doubles`; the operand is called x."""

    def convert(node: AtenNode, build: Build) -> Expr:
        x = as_float(node.operand("x"), build)
        return build.cast(formula(build.cast(x, np.float64), build), build.dtype(x))

    convert.__module__ = __name__
    return convert


CONVERTERS = {
    **{name: in_doubles(formula) for name, formula in _FORMULAS.items()},
    **{name: of_x(formula) for name, formula in _OF_X.items()},
    "polygamma": polygamma,
    "special_polygamma": polygamma,
    "mvlgamma": multivariate_log_gamma,
    "special_multigammaln": multivariate_log_gamma,
    **{
        f"special_{shifted}chebyshev_polynomial_{kind}{o}": chebyshev
        for shifted in ("", "shifted_")
        for kind in "tuvw"
        for o in ("", ".x_scalar", ".n_scalar")
    },
}
