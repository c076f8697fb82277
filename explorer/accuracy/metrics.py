"""How far a tensor is from what it should be: one definition of every error metric.

    max_relative = max|a - b| / max(max|b|, 1e-6)     b is the reference
    SQNR         = 10 log10(sum b^2 / sum (a - b)^2)  in dB, infinity when equal
    cosine       = a.b / (|a| |b|)                    1 when both are zero

Integers and booleans must be equal; NaN and infinities must stand at equal positions.

A tensor is right when its `max_relative` is within the tolerance. Where it is not, the oracle may
be the one that is off: then both are measured against float64, and the tensor is right when it is
as near to the exact result as the oracle is (`with_exact`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from explorer.results import TensorError
from explorer.results.accuracy import AS_EXACT

SMALLEST_SCALE = 1e-6


def is_right(error: TensorError, tolerance: float) -> bool:
    """Equal to the oracle up to the tolerance, or as exact as can be had (`with_exact`)."""
    return error.max_relative <= tolerance or error.as_exact


def with_exact(
    error: TensorError, from_exact: float, reachable: float, tolerance: float
) -> TensorError:
    """An error beyond the tolerance, judged by the distances from float64 of ours and of others.

        |ours - exact|  <= max(tolerance, 2 reachable)         all of them max_relative

    That holds for half precision, for cancellations, and for functions that the oracle
    approximates. What is within the tolerance needs no other excuse: the oracle may be NaN.
    """
    limit = max(tolerance, AS_EXACT * reachable)
    as_exact = from_exact <= (limit if math.isfinite(limit) else tolerance)
    return replace(error, from_exact=from_exact, reachable=reachable, as_exact=as_exact)


def tensor_error(
    tensor: str, operation: str, actual: np.ndarray, expected: np.ndarray
) -> TensorError:
    """Compares one tensor with the reference; another shape is an infinite error."""
    if actual.shape != expected.shape:
        return TensorError(
            tensor=tensor,
            operation=operation,
            max_absolute=np.inf,
            max_relative=np.inf,
            cosine=0.0,
            sqnr_db=-np.inf,
        )
    # Compared as they are: float64 does not hold every int64.
    must_be_equal = expected.dtype.kind in "iub"
    if expected.size == 0:
        return TensorError(
            tensor=tensor,
            operation=operation,
            max_absolute=0.0,
            max_relative=0.0,
            cosine=1.0,
            sqnr_db=np.inf,
            bit_by_bit=must_be_equal,
        )
    a, b = actual.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(b)
    same_special = np.array_equal(np.isnan(a), np.isnan(b)) and np.array_equal(
        a[~finite & ~np.isnan(b)], b[~finite & ~np.isnan(b)]
    )
    difference = np.where(finite, np.abs(np.where(finite, a, 0) - np.where(finite, b, 0)), 0.0)
    difference = np.where(np.isfinite(difference), difference, np.inf)
    worst = np.unravel_index(int(np.argmax(difference)), difference.shape)
    largest = float(difference[worst])
    scale = max(float(np.max(np.abs(b[finite]), initial=0.0)), SMALLEST_SCALE)
    relative = largest / scale
    if not same_special or (must_be_equal and not np.array_equal(actual, expected)):
        relative = np.inf
    a, b = np.where(finite, a, 0).ravel(), np.where(finite, b, 0).ravel()
    return TensorError(
        tensor=tensor,
        operation=operation,
        max_absolute=largest,
        max_relative=relative,
        cosine=_cosine(a, b),
        sqnr_db=_sqnr_db(a, b),
        worst_index=tuple(int(i) for i in worst),
        worst_value=float(actual[worst]),
        expected_value=float(expected[worst]),
        bit_by_bit=must_be_equal,
    )


def noise_to_signal(actual: Sequence[np.ndarray], exact: Sequence[np.ndarray]) -> float:
    """sum (a - b)^2 / sum b^2 of each output, and the mean of them."""
    ratios = []
    for a, b in zip(actual, exact, strict=True):
        if b.dtype.kind != "f":
            continue
        wide = b.astype(np.float64)
        difference = a.astype(np.float64) - wide
        ratios.append(_dot(difference, difference) / max(_dot(wide, wide), 1e-300))
    return float(np.mean(ratios)) if ratios else 0.0


def decibels(ratio: float) -> float:
    """Signal to noise in dB, of noise to signal."""
    return float("inf") if ratio <= 0 else float(-10 * np.log10(ratio))


def _cosine(a: np.ndarray, b: np.ndarray) -> float:
    with np.errstate(invalid="ignore"):  # infinity times zero: not finite, as below
        norms = float(np.sqrt(_dot(a, a)) * np.sqrt(_dot(b, b)))
    if norms == 0.0 or not np.isfinite(norms):
        return 1.0 if np.array_equal(a, b) else 0.0
    return float(_dot(a, b) / norms)


def _dot(a: np.ndarray, b: np.ndarray) -> float:
    """Summed pairwise by NumPy: as exact as BLAS, and without its threads for short vectors."""
    return float(np.sum(a * b))


def _sqnr_db(a: np.ndarray, b: np.ndarray) -> float:
    noise = float(np.sum((a - b) ** 2))
    signal = float(np.sum(b**2))
    if noise == 0.0:
        return float("inf")
    if signal == 0.0 or not np.isfinite(noise):
        return float("-inf")
    return float(10 * np.log10(signal / noise))
