"""From buffers with lifetimes to offsets, and what is checked about them."""

import os
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.errors import ExplorerError, InputError, MemoryBudgetError
from explorer.memory import (
    STRATEGIES,
    GreedyPlanner,
    NoSharingPlanner,
    Strategy,
    choose_planner,
    default_planners,
    greedy,
    read_instance,
    refuse,
    verify_plan,
)
from explorer.memory.bounds import count_steps, live_bytes
from explorer.results import BufferLifetime, PlacedBuffer

REPOSITORY = Path(__file__).resolve().parents[2]


def buffer(name: str, size: int, first: int, last: int, alignment: int = 64) -> BufferLifetime:
    return BufferLifetime(
        id=name, values=(name,), size_bytes=size, first=first, last=last, alignment_bytes=alignment
    )


@st.composite
def problems(draw: st.DrawFn) -> list[BufferLifetime]:
    """Up to 24 buffers with mixed alignments; sizes of zero and ones that are no multiple."""
    count = draw(st.integers(0, 24))
    buffers = []
    for index in range(count):
        first = draw(st.integers(0, 12))
        buffers.append(
            buffer(
                f"b{index}",
                draw(st.integers(0, 200)),
                first,
                first + draw(st.integers(1, 6)),
                draw(st.sampled_from([1, 4, 16, 64])),
            )
        )
    return buffers


def test_buffers_that_never_live_together_share_their_bytes():
    plan = GreedyPlanner()([buffer("a", 64, 0, 2), buffer("b", 32, 1, 3), buffer("c", 64, 2, 3)])
    assert plan.offsets == {"a": 0, "b": 64, "c": 0}
    assert plan.live_bytes == (64, 96, 96)
    assert (plan.peak_bytes, plan.bound_bytes, plan.optimal) == (96, 96, True)
    assert plan.total_bytes == 160


def test_the_planner_stops_at_the_first_strategy_that_reaches_the_bound():
    plan = GreedyPlanner()([buffer("a", 64, 0, 1)])
    assert [attempt.strategy for attempt in plan.attempts] == ["size / lifetime, first fit"]


def test_every_strategy_that_was_tried_is_recorded_and_the_best_one_wins():
    # By start: a 0, b 2, d 4 on both, and c finds only [2, 4) free below d, so it ends at 11.
    # By size: c 0, d 4, a 7, and b fits below d.
    buffers = [
        buffer("a", 2, 0, 3, 1),
        buffer("b", 2, 0, 1, 1),
        buffer("c", 4, 2, 3, 1),
        buffer("d", 3, 0, 3, 1),
    ]
    by_start, by_size = Strategy(("start",), "first"), Strategy(("size",), "first")
    for strategies in ((by_start, by_size), (by_size, by_start)):
        plan = GreedyPlanner(strategies)(buffers)
        assert plan.offsets == {"a": 7, "b": 0, "c": 0, "d": 4}
    plan = GreedyPlanner((by_start, by_size))(buffers)
    assert [(attempt.strategy, attempt.peak_bytes) for attempt in plan.attempts] == [
        ("start, first fit", 11),
        ("size, first fit", 9),
    ]


def test_there_are_at_least_sixteen_different_strategies():
    assert len({strategy.name for strategy in STRATEGIES}) == len(STRATEGIES) >= 16


@pytest.mark.parametrize(
    ("fit", "offset"),
    [("first", 0), ("best", 30)],
)
def test_first_fit_takes_the_lowest_gap_and_best_fit_the_smallest(fit, offset):
    # In step 1 the walls leave [0, 10), [30, 34) and what is above 40: 4 bytes fit thrice.
    buffers = [
        buffer("low", 10, 0, 1, 1),
        buffer("wall", 20, 0, 2, 1),
        buffer("middle", 4, 0, 1, 1),
        buffer("roof", 6, 0, 2, 1),
        buffer("late", 4, 1, 2, 1),
    ]
    plan = GreedyPlanner((Strategy(("start",), fit),))(buffers)
    assert plan.offsets == {"low": 0, "wall": 10, "middle": 30, "roof": 34, "late": offset}


