"""A plan is lowered by ejection: what exceeds the capacity takes the place of what costs less.

    capacity 96, buffer d ends at 112                d waits
        -> of all offsets of d within 96, the one    d at 32 meets c alone: c waits
           whose occupants cost least
        -> c finds room that costs nothing           nothing waits: a plan within 96

A buffer costs the square root of its bytes times its steps. It costs more each time that it is
ejected, so that a place is not taken back and forth. The chain of moves ends where no buffer waits,
and the next capacity is lower. Ejection chains: Glover (Discrete Applied Mathematics 65, 1996).
Penalties: guided local search for packing, Faroe, Pisinger and Zachariasen (INFORMS Journal on
Computing 15, 2003).

State is in arrays of integers, and random numbers are made here, so that the compiled functions
(`compiled.py`) make the same moves.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from math import isqrt
from typing import Any, NamedTuple

import numpy as np

from explorer.memory.exact.problem import Buffers
from explorer.memory.exact.search import ANYWHERE, INFINITY

PICKS = 4
"""Of so many waiting buffers the most expensive one is placed next."""
PENALTIES = (3, 1)
"""Factors of a cost before the first ejection, which adds 1, by capacity in turn."""
STEPS = 4
"""The next capacity is lower by this part of the gap; by half of it after each failure."""
MOVES_PER_BUFFER = 5
"""A capacity is given up after so many."""
FAILURES = 6
"""In a row, after which twice as many moves are made."""
MAX_DOUBLINGS = 12
MOVES_PER_SLICE = 1_000
"""Between two looks at the clock."""


class State(NamedTuple):
    """Buffers by number, in the unit of `Buffers`."""

    sizes: Any
    alignments: Any
    areas: Any
    """Square roots of size times steps."""
    starts: Any
    """The neighbours of buffer i are `neighbours[starts[i]:starts[i + 1]]`."""
    neighbours: Any
    offsets: Any
    """`ANYWHERE`: the buffer waits."""
    penalties: Any
    waiting: Any
    lows: Any
    """Of the placed neighbours of one buffer, ascending: offset times buffers, plus number."""
    highs: Any
    """The same of their ends."""
    counts: Any
    """How many wait, and the state of the random numbers."""


def sort_keys(keys, count):
    """Sorts the first `count` keys in place."""
    keys[:count] = sorted(keys[:count])


def draw(counts):
    """A pseudorandom number below 2^24 (a linear congruential generator modulo 2^31)."""
    counts[1] = (counts[1] * 1103515245 + 12345) & 0x7FFFFFFF
    return counts[1] >> 7


def take_waiting(state):
    """The waiting buffer that is placed next, which no longer waits."""
    waiting, counts, areas = state.waiting, state.counts, state.areas
    place = draw(counts) % counts[0]
    for _ in range(PICKS - 1):
        other = draw(counts) % counts[0]
        if areas[waiting[other]] > areas[waiting[place]]:
            place = other
    buffer = waiting[place]
    counts[0] -= 1
    waiting[place] = waiting[counts[0]]
    return buffer


def sort_neighbours(state, buffer):
    """Fills `lows` and `highs`; how many neighbours are placed."""
    n, count = len(state.sizes), 0
    for k in range(state.starts[buffer], state.starts[buffer + 1]):
        j = state.neighbours[k]
        if state.offsets[j] != ANYWHERE:
            state.lows[count] = state.offsets[j] * n + j
            state.highs[count] = (state.offsets[j] + state.sizes[j]) * n + j
            count += 1
    sort_keys(state.lows, count)
    sort_keys(state.highs, count)
    return count


def find_cheapest(state, buffer, capacity, count):
    """(offset, cost) within the capacity: the lowest offset that is free, or of the offsets whose
    occupants cost least any one.

    The cost changes only where the buffer begins at the end of a neighbour, or ends at the begin of
    one; the offsets are tried from below.
    """
    n = len(state.sizes)
    lows, highs, areas, penalties = state.lows, state.highs, state.areas, state.penalties
    size, alignment = state.sizes[buffer], state.alignments[buffer]
    top = (capacity - size) // alignment * alignment
    low, high, below, above = 0, 0, 0, 0
    offset, cost = 0, 0
    best, least, equal = 0, INFINITY, 1
    while True:
        while below < count and lows[below] // n < offset + size:
            j = lows[below] % n
            cost += areas[j] * penalties[j]
            below += 1
        while above < count and highs[above] // n <= offset:
            j = highs[above] % n
            cost -= areas[j] * penalties[j]
            above += 1
        if cost < least:
            best, least, equal = offset, cost, 1
        elif cost == least:
            equal += 1
            if draw(state.counts) % equal == 0:
                best = offset
        if cost == 0 or offset == top:
            return best, least
        following = offset
        while following <= offset:
            under, over = top, top
            if low < count:
                under = (lows[low] // n - size) // alignment * alignment
            if high < count:
                over = -(-(highs[high] // n) // alignment) * alignment
            if low < count and under <= over:
                following = under
                low += 1
            elif high < count:
                following = over
                high += 1
            else:
                following = top
        offset = min(following, top)


def eject(state, capacity, moves):
    """The number of moves until no buffer waits, at most `moves`."""
    n, sizes, offsets, counts = len(state.sizes), state.sizes, state.offsets, state.counts
    for move in range(moves):
        if counts[0] == 0:
            return move
        buffer = take_waiting(state)
        count = sort_neighbours(state, buffer)
        offset, cost = find_cheapest(state, buffer, capacity, count)
        offsets[buffer] = offset
        if cost == 0:
            continue
        for k in range(count):
            j = state.lows[k] % n
            if offsets[j] < offset + sizes[buffer] and offset < offsets[j] + sizes[j]:
                offsets[j] = ANYWHERE
                state.penalties[j] += 1
                state.waiting[counts[0]] = j
                counts[0] += 1
    return moves


class Ejector:
    """Lowers a plan of buffers that have no fixed offsets; all offsets are in units."""

    def __init__(self, buffers: Buffers, offsets: Sequence[int], is_compiled: bool = False) -> None:
        self.sizes = buffers.sizes
        self.offsets = list(offsets)
        """Of the lowest plan that was found."""
        self.moves = 0
        self._eject, self._column = eject, list
        n = len(offsets)
        has_room = self.peak * n < INFINITY  # keys are such products
        if is_compiled and has_room and (compiled := compiled_eject()):
            self._eject, self._column = compiled, lambda values: np.array(values, np.int64)
        widest = max(map(len, buffers.neighbours), default=0)
        columns = {
            "sizes": buffers.sizes,
            "alignments": buffers.alignments,
            "areas": [
                max(1, isqrt(size * steps))
                for size, steps in zip(buffers.sizes, buffers.durations, strict=True)
            ],
            "starts": buffers.neighbour_starts,
            "neighbours": buffers.all_neighbours,
            "offsets": [ANYWHERE] * n,
            "penalties": [1] * n,
            "waiting": [0] * n,
            "lows": [0] * widest,
            "highs": [0] * widest,
            "counts": [0, 1],
        }
        self._state = State(**{name: self._column(values) for name, values in columns.items()})

    @property
    def peak(self) -> int:
        """Of the lowest plan that was found."""
        return max(map(sum, zip(self.offsets, self.sizes, strict=True)), default=0)

    def lower(self, enough: int, max_moves: int, deadline: float | None = None) -> None:
        """Looks for a lower plan until one is within `enough`.

        Without a deadline what is found depends on `max_moves` alone.
        """
        enough = max(enough, *self.sizes, 0)
        failures, few = 0, MOVES_PER_BUFFER * len(self.offsets)
        while (gap := self.peak - enough) > 0:
            doublings, narrower = divmod(failures, FAILURES)
            left = max_moves - self.moves
            is_late = deadline is not None and time.perf_counter() > deadline
            if left <= 0 or is_late or doublings > MAX_DOUBLINGS:
                return
            capacity = self.peak - max(1, gap // (STEPS << narrower))
            penalty = PENALTIES[failures % len(PENALTIES)]
            is_found = self._reach(capacity, penalty, min(few << doublings, left), deadline)
            failures = 0 if is_found else failures + 1

    def _reach(self, capacity: int, penalty: int, limit: int, deadline: float | None) -> bool:
        """Whether a plan within the capacity was found, which is then kept."""
        state = self._state
        state.counts[0] = 0
        for i, (offset, size) in enumerate(zip(self.offsets, self.sizes, strict=True)):
            state.penalties[i] = penalty
            state.offsets[i] = offset
            if offset + size > capacity:
                state.offsets[i] = ANYWHERE
                state.waiting[state.counts[0]] = i
                state.counts[0] += 1
        done = 0
        while state.counts[0] and done < limit:
            if deadline is not None and time.perf_counter() > deadline:
                break
            tried = int(self._eject(state, capacity, min(MOVES_PER_SLICE, limit - done)))
            done, self.moves = done + tried, self.moves + tried
        if state.counts[0]:
            return False
        self.offsets = [int(offset) for offset in state.offsets]
        return True


def compiled_eject() -> Any:
    """`eject` as numba compiles it, or None where it is not installed."""
    from explorer.memory.exact.compiled import compiled_eject

    return compiled_eject()
