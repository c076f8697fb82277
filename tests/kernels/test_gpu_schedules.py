"""Schedules with work-groups: the numbers of the textbook nest, as C and on an OpenCL device."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from explorer.kernels.loops.lowering import lower_to_loops
from explorer.kernels.loops.nest import (
    LoopNest,
    ScheduleError,
    accesses_in,
    is_store,
    name_of,
    perfect_chain,
    shape_of,
)
from explorer.kernels.printing.opencl import print_opencl
from explorer.kernels.schedules import Machine, schedule_kernel
from explorer.kernels.sections.phases import phases
from explorer.kernels.steps.dependences import conflict
from explorer.kernels.steps.groups import group, has_items, items, single, stage, tree
from explorer.kernels.steps.pack import blocked_pack
from explorer.kernels.steps.registers import accumulate, rfactor
from explorer.kernels.steps.restructure import cut, reorder, split

_SPEC = importlib.util.spec_from_file_location(
    "kernel_nest_samples", Path(__file__).with_name("nest_samples.py")
)
assert _SPEC is not None
assert _SPEC.loader is not None
samples = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(samples)

GPU = Machine(vector_floats=4, language="opencl", processor="gpu")
# Sums in another order, and contracted multiply-adds.
TOLERANCE = 1e-5


def blocked(names: str) -> dict:
    return {name: blocked_pack(4) for name in names}


KERNELS = {
    "matmul": lambda: (samples.matmul(64, 32, 64, activation="relu", residual=True), {}),
    "matmul with tails on all sides": lambda: (samples.matmul(50, 24, 37), {}),
    "matmul of a depth that no part divides": lambda: (
        samples.matmul(40, 83, 24, activation="relu", residual=True),
        {},
    ),
    "matmul of one row": lambda: (samples.matmul(1, 64, 10), {}),
    "matmul of one row with tails": lambda: (
        samples.matmul(1, 48, 27, activation="relu", residual=True),
        {},
    ),
    "matmul of three rows": lambda: (samples.matmul(3, 128, 24, residual=True), {}),
    "matmul of one row and two activations": lambda: (
        samples.matmul(1, 16, 12, batch=3, weight=False),
        {},
    ),
    "matmul of few columns": lambda: (samples.matmul(7, 3, 2), {}),
    "matmul of two activations": lambda: (samples.matmul(5, 37, 64, batch=3, weight=False), {}),
    "convolution": lambda: (samples.convolution(16, 8, 14, 14), blocked("xy")),
    "convolution with stride and residual": lambda: (
        samples.convolution(32, 16, 13, 17, stride=2, residual=True),
        blocked("xyr"),
    ),
    "first convolution": lambda: (
        samples.convolution(24, 3, 20, 20, kernel=5, halo=1, residual=True),
        blocked("yr"),
    ),
    "convolution by patches": lambda: (
        samples.convolution(64, 2, 3, 4, kernel=12, stride=12),
        blocked("y"),
    ),
    "convolution of single pixels": lambda: (
        samples.convolution(64, 32, 7, 7, kernel=1, batch=2, halo=2),
        blocked("xy"),
    ),
    "depthwise": lambda: (samples.depthwise(16, 9, 9), blocked("xy")),
    "pool": lambda: (samples.pool(16, 9, 9), blocked("xy")),
    "softmax": lambda: (samples.softmax(5, 70), {}),
    "long softmax": lambda: (samples.softmax(3, 1030), {}),
    "mean": lambda: (samples.global_mean(16, 7, 7), blocked("x")),
    "elementwise": lambda: (samples.elementwise((1, 16, 9, 7)), blocked("xyz")),
    "grouped": lambda: (samples.grouped(4, 4, 4, 9, 9), {}),
    "gather": lambda: (samples.gather(20, 7, 5), {}),
}


def run_logical(run, function, arrays, packs):
    """`run` (C or OpenCL) on arrays in their packed layouts; the results are logical again."""
    physical = {n: samples.pack_array(a, packs.get(n)) for n, a in arrays.items()}
    found = run(function, physical)
    return {
        name: samples.unpack_array(found[name], arrays[name].shape, packs.get(name))
        for name in arrays
    }


@pytest.mark.sampled(5)
@pytest.mark.opencl
@pytest.mark.parametrize("name", KERNELS)
def test_a_gpu_schedule_computes_what_the_textbook_nest_does(name, run_opencl):
    function, packs = KERNELS[name]()
    scheduled = schedule_kernel(function, GPU, packs)
    scheduled.function.verify()
    arrays = samples.random_arguments(function)
    expected = samples.run_nest(lower_to_loops(function), arrays)
    as_loops = samples.run_nest(scheduled.function, arrays, scheduled.packs)
    on_device = run_logical(run_opencl, scheduled.function, arrays, scheduled.packs)
    roles = zip(samples.argument_names(function), samples.argument_roles(function), strict=True)
    for argument, role in roles:
        if role == "output":
            for actual in (as_loops, on_device):
                np.testing.assert_allclose(
                    actual[argument], expected[argument], rtol=TOLERANCE, atol=TOLERANCE
                )


@pytest.mark.opencl
@pytest.mark.parametrize(
    "choices",
    [
        {"row_items": 6},
        {"column_items": 8, "depth": 4},
        {"rows": 2, "row_items": 4, "vectors": 2, "column_items": 4},
        {"schedule": "items", "group": 32},
    ],
)
def test_overridden_tiles_of_a_product_compute_the_same(choices, run_opencl):
    function = samples.matmul(50, 24, 37)
    scheduled = schedule_kernel(function, GPU, {}, choices)
    assert {**scheduled.choices, **choices} == scheduled.choices
    arrays = samples.random_arguments(function)
    expected = samples.run_nest(lower_to_loops(function), arrays)["y"]
    actual = run_logical(run_opencl, scheduled.function, arrays, scheduled.packs)["y"]
    np.testing.assert_allclose(actual, expected, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.opencl
@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "choices", [{"parts": 8}, {"parts": 32, "column_items": 1}, {"column_items": 4}]
)
def test_overridden_shares_of_a_vector_product_compute_the_same(choices, run_opencl):
    function = samples.matmul(1, 64, 40, activation="relu")
    scheduled = schedule_kernel(function, GPU, {}, choices)
    arrays = samples.random_arguments(function)
    expected = samples.run_nest(lower_to_loops(function), arrays)["y"]
    actual = run_logical(run_opencl, scheduled.function, arrays, scheduled.packs)["y"]
    np.testing.assert_allclose(actual, expected, rtol=TOLERANCE, atol=TOLERANCE)


def test_a_product_of_one_row_divides_its_depth_among_items():
    scheduled = schedule_kernel(samples.matmul(1, 256, 64), GPU, {})
    assert scheduled.choices["schedule"] == "vectors"
    assert (scheduled.choices["parts"], scheduled.choices["column_items"]) == (64, 2)
    printed = print_opencl(scheduled.function, "k")
    (record,) = printed.phases
    assert (record.tasks, record.group_items) == (8, 128)
    text = "\n".join(printed.lines)
    # A warp reads 512 bytes that follow each other.
    assert "*(__global const float4 *)(w + ng * 2048 + kp * 8 + ni * 4 + ks * 512)" in text
    odd = schedule_kernel(samples.matmul(1, 63, 64), GPU, {})
    assert odd.choices["schedule"] == "groups"  # items could not share it evenly


def test_a_choice_that_does_not_fit_is_refused_with_what_is_legal():
    with pytest.raises(ScheduleError, match="row_items = 99; 1 to 12 are legal"):
        schedule_kernel(samples.matmul(50, 24, 37), GPU, {}, {"row_items": 99})


def test_processors_are_not_offered_work_groups():
    scheduled = schedule_kernel(
        samples.matmul(64, 32, 64), Machine(vector_floats=16, language="opencl"), {}
    )
    assert scheduled.choices["schedule"] == "tiled"
    assert not has_items(scheduled.function)


def test_a_products_group_stages_both_operands_between_barriers():
    function = schedule_kernel(samples.matmul(64, 32, 64), GPU, {}).function
    printed = print_opencl(function, "k")
    (record,) = printed.phases
    assert record.work_items == record.tasks * record.group_items
    text = "\n".join(printed.lines)
    assert text.count("__local float") - text.count("(__local float") == 2
    assert text.count("barrier(CLK_LOCAL_MEM_FENCE);") == 2
    assert "*(__global const float4 *)(w + " in text
    assert "*(__local const float4 *)(&w_tile[kk]" in text
    assert "const int task = (int)get_group_id(0);" in text


def test_a_large_window_is_staged_row_by_row():
    function = samples.convolution(64, 2, 3, 4, kernel=12, stride=12)
    scheduled = schedule_kernel(function, GPU, blocked("y"))
    assert scheduled.choices["schedule"] == "groups"
    text = "\n".join(print_opencl(scheduled.function, "k").lines)
    assert "__local float w_tile[2][12][64]" in text  # channels, columns of the window, outputs


def test_rows_are_reduced_by_a_group_each_and_short_rows_by_an_item():
    long = schedule_kernel(samples.softmax(5, 70), GPU, {})
    assert long.choices == {"schedule": "row_groups", "group": 32}
    (record,) = print_opencl(long.function, "k").phases
    assert (record.tasks, record.group_items, record.work_items) == (5, 32, 160)
    assert [step.name for step in long.steps].count("tree") == 2
    short = schedule_kernel(samples.softmax(5, 20), GPU, {})
    assert short.choices["schedule"] == "items"


def test_work_items_without_groups_are_rounded_up_and_guarded():
    function = schedule_kernel(samples.elementwise((1, 16, 9, 7)), GPU, blocked("xyz")).function
    printed = print_opencl(function, "k")
    (record,) = printed.phases
    assert (record.tasks, record.group_items, record.work_items) == (252, 128, 256)
    assert "    if (task >= 252) return;" in printed.lines


# -- the steps -----------------------------------------------------------------------------------


def product(rows=8, depth=12, columns=6) -> LoopNest:
    """A textbook product with the reduction in two loops and the sums in registers."""
    nest = LoopNest(lower_to_loops(samples.matmul(rows, depth, columns, bias=False)))
    split(nest, "k", "kt kk", (4,))
    reorder(nest, "kt m n kk")
    return nest


def run_both(nest: LoopNest) -> None:
    """The nest's numbers are those of the textbook."""
    textbook = lower_to_loops(samples.matmul(8, 12, 6, bias=False))
    arrays = samples.random_arguments(textbook)
    expected = samples.run_nest(textbook, arrays)["y"]
    actual = samples.run_nest(nest.function, arrays)["y"]
    np.testing.assert_allclose(actual, expected, rtol=TOLERANCE, atol=TOLERANCE)


