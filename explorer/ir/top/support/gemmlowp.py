"""Fixed-point numbers of 32 bits as gemmlowp computes with them, in NumPy and in kernels.

    high_multiply(a, b)          a b / 2^31, rounded: `SaturatingRoundingDoublingHighMul`
    exponentials(x)              2^31 e^(x / 2^26) for x <= 0: `exp_on_negative_values`, Q5.26
    reciprocal(x)                2^30 / (1 + x / 2^31) for 0 <= x < 2^31, doubled and kept below
                                 2^31: `one_over_one_plus_x_for_x_in_0_1`

Arrays and scalars are i64. Source: gemmlowp, fixedpoint/fixedpoint.h.
"""

from __future__ import annotations

import numpy as np

from explorer.ir.compute import Scalar

HIGHEST, LOWEST = 2**31 - 1, -(2**31)
EXPONENT_FRACTION_BITS = 26
"""Behind the point of what exponentials are taken of."""
_QUARTER = 1 << (EXPONENT_FRACTION_BITS - 2)
_AT_EIGHTH, _THIRD = 1895147668, 715827883
"""e^(-1/8) and 1/3, times 2^31."""
_FACTORS = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)
"""e^(-2^k) times 2^31 for k = -2 ... 4."""
_FIRST, _SLOPE = 1515870810, -1010580540
"""48/17 and -32/17, times 2^29: where Newton's iteration begins."""
_UNIT = 1 << 29
ITERATIONS = 3


def high_multiply(a: np.ndarray | int, b: np.ndarray | int) -> np.ndarray:
    """Half up; the one product that would saturate (both -2^31) does not occur here."""
    return (np.asarray(a, np.int64) * np.asarray(b, np.int64) + (1 << 30)) >> 31


def divided_by_power(x: np.ndarray, exponent: int) -> np.ndarray:
    """x / 2^exponent, ties away from zero: `RoundingDivideByPOT`."""
    half = (1 << exponent) >> 1
    return np.where(x >= 0, (x + half) >> exponent, -((-x + half) >> exponent))


def exponentials(x: np.ndarray) -> np.ndarray:
    """The part between -1/4 and 0 by a polynomial, the bits above by a factor each."""
    rest = (x & (_QUARTER - 1)) - _QUARTER
    result = _near_zero(rest << 5)
    remainder = rest - x
    for k, factor in enumerate(_FACTORS, -2):
        is_set = remainder >> (EXPONENT_FRACTION_BITS + k) & 1
        result = np.where(is_set, high_multiply(result, factor), result)
    return np.where(x == 0, HIGHEST, result)


def _near_zero(x: np.ndarray) -> np.ndarray:
    """e^x for -1/4 <= x < 0, both with 31 bits behind the point: four terms around -1/8."""
    a = x + (1 << 28)
    a2 = high_multiply(a, a)
    a3, a4 = high_multiply(a2, a), high_multiply(a2, a2)
    quarter = divided_by_power(a4, 2)
    tail = divided_by_power(high_multiply(quarter + a3, _THIRD) + a2, 1)
    return np.minimum(_AT_EIGHTH + high_multiply(_AT_EIGHTH, a + tail), HIGHEST)


def reciprocal(x: np.ndarray) -> np.ndarray:
    half = (x + (1 << 31)) >> 1
    found = _FIRST + high_multiply(half, _SLOPE)
    for _ in range(ITERATIONS):
        missing = _UNIT - high_multiply(half, found)
        found = found + np.clip(high_multiply(found, missing) << 2, LOWEST, HIGHEST)
    return np.clip(found << 1, LOWEST, HIGHEST)


def leading(x: np.ndarray, bits: int = 32) -> tuple[np.ndarray, np.ndarray]:
    """(x shifted to [2^(bits - 1), 2^bits), by how many bits: at most 31) for x < 2^bits."""
    shift = np.zeros_like(x)
    for step in (16, 8, 4, 2, 1):
        is_small = x < 1 << (bits - step)
        x = np.where(is_small, x << step, x)
        shift = np.where(is_small, shift + step, shift)
    return x, shift


# -- scalars ---------------------------------------------------------------------------------------


def high_multiply_scalar(a: Scalar, b: Scalar | int) -> Scalar:
    return (a * b + (1 << 30)).shift_right(31)


def reciprocal_scalar(x: Scalar) -> Scalar:
    half = (x + (1 << 31)).shift_right(1)
    found = high_multiply_scalar(half, _SLOPE) + _FIRST
    for _ in range(ITERATIONS):
        missing = x.constant(_UNIT) - high_multiply_scalar(half, found)
        change = high_multiply_scalar(found, missing).shift_left(2)
        found = found + change.maximum(LOWEST).minimum(HIGHEST)
    return found.shift_left(1).maximum(LOWEST).minimum(HIGHEST)


def leading_scalar(x: Scalar, bits: int = 32) -> tuple[Scalar, Scalar]:
    shift = x.constant(0)
    for step in (16, 8, 4, 2, 1):
        is_small = x.compare("lt", 1 << (bits - step))
        x = is_small.select(x.shift_left(step), x)
        shift = is_small.select(shift + step, shift)
    return x, shift
