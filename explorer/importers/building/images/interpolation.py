"""Interpolations whose taps are constants."""

from __future__ import annotations

import numpy as np

from explorer.importers.building.build import Build
from explorer.importers.building.expr import Expr
from explorer.ir.top.interpolation import InterpolateOp
from explorer.ir.top.support.taps import Taps, without_zeros

_NUDGE = 1e-6
"""More than float64 loses in an interpolation of whole numbers: 2.9999999999 is 3."""


def whole(y: Expr, dtype: np.dtype, rounds: bool) -> Expr:
    """Interpolated whole numbers (f64) in their type, within its range.

    Rounded with halves away from zero, or truncated; in either case the number that is meant
    where y misses it by what floats lose.
    """
    info = np.iinfo(dtype)
    shift = y.constant((0.5 if rounds else 0.0) + _NUDGE)
    size = (abs(y) + shift).floor()
    y = size.binary("copy_sign", y)
    highest = float(info.max) if info.bits < 64 else np.nextafter(2.0 ** (info.bits - 1), 0)
    if info.bits == 64 and not info.min:
        highest = np.nextafter(2.0**64, 0)
    return y.clip(float(info.min), float(highest)).astype(dtype)


def interpolate(x: Expr, axis: int, taps: Taps, build: Build) -> Expr:
    """The axis of x, a float, interpolated."""
    taps = without_zeros(taps)
    kind = np.float64 if x.dtype == np.float64 else np.float32
    positions = build.weight(taps.positions.astype(np.int64))
    weights = build.weight(taps.weights.astype(kind))
    return build.value(InterpolateOp, [x, positions, weights], axis=axis)