def test_stage_copies_the_part_that_one_iteration_reads():
    nest = product()
    stage(nest, buffer="x", at="kt")
    assert [f"{name}: {len(nest.loops(name))}" for name in ("x_0", "x_1")] == ["x_0: 1", "x_1: 1"]
    (tile,) = {
        a.memref for a in accesses_in(nest.loop("kt")) if "tile" in (a.memref.name_hint or "")
    }
    assert shape_of(tile) == (8, 4)
    run_both(nest)


def test_stage_turns_a_tile_round():
    nest = product()
    stage(nest, buffer="w", at="kt", order=(1, 0), name="turned")
    assert nest.has("turned_0")
    run_both(nest)


def test_stage_refuses_what_the_loop_writes():
    with pytest.raises(ScheduleError, match="has 2 accesses of y, not a single load"):
        stage(product(), buffer="y", at="kt")


def test_items_refuses_loops_whose_iterations_depend_on_one_another():
    nest = product()
    assert conflict(nest.loop("kk")) is not None
    with pytest.raises(ScheduleError, match="iterations of kk touch the same elements of y"):
        items(nest, "kk")


def test_items_takes_digits_that_others_follow():
    """`2 mi + mp` tells the iterations of mi apart however mp is nested."""
    nest = LoopNest(lower_to_loops(samples.matmul(8, 12, 6, bias=False)))
    split(nest, "m", "mp mi", (4,))
    reorder(nest, "mi n k mp")
    items(nest, "mi")
    run_both(nest)


