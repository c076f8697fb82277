"""What an entry of the table of disagreements holds for: inputs of a kind, differences of a kind.

    given = "NaN"            an input holds NaN
    only = "NaN"             every element that differs is NaN in one of both results

An entry without them explains any difference of its operators and types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any  # Any: a value is a tensor, a list of tensors, or None

import ml_dtypes
import numpy as np

from verification.operators.comparing import differing

Holds = Callable[[Sequence[np.ndarray]], bool]
Explains = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Of elements in float64, ours and a judge's."""
NEAR_THE_END = 2.0**-20
"""Of a type's largest number: sums of products of such numbers overflow."""
NEAR_ZERO = 16
"""Times the smallest normal number."""


def is_given(name: str, inputs: Mapping[str, Any]) -> bool:
    """Whether inputs are of the kind that an entry names."""
    return not name or GIVEN[name](list(_arrays(list(inputs.values()))))


def is_explained(
    names: Sequence[str], found: Sequence[Any], right: Sequence[Any], dtype: str
) -> bool:
    """Whether all that differs between two lists of results is of the kinds that entries name, each
    element of one of them."""
    if "" in names:
        return True
    pairs = list(zip(_arrays(found), _arrays(right), strict=False))
    if any(a.dtype == object for pair in pairs for a in pair):
        return False
    if len(found) != len(right) or any(a.shape != b.shape or a.dtype != b.dtype for a, b in pairs):
        return False
    kinds = [ONLY[name] for name in names]
    return bool(kinds) and all(_is_explained(kinds, a, b, dtype) for a, b in pairs)


def _is_explained(kinds: Sequence[Explains], a: np.ndarray, b: np.ndarray, dtype: str) -> bool:
    differs = differing(a, b, dtype)
    if not differs.any():
        return True
    with np.errstate(all="ignore"):
        return bool(np.any([kind(a, b) for kind in kinds], axis=0)[differs].all())


def _arrays(values: Sequence[Any]) -> Iterator[np.ndarray]:
    for value in values:
        if isinstance(value, list | tuple):
            yield from _arrays(value)
        elif value is not None:
            yield np.asarray(value)


def _floats(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    return [a for a in arrays if "float" in a.dtype.name]


def _wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64)


def _has_nan(arrays: Sequence[np.ndarray]) -> bool:
    return any(np.isnan(_wide(a)).any() for a in _floats(arrays))


def _has_special(arrays: Sequence[np.ndarray]) -> bool:
    return any(not np.isfinite(_wide(a)).all() for a in _floats(arrays))


def _has_ends(arrays: Sequence[np.ndarray]) -> bool:
    """Numbers near an end of their type, or no finite ones."""
    return any(
        bool((np.abs(_wide(a)) >= NEAR_THE_END * float(ml_dtypes.finfo(a.dtype).max)).any())
        for a in _floats(arrays)
    ) or _has_special(arrays)


def _has_large(arrays: Sequence[np.ndarray]) -> bool:
    """Numbers whose squares, with their sum, may overflow, or no finite ones."""
    return any(
        bool((np.abs(_wide(a)) >= float(ml_dtypes.finfo(a.dtype).max) ** 0.4).any())
        for a in _floats(arrays)
    ) or _has_special(arrays)


def _has_whole_ends(arrays: Sequence[np.ndarray]) -> bool:
    """Whole numbers of which sums and powers leave their type."""
    whole = [a for a in arrays if a.dtype.kind in "iu" and a.dtype.itemsize >= 4]
    return any(bool((np.abs(_wide(a)) >= float(np.iinfo(a.dtype).max) / 4).any()) for a in whole)


def _has_sums_beyond(arrays: Sequence[np.ndarray], power: int) -> bool:
    """Whole numbers of which a sum of powers may leave their type."""
    return any(
        float(np.max(np.abs(_wide(a)), initial=0)) ** power * a.size > float(np.iinfo(a.dtype).max)
        for a in arrays
        if a.dtype.kind in "iu"
    )


def _has_equal(arrays: Sequence[np.ndarray]) -> bool:
    return any(np.unique(a).size < a.size for a in arrays if a.dtype.kind != "O")


def _has_beyond_a_byte(arrays: Sequence[np.ndarray]) -> bool:
    return any(bool((~(_wide(a) >= 0) | (_wide(a) >= 128)).any()) for a in _floats(arrays))


def _has_beyond_float32(arrays: Sequence[np.ndarray]) -> bool:
    limit = float(np.finfo(np.float32).max)
    return any(bool((np.abs(_wide(a)) > limit).any()) for a in _floats(arrays))


