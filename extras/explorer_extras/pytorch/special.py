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
from explorer.importers.building.expr import Expr, maximum, minimum, where
from explorer.importers.pytorch.operators.node import AtenNode
from explorer.importers.pytorch.operators.promotion import as_float, promoted
from explorer.importers.pytorch.operators.unary import plain_name, square, truncated

Formula = Callable[[Expr, Build], Expr]

_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
"""B2, B4, ...: with them the series below are exact to 1e-10 where they are used."""
_STEPS = 8
"""By which an argument is moved up until its series are that exact."""


_LARGE = 16.0
"""From where on a series needs no steps, of which the product overflows."""


def in_doubles(formula: Formula) -> Callable[[AtenNode, Build], Expr]:
    """A converter that computes in doubles; the result has the type of the operand."""

    def convert(node: AtenNode, build: Build) -> Expr:
        x = as_float(node.operand("self"))
        return formula(x.astype(np.float64), build).astype(x.dtype)

    convert.__module__ = __name__  # by which its family is found
    return convert


def polynomial(coefficients: Sequence[float], x: Expr) -> Expr:
    """The first coefficient is that of x^0; by Horner's rule."""
    result = x.constant(coefficients[-1])
    for number in reversed(coefficients[:-1]):
        result = result * x + number
    return result


def where_less(x: Expr, bound: float, if_true: Expr, if_false: Expr) -> Expr:
    return where(x < bound, if_true, if_false)


def _sum(values: Sequence[Expr]) -> Expr:
    result = values[0]
    for value in values[1:]:
        result = result + value
    return result


# -- gamma functions -------------------------------------------------------------------------------


def _mirrored(x: Expr) -> tuple[Expr, Expr]:
    """x, or 1 - x below 1/2, and pi times what x is apart from a whole number."""
    one = x.constant(1)
    angle = (x - x.round()).scaled(math.pi)
    return where_less(x, 0.5, one - x, x), angle


def log_gamma(x: Expr, build: Build) -> Expr:
    """log|Gamma(x)|; 6.1.40, and the reflection 6.1.17 below 1/2."""
    y, angle = _mirrored(x)
    z = where_less(y, _LARGE, y + _STEPS, y)
    passed = y
    for step in range(1, _STEPS):
        passed = passed * (y + step)
    passed = where_less(y, _LARGE, passed, y.constant(1))
    inverse = z.reciprocal()
    series = [b / ((2 * k) * (2 * k - 1)) for k, b in enumerate(_BERNOULLI, 1)]
    rest = inverse * polynomial(series, square(inverse, build))
    main = (z + -0.5) * z.log() - z + math.log(2 * math.pi) / 2
    value = main + rest - passed.log()
    sine = abs(angle.sin()).log()
    turned = math.log(math.pi) - sine
    result = where_less(x, 0.5, turned - value, value)
    result = where((x == 1) | (x == 2), 0, result)  # without a rounding of what cancels there
    return where(x.unary("is_infinite", 1.0, 1.0), math.inf, result)


def digamma(x: Expr, build: Build) -> Expr:
    """The derivative of log(Gamma(x)); 6.3.18 and 6.3.7. Nothing at whole numbers below 0."""
    y, angle = _mirrored(x)
    z = y + _STEPS
    inverse = z.reciprocal()
    series = [0.0, *(-b / (2 * k) for k, b in enumerate(_BERNOULLI, 1))]
    tail = polynomial(series, square(inverse, build))
    main = z.log() - inverse * 0.5
    steps = [(y + step).reciprocal() for step in range(_STEPS)]
    value = main + tail - _sum(steps)
    cotangent = angle.tan().reciprocal()
    turned = value - cotangent.scaled(math.pi)
    zero = x.constant(0)
    return where_less(x, 0.5, where((x < zero) & (angle == 0), math.nan, turned), value)


def _polygamma(x: Expr, n: int) -> Expr:
    """(-1)^(n + 1) n! zeta(n + 1, x); 6.4.10 and 23.2, and the reflection 6.4.7 below 1/2."""
    y, angle = _mirrored(x)
    s, z = n + 1, y + _STEPS

    def power(value: Expr) -> Expr:
        return value**-s

    inverse = z.reciprocal()
    series, rising = [0.5], 1.0
    for k, number in enumerate(_BERNOULLI, 1):
        # s (s + 1) ... (s + 2 k - 2) B2k / (2 k)! z^(1 - 2 k)
        rising = math.prod(range(s, s + 2 * k - 1)) * number / math.factorial(2 * k)
        series += [rising, 0.0]
    tail = power(z) * polynomial(series[:-1], inverse)
    integral = (power(z) * z).scaled(1 / n)
    zeta = _sum([*(power(y + k) for k in range(_STEPS)), integral, tail])
    value = zeta.scaled((-1.0) ** (n + 1) * math.factorial(n))
    derivative = Polynomial([0, 1])  # of cot(pi x), in cot(pi x)
    for _ in range(n):
        derivative = derivative.deriv() * Polynomial([-math.pi, 0, -math.pi])
    cotangent = angle.tan().reciprocal()
    slope = polynomial([float(c) for c in derivative.coef], cotangent)
    return where_less(x, 0.5, value.scaled((-1.0) ** n) - slope.scaled(math.pi), value)


def polygamma(node: AtenNode, build: Build) -> Expr:
    """The n-th derivative of digamma."""
    n = node.integer("n", build)
    if n < 0:
        raise ValueError(f"derivative {n}")
    if n == 0:
        return in_doubles(digamma)(node, build)
    return in_doubles(lambda x, b: _polygamma(x, n))(node, build)


