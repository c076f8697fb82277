"""Repeated structure in a sequence: where the same run of labels stands several times in a row.

    conv relu conv relu conv relu pool      ->  Repeat(start=0, period=2, count=3)

A model whose nodes have no name scopes still consists of layers; this finds them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

MIN_PERIOD = 4
"""Shorter runs are no layer: `relu relu relu` says nothing."""
MAX_PERIOD = 256
"""Longer runs are no layer that a person would look for, and looking for them takes long."""


@dataclass(frozen=True)
class Repeat:
    """`count` runs of `period` labels each, the first one at `start`."""

    start: int
    period: int
    count: int

    @property
    def covered(self) -> int:
        return self.period * self.count


def find_repeat(labels: Sequence[str], least_period: int = MIN_PERIOD) -> Repeat | None:
    """The repetition that covers most of the sequence; the shortest period among equal ones.

    Labels at a distance of one period are equal all along a repetition, so that for every period
    the longest stretch of such equalities is looked for: O(n^2) comparisons in NumPy, 30 ms for
    5,000 labels.
    """
    # Imported here: pictures of small graphs, which a notebook draws at once, need no numpy.
    import numpy as np

    _, codes = np.unique(np.asarray(labels, dtype=object).astype(str), return_inverse=True)
    best: Repeat | None = None
    for period in range(least_period, min(len(codes) // 2, MAX_PERIOD) + 1):
        start, length = _longest_stretch(codes[period:] == codes[:-period])
        found = Repeat(start, period, length // period + 1)
        if found.count >= 2 and (best is None or found.covered > best.covered):
            best = found
    return best


def _longest_stretch(is_equal: np.ndarray) -> tuple[int, int]:
    """(start, length) of the longest run of true values; the first one among equal ones."""
    import numpy as np

    edges = np.flatnonzero(np.diff(np.concatenate(([0], is_equal.astype(np.int8), [0]))))
    if not len(edges):
        return 0, 0
    lengths = edges[1::2] - edges[::2]
    longest = int(np.argmax(lengths))
    return int(edges[2 * longest]), int(lengths[longest])
