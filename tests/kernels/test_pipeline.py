"""Pipelines of tiles: the numbers of the nest without, and what is refused."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects import memref

from explorer.kernels.loops.lowering import lower_to_loops
from explorer.kernels.loops.nest import LoopNest, ScheduleError, extent_of, shape_of
from explorer.kernels.printing.opencl import print_opencl
from explorer.kernels.schedules import Machine, schedule_kernel
from explorer.kernels.steps.groups import group, in_rounds, items, own_dimensions, stage
from explorer.kernels.steps.pack import blocked_pack
from explorer.kernels.steps.pipeline import pipeline
from explorer.kernels.steps.registers import accumulate
from explorer.kernels.steps.restructure import reorder, split

_SPEC = importlib.util.spec_from_file_location(
    "kernel_nest_samples", Path(__file__).with_name("nest_samples.py")
)
assert _SPEC is not None
assert _SPEC.loader is not None
samples = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(samples)

GPU = Machine(vector_floats=4, language="opencl", processor="gpu")
# Contracted multiply-adds; the order of the sums stays.
TOLERANCE = 1e-6


def staged(depth: int = 12, part: int = 4) -> LoopNest:
    """8 x 6 sums in registers of 24 items, both operands staged for a part of the depth."""
    nest = LoopNest(lower_to_loops(samples.matmul(8, depth, 6, bias=False)))
    split(nest, "m", "mt mi mp", (4, 2))
    split(nest, "k", "kt kk", (part,))
    reorder(nest, "mt kt mi n kk mp")
    accumulate(nest, at="kt", buffer="y")
    for buffer in ("w", "x"):
        stage(nest, buffer=buffer, at="kt", name=f"{buffer}_copy")
    items(nest, "x_copy_0 x_copy_1 w_copy_0 w_copy_1 mi n")
    group(nest, items=24)
    return nest


def assert_same_numbers(nest: LoopNest, run) -> None:
    depth = shape_of(nest.buffers["w"])[0]
    textbook = lower_to_loops(samples.matmul(8, depth, 6, bias=False))
    arrays = samples.random_arguments(textbook)
    expected = samples.run_nest(textbook, arrays)["y"]
    actual = run(nest.function, arrays)["y"]
    np.testing.assert_allclose(actual, expected, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.sampled(2)
@pytest.mark.opencl
@pytest.mark.parametrize(("depth", "part"), [(12, 4), (8, 4), (20, 2), (70, 35)])
def test_a_pipeline_computes_what_the_loop_did(depth, part, run_opencl):
    nest = staged(depth, part)
    pipeline(nest, at="kt")
    nest.function.verify()
    assert extent_of(nest.loop("kt")) == depth // part - 1
    assert_same_numbers(nest, samples.run_nest)
    assert_same_numbers(nest, run_opencl)


def test_items_keep_the_next_tile_in_registers():
    nest = staged(70, 35)  # tiles of 280 and 210 elements for 24 items
    pipeline(nest, at="kt")
    kept = [op for op in nest.function.walk() if isinstance(op, memref.AllocaOp) and in_rounds(op)]
    assert [own_dimensions(array) for array in kept] == [2, 2]
    text = "\n".join(print_opencl(nest.function, "k").lines)
    assert "float next_x_tile[12];" in text
    assert "float next_w_tile[9];" in text
    assert text.count("if (part < 280) {") == 4  # loaded and stored, in the loop and around it
    assert text.count("barrier(CLK_LOCAL_MEM_FENCE);") == 4


def test_a_pipeline_needs_a_second_iteration():
    with pytest.raises(ScheduleError, match="kt has no second iteration"):
        pipeline(staged(4, 4), at="kt")


def test_a_pipeline_needs_copies_of_tiles_first():
    nest = LoopNest(lower_to_loops(samples.matmul(8, 12, 6, bias=False)))
    reorder(nest, "m k n")
    with pytest.raises(ScheduleError, match="does not begin with copies of tiles; stage them"):
        pipeline(nest, at="k")


def test_a_pipeline_does_not_load_what_the_loop_writes():
    """Sums that stay in the output: an operation in place may have it where an input lies."""
    nest = LoopNest(lower_to_loops(samples.matmul(8, 12, 6, bias=False)))
    split(nest, "m", "mt mi", (4,))
    split(nest, "k", "kt kk", (4,))
    reorder(nest, "mt kt mi n kk")
    stage(nest, buffer="x", at="kt")
    items(nest, "x_0 x_1 mi n")
    with pytest.raises(ScheduleError, match="kt writes y while a tile is loaded"):
        pipeline(nest, at="kt")


def test_long_reductions_are_pipelined_and_short_ones_are_not():
    long = schedule_kernel(samples.matmul(64, 64, 64), GPU, {})
    assert long.choices["pipeline"] == "registers"
    assert [step.name for step in long.steps].count("pipeline") == 1
    short = schedule_kernel(samples.matmul(64, 32, 64), GPU, {})
    assert short.choices["pipeline"] == "none"
    single = samples.matmul(64, 16, 64)
    with pytest.raises(ScheduleError, match="pipeline = registers; none are legal"):
        schedule_kernel(single, GPU, {}, {"pipeline": "registers"})


@pytest.mark.sampled(1)
@pytest.mark.opencl
@pytest.mark.parametrize(
    ("function", "blocked", "choices"),
    [
        (lambda: samples.matmul(50, 72, 37, activation="relu", residual=True), "", {"depth": 9}),
        (lambda: samples.matmul(5, 48, 64, batch=3, weight=False), "", {"depth": 8}),
        (lambda: samples.convolution(16, 16, 14, 14, residual=True), "xyr", {"depth": 4}),
        (lambda: samples.convolution(24, 12, 13, 17, stride=2), "xy", {"depth": 4}),
    ],
    ids=["matmul", "batch", "convolution", "stride"],
)
def test_pipelined_products_have_the_same_numbers(function, blocked, choices, run_opencl):
    kernel = function()
    packs = {name: blocked_pack(4) for name in blocked}
    scheduled = schedule_kernel(kernel, GPU, packs, {**choices, "pipeline": "registers"})
    arrays = samples.random_arguments(kernel)
    expected = samples.run_nest(lower_to_loops(kernel), arrays)["y"]
    as_loops = samples.run_nest(scheduled.function, arrays, scheduled.packs)["y"]
    physical = {n: samples.pack_array(a, scheduled.packs.get(n)) for n, a in arrays.items()}
    found = run_opencl(scheduled.function, physical)["y"]
    on_device = samples.unpack_array(found, expected.shape, scheduled.packs.get("y"))
    for actual in (as_loops, on_device):
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)