def multivariate_log_gamma(node: AtenNode, build: Build) -> Expr:
    """p (p - 1) / 4 log(pi), and the sum of log(Gamma(x - j / 2)) for j < p."""
    p = node.integer("p", build)

    def formula(x: Expr, build: Build) -> Expr:
        terms = [log_gamma(x + -j / 2, build) for j in range(p)]
        return _sum(terms) + p * (p - 1) / 4 * math.log(math.pi)

    return in_doubles(formula)(node, build)


# -- error functions -------------------------------------------------------------------------------

_FROM = 4.0
"""Where the continued fraction of erfcx takes over; 14 levels are exact to 1e-11 there."""


def scaled_erfc(x: Expr, build: Build) -> Expr:
    """e^(x^2) erfc(x); 7.1.14 for large x."""
    small = minimum(x, _FROM)
    rest = x.constant(1) - small.erf()
    near = square(small, build).exp() * rest
    large = maximum(x, _FROM)
    fraction = large
    for level in range(14, 0, -1):
        quotient = level / 2 / fraction
        fraction = large + quotient
    return where_less(x, _FROM, near, fraction.reciprocal().scaled(1 / math.sqrt(math.pi)))


def log_normal(x: Expr, build: Build) -> Expr:
    """The logarithm of the normal distribution's share below x."""
    turned = x.scaled(-math.sqrt(0.5))
    below = (scaled_erfc(turned, build) * 0.5).log() - square(x, build) * 0.5
    return where_less(x, -1.0, below, ((x.scaled(math.sqrt(0.5)).erf() + 1.0) * 0.5).log())


def normal_quantile(p: Expr, build: Build) -> Expr:
    """Below which x a share p of the normal distribution lies.

    log(ndtr) is concave: Newton's method approaches from the left, of what lies left of 0.
    """
    return _quantile_of(minimum(p, 1 - p), p + -0.5, build)


def _quantile_of(share: Expr, side: Expr, build: Build) -> Expr:
    """share: at most 1/2, of the smaller side. side: negative for the left one."""
    goal = share.log()
    x = -(goal * -2.0).sqrt()
    for _ in range(6):
        erfc = scaled_erfc(x.scaled(-math.sqrt(0.5)), build)
        value = (erfc * 0.5).log() - square(x, build) * 0.5
        step = (goal - value) * erfc
        x = x + step.scaled(math.sqrt(math.pi / 2))
    x = where(share == 0, -math.inf, x)
    return where_less(side, 0.0, x, -x)


def inverse_erf(x: Expr, build: Build) -> Expr:
    """ndtri((1 + x) / 2) / sqrt(2); near 0 the first terms of the series, which keep its digits."""
    size = abs(x)
    rest = 1 - size
    far = _quantile_of(rest * 0.5, x, build).scaled(math.sqrt(0.5))
    cubed = x * square(x, build)
    near = x + cubed.scaled(math.pi / 12)
    return where_less(size, 1e-4, near.scaled(math.sqrt(math.pi) / 2), far)


def spherical_bessel(x: Expr, build: Build) -> Expr:
    """sin(x) / x, 1 at 0; 10.1.11."""
    quotient = x.sin() / x
    return where(x == 0, 1, quotient)


# -- Chebyshev polynomials -------------------------------------------------------------------------


_STEEP = 40.0
"""An angle from where on its hyperbolic sine and cosine are both half its exponential."""


def chebyshev(node: AtenNode, build: Build) -> Expr:
    """The polynomial of degree n, without its fraction; 0 for negative ones. 22.3.15 and 22.3.16,
    and the same with hyperbolic functions outside of -1 ... 1."""
    x, n = promoted(node, ("x", "n"), build)
    if not x.is_float:
        raise Unsupported("polynomials of whole numbers")
    name, dtype = plain_name(node), x.dtype
    x, n = (v.astype(np.float64) for v in (x, n))
    n = truncated(n)
    if "shifted" in name:
        x = x * 2.0 + -1.0
    kind = name[-1]
    size, one = abs(x), x.constant(1)
    angles = {
        "inside": minimum(size, one).unary("acos"),
        "outside": maximum(size, one).unary("acosh"),
    }
    is_outside = size > one

    def of(kind: str) -> Expr:
        inside = _by_angle(kind, n, angles["inside"], "sin", "cos")
        outside = _by_angle(kind, n, angles["outside"], "sinh", "cosh")
        return where(is_outside, outside, inside)

    value = of(kind)
    is_negative = x < 0
    if kind in "vw":  # each is the other's mirror image
        value = where(is_negative, of("w" if kind == "v" else "v"), value)
    half = n * 0.5
    is_odd = half.floor() < half
    is_turned = is_negative & is_odd
    value = where(is_turned, -value, value)
    return where_less(n, 0.0, x.constant(0), value).astype(dtype)


def _by_angle(kind: str, n: Expr, angle: Expr, sine: str, cosine: str) -> Expr:
    """T: cos(n a). U: sin((n + 1) a) / sin(a). V: cos((n + 1/2) a) / cos(a / 2), W with sines."""
    if kind == "t":
        return (n * angle).unary(cosine)
    added, factor = (1.0, 1.0) if kind == "u" else (0.5, 0.5)
    count = n + added
    function = cosine if kind == "v" else sine
    dividend = (count * angle).unary(function)
    divisor = angle.scaled(factor).unary(function)
    quotient = dividend / divisor
    if cosine == "cosh":  # the hyperbolic functions overflow before their quotient does
        quotient = where_less(angle, _STEEP, quotient, (n * angle).exp())
    if kind == "v":
        return quotient
    limit = count.scaled(1 / factor)
    return where(angle == 0, limit, quotient)


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
        x = as_float(node.operand("x"))
        return formula(x.astype(np.float64), build).astype(x.dtype)

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
