"""Buffers as columns of a search: sections, neighbours, parts, and the orders in which they are
tried.

Steps become *sections*. One begins at the last birth before a death, so that every set of buffers
which live at once, and which no other one contains, is the set of one section.

    steps     a: 0-2   b: 1-3   c: 3-4        births at 0, 1, 3, deaths at 2, 3, 4
    sections  a: 0     b: 0     c: 1          {a, b} and {c}
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from math import gcd
from typing import Any

import numpy as np

from explorer.memory.exact import search as plain
from explorer.memory.exact.search import ANYWHERE, COUNTS, FOUND, NODES, Frames, Problem, State
from explorer.results.memory import BufferLifetime

ORDERS = ("TAW", "TWA", "TCW", "COZ")
"""Keys of the ranks, the first one most significant: T most live bytes in its sections, which are
counted anew in every part, W steps of the lifetime, A size times steps, C sections, O neighbours,
Z size, all from large to small."""
POOL_PER_BUFFER = 256
"""Numbers in the pools of a search; one that needs more is given up."""


class Buffers:
    """Columns of the buffers that have bytes, in a unit that divides all of sizes and alignments.

    `fixed`: offsets in bytes by buffer. `durations`: of every buffer, by default its steps; only
    their order counts.
    """

    def __init__(
        self,
        buffers: Sequence[BufferLifetime],
        fixed: Mapping[int, int],
        durations: Sequence[int] | None = None,
    ) -> None:
        self.numbers = [i for i, buffer in enumerate(buffers) if buffer.size_bytes]
        kept = [buffers[i] for i in self.numbers]
        places = [fixed.get(i, ANYWHERE) for i in self.numbers]
        self.unit = gcd(
            *(b.size_bytes for b in kept),
            *(b.alignment_bytes for b in kept if b.alignment_bytes > 1),
            *(place for place in places if place != ANYWHERE),
        )
        unit = self.unit or 1
        self.sizes = [buffer.size_bytes // unit for buffer in kept]
        self.alignments = [max(1, buffer.alignment_bytes // unit) for buffer in kept]
        self.fixed = [place if place == ANYWHERE else place // unit for place in places]
        self.durations = (
            [buffer.last - buffer.first for buffer in kept]
            if durations is None
            else [durations[i] for i in self.numbers]
        )
        sections = last_births(kept)
        self.firsts = [bisect_left(sections, buffer.first) for buffer in kept]
        self.lasts = [bisect_left(sections, buffer.last) for buffer in kept]
        self.live = sums_over(self.firsts, self.lasts, self.sizes, len(sections))
        """By section: the sizes of all buffers, without what alignment adds."""
        self.cuts = sums_over(
            self.firsts, [last - 1 for last in self.lasts], [1] * len(kept), len(sections)
        )
        """By section: buffers that live in this one and in the next one."""

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def is_fixed(self) -> bool:
        """Whether some buffer has its offset."""
        return any(place != ANYWHERE for place in self.fixed)

    @cached_property
    def pairs(self) -> int:
        """How many pairs of buffers live at the same time."""
        firsts, lasts = np.sort(self.firsts), np.array(self.lasts)
        # Born before the end of each, less itself and those that had died before its birth.
        born = np.searchsorted(firsts, lasts, side="left").sum()
        dead = np.searchsorted(np.sort(lasts), firsts, side="right").sum()
        return int(born - dead - len(self)) // 2

    @cached_property
    def neighbours(self) -> list[list[int]]:
        """Of every buffer those that live at the same time, by their first section."""
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
    def neighbour_starts(self) -> list[int]:
        return [0, *accumulate(map(len, self.neighbours))]

    @cached_property
    def all_neighbours(self) -> list[int]:
        """Of all buffers one after the other."""
        return [j for neighbours in self.neighbours for j in neighbours]

    @cached_property
    def residents(self) -> list[list[int]]:
        """By section the buffers that live in it, by their first section."""
        found: list[list[int]] = [[] for _ in self.live]
        for i in self.by_start:
            for section in range(self.firsts[i], self.lasts[i]):
                found[section].append(i)
        return found

    @cached_property
    def by_start(self) -> list[int]:
        return sorted(range(len(self)), key=lambda i: (self.firsts[i], self.lasts[i]))

    @cached_property
    def parts(self) -> list[list[int]]:
        """Buffers of connected ranges of sections, the range with the most live bytes first."""
        parts: list[list[int]] = []
        end = -1
        for i in self.by_start:
            if self.firsts[i] >= end:
                parts.append([])
            parts[-1].append(i)
            end = max(end, self.lasts[i])
        return sorted(parts, key=lambda part: -self.live_in(part))

    def live_in(self, part: Sequence[int]) -> int:
        """Most live bytes of a part: no plan of it is smaller."""
        return max(self.live[self.firsts[i]] for i in part)

    @cached_property
    def keys(self) -> dict[str, list[int]]:
        """Of every letter of `ORDERS` but T the numbers to sort by, from large to small."""
        return {
            "W": self.durations,
            "A": [size * steps for size, steps in zip(self.sizes, self.durations, strict=True)],
            "C": [last - first for first, last in zip(self.firsts, self.lasts, strict=True)],
            "O": [len(neighbours) for neighbours in self.neighbours],
            "Z": self.sizes,
        }

    def static_ranks(self, order: str) -> list[int]:
        columns = [self.keys[letter] for letter in order if letter != "T"]
        by_rank = sorted(range(len(self)), key=lambda i: (*(-c[i] for c in columns), i))
        ranks = [0] * len(self)
        for rank, i in enumerate(by_rank):
            ranks[i] = rank
        return ranks

    def columns(self, order: str, capacity: int) -> dict[str, list[int]]:
        """The fields of a `Problem`."""
        ranks = self.static_ranks(order)
        twins, latest = [-1] * len(self), {}
        by_rank = sorted(range(len(self)), key=ranks.__getitem__)
        for i in by_rank:
            if self.fixed[i] == ANYWHERE:
                key = (self.firsts[i], self.lasts[i], self.sizes[i], self.alignments[i])
                twins[i] = latest.get(key, -1)
                latest[key] = i
        # What is exchanged with another buffer has to be allowed at its offset.
        alignment = max(self.alignments, default=1)
        is_free = [
            fixed == ANYWHERE and size % alignment == 0
            for size, fixed in zip(self.sizes, self.fixed, strict=True)
        ]
        numbers: dict[tuple[int, int], int] = {}
        sections = zip(self.firsts, self.lasts, strict=True)
        classes = [numbers.setdefault(key, len(numbers)) for key in sections]
        return {
            "sizes": self.sizes,
            "firsts": self.firsts,
            "lasts": self.lasts,
            "alignments": self.alignments,
            "fixed": self.fixed,
            "static": ranks,
            "by_static": by_rank,
            "twins": twins,
            "classes": [kind if free else -1 for kind, free in zip(classes, is_free, strict=True)],
            "starts": self.neighbour_starts,
            "neighbours": self.all_neighbours,
            "section_starts": [0, *accumulate(map(len, self.residents))],
            "residents": [i for members in self.residents for i in members],
            "options": [
                capacity,
                int(order.startswith("T")),
                int(self.is_fixed),
            ],
        }


def last_births(buffers: Sequence[BufferLifetime]) -> list[int]:
    """The steps at which a buffer is born and another dies before the next birth."""
    events = sorted({(b.first, 1) for b in buffers} | {(b.last, 0) for b in buffers})
    return [
        step
        for (step, is_birth), (_, is_next_birth) in pairwise(events)
        if is_birth and not is_next_birth
    ]


def sums_over(
    firsts: Sequence[int], ends: Sequence[int], amounts: Sequence[int], sections: int
) -> list[int]:
    """By section the sum of the amounts of all ranges [first, end) that contain it."""
    change = [0] * (sections + 1)
    for first, end, amount in zip(firsts, ends, amounts, strict=True):
        change[first] += amount
        change[end] -= amount
    return list(accumulate(change))[:-1]


class Search:
    """A search for a plan of one part within a capacity, in units, which can be continued."""

    def __init__(
        self, buffers: Buffers, part: Sequence[int], order: str, capacity: int, is_compiled: bool
    ) -> None:
        self.part = part
        self.status = plain.LIMIT
        self._begin, self._search = plain.begin_search, plain.search
        self.is_compiled = is_compiled
        has_room = capacity * len(buffers) < plain.INFINITY  # keys are such products
        if is_compiled and has_room and (compiled := compiled_functions()):
            self._begin, self._search = compiled
            self._column = lambda values: np.array(values, np.int64)
            self._zeros = lambda count: np.zeros(count, np.int64)
        else:
            self._column = list
            self._zeros = lambda count: [0] * count
        columns = buffers.columns(order, capacity)
        self._problem = Problem(**{name: self._column(c) for name, c in columns.items()})
        self._state = self._start(buffers, part)
        self._frames = Frames(*(self._zeros(len(part) + 2) for _ in Frames._fields))
        self._begin(self._problem, self._state, self._frames, self._column(part))

    def run(self, node_limit: int) -> int:
        """The status after so many nodes, all calls together: FOUND, IMPOSSIBLE or LIMIT."""
        if self.status == plain.LIMIT:
            self.status = int(self._search(self._problem, self._state, self._frames, node_limit))
        return self.status

    @property
    def nodes(self) -> int:
        return int(self._state.counts[NODES])

    @property
    def offsets(self) -> dict[int, int]:
        """Of every buffer of the part, once a plan is found."""
        assert self.status == FOUND
        return {i: int(self._state.results[i]) for i in self.part}

    def _start(self, buffers: Buffers, part: Sequence[int]) -> State:
        n, sections, m = len(buffers), len(buffers.live), len(part)
        lived = sum(buffers.lasts[i] - buffers.firsts[i] for i in part)
        room = min(m * (m + 3) // 2, POOL_PER_BUFFER * m) + m
        own = m + 2 * lived + sum(len(buffers.neighbours[i]) for i in part)
        # Ranks are noted once for every number in the pool, witnesses as often as they change.
        notes = own + 2 * room + lived + 2 * (m + 1 + n + 3 * sections)
        lengths = {
            "trail": 2 * notes,
            "counts": COUNTS,
            "pool": room,
            "line": room,
            "parts": 8 * m + 8,
            "floors": sections,
            "owners": sections,
        }
        made: dict[str, Any] = {
            name: self._zeros(lengths.get(name, n))
            for name in State._fields
            if name not in ("live", "cuts", "tops", "witnesses")
        }
        live, cuts = self._column(buffers.live), self._column(buffers.cuts)
        tops, witnesses = self._column([-1] * n), self._column([-1] * sections)
        return State(**made, live=live, cuts=cuts, tops=tops, witnesses=witnesses)


def compiled_functions() -> tuple[Any, Any] | None:
    """`begin_search` and `search` as numba compiles them, or None where it is not installed."""
    from explorer.memory.exact.compiled import compiled_functions

    return compiled_functions()
