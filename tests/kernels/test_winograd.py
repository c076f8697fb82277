"""Winograd convolutions: their numbers, every step of them, what is refused, and who chooses."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from explorer.kernels.cost.machine import CostMachine, cache_levels
from explorer.kernels.loops.lowering import lower_to_loops
from explorer.kernels.loops.nest import LoopNest, ScheduleError, enclosing_loops, name_of
from explorer.kernels.schedules import Machine, schedule_kernel
from explorer.kernels.schedules.listing import as_data, schedule_given
from explorer.kernels.schedules.winograd_cost import (
    Layer,
    explain,
    order_by_cycles,
    predict_direct,
    predict_winograd,
)
from explorer.kernels.sections.phases import phases
from explorer.kernels.steps.forward import forward
from explorer.kernels.steps.pack import blocked_pack
from explorer.kernels.steps.prefetch import touches_of
from explorer.kernels.steps.winograd.step import winograd, winograd_weights
from explorer.targets.core_families import core_family

_SPEC = importlib.util.spec_from_file_location(
    "kernel_nest_samples", Path(__file__).with_name("nest_samples.py")
)
assert _SPEC is not None
assert _SPEC.loader is not None
samples = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(samples)

AVX512 = Machine(vector_floats=16, language="c")
TOLERANCES = {2: 5e-6, 4: 3e-5}
"""Largest error relative to the largest number. Sums of 300 products in float32 are good for 2e-6;
the transforms of the larger tiles multiply with up to 8 and 5 twice over."""


def packs_for(function, block=16):
    names = set(samples.argument_names(function))
    return {name: blocked_pack(block) for name in names & {"x", "r", "y"}}


def scheduled_as(function, outputs, machine=AVX512, block=16, **choices):
    choices = {"schedule": f"winograd{outputs}", **choices}
    scheduled = schedule_kernel(function, machine, packs_for(function, block), choices)
    scheduled.function.verify()
    return scheduled


def exact(function, arrays):
    """The textbook nest, but in double precision: the convolution of `nest_samples`."""
    values = {name: array.astype(np.float64) for name, array in arrays.items()}
    x, w, y = values["x"], values["w"], values["y"]
    n, outputs = y.shape[:2]
    height, width = values["r"].shape[2:] if "r" in values else y.shape[2:]
    row, column = x.shape[2] - height - 2, x.shape[3] - width - 2
    sums = np.zeros((n, outputs, height, width))
    for p in range(3):
        for q in range(3):
            window = x[:, :, row + p : row + p + height, column + q : column + q + width]
            sums += np.einsum("nchw,oc->nohw", window, w[:, :, p, q])
    if "b" in values:
        sums += values["b"].reshape(1, -1, 1, 1)
    if "r" in values:
        sums += values["r"]
    return sums


def check(function, outputs, machine=AVX512, block=16, **choices):
    """Runs a Winograd schedule, compares it with double precision, and returns it."""
    scheduled = scheduled_as(function, outputs, machine, block, **choices)
    arrays = samples.random_arguments(function)
    expected = np.maximum(exact(function, arrays), 0)
    packs = {name: scheduled.packs[name] for name in packs_for(function, block) | {"w": None}}
    found = samples.run_nest(scheduled.function, arrays, packs)["y"]
    error = np.abs(found - expected).max() / np.abs(expected).max()
    assert error < TOLERANCES[outputs]
    return scheduled


# -- numbers -----------------------------------------------------------------------------------


@pytest.mark.sampled(3)
@pytest.mark.parametrize("outputs", [2, 4])
@pytest.mark.parametrize(
    ("height", "width"),
    [(8, 8), (7, 7), (1, 1), (2, 13), (14, 9), (4, 30), (9, 4)],
)
def test_outputs_of_any_size(outputs, height, width):
    check(samples.convolution(32, 16, height, width, residual=True), outputs)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("order", ["bands", "groups"])
@pytest.mark.parametrize(
    "choices",
    [
        dict(),
        dict(vectors=1, pixels=3, rows=1, band=1),
        dict(vectors=3, pixels=1, rows=1, band=2),
        dict(vectors=1, pixels=4, rows=2, band=4),
    ],
    ids=str,
)
def test_any_tile_of_products_and_any_band(order, choices):
    function = samples.convolution(48, 32, 19, 14, batch=2)
    scheduled = check(function, 4, order=order, **choices)
    assert scheduled.choices["order"] == order
    assert choices.items() <= scheduled.choices.items()


def test_a_task_may_take_several_bands():
    function = samples.convolution(16, 16, 24, 8)
    scheduled = check(function, 4, rows=1, band=1, bands=3, order="bands")
    assert [phase.tasks for phase in phases(scheduled.function)] == [2]


def test_parts_of_a_row_of_tiles_share_its_scratch_and_keep_the_numbers():
    function = samples.convolution(16, 16, 2, 16, residual=True)
    whole, halves = (
        check(function, 2, order="bands", pixels=4, vectors=1, parts=parts) for parts in (1, 2)
    )
    assert [s.choices["parts"] for s in (whole, halves)] == [1, 2]
    found = []
    for scheduled in (whole, halves):
        arrays = samples.random_arguments(function)
        packs = {name: scheduled.packs[name] for name in "xywr"}
        found.append(samples.run_nest(scheduled.function, arrays, packs)["y"])
    np.testing.assert_array_equal(*found)
    shapes = [str(scheduled.function.function_type) for scheduled in (whole, halves)]
    assert "memref<1x4x4x1x1x8x16xf32>" in shapes[0]
    assert "memref<1x4x4x1x1x4x16xf32>" in shapes[1]


@pytest.mark.parametrize(
    ("size", "asked"),
    [
        ((2, 16), dict(order="bands", pixels=4, parts=3)),  # 8 columns of tiles
        ((2, 16), dict(order="bands", pixels=8, parts=2)),  # less than a register tile
        ((2, 16), dict(order="groups", pixels=4, parts=2)),
        ((2, 15), dict(order="bands", pixels=4, parts=2)),  # the last tile reaches over the image
        ((3, 16), dict(order="bands", pixels=4, parts=2)),
        ((8, 16), dict(order="bands", pixels=4, band=1, parts=2)),  # bands share scratch instead
    ],
    ids=str,
)
def test_parts_that_cannot_be_are_refused(size, asked):
    with pytest.raises(ScheduleError, match="parts"):
        scheduled_as(samples.convolution(16, 16, *size), 2, **asked)


@pytest.mark.parametrize(
    ("size", "shared", "parts"),
    [((2, 16), 0, 3), ((2, 16), 1, 2), ((3, 16), 0, 2), ((2, 16), 0, 0)],
)
def test_the_step_refuses_parts_that_are_not_equal(size, shared, parts):
    nest = LoopNest(lower_to_loops(samples.convolution(16, 16, *size)))
    with pytest.raises(ScheduleError, match=f"no {parts} equal parts"):
        winograd(nest, outputs=2, band=1, bands=1, vectors=1, block=16, shared=shared, parts=parts)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "options",
    [dict(bias=False), dict(shift=1), dict(batch=3), dict(residual=True, batch=2)],
    ids=str,
)
def test_halos_batches_and_epilogues(options):
    scheduled = check(samples.convolution(32, 32, 6, 10, **options), 4)
    assert len(LoopNest(scheduled.function).statements("epilogue")) == 0


def test_a_halo_of_the_result_is_filled_as_before():
    function = samples.convolution(16, 16, 6, 6, halo=1)
    scheduled = scheduled_as(function, 2)
    arrays = samples.random_arguments(function)
    packs = {name: scheduled.packs[name] for name in "xyw"}
    found = samples.run_nest(scheduled.function, arrays, packs)["y"]
    expected = samples.run_nest(lower_to_loops(function), arrays)["y"]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert (found[:, :, 0] == 0).all()


@pytest.mark.parametrize("lanes", [4, 8])
def test_vectors_are_as_wide_as_the_machines(lanes):
    machine = Machine(vector_floats=lanes, language="c", registers=16)
    scheduled = check(samples.convolution(2 * lanes, lanes, 5, 9), 4, machine, lanes)
    assert f"vector<{lanes}xf32>" in str(scheduled.function)


@given(
    outputs=st.sampled_from([2, 4]),
    blocks=st.tuples(st.integers(1, 3), st.integers(1, 2)),
    height=st.integers(1, 21),
    width=st.integers(1, 21),
    order=st.sampled_from(["bands", "groups"]),
)
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
def test_layers_at_random(outputs, blocks, height, width, order):
    function = samples.convolution(16 * blocks[0], 16 * blocks[1], height, width)
    check(function, outputs, order=order)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("height", "width"), [(8, 8), (7, 6)])
def test_every_step_computes_the_same(height, width):
    function = samples.convolution(32, 16, height, width, residual=True)
    scheduled = scheduled_as(function, 4)
    arrays = samples.random_arguments(function)
    expected = np.maximum(exact(function, arrays), 0)
    names = [step.name for step in scheduled.steps]
    assert names[:2] == ["lower", "winograd"]
    assert names.index("forward") < names.index("fuse") < names.index("vectorize")
    for step in scheduled.steps:
        packs = {
            call.arguments["buffer"]: call.arguments["layout"]
            for call in step.calls
            if call.name == "pack" and call.arguments["buffer"] in "xryw"
        }
        found = samples.run_nest(step.function, arrays, packs)["y"]
        error = np.abs(found - expected).max() / np.abs(expected).max()
        assert error < TOLERANCES[4], step.name


@pytest.mark.parametrize("order", ["bands", "groups"])
def test_its_list_of_steps_can_be_given_back(order):
    function = samples.convolution(32, 16, 9, 10)
    scheduled = scheduled_as(function, 4, order=order)
    steps = as_data(scheduled.steps[-1].calls)
    again = schedule_given(function, AVX512, packs_for(function), steps)
    assert str(again.function) == str(scheduled.function)
    assert again.packs == scheduled.packs


def test_opencl_runs_it_too(run_opencl):
    function = samples.convolution(32, 16, 7, 9)
    scheduled = scheduled_as(function, 4, Machine(vector_floats=16, language="opencl"))
    arrays = samples.random_arguments(function)
    taken = samples.as_the_kernel_takes_them(scheduled.function, arrays)
    layouts = {name: scheduled.packs[name] for name in "xyw"}
    packed = {name: samples.pack_array(array, layouts.get(name)) for name, array in taken.items()}
    found = run_opencl(scheduled.function, packed)["y"]
    expected = np.maximum(exact(function, arrays), 0)
    found = samples.unpack_array(found, expected.shape, layouts["y"])
    assert np.abs(found - expected).max() / np.abs(expected).max() < TOLERANCES[4]


# -- memory ------------------------------------------------------------------------------------


def test_scratch_is_a_band_for_each_task_and_planned_like_every_buffer():
    scheduled = scheduled_as(samples.convolution(32, 16, 16, 16), 4, rows=1, band=1, order="bands")
    roles = dict(
        zip(
            samples.argument_names(scheduled.function),
            samples.argument_roles(scheduled.function),
            strict=True,
        )
    )
    assert roles["transformed"] == roles["product"] == "scratch"
    assert "padded" not in roles
    text = str(scheduled.function)
    assert "memref<4x6x6x1x1x4x16xf32>" in text  # 4 tasks, 36 points, one block, 1 x 4 tiles
    assert "memref.alloc(" not in text


def test_only_sizes_that_tiles_do_not_divide_are_padded():
    names = samples.argument_names(scheduled_as(samples.convolution(16, 16, 8, 9), 4).function)
    assert {"padded", "uncut"} <= set(names)


# -- refusals ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (dict(kernel=5), "window is 5x5"),
        (dict(stride=2), "stride and dilation are not both 1"),
        (dict(dilation=2), "stride and dilation are not both 1"),
    ],
    ids=str,
)
def test_other_convolutions_are_refused_with_the_reason(options, reason):
    function = samples.convolution(16, 16, 8, 8, **options)
    nest = LoopNest(lower_to_loops(function))
    with pytest.raises(ScheduleError, match=reason.replace("(", "\\(")):
        winograd(nest, outputs=4, band=1, bands=1, vectors=1, block=16, shared=0)
    with pytest.raises(ScheduleError, match=r"direct, plain are legal|are legal"):
        scheduled_as(function, 4)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (dict(outputs=3), "no tiles of 3 outputs"),
        (dict(block=12), "do not divide"),
        (dict(vectors=3), "do not divide"),
        (dict(band=3), "there are 2 rows of tiles"),
        (dict(bands=4), "4 bands per task"),
        (dict(shared=2), "expected 0 or 1"),
    ],
    ids=str,
)
def test_arguments_that_do_not_fit_are_refused_before_anything_changes(arguments, reason):
    nest = LoopNest(lower_to_loops(samples.convolution(32, 16, 8, 8)))
    before = str(nest.function)
    given = dict(outputs=4, band=1, bands=1, vectors=2, block=16, shared=0) | arguments
    with pytest.raises(ScheduleError, match=reason):
        winograd(nest, **given)
    assert str(nest.function) == before


def test_a_sum_of_something_else_is_refused():
    nest = LoopNest(lower_to_loops(samples.depthwise(16, 8, 8)))
    with pytest.raises(ScheduleError, match="loops are"):
        winograd(nest, outputs=4, band=1, bands=1, vectors=1, block=16, shared=0)


def test_a_constant_is_not_forwarded_over_sums_that_are_read_again():
    nest = LoopNest(lower_to_loops(samples.convolution(16, 16, 8, 8)))
    winograd(nest, outputs=4, band=1, bands=1, vectors=1, block=16, shared=0)
    with pytest.raises(ScheduleError, match="accumulate them first"):
        forward(nest, "clear_p")


def test_only_constants_are_forwarded():
    nest = LoopNest(lower_to_loops(samples.convolution(16, 16, 8, 8)))
    with pytest.raises(ScheduleError, match="does not just store a constant"):
        forward(nest, "init_n")


# -- the choice --------------------------------------------------------------------------------


def predictions(channels, size, machine=AVX512.costs):
    block = machine.vector_floats
    layer = Layer(
        images=1,
        input_blocks=channels // block,
        output_blocks=channels // block,
        height=size,
        width=size,
        block=block,
    )
    found = {"direct": predict_direct(layer, machine)}
    return found | {f"winograd{m}": predict_winograd(layer, m, machine) for m in (2, 4)}


@pytest.mark.parametrize(("channels", "size"), [(64, 56), (128, 28), (256, 14), (512, 28)])
def test_large_pictures_get_the_large_tiles(channels, size):
    assert order_by_cycles(predictions(channels, size))[0] == "winograd4"


def test_small_pictures_with_many_weights_do_not_get_them():
    found = predictions(512, 7)
    assert found["winograd4"].memory > found["winograd4"].products
    assert order_by_cycles(found)[0] == "winograd2"


def on(core, lanes):
    family = core_family(core)
    return CostMachine(lanes, core=family.core, caches=cache_levels(family.caches, {}))


@pytest.mark.parametrize(
    ("core", "lanes", "expected"),
    [
        ("zen3", 8, "winograd2"),
        ("zen4", 16, "winograd2"),
        ("haswell", 8, "direct"),  # 256 KB of second cache, 5 bytes in a cycle from memory
        ("sapphire_rapids", 16, "direct"),  # multiplies twice as fast as Zen 4
    ],
)
def test_caches_and_units_of_the_core_decide(core, lanes, expected):
    assert order_by_cycles(predictions(512, 7, on(core, lanes)))[0] == expected


def test_weights_of_the_next_point_are_asked_for_where_they_are_far():
    """Of 512 channels they are 17 MB; of 64 channels 0.6, which a second cache of 1 MB holds."""
    machine = Machine(vector_floats=8, language="c", registers=16)
    function = samples.convolution(512, 512, 7, 7)
    chosen = {"schedule": "winograd2"}
    scheduled = schedule_kernel(function, machine, packs_for(function, 8), chosen)
    assert scheduled.choices["prefetch"] == "weights"
    nest = LoopNest(scheduled.function)
    marked = [loop for loop in nest.loops("cb") if touches_of(loop)]
    assert [name_of(loop) for loop in enclosing_loops(marked[0])][:4] == ["ot", "n", "p", "q"]
    function = samples.convolution(64, 64, 8, 8)
    near = schedule_kernel(function, machine, packs_for(function, 8), chosen)
    assert near.choices["prefetch"] == "none"


def test_tiny_layers_stay_direct():
    assert order_by_cycles(predictions(16, 8))[0] == "direct"


def test_the_explanation_names_all_forms_the_fastest_first():
    text = explain(predictions(64, 56))
    assert text.startswith("predicted cycles: winograd4 ")
    assert "winograd2 " in text
    assert "direct " in text


def test_the_knob_offers_all_forms_and_says_why():
    function = samples.convolution(64, 64, 28, 28)
    scheduled = schedule_kernel(function, AVX512, packs_for(function))
    (knob,) = [knob for knob in scheduled.knobs if knob.address == "schedule"]
    assert knob.value == "winograd4"
    assert {"direct", "winograd2", "winograd4"} <= set(knob.choices)
    assert "predicted cycles" in knob.why
    assert winograd_weights(scheduled.function) == {"w": 4}
    direct = schedule_kernel(function, AVX512, packs_for(function), {"schedule": "direct"})
    assert winograd_weights(direct.function) == {}


@pytest.mark.parametrize(
    ("machine", "chosen"),
    [
        (Machine(vector_floats=16, language="opencl"), "winograd4"),
        (Machine(vector_floats=16, language="opencl", processor="gpu"), "items"),
    ],
)
def test_through_opencl_a_processor_transforms_and_a_gpu_does_not(machine, chosen):
    function = samples.convolution(64, 64, 28, 28)
    scheduled = schedule_kernel(function, machine, packs_for(function))
    assert scheduled.choices["schedule"] == chosen
