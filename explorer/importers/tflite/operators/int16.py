"""Functions of numbers of 16 bits: tables of all 65,536, which a gather reads.

    y = looked_up_int16(x, table, kind, build)          table[x + 2^15]
    sigmoid_of(-32768 ... 32767, 1/4096)                what LOGISTIC makes of every number

LOGISTIC and TANH interpolate in a table of sigmoid(i / 24); the softmax interpolates exponentials
and reciprocals in tables of 513 entries. Source: tensorflow/lite/kernels/internal/common.h,
`lut_size`, `gen_lut` and `sigmoid_table_uint16`; reference/integer_ops/{logistic,tanh}.h;
reference/softmax.h, `SoftmaxInt16`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import log2

import numpy as np

from explorer.importers.building.build import Build
from explorer.importers.building.expr import Expr, where
from explorer.importers.building.quantized_types import as_quantized, as_stored
from explorer.importers.tflite.operators.integers import kept_within, shifted
from explorer.importers.tflite.operators.schemes import rounded_away, scaled
from explorer.ir.top.indexing import GatherOp
from explorer.ir.types import QuantizedType, numpy_dtype

MIN_INT16, MAX_INT16 = -(1 << 15), (1 << 15) - 1
NUMBERS = np.arange(MIN_INT16, MAX_INT16 + 1, dtype=np.int64)
"""All that 16 bits hold."""


def looked_up_int16(
    x: Expr, table: np.ndarray, name: str, to: QuantizedType | None, build: Build
) -> Expr:
    """Entries of a table of all numbers of 16 bits, in their order; of the type `to` if given."""
    index = as_stored(x, build).astype(np.int64)
    place = index - MIN_INT16
    dtype = np.dtype(np.int16) if to is None else numpy_dtype(to)
    found = build.value(GatherOp, [build.weight(table.astype(dtype), name), place], axis=0)
    return found if to is None else as_quantized(found, to, build)


# -- sigmoid and tanh ------------------------------------------------------------------------------

_STEPS = 24
"""Of the table, in one unit of the argument."""
_LARGER = (
    4, 8, 12, 14, 15, 16, 17, 19, 20, 21, 22, 25, 27, 28, 29, 30, 31, 33, 34, 35, 37, 39, 40, 41,
    43, 44, 45, 46, 49, 50, 54, 62, 63, 64, 66, 82, 86, 93, 100, 103, 112, 116, 135, 255,
)  # fmt: skip
"""Where the kernels' table is one above the rounded number."""


@cache
def _sigmoid_table() -> np.ndarray:
    """2^16 sigmoid(i / 24) for i = 0 ... 255, and the last entry once more."""
    places = np.arange(256)
    table = np.floor(65536 / (1 + np.exp(-places / _STEPS)) + 0.5).astype(np.int64)
    table[list(_LARGER)] += 1
    return np.append(table, table[-1])


def _places(numbers: np.ndarray, scale: float, exact_shifts: tuple[int, ...]) -> np.ndarray:
    """The numbers in steps of 1 / (3 * 4096): exactly where the scale is such a power of two."""
    exponent = log2(scale)
    if exponent.is_integer() and 12 + int(exponent) in exact_shifts:
        return numbers * (3 << (12 + int(exponent)))
    multiplier, shift = scale * 4096 * 3, 0
    while multiplier <= MAX_INT16 / 2 and shift <= 30:
        multiplier, shift = multiplier * 2, shift + 1
    half = (1 << shift) >> 1
    return (numbers * int(multiplier) + half) >> shift


def _interpolated(places: np.ndarray, bits: int, most: int) -> np.ndarray:
    """Between two entries; `bits` of a place lie behind the point."""
    table, magnitude = _sigmoid_table(), np.abs(places)
    index, rest = np.minimum(magnitude >> bits, 255), magnitude & ((1 << bits) - 1)
    line = (table[index] << bits) + rest * (table[index + 1] - table[index])
    return np.where((magnitude >> bits) >= 255, most, line)


def sigmoid_of(numbers: np.ndarray, scale: float) -> np.ndarray:
    """2^15 / (1 + e^(-scale x))"""
    places = _places(numbers, scale, (0,))
    found, half = _interpolated(places, 9, 0x7FFF << 10), 1 << 9
    return np.where(places >= 0, found + half, (1 << 25) - found + half - 1) >> 10


