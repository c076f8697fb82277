"""Sigmoid and tanh of numbers of 16 bits as gemmlowp computes them, which LSTMs of bytes use.

    sigmoid(numbers)            2^15 / (1 + e^-x), of numbers with 3 bits before the point
    tanh(numbers, 4)            2^15 tanh(x), of numbers with 4

Arrays are i64. Numbers of 16 bits: those between -1 and 1 have 15 bits behind the point.
Source: gemmlowp, fixedpoint/fixedpoint.h, with `std::int16_t`; the same functions of 32 bits are
in `explorer/ir/top/support/gemmlowp.py`.
"""

from __future__ import annotations

import numpy as np

from explorer.ir.top.support.gemmlowp import divided_by_power

LOWEST, HIGHEST = -(1 << 15), (1 << 15) - 1
_AT_EIGHTH, _THIRD = 28918, 10923
"""e^(-1/8) and 1/3, times 2^15."""
_FACTORS = (25520, 19875, 12055, 4435, 600, 11, 0)
"""e^(-2^k) times 2^15 for k = -2 ... 4."""
_FIRST, _SLOPE = 23130, -15420
"""48/17 and -32/17, times 2^13: where Newton's iteration begins."""
_UNIT = 1 << 13


def sigmoid(x: np.ndarray, integer_bits: int = 3) -> np.ndarray:
    share = _reciprocal(_exponentials(-np.abs(x), integer_bits))
    found = np.where(x > 0, share, HIGHEST - share)
    return np.where(x == 0, 1 << 14, found)


def tanh(x: np.ndarray, integer_bits: int) -> np.ndarray:
    """x with `integer_bits` before the point; twice x has one more."""
    found = _quotient(_exponentials(-np.abs(x), integer_bits + 1))
    return np.where(x == 0, 0, np.where(x < 0, -found, found))


def _product(a: np.ndarray | int, b: np.ndarray | int) -> np.ndarray:
    """a b / 2^15, half up: `SaturatingRoundingDoublingHighMul` of 16 bits."""
    product = (np.asarray(a, np.int64) * np.asarray(b, np.int64) + (1 << 14)) >> 15
    return np.minimum(product, HIGHEST)


def _lifted(x: np.ndarray, bits: int) -> np.ndarray:
    return np.clip(x << bits, LOWEST, HIGHEST)


def _exponentials(x: np.ndarray, integer_bits: int) -> np.ndarray:
    """e^x for x <= 0: the part between -1/4 and 0 by a polynomial, the bits above by factors."""
    fraction_bits = 15 - integer_bits
    quarter = 1 << (fraction_bits - 2)
    rest = (x & (quarter - 1)) - quarter
    result = _near_zero(_lifted(rest, integer_bits))
    remainder = rest - x
    for k, factor in enumerate(_FACTORS, -2):
        if integer_bits > k:
            is_set = remainder >> (fraction_bits + k) & 1
            result = np.where(is_set, _product(result, factor), result)
    return np.where(x == 0, HIGHEST, result)


def _near_zero(x: np.ndarray) -> np.ndarray:
    """e^x for -1/4 <= x < 0: four terms around -1/8."""
    a = x + (1 << 12)
    a2 = _product(a, a)
    a3, a4 = _product(a2, a), _product(a2, a2)
    tail = divided_by_power(_product(divided_by_power(a4, 2) + a3, _THIRD) + a2, 1)
    return np.clip(_AT_EIGHTH + _product(_AT_EIGHTH, a + tail), LOWEST, HIGHEST)


def _inverse(x: np.ndarray) -> np.ndarray:
    """2 / (1 + x) for 0 <= x < 1, with 13 bits behind the point: three of Newton's steps."""
    half = (x + HIGHEST + 1) >> 1
    found = _FIRST + _product(half, _SLOPE)
    for _ in range(3):
        missing = _UNIT - _product(half, found)
        found = found + _lifted(_product(found, missing), 2)
    return found


def _reciprocal(x: np.ndarray) -> np.ndarray:
    """1 / (1 + x)"""
    return _lifted(_inverse(x), 1)


def _quotient(x: np.ndarray) -> np.ndarray:
    """(1 - x) / (1 + x)"""
    return _lifted(_inverse(x) - _UNIT, 2)