def test_items_refuses_loops_inside_of_what_an_item_runs():
    nest = LoopNest(lower_to_loops(samples.matmul(8, 12, 6, bias=False)))
    reorder(nest, "m k n")
    items(nest, "m")
    with pytest.raises(ScheduleError, match="n lies inside of what a work-item runs"):
        items(nest, "n")


def test_group_refuses_sizes_that_no_device_has():
    with pytest.raises(ScheduleError, match="1 to 1024 are legal"):
        group(product(), items=2000)


@pytest.mark.opencl
def test_a_tree_adds_partial_sums_pairwise(run_opencl):
    function = samples.matmul(3, 64, 1, bias=False)
    nest = LoopNest(lower_to_loops(function))
    reorder(nest, "n m k")
    split(nest, "k", "ko ki", (16,))
    rfactor(nest, outer="ko", inner="ki", buffer="y")
    reorder(nest, "ki ko")
    tree(nest, loop="ki_sum")
    assert [nest.has(f"ki_sum_{n}") for n in (8, 4, 2, 1)] == [True] * 4
    for name in ("ki", "ki_sum_8", "ki_sum_4", "ki_sum_2", "ki_sum_1", "ki_sum_last"):
        items(nest, name)
    group(nest, items=16)
    arrays = samples.random_arguments(function)
    expected = samples.run_nest(lower_to_loops(function), arrays)["y"]
    for run in (samples.run_nest, run_opencl):
        np.testing.assert_allclose(
            run(nest.function, arrays)["y"], expected, rtol=TOLERANCE, atol=TOLERANCE
        )


