"""Ranges from what was seen of a tensor. Each method says how much of the tails is cut off.

    RANGES["kl"](histogram, 8)  ->  Range(low=-3.1, high=3.1)

Numbers outside of the range saturate, numbers inside are rounded to steps of its width over
2^bits - 1. A wide range rounds coarsely, a narrow one cuts: the methods differ in what they call
the best compromise. Ranges of numbers without a sign begin at 0 and have twice as fine steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import erf, exp, pi, sqrt

import numpy as np

from explorer.quantization.histogram import SIDE, Histogram

PERCENTILE = 99.99
"""Per cent of all numbers that are inside."""
KL_BINS = 2048
KL_STEP = 64
"""Bins of |x| from one candidate of KL to the next."""
SMOOTHED = 1e-4
"""Share of a bin that the quantized distribution lacks: of the last one, if only the tail is there.
"""
NEWTON_STEPS = 20


@dataclass(frozen=True)
class Range:
    """Numbers that are represented: low <= 0 <= high, in the tensor's unit."""

    low: float
    high: float

    @property
    def threshold(self) -> float:
        """The larger magnitude: the range where it is symmetric."""
        return max(abs(self.low), abs(self.high))


Method = Callable[[Histogram, int], Range]


def min_max(h: Histogram, bits: int) -> Range:
    """Everything that was seen: nothing saturates, and one outlier costs all others steps."""
    return _within(h, h.low, h.high)


def moving_average(h: Histogram, bits: int) -> Range:
    """Moving averages of the lowest and the highest number of each batch.

    Source: Jacob et al., Quantization and Training of Neural Networks for Efficient
    Integer-Arithmetic-Only Inference, 2018, section 3.1.
    """
    return _within(h, h.average_low, h.average_high)


def percentile(h: Histogram, bits: int) -> Range:
    """The middle `PERCENTILE` per cent; half of what is cut off lies at each end.

    Where all numbers have one sign, all of it lies at the far end.
    """
    cut = 1 - PERCENTILE / 100
    sides = (h.low < 0) + (h.high > 0)
    cut /= max(sides, 1)
    low = h.quantile(cut) if h.low < 0 else h.low
    high = h.quantile(1 - cut) if h.high > 0 else h.high
    return _within(h, low, high)


def kl(h: Histogram, bits: int) -> Range:
    """The threshold whose quantized distribution of |x| tells most of the true one.

        P = counts up to the threshold, all above it added to the last bin
        Q = the counts up to the threshold in as many levels as a side has, spread evenly over the
            bins of a level that hold something
        smallest sum of p * log(p / q)

    Numbers that are exactly 0 are represented whatever the threshold is, and are left out.
    Source: Migacz, 8-bit Inference with TensorRT, GTC 2017. Where q is 0 and p is not (only in
    the last bin), q is `SMOOTHED`.
    """
    counts = h.magnitudes(KL_BINS).astype(np.float64)
    if not counts.any():
        return _clipped(h, 0.0)
    levels = 2 ** (bits - 1 + _has_one_sign(h))
    best, lowest = KL_BINS, np.inf
    cumulated = np.concatenate([[0.0], np.cumsum(counts)])
    for bins in range(levels, KL_BINS + 1, KL_STEP):
        divergence = _divergence(counts[:bins], cumulated[-1] - cumulated[bins], levels)
        if divergence < lowest:
            best, lowest = bins, divergence
    return _clipped(h, h.largest * best / KL_BINS)


def mse(h: Histogram, bits: int) -> Range:
    """The threshold of the smallest expected squared error, by Newton's method (OCTAV).

        s' = E[|x| : |x| > s] / (k * 4^-bits * P(0 < |x| <= s) + P(|x| > s))

    with k = 1/3 for numbers with a sign and 1/12 for those without, whose steps are half as wide.
    Source: Sakr et al., Optimal Clipping and Magnitude-aware Differentiation for Improved
    Quantization-aware Training, 2022, equation 8.
    """
    if not h.largest:
        return _clipped(h, 0.0)
    counts = h.nonzero_counts.astype(np.float64)
    sizes, counts = h.centers[SIDE:], counts[SIDE:] + counts[SIDE - 1 :: -1]
    above_sum = np.cumsum((sizes * counts)[::-1])[::-1]
    above = np.cumsum(counts[::-1])[::-1]
    rounding = (1 / 12 if _has_one_sign(h) else 1 / 3) * 4.0**-bits
    s = h.total_magnitudes / above[0]
    for _ in range(NEWTON_STEPS):
        place = int(np.searchsorted(sizes, s, side="right"))
        if place >= sizes.size:
            return _clipped(h, h.largest)
        weight = rounding * (above[0] - above[place]) + above[place]
        s = above_sum[place] / weight if weight else s
    return _clipped(h, min(s, h.largest))


