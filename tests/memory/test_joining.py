"""Blocks of buffers that fit together exactly."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.memory import ExactPlanner, verify_plan
from explorer.memory.exact.joining import MAX_LEFT_OUT, Joining, joined_buffers
from explorer.memory.planners import GreedyPlanner
from explorer.results import BufferLifetime


def buffer(name: str, size: int, first: int, last: int) -> BufferLifetime:
    return BufferLifetime(
        id=name, values=(name,), size_bytes=size, first=first, last=last, alignment_bytes=1
    )


def cut(count: int, steps: int, seed: int) -> list[BufferLifetime]:
    """A rectangle of 2^40 bytes cut in two again and again, in steps or in bytes."""
    rng = random.Random(seed)
    found = [(0, steps, 0, 1 << 40)]
    while len(found) < count:
        first, last, low, high = found.pop(rng.randrange(len(found)))
        if rng.random() < 0.5 and last - first > 1:
            step = rng.randrange(first + 1, last)
            found += [(first, step, low, high), (step, last, low, high)]
        elif high - low > 1:
            byte = rng.randrange(low + 1, high)
            found += [(first, last, low, byte), (first, last, byte, high)]
        else:
            found.append((first, last, low, high))
    rng.shuffle(found)
    return [buffer(f"b{i}", high - low, a, b) for i, (a, b, low, high) in enumerate(found)]


def test_a_stack_and_what_follows_it_are_one_block():
    joining = Joining([buffer("a", 24, 0, 2), buffer("b", 16, 2, 5), buffer("c", 8, 2, 5)])
    (number,) = joining.numbers
    block = joining.blocks[number]
    assert (block.first, block.last, block.size_bytes) == (0, 5, 24)
    assert joining.offsets({number: 100}) == {0: 100, 1: 100, 2: 116}


def test_what_fits_nothing_stays_as_it_is():
    buffers = [buffer("a", 24, 0, 2), buffer("b", 17, 2, 5), buffer("c", 24, 3, 5)]
    joining = Joining(buffers)
    assert joining.numbers == [0, 1, 2]
    assert joining.offsets({0: 0, 1: 24, 2: 41}) == {0: 0, 1: 24, 2: 41}


@pytest.mark.parametrize(("count", "is_found"), [(MAX_LEFT_OUT, True), (MAX_LEFT_OUT + 1, False)])
def test_of_very_many_buffers_of_one_lifetime_none_is_left_out(count: int, is_found: bool):
    """All of them are one stack at any number; all but one is tried up to a limit, as it takes
    time with the square of their number: minutes for thousands of buffers of one step."""
    sizes = [(1 << 40) + (i * i << 12) for i in range(count)]
    buffers = [buffer(f"b{i}", size, 0, 1) for i, size in enumerate(sizes)]
    whole = Joining([*buffers, buffer("whole", sum(sizes), 1, 2)])
    assert len(whole.numbers) == 1
    rest = Joining([*buffers, buffer("rest", sum(sizes) - sizes[7], 1, 2)])
    assert (len(rest.numbers) == 2) == is_found


@given(st.integers(1, 60), st.integers(1, 40), st.integers(0, 10_000))
@settings(max_examples=60, deadline=None)
def test_the_offsets_of_blocks_are_a_plan_of_all_buffers(count: int, steps: int, seed: int):
    """No buffer is lost, and what the blocks take the buffers take."""
    buffers = cut(count, steps, seed)
    joining = Joining(buffers)
    plan = GreedyPlanner()(joined_buffers(joining, 1))
    places = dict(zip(joining.numbers, plan.offsets.values(), strict=True))
    offsets = joining.offsets(places)
    assert sorted(offsets) == list(range(len(buffers)))
    for i, one in enumerate(buffers):
        assert offsets[i] + one.size_bytes <= plan.peak_bytes
        for j, other in enumerate(buffers[:i]):
            together = one.first < other.last and other.first < one.last
            apart = (
                offsets[i] + one.size_bytes <= offsets[j]
                or offsets[j] + other.size_bytes <= offsets[i]
            )
            assert apart or not together


def test_a_rectangle_that_was_cut_is_put_together_again():
    """400 buffers, which greedy orders leave some tenth above the bound."""
    buffers = cut(400, 80, seed=3)
    joining = Joining(buffers)
    plan = GreedyPlanner()(joined_buffers(joining, 1))
    assert plan.peak_bytes <= 1.01 * (1 << 40) < GreedyPlanner()(buffers).peak_bytes


def test_the_planner_takes_blocks_where_there_are_too_many_buffers_to_search(monkeypatch):
    monkeypatch.setattr("explorer.memory.exact.planner.MAX_PAIRS", 100)
    buffers = cut(400, 80, seed=3)
    plan = ExactPlanner(max_nodes=20_000)(buffers)
    verify_plan(plan)
    (chosen,) = [attempt.strategy for attempt in plan.attempts if attempt.is_chosen]
    assert chosen.endswith("blocks that fit exactly")
    assert plan.peak_bytes < GreedyPlanner()(buffers).peak_bytes
