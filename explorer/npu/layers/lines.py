"""Functions by table as lines: for vector engines that have no tables.

    lines_of(table)     sum of clip((multiplier * x + offset) >> shift, low, high)

Of every number that the table is asked for, their sum gives its entry. Rounded scales, clips and
changes of scale are one line. Any other function is cut where no line goes on: the first one is
kept between the entries that it reaches over, and each other one adds what comes from its first
entry to its last. All offsets that fit are known from all entries of a part at once:

    entry << shift  <=  multiplier * x + offset  <  (entry + 1) << shift

where the entry is neither the lowest nor the highest; else one of both holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

MAX_SHIFT = 12
MAX_IMMEDIATE = (1 << 15) - 1
"""Of 16 bits."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """One of the summands of a table."""

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
            adds.append(("add", max(-MAX_IMMEDIATE, min(rest, MAX_IMMEDIATE))))
            rest -= adds[-1][1]
        first = [] if self.multiplier == 1 else [("multiply", self.multiplier)]
        shifts = [("shift_right", self.shift)] if self.shift else []
        return [*first, *adds, *shifts, ("maximum", self.low), ("minimum", self.high)]

    def lowered(self, by: int) -> Line:
        """The same, less a number."""
        return Line(multiplier=self.multiplier, offset=self.offset - (by << self.shift),
                    shift=self.shift, low=self.low - by, high=self.high - by)  # fmt: skip

    def at(self, x: np.ndarray) -> np.ndarray:
        """i64 of i64."""
        return np.clip((self.multiplier * x + self.offset) >> self.shift, self.low, self.high)


def lines_of(table: np.ndarray) -> tuple[Line, ...]:
    """`table`: entries of the lowest number, of the next one, and so on; one number at least."""
    return _lines_of(tuple(map(int, table)))


@lru_cache(maxsize=256)
def _lines_of(entries: tuple[int, ...]) -> tuple[Line, ...]:
    table, found = np.array(entries, np.int64), []
    start, last = 0, len(table) - 1
    while True:
        end = _reach(table, start)
        line = _line_of(table, start, end)
        assert line is not None, "two entries are always on a line"
        if not found:
            found.append(line)
        elif line.low != line.high:
            found.append(line.lowered(int(table[start])))
        if end == last:
            return tuple(found)
        start = end


def _reach(table: np.ndarray, start: int) -> int:
    """The last entry that one line from an entry on gives: a shorter part of it is on that line,
    too."""
    known, length, last = min(start + 1, len(table) - 1), 2, len(table) - 1
    while known < last and _line_of(table, start, min(start + length, last)) is not None:
        known, length = min(start + length, last), 2 * length
    beyond = min(start + length, last + 1)
    while beyond - known > 1:
        middle = (known + beyond) // 2
        if _line_of(table, start, middle) is None:
            beyond = middle
        else:
            known = middle
    return known


def _line_of(table: np.ndarray, start: int, end: int) -> Line | None:
    """Of the entries from one to another: of the smallest shift."""
    x = np.arange(start, end + 1) - len(table) // 2
    table = table[start : end + 1]
    low, high = int(table.min()), int(table.max())
    if low == high:
        return Line(multiplier=0, offset=low, shift=0, low=low, high=high)
    inside = np.flatnonzero((table > low) & (table < high))
    ends = (inside[0], inside[-1]) if len(inside) > 1 else (0, len(table) - 1)
    far = int(x[ends[1]] - x[ends[0]])
    rise = int(table[ends[1]] - table[ends[0]])
    is_low, is_high = table == low, table == high
    for shift in range(MAX_SHIFT + 1):
        least, most = ((rise + d) << shift for d in (-1, 1))
        multipliers = np.arange(least // far, -(-most // far) + 1)
        multipliers = multipliers[abs(multipliers) <= MAX_IMMEDIATE]
        reached = multipliers[:, None] * x
        below = (table << shift) - reached
        firsts = below[:, ~is_low].max(axis=1)
        lasts = (below + (1 << shift) - 1)[:, ~is_high].min(axis=1)
        fits = np.flatnonzero(firsts <= lasts)
        if len(fits):
            return Line(multiplier=int(multipliers[fits[0]]), offset=int(firsts[fits[0]]),
                        shift=shift, low=low, high=high)  # fmt: skip
    return None
