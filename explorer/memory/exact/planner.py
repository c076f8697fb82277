"""The planner that searches: greedy orders first, then what lies between them and the bound."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from explorer.errors import InputError
from explorer.memory.exact.around_peak import placed_around_peak
from explorer.memory.exact.ejecting import Ejector
from explorer.memory.exact.forbidden import Range, solve_around
from explorer.memory.exact.joining import Joining, joined_buffers
from explorer.memory.exact.minimizing import Minimizer
from explorer.memory.exact.problem import Buffers
from explorer.memory.exact.prover import has_prover, prove
from explorer.memory.exact.repairing import MIN_BUFFERS, repaired
from explorer.memory.exact.result import ExactResult
from explorer.memory.exact.search import FOUND
from explorer.memory.greedy import Columns
from explorer.memory.pinned import PinnedPlanner, place_around
from explorer.memory.planners import (
    GreedyPlanner,
    lowest_peak,
    make_plan,
    peak_of,
)
from explorer.memory.verify import verify_buffers
from explorer.results.memory import BufferLifetime, MemoryPlan, PlanAttempt

MAX_PAIRS = 4_000_000
"""Of buffers that live at the same time: a search keeps all of them. With more only greedy orders
are tried, also around the fullest step."""
MAX_PLAIN_PAIRS = 200_000
"""The same where the search is not compiled."""
MANY_NODES = 10_000
"""With more, the search may be compiled, where numba is installed."""
QUICK_STRATEGIES = 6
"""Greedy ones that are tried before the first round of a search."""
MAX_SEARCHED_FIRST = 2_000
"""Buffers; with more, a search of the whole comes after ejection: one node takes long."""
FIRST_MOVES_PER_BUFFER = 30
"""Of ejection, before the search goes on."""
FIRST_SEARCH, EJECTION = 0.5, 0.9
"""Parts of the time limit at which a small problem goes from the search to ejection and back."""
FEW_BLOCKS = 0.8
"""Of the buffers: where no more fit together exactly, blocks are not tried."""
FEW_LONG, LONG_FIRST = 0.5, 0.4
"""Where fewer of the blocks live for more than one step, ejection begins with those: until this
part of the time limit and of all moves is over."""
FIRST_STRATEGIES = 3
"""Of these before a long plan is searched again where it is too large."""


@dataclass(frozen=True)
class ExactPlanner:
    """Greedy orders, then a search at the live bound, then bisection.

    Without a time limit the plan depends on `max_nodes` alone, so that the same program gets the
    same plan on every machine, with numba and without.
    """

    max_nodes: int = 2_000
    """Placements that all searches of the whole together may try, and all of single places."""
    time_limit: float | None = None
    """Seconds of search, and of the second prover where OR-Tools is installed."""
    forbidden: tuple[Range, ...] = ()
    """Bytes [first, end) of the arena that no buffer may take."""
    greedy: GreedyPlanner = field(default_factory=GreedyPlanner)

    def __call__(self, buffers: Sequence[BufferLifetime], steps: Sequence[str] = ()) -> MemoryPlan:
        return self.solve(buffers, steps).plan

    def solve(
        self,
        buffers: Sequence[BufferLifetime],
        steps: Sequence[str] = (),
        fixed: Mapping[int, int] | None = None,
        capacity: int | None = None,
        durations: Sequence[int] | None = None,
    ) -> ExactResult:
        """The plan with the lowest peak that was found.

        `fixed`: offsets in bytes by the number of the buffer. `capacity`: enough in bytes; the
        search stops at a plan within it. `durations`: of the buffers, in the unit of the order
        (by default steps). InputError where fixed buffers collide.
        """
        started = time.perf_counter()
        fixed = fixed or {}
        if self.forbidden:
            return self._around(buffers, steps, fixed, capacity, durations)
        verify_buffers(buffers)
        refuse_collisions(buffers, fixed)
        is_compiled = self.max_nodes > MANY_NODES
        plan = self._first_orders(buffers, steps, fixed)
        ends = (offset + buffers[i].size_bytes for i, offset in fixed.items())
        bound = max([plan.bound_bytes, *ends])
        enough = bound if capacity is None else max(bound, capacity)
        low, nodes = bound, 0
        if not fixed:
            plan, nodes = self._quick_orders(plan, steps, enough, started)
        columns = Buffers(buffers, fixed, durations) if plan.peak_bytes > enough else None
        most_pairs = MAX_PAIRS if is_compiled else MAX_PLAIN_PAIRS
        if columns is not None and columns.pairs > most_pairs:
            plan = plan if fixed else self._around_peak(plan, enough)
            if plan.peak_bytes > enough:
                plan, nodes = self._all_orders(plan, columns, steps, enough, started)
        elif columns is not None:
            is_small = len(columns) <= MAX_SEARCHED_FIRST
            deadline = self._deadline(started, FIRST_SEARCH if is_small and not fixed else 1)
            prover = prove if deadline is not None and has_prover() else None
            search = Minimizer(columns, self.max_nodes, deadline, is_compiled, prover)
            unit = columns.unit
            quick = max(-(-bound // unit), enough // unit)
            if is_small and search.within(quick, search.first_limit) == FOUND:
                found = search.plan()
            else:
                plan, moves = self._all_orders(plan, columns, steps, enough, started)
                nodes, search.max_nodes = nodes + moves, search.max_nodes - moves
                known = -(-plan.peak_bytes // unit)
                low, found = search.minimize(-(-bound // unit), known, enough // unit)
                low = max(bound, low * unit)
            if found is not None:
                plan = self._placed(plan, columns, found, nodes + search.nodes, started)
            if is_small and not fixed and deadline is not None and plan.peak_bytes > enough:
                plan, moves = self._ejected(plan, columns, max(enough, low), started)
                search.deadline, nodes = self._deadline(started), nodes + moves
                known = -(-plan.peak_bytes // unit)
                least, found = search.minimize(-(-low // unit), known, enough // unit)
                low = max(low, least * unit)
                if found is not None:
                    plan = self._placed(plan, columns, found, nodes + search.nodes, started)
            nodes += search.nodes
        plan = replace(plan, optimal=plan.peak_bytes <= low)
        seconds = time.perf_counter() - started
        return ExactResult(plan, min(low, plan.peak_bytes), nodes, seconds)

    def _around(
        self,
        buffers: Sequence[BufferLifetime],
        steps: Sequence[str],
        fixed: Mapping[int, int],
        capacity: int | None,
        durations: Sequence[int] | None,
    ) -> ExactResult:
        """The plan around the forbidden ranges."""
        planner = replace(self, forbidden=())

        def solve(
            with_ranges: Sequence[BufferLifetime], with_places: Mapping[int, int]
        ) -> ExactResult:
            longer = None
            if durations is not None:
                more = len(with_ranges) - len(durations)
                longer = [*durations, *([max(durations, default=1)] * more)]
            return planner.solve(with_ranges, (), with_places, capacity, longer)

        return solve_around(solve, buffers, steps, fixed, self.forbidden)

    def _first_orders(
        self, buffers: Sequence[BufferLifetime], steps: Sequence[str], fixed: Mapping[int, int]
    ) -> MemoryPlan:
        """By the first strategies; around fixed buffers by all."""
        if not fixed:
            kept = self.greedy.strategies[: first_strategies(buffers)]
            return replace(self.greedy, strategies=kept)(buffers, steps)
        pins = tuple((buffers[i].id, offset) for i, offset in fixed.items())
        return PinnedPlanner(pins)(buffers, steps)

    def _quick_orders(
        self, plan: MemoryPlan, steps: Sequence[str], enough: int, started: float
    ) -> tuple[MemoryPlan, int]:
        """By some strategies more, where searching again in some steps does not do; and nodes."""
        if plan.peak_bytes <= enough:
            return plan, 0
        plan, nodes = self._repaired(plan, enough, started)
        if plan.peak_bytes > enough:
            first = first_strategies(plan.placements)
            plan = self._more_orders(plan, steps, first, QUICK_STRATEGIES)
        return plan, nodes

    def _more_orders(
        self, plan: MemoryPlan, steps: Sequence[str], first: int, last: int | None
    ) -> MemoryPlan:
        """By the strategies [first, last) too."""
        others = self.greedy.strategies[first:last]
        left = self.greedy.most_placements - len(plan.attempts) * len(plan.placements)
        if not others or left <= 0:
            return plan
        buffers = [placed.buffer for placed in plan.placements]
        greedy = replace(self.greedy, strategies=others, most_placements=left)
        return better_plan(plan, greedy(buffers, steps))

    def _all_orders(
        self,
        plan: MemoryPlan,
        columns: Buffers,
        steps: Sequence[str],
        enough: int,
        started: float,
    ) -> tuple[MemoryPlan, int]:
        """Lowered by ejection where many nodes are allowed, or by the other strategies; and the
        moves."""
        if columns.is_fixed:
            return plan, 0
        moves = 0
        if self.max_nodes > MANY_NODES:
            plan, moves = self._joined(plan, enough, started)
            if not moves and plan.peak_bytes > enough:
                is_small = len(columns) <= MAX_SEARCHED_FIRST
                most = FIRST_MOVES_PER_BUFFER * len(columns) if is_small else None
                plan, moves = self._ejected(plan, columns, enough, started, most)
        if not moves and plan.peak_bytes > enough:
            plan = self._more_orders(plan, steps, QUICK_STRATEGIES, None)
        return plan, moves

    def _ejected(
        self,
        plan: MemoryPlan,
        columns: Buffers,
        enough: int,
        started: float,
        most: int | None = None,
    ) -> tuple[MemoryPlan, int]:
        """The plan, lowered by ejection; and the moves, 0 where too many buffers meet."""
        buffers = [placed.buffer for placed in plan.placements]
        offsets = [placed.offset_bytes for placed in plan.placements]
        found, moves = self._lowered(columns, offsets, enough, started, most)
        if peak_of(buffers, found) >= plan.peak_bytes:
            return plan, moves
        return with_attempt(plan, f"ejection, {moves:,} moves", found, started), moves

    def _joined(self, plan: MemoryPlan, enough: int, started: float) -> tuple[MemoryPlan, int]:
        """The plan, or one of blocks that fit together exactly, where that is smaller; and moves
        of ejection, 0 where too few fit."""
        buffers = [placed.buffer for placed in plan.placements]
        alignment = math.lcm(*(buffer.alignment_bytes for buffer in buffers))
        if any(buffer.size_bytes % alignment for buffer in buffers):
            return plan, 0  # stacks would have gaps
        joining = Joining(buffers)
        blocks = joined_buffers(joining, alignment)
        if len(blocks) > FEW_BLOCKS * len(buffers):
            return plan, 0
        few = replace(self.greedy, strategies=self.greedy.strategies[:QUICK_STRATEGIES])
        found = few(blocks)
        starts = [placed.offset_bytes for placed in found.placements]
        starts, first_moves = self._long_first(blocks, starts, enough, started)
        starts, moves = self._lowered(Buffers(blocks, {}), starts, enough, started)
        moves += first_moves
        if peak_of(blocks, starts) >= plan.peak_bytes:
            return plan, moves
        offsets = joining.offsets(dict(zip(joining.numbers, starts, strict=True)))
        in_order = [offsets[i] for i in range(len(buffers))]
        name = f"ejection, {moves:,} moves of {len(blocks):,} blocks that fit exactly"
        return with_attempt(plan, name, in_order, started), moves

    def _long_first(
        self, blocks: Sequence[BufferLifetime], starts: list[int], enough: int, started: float
    ) -> tuple[list[int], int]:
        """Lower offsets, where most blocks live for one step: ejection of the others, then the
        smallest gap for each of those, and the moves."""
        long = [i for i, block in enumerate(blocks) if block.last - block.first > 1]
        if not long or len(long) > FEW_LONG * len(blocks):
            return starts, 0
        columns = Buffers([blocks[i] for i in long], {})
        most = int(LONG_FIRST * self.max_nodes)
        own = [starts[i] for i in long]
        lowered, moves = self._lowered(columns, own, enough, started, most, LONG_FIRST)
        fixed = dict(zip(long, lowered, strict=True))
        short = [i for i in range(len(blocks)) if i not in fixed]
        short.sort(key=lambda i: -blocks[i].size_bytes)
        found = place_around(Columns.of(blocks), short, fixed, "best")
        return min(starts, found, key=lambda offsets: peak_of(blocks, offsets)), moves

    def _lowered(
        self,
        columns: Buffers,
        offsets: Sequence[int],
        enough: int,
        started: float,
        most: int | None = None,
        part: float = 1,
    ) -> tuple[list[int], int]:
        """Offsets in bytes of a plan that is at most as large, and the moves that it took, at most
        until a part of the time limit is over."""
        if columns.pairs > MAX_PAIRS:
            return list(offsets), 0
        unit, numbers = columns.unit, columns.numbers
        ejector = Ejector(columns, [offsets[i] // unit for i in numbers], is_compiled=True)
        moves = min(most or self.max_nodes, self.max_nodes // 2)
        if len(columns) <= MAX_SEARCHED_FIRST:
            part = min(part, EJECTION)
        ejector.lower(enough // unit, moves, self._deadline(started, part))
        found = list(offsets)
        for i, place in zip(numbers, ejector.offsets, strict=True):
            found[i] = unit * place
        return found, ejector.moves

    def _deadline(self, started: float, part: float = 1) -> float | None:
        """When so much of the time limit is over."""
        return None if self.time_limit is None else started + part * self.time_limit

    def _around_peak(self, plan: MemoryPlan, enough: int) -> MemoryPlan:
        """The plan, or one in which all but what lives in the fullest step is placed again."""
        started = time.perf_counter()
        buffers = [placed.buffer for placed in plan.placements]
        offsets = [placed.offset_bytes for placed in plan.placements]
        found, rounds = placed_around_peak(buffers, offsets, plan.live_bytes, enough)
        if peak_of(buffers, found) >= plan.peak_bytes:
            return plan
        return with_attempt(plan, f"around the fullest step, round {rounds}", found, started)

    def _repaired(self, plan: MemoryPlan, enough: int, started: float) -> tuple[MemoryPlan, int]:
        """The plan, searched again around the steps in which it is too large; and the nodes."""
        buffers = [placed.buffer for placed in plan.placements]
        offsets = [placed.offset_bytes for placed in plan.placements]
        found = repaired(buffers, offsets, enough, self.max_nodes)
        if found.offsets is None:
            return plan, found.nodes
        name = f"search in {found.places} of its steps, {found.nodes:,} nodes"
        return with_attempt(plan, name, found.offsets, started), found.nodes

    def _placed(
        self,
        plan: MemoryPlan,
        columns: Buffers,
        found: Mapping[int, int],
        nodes: int,
        started: float,
    ) -> MemoryPlan:
        """The plan with offsets that were found, which are in units by the number of the column."""
        offsets = [placed.offset_bytes for placed in plan.placements]
        for i, offset in found.items():
            offsets[columns.numbers[i]] = columns.unit * offset
        return with_attempt(plan, f"search, {nodes:,} nodes", offsets, started)


def first_strategies(buffers: Sequence[object]) -> int:
    """So many greedy strategies come before anything else."""
    return FIRST_STRATEGIES if len(buffers) >= MIN_BUFFERS else QUICK_STRATEGIES


def with_attempt(plan: MemoryPlan, name: str, offsets: Sequence[int], started: float) -> MemoryPlan:
    """The plan with smaller offsets by another attempt."""
    buffers = [placed.buffer for placed in plan.placements]
    seconds = time.perf_counter() - started
    attempts = [*plan.attempts, PlanAttempt(name, peak_of(buffers, offsets), seconds)]
    chosen = lowest_peak(attempts)
    assert chosen == len(plan.attempts)
    return make_plan(buffers, offsets, plan.steps, plan.live_bytes, attempts, chosen)


def better_plan(plan: MemoryPlan, other: MemoryPlan) -> MemoryPlan:
    """The one with the lower peak, or the first; with the attempts of both."""
    best = other if other.peak_bytes < plan.peak_bytes else plan
    attempts = [
        replace(attempt, is_chosen=attempt.is_chosen and each is best)
        for each in (plan, other)
        for attempt in each.attempts
    ]
    return replace(best, attempts=tuple(attempts))


def refuse_collisions(buffers: Sequence[BufferLifetime], fixed: Mapping[int, int]) -> None:
    """InputError where fixed offsets are not aligned, or overlap while both buffers live."""
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
