"""The planner that searches: first at the live bound, then between it and the best known peak."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from explorer.errors import InputError
from explorer.memory.bounds import live_bytes
from explorer.memory.exact.problem import ORDERS, Buffers, Outcome
from explorer.memory.exact.search import FOUND, IMPOSSIBLE, LIMIT
from explorer.memory.planners import (
    GreedyPlanner,
    lowest_peak,
    make_plan,
    name_steps,
    peak_of,
)
from explorer.memory.verify import verify_buffers
from explorer.results.memory import BufferLifetime, MemoryPlan, PlanAttempt

GROWTH = 4
"""The limit of nodes grows so much from round to round."""
NODES_PER_BUFFER = 8
"""Of an order in the first round."""
MAX_BUFFERS = 2000
"""With more only greedy orders are tried: a search keeps the square of their number."""


@dataclass(frozen=True)
class ExactResult:
    """A plan, with what is known of the least peak."""

    plan: MemoryPlan
    lower_bound: int
    """No plan has a lower peak; at least the live bound."""
    nodes: int
    seconds: float

    @property
    def optimal(self) -> bool:
        return self.plan.peak_bytes == self.lower_bound


@dataclass(frozen=True)
class ExactPlanner:
    """Greedy orders, then a search at the live bound, then bisection.

    Without a time limit the plan depends on `max_nodes` alone, so that the same program gets the
    same plan on every machine.
    """

    max_nodes: int = 20_000
    """Placements that one order may try for one part at one capacity, in the last round."""
    time_limit: float | None = None
    """Seconds, looked at between searches."""
    greedy: GreedyPlanner = field(default_factory=GreedyPlanner)

    def __call__(self, buffers: Sequence[BufferLifetime], steps: Sequence[str] = ()) -> MemoryPlan:
        return self.solve(buffers, steps).plan

    def solve(
        self,
        buffers: Sequence[BufferLifetime],
        steps: Sequence[str] = (),
        fixed: Mapping[int, int] | None = None,
        capacity: int | None = None,
    ) -> ExactResult:
        """The plan with the lowest peak that was found.

        `fixed`: offsets in bytes by the number of the buffer. `capacity`: enough in bytes; the
        search stops at a plan within it. InputError where fixed buffers collide.
        """
        started = time.perf_counter()
        fixed = fixed or {}
        verify_buffers(buffers)
        _refuse_collisions(buffers, fixed)
        names = name_steps(buffers, steps)
        live = live_bytes(buffers, len(names))
        ends = (offset + buffers[i].size_bytes for i, offset in fixed.items())
        bound = max([*live, *ends], default=0)
        attempts, plans = self._greedy(buffers, steps) if not fixed else ([], {})
        chosen = lowest_peak(attempts) if attempts else 0
        # Without a plan: everything on top of one another is one.
        best = sum(b.size_bytes + b.alignment_bytes for b in buffers) + bound
        best = attempts[chosen].peak_bytes if attempts else best
        enough = bound if capacity is None else max(bound, capacity)
        run = _Run(self, Buffers(buffers, fixed), started)
        low = bound
        if best > enough and len(buffers) <= MAX_BUFFERS:
            low, offsets = run.minimize(bound, best, enough)
            if offsets is not None:
                chosen = len(attempts)
                plans[chosen] = [offsets.get(i, fixed.get(i, 0)) for i in range(len(buffers))]
                peak = peak_of(buffers, plans[chosen])
                seconds = time.perf_counter() - started
                attempts.append(PlanAttempt(f"search, {run.nodes:,} nodes", peak, seconds))
        if not attempts:
            raise InputError(
                "no plan with the fixed offsets was found",
                hint="a longer limit, other offsets, or at most "
                f"{MAX_BUFFERS:,} buffers where some are fixed",
            )
        plan = make_plan(buffers, plans[chosen], names, live, attempts, chosen)
        plan = replace(plan, optimal=plan.peak_bytes <= low)
        return ExactResult(plan, min(low, plan.peak_bytes), run.nodes, run.seconds)

    def _greedy(
        self, buffers: Sequence[BufferLifetime], steps: Sequence[str]
    ) -> tuple[list[PlanAttempt], dict[int, list[int]]]:
        """Attempts, and the offsets of the one that was chosen by its index."""
        plan = self.greedy(buffers, steps)
        offsets = [placed.offset_bytes for placed in plan.placements]
        return list(plan.attempts), {lowest_peak(plan.attempts): offsets}


def _refuse_collisions(buffers: Sequence[BufferLifetime], fixed: Mapping[int, int]) -> None:
    known = sorted(fixed.items(), key=lambda item: item[1])
    for place, (i, offset) in enumerate(known):
        one = buffers[i]
        if offset % one.alignment_bytes:
            raise InputError(
                f"buffer {one.id!r} is fixed at {offset}, which is no multiple of its alignment "
                f"{one.alignment_bytes}"
            )
        for j, other_offset in known[place + 1 :]:
            other = buffers[j]
            is_live = one.first < other.last and other.first < one.last
            if is_live and other.size_bytes and other_offset < offset + one.size_bytes:
                raise InputError(
                    f"buffers {one.id!r} and {other.id!r} are fixed at {offset} and "
                    f"{other_offset}, where they collide"
                )


class _Run:
    """One search for the least peak."""

    def __init__(self, planner: ExactPlanner, buffers: Buffers, started: float) -> None:
        self.planner = planner
        self.buffers = buffers
        self.started = started
        self.nodes = 0

    def minimize(self, bound: int, best: int, enough: int) -> tuple[int, dict[int, int] | None]:
        """(proven lower bound, the offsets of the best plan below `best` or None), in bytes.

        Every round bisects anew with a larger limit of nodes: what one round could not decide may
        be possible.
        """
        unit = self.buffers.unit
        if not unit:  # nothing has bytes
            return bound, {}
        proven, high = -(-bound // unit), -(-best // unit)  # a plan of `high` is known, or none
        target, known = max(proven, -(-enough // unit)), None
        limit = NODES_PER_BUFFER * max(map(len, self.buffers.parts))
        while True:
            low = proven
            capacity = max(low, min(target, high - 1))  # what is enough is tried first
            while low <= capacity < high and high > target:
                status, offsets = self.within(capacity, limit)
                if status == LIMIT and capacity == target:  # most likely to be possible
                    status, offsets = self.within(capacity, GROWTH * limit)
                if status == FOUND:
                    known, high = offsets, capacity
                else:
                    low = capacity + 1
                    proven = low if status == IMPOSSIBLE else proven
                if self._is_late():
                    break
                capacity = (low + high - 1) // 2
            if high <= max(target, proven) or limit >= self.planner.max_nodes or self._is_late():
                break
            limit = min(GROWTH * limit, self.planner.max_nodes)
        if known is not None:
            known = {self.buffers.numbers[i]: unit * offset for i, offset in known.items()}
        return max(bound, proven * unit), known

    def within(self, capacity: int, limit: int) -> tuple[int, dict[int, int]]:
        """A plan of all parts within a capacity, in units; each order may try `limit` nodes."""
        found: dict[int, int] = {}
        status = FOUND
        for part in self.buffers.parts:
            outcome = self._part(part, capacity, limit)
            if outcome.status == IMPOSSIBLE:
                return IMPOSSIBLE, {}
            if outcome.status == LIMIT:
                status = LIMIT  # another part may still be proven impossible
            found.update(outcome.offsets)
        return status, found if status == FOUND else {}

    def _part(self, part: Sequence[int], capacity: int, limit: int) -> Outcome:
        outcome = Outcome(LIMIT, 0)
        for order in ORDERS:
            outcome = self.buffers.solve(part, order, capacity, limit)
            self.nodes += outcome.nodes
            if outcome.status != LIMIT or self._is_late():
                return outcome
        return outcome

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.started

    def _is_late(self) -> bool:
        limit = self.planner.time_limit
        return limit is not None and self.seconds > limit
