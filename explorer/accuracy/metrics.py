"""How far a tensor is from what it should be: one definition of every error metric.

    max_relative = max|a - b| / max(max|b|, 1e-6)     b is the reference
    SQNR         = 10 log10(sum b^2 / sum (a - b)^2)  in dB, infinity when equal
    cosine       = a.b / (|a| |b|)                    1 when both are zero

Integers and booleans must be equal; NaN and infinities must stand at equal positions.
"""

from __future__ import annotations

import numpy as np

from explorer.results import TensorError

SMALLEST_SCALE = 1e-6


def tensor_error(
    tensor: str, operation: str, actual: np.ndarray, expected: np.ndarray
) -> TensorError:
    """Compares one tensor with the reference; another shape is an infinite error."""
    if actual.shape != expected.shape:
        return TensorError(tensor, operation, np.inf, np.inf, 0.0, -np.inf)
    if expected.size == 0:
        return TensorError(tensor, operation, 0.0, 0.0, 1.0, np.inf)
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
    # Compared as they are: float64 does not hold every int64.
    must_be_equal = expected.dtype.kind in "iub"
    if not same_special or (must_be_equal and not np.array_equal(actual, expected)):
        relative = np.inf
    a, b = np.where(finite, a, 0).ravel(), np.where(finite, b, 0).ravel()
    return TensorError(
        tensor,
        operation,
        largest,
        relative,
        _cosine(a, b),
        _sqnr_db(a, b),
        tuple(int(i) for i in worst),
        float(actual[worst]),
        float(expected[worst]),
    )


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