def test_parts_of_a_reduction_share_their_registers():
    function = samples.matmul(8, 12, 6, bias=False)
    nest = LoopNest(lower_to_loops(function))
    reorder(nest, "m k n")
    cut(nest, "k", at=8, suffix="_rest")
    accumulate(nest, at="k k_rest", buffer="y")
    stores = [a for a in nest.accesses("y") if is_store(a)]
    assert len(stores) == 2  # zero, and the sums of both parts together
    run_both(nest)


def test_loops_that_do_not_follow_each_other_share_no_registers():
    nest = LoopNest(lower_to_loops(samples.matmul(8, 12, 6, bias=False)))
    reorder(nest, "m k n")
    cut(nest, "k", at=8, suffix="_rest")
    with pytest.raises(ScheduleError, match="k_rest k do not follow each other"):
        accumulate(nest, at="k_rest k", buffer="y")


def test_partial_results_may_be_tiles():
    nest = LoopNest(lower_to_loops(samples.matmul(8, 12, 6, bias=False)))
    split(nest, "k", "ko ki", (4,))
    reorder(nest, "m ko ki n")
    accumulate(nest, at="ko", buffer="y", name="sums")
    rfactor(nest, outer="ko", inner="ki", buffer="sums")
    reorder(nest, "ki n ko")
    accumulate(nest, at="ko", buffer="part")
    tree(nest, loop="ki_sum")
    assert [name_of(loop) for loop in perfect_chain(nest.loop("ki_sum_2"))] == ["ki_sum_2", "n"]
    run_both(nest)


def test_tree_refuses_other_extents():
    nest = LoopNest(lower_to_loops(samples.matmul(3, 24, 2, bias=False)))
    split(nest, "k", "ko ki", (12,))
    rfactor(nest, outer="ko", inner="ki", buffer="y")
    with pytest.raises(ScheduleError, match="12 iterations, not a power of two"):
        tree(nest, loop="ki_sum")


def test_single_gives_work_between_loops_to_one_item():
    nest = LoopNest(lower_to_loops(samples.matmul(8, 12, 6, bias=False)))
    accumulate(nest, at="k", buffer="y")
    single(nest, within="n", name="once")
    assert nest.has("once")
    assert nest.has("once_2")
    run_both(nest)


def test_nests_of_groups_are_phases_of_their_own():
    """A driver may get barriers in branches wrong, so that no phase has two such nests."""
    function = schedule_kernel(samples.matmul(50, 24, 37), GPU, {}).function
    found = phases(function)
    assert len(found) == 4
    assert all(len(phase.nests) == 1 for phase in found)
