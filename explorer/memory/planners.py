"""Planners: from buffers with lifetimes to a memory plan.

    GreedyPlanner()(buffers, steps=["conv_1", "relu_1"])
        -> MemoryPlan(peak_bytes=96, bound_bytes=96, optimal=True, attempts=(...), ...)

A planner is any function of that form; another one needs no registration, it is passed where a
planner is asked for, or added under a name of its own:

    choose_planner("mine", {**default_planners(), "mine": my_planner})
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from explorer.errors import InputError
from explorer.memory.bounds import count_steps, live_bytes
from explorer.memory.greedy import STRATEGIES, Columns, Strategy, place, sort_keys
from explorer.memory.refusals import NO_REFUSALS, Refusals, ranks_of, refused_placements
from explorer.memory.verify import verify_buffers
from explorer.results.memory import BufferLifetime, MemoryPlan, PlacedBuffer, PlanAttempt


class Planner(Protocol):
    """Gives every buffer an offset. `steps` names the launches; unnamed steps get their index."""

    def __call__(
        self, buffers: Sequence[BufferLifetime], steps: Sequence[str] = ()
    ) -> MemoryPlan: ...


@dataclass(frozen=True)
class GreedyPlanner:
    """The best of several greedy strategies, in turn until one reaches the live bound.

    A peak equal to the bound is proven optimal; above it nothing is known about the optimum.
    Among equal peaks the earlier strategy wins.
    """

    strategies: tuple[Strategy, ...] = STRATEGIES
    most_placements: int = 100_000
    """No further strategy starts after so many placed buffers, all strategies together. A count
    and not a time limit, so that the same program gets the same plan on every machine."""

    def __call__(self, buffers: Sequence[BufferLifetime], steps: Sequence[str] = ()) -> MemoryPlan:
        if not self.strategies:
            raise InputError("the greedy planner has no strategy", hint="give it at least one")
        verify_buffers(buffers)
        names = name_steps(buffers, steps)
        live = live_bytes(buffers, len(names))
        bound = max(live, default=0)
        columns = Columns.of(buffers)
        keys = sort_keys(columns, live)

        attempts: list[PlanAttempt] = []
        plans: list[list[int]] = []
        for strategy in self.strategies:
            start = time.perf_counter()
            offsets = place(columns, keys, strategy)
            peak = peak_of(buffers, offsets)
            attempts.append(PlanAttempt(strategy.name, peak, time.perf_counter() - start))
            plans.append(offsets)
            if peak == bound or len(attempts) * len(buffers) >= self.most_placements:
                break
        best = lowest_peak(attempts)
        ranks = ranks_of(columns, keys, self.strategies[best], plans[best])
        fit = self.strategies[best].fit
        refusals = refused_placements(buffers, columns, plans[best], ranks, fit)
        return make_plan(buffers, plans[best], names, live, attempts, best, refusals)


@dataclass(frozen=True)
class NoSharingPlanner:
    """Every buffer behind the one before it: what planning is compared with."""

    def __call__(self, buffers: Sequence[BufferLifetime], steps: Sequence[str] = ()) -> MemoryPlan:
        verify_buffers(buffers)
        names = name_steps(buffers, steps)
        start = time.perf_counter()
        offsets: list[int] = []
        end = 0
        for buffer in buffers:
            offset = end + -end % buffer.alignment_bytes
            offsets.append(offset)
            end = offset + buffer.size_bytes
        attempt = PlanAttempt("no sharing", peak_of(buffers, offsets), time.perf_counter() - start)
        return make_plan(buffers, offsets, names, live_bytes(buffers, len(names)), [attempt], 0)


def name_steps(buffers: Sequence[BufferLifetime], steps: Sequence[str]) -> tuple[str, ...]:
    """The names of all steps in which buffers live: `steps`, or their indices where it is empty."""
    count = count_steps(buffers)
    if not steps:
        return tuple(str(step) for step in range(count))
    if len(steps) < count:
        late = next(buffer for buffer in buffers if buffer.last > len(steps))
        raise InputError(
            f"{len(steps)} steps are named, but buffer {late.id!r} lives until step {late.last}",
            hint="name every launch of the program in `steps`",
        )
    return tuple(steps)


def lowest_peak(attempts: Sequence[PlanAttempt]) -> int:
    """Index of the attempt with the lowest peak, of equal ones the first."""
    return min(range(len(attempts)), key=lambda index: attempts[index].peak_bytes)


def peak_of(buffers: Sequence[BufferLifetime], offsets: Sequence[int]) -> int:
    ends = (o + buffer.size_bytes for buffer, o in zip(buffers, offsets, strict=True))
    return max(ends, default=0)


def make_plan(
    buffers: Sequence[BufferLifetime],
    offsets: Sequence[int],
    steps: tuple[str, ...],
    live: tuple[int, ...],
    attempts: Sequence[PlanAttempt],
    chosen: int = 0,
    refusals: Refusals = NO_REFUSALS,
) -> MemoryPlan:
    """The record of a finished placement; it is optimal if its peak equals the live bound.

    `chosen`: the attempt that the offsets are of.
    """
    peak = peak_of(buffers, offsets)
    bound = max(live, default=0)
    placements = zip(buffers, offsets, strict=True)
    return MemoryPlan(
        placements=tuple(PlacedBuffer(buffer, offset) for buffer, offset in placements),
        peak_bytes=peak,
        bound_bytes=bound,
        optimal=peak == bound,
        attempts=tuple(
            replace(attempt, is_chosen=index == chosen) for index, attempt in enumerate(attempts)
        ),
        live_bytes=live,
        steps=steps,
        total_bytes=sum(buffer.size_bytes for buffer in buffers),
        refusals=refusals.placements,
        refusals_left_out=refusals.left_out,
    )
