"""Buffers as columns of a search: sections, neighbours, parts, and the orders in which they are
tried."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from math import gcd

from explorer.memory.exact.search import (
    ANYWHERE,
    FOUND,
    Frames,
    Problem,
    State,
    integers,
    search,
)
from explorer.results.memory import BufferLifetime

ORDERS = ("TC", "CLA", "CFA", "TEA", "TCA", "FZC", "LZC", "LCA", "FCA", "OCA")
"""Keys of the ranks, the first one most significant: T most live bytes during the lifetime, C steps
of the lifetime, E steps and ends of buffers during it, A size times steps, O neighbours, Z size,
all from large to small; F first step, from early to late; L last step, from late to early."""


@dataclass(frozen=True)
class Outcome:
    status: int
    """FOUND, IMPOSSIBLE or LIMIT."""
    nodes: int
    offsets: tuple[tuple[int, int], ...] = ()
    """(buffer, offset)."""


class Buffers:
    """Columns of the buffers that have bytes, in a unit that divides all of sizes and alignments.

    `fixed`: offsets in bytes by buffer.
    """

    def __init__(self, buffers: Sequence[BufferLifetime], fixed: Mapping[int, int]) -> None:
        self.numbers = [i for i, buffer in enumerate(buffers) if buffer.size_bytes]
        kept = [buffers[i] for i in self.numbers]
        places = [fixed.get(i, ANYWHERE) for i in self.numbers]
        self.unit = gcd(
            *(b.size_bytes for b in kept),
            *(b.alignment_bytes for b in kept),
            *(place for place in places if place != ANYWHERE),
        )
        unit = self.unit or 1
        self.sizes = [buffer.size_bytes // unit for buffer in kept]
        self.alignments = [max(1, buffer.alignment_bytes // unit) for buffer in kept]
        self.fixed = [place if place == ANYWHERE else place // unit for place in places]
        self.firsts = [buffer.first for buffer in kept]
        self.lasts = [buffer.last for buffer in kept]
        change = [0] * (max(self.lasts, default=0) + 1)
        for size, first, last in zip(self.sizes, self.firsts, self.lasts, strict=True):
            change[first] += size
            change[last] -= size
        self.live = list(accumulate(change))[:-1]
        """By step: the sizes of all buffers, without what alignment adds."""

    def __len__(self) -> int:
        return len(self.sizes)

    @cached_property
    def neighbours(self) -> list[list[int]]:
        """Of every buffer those that live at the same time, by their first step."""
        active: list[int] = []
        found: list[list[int]] = [[] for _ in self.sizes]
        for i in self.by_start:
            active = [j for j in active if self.lasts[j] > self.firsts[i]]
            for j in active:
                found[i].append(j)
                found[j].append(i)
            active.append(i)
        return found

    @cached_property
    def by_start(self) -> list[int]:
        return sorted(range(len(self)), key=lambda i: (self.firsts[i], self.lasts[i]))

    @cached_property
    def parts(self) -> list[list[int]]:
        """Buffers of connected ranges of steps, the range with the most live bytes first."""
        parts: list[list[int]] = []
        end = -1
        for i in self.by_start:
            if self.firsts[i] >= end:
                parts.append([])
            parts[-1].append(i)
            end = max(end, self.lasts[i])
        return sorted(parts, key=lambda part: -max(self.live[self.firsts[i]] for i in part))

    @cached_property
    def keys(self) -> dict[str, list[int]]:
        """Of every letter of `ORDERS` the numbers to sort by, from large to small."""
        n = range(len(self))
        steps = [self.lasts[i] - self.firsts[i] for i in n]
        ends = sorted(set(self.lasts))
        place = {step: index for index, step in enumerate(sorted({*self.firsts, *ends}))}
        return {
            "T": [max(self.live[self.firsts[i] : self.lasts[i]]) for i in n],
            "C": steps,
            "E": [place[self.lasts[i]] - place[self.firsts[i]] for i in n],
            "A": [steps[i] * self.sizes[i] for i in n],
            "O": [len(self.neighbours[i]) for i in n],
            "Z": self.sizes,
            "F": [-first for first in self.firsts],
            "L": self.lasts,
        }

    def ranks(self, order: str) -> list[int]:
        columns = [self.keys[letter] for letter in order]
        n = range(len(self))
        ranks = [0] * len(self)
        for rank, i in enumerate(sorted(n, key=lambda i: (*(-c[i] for c in columns), i))):
            ranks[i] = rank
        return ranks

    def problem(self, order: str) -> Problem:
        ranks = self.ranks(order)
        twins, latest = [-1] * len(self), {}
        for i in sorted(range(len(self)), key=ranks.__getitem__):
            if self.fixed[i] == ANYWHERE:
                key = (self.firsts[i], self.lasts[i], self.sizes[i], self.alignments[i])
                twins[i] = latest.get(key, -1)
                latest[key] = i
        numbers: dict[tuple[int, int], int] = {}
        classes = [
            numbers.setdefault((first, last), len(numbers))
            # What is exchanged with another buffer has to be allowed at its offset.
            if fixed == ANYWHERE and size % self._alignment == 0
            else -1
            for first, last, size, fixed in zip(
                self.firsts, self.lasts, self.sizes, self.fixed, strict=True
            )
        ]
        starts = [0]
        for neighbours in self.neighbours:
            starts.append(starts[-1] + len(neighbours))
        return Problem(
            sizes=integers(self.sizes),
            firsts=integers(self.firsts),
            lasts=integers(self.lasts),
            alignments=integers(self.alignments),
            fixed=integers(self.fixed),
            ranks=integers(ranks),
            twins=integers(twins),
            classes=integers(classes),
            starts=integers(starts),
            neighbours=integers([j for neighbours in self.neighbours for j in neighbours]),
        )

    @cached_property
    def _alignment(self) -> int:
        return max(self.alignments, default=1)

    def solve(self, part: Sequence[int], order: str, capacity: int, node_limit: int) -> Outcome:
        """A plan of one part within a capacity, in units."""
        problem = self.problem(order)
        state = self._state(part)
        frames = Frames(*(integers([0] * (len(part) + 2)) for _ in Frames._fields))
        status = search(problem, state, frames, integers(part), capacity, node_limit)
        found = ((i, int(state.results[i])) for i in part) if status == FOUND else ()
        return Outcome(int(status), int(state.counts[3]), tuple(found))

    def _state(self, part: Sequence[int]) -> State:
        n, steps, m = len(self), len(self.live), len(part)
        lived = sum(self.lasts[i] - self.firsts[i] for i in part)
        writes = m + 2 * lived + sum(len(self.neighbours[i]) for i in part)
        zeros = {
            "trail": 2 * writes,
            "counts": 4,
            "pool": m * (m + 1) // 2 + m,
            "parts": 4 * m + 4,
            **dict.fromkeys(("floors", "owners", "least"), steps),
        }
        made = {name: integers([0] * zeros.get(name, n)) for name in State._fields}
        return State(**{**made, "live": integers(self.live), "tops": integers([-1] * n)})
