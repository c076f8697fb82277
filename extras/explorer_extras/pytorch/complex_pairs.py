"""Complex numbers as pairs of values, and functions of them.

pair = times(pair_of(z, build), pair_of(w, build), build)
joined(*pair, build)            one value, whose last axis has both parts
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from explorer.importers.building.build import Build
from explorer.importers.building.expr import Expr, maximum, where
from explorer.importers.pytorch.operators.elementwise import angle_of, length_of
from explorer.importers.pytorch.operators.unary import square
from explorer.ir.top.movement.concat import ConcatOp
from explorer.ir.top.movement.reshape import ReshapeOp

Pair = tuple[Expr, Expr]
"""Real and imaginary part, without the last axis."""
Function = Callable[[Expr, Expr, Build], Pair]
"""Of a real and an imaginary part."""


def pair_of(z: Expr, build: Build) -> Pair:
    """Both parts; those that were joined before, where they were."""
    last = z.rank - 1
    made = z.owner
    if isinstance(made, ConcatOp) and made.get("axis") == last and len(made.operands) == 2:
        real, imaginary = (value.owner for value in made.operands)
        if isinstance(real, ReshapeOp) and isinstance(imaginary, ReshapeOp):
            found = [build.expr(part.operands[0]) for part in (real, imaginary)]
            if all(value.shape == z.shape[:last] for value in found):
                return found[0], found[1]
    real, imaginary = (z.slice(last, part, part + 1) for part in (0, 1))
    return real.squeeze([last]), imaginary.squeeze([last])


def joined(real: Expr, imaginary: Expr, build: Build) -> Expr:
    """Complex numbers of their parts."""
    axis = real.rank
    return build.concat([part.unsqueeze([axis]) for part in (real, imaginary)], axis)


def times(left: Pair, right: Pair) -> Pair:
    (a, b), (c, d) = left, right
    return (a * c).binary("sub", b * d), (a * d).binary("add", b * c)


def over(left: Pair, right: Pair, build: Build) -> Pair:
    """The quotient; the divisor is divided by its larger part first, so that squares stay finite.

    Source: R. L. Smith, "Algorithm 116: Complex division" (1962).
    """
    c, d = right
    larger = maximum(abs(c), abs(d))
    c, d = (part / larger for part in (c, d))
    size = square(c, build) + square(d, build)
    found = times(left, (c, -d))
    real, imaginary = (x / size / larger for x in found)
    return real, imaginary


def _exponential(a: Expr, b: Expr, build: Build) -> Pair:
    return turned(a.exp(), b)


def turned(size: Expr, angle: Expr) -> Pair:
    cosine, sine = (size * angle.unary(kind) for kind in ("cos", "sin"))
    return cosine, sine


def _logarithm(a: Expr, b: Expr, build: Build) -> Pair:
    return length_of(a, b, build).log(), angle_of(a, b, build)


def square_root(a: Expr, b: Expr, build: Build) -> Pair:
    """t = sqrt((|z| + |a|) / 2) is the larger part, or the imaginary one where a < 0."""
    zero = a.constant(0)
    length, real = length_of(a, b, build), abs(a)
    large = (length * 0.5 + real * 0.5).sqrt()
    small = b * 0.5 / large
    small = where(large == zero, zero, small)
    is_below = b < zero
    signed = where(is_below, -large, large)
    is_left = a < zero
    return where(is_left, abs(small), large), where(is_left, signed, small)


def reciprocal(a: Expr, b: Expr, build: Build) -> Pair:
    one, zero = a.constant(1), a.constant(0)
    return over((one, zero), (a, b), build)


def _sign(a: Expr, b: Expr, build: Build) -> Pair:
    size, zero = length_of(a, b, build), a.constant(0)
    is_zero = size == zero
    real, imaginary = (where(is_zero, zero, part / size) for part in (a, b))
    return real, imaginary


def _waves(first: str, second: str, factor: float = 1.0) -> Function:
    """Of a sum by the functions of both parts: sin(a + ib) = sin a cosh b + i cos a sinh b."""

    def function(a: Expr, b: Expr, build: Build) -> Pair:
        (f, g), (h, k) = (kinds.split() for kinds in (first, second))
        return a.unary(f) * b.unary(g), (a.unary(h) * b.unary(k)).scaled(factor)

    return function


def _quotient(above: Function, below: Function) -> Function:
    return lambda a, b, build: over(above(a, b, build), below(a, b, build), build)


def _sigmoid(a: Expr, b: Expr, build: Build) -> Pair:
    real, imaginary = _exponential(-a, -b, build)
    return reciprocal(real + 1, imaginary, build)


_SIN, _COS = _waves("sin cosh", "cos sinh"), _waves("cos cosh", "sin sinh", -1.0)
_SINH, _COSH = _waves("sinh cos", "cosh sin"), _waves("cosh cos", "sinh sin")
FUNCTIONS: Mapping[str, Function] = {
    "exp": _exponential,
    "log": _logarithm,
    "sqrt": square_root,
    "rsqrt": lambda a, b, build: reciprocal(*square_root(a, b, build), build),
    "reciprocal": reciprocal,
    "square": lambda a, b, build: times((a, b), (a, b)),
    "sgn": _sign,
    "sin": _SIN,
    "cos": _COS,
    "tan": _quotient(_SIN, _COS),
    "sinh": _SINH,
    "cosh": _COSH,
    "tanh": _quotient(_SINH, _COSH),
    "sigmoid": _sigmoid,
    "conj": lambda a, b, build: (a, -b),
    "_conj": lambda a, b, build: (a, -b),
    "conj_physical": lambda a, b, build: (a, -b),
    "_conj_physical": lambda a, b, build: (a, -b),
}
