"""Where a tensor's values and errors lie: histograms, special values and the worst elements.

tensor_detail(actual, expected)  ->  TensorDetail

values    40 equal bins over the range of both, so that two histograms can be laid over another
errors    |a - b| / max(max|b|, 1e-6), four bins a decade from 1e-10 to 10; equal elements
          stand in none of them and are counted on their own
worst     the 8 elements with the largest differences, of equal ones the first
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from explorer.accuracy.metrics import SMALLEST_SCALE
from explorer.results import TensorDetail, WorstElement

Floats = NDArray[np.float64]
Locate = Callable[[int], tuple[int, ...]]
"""From the place of an element in a flattened tensor to its position in the source tensor."""

VALUE_BINS = 40
SMALLEST_DECADE, LARGEST_DECADE = -10, 1
BINS_PER_DECADE = 4
ERROR_BINS = (LARGEST_DECADE - SMALLEST_DECADE) * BINS_PER_DECADE
MAX_WORST = 8
BLOCK = 1 << 16


def tensor_detail(
    actual: np.ndarray, expected: np.ndarray, locate: Locate | None = None
) -> TensorDetail | None:
    """The detail of one tensor; None where the shapes differ, for then nothing corresponds.

    `locate` says where an element stands in the source tensor; by default at its own position.
    """
    if actual.shape != expected.shape:
        return None
    a, b = (np.asarray(x, dtype=np.float64).reshape(-1) for x in (actual, expected))
    difference = differences(actual.reshape(-1), expected.reshape(-1), a, b)
    finite_a, finite_b = finite_part(a), finite_part(b)
    low, high = value_range(finite_a, finite_b)
    scale = max(float(np.max(np.abs(finite_b), initial=0.0)), SMALLEST_SCALE)
    where = locate or (lambda place: position(place, actual.shape))
    return TensorDetail(
        shape=actual.shape,
        element_type=expected.dtype.name,
        low=low,
        high=high,
        expected_counts=value_counts(finite_b, low, high),
        value_counts=value_counts(finite_a, low, high),
        error_counts=error_counts(difference, scale),
        equal=difference.size - int(np.count_nonzero(difference)),
        expected_special=special_counts(b) if finite_b.size < b.size else (0, 0, 0),
        value_special=special_counts(a) if finite_a.size < a.size else (0, 0, 0),
        worst=tuple(
            WorstElement(where(place), float(a[place]), float(b[place]), float(difference[place]))
            for place in worst_places(difference)
        ),
    )


def finite_part(values: Floats) -> Floats:
    """The finite elements: the array itself where all are."""
    is_finite = np.isfinite(values)
    return values if is_finite.all() else values[is_finite]


def differences(actual: np.ndarray, expected: np.ndarray, a: Floats, b: Floats) -> Floats:
    """|a - b|; 0 where both are the same NaN or infinity, infinite where only one is special.

    `a` and `b` are the flat tensors as float64, which does not hold every int64: integers that
    only differ beyond it count as 1 apart.
    """
    if actual.dtype.kind == expected.dtype.kind == "f":
        with np.errstate(over="ignore", invalid="ignore"):
            difference = np.abs(a - b)
        if np.isfinite(difference).all():
            return difference
    differs = (actual != expected) & ~(np.isnan(a) & np.isnan(b))
    difference = np.zeros(a.shape)
    both = np.isfinite(a) & np.isfinite(b)
    with np.errstate(over="ignore"):  # two finite numbers may be further apart than the largest
        np.subtract(a, b, out=difference, where=differs & both)
    np.abs(difference, out=difference)
    if expected.dtype.kind in "iub":
        difference[differs & (difference == 0)] = 1.0
    difference[differs & ~both] = np.inf
    return difference


def value_range(actual: Floats, expected: Floats) -> tuple[float, float]:
    """The least and the greatest of both; around a single value a range that holds it."""
    parts = [part for part in (actual, expected) if part.size]
    if not parts:
        return 0.0, 0.0
    low, high = min(float(p.min()) for p in parts), max(float(p.max()) for p in parts)
    if low == high:
        spread = max(abs(low) / 2, 0.5)
        return max(low - spread, -np.finfo(float).max), min(high + spread, np.finfo(float).max)
    return low, high


def value_counts(values: Floats, low: float, high: float) -> tuple[int, ...]:
    """How many values are in each of `VALUE_BINS` equal bins; all of them are in the range."""
    counts = np.zeros(VALUE_BINS, dtype=np.int64)
    # The width of a range may be more than the largest number, or too small to divide by.
    with np.errstate(over="ignore", divide="ignore"):
        per_unit = VALUE_BINS / np.float64(high - low)
    for part in blocks(values):
        if 0 < per_unit < np.inf:
            places = (part - low) * per_unit
        else:
            places = (part / 2 - low / 2) / (high / 2 - low / 2) * VALUE_BINS
        bins = np.minimum(places.astype(np.intp), VALUE_BINS - 1)
        counts += np.bincount(bins, minlength=VALUE_BINS)
    return tuple(counts.tolist())


def error_counts(difference: Floats, scale: float) -> tuple[int, ...]:
    """How many elements are in each bin of errors, relative to `scale`; equal ones in none."""
    counts = np.zeros(ERROR_BINS, dtype=np.int64)
    per_bin = np.float32(BINS_PER_DECADE / np.log(10))
    for part in blocks(difference):
        ratios = part[part > 0] / scale
        # float32 is three times as fast; what is too small or large for it is in an end bin.
        with np.errstate(divide="ignore", over="ignore", under="ignore"):
            places = np.log(ratios.astype(np.float32)) * per_bin
        bins = np.floor(places - SMALLEST_DECADE * BINS_PER_DECADE)
        bins = np.clip(bins, 0, ERROR_BINS - 1).astype(np.intp)
        counts += np.bincount(bins, minlength=ERROR_BINS)
    return tuple(counts.tolist())


def blocks(values: Floats) -> list[Floats]:
    """The array in parts that stay in the processor's cache from one step to the next."""
    return [values[start : start + BLOCK] for start in range(0, values.size, BLOCK)]


def special_counts(values: Floats) -> tuple[int, int, int]:
    """How many are NaN, infinity and minus infinity."""
    return (
        int(np.count_nonzero(np.isnan(values))),
        int(np.count_nonzero(np.isposinf(values))),
        int(np.count_nonzero(np.isneginf(values))),
    )


def worst_places(difference: Floats) -> list[int]:
    """Places of the largest differences, the largest first, of equal ones the first."""
    count = min(MAX_WORST, int(np.count_nonzero(difference)))
    if not count:
        return []
    smallest = least_of_largest(difference, count)
    larger = np.flatnonzero(difference > smallest)
    chosen = np.concatenate([larger, np.flatnonzero(difference == smallest)[: count - len(larger)]])
    return chosen[np.lexsort((chosen, -difference[chosen]))].tolist()


def least_of_largest(values: Floats, count: int) -> float:
    """The least of the `count` largest values.

    The largest of each of many rows are looked at first: no value that is less than the
    `count`-th of them can be among the largest.
    """
    width = 512
    even = values[: values.size // width * width].reshape(-1, width)
    if len(even) < count:
        return float(np.partition(values, -count)[-count])
    bound = np.partition(even.max(axis=1), -count)[-count]
    return float(np.partition(values[values >= bound], -count)[-count])


def position(place: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The position of the element that stands at a place of the flattened tensor."""
    return tuple(int(i) for i in np.unravel_index(place, shape))