def tanh_of(numbers: np.ndarray, scale: float) -> np.ndarray:
    """2^15 tanh(scale x)"""
    places = _places(numbers, scale, (0, 1))
    found, middle, half = _interpolated(places, 8, 0xFFFF << 8), 1 << 23, 1 << 7
    return np.where(places >= 0, found - middle + half, middle - found + half - 1) >> 8


# -- softmax ---------------------------------------------------------------------------------------

_INTERVALS = 512
_LOWEST_EXPONENT = -10.0
"""What lies below adds nothing."""


def table_of_intervals(
    function: Callable[[np.ndarray], np.ndarray],
    low: float,
    high: float,
    unit: float = 2.0**15,
    zero: int = 0,
) -> np.ndarray:
    """The function at 513 places, moved so that the middle of each interval errs less.

    Entries stand for multiples of 1 / `unit`, `zero` added.
    """
    step = (high - low) / _INTERVALS
    places = low + np.arange(_INTERVALS) * step
    here = rounded_away(function(places) * unit)
    middle = rounded_away(function(places + step / 2) * unit)
    line = rounded_away((function(places + step) * unit + here) / 2)
    moved = here - rounded_away((line - middle) / 2)
    last = rounded_away(function(np.array([high])) * unit)
    return np.clip(np.append(moved, last) + zero, MIN_INT16, MAX_INT16).astype(np.int64)


def between_intervals(numbers: np.ndarray, table: np.ndarray) -> np.ndarray:
    """A straight line between the entries around each number of 16 bits."""
    index, rest = (numbers >> 7) + _INTERVALS // 2, numbers & 127
    return table[index] + (((table[index + 1] - table[index]) * rest + 64) >> 7)


def softmax_of_int16(x: Expr, factor: float, to: QuantizedType, build: Build) -> Expr:
    """exp(factor x) / sum(exp(factor x)) along the last axis, with 15 bits behind the point."""
    axis = x.rank - 1
    stored = as_stored(x, build).astype(np.int64)
    largest = stored.max([axis], True)
    distance = largest - stored
    e = _exponentials(distance, factor, build).astype(np.int64)
    total = e.sum([axis], True)
    lifted, bits = _lifted(total)
    half = total.constant(1 << 13)
    places = shifted(lifted + half, 14)
    moved = places - ((1 << 15) + (1 << 16))
    inverse = _reciprocals(kept_within(moved, (MIN_INT16, MAX_INT16)), build).astype(np.int64)
    product = e * inverse
    one = total.constant(1)
    rounding = one << (bits - one)
    shares = (product + rounding) >> bits
    return as_quantized(kept_within(shares, (0, MAX_INT16)).astype(np.int16), to, build)


def _exponentials(distance: Expr, factor: float, build: Build) -> Expr:
    """2^15 exp(-factor distance) for distances of 0 to 65,535: -10 has the lowest place."""
    table = table_of_intervals(np.exp, _LOWEST_EXPONENT, 0.0)
    ratio = factor / (-_LOWEST_EXPONENT / ((1 << 16) - 1))
    distances = np.arange(1 << 16, dtype=np.int64)
    places = np.clip(scaled(-distances, ratio) + MAX_INT16, MIN_INT16, MAX_INT16)
    entries = between_intervals(places, table).astype(np.int16)
    return build.value(GatherOp, [build.weight(entries), distance], axis=0)


def _reciprocals(x: Expr, build: Build) -> Expr:
    """2^15 / (1 + x) for x in [0, 1), which has the numbers of 16 bits for its places."""
    table = table_of_intervals(lambda x: 1 / (1 + x), 0.0, 1.0)
    entries = between_intervals(NUMBERS, table)
    return looked_up_int16(x, entries, "reciprocals_of_words", None, build)


def _lifted(x: Expr) -> tuple[Expr, Expr]:
    """(x shifted to [2^30, 2^31), 31 minus one more than by how many bits) for 0 < x < 2^31."""
    bits = x.constant(0)
    for step in (16, 8, 4, 2, 1):
        is_small = x < (1 << (31 - step))
        by = where(is_small, x.constant(step), 0)
        x, bits = x << by, bits + by
    return x, 30 - bits
