"""Interpolations whose taps are constants."""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from explorer.importers.building.build import Build
from explorer.ir.top.interpolation import InterpolateOp
from explorer.ir.top.support.taps import Taps, without_zeros


def interpolate(x: SSAValue, axis: int, taps: Taps, build: Build) -> SSAValue:
    """The axis of x, a float, interpolated."""
    taps = without_zeros(taps)
    kind = np.float64 if build.dtype(x) == np.float64 else np.float32
    positions = build.weight(taps.positions.astype(np.int64))
    weights = build.weight(taps.weights.astype(kind))
    return build.value(InterpolateOp, [x, positions, weights], axis=axis)
