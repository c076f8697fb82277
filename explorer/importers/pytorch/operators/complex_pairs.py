"""Complex numbers as pairs of values, and functions of them.

pair = times(pair_of(z, build), pair_of(w, build), build)
joined(*pair, build)            one value, whose last axis has both parts
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from explorer.importers.building.build import Build
from explorer.importers.building.expr import Expr
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
    last = build.rank(z) - 1
    made = z.owner
    if isinstance(made, ConcatOp) and made.get("axis") == last and len(made.operands) == 2:
        real, imaginary = (value.owner for value in made.operands)
        if isinstance(real, ReshapeOp) and isinstance(imaginary, ReshapeOp):
            found = [build.expr(part.operands[0]) for part in (real, imaginary)]
            if all(value.shape == z.shape[:last] for value in found):
                return found[0], found[1]
    real, imaginary = (build.slice(z, last, part, part + 1) for part in (0, 1))
    return build.squeeze(real, [last]), build.squeeze(imaginary, [last])


def joined(real: Expr, imaginary: Expr, build: Build) -> Expr:
    """Complex numbers of their parts."""
    axis = build.rank(real)
    return build.concat([build.unsqueeze(part, [axis]) for part in (real, imaginary)], axis)


def times(left: Pair, right: Pair, build: Build) -> Pair:
    (a, b), (c, d) = left, right
    return _combined("sub", a, c, b, d, build), _combined("add", a, d, b, c, build)


def _combined(kind: str, a: Expr, c: Expr, b: Expr, d: Expr, build: Build) -> Expr:
    return build.binary(kind, build.binary("mul", a, c), build.binary("mul", b, d))


def over(left: Pair, right: Pair, build: Build) -> Pair:
    """The quotient; the divisor is divided by its larger part first, so that squares stay finite.

    Source: R. L. Smith, "Algorithm 116: Complex division" (1962).
    """
    c, d = right
    larger = build.binary("max", build.unary("abs", c), build.unary("abs", d))
    c, d = (build.binary("div", part, larger) for part in (c, d))
    size = build.binary("add", square(c, build), square(d, build))
    found = times(left, (c, build.unary("neg", d)), build)
    real, imaginary = (build.binary("div", build.binary("div", x, size), larger) for x in found)
    return real, imaginary


def _exponential(a: Expr, b: Expr, build: Build) -> Pair:
    size = build.unary("exp", a)
    return turned(size, b, build)


def turned(size: Expr, angle: Expr, build: Build) -> Pair:
    cosine, sine = (build.binary("mul", size, build.unary(kind, angle)) for kind in ("cos", "sin"))
    return cosine, sine


def _logarithm(a: Expr, b: Expr, build: Build) -> Pair:
    return build.unary("log", length_of(a, b, build)), angle_of(a, b, build)


def square_root(a: Expr, b: Expr, build: Build) -> Pair:
    """t = sqrt((|z| + |a|) / 2) is the larger part, or the imaginary one where a < 0."""
    zero = build.scalar_like(0, a)
    halves = [build.scaled(v, 0.5) for v in (length_of(a, b, build), build.unary("abs", a))]
    large = build.unary("sqrt", build.binary("add", *halves))
    small = build.binary("div", build.scaled(b, 0.5), large)
    small = build.select(build.binary("equal", large, zero), zero, small)
    is_below = build.binary("less", b, zero)
    signed = build.select(is_below, build.unary("neg", large), large)
    is_left = build.binary("less", a, zero)
    real = build.select(is_left, build.unary("abs", small), large)
    return real, build.select(is_left, signed, small)


def reciprocal(a: Expr, b: Expr, build: Build) -> Pair:
    one, zero = build.scalar_like(1, a), build.scalar_like(0, a)
    return over((one, zero), (a, b), build)


def _sign(a: Expr, b: Expr, build: Build) -> Pair:
    size, zero = length_of(a, b, build), build.scalar_like(0, a)
    is_zero = build.binary("equal", size, zero)
    real, imaginary = (
        build.select(is_zero, zero, build.binary("div", part, size)) for part in (a, b)
    )
    return real, imaginary


def _waves(first: str, second: str, factor: float = 1.0) -> Function:
    """Of a sum by the functions of both parts: sin(a + ib) = sin a cosh b + i cos a sinh b."""

    def function(a: Expr, b: Expr, build: Build) -> Pair:
        (f, g), (h, k) = (kinds.split() for kinds in (first, second))
        real = build.binary("mul", build.unary(f, a), build.unary(g, b))
        imaginary = build.binary("mul", build.unary(h, a), build.unary(k, b))
        return real, build.scaled(imaginary, factor)

    return function


def _quotient(above: Function, below: Function) -> Function:
    return lambda a, b, build: over(above(a, b, build), below(a, b, build), build)


def _sigmoid(a: Expr, b: Expr, build: Build) -> Pair:
    real, imaginary = _exponential(build.unary("neg", a), build.unary("neg", b), build)
    return reciprocal(build.binary("add", real, build.scalar_like(1, a)), imaginary, build)


_SIN, _COS = _waves("sin cosh", "cos sinh"), _waves("cos cosh", "sin sinh", -1.0)
_SINH, _COSH = _waves("sinh cos", "cosh sin"), _waves("cosh cos", "sinh sin")
FUNCTIONS: Mapping[str, Function] = {
    "exp": _exponential,
    "log": _logarithm,
    "sqrt": square_root,
    "rsqrt": lambda a, b, build: reciprocal(*square_root(a, b, build), build),
    "reciprocal": reciprocal,
    "square": lambda a, b, build: times((a, b), (a, b), build),
    "sgn": _sign,
    "sin": _SIN,
    "cos": _COS,
    "tan": _quotient(_SIN, _COS),
    "sinh": _SINH,
    "cosh": _COSH,
    "tanh": _quotient(_SINH, _COSH),
    "sigmoid": _sigmoid,
    "conj": lambda a, b, build: (a, build.unary("neg", b)),
    "_conj": lambda a, b, build: (a, build.unary("neg", b)),
    "conj_physical": lambda a, b, build: (a, build.unary("neg", b)),
    "_conj_physical": lambda a, b, build: (a, build.unary("neg", b)),
}
