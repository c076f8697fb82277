"""Several memories: which buffer lies in which, so that its traffic takes the least time.

    fast 64 KiB at 4 GB/s, slow 512 KiB at 0.5 GB/s
    a: 48 KiB, written once and read three times      ->  fast
    b: 48 KiB, written and read once, live with a     ->  slow: it would not fit beside a

The fastest memory is filled first. As long as its plan is too large, a buffer of the fullest step
leaves it: the one that loses least time for its bytes and its steps. What then fits after all comes
back, the one that gains most first. The others are placed in the next memory in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from explorer.errors import InputError, MemoryBudgetError
from explorer.memory.bounds import live_bytes
from explorer.memory.budget import MAX_LISTED, describe, fullest_step
from explorer.memory.exact import ExactPlanner
from explorer.memory.pinned import PinnedPlanner, Place, check_pins, pins_by_memory, pins_of_buffers
from explorer.memory.planners import Planner, make_plan, peak_of
from explorer.memory.uses import Use
from explorer.results.memory import (
    MEMORY_ALIGNMENT_BYTES,
    BufferLifetime,
    MemoryPlan,
    PlacedBuffer,
    PlanAttempt,
)

UNKNOWN_BANDWIDTH = 1e9
"""Bytes per second of a memory that states none."""
MAX_RETURNS = 64
"""Buffers that are tried again in a faster memory."""


@dataclass(frozen=True)
class Space:
    """A memory for activations."""

    name: str
    size_bytes: int | None
    """None: no limit."""
    bytes_per_second: float = UNKNOWN_BANDWIDTH


def traffic_of(buffers: Sequence[BufferLifetime], uses: Sequence[Use]) -> dict[str, int]:
    """Bytes that all launches read and write of every buffer, by its name; a scratch buffer is
    written and read once."""
    owners = {value: b for b in buffers if "/scratch_" not in b.id for value in b.values}
    sizes = {p.value: p.size_bytes for b in buffers for p in b.parts}
    found = {b.id: 2 * b.size_bytes if "/scratch_" in b.id else 0 for b in buffers}
    for use in uses:
        for value in (*use.reads, *use.writes):
            if value in owners:
                found[owners[value].id] += sizes.get(value, owners[value].size_bytes)
    return found


def plan_several(
    buffers: Sequence[BufferLifetime],
    steps: Sequence[str],
    traffic: Mapping[str, int],
    spaces: Sequence[Space],
    planner: Planner,
    moved: Collection[str] = (),
    pins: Pins | None = None,
) -> dict[str, MemoryPlan]:
    """A plan for every memory by its name, the fastest first.

    `traffic`: bytes by buffer. `moved`: buffers that were copied out of the fastest memory.
    MemoryBudgetError where the last memory is too small for the rest, or one for what is pinned.
    """
    ordered = sorted(spaces, key=lambda space: -space.bytes_per_second)
    plans: dict[str, MemoryPlan] = {}
    rest = list(buffers)
    barred = set(moved)
    assigned = {} if pins is None else pins.memories
    for space, slower in zip(ordered, [*ordered[1:], None], strict=True):
        own = planner if pins is None else pins.planner_of(space.name, planner)
        if slower is None:
            plan = own(rest, steps)
            require_room(plan, space)
            plans[space.name] = plan
            break
        saved = 1 / slower.bytes_per_second - 1 / space.bytes_per_second
        gains = {b.id: traffic[b.id] * saved for b in rest}
        # What is pinned here would lose all of its time elsewhere.
        gains |= {name: math.inf for name, memory in assigned.items() if memory == space.name}
        free = [
            b for b in rest
            if (assigned[b.id] == space.name if b.id in assigned else b.id not in barred)
        ]  # fmt: skip
        kept = fill(free, steps, gains, space, own)
        barred = set()
        plans[space.name] = own(kept, steps)
        names = {b.id for b in kept}
        rest = [b for b in rest if b.id not in names]
    return plans


@dataclass(frozen=True)
class Pins:
    """What is pinned, by the buffer's name: the memory, and in it the byte where one is given."""

    memories: Mapping[str, str]
    offsets: Mapping[str, tuple[tuple[str, int], ...]]
    """By memory."""

    @classmethod
    def of(
        cls,
        pins: Sequence[tuple[str, Place]],
        buffers: Sequence[BufferLifetime],
        names: Sequence[str],
    ) -> Pins:
        """InputError for a pin that no plan can keep."""
        memories: dict[str, str] = {}
        offsets: dict[str, tuple[tuple[str, int], ...]] = {}
        owners = {part.value: b.id for b in buffers for part in b.parts}
        for memory, found in pins_by_memory(pins, names).items():
            places = [(name, offset) for name, offset in found if offset is not None]
            offsets[memory] = tuple(pins_of_buffers(places, buffers))
            for name in [owners.get(name, name) for name, _ in found]:
                if memories.setdefault(name, memory) != memory:
                    raise InputError(
                        f"{name!r} cannot be pinned to {memories[name]} and to {memory}",
                        hint="leave one of the pins out",
                    )
        known = {b.id: b for b in buffers}
        check_pins([(name, 0) for name in memories if name not in known], buffers)
        for places in offsets.values():
            check_pins(places, buffers)
        return cls(memories, offsets)

    def planner_of(self, memory: str, planner: Planner) -> Planner:
        return PinnedPlanner(self.offsets[memory]) if self.offsets[memory] else planner


