"""Plans that ejection lowers."""

import time
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.memory import ExactPlanner, GreedyPlanner, verify_plan
from explorer.memory.exact import planner as exact_planner
from explorer.memory.exact.ejecting import MOVES_PER_BUFFER, Ejector
from explorer.memory.exact.problem import Buffers
from explorer.memory.planners import make_plan, peak_of
from explorer.results import BufferLifetime
from tests.memory.test_joining import cut


def buffer(name: str, size: int, first: int, last: int, alignment: int = 1) -> BufferLifetime:
    return BufferLifetime(
        id=name, values=(name,), size_bytes=size, first=first, last=last, alignment_bytes=alignment
    )


def lowered(buffers: list[BufferLifetime], offsets: list[int], moves: int) -> list[int]:
    columns = Buffers(buffers, {})
    ejector = Ejector(columns, [offsets[i] // columns.unit for i in columns.numbers])
    ejector.lower(0, moves)
    assert ejector.moves <= moves
    found = list(offsets)
    for i, offset in zip(columns.numbers, ejector.offsets, strict=True):
        found[i] = columns.unit * offset
    return found


BUFFERS = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 8, 24, 64, 96, 1 << 40]),
        st.integers(0, 12),
        st.integers(1, 8),
        st.sampled_from([1, 8, 64]),
    ),
    max_size=24,
)


@given(BUFFERS)
@settings(max_examples=60, deadline=None)
def test_what_is_found_is_a_plan_and_never_larger(rows: list[tuple[int, int, int, int]]):
    buffers = [
        buffer(f"b{i}", size, first, first + steps, alignment)
        for i, (size, first, steps, alignment) in enumerate(rows)
    ]
    plan = GreedyPlanner()(buffers)
    stacked, top = [], 0
    for one in buffers:
        stacked.append(-(-top // 64) * 64)
        top = stacked[-1] + one.size_bytes
    for offsets in (stacked, [placed.offset_bytes for placed in plan.placements]):
        found = lowered(buffers, offsets, 200)
        verify_plan(make_plan(buffers, found, plan.steps, plan.live_bytes, plan.attempts))
        assert peak_of(buffers, found) <= peak_of(buffers, offsets)


def test_a_buffer_takes_the_place_of_one_that_costs_less():
    """`d` ends at 112. Within 96 it fits at 32 alone, where `c` of fewer bytes lies until then."""
    buffers = [buffer("a", 32, 0, 4), buffer("c", 16, 1, 2), buffer("d", 64, 1, 4)]
    assert lowered(buffers, [0, 32, 48], 0) == [0, 32, 48]
    assert peak_of(buffers, lowered(buffers, [0, 32, 48], 100)) == 112  # the bound
    shorter = [buffers[0], buffer("c", 16, 0, 1), buffers[2]]
    assert peak_of(shorter, lowered(shorter, [0, 32, 48], 100)) == 96


def test_nothing_changes_after_the_deadline():
    buffers = [buffer("a", 8, 0, 2), buffer("b", 8, 2, 4)]
    ejector = Ejector(Buffers(buffers, {}), [0, 1])
    ejector.lower(0, 100, deadline=time.perf_counter() - 1)
    assert (ejector.offsets, ejector.moves) == ([0, 1], 0)
    ejector.lower(0, 100)
    assert (ejector.offsets, ejector.peak) == ([0, 0], 1)


def test_ejection_comes_nearer_to_the_bound_than_greedy_orders():
    buffers = cut(200, 40, seed=7)
    plan = GreedyPlanner()(buffers)
    offsets = [placed.offset_bytes for placed in plan.placements]
    found = lowered(buffers, offsets, 12 * MOVES_PER_BUFFER * len(buffers))
    gap = plan.peak_bytes - plan.bound_bytes
    assert gap and peak_of(buffers, found) - plan.bound_bytes < gap / 2


def test_compiled_moves_are_the_same():
    pytest.importorskip("numba")
    buffers = cut(200, 40, seed=7)
    columns = Buffers(buffers, {})
    offsets = list(GreedyPlanner()(buffers).offsets.values())
    plans = []
    for is_compiled in (False, True):
        ejector = Ejector(columns, [offset // columns.unit for offset in offsets], is_compiled)
        ejector.lower(0, 3_000)
        plans.append((ejector.moves, ejector.offsets))
    assert plans[0] == plans[1]


def test_the_planner_ejects_before_it_searches_large_problems(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(exact_planner, "MAX_SEARCHED_FIRST", 0)
    buffers = cut(200, 40, seed=7)
    plan = ExactPlanner(max_nodes=12_000)(buffers)
    verify_plan(plan)
    assert any(attempt.strategy.startswith("ejection, ") for attempt in plan.attempts)
    assert plan.peak_bytes < GreedyPlanner()(buffers).peak_bytes


def test_the_planner_ejects_blocks_of_many_steps_first():
    """Most blocks of few steps live for one of them: they take the gaps that the others leave."""
    buffers = cut(400, 8, seed=3)
    planner = ExactPlanner(max_nodes=12_000)
    plan = GreedyPlanner()(buffers)
    *starts, total = accumulate((b.size_bytes for b in buffers), initial=0)  # nothing shares bytes
    found, moves = planner._long_first(buffers, starts, 0, 0.0)
    verify_plan(make_plan(buffers, found, plan.steps, plan.live_bytes, plan.attempts))
    assert 0 < moves <= 0.4 * planner.max_nodes
    assert peak_of(buffers, found) < 1.2 * plan.bound_bytes < total / 3
    alone = [b for b in buffers if b.last - b.first > 1]
    own = [starts[i] for i, b in enumerate(buffers) if b.last - b.first > 1]
    assert planner._long_first(alone, own, 0, 0.0) == (own, 0)
    short = [b for b in buffers if b.last - b.first == 1]
    assert planner._long_first(short, [0] * len(short), 0, 0.0) == ([0] * len(short), 0)
