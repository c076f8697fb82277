"""Rows of float32 as signed bytes with a scale for each row.

    row [0.5, -2.54, 0]      ->      bytes [25, -127, 0], scale 0.02        25 * 0.02 = 0.5

    scale = max(|row|) / 127, rounded to SCALE_BITS significant bits      byte = round(x / scale)

Rounding is to nearest, ties to even. With so few bits `byte * scale` is exact, and such numbers
have the same bytes and scale again. A row that holds NaN or infinity has the scale NaN: all of it
is read as NaN. Where the scale would be subnormal it is 0, and the row is read as zeros.
"""

from __future__ import annotations

import numpy as np

LEVELS = 127
"""Steps from 0 to the greatest byte."""
SCALE_BITS = 17
"""A float32 has 24, and seven are those of the byte."""
INVERSE = np.float32(1 / LEVELS)
LARGEST, SMALLEST = np.finfo(np.float32).max, np.finfo(np.float32).smallest_normal
HALF_UNIT = np.int32(1 << (24 - SCALE_BITS - 1))
"""Added to the bits of a scale, so that it is rounded where those that are not `KEPT` go."""
KEPT = np.int32(-1 << (24 - SCALE_BITS))
MAX_STEP = 1.001 / LEVELS
"""Of the largest number of a row, with what the scales of two neighbouring numbers differ by."""


def row_axis(axis: int, rank: int) -> int:
    """The axis along which a row lies, `axis` being that of the rows: the last one but for it."""
    return rank - 1 if axis < rank - 1 else rank - 2


def quantized(array: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """Bytes (int8) and scales (float32, with one element along `row_axis`) of rows of float32,
    which follow each other along `axis`."""
    along = row_axis(axis, array.ndim)
    reach = np.max(np.abs(array), axis=along, keepdims=True, initial=0)
    with np.errstate(all="ignore"):
        scale = np.where(reach <= LARGEST, reach * INVERSE, np.float32(np.nan))
        scale = np.where(scale < SMALLEST, np.float32(0), scale)
        bits = (scale.view(np.int32) + HALF_UNIT) & KEPT
        scale = bits.view(np.float32)
        steps = np.where(scale > 0, array / scale, np.float32(0))
    return np.rint(steps).astype(np.int8), scale


def dequantized(array: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """The numbers that bytes stand for: float32."""
    return array.astype(np.float32) * scale


def is_step_of_rows(one: np.ndarray, other: np.ndarray, axis: int) -> np.ndarray:
    """Where numbers that bytes stand for differ by at most a step of their row in `other`."""
    reach = np.max(np.abs(other), axis=row_axis(axis, other.ndim), keepdims=True, initial=0)
    with np.errstate(invalid="ignore"):
        return np.abs(one - other) <= MAX_STEP * reach
