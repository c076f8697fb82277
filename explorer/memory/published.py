"""Rules of other planners, to be compared with: one pass each, with no choice left.

    tflite-micro   from the largest buffer to the smallest, each into the lowest gap
    onnxruntime    in the order of birth, each into the gap that wastes least; the room below the
                   highest address so far is a gap too
    portions       fixed portions of the arena, as few as buffers live at once; one portion serves
                   one buffer at a time

The first is `GreedyMemoryPlanner` of TensorFlow Lite for Microcontrollers, the second
`MemPatternPlanner` of onnxruntime, the third the scheme of US 11,175,898 B2: the buffers of an
interval graph are coloured with as few colours as it has (the size of its largest clique), and a
colour is a portion.

    a: 64 bytes, steps 0-1                                 portion 0 at  0: a, c    64 bytes
    b: 32 bytes, steps 1-2     portions, two at once  ->   portion 1 at 64: b       32 bytes
    c: 48 bytes, step 2
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from explorer.memory.bounds import live_bytes
from explorer.memory.greedy import Columns, place, sort_keys
from explorer.memory.greedy import Strategy as GreedyStrategy
from explorer.memory.planners import make_plan, name_steps, peak_of
from explorer.memory.verify import verify_buffers
from explorer.results.memory import BufferLifetime, MemoryPlan, PlanAttempt

Rule = Literal["tflite-micro", "onnxruntime", "portions"]


@dataclass(frozen=True)
class PublishedPlanner:
    """A planner that follows one published rule."""

    rule: Rule

    def __call__(self, buffers: Sequence[BufferLifetime], steps: Sequence[str] = ()) -> MemoryPlan:
        verify_buffers(buffers)
        names = name_steps(buffers, steps)
        start = time.perf_counter()
        offsets = RULES[self.rule](buffers)
        seconds = time.perf_counter() - start
        attempt = PlanAttempt(self.rule, peak_of(buffers, offsets), seconds)
        return make_plan(buffers, offsets, names, live_bytes(buffers, len(names)), [attempt])


def largest_first(buffers: Sequence[BufferLifetime]) -> list[int]:
    """Offsets by falling size and first fit; of equal sizes the earlier buffer comes first."""
    columns = Columns.of(buffers)
    live = live_bytes(buffers, max((b.last for b in buffers), default=0))
    keys = sort_keys(columns, live) if buffers else {}
    return place(columns, keys, GreedyStrategy(("size",), "first")) if buffers else []


def as_traced(buffers: Sequence[BufferLifetime]) -> list[int]:
    """Offsets as an allocator gives them that follows one run, without a look ahead."""
    offsets = [0] * len(buffers)
    peak = 0
    live: list[int] = []
    for i in sorted(range(len(buffers)), key=lambda i: buffers[i].first):
        buffer = buffers[i]
        if not buffer.size_bytes:
            continue
        live = [j for j in live if buffers[j].last > buffer.first]
        live.sort(key=offsets.__getitem__)
        floor, chosen, least_waste = 0, None, None
        ends = [offsets[j] + buffers[j].size_bytes for j in live]
        for start, end in zip((*(offsets[j] for j in live), peak), (*ends, 0), strict=True):
            waste = start - floor - buffer.size_bytes
            if waste >= 0 and (least_waste is None or waste < least_waste):
                chosen, least_waste = floor, waste
            floor = max(floor, end + -end % buffer.alignment_bytes)
        offsets[i] = floor if chosen is None else chosen
        peak = max(peak, offsets[i] + buffer.size_bytes)
        live.append(i)
    return offsets


def in_portions(buffers: Sequence[BufferLifetime]) -> list[int]:
    """Offsets of portions that are one after the other.

    In the order of birth, a buffer takes the free portion that has to grow least, and of those
    the smallest; only where none is free, a new one. So there are as many portions as buffers
    live at once in the fullest step.
    """
    owners: list[int] = []
    """By portion: the buffer that it serves, or served last."""
    sizes: list[int] = []
    portions = [0] * len(buffers)
    by_birth = sorted(range(len(buffers)), key=lambda i: (buffers[i].first, -buffers[i].size_bytes))
    for i in by_birth:
        buffer = buffers[i]
        if not buffer.size_bytes:
            continue
        free = [p for p, owner in enumerate(owners) if buffers[owner].last <= buffer.first]
        if free:
            p = min(free, key=lambda p: (max(0, buffer.size_bytes - sizes[p]), sizes[p]))
            owners[p], sizes[p] = i, max(sizes[p], buffer.size_bytes)
        else:
            p = len(owners)
            owners.append(i)
            sizes.append(buffer.size_bytes)
        portions[i] = p
    alignment = max((buffer.alignment_bytes for buffer in buffers), default=1)
    starts, end = [], 0
    for size in sizes:
        starts.append(end)
        end += size + -size % alignment
    return [starts[portions[i]] if b.size_bytes else 0 for i, b in enumerate(buffers)]


RULES: dict[Rule, Callable[[Sequence[BufferLifetime]], list[int]]] = {
    "tflite-micro": largest_first,
    "onnxruntime": as_traced,
    "portions": in_portions,
}
