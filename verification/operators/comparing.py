"""Whether two results are the same: shapes, types, and every element.

    same([array], [array], "float16")       "" or what is not the same

Integers, booleans and strings are equal. Floats are equal up to a few units in the last place of
the largest finite number around them, NaN and infinities stand at the same places. The kinds of
numbers (`numbers.py`) keep the numbers of one array at one magnitude.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any  # Any: a value is a tensor, a list of tensors, or None

import ml_dtypes
import numpy as np

STEPS = 64
"""Units in the last place of the largest number: sums in another order, and functions as `exp`."""
COARSEST_STEPS = 2
"""The same for types of two bytes and fewer, which round once from float32."""


def same(found: Sequence[Any], right: Sequence[Any], dtype: str) -> str:
    """What is not the same in lists of results; "" where nothing is. `dtype`: the coarsest floating
    type that the results went through."""
    if len(found) != len(right):
        return f"{len(found)} results instead of {len(right)}"
    for number, (a, b) in enumerate(zip(found, right, strict=True)):
        problem = _value(a, b, dtype)
        if problem:
            return f"result {number}: {problem}" if len(right) > 1 else problem
    return ""


def _value(a: Any, b: Any, dtype: str) -> str:
    if a is None or b is None:
        return "" if a is b else "one of both is nothing"
    if isinstance(a, list | tuple) or isinstance(b, list | tuple):
        if not (isinstance(a, list | tuple) and isinstance(b, list | tuple)):
            return "a sequence and a tensor"
        return same(a, b, dtype)
    if isinstance(b, dict):
        return "" if a == b else "another mapping"
    return _tensor(np.asarray(a), np.asarray(b), dtype)


def _tensor(a: np.ndarray, b: np.ndarray, dtype: str) -> str:
    if a.shape != b.shape:
        return f"shape {a.shape} instead of {b.shape}"
    is_text = a.dtype.kind in "OUT" or b.dtype.kind in "OUT"
    if a.dtype != b.dtype and not is_text:
        return f"{a.dtype} instead of {b.dtype}"
    return _first(a, b, differing(a, b, dtype))


def differing(a: np.ndarray, b: np.ndarray, dtype: str) -> np.ndarray:
    """Which elements of two arrays of one shape and type are not the same."""
    if a.dtype.kind in "OUT" or b.dtype.kind in "OUT":
        return np.asarray(a.astype(object) != b.astype(object), bool)
    return _floats(a, b, dtype) if "float" in b.dtype.name else np.asarray(a != b)


def _floats(a: np.ndarray, b: np.ndarray, dtype: str) -> np.ndarray:
    wide, exact = a.astype(np.float64), b.astype(np.float64)
    finite = np.isfinite(exact)
    with np.errstate(all="ignore"):
        differs = ~((wide == exact) | (np.isnan(wide) & np.isnan(exact)))
        scale = np.max(np.abs(exact), initial=0.0, where=finite)
        # Numbers below the normal ones have few digits.
        least = STEPS * float(ml_dtypes.finfo(b.dtype).smallest_subnormal)
        near = np.abs(wide - exact) <= tolerance(dtype, b.dtype) * scale + least
        near |= _may_overflow(wide, exact, dtype, b.dtype)
    return differs & ~(finite & near)


def _may_overflow(wide: np.ndarray, exact: np.ndarray, dtype: str, found: np.dtype) -> np.ndarray:
    """Infinities in place of numbers as near to the end of the type as the tolerance is."""
    narrow = np.dtype(dtype) if "float" in dtype else found
    end = min(float(ml_dtypes.finfo(t).max) for t in (narrow, found))
    is_end = np.abs(exact) >= end * (1 - tolerance(dtype, found))
    return np.isinf(wide) & is_end & (np.sign(wide) == np.sign(exact))


def tolerance(dtype: str, found: np.dtype) -> float:
    """Relative to the largest number: of the coarser of both types."""
    types = [found] if "float" not in dtype else [found, np.dtype(dtype)]
    steps = [float(ml_dtypes.finfo(t).eps) * (STEPS, COARSEST_STEPS)[t.itemsize < 4] for t in types]
    return max(steps)


def _first(a: np.ndarray, b: np.ndarray, differs: np.ndarray) -> str:
    count = int(np.sum(differs))
    if not count:
        return ""
    place = tuple(int(i) for i in np.argwhere(differs)[0]) if differs.ndim else ()
    where = f" at {list(place)}" if place else ""
    return f"{a[place]!s} instead of {b[place]!s}{where}, {count} of {differs.size} elements"
