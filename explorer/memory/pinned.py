"""A planner that keeps some buffers at given addresses and places the others around them.

    PinnedPlanner((("conv_1", 4096),))(buffers)
        -> conv_1 at byte 4096, everything else where it fits best beside it

For a person who asks "what if this one lay there": the peak says what the wish costs.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from explorer.errors import InputError
from explorer.memory.bounds import live_bytes
from explorer.memory.greedy import (
    STRATEGIES,
    Columns,
    Fit,
    Integers,
    Strategy,
    find_gap,
    rows,
    sort_keys,
)
from explorer.memory.planners import lowest_peak, make_plan, name_steps, peak_of
from explorer.memory.refusals import ranks_of, refused_placements
from explorer.memory.verify import verify_buffers
from explorer.results.memory import BufferLifetime, MemoryPlan, PlanAttempt

Place = int | str
"""A byte. In one of several memories `fast:1024`, or `fast` for any byte there."""
GAP_STRATEGIES = tuple(strategy for strategy in STRATEGIES if strategy.fit != "lowest")
"""Placing from the bottom up has no use for addresses that are given."""


@dataclass(frozen=True)
class PinnedPlanner:
    """The best of several greedy strategies around `pins`, (buffer, place) each.

    The name of a value that lies in a buffer pins that, so that the value gets the offset. Places
    with the name of a memory are for `SeveralMemories`, which has a planner for each.
    """

    pins: tuple[tuple[str, Place], ...]
    strategies: tuple[Strategy, ...] = GAP_STRATEGIES

    def __call__(self, buffers: Sequence[BufferLifetime], steps: Sequence[str] = ()) -> MemoryPlan:
        """Raises InputError for a pin that no plan can keep."""
        verify_buffers(buffers)
        pins = pins_of_buffers(bytes_of(self.pins), buffers)
        check_pins(pins, buffers)
        names = name_steps(buffers, steps)
        live = live_bytes(buffers, len(names))
        columns = Columns.of(buffers)
        keys = sort_keys(columns, live)
        pinned = dict(pins)
        fixed = {i: pinned[b.id] for i, b in enumerate(buffers) if b.id in pinned}
        attempts: list[PlanAttempt] = []
        plans: list[list[int]] = []
        for strategy in self.strategies:
            start = time.perf_counter()
            order = np.lexsort([keys[key] for key in reversed(strategy.keys)])
            offsets = place_around(columns, order.tolist(), fixed, strategy.fit)
            peak = peak_of(buffers, offsets)
            name = f"around {len(fixed)} pinned: {strategy.name}"
            attempts.append(PlanAttempt(name, peak, time.perf_counter() - start))
            plans.append(offsets)
        best = lowest_peak(attempts)
        ranks = ranks_of(columns, keys, self.strategies[best], plans[best], list(fixed))
        fit = self.strategies[best].fit
        refusals = refused_placements(buffers, columns, plans[best], ranks, fit)
        return make_plan(buffers, plans[best], names, live, attempts, best, refusals)


def bytes_of(pins: Sequence[tuple[str, Place]]) -> list[tuple[str, int]]:
    """Pins of the only memory; InputError for one that names a memory."""
    found: list[tuple[str, int]] = []
    for name, place in pins:
        if isinstance(place, str):
            raise InputError(
                f"{name!r} is pinned to {place!r}, and the target has one memory for activations",
                hint=f"a byte, as in {name}: 1024",
            )
        found.append((name, place))
    return found


def pins_by_memory(
    pins: Sequence[tuple[str, Place]], memories: Sequence[str]
) -> dict[str, list[tuple[str, int | None]]]:
    """Buffers and values with their bytes by memory; None: any byte. InputError for a place that
    names none of the memories, or no byte."""
    found: dict[str, list[tuple[str, int | None]]] = {memory: [] for memory in memories}
    for name, place in pins:
        memory, colon, text = str(place).partition(":")
        if memory not in found or (colon and not (text.isascii() and text.isdigit())):
            hints = ", ".join(f"{memory}:1024" for memory in memories)
            raise InputError(
                f"{name!r} cannot be pinned to {place!r}: the target has several memories, and a "
                "pin names one of them",
                hint=f"{hints}, or the name alone for any byte there",
            )
        found[memory].append((name, int(text) if colon else None))
    return found


def pins_of_buffers(
    pins: Sequence[tuple[str, int]], buffers: Sequence[BufferLifetime]
) -> list[tuple[str, int]]:
    """Every pin as one of a buffer, each buffer once; InputError where two pins contradict."""
    lies_in = {
        part.value: (buffer.id, part.offset_bytes) for buffer in buffers for part in buffer.parts
    }
    wanted: dict[str, tuple[str, int]] = {}
    for name, offset in pins:
        buffer, inside = lies_in.get(name, (name, 0))
        first, start = wanted.setdefault(buffer, (name, offset - inside))
        if start != offset - inside:
            raise InputError(
                f"{first!r} and {name!r} lie in the buffer {buffer!r} and cannot be pinned apart",
                hint=f"{name} at {start + inside}",
            )
    return [(buffer, start) for buffer, (_, start) in wanted.items()]


def check_pins(pins: Sequence[tuple[str, int]], buffers: Sequence[BufferLifetime]) -> None:
    """Refuses unknown buffers, addresses that are not aligned, and pins that overlap."""
    known = {buffer.id: buffer for buffer in buffers}
    placed: list[tuple[BufferLifetime, int]] = []
    for name, offset in pins:
        if name not in known:
            raise InputError(
                f"no buffer {name!r} can be pinned: the plan has none of that name",
                hint="take a buffer's name from the memory plan",
            )
        buffer = known[name]
        alignment = buffer.alignment_bytes
        if offset < 0 or offset % alignment:
            down = max(0, offset) // alignment * alignment
            raise InputError(
                f"buffer {name!r} cannot lie at byte {offset}: it is aligned to {alignment}",
                hint=f"{down} or {down + alignment}",
            )
        for other, start in placed:
            together = other.first < buffer.last and buffer.first < other.last
            has_bytes = buffer.size_bytes and other.size_bytes
            if (
                together
                and has_bytes
                and start < offset + buffer.size_bytes
                and offset < start + other.size_bytes
            ):
                raise InputError(
                    f"buffers {other.id!r} and {name!r} live together and cannot lie at bytes "
                    f"{start} and {offset}: they would overlap",
                    hint=f"{name} at {-(-(start + other.size_bytes) // alignment) * alignment}",
                )
        placed.append((buffer, offset))


def place_around(
    columns: Columns, order: Sequence[int], fixed: dict[int, int], fit: Fit
) -> list[int]:
    """Offsets of all buffers: `fixed` ones (by index) as they are, the others in `order`."""
    count = len(columns.sizes)
    offsets: Integers = np.zeros(count, dtype=np.int64)
    is_placed = np.zeros(count, dtype=bool)
    for index, offset in fixed.items():
        offsets[index], is_placed[index] = offset, True
    buffers = list(rows(columns))
    for index in order:
        size, alignment, first, last = buffers[index]
        if is_placed[index] or size == 0:
            continue
        near = np.flatnonzero(is_placed & (columns.firsts < last) & (columns.lasts > first))
        near = near[columns.sizes[near] > 0]
        if len(near):
            near = near[np.argsort(offsets[near], kind="stable")]
            ends = offsets[near] + columns.sizes[near]
            offsets[index] = find_gap(offsets[near], ends, size, alignment, smallest=fit == "best")
        is_placed[index] = True
    return offsets.tolist()