def test_lowest_fit_lets_the_buffer_come_next_that_can_lie_lowest():
    # After a (0) and b (on a), c has its floor at 64 and d, beside nothing of them, at 0.
    buffers = [
        buffer("a", 64, 0, 2),
        buffer("b", 64, 1, 3),
        buffer("c", 64, 0, 1),
        buffer("d", 64, 3, 4),
    ]
    plan = GreedyPlanner((Strategy(("start",), "lowest"),))(buffers)
    assert plan.offsets == {"a": 0, "b": 64, "c": 64, "d": 0}


def test_offsets_respect_the_alignment_of_each_buffer_and_the_bound_counts_the_padding():
    plan = GreedyPlanner()([buffer("a", 10, 0, 1, 64), buffer("b", 20, 0, 1, 64)])
    assert sorted(plan.offsets.values()) == [0, 64]
    # One of the two lies above the other's 64 bytes: at best the smaller one.
    assert (plan.peak_bytes, plan.bound_bytes, plan.optimal) == (74, 74, True)


def test_buffers_of_zero_bytes_take_no_room():
    plan = GreedyPlanner()([buffer("empty", 0, 0, 3), buffer("a", 64, 0, 3)])
    assert plan.offsets == {"empty": 0, "a": 0}
    verify_plan(plan)


@pytest.mark.parametrize("planner", [GreedyPlanner(), NoSharingPlanner()])
def test_no_buffers_need_no_memory(planner):
    plan = planner([])
    assert (plan.peak_bytes, plan.bound_bytes, plan.optimal) == (0, 0, True)
    assert (plan.placements, plan.live_bytes) == ((), ())
    verify_plan(plan)


def test_without_sharing_the_peak_is_the_sum_with_padding():
    plan = NoSharingPlanner()([buffer("a", 10, 0, 1), buffer("b", 64, 1, 2)])
    assert plan.offsets == {"a": 0, "b": 64}
    assert (plan.peak_bytes, plan.bound_bytes, plan.optimal) == (128, 64, False)


def test_steps_carry_the_names_of_the_launches():
    plan = GreedyPlanner()([buffer("a", 64, 0, 2)], steps=["conv_1", "relu_1", "softmax_1"])
    assert plan.steps == ("conv_1", "relu_1", "softmax_1")
    assert plan.live_bytes == (64, 64, 0)
    assert GreedyPlanner()([buffer("a", 64, 0, 2)]).steps == ("0", "1")
    with pytest.raises(InputError, match="1 steps are named, but buffer 'a' lives until step 2"):
        GreedyPlanner()([buffer("a", 64, 0, 2)], steps=["conv_1"])


def test_the_limit_on_placements_ends_the_trials():
    buffers = [buffer("a", 3, 0, 2, 1), buffer("b", 2, 1, 4, 1)]
    planner = GreedyPlanner(
        (Strategy(("size",), "first"), Strategy(("area",), "first")), most_placements=1
    )
    assert len(planner(buffers).attempts) == 1


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ([buffer("a", 64, 0, 1), buffer("a", 64, 0, 1)], "two buffers are named 'a'"),
        ([buffer("a", 64, 2, 2)], r"'a' lives in steps \[2, 2\)"),
        ([buffer("a", 64, -1, 2)], r"'a' lives in steps \[-1, 2\)"),
        ([buffer("a", -1, 0, 1)], "'a' has -1 bytes"),
        ([buffer("a", 64, 0, 1, 0)], "at an alignment of 0"),
    ],
)
def test_buffers_that_cannot_be_placed_are_refused(bad, message):
    for planner in default_planners().values():
        with pytest.raises(ExplorerError, match=message):
            planner(bad)


