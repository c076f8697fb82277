"""The exact planner against brute force, proven peaks, fixed offsets and limits."""

import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.errors import InputError
from explorer.memory import GreedyPlanner, default_planners, verify_plan
from explorer.memory.exact import ExactPlanner
from explorer.memory.exact.problem import ORDERS, Buffers, Search
from explorer.memory.exact.prover import prove
from explorer.memory.exact.search import DEPTH, FOUND, IMPOSSIBLE, LIMIT
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


@pytest.mark.parametrize("seed", [0, 1])
def test_the_buffers_of_a_perfect_packing_are_put_together_again(seed: int):
    """Ranks that are found anew in every part leave little to search."""
    plan = ExactPlanner(max_nodes=4_000)(cut(200, 60, 1 << 20, seed))
    assert plan.peak_bytes == plan.bound_bytes == 1 << 20


def test_the_order_of_the_buffers_and_of_time_does_not_decide():
    buffers = cut(80, 40, 1 << 16, 5)
    end = max(b.last for b in buffers)
    backwards = [replace(b, first=end - b.last, last=end - b.first) for b in buffers]
    for others in (
        backwards,
        buffers[::-1],
        [replace(b, size_bytes=7 * b.size_bytes) for b in buffers],
    ):
        plan = ExactPlanner()(others)
        verify_plan(plan)
        assert plan.optimal and plan.peak_bytes == plan.bound_bytes


@given(problems(), st.integers(0, 30), st.integers(1, 8))
@settings(max_examples=60, deadline=None)
def test_nothing_lies_in_a_forbidden_range_and_the_rest_is_optimal(
    problem, first: int, length: int
):
    buffers, _ = problem
    end = first + length
    found = ExactPlanner(forbidden=((first, end),)).solve(buffers)
    verify_plan(found.plan)
    for placed in found.plan.placements:
        low, high = placed.offset_bytes, placed.offset_bytes + placed.buffer.size_bytes
        assert high <= first or low >= end or low == high
    steps = max((b.last for b in buffers), default=1)
    blocked = [*buffers, buffer("range", length, 0, steps)]
    alone, beside = least_peak(buffers, {}), least_peak(blocked, {len(buffers): first})
    assert found.plan.peak_bytes == (alone if alone <= first else beside)
    assert found.lower_bound <= found.plan.peak_bytes


def test_ranges_that_cannot_be_forbidden_are_refused():
    one = [buffer("a", 8, 0, 1)]
    for ranges, message in (
        (((4, 4),), "is no range"),
        (((-1, 4),), "is no range"),
        (((0, 8), (4, 12)), "overlap"),
    ):
        with pytest.raises(InputError, match=message):
            ExactPlanner(forbidden=ranges).solve(one)


@pytest.mark.sweep
def test_the_compiled_search_gives_the_same_plan():
    pytest.importorskip("numba")
    for seed in range(6):
        columns = Buffers(cut(120, 40, 5000, seed), {})
        capacity = max(columns.live)
        for order in ORDERS:
            found = [Search(columns, columns.parts[0], order, capacity, c) for c in (False, True)]
            assert found[0].run(2000) == found[1].run(2000) and found[0].nodes == found[1].nodes
            if found[0].status == FOUND:
                assert found[0].offsets == found[1].offsets


def test_a_search_goes_on_where_it_stopped():
    columns = Buffers(cut(60, 30, 10_000, 1), {})
    capacity = max(columns.live)
    for order in ORDERS:
        whole, halves = (Search(columns, columns.parts[0], order, capacity, False) for _ in "ab")
        whole.run(900)
        for limit in (1, 37, 400, 900):
            halves.run(limit)
        assert (whole.status, whole.nodes) == (halves.status, halves.nodes)


@pytest.mark.parametrize("order", ORDERS)
def test_a_search_keeps_its_lines_sorted_and_every_section_has_a_witness(order: str):
    """What is changed from node to node is what a fresh look at all buffers gives."""
    columns = Buffers(cut(40, 20, 10_000, 2), {3: 0})
    capacity = max(columns.live)
    search = Search(columns, columns.parts[0], order, capacity, False)
    state, frames = search._state, search._frames
    depths = set()
    for limit in range(1, 300):
        if search.run(limit) != LIMIT:
            break
        depth = state.counts[DEPTH]
        depths.add(depth)
        first, level = frames.first[depth], frames.level[depth]
        members = state.pool[first : first + frames.size[depth]]
        waiting = [i for i in members if not state.placed[i]]
        keys = sorted(state.offsets[i] * len(columns) + state.ranks[i] for i in waiting)
        assert state.line[first : first + frames.left[depth]] == keys
        assert all(members[state.ranks[i]] == i for i in waiting)
        for section in range(frames.begin[depth], frames.end[depth]):
            i = state.witnesses[section]
            assert not state.live[section] or i in waiting
            if i in waiting and state.offsets[i] >= level:
                assert state.offsets[i] + state.live[section] <= capacity
    assert len(depths) > 10


@given(problems())
@settings(max_examples=20, deadline=None)
def test_the_second_prover_agrees_with_brute_force(problem):
    pytest.importorskip("ortools")
    buffers, fixed = problem
    columns, least = Buffers(buffers, fixed), least_peak(buffers, fixed)
    if not columns.unit or any(not buffers[i].size_bytes for i in fixed):
        return
    for capacity, status in (
        (least // columns.unit, FOUND),
        (least // columns.unit - 1, IMPOSSIBLE),
    ):
        found = [prove(columns, part, capacity, 5.0)[0] for part in columns.parts]
        assert (IMPOSSIBLE if IMPOSSIBLE in found else FOUND) == status


def test_where_a_search_is_too_large_all_greedy_orders_are_tried():
    """700 buffers that all live at once are 244,650 pairs; the first of the orders is not best."""
    buffers = cut(120, 30, 10_000, 3)
    end = max(b.last for b in buffers)
    buffers += [buffer(f"long{i}", 1, 0, end) for i in range(700)]
    plan, greedy = ExactPlanner()(buffers), GreedyPlanner()(buffers)
    tried = {attempt.strategy for attempt in plan.attempts}
    assert {attempt.strategy for attempt in greedy.attempts} <= tried
    assert plan.peak_bytes <= greedy.peak_bytes
