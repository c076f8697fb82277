"""Arrays of numbers that break kernels, by element type and shape.

    infinities(np.float32, (2, 3), operand=1)       inf, -inf, 1, -1, 0, -0 in another order
    planted(x, [np.nan])                            x with one NaN in the middle

`crossed` arranges numbers so that operands of one shape meet in all pairs: element i of operand k
takes number (i // n^k) mod n of the n numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

import ml_dtypes
import numpy as np

from explorer.ir.types import is_float_dtype

Shape = Sequence[int]
ZEROS, ONES, INFINITIES = (0.0, -0.0), (1.0, -1.0), (np.inf, -np.inf)
SPECIAL = (*ZEROS, *INFINITIES, np.nan, *ONES)
"""Numbers that functions treat by themselves, and ones to meet them."""
SMALL_STEPS = 8.0
"""Steps of the float type at an offset by which numbers there differ."""


def crossed(numbers: np.ndarray, shape: Shape, operand: int = 0) -> np.ndarray:
    """The numbers in the shape; operands 0, 1, 2, ... of one shape meet in all combinations."""
    places = np.arange(int(np.prod(shape, dtype=np.int64)))
    return numbers[(places // len(numbers) ** operand) % len(numbers)].reshape(shape)


def planted(base: np.ndarray, numbers: Sequence[float]) -> np.ndarray:
    """The base with the numbers at places that are spread evenly; as many as there is room for."""
    array = np.array(base)
    count = min(len(numbers), array.size)
    places = (np.arange(count) * 2 + 1) * array.size // (2 * max(count, 1))
    array.reshape(-1)[places] = np.asarray(numbers[:count]).astype(array.dtype)
    return array


def zeros(dtype: np.dtype, shape: Shape) -> np.ndarray:
    return np.zeros(shape, dtype)


def end_numbers(dtype: np.dtype) -> list[int]:
    """Both ends of an integer type with their neighbours, 0, 1 and -1, where the type has it."""
    limits = ml_dtypes.iinfo(dtype)
    low, high = int(limits.min), int(limits.max)
    return [low, low + 1, high - 1, high, 0, 1, *([-1] if low else [])]


def integer_ends(dtype: np.dtype, shape: Shape, operand: int = 0) -> np.ndarray:
    """Both ends of an integer type with their neighbours, 0, 1 and -1; true and false."""
    if np.dtype(dtype).kind == "b":
        return crossed(np.array([True, False]), shape, operand)
    found = list(dict.fromkeys(end_numbers(dtype)))
    return crossed(np.array(found, dtype=object).astype(dtype), shape, operand)


def divisors(dtype: np.dtype, shape: Shape, operand: int = 0) -> np.ndarray:
    """Ends of an integer type without 0 and -1, by which division is not defined."""
    limits = ml_dtypes.iinfo(dtype)
    low, high = int(limits.min), int(limits.max)
    found = [n for n in dict.fromkeys([low, high, 1, 2, 3, max(-3, low)]) if n not in (0, -1)]
    return crossed(np.array(found, dtype=object).astype(dtype), shape, operand)


def every_byte(dtype: np.dtype, shape: Shape, operand: int = 0, turn: int = 0) -> np.ndarray:
    """All 256 numbers of a type of 8 bits; `turn` counts arrays which together have all pairs."""
    low = int(ml_dtypes.iinfo(dtype).min)
    first = turn * int(np.prod(shape, dtype=np.int64))
    places = np.arange(first, first + int(np.prod(shape, dtype=np.int64)))
    return ((places // 256**operand) % 256 + low).astype(dtype).reshape(shape)


def signed_zeros(dtype: np.dtype, shape: Shape, operand: int = 0) -> np.ndarray:
    return crossed(np.array([*ZEROS, *ONES]).astype(dtype), shape, operand)


def infinities(dtype: np.dtype, shape: Shape, operand: int = 0) -> np.ndarray:
    numbers = np.array([*INFINITIES, *ONES, *ZEROS])
    return crossed(numbers.astype(dtype), shape, operand)


def not_numbers(dtype: np.dtype, shape: Shape, operand: int = 0) -> np.ndarray:
    return crossed(np.array([np.nan, *ONES]).astype(dtype), shape, operand)


def denormals(dtype: np.dtype, shape: Shape, operand: int = 0) -> np.ndarray:
    """Numbers below the least normal one, that one, and 1."""
    limits = ml_dtypes.finfo(dtype)
    least = float(limits.smallest_subnormal)
    numbers = [least, -least, 3 * least, float(limits.tiny) / 2, float(limits.tiny), 1.0]
    return crossed(np.array(numbers).astype(dtype), shape, operand)


def largest(dtype: np.dtype, shape: Shape, operand: int = 0) -> np.ndarray:
    """Both ends of a float type, their halves and roots, and numbers of moderate size."""
    high = float(ml_dtypes.finfo(dtype).max)
    numbers = [high, -high, high / 2, np.sqrt(high), -np.sqrt(high), 1.0, 88.0, -104.0]
    return crossed(np.array(numbers).astype(dtype), shape, operand)


def scaled_up(base: np.ndarray) -> np.ndarray:
    """The base times a power of two, so large that sums of some products are still finite."""
    exponent = int(np.log2(float(ml_dtypes.finfo(base.dtype).max)) // 3.2)
    return (base.astype(np.float64) * 2.0 ** min(exponent, 40)).astype(base.dtype)


def offsets(base: np.ndarray, offset: float) -> np.ndarray:
    """The base at an offset; it is scaled so that numbers differ by some steps of the type."""
    step = float(ml_dtypes.finfo(base.dtype).eps) * offset
    spread = base.astype(np.float64) * max(1.0, SMALL_STEPS * step)
    return (spread + offset).astype(base.dtype)


def with_equal_maxima(base: np.ndarray) -> np.ndarray:
    """The base without what is above its median: half of the numbers are the maximum."""
    wide = base.astype(np.float64)
    return np.minimum(wide, np.median(wide) if wide.size else 0.0).astype(base.dtype)


def masked_rows(base: np.ndarray) -> np.ndarray:
    """Rows along the last axis: nothing but -inf, all but one -inf, the least number, the base."""
    rows = np.array(base).reshape(-1, base.shape[-1] if base.ndim else 1)
    rows[0::4] = -np.inf
    rows[1::4, 1:] = -np.inf
    rows[2::4] = float(ml_dtypes.finfo(base.dtype).min)
    return rows.reshape(base.shape)


def mask_of_nothing(dtype: np.dtype, shape: Shape) -> np.ndarray:
    """A mask that hides everything: false, 0 or -inf."""
    return np.full(shape, -np.inf if is_float_dtype(np.dtype(dtype)) else 0).astype(dtype)


def ties(dtype: np.dtype, shape: Shape) -> np.ndarray:
    """Equal numbers: the first half all 1, the other half 1, 2, 2, 1, 0 again and again."""
    array = crossed(np.array([1, 2, 2, 1, 0]).astype(dtype), shape)
    flat = array.reshape(-1)
    flat[: flat.size // 2] = np.asarray(1).astype(dtype)
    return array


def index_ends(dtype: np.dtype, shape: Shape, extent: int) -> np.ndarray:
    """The first and the last index of an axis of `extent` elements, from either end."""
    numbers = [0, extent - 1] if np.dtype(dtype).kind == "u" else [0, extent - 1, -extent, -1]
    return crossed(np.array(numbers).astype(dtype), shape)
