"""Interpolations whose taps are constants."""

from __future__ import annotations

import numpy as np

from explorer.importers.building.build import Build
from explorer.importers.building.expr import Expr
from explorer.ir.top.interpolation import InterpolateOp
from explorer.ir.top.support.taps import Taps, without_zeros

_NUDGE = 1e-6
"""More than float64 loses in an interpolation of whole numbers: 2.9999999999 is 3."""


def whole(y: Expr, dtype: np.dtype, rounds: bool, build: Build) -> Expr:
    """Interpolated whole numbers (f64) in their type, within its range.

    Rounded with halves away from zero, or truncated; in either case the number that is meant
    where y misses it by what floats lose.
    """
    info = np.iinfo(dtype)
    shift = build.scalar_like((0.5 if rounds else 0.0) + _NUDGE, y)
    size = build.unary("floor", build.binary("add", build.unary("abs", y), shift))
    y = build.binary("copy_sign", size, y)
    highest = float(info.max) if info.bits < 64 else np.nextafter(2.0 ** (info.bits - 1), 0)
    if info.bits == 64 and not info.min:
        highest = np.nextafter(2.0**64, 0)
    return build.cast(build.unary("clip", y, float(info.min), float(highest)), dtype)


def interpolate(x: Expr, axis: int, taps: Taps, build: Build) -> Expr:
    """The axis of x, a float, interpolated."""
    taps = without_zeros(taps)
    kind = np.float64 if build.dtype(x) == np.float64 else np.float32
    positions = build.weight(taps.positions.astype(np.int64))
    weights = build.weight(taps.weights.astype(kind))
    return build.value(InterpolateOp, [x, positions, weights], axis=axis)
