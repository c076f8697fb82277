"""Bytes of the arena that no buffer may take, such as a boot loader's or a peripheral's.

    forbidden [64, 96), buffers of 64 and 32 bytes that live at once
        -> the first at 0, the second at 96, peak 128

A range that begins above the peak changes nothing, so that ranges are added from the lowest on
until the plan ends below the next one. In the search a range is a buffer that lives in every step
at a fixed offset.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from explorer.errors import InputError
from explorer.memory.bounds import count_steps, live_bytes
from explorer.memory.exact.result import ExactResult
from explorer.memory.planners import make_plan, name_steps
from explorer.results.memory import BufferLifetime, MemoryPlan

Range = tuple[int, int]
"""Bytes [first, end)."""
Solve = Callable[[Sequence[BufferLifetime], Mapping[int, int]], ExactResult]
"""(buffers, fixed offsets by their number) -> a plan."""


def check_ranges(ranges: Sequence[Range]) -> tuple[Range, ...]:
    """The ranges in order; InputError where one is empty, negative, or meets another one."""
    ordered = sorted(ranges)
    for index, (first, end) in enumerate(ordered):
        if not 0 <= first < end:
            raise InputError(
                f"[{first}, {end}) is no range of bytes that could be forbidden",
                hint="a first byte of 0 or more, and an end above it",
            )
        if index and first < ordered[index - 1][1]:
            raise InputError(
                f"the forbidden ranges {list(ordered[index - 1])} and {[first, end]} overlap"
            )
    return tuple(ordered)


def solve_around(
    solve: Solve,
    buffers: Sequence[BufferLifetime],
    steps: Sequence[str],
    fixed: Mapping[int, int],
    ranges: Sequence[Range],
) -> ExactResult:
    """The plan with the lowest peak among those with as few of the ranges below it as possible."""
    ordered = check_ranges(ranges)
    names = name_steps(buffers, steps)
    found = solve(buffers, fixed)
    plan, low = without(found.plan, buffers, names), found.lower_bound
    nodes, seconds = found.nodes, found.seconds
    for count, (first, end) in enumerate(ordered, start=1):
        if plan.peak_bytes <= first:
            break
        is_above = found.lower_bound > first  # no plan ends below this range
        taken = [blocked(at, until, count_steps(buffers)) for at, until in ordered[:count]]
        places = {len(buffers) + i: at for i, (at, _) in enumerate(ordered[:count])}
        found = solve([*buffers, *taken], {**fixed, **places})
        nodes, seconds = nodes + found.nodes, seconds + found.seconds
        plan = without(found.plan, buffers, names)
        if is_above:  # a buffer on the range has a byte at least, which is above its end
            low = max(low, end + 1, found.lower_bound)
    low = min(max(low, plan.bound_bytes), plan.peak_bytes)
    plan = replace(plan, optimal=plan.peak_bytes == low)
    return ExactResult(plan, low, nodes, seconds)


def blocked(first: int, end: int, steps: int) -> BufferLifetime:
    """A range as a buffer that always lives."""
    name = f"forbidden/{first}"
    return BufferLifetime(
        id=name,
        values=(name,),
        size_bytes=end - first,
        first=0,
        last=max(1, steps),
        alignment_bytes=1,
    )


def without(
    plan: MemoryPlan, buffers: Sequence[BufferLifetime], steps: tuple[str, ...]
) -> MemoryPlan:
    """The plan of the first buffers alone."""
    offsets = [placed.offset_bytes for placed in plan.placements[: len(buffers)]]
    live = live_bytes(buffers, len(steps))
    return make_plan(buffers, offsets, steps, live, plan.attempts, plan.chosen_attempt or 0)