def test_a_planner_is_chosen_by_name_from_what_the_caller_passes():
    mine = NoSharingPlanner()
    assert choose_planner("mine", {**default_planners(), "mine": mine}) is mine
    assert choose_planner("greedy", default_planners()) == GreedyPlanner()
    with pytest.raises(InputError, match="no memory planner 'gredy'; try: did you mean 'greedy'"):
        choose_planner("gredy", default_planners())


@settings(deadline=None)
@given(problems())
def test_live_buffers_never_overlap_and_no_plan_is_below_the_bound(buffers):
    for planner in (GreedyPlanner(), NoSharingPlanner()):
        plan = planner(buffers)
        verify_plan(plan)
        assert plan.peak_bytes >= plan.bound_bytes >= max(plan.live_bytes, default=0)


@settings(deadline=None)
@given(problems(), st.sampled_from(STRATEGIES))
def test_every_strategy_alone_gives_a_legal_plan(buffers, strategy):
    plan = GreedyPlanner((strategy,))(buffers)
    for one in plan.placements:
        assert one.offset_bytes % one.buffer.alignment_bytes == 0
        for other in plan.placements:
            if one is other:
                continue
            together = one.buffer.first < other.buffer.last and other.buffer.first < one.buffer.last
            apart = (
                one.offset_bytes + one.buffer.size_bytes <= other.offset_bytes
                or other.offset_bytes + other.buffer.size_bytes <= one.offset_bytes
            )
            empty = 0 in (one.buffer.size_bytes, other.buffer.size_bytes)
            assert apart or empty or not together


@settings(deadline=None)
@given(problems(), st.sampled_from(STRATEGIES))
def test_lists_of_neighbours_and_arrays_give_the_same_offsets(buffers, strategy):
    def offsets(most: int) -> list[int]:
        with mock.patch.object(greedy, "MAX_NEIGHBOURS", most):
            columns = greedy.Columns.of(buffers)
            assert (columns.neighbours is None) == (most < 0 and bool(buffers))
            keys = greedy.sort_keys(columns, live_bytes(buffers, count_steps(buffers)))
            return greedy.place(columns, keys, strategy)

    assert offsets(len(buffers)) == offsets(-1)


@given(problems())
def test_the_same_buffers_get_the_same_plan(buffers):
    assert GreedyPlanner()(buffers).placements == GreedyPlanner()(buffers).placements


def overlapping_plan():
    plan = GreedyPlanner()([buffer("a", 64, 0, 2), buffer("b", 64, 1, 3)])
    at_zero = tuple(PlacedBuffer(placed.buffer, 0) for placed in plan.placements)
    return replace(plan, placements=at_zero, peak_bytes=64)


def test_an_overlap_of_live_buffers_is_found():
    with pytest.raises(
        ExplorerError, match=r"'a' \[0, 64\) and 'b' \[0, 64\) overlap and are both live in step 1"
    ):
        verify_plan(overlapping_plan())


@pytest.mark.parametrize("offset", [-64, 32])
def test_an_offset_that_is_negative_or_not_aligned_is_found(offset):
    plan = GreedyPlanner()([buffer("a", 64, 0, 2)])
    moved = replace(plan, placements=(PlacedBuffer(plan.placements[0].buffer, offset),))
    with pytest.raises(ExplorerError, match=f"'a' lies at offset {offset}"):
        verify_plan(moved)


@pytest.mark.parametrize(
    ("field", "value"),
    [("peak_bytes", 65), ("bound_bytes", 63), ("total_bytes", 1), ("live_bytes", (64, 0))],
)
def test_a_number_that_does_not_follow_from_the_placements_is_found(field, value):
    plan = GreedyPlanner()([buffer("a", 64, 0, 2)])
    with pytest.raises(ExplorerError, match=f"{field} is"):
        verify_plan(replace(plan, **{field: value}))


