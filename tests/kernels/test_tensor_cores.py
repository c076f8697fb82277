"""Matrix instructions: fragments as PTX describes them, emulated; and the schedule around them."""

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects import affine

from explorer.kernels.loops.lowering import lower_to_loops
from explorer.kernels.loops.nest import LoopNest, ScheduleError
from explorer.kernels.printing.language import Requirement
from explorer.kernels.printing.opencl import OpenCLLanguage, print_opencl
from explorer.kernels.printing.prelude import prelude_lines
from explorer.kernels.schedules import Machine, schedule_kernel
from explorer.kernels.steps.groups import items, stage
from explorer.kernels.steps.registers import accumulate
from explorer.kernels.steps.restructure import reorder, split
from explorer.kernels.steps.tensor_cores import instruction_of, tensor_cores

_SPEC = importlib.util.spec_from_file_location(
    "kernel_nest_samples", Path(__file__).with_name("nest_samples.py")
)
assert _SPEC is not None
assert _SPEC.loader is not None
samples = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(samples)

MIXED = Machine(
    vector_floats=4, language="opencl", processor="gpu", precision="mixed", tensor_cores="emulated"
)
# Sums in another order: float32's rounding of 16 to 128 terms of about one.
TOLERANCE = 1e-5
HALF = 2.0**-10
"""What rounding both factors to 11 bits changes a product by, at most and relatively."""


def as_halves(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float16).astype(np.float32)


# -- the instruction -----------------------------------------------------------------------------

ONE_TILE = """
__kernel void one_tile(
    __global const uint *a, __global const uint *b, __global float *sums)
{
    __local uint fragments[192];
    const int lane = (int)get_local_id(0);
    uint left[4], right[2];
    float own[4];
    for (int i = 0; i < 4; i++) left[i] = a[lane * 4 + i];
    for (int i = 0; i < 2; i++) right[i] = b[lane * 2 + i];
    for (int i = 0; i < 4; i++) own[i] = sums[lane * 4 + i];
    mma_emulated(own, left, right, fragments);
    for (int i = 0; i < 4; i++) sums[lane * 4 + i] = own[i];
}
"""


