"""A plan is lowered by ejection: what exceeds the capacity takes the place of what costs less.

    capacity 96, buffer d ends at 112                d waits
        -> of all offsets of d within 96, the one    d at 32 meets c alone: c waits
           where the buffers it meets cost least
        -> c finds room that costs nothing           nothing waits: a plan within 96

A buffer costs the square root of its bytes times its steps. It costs more each time that it is
ejected, so that a place is not taken back and forth. The chain of moves ends where no buffer waits,
and the next capacity is lower. Ejection chains: Glover (Discrete Applied Mathematics 65, 1996).
Penalties: guided local search for packing, Faroe, Pisinger and Zachariasen (INFORMS Journal on
Computing 15, 2003).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from math import isqrt
from typing import Any

import numpy as np

from explorer.memory.exact.moves import PLACED, WAITING, State, eject, put
from explorer.memory.exact.problem import Buffers
from explorer.memory.exact.search import ANYWHERE, INFINITY

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


class Ejector:
    """Lowers a plan of buffers that have no fixed offsets; all offsets are in units."""

    def __init__(self, buffers: Buffers, offsets: Sequence[int], is_compiled: bool = False) -> None:
        self.sizes = buffers.sizes
        self.offsets = list(offsets)
        """Of the lowest plan that was found."""
        self.moves = 0
        self._eject, self._column = eject, list
        n, bits = len(offsets), len(offsets).bit_length()
        has_room = self.peak << bits < INFINITY
        if is_compiled and has_room and (compiled := compiled_eject()):
            self._eject, self._column = compiled, lambda values: np.array(values, np.int64)
        columns = {
            "sizes": buffers.sizes,
            "alignments": buffers.alignments,
            "areas": [
                max(1, isqrt(size * steps))
                for size, steps in zip(buffers.sizes, buffers.durations, strict=True)
            ],
            "firsts": buffers.firsts,
            "lasts": buffers.lasts,
            "offsets": [ANYWHERE] * n,
            "penalties": [1] * n,
            "waiting": [0] * n,
            "all_lows": [0] * n,
            "all_highs": [0] * n,
            "lows": [0] * (n + 1),
            "highs": [0] * (n + 1),
            "counts": [0, 0, 1, bits],
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
        state.counts[WAITING] = state.counts[PLACED] = 0
        for i, (offset, size) in enumerate(zip(self.offsets, self.sizes, strict=True)):
            state.penalties[i] = penalty
            if offset + size > capacity:
                state.offsets[i] = ANYWHERE
                state.waiting[state.counts[WAITING]] = i
                state.counts[WAITING] += 1
            else:
                put(state, i, offset)
        done = 0
        while state.counts[WAITING] and done < limit:
            if deadline is not None and time.perf_counter() > deadline:
                break
            tried = int(self._eject(state, capacity, min(MOVES_PER_SLICE, limit - done)))
            done, self.moves = done + tried, self.moves + tried
        if state.counts[WAITING]:
            return False
        self.offsets = [int(offset) for offset in state.offsets]
        return True


def compiled_eject() -> Any:
    """`eject` as numba compiles it, or None where it is not installed."""
    from explorer.memory.exact.compiled import compiled_eject

    return compiled_eject()
