"""Buffers are divided among memories: none is exceeded, and traffic decides what is fast."""

from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.memory import GreedyPlanner, Use, verify_plan
from explorer.memory.several import Space, joined, plan_several, plans_by_memory, traffic_of
from explorer.results import BufferLifetime


def buffer(name: str, size: int, first: int, last: int) -> BufferLifetime:
    return BufferLifetime(
        id=name, values=(name,), size_bytes=size, first=first, last=last, alignment_bytes=4
    )


def test_the_buffer_with_more_traffic_is_in_the_fast_memory():
    pair = [buffer("a", 48, 0, 3), buffer("b", 48, 0, 3)]
    spaces = (Space("fast", 64, 4e9), Space("slow", 512, 5e8))
    for traffic, fast in (({"a": 4, "b": 2}, "a"), ({"a": 2, "b": 4}, "b")):
        plans = plan_several(pair, ("s", "t", "u"), traffic, spaces, GreedyPlanner())
        assert list(plans["fast"].offsets) == [fast]
        assert len(plans["slow"].placements) == 1


def test_traffic_counts_every_access_and_scratch_twice():
    buffers = [buffer("a", 8, 0, 3), buffer("b", 16, 1, 2), buffer("c/scratch_0", 4, 1, 2)]
    uses = [Use("p", (), ("a",)), Use("q", ("a",), ("b",)), Use("r", ("a", "b"))]
    assert traffic_of(buffers, uses) == {"a": 24, "b": 32, "c/scratch_0": 8}


@st.composite
def problems(draw: st.DrawFn) -> tuple[list[BufferLifetime], int]:
    buffers = []
    for i in range(draw(st.integers(1, 12))):
        first = draw(st.integers(0, 5))
        buffers.append(
            buffer(f"b{i}", draw(st.integers(0, 40)), first, first + draw(st.integers(1, 4)))
        )
    return buffers, draw(st.sampled_from([1, 16, 40, 80]))


@given(problems())
@settings(max_examples=40, deadline=None)
def test_the_joined_plan_is_sound_and_comes_apart_again(problem):
    buffers, size = problem
    steps = tuple(map(str, range(max(b.last for b in buffers))))
    spaces = (Space("slow", None, 1.0), Space("fast", size, 2.0))
    traffic = {b.id: 2 * b.size_bytes for b in buffers}
    plans = plan_several(buffers, steps, traffic, spaces, GreedyPlanner())
    assert list(plans) == ["fast", "slow"] and plans["fast"].peak_bytes <= size
    whole = joined(plans, buffers)
    verify_plan(whole)
    assert [p.buffer for p in whole.placements] == buffers
    for name, plan in plans_by_memory(whole, spaces).items():
        verify_plan(plan)
        assert plan.offsets == plans[name].offsets
