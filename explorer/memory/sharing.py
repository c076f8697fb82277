"""The plans of several device functions as one: functions that run in turn share an arena.

    {"main_cpu": 96 bytes, "main_cpu_2": 64 bytes}
        -> MemoryPlan(peak_bytes=96)       both begin at 0

A device runs one of its functions at a time, and what goes from one to the next is copied out
before the next one runs, so that no value outlives its call. Functions that may run at the same
time are on different devices, and every device has a plan and an arena of its own. Steps are those
of all functions in the order in which they run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from explorer.results.memory import BufferLifetime, MemoryPlan, PlacedBuffer, PlanAttempt


def share_arena(plans: Mapping[str, MemoryPlan]) -> MemoryPlan:
    """One plan of one arena, by the functions' names in the order in which they run.

    The only plan stays as it is. A buffer whose name another function uses too has its own
    function's in front.
    """
    if len(plans) == 1:
        return next(iter(plans.values()))
    placements: list[PlacedBuffer] = []
    seen: set[str] = set()
    for (function, plan), first in zip(plans.items(), first_steps(plans), strict=True):
        for placed in plan.placements:
            buffer = moved(placed.buffer, first)
            if buffer.id in seen:
                buffer = replace(buffer, id=f"{function}/{buffer.id}")
            seen.add(buffer.id)
            placements.append(replace(placed, buffer=buffer))
    parts = list(plans.values())
    peak = max((plan.peak_bytes for plan in parts), default=0)
    strategies = dict.fromkeys(
        p.attempts[p.chosen_attempt].strategy for p in parts if p.chosen_attempt is not None
    )
    seconds = sum(attempt.seconds for p in parts for attempt in p.attempts)
    live = tuple(size for p in parts for size in p.live_bytes)
    return MemoryPlan(
        placements=tuple(placements),
        peak_bytes=peak,
        bound_bytes=max(live, default=0),
        # The arena holds the largest plan: no smaller one is possible where that is proven.
        optimal=any(p.optimal and p.peak_bytes == peak for p in parts) or peak == 0,
        attempts=(PlanAttempt(", ".join(strategies), peak, seconds, is_chosen=True),),
        live_bytes=live,
        steps=tuple(step for p in parts for step in p.steps),
        total_bytes=sum(p.total_bytes for p in parts),
    )


def first_steps(plans: Mapping[str, MemoryPlan]) -> list[int]:
    """The number of every function's first step among all steps."""
    firsts, end = [], 0
    for plan in plans.values():
        firsts.append(end)
        end += len(plan.steps)
    return firsts


def moved(buffer: BufferLifetime, steps: int) -> BufferLifetime:
    """The same buffer so many steps later."""
    parts = tuple(replace(p, first=p.first + steps, last=p.last + steps) for p in buffer.parts)
    return replace(buffer, first=buffer.first + steps, last=buffer.last + steps, parts=parts)
