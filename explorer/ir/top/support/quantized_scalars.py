"""Numbers of quantized tensors, in NumPy and in kernels: real, stored, requantized.

    real(stored)        (stored - zero point) * scale                       f32
    stored(real)        clip(round_half_even(real / scale) + zero point)    integers
    requantized(sum)    explorer.ir.requantization.requantize               integers

Each exists twice, for arrays and for the scalars of a compute definition, side by side. Scales of
a whole tensor stand in the code; those per slice of an axis are tables beside the operands.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects import math
from xdsl.dialects.builtin import Float32Type, IntegerType
from xdsl.ir import Attribute

from explorer.ir.compute import Buffer, Scalar, Subscript
from explorer.ir.operation import Access
from explorer.ir.requantization import (
    DOUBLED_BITS,
    LARGEST_SHIFT,
    Requantization,
    RequantizationAttr,
    Rounding,
    fixed_point,
    integer_limits,
    ratio_of,
    requantize,
)
from explorer.ir.types import QuantizedType, numpy_dtype

F32, I32, I64 = Float32Type(), IntegerType(32), IntegerType(64)
Tables = list[tuple[str, np.ndarray]]
NARROW_BITS = 16
"""Storage of what is requantized in 32 bits."""
MIN_SHIFT, MAX_LIFT = 33, 30
"""Of a product that is rounded once in 32 bits (`_rounded_once`)."""


# -- arrays ----------------------------------------------------------------------------------------


def real_array(array: np.ndarray, kind: Attribute) -> np.ndarray:
    """The numbers (f32) that a quantized array stands for; other arrays as they are."""
    if not isinstance(kind, QuantizedType):
        return array
    scales = kind.along(kind.scale_array, array.ndim)
    return centered(array, kind).astype(np.float32) * scales


def stored_array(array: np.ndarray, kind: QuantizedType) -> np.ndarray:
    """Real numbers (f32, f64) as the integers that stand for them; NaN as the least one."""
    precise = array if array.dtype == np.float64 else array.astype(np.float32)
    with np.errstate(all="ignore"):
        divided = precise / kind.along(kind.scale_array, array.ndim)
        whole = np.rint(divided) + kind.along(kind.zero_point_array, array.ndim)
        low, high = single_limits(kind)
        kept = np.where(np.isnan(whole), low, np.clip(whole, low, high))
        return kept.astype(np.int64).astype(numpy_dtype(kind))


def single_limits(kind: QuantizedType) -> tuple[float, float]:
    """Least and greatest number of the storage type that a single holds: of 32 bits the greatest
    is 2^31 - 128."""
    low, high = integer_limits(kind.storage)
    above = np.float32(high)
    greatest = above if int(above) <= high else np.nextafter(above, np.float32(0))
    return float(low), float(greatest)


def to_storage(numbers: np.ndarray, kind: QuantizedType) -> np.ndarray:
    """Whole numbers, kept within the storage type."""
    low, high = integer_limits(kind.storage)
    return np.clip(numbers, low, high).astype(np.int64).astype(numpy_dtype(kind))


def centered(array: np.ndarray, kind: QuantizedType) -> np.ndarray:
    """Stored numbers minus their zero points, as i64."""
    return array.astype(np.int64) - kind.along(kind.zero_point_array, array.ndim)


def requantized_array(
    sums: np.ndarray, kind: QuantizedType, attribute: RequantizationAttr
) -> np.ndarray:
    """Numbers of one quantized type (stored - zero point, at most 32 bits) in another one."""
    ratio = kind.along(ratio_of(kind, attribute), sums.ndim)
    zero = int(attribute.to.zero_point_array[0])
    result = requantize(sums, ratio, zero, attribute.limits, attribute.how)
    return result.astype(numpy_dtype(attribute.to))


# -- tables beside the operands of a kernel --------------------------------------------------------


def parameter_tables(kind: QuantizedType) -> Tables:
    """Scales and zero points per slice; nothing for a type with one of each."""
    if kind.is_per_tensor:
        return []
    return [("scales", kind.scale_array), *zero_table(kind, "zeros")]


def zero_table(kind: QuantizedType, name: str) -> Tables:
    """Zero points per slice, unless all are equal."""
    zeros = kind.zero_point_array
    return [] if np.all(zeros == zeros[0]) else [(name, zeros.astype(np.int32))]


def requantization_tables(kind: QuantizedType, attribute: RequantizationAttr) -> Tables:
    """The factors of a requantization, one or one per slice: kernels that differ in them only are
    one kernel."""
    ratios = ratio_of(kind, attribute)
    if attribute.how.scheme == "float":
        return [("ratios", ratios)]
    return fixed_point_tables(ratios, attribute.how)


def fixed_point_tables(ratios: np.ndarray, how: Requantization, prefix: str = "") -> Tables:
    """The factors of a scheme of integers: multipliers and shifts.

    A single rounding asks for multiplier / 2^shift only: multipliers get 31 bits, if the shift
    stays within `LARGEST_SHIFT`.
    """
    factors = fixed_point(ratios, how)
    multipliers, shifts = factors.multipliers, factors.shifts
    if how.scheme != "doubling_high_multiply":
        missing = DOUBLED_BITS - np.frexp(multipliers.astype(np.float64))[1]
        more = np.minimum(missing, LARGEST_SHIFT - shifts)
        multipliers, shifts = multipliers << more, shifts + more
    return [
        (f"{prefix}multipliers", multipliers.astype(np.int32)),
        (f"{prefix}shifts", shifts.astype(np.int32)),
    ]


def table_reads(
    tables: Sequence[Access], subscript: Subscript
) -> list[tuple[Buffer, list[Subscript]]]:
    """The elements of tables for a slice."""
    return [table.at(0 if table.shape == (1,) else subscript) for table in tables]


# -- scalars ---------------------------------------------------------------------------------------


def real_scalar(x: Scalar, kind: Attribute, *tables: Scalar) -> Scalar:
    """The number (f32) that a stored scalar stands for; of another type itself."""
    if not isinstance(kind, QuantizedType):
        return x
    scale = tables[0] if tables else float(kind.scale_array[0])
    return centered_scalar(x, kind, *tables[1:]).convert(F32) * scale


def centered_scalar(x: Scalar, kind: QuantizedType, *tables: Scalar) -> Scalar:
    """A stored scalar minus its zero point, as i32."""
    wide = x.convert(I32)
    if tables:
        return wide - tables[0]
    zero = int(kind.zero_point_array[0])
    return wide - zero if zero else wide


def stored_scalar(x: Scalar, kind: QuantizedType, *tables: Scalar) -> Scalar:
    """A real scalar (f32) as the integer that stands for it; NaN, no larger than any, is the least.

    That is what onnxruntime's vectors of minima and maxima make of it.
    """
    scale = tables[0] if tables else float(kind.scale_array[0])
    rounded = (x.convert(F32) / scale).unary(math.RoundEvenOp)
    if len(tables) > 1:
        rounded = rounded + tables[1].convert(F32)
    elif kind.zero_point_array[0]:
        rounded = rounded + float(kind.zero_point_array[0])
    low, high = single_limits(kind)
    raised = rounded.compare("gt", low).select(rounded, low)
    return raised.minimum(high).convert(I32).convert(kind.storage)


def requantized_scalar(sum_: Scalar, attribute: RequantizationAttr, *factors: Scalar) -> Scalar:
    """An accumulator (i32) in the narrow type; `factors` of `requantization_tables`."""
    how, (low, high) = attribute.how, attribute.limits
    zero = int(attribute.to.zero_point_array[0])
    if how.scheme == "float":
        # Rounding keeps order and whole numbers: limits may come first, and then nothing is large.
        scaled = sum_.convert(F32) * factors[0]
        limited = scaled.maximum(float(low - zero)).minimum(float(high - zero))
        rounded = _rounded(limited, how.rounding).convert(I32)
        return (rounded + zero if zero else rounded).convert(attribute.to.storage)
    return limited_scalar(scaled_scalar(sum_, attribute, *factors), attribute)


def scaled_scalar(x: Scalar, attribute: RequantizationAttr, *factors: Scalar) -> Scalar:
    """x (i32) * ratio by a scheme of integers, as `limited_scalar` takes it: in 32 bits where the
    limits have no more than 16, so that vectors compute it."""
    how = attribute.how
    is_narrow = attribute.to.storage.width.data <= NARROW_BITS
    if how.scheme == "doubling_high_multiply" or not is_narrow:
        return fixed_point_scalar(x, how, *factors)
    return _rounded_once(x, how.rounding, *factors)


def limited_scalar(scaled: Scalar, attribute: RequantizationAttr) -> Scalar:
    """A scaled integer (i32, i64) with its zero point, within the limits. These come first: what is
    limited has room for a zero point."""
    (low, high), zero = attribute.limits, int(attribute.to.zero_point_array[0])
    limited = scaled.maximum(low - zero).minimum(high - zero).convert(I32)
    return (limited + zero if zero else limited).convert(attribute.to.storage)


def fixed_point_scalar(x: Scalar, how: Requantization, *factors: Scalar) -> Scalar:
    """x (i32) * ratio by a scheme of integers, as i64, or i32 where the scheme has no more bits."""
    if how.scheme == "doubling_high_multiply":
        return _doubled(x, *factors)
    multiplier, shift = (factor.convert(I64) for factor in factors)
    return _shifted(x.convert(I64) * multiplier, shift, how.rounding)


def _doubled(x: Scalar, multiplier: Scalar, shift: Scalar) -> Scalar:
    """`doubling_high_multiply` in 32 bits, so that vectors compute it.

    The second rounding is gemmlowp's `RoundingDivideByPOT`: what is shifted out is more than half a
    unit, or below zero half a unit, whose sign is -1.
    """
    lifted = x.shift_left((shift.constant(DOUBLED_BITS) - shift).maximum(0))
    high = lifted.high_product(multiplier)
    bits = (shift - DOUBLED_BITS).maximum(0)
    mask = shift.constant(1).shift_left(bits) - 1
    sign = high.shift_right(I32.width.data - 1)
    grows = (high.logical_and(mask) + sign).compare("gt", mask.shift_right(1))
    return high.shift_right(bits) + grows.convert(I32)


def _rounded_once(x: Scalar, rounding: Rounding, multiplier: Scalar, shift: Scalar) -> Scalar:
    """x * multiplier / 2^shift in 32 bits; what is beyond 2^27 stays beyond it, but may be smaller.

    With u = floor(x * multiplier / 2^32), which lies within 2^30, and r = shift - 32 > 0 it is

        floor(u / 2^r)                        down
        floor((u + 2^(r - 1)) / 2^r)          nearest up: what u has lost is less than one

    Smaller shifts are made 33, and x is shifted to the left instead, its bits in front kept within
    32: such multipliers have 31 bits (`fixed_point_tables`), so that results are beyond 2^27 then.
    The other roundings ask whether u has lost anything.
    """
    lift = (shift.constant(MIN_SHIFT) - shift).maximum(0).minimum(MAX_LIFT)
    most = shift.constant(2**31 - 1).shift_right(lift)
    x = x.minimum(most).maximum(most.constant(-1) - most).shift_left(lift)
    upper = x.upper_product(multiplier)
    rest = shift.maximum(MIN_SHIFT) - 32
    if rounding == "down":
        return upper.shift_right(rest)
    half = rest.constant(1).shift_left(rest - 1)
    if rounding == "nearest_up":
        return (upper + half).shift_right(rest)
    is_whole = (x * multiplier).compare("eq", 0).convert(I32)  # 0 or 1
    if rounding == "nearest_even":
        nearest = (upper + half).shift_right(rest)
        is_half = upper.logical_and(half + half - 1).compare("eq", half).convert(I32)
        return nearest - nearest.logical_and(is_whole).logical_and(is_half)
    # Below zero by the least that there is: ties go down, and what is whole does not go up.
    sign = x.shift_right(I32.width.data - 1)
    lowered = upper - sign.logical_and(is_whole)
    if rounding == "to_zero":
        return lowered.shift_right(rest) - sign
    return (lowered + half).shift_right(rest)


def _rounded(x: Scalar, rounding: Rounding) -> Scalar:
    """As `requantization.rounded_float`."""
    if rounding == "nearest_even":
        return x.unary(math.RoundEvenOp)
    if rounding == "down":
        return x.unary(math.FloorOp)
    if rounding == "to_zero":
        return x.unary(math.TruncOp)
    is_symmetric = rounding == "nearest_away_from_zero"
    magnitude = x.unary(math.AbsFOp) if is_symmetric else x
    below = magnitude.unary(math.FloorOp)
    whole = (magnitude - below).compare("ge", 0.5).select(below + 1.0, below)
    return whole.copy_sign(x) if is_symmetric else whole


def _shifted(x: Scalar, shift: Scalar, rounding: Rounding) -> Scalar:
    """As `requantization.rounding_shift`: what is shifted out is compared with one half."""
    floor = x.shift_right(shift)
    if rounding == "down":
        return floor
    unit = x.constant(1).shift_left(shift)
    rest = x.logical_and(unit - 1)
    if rounding == "to_zero":
        grows = x.compare("lt", 0).logical_and(rest.compare("gt", 0))
        return grows.select(floor + 1, floor)
    twice = rest + rest
    if rounding == "nearest_up":
        grows = twice.compare("ge", unit)
    else:
        if rounding == "nearest_even":
            goes_up = floor.logical_and(x.constant(1)).compare("ne", 0)
        else:
            goes_up = x.compare("ge", 0)
        is_tie = twice.compare("eq", unit).logical_and(goes_up)
        grows = twice.compare("gt", unit).logical_or(is_tie)
    return grows.select(floor + 1, floor)


__all__ = [
    "F32",
    "I32",
    "Tables",
    "centered",
    "centered_scalar",
    "fixed_point_scalar",
    "fixed_point_tables",
    "parameter_tables",
    "real_array",
    "real_scalar",
    "requantization_tables",
    "requantized_array",
    "requantized_scalar",
    "scaled_scalar",
    "single_limits",
    "stored_array",
    "stored_scalar",
    "table_reads",
    "to_storage",
    "zero_table",
]
