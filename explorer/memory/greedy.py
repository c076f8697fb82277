"""Greedy placement: take the buffers one by one in some order, give each an offset for good.

    a: 64 bytes, steps 0-1      ->      offset  0   the arena is empty
    c: 64 bytes, step 2         ->      offset  0   a is dead by then
    b: 32 bytes, steps 1-2      ->      offset 64   a and c live beside it, no gap below

A `Strategy` is an order and a rule of where the next buffer goes. Its *neighbours* are the
buffers that live at the same time.

    first    into the lowest gap between placed neighbours that is large enough
    best     into the smallest gap that is large enough; on top if there is none
    lowest   the order only breaks ties: next comes the buffer that can lie lowest on top of its
             placed neighbours, so that the arena fills from the bottom up

None is best on all programs, but all are cheap, so a planner tries many. By size: Pisarchyk and
Lee, "Efficient Memory Management for Deep Neural Net Inference" (2020). By most live bytes, area
and lifetime: Moffitt, "MiniMalloc: A Lightweight Memory Allocator for Hardware-Accelerated
Machine Learning" (ASPLOS 2023).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from explorer.results.memory import BufferLifetime

Key = Literal["size", "lifetime", "area", "pressure", "neighbours", "start", "end"]
Fit = Literal["first", "best", "lowest"]
Integers = NDArray[np.int64]

UNBOUNDED = np.iinfo(np.int64).max
"""Above every address."""
MAX_NEIGHBOURS = 64
"""On average per buffer: with more, arrays are faster than lists of neighbours."""


@dataclass(frozen=True)
class Strategy:
    """Keys that order the buffers, the most significant one first, and a rule that places them.

    `size`, `lifetime`, `area` (size times lifetime), `pressure` (most bytes live at once while
    the buffer lives) and `neighbours` (how many) order from large to small, `start` and `end`
    (first and last step) from early to late. Buffers that are equal keep the given order.
    """

    keys: tuple[Key, ...]
    fit: Fit

    @property
    def name(self) -> str:
        return f"{' / '.join(self.keys)}, {self.fit} fit"


STRATEGIES = (
    Strategy(("size", "lifetime"), "first"),
    Strategy(("size", "lifetime"), "best"),
    Strategy(("start", "area"), "lowest"),
    Strategy(("area",), "lowest"),
    Strategy(("pressure", "end"), "first"),
    Strategy(("start", "lifetime"), "lowest"),
    Strategy(("pressure", "start"), "lowest"),
    Strategy(("pressure", "lifetime"), "lowest"),
    Strategy(("pressure", "neighbours"), "lowest"),
    Strategy(("pressure", "area"), "lowest"),
    Strategy(("start", "end"), "lowest"),
    Strategy(("start", "size"), "lowest"),
    Strategy(("start", "pressure"), "lowest"),
    Strategy(("lifetime", "size"), "lowest"),
    Strategy(("start", "area"), "first"),
    Strategy(("start", "end"), "best"),
    Strategy(("pressure", "end"), "best"),
    Strategy(("area",), "first"),
    Strategy(("area",), "best"),
    Strategy(("lifetime", "size"), "first"),
    Strategy(("lifetime", "size"), "best"),
    Strategy(("neighbours", "size"), "first"),
    Strategy(("end", "size"), "first"),
    Strategy(("end", "size"), "best"),
)
"""Those first that reach the bound of most networks, then those that win on hard problems."""


@dataclass(frozen=True)
class Columns:
    """The buffers as arrays, one entry per buffer."""

    sizes: Integers
    alignments: Integers
    firsts: Integers
    lasts: Integers

    @classmethod
    def of(cls, buffers: Sequence[BufferLifetime]) -> Columns:
        return cls(
            sizes=column(buffer.size_bytes for buffer in buffers),
            alignments=column(buffer.alignment_bytes for buffer in buffers),
            firsts=column(buffer.first for buffer in buffers),
            lasts=column(buffer.last for buffer in buffers),
        )

    @cached_property
    def neighbour_counts(self) -> Integers:
        """Of every buffer: those born before its end, less those that are dead before it starts."""
        born = np.searchsorted(np.sort(self.firsts), self.lasts, side="left")
        dead = np.searchsorted(np.sort(self.lasts), self.firsts, side="right")
        return born - dead - 1

    @cached_property
    def neighbours(self) -> list[list[int]] | None:
        """Of every buffer those that live at the same time, ascending; None where there are more
        than `MAX_NEIGHBOURS`."""
        count = len(self.sizes)
        if int(self.neighbour_counts.sum()) > MAX_NEIGHBOURS * count:
            return None
        firsts, lasts = self.firsts.tolist(), self.lasts.tolist()
        found: list[list[int]] = [[] for _ in range(count)]
        active: list[int] = []
        for i in sorted(range(count), key=firsts.__getitem__):
            active = [j for j in active if lasts[j] > firsts[i]]
            for j in active:
                found[j].append(i)
            found[i] += active
            active.append(i)
        for near in found:
            near.sort()
        return found

    def living_with(self, index: int) -> list[int]:
        """The neighbours of one buffer, ascending."""
        if self.neighbours is not None:
            return self.neighbours[index]
        meet = (self.firsts < self.lasts[index]) & (self.lasts > self.firsts[index])
        meet[index] = False
        return np.flatnonzero(meet).tolist()

    def take(self, order: NDArray[np.intp]) -> Columns:
        return Columns(
            self.sizes[order], self.alignments[order], self.firsts[order], self.lasts[order]
        )


def sort_keys(columns: Columns, live_bytes: Sequence[int]) -> dict[Key, Integers]:
    """For every key the array to sort by, ascending. `live_bytes` has one entry per step."""
    live = column(live_bytes)
    lifetimes = columns.lasts - columns.firsts
    steps = zip(columns.firsts.tolist(), columns.lasts.tolist(), strict=True)
    pressures = column(live[first:last].max() for first, last in steps)
    return {
        "size": -columns.sizes,
        "lifetime": -lifetimes,
        "area": -columns.sizes * lifetimes,
        "pressure": -pressures,
        "neighbours": -columns.neighbour_counts,
        "start": columns.firsts,
        "end": columns.lasts,
    }


def place(columns: Columns, keys: dict[Key, Integers], strategy: Strategy) -> list[int]:
    """The offset in bytes of every buffer, in the order of `columns`."""
    # lexsort takes the most significant key last, and is stable.
    order = np.lexsort([keys[key] for key in reversed(strategy.keys)])
    if columns.neighbours is not None:
        if strategy.fit == "lowest":
            return place_lowest_by_neighbours(columns, columns.neighbours, order.tolist())
        return place_by_neighbours(columns, columns.neighbours, order.tolist(), strategy.fit)
    in_order = columns.take(order)
    offsets = np.empty(len(order), dtype=np.int64)
    if strategy.fit == "lowest":
        offsets[order] = place_lowest(in_order)
    else:
        offsets[order] = place_into_gaps(in_order, strategy.fit)
    return offsets.tolist()


def place_into_gaps(columns: Columns, fit: Fit) -> Integers:
    """Offsets by first or best fit, for buffers that already stand in the order of placement."""
    firsts, lasts = columns.firsts, columns.lasts
    offsets = np.zeros(len(firsts), dtype=np.int64)
    ends = np.zeros(len(firsts), dtype=np.int64)
    for index, (size, alignment, first, last) in enumerate(rows(columns)):
        if size == 0:
            continue  # takes no room, so it lies at 0 beside whatever is there
        neighbours = np.flatnonzero((firsts[:index] < last) & (lasts[:index] > first))
        if len(neighbours):
            neighbours = neighbours[np.argsort(offsets[neighbours])]
            offsets[index] = find_gap(
                offsets[neighbours], ends[neighbours], size, alignment, smallest=fit == "best"
            )
        ends[index] = offsets[index] + size
    return offsets


def find_gap(starts: Integers, ends: Integers, size: int, alignment: int, smallest: bool) -> int:
    """The lowest offset, or that in the smallest gap, where `size` bytes lie beside neighbours.

    `starts` ascend. Gap i reaches from the highest end of the neighbours before i to start i;
    the last one has no ceiling.
    """
    floors = np.zeros(len(starts) + 1, dtype=np.int64)
    np.maximum.accumulate(ends, out=floors[1:])
    floors += -floors % alignment
    ceilings = np.full(len(starts) + 1, UNBOUNDED)
    ceilings[:-1] = starts
    rooms = ceilings - floors
    fitting = rooms >= size
    gap = np.where(fitting, rooms, UNBOUNDED).argmin() if smallest else fitting.argmax()
    return int(floors[gap])


def place_lowest(columns: Columns) -> Integers:
    """Offsets from the bottom up; the order of the buffers breaks ties."""
    firsts, lasts = columns.firsts, columns.lasts
    buffers = list(rows(columns))
    offsets = np.zeros(len(buffers), dtype=np.int64)
    floors = np.zeros(len(buffers), dtype=np.int64)
    """The lowest offset on top of all placed neighbours; unbounded for what is placed."""
    for _ in buffers:
        index = int(floors.argmin())  # the first of several equal ones
        size, _, first, last = buffers[index]
        offsets[index] = floors[index]
        floors[index] = UNBOUNDED
        if size == 0:
            offsets[index] = 0
            continue
        top = offsets[index] + size
        raised = (firsts < last) & (lasts > first) & (floors < top)
        floors[raised] = top + -top % columns.alignments[raised]
    return offsets


def place_by_neighbours(
    columns: Columns, neighbours: Sequence[Sequence[int]], order: Sequence[int], fit: Fit
) -> list[int]:
    """The offsets of `place_into_gaps`, in time that grows with the number of neighbours."""
    buffers = list(rows(columns))
    offsets = [0] * len(buffers)
    ends = [0] * len(buffers)
    """0: has no place yet, or takes no room."""
    for index in order:
        size, alignment, _, _ = buffers[index]
        if size == 0:
            continue
        floor, place, least = 0, None, UNBOUNDED
        for start, end in sorted([(offsets[j], ends[j]) for j in neighbours[index] if ends[j]]):
            room = start - floor
            if size <= room < least:
                place, least = floor, room
                if fit == "first":
                    break
            if end > floor:
                floor = end + -end % alignment
        offsets[index] = floor if place is None else place
        ends[index] = offsets[index] + size
    return offsets


def place_lowest_by_neighbours(
    columns: Columns, neighbours: Sequence[Sequence[int]], order: Sequence[int]
) -> list[int]:
    """The offsets of `place_lowest`, in time that grows with the number of neighbours."""
    buffers = list(rows(columns))
    floors: list[int] = [0] * len(buffers)
    ranks = [0] * len(buffers)
    for rank, index in enumerate(order):
        ranks[index] = rank
    is_placed = [False] * len(buffers)
    waiting = list(zip(floors, range(len(order)), strict=True))
    """(floor, rank) of what has no place yet, also those of floors that rose since."""
    while waiting:
        floor, rank = heappop(waiting)
        index = order[rank]
        if is_placed[index] or floor < floors[index]:
            continue
        is_placed[index] = True
        size = buffers[index][0]
        if size == 0:
            floors[index] = 0
            continue
        top = floor + size
        for j in neighbours[index]:
            if floors[j] < top and not is_placed[j]:
                floors[j] = top + -top % buffers[j][1]
                heappush(waiting, (floors[j], ranks[j]))
    return floors


def rows(columns: Columns) -> Iterable[tuple[int, int, int, int]]:
    """(size, alignment, first, last) of each buffer as Python's integers."""
    return zip(
        columns.sizes.tolist(),
        columns.alignments.tolist(),
        columns.firsts.tolist(),
        columns.lasts.tolist(),
        strict=True,
    )


def column(values: Iterable[int]) -> Integers:
    return np.fromiter(values, dtype=np.int64)
