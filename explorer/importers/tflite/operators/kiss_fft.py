"""The Fourier transform of real numbers of 16 bits, as KISS FFT computes it.

    transform(x, 512, build)        (..., 512) i32 -> real and imaginary parts, (..., 257) i32

Stages of factor 4, then 2; before each the numbers are divided by its factor, so that nothing
exceeds 16 bits but by chance: then it wraps around, here as there. The transform of the even and
the odd numbers, taken for real and imaginary parts, is one of half the length; the last step
separates them. Source: kissfft, kiss_fft.c and kiss_fftr.c with FIXED_POINT 16.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from explorer.importers.building.build import Build, Unsupported
from explorer.importers.building.expr import Expr
from explorer.importers.tflite.operators.integers import shifted

FRACTION_BITS = 15
MAX_INT16 = (1 << 15) - 1


@dataclass(frozen=True)
class _Complex:
    """Numbers of 16 bits in tensors of i32."""

    real: Expr
    imaginary: Expr

    def plus(self, other: _Complex, build: Build) -> _Complex:
        return self._with("add", other, build)

    def minus(self, other: _Complex, build: Build) -> _Complex:
        return self._with("sub", other, build)

    def _with(self, kind: str, other: _Complex, build: Build) -> _Complex:
        return _Complex(
            self.real.binary(kind, other.real),
            self.imaginary.binary(kind, other.imaginary),
        )

    def turned(self, build: Build) -> _Complex:
        """Times -i."""
        return _Complex(self.imaginary, -self.real)

    def wrapped(self, build: Build) -> _Complex:
        """As 16 bits hold it."""
        parts = (self.real, self.imaginary)
        return _Complex(*(p.astype(np.int16).astype(np.int32) for p in parts))

    def divided(self, count: int, build: Build) -> _Complex:
        """By 2 or 4, as a product with a number a little below 2^15 / count."""
        factor = self.real.constant(MAX_INT16 // count)
        parts = (part * factor for part in (self.real, self.imaginary))
        return _Complex(*(_rounded(part) for part in parts))

    def times(self, factors: np.ndarray, build: Build) -> _Complex:
        """`factors`: (..., 2), which broadcast."""
        a, b = (build.weight(np.ascontiguousarray(factors[..., k])) for k in (0, 1))
        real = self.real * a - self.imaginary * b
        imaginary = self.real * b + self.imaginary * a
        return _Complex(_rounded(real), _rounded(imaginary)).wrapped(build)

    def part(self, axis: int, start: int, stop: int, build: Build) -> _Complex:
        parts = (self.real, self.imaginary)
        return _Complex(*(p.slice(axis, start, stop) for p in parts))

    def shaped(self, sizes: list[int], build: Build) -> _Complex:
        return _Complex(*(p.reshape(sizes) for p in (self.real, self.imaginary)))


def transform(x: Expr, length: int, build: Build) -> tuple[Expr, Expr]:
    """x: (rows, length), i32 within 16 bits."""
    if length < 4 or length & (length - 1):
        raise Unsupported(f"a Fourier transform of {length} numbers, which is no power of two")
    half = length // 2
    pairs = x.reshape([-1, half, 2])
    even, odd = (pairs.slice(2, k, k + 1).squeeze([2]) for k in (0, 1))
    return _separated(_halves(_Complex(even, odd), half, build), half, build)


def _rounded(x: Expr) -> Expr:
    return shifted(x + x.constant(1 << (FRACTION_BITS - 1)), FRACTION_BITS)


def _turns(phases: np.ndarray) -> np.ndarray:
    """cos and sin with 15 bits behind the point: (..., 2)."""
    parts = np.stack([np.cos(phases), np.sin(phases)], -1)
    return np.floor(0.5 + MAX_INT16 * parts).astype(np.int32)


def _factors(length: int) -> list[int]:
    """4 as often as it divides, then 2."""
    found = []
    while length > 1:
        factor = 4 if length % 4 == 0 else 2
        found.append(factor)
        length //= factor
    return found


def _order(factors: list[int]) -> np.ndarray:
    """Where the numbers stand before the first stage."""
    places = np.zeros(1, np.int64)
    for factor in reversed(factors):
        places = np.concatenate([part * factor + k for k in range(factor) for part in (places,)])
    return places


def _halves(x: _Complex, length: int, build: Build) -> _Complex:
    """The transform of (rows, length) complex numbers; stages from the smallest to the whole."""
    factors = _factors(length)
    order = _order(factors)
    y = _Complex(*(part.take(order, 1) for part in (x.real, x.imaginary)))
    size = 1
    for factor in reversed(factors):
        groups = length // (size * factor)
        y = y.shaped([-1, groups, factor, size], build).divided(factor, build)
        places = np.outer(np.arange(1, factor), np.arange(size)) * groups
        turns = _turns(-2 * np.pi * places / length)
        first = y.part(2, 0, 1, build)
        others = y.part(2, 1, factor, build).times(turns, build)
        rest = [others.part(2, k, k + 1, build) for k in range(factor - 1)]
        y = _joined(_butterfly(first, rest, build), build).wrapped(build)
        size *= factor
        y = y.shaped([-1, length // size, size], build)
    return y.shaped([-1, length], build)


def _butterfly(first: _Complex, others: list[_Complex], build: Build) -> list[_Complex]:
    if len(others) == 1:
        return [first.plus(others[0], build), first.minus(others[0], build)]
    a, b, c = others
    even, odd = first.plus(b, build), first.minus(b, build)
    total, turned = a.plus(c, build), a.minus(c, build).turned(build)
    return [
        even.plus(total, build),
        odd.plus(turned, build),
        even.minus(total, build),
        odd.minus(turned, build),
    ]


def _joined(parts: list[_Complex], build: Build) -> _Complex:
    return _Complex(
        build.concat([p.real for p in parts], 2), build.concat([p.imaginary for p in parts], 2)
    )


def _separated(x: _Complex, half: int, build: Build) -> tuple[Expr, Expr]:
    """Of the even and the odd numbers the spectrum of all: half + 1 complex numbers."""
    middle = half // 2
    ends = x.part(1, 0, 1, build).divided(2, build)
    low = x.part(1, 1, middle + 1, build).divided(2, build)
    mirrored = np.arange(half - 1, half - middle - 1, -1)
    real, imaginary = (part.take(mirrored, 1) for part in (x.real, x.imaginary))
    high = _Complex(real, -imaginary).wrapped(build).divided(2, build)
    total, difference = low.plus(high, build), low.minus(high, build)
    phases = -np.pi * (np.arange(1, middle + 1) / half + 0.5)
    odd = difference.times(_turns(phases), build)
    below = total.plus(odd, build)
    above = total.minus(odd, build)
    # Their mirror image; the middle itself is written from this side, which comes last.
    back = np.arange(middle - 1, -1, -1)
    real_above = above.real.take(back, 1)
    imaginary_above = (-above.imaginary).take(back, 1)
    lower = below.part(1, 0, middle - 1, build) if middle > 1 else None
    reals = [ends.real + ends.imaginary]
    imaginaries = [ends.real - ends.real]
    if lower is not None:
        reals.append(shifted(lower.real, 1))
        imaginaries.append(shifted(lower.imaginary, 1))
    reals += [shifted(real_above, 1), ends.real - ends.imaginary]
    imaginaries += [shifted(imaginary_above, 1), imaginaries[0]]
    return build.concat(reals, 1), build.concat(imaginaries, 1)