def _has_wide_shift(arrays: Sequence[np.ndarray]) -> bool:
    shifts = arrays[-1]
    return bool(((shifts < 0) | (shifts >= 8 * shifts.dtype.itemsize)).any())


GIVEN: Mapping[str, Holds] = {
    "NaN": _has_nan,
    "not finite": _has_special,
    "ends": _has_ends,
    "large": _has_large,
    "whole ends": _has_whole_ends,
    "sums beyond the type": lambda arrays: _has_sums_beyond(arrays, 1),
    "squares beyond the type": lambda arrays: _has_sums_beyond(arrays, 2),
    "equal numbers": _has_equal,
    "several float types": lambda arrays: len({a.dtype for a in _floats(arrays)}) > 1,
    "one column": lambda arrays: any(a.ndim > 1 and a.shape[-1] == 1 for a in arrays),
    "nothing": lambda arrays: any(a.size == 0 and a.dtype.kind == "f" for a in arrays),
    "beyond a byte": _has_beyond_a_byte,
    "beyond float32": _has_beyond_float32,
    "negative numbers": lambda arrays: any(bool((_wide(a) < 0).any()) for a in _floats(arrays)),
    "shifts by no bit of the type": _has_wide_shift,
}


def _smallest(dtype: np.dtype) -> float:
    return float(ml_dtypes.finfo(dtype).smallest_normal) if "float" in dtype.name else 0.0


def _largest(array: np.ndarray) -> float:
    wide = np.abs(_wide(array))
    return float(np.max(wide, initial=0.0, where=np.isfinite(wide)))


def _is_bound(a: np.ndarray) -> np.ndarray:
    if "float" in a.dtype.name:
        return np.abs(_wide(a)) == float(ml_dtypes.finfo(a.dtype).max)
    limits = ml_dtypes.iinfo(a.dtype)
    if a.dtype.itemsize == 8:  # the last one that float64 has
        return (a == limits.min) | (a >= limits.max - 2047)
    return (a == limits.min) | (a == limits.max)


_EPS32, _EPS64 = (float(np.finfo(t).eps) for t in (np.float32, np.float64))
_SMALLEST32 = float(np.finfo(np.float32).smallest_normal)
ONLY: Mapping[str, Explains] = {
    "NaN": lambda a, b: np.isnan(_wide(a)) | np.isnan(_wide(b)),
    "not finite": lambda a, b: ~np.isfinite(_wide(a)) | ~np.isfinite(_wide(b)),
    "the judge is not finite": lambda _, b: ~np.isfinite(_wide(b)),
    "the judge is a bound of an activation": lambda _, b: np.isin(_wide(b), [-1, 0, 1, 6]),
    "near zero": lambda a, b: np.abs(_wide(a) - _wide(b)) <= NEAR_ZERO * _smallest(b.dtype),
    "below float32": lambda a, b: np.abs(_wide(a) - _wide(b)) <= _SMALLEST32,
    "one step": lambda a, b: np.abs(_wide(a) - _wide(b)) <= 1,
    "numbers of 4 bits": lambda a, b: (np.abs(_wide(a)) <= 16) & (np.abs(_wide(b)) <= 16),
    "roundings of 1": lambda a, b: np.abs(_wide(a) - _wide(b)) <= 2 * _EPS32,
    "as float32 near 1": lambda a, b: np.abs(_wide(a) - _wide(b)) <= 64 * _EPS32,
    "as float32": lambda a, b: np.abs(_wide(a) - _wide(b)) <= 64 * _EPS32 * _largest(b),
    "a thousand roundings": lambda a, b: (
        np.abs(_wide(a) - _wide(b)) <= 1024 * float(ml_dtypes.finfo(b.dtype).eps) * _largest(b)
    ),
    "beyond nine digits": lambda a, b: np.abs(_wide(a) - _wide(b)) <= 1e-9 * _largest(b),
    "eleven digits of 1": lambda a, b: np.abs(_wide(a) - _wide(b)) <= 1e-11 * (1 + _largest(b)),
    "a place": lambda a, b: np.full(a.shape, a.dtype == np.int64),
    "as float32 and one step": lambda a, b: (
        np.abs(_wide(a) - _wide(b)) <= 64 * _EPS32 * _largest(b) + 1
    ),
    "as float64": lambda a, b: np.abs(_wide(a) - _wide(b)) <= 64 * _EPS64 * _largest(b) + 1,
    "ours is an end": lambda a, _: _is_bound(a),
    "ours is an end of few bits": lambda a, _: np.isin(_wide(a), [-8, -2, 0, 1, 3, 7, 15]),
    "beyond the range": lambda a, b: (
        ~np.isfinite(_wide(a)) | ~np.isfinite(_wide(b)) | _is_bound(a) | _is_bound(b)
    ),
}