def fragments(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> list[np.ndarray]:
    """What each of 32 items holds, as PTX ISA 8.5, section 9.7.14.5.8 says it.

    With group = lane >> 2 and thread = lane & 3:
    A (16 x 16): a0, a1, a4, a5 in row `group`, the others in row `group + 8`; in column
    `2 thread + (i & 1)`, plus 8 from a4 on.
    B (16 x 8): in row `2 thread + (i & 1)`, plus 8 from b2 on; in column `group`.
    C (16 x 8): in row `group`, plus 8 from c2 on; in column `2 thread + (i & 1)`.
    """
    left, right, sums = (np.zeros((32, n), np.float32) for n in (8, 4, 4))
    for lane in range(32):
        group, thread = lane >> 2, lane & 3
        for i in range(8):
            row = group if i < 2 or 4 <= i < 6 else group + 8
            left[lane, i] = a[row, 2 * thread + (i & 1) + (8 if i >= 4 else 0)]
        for i in range(4):
            right[lane, i] = b[2 * thread + (i & 1) + (8 if i >= 2 else 0), group]
            sums[lane, i] = c[group + (8 if i >= 2 else 0), 2 * thread + (i & 1)]
    return [left.astype(np.float16), right.astype(np.float16), sums]


@pytest.mark.opencl
def test_the_emulated_instruction_multiplies_fragments_as_ptx_lays_them_out():
    cl: Any = pytest.importorskip("pyopencl")
    context = cl.create_some_context(interactive=False)
    text = prelude_lines(OpenCLLanguage("int"), [Requirement("mma_emulated")])
    program = cl.Program(context, "\n".join(text) + ONE_TILE).build()
    random = np.random.default_rng(0)
    a, b = (as_halves(random.standard_normal(s, np.float32)) for s in ((16, 16), (16, 8)))
    c = random.standard_normal((16, 8), np.float32)
    left, right, sums = fragments(a, b, c)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    buffers = [cl.Buffer(context, flags, hostbuf=array) for array in (left, right, sums)]
    queue = cl.CommandQueue(context)
    program.one_tile(queue, (32,), (32,), *buffers)
    cl.enqueue_copy(queue, sums, buffers[2]).wait()
    expected = fragments(a, b, c + a @ b)[2]
    np.testing.assert_allclose(sums, expected, rtol=TOLERANCE, atol=TOLERANCE)


def test_the_instruction_of_ptx_names_its_shapes_and_types():
    text = "\n".join(prelude_lines(OpenCLLanguage("int"), [Requirement("mma_ptx")]))
    assert "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32" in text
    assert text.count('"+f"(sums[') == 4
    assert text.count('"r"(a[') == 4
    assert text.count('"r"(b[') == 2


# -- the schedule --------------------------------------------------------------------------------


def run_scheduled(run, function, scheduled, arrays):
    arrays = samples.as_the_kernel_takes_them(scheduled.function, arrays)
    physical = {n: samples.pack_array(a, scheduled.packs.get(n)) for n, a in arrays.items()}
    return run(scheduled.function, physical)["y"]


@pytest.mark.sampled(2)
@pytest.mark.opencl
@pytest.mark.parametrize(
    ("sizes", "choices"),
    [
        ((16, 16, 8), {}),
        ((32, 64, 32), {"column_tiles": 2, "depth": 16}),
        ((64, 32, 48), {"row_tiles": 1, "column_tiles": 3, "row_warps": 2, "column_warps": 2}),
        ((32, 128, 16), {"depth": 32, "pipeline": "registers"}),
    ],
)
def test_whole_tiles_are_products_of_halves_with_float32_sums(sizes, choices, run_opencl):
    function = samples.matmul(*sizes, activation="relu")
    scheduled = schedule_kernel(function, MIXED, {}, choices)
    scheduled.function.verify()
    assert scheduled.choices["schedule"] == "tensor_cores"
    arrays = samples.random_arguments(function)
    rounded = as_halves(arrays["x"]).astype(np.float64) @ as_halves(arrays["w"])
    expected = np.maximum(rounded + arrays["b"], 0)
    as_loops = samples.run_nest(scheduled.function, arrays, scheduled.packs)["y"]
    on_device = run_scheduled(run_opencl, function, scheduled, arrays)
    for actual in (as_loops, on_device):
        np.testing.assert_allclose(actual, expected, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.sampled(2)
@pytest.mark.opencl
@pytest.mark.parametrize(
    "make",
    [
        lambda: samples.matmul(50, 48, 37, residual=True),
        lambda: samples.matmul(21, 32, 72, batch=2, weight=False),
        lambda: samples.matmul(32, 53, 16),
    ],
    ids=["weights", "two activations", "a depth that no part divides"],
)
def test_what_tiles_leave_stays_within_the_rounding_of_halves(make, run_opencl):
    function = make()
    scheduled = schedule_kernel(function, MIXED, {})
    assert scheduled.choices["schedule"] == "tensor_cores"
    arrays = samples.random_arguments(function)
    expected = samples.run_nest(lower_to_loops(function), arrays)["y"]
    allowed = HALF * (np.abs(arrays["x"]) @ np.abs(arrays["w"])) + TOLERANCE
    as_loops = samples.run_nest(scheduled.function, arrays, scheduled.packs)["y"]
    on_device = run_scheduled(run_opencl, function, scheduled, arrays)
    for actual in (as_loops, on_device):
        assert np.all(np.abs(actual - expected) <= allowed)
    # Rounded it is: the tiles do not compute in float32 after all.
    assert np.abs(on_device - expected).max() > 10 * TOLERANCE


def test_an_epilogue_may_multiply():
    function = samples.matmul(32, 32, 16, activation="leaky", residual=True)
    scheduled = schedule_kernel(function, MIXED, {})
    assert scheduled.choices["schedule"] == "tensor_cores"
    assert scheduled.choices["epilogue"] == "fused"


def test_a_target_in_float32_gets_no_matrix_instructions_by_itself():
    function = samples.matmul(64, 64, 64)
    exact = Machine(vector_floats=4, language="opencl", processor="gpu", tensor_cores="ptx")
    scheduled = schedule_kernel(function, exact, {})
    assert scheduled.choices["schedule"] == "groups"
    (knob,) = [knob for knob in scheduled.knobs if knob.address == "schedule"]
    assert "tensor_cores" in knob.choices
    none = schedule_kernel(
        function,
        Machine(vector_floats=4, language="opencl", processor="gpu", precision="mixed"),
        {},
    )
    assert none.choices["schedule"] == "groups"


@pytest.mark.parametrize("sizes", [(15, 16, 8), (16, 16, 7), (16, 15, 8)])
def test_products_without_a_whole_tile_are_not_offered_matrix_instructions(sizes):
    scheduled = schedule_kernel(samples.matmul(*sizes), MIXED, {})
    assert scheduled.choices["schedule"] != "tensor_cores"


def test_fragments_are_loaded_once_for_all_tiles_of_a_warp():
    ptx = Machine(
        vector_floats=4, language="opencl", processor="gpu", precision="mixed", tensor_cores="ptx"
    )
    choices = {"row_warps": 1, "column_warps": 1, "pipeline": "none"}
    scheduled = schedule_kernel(samples.matmul(32, 64, 32), ptx, {}, choices)
    printed = print_opencl(scheduled.function, "k")
    (record,) = printed.phases
    assert record.group_items == 32
    text = "\n".join(printed.lines)
    assert "uint a[2][4], b_1[4][2];" in text  # the bias is called b
    assert text.count("mma_ptx(&acc[mp][np][0][0], a[mp], b_1[np]);") == 1
    assert "__local uint fragments" not in text
    assert Requirement("mma_ptx") in printed.needs


# -- the step ------------------------------------------------------------------------------------


def tiled(element: str = "f16", warp: tuple[int, int] = (8, 4)) -> LoopNest:
    nest = LoopNest(lower_to_loops(samples.matmul(16, 32, 8, bias=False)))
    split(nest, "m", "mt mp ih il", (1, 16 // warp[0], warp[0]))
    split(nest, "n", "nt np jl jh", (1, warp[1], 8 // warp[1]))
    split(nest, "k", "kt ki", (16,))
    reorder(nest, "mt nt kt il jl mp np ih jh ki")
    accumulate(nest, at="kt", buffer="y")
    for buffer, order in (("w", (1, 0)), ("x", ())):
        stage(nest, buffer=buffer, at="kt", element=element, order=order, pad=8)
    items(nest, "il jl")
    return nest


def test_the_step_marks_the_product_and_leaves_the_loops():
    nest = tiled()
    tensor_cores(nest, loop="mp", by="emulated")
    assert [instruction_of(loop) for loop in nest.loops("mp")] == ["", "emulated", ""]
    textbook = lower_to_loops(samples.matmul(16, 32, 8, bias=False))
    arrays = samples.random_arguments(textbook)
    expected = as_halves(arrays["x"]) @ as_halves(arrays["w"])
    actual = samples.run_nest(nest.function, arrays)["y"]
    np.testing.assert_allclose(actual, expected, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: tiled(element=""), "an operand is no tile of halves; stage it with element f16"),
        (lambda: tiled(warp=(4, 4)), r"the loops inside have \(4, 2, 16\) iterations"),
    ],
)
def test_the_step_refuses_other_nests(make, reason):
    with pytest.raises(ScheduleError, match=reason):
        tensor_cores(make(), loop="mp")


def test_the_step_refuses_tiles_whose_depth_is_not_innermost():
    nest = LoopNest(lower_to_loops(samples.matmul(16, 32, 8, bias=False)))
    split(nest, "m", "mt mp ih il", (1, 2, 8))
    split(nest, "n", "nt np jl jh", (1, 4, 2))
    split(nest, "k", "kt ki", (16,))
    reorder(nest, "mt nt kt il jl mp np ih jh ki")
    accumulate(nest, at="kt", buffer="y")
    for buffer in ("w", "x"):
        stage(nest, buffer=buffer, at="kt", element="f16")
    items(nest, "il jl")
    with pytest.raises(ScheduleError, match="B is not \\[rows or columns, depth\\] of the tile"):
        tensor_cores(nest, loop="mp")


def test_the_step_refuses_an_unknown_way():
    with pytest.raises(ScheduleError, match="there is no way 'cuda'"):
        tensor_cores(tiled(), loop="mp", by="cuda")


def test_generated_c_runs_the_loops(run_c):
    """What does not know the mark computes the same."""
    nest = tiled()
    tensor_cores(nest, loop="mp", by="ptx")
    assert any(instruction_of(op) for op in nest.function.walk() if isinstance(op, affine.ForOp))
    arrays = samples.random_arguments(lower_to_loops(samples.matmul(16, 32, 8, bias=False)))
    expected = as_halves(arrays["x"]) @ as_halves(arrays["w"])
    actual = run_c(nest.function, arrays)["y"]
    np.testing.assert_allclose(actual, expected, rtol=TOLERANCE, atol=TOLERANCE)
