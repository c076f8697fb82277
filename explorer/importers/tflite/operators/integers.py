"""Arithmetic on stored integers where no operation of quantized numbers says what is meant.

divided_away(sum, count)            (sum ± count / 2) / count, truncated, as C has it
doubled(x, multiplier, exponent)    gemmlowp's two roundings by a multiplier that is given
once_rounded(x, ratio, how)         x * ratio by a scheme with one rounding, for x of 47 bits
"""

from __future__ import annotations

import numpy as np

from explorer.importers.building.build import Build, Unsupported
from explorer.importers.building.expr import Expr, where
from explorer.importers.building.quantized_types import as_quantized, as_stored
from explorer.ir.requantization import DOUBLED_BITS, Requantization, fixed_point
from explorer.ir.types import QuantizedType, numpy_dtype


def kept_within(x: Expr, limits: tuple[int, int]) -> Expr:
    low, high = limits
    return x.clip(float(low), float(high))


def centered_numbers(x: Expr, kind: QuantizedType, build: Build) -> Expr:
    """Stored numbers without their zero point, as i64."""
    return as_stored(x, build).astype(np.int64) - int(kind.zero_point_array[0])


def stored_as(x: Expr, kind: QuantizedType, build: Build) -> Expr:
    """Integers that lie within the storage of a type as numbers of that type."""
    return as_quantized(x.astype(numpy_dtype(kind.storage)), kind, build)


def divided_away(total: Expr, count: Expr) -> Expr:
    """total / count, ties away from zero; the count is positive."""
    half = count / 2
    return where(total > 0, total + half, total - half) / count


def nearest_away(x: Expr) -> Expr:
    """The nearest whole number, ties away from zero. (x + 0.5 would be rounded itself.)"""
    size = abs(x)
    whole = size.floor()
    beyond = size - whole
    is_less = beyond < 0.5
    one = x.constant(1)
    rounded = where(is_less, whole, whole + one)
    return where(x < 0, -rounded, rounded)


def doubled(x: Expr, multiplier: int, exponent: int, build: Build) -> Expr:
    """x * multiplier * 2^(exponent - 31) with the roundings of `doubling_high_multiply`, as i64.

    x: i64 that fit 32 bits. `exponent` above 0 shifts x to the left first.
    """
    lifted = x * (1 << max(exponent, 0))
    product = lifted * multiplier
    nudged = product + (1 << (DOUBLED_BITS - 1))
    return rounded_shift(shifted(nudged, DOUBLED_BITS), max(-exponent, 0))


def once_rounded(x: Expr, ratios: np.ndarray, how: Requantization, build: Build) -> Expr:
    """x * ratio by the scheme `multiplier_shift`, `nearest_up`; x: i64 of at most 47 bits.

    `ratios` broadcast to x. With a multiplier of 32 bits the product has more than 64: its lower
    16 bits are made apart.
    """
    factors = fixed_point(np.asarray(ratios), how)
    shifts = factors.shifts
    multiplier, half = (build.weight(n) for n in (factors.multipliers, (1 << shifts) >> 1))
    if how.multiplier_bits <= _LOWER_BITS:
        return (x * multiplier + half) >> build.weight(shifts)
    if shifts.min() < _LOWER_BITS:
        raise Unsupported(f"sums of more than 32 bits times {np.max(ratios):g}")
    upper = shifted(x, _LOWER_BITS) * multiplier
    lower = (x & ((1 << _LOWER_BITS) - 1)) * multiplier + half
    return (upper + shifted(lower, _LOWER_BITS)) >> build.weight(shifts - _LOWER_BITS)


_LOWER_BITS = 16


def shifted(x: Expr, bits: int) -> Expr:
    """floor(x / 2^bits)"""
    if not bits:
        return x
    return x >> bits


def rounded_shift(x: Expr, bits: int) -> Expr:
    """x / 2^bits, ties away from zero."""
    if not bits:
        return x
    return divided_away(x, x.constant(1 << bits))


def multiplier_of(ratio: float) -> tuple[int, int]:
    """(q, e) with ratio ~ q * 2^(e - 31): `QuantizeMultiplier` of TensorFlow Lite."""
    if ratio == 0.0:
        return 0, 0
    fraction, exponent = np.frexp(ratio)
    multiplier, exponent = int(np.floor(fraction * 2**31 + 0.5)), int(exponent)
    if multiplier == (1 << 31):
        multiplier, exponent = multiplier >> 1, exponent + 1
    return (0, 0) if exponent < -31 else (multiplier, exponent)
