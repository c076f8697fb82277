"""The exact planner against brute force, proven peaks, fixed offsets and limits."""

import itertools
import random
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.errors import InputError
from explorer.memory import GreedyPlanner, default_planners, verify_plan
from explorer.memory.exact import ExactPlanner
from explorer.results import BufferLifetime


def buffer(name: str, size: int, first: int, last: int, alignment: int = 1) -> BufferLifetime:
    return BufferLifetime(
        id=name, values=(name,), size_bytes=size, first=first, last=last, alignment_bytes=alignment
    )


def least_peak(buffers: Sequence[BufferLifetime], fixed: Mapping[int, int]) -> int:
    """Of all orders in which buffers are put into the lowest gap: one of them is optimal, for a
    plan can be repeated from the bottom up."""
    free = [i for i in range(len(buffers)) if i not in fixed]
    least = 1 << 60
    for order in itertools.permutations(free):
        offsets = dict(fixed)
        for i in order:
            one = buffers[i]
            beside = sorted(
                (offset, offset + buffers[j].size_bytes)
                for j, offset in offsets.items()
                if buffers[j].size_bytes and buffers[j].first < one.last
                and one.first < buffers[j].last
            )  # fmt: skip
            at = 0
            for low, high in beside:
                if at + one.size_bytes <= low:
                    break
                at = max(at, high + -high % one.alignment_bytes)
            offsets[i] = at if one.size_bytes else 0
        least = min(least, max((o + buffers[i].size_bytes for i, o in offsets.items()), default=0))
    return least


@st.composite
def problems(draw: st.DrawFn) -> tuple[list[BufferLifetime], dict[int, int]]:
    """Up to 6 buffers of mixed alignments, sizes of zero among them; one may be fixed."""
    count = draw(st.integers(0, 6))
    alignments = draw(st.sampled_from([[1], [1, 4], [8]]))
    buffers = []
    for i in range(count):
        first = draw(st.integers(0, 4))
        last = first + draw(st.integers(1, 3))
        size = draw(st.sampled_from([0, 1, 2, 3, 4, 5, 8, 12, 16]))
        buffers.append(buffer(f"b{i}", size, first, last, draw(st.sampled_from(alignments))))
    fixed = {}
    if buffers and draw(st.booleans()):
        fixed = {0: buffers[0].alignment_bytes * draw(st.integers(0, 6))}
    return buffers, fixed


@given(problems())
@settings(max_examples=100, deadline=None)
def test_no_plan_is_lower_than_the_proven_one(problem):
    buffers, fixed = problem
    found = ExactPlanner().solve(buffers, fixed=fixed)
    verify_plan(found.plan)
    assert found.optimal and found.plan.peak_bytes == least_peak(buffers, fixed)
    assert all(found.plan.placements[i].offset_bytes == at for i, at in fixed.items())


def cut(pieces: int, steps: int, capacity: int, seed: int) -> list[BufferLifetime]:
    """A rectangle of steps and bytes that is cut into buffers: they fill it without a gap."""
    rng = random.Random(seed)
    rectangles = [(0, steps, 0, capacity)]
    while len(rectangles) < pieces:
        first, last, low, high = rectangles.pop(rng.randrange(len(rectangles)))
        if rng.random() < 0.5 and last - first > 1:
            step = rng.randrange(first + 1, last)
            rectangles += [(first, step, low, high), (step, last, low, high)]
        elif high - low > 1:
            byte = rng.randrange(low + 1, high)
            rectangles += [(first, last, low, byte), (first, last, byte, high)]
        else:
            rectangles.append((first, last, low, high))
    rng.shuffle(rectangles)
    return [buffer(f"b{i}", h - lo, f, la) for i, (f, la, lo, h) in enumerate(rectangles)]


@pytest.mark.parametrize("seed", range(4))
def test_a_perfect_packing_is_found_where_greedy_orders_leave_gaps(seed: int):
    buffers = cut(24, 12, 1000, seed)
    plan = ExactPlanner()(buffers)
    verify_plan(plan)
    assert plan.peak_bytes == plan.bound_bytes == 1000 and plan.optimal
    assert plan.peak_bytes <= GreedyPlanner()(buffers).peak_bytes


def test_the_same_limit_gives_the_same_plan_and_is_kept():
    buffers = cut(60, 30, 10_000, 1)
    first, second = (ExactPlanner(max_nodes=50).solve(buffers) for _ in range(2))
    assert first.plan.offsets == second.plan.offsets and first.nodes == second.nodes
    assert first.plan.peak_bytes <= GreedyPlanner()(buffers).peak_bytes
    assert first.lower_bound == 10_000


def test_a_capacity_is_enough():
    buffers = cut(40, 20, 1000, 2)
    found = ExactPlanner().solve(buffers, capacity=1400)
    assert found.plan.peak_bytes <= 1400 and not (found.optimal and found.nodes)


def test_what_cannot_be_lower_is_proven_above_the_live_bound():
    """Three steps, 3 bytes live in each, and no way to place the pair of two bytes below 4."""
    pairs = [buffer("a", 2, 0, 2), buffer("b", 2, 1, 3), buffer("c", 2, 0, 1), buffer("d", 1, 2, 4)]
    pairs += [buffer("e", 2, 3, 5), buffer("f", 3, 2, 3, 2)]
    found = ExactPlanner().solve(pairs)
    assert found.optimal
    assert found.plan.peak_bytes == least_peak(pairs, {}) == found.lower_bound


def test_fixed_buffers_that_collide_are_named():
    pair = [buffer("a", 8, 0, 2), buffer("b", 8, 1, 3, 4)]
    with pytest.raises(InputError, match="'a' and 'b' are fixed at 0 and 4"):
        ExactPlanner().solve(pair, fixed={0: 0, 1: 4})
    with pytest.raises(InputError, match="no multiple of its alignment 4"):
        ExactPlanner().solve(pair, fixed={1: 6})
    assert ExactPlanner().solve(pair, fixed={0: 0, 1: 8}).plan.peak_bytes == 16


def test_it_is_a_planner_of_its_name():
    assert isinstance(default_planners()["exact"], ExactPlanner)
    assert ExactPlanner()([]).peak_bytes == 0
