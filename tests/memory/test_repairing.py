"""Plans that are too large in few steps: only these are searched again."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.memory import ExactPlanner, GreedyPlanner, verify_plan
from explorer.memory.exact import repairing
from explorer.memory.exact.repairing import repaired
from explorer.memory.greedy import STRATEGIES
from explorer.memory.planners import make_plan
from explorer.results import BufferLifetime, MemoryPlan


def network(count: int, seed: int, alignments: tuple[int, ...] = (64,)) -> list[BufferLifetime]:
    """Results of operations, each of which lives until one of the next eight has run."""
    rng = random.Random(seed)
    found = []
    for step in range(count):
        size, last = rng.randrange(0, 64) << rng.choice((6, 10)), step + rng.randrange(1, 9)
        found.append(
            BufferLifetime(
                id=f"b{step}", values=(f"b{step}",), size_bytes=size, first=step, last=last,
                alignment_bytes=rng.choice(alignments),
            )
        )  # fmt: skip
    return found


def greedy(buffers: list[BufferLifetime]) -> MemoryPlan:
    return GreedyPlanner(STRATEGIES[:3])(buffers)


def with_offsets(plan: MemoryPlan, offsets: tuple[int, ...]) -> MemoryPlan:
    buffers = [placed.buffer for placed in plan.placements]
    return make_plan(buffers, offsets, plan.steps, plan.live_bytes, plan.attempts)


@pytest.mark.parametrize("seed", [0, 1, 13, 16, 17, 24, 53, 57])
def test_long_networks_reach_the_bound_without_a_search_of_the_whole(seed: int):
    """Greedy orders miss it in all but the first; a search of the whole takes a node a buffer."""
    buffers = network(400, seed)
    found = ExactPlanner(max_nodes=1_000).solve(buffers)
    verify_plan(found.plan)
    assert found.plan.optimal
    if greedy(buffers).peak_bytes > found.plan.peak_bytes:
        assert 0 < found.nodes < len(buffers)
        chosen = next(attempt for attempt in found.plan.attempts if attempt.is_chosen)
        assert chosen.strategy.startswith("search in ")


def test_what_is_far_from_the_excess_stays_where_it_is():
    buffers = network(400, 1)
    plan = greedy(buffers)
    offsets = [placed.offset_bytes for placed in plan.placements]
    over = [b for b, o in zip(buffers, offsets, strict=True) if o + b.size_bytes > plan.bound_bytes]
    assert over
    found = repaired(buffers, offsets, plan.bound_bytes, 2_000)
    assert found.offsets is not None and found.places == 1
    moved = [b for b, old, new in zip(buffers, offsets, found.offsets, strict=True) if old != new]
    assert all(abs(b.first - over[0].first) < 60 for b in moved)


@given(
    st.integers(1, 60),
    st.integers(0, 10_000),
    st.sampled_from([(1,), (64,), (4, 64), (1, 16, 128)]),
    st.floats(0, 1),
)
@settings(max_examples=60, deadline=None)
def test_what_is_found_is_a_plan_within_the_capacity(count, seed, alignments, part):
    """Also between the bound and the plan, with sizes of zero, and alignments that differ."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(repairing, "MIN_BUFFERS", 0)
        buffers = network(count, seed, alignments)
        plan = greedy(buffers)
        capacity = plan.bound_bytes + int(part * (plan.peak_bytes - plan.bound_bytes))
        offsets = [placed.offset_bytes for placed in plan.placements]
        found = repaired(buffers, offsets, capacity, 500)
        if found.offsets is not None:
            better = with_offsets(plan, found.offsets)
            verify_plan(better)
            assert better.peak_bytes <= capacity
        if plan.peak_bytes <= capacity:
            assert found.offsets == tuple(offsets) and found.nodes == 0


def test_few_buffers_and_hopeless_capacities_are_left_to_the_whole_search():
    buffers = network(50, 0)
    offsets = [placed.offset_bytes for placed in greedy(buffers).placements]
    assert repaired(buffers, offsets, 0, 2_000) == repairing.Repaired(None, 0)
    one = replace(buffers[0], size_bytes=1 << 20)
    assert repaired([one] * 300, list(range(0, 300 << 20, 1 << 20)), 1 << 20, 10).offsets is None