def aciq_gauss(h: Histogram, bits: int) -> Range:
    """The threshold of the smallest squared error if numbers are distributed normally.

    Zero of 2a(1 - erf(a / sqrt 2)) + 2a / (3 * 4^bits) - 2 sqrt(2 / pi) exp(-a^2 / 2), in standard
    deviations: 3.92 for 8 bits. Source: Banner et al., Post-training 4-bit quantization of
    convolution networks for rapid-deployment, 2019, section 3 and appendix A.
    """
    return _around_mean(h, _zero(_gauss_slope, bits, h) * h.deviation)


def aciq_laplace(h: Histogram, bits: int) -> Range:
    """The same if numbers have a Laplace distribution: a * exp(a) = 3 * 4^bits, in mean deviations.

    9.90 for 8 bits. Source: as for `aciq_gauss`.
    """
    return _around_mean(h, _zero(_laplace_slope, bits, h) * h.mean_deviation)


RANGES: dict[str, Method] = {
    "min-max": min_max,
    "moving-average": moving_average,
    "percentile": percentile,
    "kl": kl,
    "mse": mse,
    "aciq-gauss": aciq_gauss,
    "aciq-laplace": aciq_laplace,
}


def squared_error(h: Histogram, chosen: Range, bits: int) -> float:
    """Expected squared error of a number: exact for what saturates, step^2 / 12 for the rest."""
    centers = h.centers
    step = (chosen.high - chosen.low) / (2**bits - 1)
    outside = np.maximum(centers - chosen.high, 0) + np.maximum(chosen.low - centers, 0)
    cut = float(h.counts @ outside**2)
    inside = float(h.nonzero_counts @ (outside == 0))
    return (cut + inside * step**2 / 12) / max(h.count, 1)


# -- parts -----------------------------------------------------------------------------------------


def _has_one_sign(h: Histogram) -> bool:
    """Numbers without a sign: steps are half as wide."""
    return h.low >= 0 or h.high <= 0


def _within(h: Histogram, low: float, high: float) -> Range:
    """Zero is inside, so that padding and the results of ReLU are exact."""
    if not h.count:
        return Range(0.0, 0.0)
    return Range(float(min(max(low, h.low), 0.0)), float(max(min(high, h.high), 0.0)))


def _clipped(h: Histogram, threshold: float) -> Range:
    """At most the threshold on both sides."""
    return _within(h, max(h.low, -threshold), min(h.high, threshold))


def _around_mean(h: Histogram, distance: float) -> Range:
    """As the sources have it, thresholds lie around the mean; half-range data begin at 0."""
    if _has_one_sign(h):
        return _clipped(h, abs(h.mean) + distance)
    return _within(h, h.mean - distance, h.mean + distance)


def _divergence(counts: np.ndarray, tail: float, levels: int) -> float:
    """Kullback-Leibler divergence of the quantized from the clipped distribution."""
    p = counts.copy()
    p[-1] += tail
    total = p.sum()
    if not total:
        return np.inf
    starts = np.arange(levels) * counts.size // levels
    sums = np.add.reduceat(counts, starts)
    filled = np.add.reduceat((counts > 0).astype(np.float64), starts)
    means = np.divide(sums, filled, out=np.zeros(levels), where=filled > 0)
    widths = np.diff(starts, append=counts.size)
    q = np.repeat(means, widths) * (counts > 0)
    if not q.any():
        return np.inf
    present = p > 0
    p, q = p[present] / total, q[present] / q.sum()
    return float(np.sum(p * np.log(p / np.maximum(q, SMOOTHED))))


def _gauss_slope(a: float, bits: int) -> float:
    return a * (1 - erf(a / sqrt(2))) + a / (3 * 4.0**bits) - sqrt(2 / pi) * exp(-a * a / 2)


def _laplace_slope(a: float, bits: int) -> float:
    return a / (3 * 4.0**bits) - float(np.exp(-a))


def _zero(slope: Callable[[float, int], float], bits: int, h: Histogram) -> float:
    """By bisection. Numbers of one sign have a bit more: theirs need not tell the sign."""
    bits += _has_one_sign(h)
    low, high = 0.1, 64.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle, bits) < 0 else (low, middle)
    return (low + high) / 2
