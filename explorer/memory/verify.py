"""Checks of buffers before planning and of a plan after it.

    a: offset 0, 64 bytes, steps 0-1     \\
    b: offset 32, 64 bytes, steps 1-2    /  ->  ExplorerError: 'a' [0, 64) and 'b' [32, 96)
                                                overlap and are both live in step 1
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

from explorer.errors import ExplorerError
from explorer.memory.bounds import count_steps, live_bytes
from explorer.memory.places import Place
from explorer.results.memory import BufferLifetime, BufferPart, MemoryPlan, PlacedBuffer


def verify_buffers(buffers: Sequence[BufferLifetime]) -> None:
    """Raise `ExplorerError` for a buffer that no plan can place."""
    seen: set[str] = set()
    for buffer in buffers:
        if buffer.id in seen:
            raise ExplorerError(f"memory: two buffers are named {buffer.id!r}")
        seen.add(buffer.id)
        if not 0 <= buffer.first < buffer.last:
            raise ExplorerError(
                f"memory: buffer {buffer.id!r} lives in steps [{buffer.first}, {buffer.last})",
                hint="a buffer lives in at least one step, counted from 0; the end is exclusive",
            )
        if buffer.size_bytes < 0 or buffer.alignment_bytes < 1:
            raise ExplorerError(
                f"memory: buffer {buffer.id!r} has {buffer.size_bytes} bytes at an alignment of "
                f"{buffer.alignment_bytes}",
                hint="a size is 0 or more, an alignment 1 or more",
            )
        verify_parts(buffer)


def verify_parts(buffer: BufferLifetime) -> None:
    """Parts lie in their buffer, live while it does, and what is written never overlaps.

    Views may: they show what others have written.
    """
    for part in buffer.parts:
        if part.value not in buffer.values:
            raise ExplorerError(
                f"memory: {part.value!r} is a part of buffer {buffer.id!r}, which does not hold it"
            )
        end = part.offset_bytes + part.size_bytes
        if part.offset_bytes < 0 or part.size_bytes < 0 or end > buffer.size_bytes:
            raise ExplorerError(
                f"memory: {part.value!r} [{part.offset_bytes}, {end}) is not inside of buffer "
                f"{buffer.id!r} of {buffer.size_bytes} bytes"
            )
        if not buffer.first <= part.first < part.last <= buffer.last:
            raise ExplorerError(
                f"memory: {part.value!r} lives in steps [{part.first}, {part.last}), its buffer "
                f"{buffer.id!r} in [{buffer.first}, {buffer.last})"
            )
    written = sorted(
        (begin, -end, part.value)
        for part in buffer.parts
        if part.size_bytes and not part.is_view
        for begin, end in _place(part).runs
    )
    for (_, end, lower), (begin, _, upper) in pairwise(written):
        if -end > begin:
            raise ExplorerError(
                f"memory: {lower!r} and {upper!r} overlap in buffer {buffer.id!r}: "
                f"byte {begin} belongs to both"
            )


def _place(part: BufferPart) -> Place:
    start, end = part.offset_bytes, part.offset_bytes + part.size_bytes
    return Place("", start, end, part.run_bytes, part.pitch_bytes)


def verify_plan(plan: MemoryPlan) -> None:
    """Raise `ExplorerError` unless live buffers never overlap and the plan's numbers are true.

    Values may lie in one buffer, where what is written does not overlap either.

    Checked are the offsets (aligned, not negative, disjoint while live), and that peak, live
    bytes, bound and total follow from the placements.
    """
    buffers = [placed.buffer for placed in plan.placements]
    verify_buffers(buffers)
    for placed in plan.placements:
        verify_offset(placed)
    verify_disjoint(plan)
    if len(plan.steps) < count_steps(buffers):
        raise ExplorerError(f"memory plan: only {len(plan.steps)} of {count_steps(buffers)} steps")
    live = live_bytes(buffers, len(plan.steps))
    derived = {
        "peak_bytes": max((end_of(placed) for placed in plan.placements), default=0),
        "live_bytes": live,
        "bound_bytes": max(live, default=0),
        "total_bytes": sum(buffer.size_bytes for buffer in buffers),
    }
    for name, value in derived.items():
        if getattr(plan, name) != value:
            raise ExplorerError(
                f"memory plan: {name} is {getattr(plan, name)}, its placements give {value}"
            )


def verify_offset(placed: PlacedBuffer) -> None:
    offset, alignment = placed.offset_bytes, placed.buffer.alignment_bytes
    if offset < 0 or offset % alignment:
        raise ExplorerError(
            f"memory plan: buffer {placed.buffer.id!r} lies at offset {offset}",
            hint=f"an offset is a multiple of its alignment ({alignment}) and not negative",
        )


def verify_disjoint(plan: MemoryPlan) -> None:
    """Compare each buffer with those born while it lives: every pair that meets, once."""
    by_birth = sorted(
        (placed for placed in plan.placements if placed.buffer.size_bytes),
        key=lambda placed: placed.buffer.first,
    )
    births = [placed.buffer.first for placed in by_birth]
    for index, older in enumerate(by_birth):
        for younger in by_birth[index + 1 : bisect_left(births, older.buffer.last)]:
            if older.offset_bytes < end_of(younger) and younger.offset_bytes < end_of(older):
                raise ExplorerError(
                    f"memory plan: {describe(older)} and {describe(younger)} overlap and are "
                    f"both live in step {younger.buffer.first}"
                )


def end_of(placed: PlacedBuffer) -> int:
    return placed.offset_bytes + placed.buffer.size_bytes


def describe(placed: PlacedBuffer) -> str:
    return f"{placed.buffer.id!r} [{placed.offset_bytes}, {end_of(placed)})"
