"""The plans of several device functions as one: every function has an arena of its own.

    {"main_cpu": 96 bytes, "main_cpu_2": 64 bytes}
        -> MemoryPlan(peak_bytes=192)      main_cpu at 0, main_cpu_2 at 128

Devices hold their arenas as long as the program is open, so that the arenas lie one behind the
other and share nothing. Steps are those of all functions in the order in which they run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from explorer.results.memory import BufferLifetime, MemoryPlan, PlacedBuffer, PlanAttempt

ALIGNMENT_BYTES = 64


def side_by_side(plans: Mapping[str, MemoryPlan]) -> MemoryPlan:
    """One plan of all arenas, by the functions' names in the order in which they run.

    The only plan stays as it is. A buffer whose name another function uses too has its own
    function's in front.
    """
    if len(plans) == 1:
        return next(iter(plans.values()))
    placements: list[PlacedBuffer] = []
    seen: set[str] = set()
    for (function, plan), first, base in zip(
        plans.items(), first_steps(plans), arena_bases(plans), strict=True
    ):
        for placed in plan.placements:
            buffer = moved(placed.buffer, first)
            if buffer.id in seen:
                buffer = replace(buffer, id=f"{function}/{buffer.id}")
            seen.add(buffer.id)
            offset = placed.offset_bytes + base
            placements.append(replace(placed, buffer=buffer, offset_bytes=offset))
    parts = list(plans.values())
    peak = max((p.offset_bytes + p.buffer.size_bytes for p in placements), default=0)
    strategies = dict.fromkeys(
        p.attempts[p.chosen_attempt].strategy for p in parts if p.chosen_attempt is not None
    )
    seconds = sum(attempt.seconds for p in parts for attempt in p.attempts)
    live = tuple(size for p in parts for size in p.live_bytes)
    return MemoryPlan(
        placements=tuple(placements),
        peak_bytes=peak,
        bound_bytes=max(live, default=0),
        # No buffer may go to another function's arena, so that each for itself is all there is.
        optimal=all(p.optimal for p in parts),
        attempts=(PlanAttempt(", ".join(strategies), peak, seconds, is_chosen=True),),
        live_bytes=live,
        steps=tuple(step for p in parts for step in p.steps),
        total_bytes=sum(p.total_bytes for p in parts),
    )


def arena_bases(plans: Mapping[str, MemoryPlan]) -> list[int]:
    """Where every function's arena begins among all of them, in bytes."""
    bases, end = [], 0
    for plan in plans.values():
        bases.append(end)
        end += -(-plan.peak_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
    return bases


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
