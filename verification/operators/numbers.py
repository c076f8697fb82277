"""Arrays that break things: the ends of a type, zeros of both signs, infinities, NaN, ties.

    hostile(random, "float16", (3, 4), "special")

The numbers are those of hard inputs (`explorer/accuracy/hard_inputs/values.py`), drawn from a seed.
One array has numbers of one kind, so that a tolerance relative to the largest hides no small ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import ml_dtypes
import numpy as np

from explorer.accuracy.hard_inputs.values import ONES, SPECIAL, ZEROS, end_numbers

FLOAT_KINDS = ("normal", "special", "ends", "large", "tiny", "ties", "zeros")
INTEGER_KINDS = ("whole", "ends", "small", "zeros")
STRINGS = ("", "a", "A", "b", " ab", "été", "ß", "0", "-1", "x" * 9)


def kinds(dtype: str) -> tuple[str, ...]:
    """The kinds of arrays that a type has."""
    if dtype == "string" or dtype == "bool" or dtype.startswith("complex"):
        return ("normal",)
    return FLOAT_KINDS if is_float(dtype) else INTEGER_KINDS


def is_float(dtype: str) -> bool:
    return "float" in dtype


def hostile(random: np.random.Generator, dtype: str, shape: Sequence[int], kind: str) -> np.ndarray:
    """An array of the kind (`kinds`). Types of ml_dtypes are rounded by it."""
    if dtype == "string":
        return np.asarray(random.choice(np.array(STRINGS, object), shape), object)
    if dtype == "bool":
        return np.asarray(random.integers(0, 2, shape)).astype(bool)
    if dtype.startswith("complex"):
        parts = random.standard_normal((2, *shape))
        return np.asarray(parts[0] + 1j * parts[1]).astype(dtype)
    if is_float(dtype):
        return _floats(random, np.dtype(dtype), shape, kind)
    return _integers(random, np.dtype(dtype), shape, kind)


def _floats(
    random: np.random.Generator, dtype: np.dtype, shape: Sequence[int], kind: str
) -> np.ndarray:
    limits = ml_dtypes.finfo(dtype)
    least, most = float(limits.smallest_normal), float(limits.max)
    normal = np.asarray(random.standard_normal(shape)) * 2
    match kind:
        case "special":
            few = random.choice(SPECIAL, shape)
            wide = np.where(random.random(shape) < 0.3, few, normal)
        case "ends":
            wide = random.choice([most, -most, least, -least, *ONES], shape)
        case "large":
            wide = normal * most**0.45  # some squares can be added up
        case "tiny":
            wide = normal * least
        case "ties":
            wide = random.integers(-9, 10, shape) + random.choice([0.0, 0.5, -0.5], shape)
        case "zeros":
            wide = random.choice(ZEROS, shape)
        case _:
            wide = normal
    with np.errstate(all="ignore"):
        return np.asarray(wide).astype(dtype)


def _integers(
    random: np.random.Generator, dtype: np.dtype, shape: Sequence[int], kind: str
) -> np.ndarray:
    limits = ml_dtypes.iinfo(dtype)
    low, high = int(limits.min), int(limits.max)
    match kind:
        case "ends":
            few = end_numbers(dtype)
            array = np.array(few, _wide(low))[random.integers(0, len(few), shape)]
        case "small":
            array = random.integers(max(low, -7), min(high, 7) + 1, shape)
        case "zeros":
            array = np.zeros(shape, np.int64)
        case _:
            array = random.integers(low, high, shape, _wide(low), endpoint=True)
    return np.asarray(array).astype(dtype)


def _wide(low: int) -> type[np.integer]:
    return np.int64 if low else np.uint64
