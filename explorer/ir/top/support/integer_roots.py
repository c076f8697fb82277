"""Square roots in integers of 64 bits, in NumPy and in kernels.

    lifted(v)        (v << 2 j, j) with v << 2 j in [2^60, 2^62)       0 < v < 2^62
    square_root(v)   floor(sqrt(v)) of such a lifted number

Newton's iteration from above, x <- (x + v / x) / 2, in whole numbers: it never falls below the
root, and doubles its right bits. Reference: Kim et al., "I-BERT: Integer-only BERT Quantization",
2021, algorithm 4.
"""

from __future__ import annotations

import numpy as np

from explorer.ir.compute import Scalar

HALF_SHIFTS = (16, 8, 4, 2, 1)
TOP = 62
FIRST = 2**31
"""No root of a lifted number is larger, and none smaller than half of it."""
ITERATIONS = 6
"""Relative errors: 1, 1/4, 1/40, 3e-4, 5e-8, 1e-15, and one for what whole numbers cut off."""


def lifted(v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The number with an even count of leading zeros shifted out, and half of that count."""
    halves = np.zeros_like(v)
    for step in HALF_SHIFTS:
        is_small = v < 1 << (TOP - 2 * step)
        v = np.where(is_small, v << (2 * step), v)
        halves = np.where(is_small, halves + step, halves)
    return v, halves


def square_root(v: np.ndarray) -> np.ndarray:
    root = np.full_like(v, FIRST)
    for _ in range(ITERATIONS):
        root = (root + v // root) >> 1
    return np.where(root * root > v, root - 1, root)


def half_lift_scalar(v: Scalar) -> Scalar:
    """j of `lifted`."""
    halves = v.constant(0)
    for step in HALF_SHIFTS:
        is_small = v.compare("lt", 1 << (TOP - 2 * step))
        v = is_small.select(v.shift_left(2 * step), v)
        halves = is_small.select(halves + step, halves)
    return halves


def square_root_scalar(v: Scalar) -> Scalar:
    root = v.constant(FIRST)
    for _ in range(ITERATIONS):
        root = (root + v / root).shift_right(1)
    return (root * root).compare("gt", v).select(root - 1, root)