def fill(
    buffers: Sequence[BufferLifetime],
    steps: Sequence[str],
    gains: Mapping[str, float],
    space: Space,
    planner: Planner,
) -> list[BufferLifetime]:
    """The buffers that lie in a memory, in their order."""
    size = space.size_bytes
    if size is None:
        return list(buffers)
    kept = {b.id: b for b in buffers if b.size_bytes <= size or gains[b.id] == math.inf}
    left = [b for b in buffers if b.id not in kept]
    while (plan := planner(list(kept.values()), steps)).peak_bytes > size:
        step = fullest_step(plan, size)
        live = [b for b in kept.values() if b.first <= step < b.last and b.size_bytes]
        free = [b for b in live if gains[b.id] < math.inf]
        if not free:
            require_room(plan, space)
        worst = min(free, key=lambda b: (gains[b.id] / area(b), -area(b), b.id))
        left.append(kept.pop(worst.id))
    left = [b for b in left if b.size_bytes <= size]
    for buffer in sorted(left, key=lambda b: (-gains[b.id], b.id))[:MAX_RETURNS]:
        more = [b for b in buffers if b.id in kept or b.id == buffer.id]
        if planner(more, steps).peak_bytes <= size:
            kept[buffer.id] = buffer
    return [b for b in buffers if b.id in kept]


def area(buffer: BufferLifetime) -> int:
    """Bytes times steps: what the memory could hold instead."""
    return buffer.size_bytes * (buffer.last - buffer.first)


def require_room(plan: MemoryPlan, space: Space) -> None:
    """MemoryBudgetError where a plan is larger than its memory."""
    if space.size_bytes is None or plan.peak_bytes <= space.size_bytes:
        return
    step = fullest_step(plan, space.size_bytes)
    live = [p.buffer for p in plan.placements if p.buffer.first <= step < p.buffer.last]
    live.sort(key=lambda b: (-b.size_bytes, b.first, b.id))
    raise MemoryBudgetError(
        f"memory: the plan of {space.name} needs {plan.peak_bytes:,} bytes, "
        f"{plan.peak_bytes - space.size_bytes:,} more than the {space.size_bytes:,} that it has, "
        "for what is pinned to it, or what faster memories have no room for. Live in step "
        f"{step} ({plan.steps[step]}): {'; '.join(map(describe, live[:MAX_LISTED]))}",
        budget_bytes=space.size_bytes,
        needed_bytes=plan.peak_bytes,
        operations=[value for b in live[:MAX_LISTED] for value in b.values],
        hint=f"{space.name} of at least {plan.peak_bytes:,} bytes, or smaller layers",
    )


def joined(plans: Mapping[str, MemoryPlan], buffers: Sequence[BufferLifetime]) -> MemoryPlan:
    """One plan of all memories, each after the one before, in the order of `plans`.

    Every placed buffer says in which memory it lies. Buffers stand in the order of `buffers`.
    """
    placed: dict[str, PlacedBuffer] = {}
    for (name, plan), base in zip(plans.items(), memory_bases(plans), strict=True):
        for p in plan.placements:
            placed[p.buffer.id] = replace(p, offset_bytes=p.offset_bytes + base, memory=name)
    first = next(iter(plans.values()))
    live = live_bytes(buffers, len(first.steps))
    offsets = [placed[b.id].offset_bytes for b in buffers]
    names = ", ".join(f"{name} {plan.peak_bytes:,}" for name, plan in plans.items())
    seconds = sum(attempt.seconds for plan in plans.values() for attempt in plan.attempts)
    attempt = PlanAttempt(names, peak_of(buffers, offsets), seconds)
    plan = make_plan(buffers, offsets, first.steps, live, [attempt])
    return replace(plan, placements=tuple(placed[b.id] for b in buffers))


@dataclass(frozen=True)
class SeveralMemories:
    """A planner that divides the buffers among memories first."""

    planner: Planner
    spaces: tuple[Space, ...]

    def divide(
        self,
        buffers: Sequence[BufferLifetime],
        steps: Sequence[str],
        uses: Sequence[Use],
        moved: Collection[str] = (),
    ) -> MemoryPlan:
        """One plan of all memories; `moved` as in `plan_several`."""
        planner, pins = self.planner, None
        if isinstance(planner, PinnedPlanner):
            names = [space.name for space in self.spaces]
            planner, pins = ExactPlanner(), Pins.of(planner.pins, buffers, names)
        traffic = traffic_of(buffers, uses)
        plans = plan_several(buffers, steps, traffic, self.spaces, planner, moved, pins)
        return joined(plans, buffers)


def plans_by_memory(plan: MemoryPlan, spaces: Sequence[Space]) -> dict[str, MemoryPlan]:
    """The plan of every memory, out of one of all; offsets count from the memory's beginning."""
    found: dict[str, MemoryPlan] = {}
    end = 0
    for space in sorted(spaces, key=lambda space: -space.bytes_per_second):
        own = [placed for placed in plan.placements if placed.memory == space.name]
        buffers = [placed.buffer for placed in own]
        alignment = max([MEMORY_ALIGNMENT_BYTES, *(b.alignment_bytes for b in buffers)])
        base = end + -end % alignment
        offsets = [placed.offset_bytes - base for placed in own]
        live = live_bytes(buffers, len(plan.steps))
        peak = peak_of(buffers, offsets)
        found[space.name] = make_plan(
            buffers, offsets, plan.steps, live, [PlanAttempt(space.name, peak, 0.0)]
        )
        end = base + peak
    return found


def memory_bases(plans: Mapping[str, MemoryPlan]) -> list[int]:
    """Where every memory begins in the arena of the host."""
    bases, end = [], 0
    for plan in plans.values():
        alignment = max(
            [MEMORY_ALIGNMENT_BYTES, *(p.buffer.alignment_bytes for p in plan.placements)]
        )
        bases.append(end + -end % alignment)
        end = bases[-1] + plan.peak_bytes
    return bases
