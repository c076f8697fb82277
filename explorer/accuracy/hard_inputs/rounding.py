"""Arrays on the ties of rounding: half-way between two steps of a quantization.

    half_steps(scale, zero_point, np.int8, shape)          floats (k + 1/2) * scale
    requantization_ties(multiplier, shift, zero_point, ..) sums with sum * m / 2^s = k + 1/2
    product_ties(product, shape, dtype)                    bytes whose products meet such sums

Source: explorer/ir/requantization.py, which has the schemes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np

MAX_CHANNELS = 64
"""Output channels, spread evenly, whose ties are looked for."""
MAX_SUMS = 256
"""Ties that an array of products holds at most."""
MAX_ARRAYS = 4
"""Arrays of one operation."""


def half_steps(
    scale: np.ndarray, zero_point: np.ndarray, dtype: np.dtype, shape: Sequence[int], axis: int = 1
) -> np.ndarray:
    """float64 numbers half-way between steps, from below the range of `dtype` to above it.

    scale, zero_point: one number, or one for each slice of `axis`.
    """
    limits = ml_dtypes.iinfo(dtype)
    steps = int(limits.max) - int(limits.min) + 5
    count = int(np.prod(shape, dtype=np.int64))
    stride = 1 if count >= steps else max(steps // max(count, 1), 1) | 1
    places = (np.arange(count) * stride) % steps + int(limits.min) - 2
    by_axis = [1] * len(shape)
    if np.size(scale) > 1:
        by_axis[axis] = -1
    sizes, zeros = (
        np.asarray(a, np.float64).reshape(by_axis if np.size(a) > 1 else [1] * len(shape))
        for a in (scale, zero_point)
    )
    return (places.reshape(shape) + 0.5 - zeros) * sizes


def requantization_ties(
    multiplier: int, shift: int, zero_point: int, low: int, high: int
) -> np.ndarray:
    """Sums with sum * multiplier / 2^shift nearest to a half, and their neighbours (i64).

    One pair for each result from `low` to `high`, which holds the zero point.
    """
    halves = np.arange(low - zero_point, high - zero_point + 1, dtype=object) * 2 + 1
    sums = [(half << shift) // (2 * multiplier) for half in halves]
    return np.array(sorted({s + d for s in sums for d in (0, 1)}), np.int64)


@dataclass(frozen=True, kw_only=True, eq=False)
class Product:
    """A product of bytes: input channel by channel with weights, plus bias, requantized."""

    input: str
    zero_point: int
    """Of the input."""
    weights: np.ndarray
    """(output channels, input channels of a group, places of the kernel), less their zero point."""
    bias: np.ndarray
    """i64, one for each output channel."""
    ratios: np.ndarray
    """Scale of the sums over scale of the result, for each output channel."""
    channel_axis: int
    """Of the input; -1 or 1."""
    groups: int = 1


def product_ties(product: Product, shape: Sequence[int], dtype: np.dtype) -> Iterator[np.ndarray]:
    """Inputs of zero points with single bytes, each so that a product with one weight plus the bias
    comes nearest to a tie of an output channel."""
    axis = product.channel_axis % len(shape)
    places = [int(np.prod(shape[:axis])), shape[axis], int(np.prod(shape[axis + 1 :]))]
    rows = places[0] * places[2]
    apart = 1 if product.weights.shape[2] == 1 else 3
    chosen = _nearest(product, dtype)
    per_turn = max((rows + apart - 1) // apart, 1)
    for begin in range(0, min(len(chosen), MAX_ARRAYS * per_turn), per_turn):
        array = np.full(places, product.zero_point)
        for number, (channel, value) in enumerate(chosen[begin : begin + per_turn]):
            row = number * apart
            array[row // places[2], channel % places[1], row % places[2]] = value
        yield array.reshape(shape).astype(dtype)


def _nearest(product: Product, dtype: np.dtype) -> list[tuple[int, int]]:
    """(input channel, byte) of the ties, the nearest ones first."""
    limits = ml_dtypes.iinfo(dtype)
    values = np.arange(int(limits.min), int(limits.max) + 1)
    outputs, inputs, _ = product.weights.shape
    found: list[tuple[float, int, int]] = []
    channels = np.unique(np.linspace(0, outputs - 1, min(outputs, MAX_CHANNELS)).astype(int))
    for output in channels:
        weights, firsts = np.unique(product.weights[output].reshape(-1), return_index=True)
        terms = np.multiply.outer(weights, values - product.zero_point)
        exact = (terms + product.bias[output]) * product.ratios[output]
        distance = np.where(weights[:, None] == 0, 1.0, np.abs(exact - np.floor(exact) - 0.5))
        distance = np.where(np.abs(exact) > 2 * len(values), 1.0, distance)  # saturates anyhow
        best = np.argsort(distance, axis=None, kind="stable")[: MAX_SUMS // len(channels)]
        group = int(output) * product.groups // outputs
        for place in best:
            weight, value = np.unravel_index(place, distance.shape)
            channel = group * inputs + int(firsts[weight]) // product.weights.shape[2]
            found.append((float(distance[weight, value]), channel, int(values[value])))
    return [(channel, value) for _, channel, value in sorted(found)]


def pair_ties(
    combine: Callable[[np.ndarray, np.ndarray], np.ndarray],
    dtypes: Sequence[np.dtype],
    shape: Sequence[int],
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of bytes for which `combine`, the exact result in steps of its scale, is nearest to a
    half, in arrays of one shape."""
    ranges = [
        np.arange(int(ml_dtypes.iinfo(d).min), int(ml_dtypes.iinfo(d).max) + 1) for d in dtypes
    ]
    exact = combine(ranges[0][:, None].astype(np.float64), ranges[1][None, :].astype(np.float64))
    distance = np.abs(exact - np.floor(exact) - 0.5)
    order = np.argsort(distance, axis=None, kind="stable")
    chosen = np.resize(order[: int(np.prod(shape))], int(np.prod(shape)))
    first, second = np.unravel_index(chosen, distance.shape)
    return (
        ranges[0][first].astype(dtypes[0]).reshape(shape),
        ranges[1][second].astype(dtypes[1]).reshape(shape),
    )
