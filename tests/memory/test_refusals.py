"""Refused placements: what was tried, what lay there already, and how far both would overlap."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.errors import MemoryBudgetError
from explorer.memory import STRATEGIES, GreedyPlanner, NoSharingPlanner, Strategy
from explorer.memory.budget import refuse
from explorer.memory.pinned import PinnedPlanner
from explorer.memory.refusals import MAX_BUFFERS, MAX_PER_BUFFER
from explorer.results import BufferLifetime, MemoryPlan, RefusedPlacement


def buffer(name: str, size: int, first: int, last: int, alignment: int = 32) -> BufferLifetime:
    return BufferLifetime(
        id=name, values=(name,), size_bytes=size, first=first, last=last, alignment_bytes=alignment
    )


@st.composite
def problems(draw: st.DrawFn) -> list[BufferLifetime]:
    buffers = []
    for index in range(draw(st.integers(1, 16))):
        first = draw(st.integers(0, 8))
        size, alignment = draw(st.integers(0, 200)), draw(st.sampled_from([1, 16, 64]))
        last = first + draw(st.integers(1, 5))
        buffers.append(buffer(f"b{index}", size, first, last, alignment))
    return buffers


def check_refusals(plan: MemoryPlan) -> None:
    """Each refused place is aligned, below or beside the one taken, and overlaps its obstacle."""
    placed = {p.buffer.id: p for p in plan.placements}
    for refused in plan.refusals:
        here, there = placed[refused.buffer].buffer, placed[refused.obstacle]
        start, end = refused.offset_bytes, refused.offset_bytes + here.size_bytes
        assert start % here.alignment_bytes == 0
        assert here.first < there.buffer.last
        assert there.buffer.first < here.last
        overlap = min(end, there.offset_bytes + there.buffer.size_bytes) - max(
            start, there.offset_bytes
        )
        assert refused.overlap_bytes == overlap > 0
        assert start != placed[refused.buffer].offset_bytes


@pytest.mark.sampled(8)
@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda s: s.name)
@given(problems())
@settings(max_examples=25, deadline=None)
def test_every_refused_place_was_taken_by_its_obstacle(
    strategy: Strategy, buffers: list[BufferLifetime]
):
    check_refusals(GreedyPlanner((strategy,))(buffers))


@given(problems())
@settings(max_examples=25, deadline=None)
def test_first_fit_refuses_every_gap_below_the_place_it_takes(buffers: list[BufferLifetime]):
    plan = GreedyPlanner((Strategy(("size", "lifetime"), "first"),))(buffers)
    for placed in plan.placements:
        tried = [r.offset_bytes for r in plan.refusals if r.buffer == placed.buffer.id]
        assert tried == sorted(tried)
        assert all(offset < placed.offset_bytes for offset in tried)
        if placed.offset_bytes and placed.buffer.size_bytes:
            assert tried[0] == 0


def test_the_gap_that_is_too_small_names_who_limits_it():
    plan = PinnedPlanner((("c", 96),))(
        [buffer("a", 64, 0, 2), buffer("b", 60, 0, 2), buffer("c", 64, 0, 2)]
    )
    assert plan.offsets == {"a": 0, "b": 160, "c": 96}
    assert plan.refusals == (
        RefusedPlacement("b", 0, "a", 60),
        RefusedPlacement("b", 64, "c", 28),
    )


def test_what_fills_the_arena_from_below_names_who_was_placed_first():
    strategy = Strategy(("start", "size"), "lowest")
    plan = GreedyPlanner((strategy,))([buffer("a", 64, 0, 2), buffer("b", 32, 0, 2)])
    assert plan.offsets == {"a": 0, "b": 64}
    assert plan.refusals == (RefusedPlacement("b", 0, "a", 32),)


@given(problems())
@settings(max_examples=25, deadline=None)
def test_a_pinned_buffer_is_refused_nowhere(buffers: list[BufferLifetime]):
    plan = PinnedPlanner(((buffers[0].id, 1024),))(buffers)
    check_refusals(plan)
    assert buffers[0].id not in {r.buffer for r in plan.refusals}


def test_the_chosen_attempt_is_the_first_with_the_lowest_peak():
    buffers = [buffer("a", 64, 0, 2), buffer("b", 32, 1, 3), buffer("c", 96, 2, 4)]
    for planner in (GreedyPlanner(), PinnedPlanner((("a", 64),)), NoSharingPlanner()):
        plan = planner(buffers)
        peaks = [attempt.peak_bytes for attempt in plan.attempts]
        assert [a.is_chosen for a in plan.attempts].index(True) == peaks.index(min(peaks))
        assert sum(a.is_chosen for a in plan.attempts) == 1
        assert min(peaks) == plan.peak_bytes


def test_only_the_first_refusals_of_the_largest_buffers_are_recorded():
    buffers = [buffer(f"b{i}", 32 * (i + 1), 0, 1) for i in range(MAX_BUFFERS + 44)]
    plan = GreedyPlanner((Strategy(("start", "size"), "lowest"),))(buffers)
    assert plan.refusals_left_out == 44
    counts: dict[str, int] = {}
    for refused in plan.refusals:
        counts[refused.buffer] = counts.get(refused.buffer, 0) + 1
    assert max(counts.values()) == MAX_PER_BUFFER
    assert "b10" not in counts
    assert "b50" in counts


@pytest.mark.parametrize("count", [1, 3, 4, 60])
def test_a_budget_that_nothing_meets_is_refused_in_few_names(count: int):
    """Views and results over their operands share a buffer with hundreds of names."""
    names = tuple(f"rows{number}" for number in range(count))
    large = BufferLifetime(
        id="rows0", values=names, size_bytes=92160, first=0, last=2, alignment_bytes=32
    )
    plan = NoSharingPlanner()([large, buffer("conv1", 2400, 1, 2)])
    with pytest.raises(MemoryBudgetError) as refused:
        refuse(plan, 1000)
    said = str(refused.value)
    shown = " = ".join(names[:3]) + (f" = {count - 3} more" if count > 3 else "")
    assert f"): {shown}, 92,160 bytes in steps 0-1; conv1, 2,400 bytes" in said
    assert refused.value.operations == (*names, "conv1")
    assert said.count("rows") <= 3 + 12
