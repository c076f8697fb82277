"""Taps of an interpolation: which elements of an axis each result is made of.

    positions [[0, 1], [1, 1]]   weights [[0.5, 0.5], [1, 0]]
 -> positions [[0, 1], [1, 1]]   weights [[0.5, 0.5], [0.5, 0.5]]      no tap weighs nothing

A tap without weight would still be multiplied: 0 times infinity is NaN.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Taps:
    """Elements along an axis and their weights: both (size of the result, taps)."""

    positions: np.ndarray
    weights: np.ndarray


def without_zeros(taps: Taps) -> Taps:
    """The same sums without taps that weigh nothing; taps of one element that follow are joined.

    Columns that no row needs go. In a row that needs fewer than others, the heaviest tap gives
    half of its weight to each that is left over: halves are exact.
    """
    positions, weights = taps.positions.copy(), taps.weights.copy()
    for tap in range(1, positions.shape[1]):
        is_same = positions[:, tap] == positions[:, tap - 1]
        weights[is_same, tap] += weights[is_same, tap - 1]
        weights[is_same, tap - 1] = 0
    order = np.argsort(weights == 0, axis=1, kind="stable")  # those with a weight first
    positions, weights = (np.take_along_axis(a, order, 1) for a in (positions, weights))
    count = max(int((weights != 0).sum(1).max(initial=0)), 1)
    positions, weights = positions[:, :count].copy(), weights[:, :count].copy()
    rows = np.arange(len(weights))
    for tap in range(count):
        is_free = weights[:, tap] == 0
        heaviest = np.abs(weights).argmax(1)
        half = weights[rows, heaviest] / 2
        weights[rows[is_free], heaviest[is_free]] = half[is_free]
        weights[is_free, tap] = half[is_free]
        positions[is_free, tap] = positions[rows, heaviest][is_free]
    return Taps(positions, weights)


def transposed(taps: Taps, size: int) -> Taps:
    """The taps that add up, for each of `size` elements, what the results take of it."""
    target = len(taps.positions)
    matrix = np.zeros((size, target))
    np.add.at(matrix, (taps.positions, np.arange(target)[:, np.newaxis]), taps.weights)
    count = max(int((matrix != 0).sum(1).max(initial=0)), 1)
    positions = np.argsort(matrix == 0, axis=1, kind="stable")[:, :count]
    return Taps(positions, np.take_along_axis(matrix, positions, 1))
