"""What was seen of a tensor's numbers: limits, moments, and a histogram that grows with its range.

    h = Histogram()
    for batch in batches:
        h = h.including(batch)
    h.low, h.high, h.count, h.magnitudes(2048)

The histogram has `SIDE` bins on each side of zero over [-reach, reach], where reach is a power of
two. A number beyond doubles it: neighbouring bins are added up, so that nothing is lost and the
result depends on the numbers alone, not on how they were cut into batches. Two histograms are
merged likewise. Memory is 2 * SIDE counts per tensor, however much data there is.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

SIDE = 8192
"""Bins on each side of zero: between 4,096 and 8,192 of them hold the numbers of a side."""

MOMENTUM = 0.9
"""Weight of what was before in the moving average of limits."""


@dataclass(frozen=True, kw_only=True)
class Histogram:
    """Numbers of one tensor. NaN and infinities are counted apart and are in nothing else."""

    counts: np.ndarray = field(default_factory=lambda: np.zeros(2 * SIDE, np.int64))
    """(2 * SIDE,) i64: bin i holds [(i - SIDE) * width, (i - SIDE + 1) * width)."""
    reach: float = 0.0
    """A power of two above every magnitude; 0 as long as there was no number but 0."""
    count: int = 0
    zeros: int = 0
    """Numbers that are exactly 0, which every range represents; they are in `counts`, too."""
    not_finite: int = 0
    low: float = np.inf
    high: float = -np.inf
    total: float = 0.0
    total_squares: float = 0.0
    total_magnitudes: float = 0.0
    average_low: float = 0.0
    """Moving average of the batches' lowest numbers, with the momentum `MOMENTUM`."""
    average_high: float = 0.0

    @property
    def width(self) -> float:
        """Of a bin."""
        return self.reach / SIDE

    @property
    def centers(self) -> np.ndarray:
        """(2 * SIDE,) f64: the middle of each bin."""
        return (np.arange(-SIDE, SIDE) + 0.5) * self.width

    @property
    def nonzero_counts(self) -> np.ndarray:
        """`counts` without the numbers that are exactly 0."""
        counts = self.counts.copy()
        counts[SIDE] -= self.zeros
        return counts

    @property
    def largest(self) -> float:
        """The largest magnitude."""
        return max(abs(self.low), abs(self.high)) if self.count else 0.0

    @property
    def mean(self) -> float:
        return self.total / max(self.count, 1)

    @property
    def deviation(self) -> float:
        """Standard deviation."""
        return float(np.sqrt(max(self.total_squares / max(self.count, 1) - self.mean**2, 0.0)))

    @property
    def mean_deviation(self) -> float:
        """Mean of |x - mean|, from the bins: b of a Laplace distribution."""
        return float(self.counts @ np.abs(self.centers - self.mean)) / max(self.count, 1)

    @property
    def is_constant(self) -> bool:
        return self.count > 0 and self.low == self.high

    def including(self, array: np.ndarray) -> Histogram:
        """With the numbers of another batch."""
        numbers = np.asarray(array).reshape(-1)
        finite = numbers[np.isfinite(numbers)]
        lost = numbers.size - finite.size
        if not finite.size:
            return replace(self, not_finite=self.not_finite + lost)
        low, high = float(finite.min()), float(finite.max())
        reach = max(self.reach, _reach_of(max(abs(low), abs(high))))
        wide = finite.astype(np.float64)
        keep = MOMENTUM if self.count else 0.0
        return Histogram(
            counts=self._widened(reach) + _counted(finite, reach),
            reach=reach,
            count=self.count + finite.size,
            zeros=self.zeros + finite.size - int(np.count_nonzero(finite)),
            not_finite=self.not_finite + lost,
            low=min(self.low, low),
            high=max(self.high, high),
            total=self.total + float(wide.sum()),
            total_squares=self.total_squares + float(wide @ wide),
            total_magnitudes=self.total_magnitudes + float(np.abs(wide).sum()),
            average_low=keep * self.average_low + (1 - keep) * low,
            average_high=keep * self.average_high + (1 - keep) * high,
        )

    def magnitudes(self, bins: int) -> np.ndarray:
        """(bins,) i64: counts of |x| over (0, largest], each bin of ours at its middle."""
        if not self.largest:
            return np.zeros(bins, np.int64)
        places = np.minimum(np.abs(self.centers) / self.largest * bins, bins - 1).astype(np.int64)
        return np.bincount(places, self.nonzero_counts, minlength=bins).astype(np.int64)

    def quantile(self, share: float) -> float:
        """The number below which that share of all lies, within the width of a bin."""
        if not self.count:
            return 0.0
        below = np.cumsum(self.counts)
        place = int(np.searchsorted(below, share * self.count))
        edge = (min(place, 2 * SIDE - 1) + 1 - SIDE) * self.width
        return float(np.clip(edge, self.low, self.high))

    def _widened(self, reach: float) -> np.ndarray:
        """The counts over a wider range; a factor of two adds up neighbours."""
        if self.reach in (0.0, reach):
            # All numbers so far were zeros: they stay in the bin above zero.
            return self.counts
        factor = round(reach / self.reach)
        if factor >= SIDE:
            sides = self.counts[:SIDE].sum(), self.counts[SIDE:].sum()
            counts = np.zeros(2 * SIDE, np.int64)
            counts[SIDE - 1], counts[SIDE] = sides
            return counts
        merged = self.counts.reshape(-1, factor).sum(axis=1)
        half = merged.size // 2
        counts = np.zeros(2 * SIDE, np.int64)
        counts[SIDE - half : SIDE + half] = merged
        return counts


def _reach_of(largest: float) -> float:
    """The power of two above a magnitude; 0 for 0."""
    return float(2.0 ** (np.frexp(largest)[1])) if largest else 0.0


def _counted(numbers: np.ndarray, reach: float) -> np.ndarray:
    """(2 * SIDE,) counts over [-reach, reach]."""
    if not reach:
        counts = np.zeros(2 * SIDE, np.int64)
        counts[SIDE] = numbers.size
        return counts
    # A product with a power of two is exact: bins do not depend on the batch.
    places = np.floor(numbers * numbers.dtype.type(SIDE / reach)).astype(np.int64) + SIDE
    return np.bincount(np.clip(places, 0, 2 * SIDE - 1), minlength=2 * SIDE)
