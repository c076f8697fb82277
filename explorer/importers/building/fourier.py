"""Fourier transforms as products with constant matrices; complex numbers are the last axis.

    transformed(x, axis, 400, onesided=True, inverse=False, build=build)

    DFT(x) over n points    (..., n, 2) -> (..., 2 n) x matrix (2 n, 2 bins) -> (..., bins, 2)

Row 2 j + c of the matrix is what real (c = 0) or imaginary part of point j adds to every bin.
Longer transforms are made of shorter ones: over n = a b points, those of every b-th point, turned,
and then those over their bins.
Reference: Cooley and Tukey, "An Algorithm for the Machine Calculation of Complex Fourier Series",
1965.
"""

from __future__ import annotations

import numpy as np

from explorer.importers.building.build import Build, Unsupported
from explorer.importers.building.expr import Expr, Size

LONGEST_TRANSFORM = 2048
"""Points that one matrix transforms; it has four times their square elements."""
LONGEST_PART = 256
"""Points of a part of a longer transform, where their number has factors."""


def transformed(
    x: Expr, axis: int, points: int, onesided: bool, inverse: bool, build: Build
) -> Expr:
    """The transform along an axis; its inverse is divided by the number of points.

    x: parts (1 real, or 2) in the last axis. Shorter or longer ones are filled up or cut off.
    onesided: of a spectrum only points // 2 + 1 bins, from which the inverse makes real numbers
    (one part). Undecided where the size is not known, Unsupported for large prime numbers.
    """
    rank = x.rank
    size, parts = x.sizes([axis, rank - 1], "a Fourier transform")
    if parts not in (1, 2) or axis == rank - 1:
        raise ValueError(f"{parts} parts of a number in the last axis; 1 or 2 expected")
    if points < 1:
        raise ValueError(f"a transform over {points} points")
    order = [*(a for a in range(rank - 1) if a != axis), axis, rank - 1]
    moved = x.transpose(order)
    if size > points:
        moved = moved.slice(rank - 2, 0, points)
    if points <= LONGEST_TRANSFORM:
        result = _product(
            moved, _matrix(points, min(size, points), parts, onesided, inverse), build
        )
    else:
        result = _long_transform(moved, points, onesided, inverse, build)
    return result.transpose([order.index(a) for a in range(rank)])


def _product(x: Expr, matrix: np.ndarray, build: Build) -> Expr:
    """(..., size, parts) times (size * parts, bins, numbers): (..., bins, numbers)."""
    rows, *result = matrix.shape
    outer = [x.dim(axis) for axis in range(x.rank - 2)]
    flat = x.reshape([*(outer or [1]), rows])
    stored = build.weight(np.ascontiguousarray(matrix.reshape(rows, -1)))
    return (flat @ stored.astype(x.dtype)).reshape([*outer, *result])


