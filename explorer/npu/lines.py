"""Functions by table that are a line: for vector engines that have no tables.

    line = line_of(table)        clip((multiplier * x + offset) >> shift, low, high), or None

Of every number that the table is asked for, the line gives its entry: rounded scales, clips and
changes of scale are such. All offsets that fit are known from all entries at once:

    entry << shift  <=  multiplier * x + offset  <  (entry + 1) << shift

where the entry is neither the lowest nor the highest; else one of both holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

MOST_SHIFT = 12
MOST_IMMEDIATE = (1 << 15) - 1
"""Of 16 bits."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """What a table is made of."""

    multiplier: int
    offset: int
    shift: int
    low: int
    high: int

    @property
    def steps(self) -> list[tuple[str, int]]:
        """Operations of a vector engine with an immediate of 16 bits each; none that does
        nothing."""
        adds, rest = [], self.offset
        while rest:
            adds.append(("add", max(-MOST_IMMEDIATE, min(rest, MOST_IMMEDIATE))))
            rest -= adds[-1][1]
        first = [] if self.multiplier == 1 else [("multiply", self.multiplier)]
        shifts = [("shift_right", self.shift)] if self.shift else []
        return [*first, *adds, *shifts, ("maximum", self.low), ("minimum", self.high)]

    def at(self, x: np.ndarray) -> np.ndarray:
        """i64 of i64."""
        return np.clip((self.multiplier * x + self.offset) >> self.shift, self.low, self.high)


def line_of(table: np.ndarray) -> Line | None:
    """`table`: entries of the lowest number, of the next one, and so on."""
    return _line_of(tuple(map(int, table)))


@lru_cache(maxsize=256)
def _line_of(entries: tuple[int, ...]) -> Line | None:
    table = np.array(entries, np.int64)
    x = np.arange(len(table)) - len(table) // 2
    low, high = int(table.min()), int(table.max())
    inside = np.flatnonzero((table > low) & (table < high))
    if low == high:
        return Line(multiplier=0, offset=low, shift=0, low=low, high=high)
    ends = (inside[0], inside[-1]) if len(inside) > 1 else (0, len(table) - 1)
    far = int(x[ends[1]] - x[ends[0]])
    rise = int(table[ends[1]] - table[ends[0]])
    for shift in range(MOST_SHIFT + 1):
        least, most = ((rise + d) << shift for d in (-1, 1))
        for multiplier in range(least // far, -(-most // far) + 1):
            if abs(multiplier) > MOST_IMMEDIATE:
                continue
            reached = multiplier * x
            below = (table << shift) - reached
            above = ((table + 1) << shift) - reached - 1
            first = below[table > low].max()
            last = above[table < high].min()
            if first <= last:
                return Line(multiplier=multiplier, offset=int(first), shift=shift, low=low,
                            high=high)  # fmt: skip
    return None
