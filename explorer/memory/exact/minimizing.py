"""The least capacity that holds all buffers: the live bound is tried, then less and less.

    parts [{a, b, c}, {d}], bound 96, a plan of 128 is known
        -> at 96: part 0 has no plan, within any limit        proven: nothing below 97
        -> at 112: part 0 is found, peak 104; part 1 is found and kept for every capacity above
        -> at 100: the limit is reached                       [97, 104] is what is known

All capacities are in units of `Buffers.unit`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from explorer.memory.exact.problem import ORDERS, Buffers, Search
from explorer.memory.exact.search import FOUND, IMPOSSIBLE, LIMIT

GROWTH = 4
"""The limit of nodes grows so much from round to round."""
STEPS = (4, 16)
"""Parts of the gap by which a round goes down."""
NODES_PER_BUFFER = 16
"""Of an order in the first round."""
MAX_PLAIN_BUFFERS, MAX_PLAIN_NODES = 100, 5000
"""Up to so many buffers, the first so many nodes are searched without numba."""
SLICE_NODES = 2000
"""Nodes between two looks at the clock."""

Prover = Callable[[Buffers, Sequence[int], int, float], tuple[int, dict[int, int]]]
"""(buffers, part, capacity, seconds) -> status, offsets: another way to decide about a part."""


@dataclass
class PartPlan:
    """What is known of one part."""

    members: Sequence[int]
    bound: int
    """No plan is smaller."""
    peak: int | None = None
    """Of the best plan that was found, and its offsets."""
    offsets: dict[int, int] | None = None
    order: str = ""
    """By which the last plan was found: it is tried first."""


class Minimizer:
    """One search for the least capacity, within limits of nodes and of time."""

    def __init__(
        self,
        buffers: Buffers,
        max_nodes: int,
        deadline: float | None = None,
        is_compiled: bool = False,
        prover: Prover | None = None,
        orders: Sequence[str] = ORDERS,
    ) -> None:
        self.buffers = buffers
        self.max_nodes = max_nodes
        self.deadline = deadline
        self.is_compiled = is_compiled
        self.prover = prover
        self.orders = orders
        self.nodes = 0
        self.parts = [PartPlan(part, buffers.live_in(part)) for part in buffers.parts]
        self._open: dict[tuple[int, str, int], Search] = {}
        """Searches that reached their limit, by part, order and capacity."""

    @property
    def first_limit(self) -> int:
        """Nodes of a search in the first round; few where few are allowed, so that every order
        is tried."""
        largest = max((len(part.members) for part in self.parts), default=0)
        return min(NODES_PER_BUFFER * largest, max(2 * largest, self.max_nodes // 8))

    def minimize(self, low: int, high: int, enough: int) -> tuple[int, dict[int, int] | None]:
        """The least capacity that is not proven too small, and a plan below `high`, or None.

        `low`: no plan is smaller; `high`: one is known; `enough`: no smaller one is needed.
        Every round has a larger limit of nodes. It tries what is enough, and then goes down from
        what is known, by a quarter of the gap as long as plans are found, then by smaller parts:
        a capacity near the bound takes far more nodes than one that is little smaller.
        """
        target, found, limit = max(low, enough), None, self.first_limit
        while low < high and high > target and not self._is_over():
            for part in (0, *STEPS):
                while low < high and high > target and not self._is_over():
                    step = max(1, (high - target) // part) if part else high
                    capacity = max(low, target, high - step)
                    # What is enough is likely to be possible, until many nodes have not found it.
                    is_hard = target == low and self.nodes > MAX_PLAIN_NODES
                    more = 1 if part or is_hard else GROWTH
                    status = self.within(capacity, more * limit)
                    if status == FOUND:
                        found, high = self.plan(), max(p.peak or 0 for p in self.parts)
                        continue
                    low = capacity + 1 if status == IMPOSSIBLE else low
                    target = max(target, low)
                    break
            if self.prover is not None and low < high and high > target:
                low, high, better = self._prove(low, high, target)
                found = better or found
            self._forget(low, high)
            limit *= GROWTH
        return low, found

    def within(self, capacity: int, limit: int) -> int:
        """Whether all parts have plans within a capacity; each order may try `limit` nodes."""
        status = FOUND
        for number, part in enumerate(self.parts):
            if part.peak is not None and part.peak <= capacity:
                continue
            if part.bound > capacity:
                return IMPOSSIBLE
            decided = self._search(number, part, capacity, limit)
            if decided == IMPOSSIBLE:
                return IMPOSSIBLE
            if decided == LIMIT:
                status = LIMIT  # another part may still be proven impossible
        return status

    def _search(self, number: int, part: PartPlan, capacity: int, limit: int) -> int:
        for order in sorted(self.orders, key=lambda order: order != part.order):
            key = (number, order, capacity)
            search = self._open.get(key)
            is_compiled = self.is_compiled and self._is_large()
            if search is None or (is_compiled and not search.is_compiled):
                search = Search(self.buffers, part.members, order, capacity, is_compiled)
                self._open[key] = search
            while search.nodes < limit and not self._is_over():
                before = search.nodes
                left = self.max_nodes - self.nodes
                search.run(min(limit, before + SLICE_NODES, before + left))
                self.nodes += search.nodes - before
                if search.status == FOUND:
                    self._keep(part, search.offsets)
                    part.order = order
                    return FOUND
                if search.status == IMPOSSIBLE:
                    part.bound = max(part.bound, capacity + 1)
                    return IMPOSSIBLE
                if search.nodes == before:  # its pools are full
                    break
        return LIMIT

    def _keep(self, part: PartPlan, offsets: dict[int, int]) -> None:
        part.offsets = offsets
        part.peak = max(offset + self.buffers.sizes[i] for i, offset in offsets.items())

    def _prove(self, low: int, high: int, target: int) -> tuple[int, int, dict[int, int] | None]:
        """What the second prover decides at `target`, or where that is impossible, halfway."""
        assert self.prover is not None and self.deadline is not None
        capacity = target if low <= target else (low + high - 1) // 2
        for part in self.parts:
            if part.peak is not None and part.peak <= capacity:
                continue
            seconds = (self.deadline - time.perf_counter()) / 3
            if seconds <= 0:
                return low, high, None
            status, offsets = self.prover(self.buffers, part.members, capacity, seconds)
            if status == IMPOSSIBLE:
                part.bound = max(part.bound, capacity + 1)
                return capacity + 1, high, None
            if status == LIMIT:
                return low, high, None
            self._keep(part, offsets)
        return low, max(part.peak or 0 for part in self.parts), self.plan()

    def plan(self) -> dict[int, int]:
        """Offsets of the best plans of all parts."""
        return {i: o for part in self.parts if part.offsets for i, o in part.offsets.items()}

    def _forget(self, low: int, high: int) -> None:
        self._open = {key: s for key, s in self._open.items() if low <= key[2] < high}

    def _is_large(self) -> bool:
        """Whether loading what is compiled is worth its time."""
        return len(self.buffers) > MAX_PLAIN_BUFFERS or self.nodes > MAX_PLAIN_NODES

    def _is_over(self) -> bool:
        is_late = self.deadline is not None and time.perf_counter() > self.deadline
        return is_late or self.nodes >= self.max_nodes