def _long_transform(x: Expr, points: int, onesided: bool, inverse: bool, build: Build) -> Expr:
    """x: (..., size up to the points, parts). The same result as that of the one matrix."""
    if inverse and onesided:
        x = _mirrored(x, points, build)
    last = x.rank - 1
    (size,) = x.sizes([last - 1], "a Fourier transform")
    missing = [0] * (last - 1) + [points - size, 0]
    x = x.pad([0] * (last + 1), missing)
    result = _in_parts(x, points, inverse, build)
    if inverse:
        result = result.scaled(1 / points)
    if onesided:
        axis, end = (last, 1) if inverse else (last - 1, points // 2 + 1)
        result = result.slice(axis, 0, end)
    return result


def _mirrored(x: Expr, points: int, build: Build) -> Expr:
    """One side of a spectrum, (..., bins, parts), with the other: its conjugate, backwards."""
    last = x.rank - 1
    size, parts = x.sizes([last - 1, last], "a Fourier transform")
    bins = points // 2 + 1
    x = x.slice(last - 1, 0, bins) if size > bins else x
    missing = [0] * (last - 1) + [max(bins - size, 0), 2 - parts]
    x = x.pad([0] * (last + 1), missing)
    number = np.arange(points)
    both = x.take(np.minimum(number, points - number), last - 1)
    sign = np.ones((points, 2))
    sign[bins:, 1] = -1
    return both * build.weight(sign.astype(x.dtype))


def _in_parts(x: Expr, points: int, inverse: bool, build: Build) -> Expr:
    """(..., points, parts) -> (..., points, 2), not divided by the number of points.

    Of points a b: point number b i + j goes into bin i' of the transform j over a points, is turned
    by the angle i' j / points, and goes into bin a j' + i'.
    """
    a = max((n for n in range(1, int(points**0.5) + 1) if points % n == 0), default=1)
    if points <= LONGEST_PART or (a == 1 and points <= LONGEST_TRANSFORM):
        (parts,) = x.sizes([x.rank - 1], "a Fourier transform")
        matrix = _matrix(points, points, parts, False, inverse) * (points if inverse else 1)
        return _product(x, matrix, build)
    if a == 1:
        raise Unsupported(
            f"a transform over {points} points, a prime number above {LONGEST_TRANSFORM}"
        )
    b, rank = points // a, x.rank
    outer: list[Size] = [x.dim(axis) for axis in range(rank - 2)]
    swap = [*range(rank - 2), rank - 1, rank - 2, rank]
    apart = x.reshape([*outer, a, b, x.dim(rank - 1)])
    first = _in_parts(apart.transpose(swap), a, inverse, build)
    turned = _turned(first, np.outer(np.arange(b), np.arange(a)) / points, inverse, build)
    second = _in_parts(turned.transpose(swap), b, inverse, build)
    return second.transpose(swap).reshape([*outer, points, 2])


def _turned(x: Expr, turns: np.ndarray, inverse: bool, build: Build) -> Expr:
    """(..., b, a, 2) times exp(-2 pi i turns), or its conjugate."""
    angle = (2 if inverse else -2) * np.pi * turns[..., np.newaxis]
    cosine, sine = (build.weight(f(angle).astype(x.dtype)) for f in (np.cos, np.sin))
    last = x.rank - 1
    real, imaginary = (x.slice(last, part, part + 1) for part in range(2))

    def combined(kind: str, left: Expr, right: Expr) -> Expr:
        products = real * left, imaginary * right
        return build.binary(kind, *products)

    return build.concat([combined("sub", cosine, sine), combined("add", sine, cosine)], last)


def _matrix(points: int, size: int, parts: int, onesided: bool, inverse: bool) -> np.ndarray:
    """(size * parts, bins, parts of a bin), float64.

    Of a real signal one side of the spectrum says all; the inverse of one side is real.
    """
    if onesided and inverse:
        return _real_inverse(points, size, parts)
    bins = points // 2 + 1 if onesided else points
    # Angles of whole turns are taken off before, so that large products lose no precision.
    turns = np.outer(np.arange(size), np.arange(bins)) % points / points
    angle = (2 if inverse else -2) * np.pi * turns
    cosine, sine = np.cos(angle), np.sin(angle)
    rows = [[cosine, sine], [-sine, cosine]][:parts]
    matrix = np.stack([np.stack(row, -1) for row in rows], 1) / (points if inverse else 1)
    return matrix.reshape(size * parts, bins, 2)


def _real_inverse(points: int, size: int, parts: int) -> np.ndarray:
    """One side of a spectrum to a real signal: all but the first and a middle bin count twice."""
    size_used = min(size, points // 2 + 1)
    number = np.arange(size_used)
    twice = np.where((number == 0) | (2 * number == points), 1, 2)[:, np.newaxis] / points
    angle = 2 * np.pi * (np.outer(number, np.arange(points)) % points) / points
    used = np.stack([np.cos(angle) * twice, -np.sin(angle) * twice], 1)[:, :parts]
    matrix = np.zeros((size, parts, points, 1))
    matrix[:size_used, ..., 0] = used
    return matrix.reshape(size * parts, points, 1)