def test_a_plan_within_its_budget_is_accepted():
    refuse(GreedyPlanner()([buffer("a", 64, 0, 2)]), budget_bytes=64)


def test_a_budget_below_the_bound_is_refused_with_the_layers_live_at_the_peak():
    buffers = [
        BufferLifetime(id="conv_1", values=("conv_1", "relu_1"), size_bytes=128, first=0, last=2),
        buffer("conv_2", 256, 1, 3),
        buffer("pool_1", 64, 2, 4),
    ]
    plan = GreedyPlanner()(buffers, steps=["conv_1", "conv_2", "pool_1", "add_1"])
    with pytest.raises(MemoryBudgetError) as caught:
        refuse(plan, budget_bytes=300)
    assert str(caught.value) == (
        "memory: the plan needs 384 bytes of arena, 84 more than the budget of 300. Live in step "
        "1 (conv_2): conv_2, 256 bytes in steps 1-2; conv_1 = relu_1, 128 bytes in steps 0-1; "
        "where: operations conv_2, conv_1, relu_1; try: a budget of at least 384 bytes or smaller "
        "layers: so much lives at once, whatever the planner"
    )
    assert (caught.value.budget_bytes, caught.value.needed_bytes) == (300, 384)


def test_a_budget_that_only_gaps_exceed_is_refused_with_the_advice_to_plan_better():
    plan = NoSharingPlanner()([buffer("a", 64, 0, 1), buffer("b", 64, 1, 2)])
    with pytest.raises(MemoryBudgetError, match="another planner: only 64 bytes are live at once"):
        refuse(plan, budget_bytes=100)


def test_a_long_list_of_live_layers_is_cut_and_says_so():
    plan = GreedyPlanner()([buffer(f"b{i:02}", 64, 0, 1) for i in range(20)])
    with pytest.raises(MemoryBudgetError, match="8 more of 512 bytes together"):
        refuse(plan, budget_bytes=0)


def test_times_of_a_table_become_steps(tmp_path):
    table = tmp_path / "table.csv"
    table.write_text("id,lower,upper,size\n0,100,205,64\n1,200,300,32\n2,205,300,64\n")
    assert [(b.id, b.first, b.last, b.size_bytes) for b in read_instance(table)] == [
        ("0", 0, 2, 64),
        ("1", 1, 3, 32),
        ("2", 2, 3, 64),
    ]


@pytest.mark.parametrize("line", ["0,5,5,64", "0,0,1,-1", "0,0,x,1", "0,0"])
def test_a_bad_line_of_a_table_is_named(tmp_path, line):
    table = tmp_path / "table.csv"
    table.write_text(f"id,lower,upper,size\n{line}\n")
    with pytest.raises(InputError, match="line 2 is no buffer"):
        read_instance(table)


def test_a_table_without_sizes_is_refused(tmp_path):
    table = tmp_path / "table.csv"
    table.write_text("id,lower,upper\n0,0,1\n")
    with pytest.raises(InputError, match="no column size"):
        read_instance(table)


@pytest.mark.parametrize(
    ("table", "bound", "peak"),
    [
        ("challenging/A.1048576.csv", 1_048_576, 1_161_216),
        ("challenging/D.1048576.csv", 986_112, 1_126_400),
        ("large/resnet50.csv", 1_515_472_556, 1_515_472_556),
        ("large/G_1.csv", 3_030_937_746, 3_030_937_746),
    ],
)
def test_problems_of_other_planners_get_legal_plans_no_worse_than_measured(table, bound, peak):
    folder = REPOSITORY / os.environ.get("EXPLORER_MEMORY_INSTANCES", "../shared/memory")
    if not folder.is_dir():
        pytest.skip(f"no tables of buffers at {folder}: name them with EXPLORER_MEMORY_INSTANCES")
    plan = GreedyPlanner()(read_instance(folder / table))
    verify_plan(plan)
    assert plan.bound_bytes == bound
    assert plan.peak_bytes <= peak
