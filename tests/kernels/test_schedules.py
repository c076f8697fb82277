"""Default schedules: the numbers of the textbook nest for every family, shape and override."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import NameLoc, f32

from explorer.ir.compute import KernelBuilder
from explorer.kernels.cost.machine import CacheLevel
from explorer.kernels.loops.lowering import lower_to_loops
from explorer.kernels.loops.nest import (
    LoopNest,
    ScheduleError,
    enclosing_loops,
    kind_of,
    name_of,
    perfect_chain,
)
from explorer.kernels.schedules import Machine, preferred_schedule, schedule_kernel
from explorer.kernels.schedules.schedule import replayed
from explorer.kernels.sections.phases import phases
from explorer.kernels.steps.pack import blocked_pack

_SPEC = importlib.util.spec_from_file_location(
    "kernel_nest_samples", Path(__file__).with_name("nest_samples.py")
)
assert _SPEC is not None
assert _SPEC.loader is not None
samples = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(samples)

AVX512 = Machine(vector_floats=16, language="c")
# Sums in another order, and contracted multiply-adds: a few units in the last place of sums of
# at most 300 products below 1.
TOLERANCE = 3e-5


def blocked(names: str, block: int = 16) -> dict:
    return {name: blocked_pack(block) for name in names}


def check(function, packs=None, machine=AVX512, choices=None):
    """Schedules a kernel, compares it with the textbook nest, and returns it."""
    packs = packs or {}
    scheduled = schedule_kernel(function, machine, packs, choices)
    scheduled.function.verify()
    arrays = samples.random_arguments(function)
    expected = samples.run_nest(lower_to_loops(function), arrays)
    actual = samples.run_nest(scheduled.function, arrays, scheduled.packs)
    for name, role in zip(
        samples.argument_names(function), samples.argument_roles(function), strict=True
    ):
        if role == "output":
            np.testing.assert_allclose(actual[name], expected[name], rtol=TOLERANCE, atol=TOLERANCE)
    return scheduled


# -- convolution -------------------------------------------------------------------------------


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("height", "width", "tile"),
    [
        (1, 1, (1, 1)),
        (8, 8, (1, 8)),
        (7, 7, (1, 7)),
        (4, 10, (1, 10)),
        (4, 13, (1, 13)),
        (3, 28, (1, 14)),
        (3, 31, (1, 14)),
        (2, 55, (1, 11)),
        (3, 2, (3, 2)),
    ],
)
def test_convolutions_of_any_output_size(height, width, tile):
    function = samples.convolution(32, 16, height, width, residual=True)
    scheduled = check(function, blocked("xry"))
    assert (scheduled.choices["rows"], scheduled.choices["pixels"]) == tile


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "options",
    [
        dict(kernel=1),
        dict(kernel=5),
        dict(stride=2),
        dict(dilation=2),
        dict(batch=2),
        dict(bias=False, activation=""),
        dict(activation="relu6"),
        dict(activation="leaky"),
        dict(halo=1, shift=1),
    ],
    ids=str,
)
def test_convolutions_of_any_kernel(options):
    scheduled = check(samples.convolution(32, 32, 3, 9, **options), blocked("xy"))
    assert scheduled.choices["schedule"] == "direct"


@pytest.mark.parametrize("outputs", [16, 48, 80, 128])
def test_convolutions_of_any_number_of_blocks(outputs):
    check(samples.convolution(outputs, 16, 2, 9), blocked("xy"))


@pytest.mark.parametrize(("height", "rows", "loop"), [(4, 4, "i"), (5, 4, "i"), (8, 4, "ip")])
def test_rows_of_a_tile_are_written_out_where_it_has_all_of_them_too(height, rows, loop):
    """Else every sum would be loaded and stored in every step."""
    choices = {"schedule": "direct", "vectors": 1, "pixels": 4, "rows": rows}
    scheduled = check(samples.convolution(16, 16, height, 4), blocked("xy"), choices=choices)
    (unrolled,) = [call for call in scheduled.steps[-1].calls if call.name == "unroll"]
    assert loop in unrolled.arguments["loops"].split()


@pytest.mark.parametrize("lanes", [4, 8])
def test_vectors_are_as_wide_as_the_machines(lanes):
    function = samples.convolution(2 * lanes, lanes, 3, 9)
    scheduled = check(
        function, blocked("xy", lanes), Machine(vector_floats=lanes, language="c", registers=16)
    )
    assert f"vector<{lanes}xf32>" in str(scheduled.function)


@pytest.mark.parametrize("kernel", [3, 7])
def test_the_first_layer_reads_plain_images(kernel):
    function = samples.convolution(32, 3, 6, 15, kernel=kernel, stride=2, halo=1)
    scheduled = check(function, blocked("y"))
    assert scheduled.packs["x"] == [(0, 1, None), (1, 1, None), (2, 1, None), (3, 1, None)]
    assert "channel_unroll" not in scheduled.choices


@pytest.mark.parametrize(
    "options", [dict(), dict(kernel=5, stride=2), dict(activation="")], ids=str
)
def test_depthwise_convolutions(options):
    scheduled = check(samples.depthwise(48, 5, 9, **options), blocked("xy"))
    assert scheduled.choices["schedule"] == "depthwise"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("height", [1, 7, 28])
def test_a_depthwise_filter_of_a_column_has_the_tile_of_a_row(height, stride):
    column = samples.depthwise(16, height, 1, kernel=(5, 1), stride=stride)
    row = samples.depthwise(16, 1, height, kernel=(1, 5), stride=stride)

    along, beside = (check(f, blocked("xy")).choices for f in (column, row))

    assert along.get("rows", 1) == beside["pixels"]


@pytest.mark.parametrize("rows", [1, 3, 7])
def test_rows_of_a_column_may_be_any_number(rows):
    check(samples.depthwise(16, 7, 1, kernel=(5, 1)), blocked("xy"), choices={"rows": rows})


@pytest.mark.sampled(3)
@pytest.mark.parametrize("width", [3, 4, 7, 16, 29, 49])
@pytest.mark.parametrize("kernel", [1, 3])
def test_groups_that_cut_through_blocks_are_tiled_by_pixels(width, kernel):
    scheduled = check(samples.grouped(3, 34, 5, 2, width, kernel))
    assert scheduled.choices["schedule"] == ("pixels" if width >= 4 else "plain")
    assert ("vector<" in str(scheduled.function)) == (width >= 4)


@pytest.mark.parametrize(("outputs", "channels"), [(16, 16), (48, 32)])
def test_groups_of_whole_blocks_are_tiled_like_one_convolution(outputs, channels):
    scheduled = check(samples.grouped(3, outputs, channels, 4, 9), blocked("xy"))
    assert scheduled.choices["schedule"] == "direct"


@pytest.mark.parametrize("channels", [1, 8, 12])
def test_a_block_that_is_not_full_is_read_as_far_as_there_are_channels(channels):
    scheduled = check(samples.convolution(32, channels, 3, 9), blocked("xy"))
    assert scheduled.choices["schedule"] == "direct"
    assert f"memref<1x1x5x11x{channels}xf32>" in str(scheduled.function)


@pytest.mark.parametrize("options", [dict(), dict(stride=2), dict(activation="leaky")], ids=str)
def test_convolutions_in_plain_layout(options):
    check(samples.convolution(6, 5, 4, 9, **options))


def test_the_steps_of_a_convolution_are_named_and_can_be_replayed():
    function = samples.convolution(64, 32, 4, 28, residual=True)
    scheduled = schedule_kernel(function, AVX512, blocked("xry"), {"schedule": "direct"})
    assert [step.name for step in scheduled.steps] == [
        "lower", "split", "reorder", "accumulate", "fuse", "pack", "vectorize", "unroll",
        "parallel",
    ]  # fmt: skip
    split = scheduled.steps[1]
    assert split.arguments[:3] == (("loop", "o"), ("into", "ot ov oi"), ("factors", "2 x 16"))
    assert str(scheduled.steps[-1].function) == str(scheduled.function)
    arrays = samples.random_arguments(function)
    expected = samples.run_nest(scheduled.steps[0].function, arrays)["y"]
    fused = samples.run_nest(scheduled.steps[4].function, arrays)["y"]
    np.testing.assert_allclose(fused, expected, rtol=TOLERANCE, atol=TOLERANCE)


def test_one_replay_gives_the_nests_after_all_steps():
    scheduled = schedule_kernel(samples.convolution(32, 16, 8, 8), AVX512, blocked("xy"))
    in_turn = [(step, str(function)) for step, function in replayed(scheduled.steps)]
    assert len({text for _, text in in_turn}) > 5
    assert in_turn == [(step, str(step.function)) for step in scheduled.steps]


def test_weights_are_packed_in_the_order_in_which_the_tile_reads_them():
    direct = {"schedule": "direct"}
    scheduled = schedule_kernel(samples.convolution(64, 32, 4, 28), AVX512, blocked("xy"), direct)
    assert scheduled.packs["w"] == [
        (0, 32, None), (1, 16, None), (2, 1, None), (3, 1, None), (1, 1, 16), (0, 16, 2), (0, 1, 16)
    ]  # fmt: skip


def test_every_operation_of_a_scheduled_kernel_knows_its_statement():
    scheduled = schedule_kernel(
        samples.convolution(32, 16, 7, 7, residual=True), AVX512, blocked("xry")
    )
    for operation in scheduled.function.body.block.walk():
        if operation.name not in ("func.return", "affine.yield"):
            assert isinstance(operation.location, NameLoc), operation
            assert operation.location.desc.data in {"conv/init", "conv/main", "conv/epilogue"}


# -- choices -----------------------------------------------------------------------------------


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "choices",
    [
        {"pixels": 5},
        {"pixels": 9, "rows": 2},
        {"pixels": 4, "order": "rows"},
        {"pixels": 3, "order": "rows"},
        {"vectors": 1},
        {"vectors": 4, "pixels": 4},
        {"channel_unroll": 4},
        {"epilogue": "separate"},
        {"schedule": "plain"},
    ],
    ids=str,
)
def test_choices_can_be_overridden(choices):
    function = samples.convolution(64, 16, 5, 9)
    scheduled = check(function, blocked("xy"), choices=choices)
    assert {name: scheduled.choices[name] for name in choices} == choices


def test_given_back_choices_give_the_same_kernel():
    function = samples.convolution(64, 16, 5, 9)
    first = schedule_kernel(function, AVX512, blocked("xy"))
    second = schedule_kernel(function, AVX512, blocked("xy"), first.choices)
    assert str(first.function) == str(second.function)


@pytest.mark.parametrize(
    ("choices", "reason"),
    [
        ({"vectors": 3}, "vectors = 3; 1, 2, 4 are legal"),
        ({"pixels": 10}, "pixels = 10; 1 to 9 are legal"),
        ({"channel_unroll": 3}, "channel_unroll = 3; 1, 2, 4, 8 are legal"),
        ({"pixels": 4, "rows": 2}, "rows = 2; 1 are legal"),
        ({"schedule": "fft"}, "schedule = fft; direct, plain, winograd2, winograd4 are legal"),
        ({"pixel": 4}, "there is no choice 'pixel'; there are: schedule, vectors, pixels, rows"),
    ],
    ids=str,
)
def test_illegal_choices_are_refused_with_what_is_legal(choices, reason):
    function = samples.convolution(64, 16, 5, 9)
    with pytest.raises(ScheduleError, match=reason):
        schedule_kernel(function, AVX512, blocked("xy"), choices)


def every_other_choice(knobs):
    return [(k.address, c) for k in knobs for c in k.choices if c != k.value]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("function", "packs"),
    [
        (samples.convolution(32, 16, 3, 4, residual=True), blocked("xry")),
        (samples.depthwise(16, 3, 4), blocked("xy")),
        (samples.matmul(3, 4, 40, activation="relu"), {}),
        (samples.softmax(4, 20), {}),
    ],
    ids=["direct", "depthwise", "tiled", "plain"],
)
def test_every_legal_value_of_every_knob_can_be_chosen(function, packs):
    first = schedule_kernel(function, AVX512, packs)
    assert {k.address: k.value for k in first.knobs} == first.choices
    for knob in first.knobs:
        assert knob.value in knob.choices
        assert knob.why
    for name, value in every_other_choice(first.knobs):
        scheduled = check(function, packs, choices={name: value})
        assert scheduled.choices[name] == value
        (knob,) = [k for k in scheduled.knobs if k.address == name]
        assert knob.why.startswith("an override; by itself it would be")


def test_a_knob_lists_just_what_an_override_may_be():
    function = samples.convolution(512, 16, 4, 40)
    knobs = {k.address: k for k in schedule_kernel(function, AVX512, blocked("xy")).knobs}
    assert knobs["vectors"].choices == (1, 2, 4, 8, 16, 32)
    wide = {k.address: k for k in schedule_kernel(
        function, AVX512, blocked("xy"), {"vectors": 32}).knobs}  # fmt: skip
    # 256 updates in one body: 8 pixels of 32 vectors.
    assert wide["pixels"].choices == tuple(range(1, 9))
    assert wide["pixels"].value in wide["pixels"].choices
    with pytest.raises(ScheduleError, match="pixels = 9; 1 to 8 are legal"):
        schedule_kernel(function, AVX512, blocked("xy"), {"vectors": 32, "pixels": 9})


def test_a_schedule_that_was_refused_is_no_choice():
    function = samples.convolution(32, 16, 3, 4)
    assert preferred_schedule(function, blocked("xy"), AVX512) == "direct"
    forms = ("direct", "winograd2", "winograd4")
    assert preferred_schedule(function, blocked("xy"), AVX512, forms) == "plain"
    refused = dict.fromkeys(forms, "too wide")
    scheduled = schedule_kernel(function, AVX512, blocked("xy"), refused=refused)
    (knob,) = [k for k in scheduled.knobs if k.address == "schedule"]
    assert (knob.value, knob.choices, knob.why) == (
        "plain",
        ("plain",),
        "not direct: too wide; not winograd2: too wide; not winograd4: too wide",
    )


def test_channels_that_are_no_multiple_of_the_block_are_refused():
    with pytest.raises(ScheduleError, match="24 output channels are no multiple of 16"):
        schedule_kernel(samples.convolution(24, 16, 5, 9), AVX512, blocked("xy"))


# -- matmul ------------------------------------------------------------------------------------


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("rows", "depth", "columns"),
    [(1, 64, 1000), (1, 16, 10), (1, 5, 1), (3, 5, 10), (8, 16, 48), (29, 17, 107), (64, 8, 32),
     (17, 4, 28)],
)  # fmt: skip
def test_products_with_weights_of_any_size(rows, depth, columns):
    function = samples.matmul(rows, depth, columns, residual=True, activation="relu")
    assert check(function).choices["schedule"] == "tiled"


AVX2 = Machine(vector_floats=8, language="c", registers=16)


def loops_around(nest, name):
    return [name_of(loop) for loop in enclosing_loops(nest.loop(name))]


def test_rows_that_are_left_over_follow_in_every_tile_of_columns():
    """So that weights of a tile of columns are fetched once, for all rows."""
    scheduled = check(samples.matmul(8, 12, 256), machine=AVX2, choices={"rows": 6, "vectors": 2})
    nest = LoopNest(scheduled.function)
    assert loops_around(nest, "k") == ["nt"]  # six rows are one tile
    assert loops_around(nest, "k_bottom") == ["nt"]
    assert [kind_of(loop) for loop in nest.loops("nt")] == ["parallel"]


def test_few_tiles_of_columns_leave_rows_to_a_nest_of_its_own():
    """Else there were no more tasks than tiles of columns."""
    scheduled = check(samples.matmul(14, 12, 32), machine=AVX2, choices={"rows": 6, "vectors": 2})
    nest = LoopNest(scheduled.function)
    assert loops_around(nest, "k") == ["nt", "mt"]
    assert {kind_of(nest.loop(name)) for name in ("nt", "mt", "nt_bottom")} == {"parallel"}
    assert loops_around(nest, "k_bottom") == ["nt_bottom"]


def test_matrices_of_a_batch_are_tasks_with_all_their_rows():
    function = samples.matmul(8, 5, 51, batch=6, weight=False, bias=False)
    nest = LoopNest(check(function, machine=AVX2, choices={"rows": 6, "vectors": 2}).function)
    batch, tiles = loops_around(nest, "k_bottom")
    assert (batch, tiles) == ("b", "nt")
    # 51 columns are 3 tiles of 16 and 3 columns, which a nest of their own takes.
    assert loops_around(nest, "k_edge1_bottom")[0] == "b_edge1_bottom"


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("rows", "columns", "vectors", "packed"),
    [(1, 96, 6, 2), (1, 125 * 8, 8, 1), (1, 13 * 8 + 7, 8, 2), (1, 22 * 8, 6, 3), (2, 40, 4, 2),
     (13, 96, 2, 4), (9, 13 * 8 + 5, 2, 6), (14, 256, 1, 8), (5, 61 * 8, 2, 8), (1, 24, 2, 1)],
)  # fmt: skip
def test_a_product_reads_the_layout_of_another_tile(rows, columns, vectors, packed):
    """Tiles of several groups of columns, and several tiles of one group."""
    function = samples.matmul(rows, 11, columns, residual=True)
    choices = {"vectors": vectors, "packed": packed}
    scheduled = check(function, machine=AVX2, choices=choices)
    other = check(function, machine=AVX2, choices={"rows": 1, "vectors": packed})
    assert scheduled.packs["w"] == other.packs["w"]
    assert "packed" not in other.choices


def test_a_layout_that_no_tile_fits_is_refused():
    function = samples.matmul(1, 11, 96)
    with pytest.raises(ScheduleError, match="packed = 4; 1, 2, 3, 6, 12 are legal"):
        check(function, machine=AVX2, choices={"vectors": 6, "packed": 4})


@pytest.mark.parametrize(("rows", "columns"), [(19, 35), (32, 64), (5, 3)])
def test_products_of_two_activations(rows, columns):
    function = samples.matmul(rows, 16, columns, batch=3, weight=False, bias=False)
    scheduled = check(function)
    assert scheduled.packs["w"] == [(0, 1, None), (1, 1, None), (2, 1, None)]


def test_products_of_a_batch_with_one_weight():
    check(samples.matmul(9, 16, 40, batch=2))


@pytest.mark.parametrize(
    "choices", [{"rows": 4}, {"vectors": 1, "rows": 9}, {"reduction_unroll": 4}], ids=str
)
def test_choices_of_products_can_be_overridden(choices):
    check(samples.matmul(9, 16, 70), choices=choices)


# -- everything else ---------------------------------------------------------------------------


@pytest.mark.parametrize("packs", [blocked("xy"), {}], ids=["blocked", "plain"])
def test_pools(packs):
    check(samples.pool(32, 4, 5), packs)


@pytest.mark.parametrize("packs", [blocked("xy"), blocked("x"), {}], ids=["blocked", "x", "plain"])
def test_means(packs):
    check(samples.global_mean(32, 5, 6), packs)


def test_a_mean_along_rows_sums_in_every_lane():
    scheduled = check(samples.global_mean(3, 4, 50))
    assert "rfactor" in [step.name for step in scheduled.steps]


@pytest.mark.parametrize("columns", [7, 50, 64])
def test_softmax_rows_share_one_loop(columns):
    scheduled = check(samples.softmax(12, columns))
    assert len(phases(scheduled.function)) == 1


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("shape", "packs"),
    [
        ((2, 32, 5, 3), blocked("xzy")),
        ((2, 32, 5, 3), blocked("xz")),
        ((2, 32, 5, 3), {}),
        ((3, 100), {}),
        ((10000,), {}),
        ((7,), {}),
        ((16,), {}),
    ],
)
@pytest.mark.parametrize("activation", ["relu", "leaky"])
def test_elementwise_in_any_layout(shape, packs, activation):
    check(samples.elementwise(shape, activation), packs)


@pytest.mark.parametrize("channels", [4, 16])
def test_one_block_of_channels_is_walked_through_as_it_lies_in_memory(channels):
    """Whatever follows the channels alone, like the slopes of a PReLU, follows with them."""
    shape = (1, channels, 5, 7)
    k = KernelBuilder("prelu")
    x = k.argument("x", shape, f32, "input")
    slopes = k.argument("slopes", (channels, 1, 1), f32, "weight")
    y = k.argument("y", shape, f32, "output")
    n, c, i, j = k.dimensions(n=1, c=channels, i=5, j=7)
    k.generic(
        "plain", [(x, (n, c, i, j)), (slopes, (c, 0, 0))], (y, (n, c, i, j)),
        lambda s, x, w: x.compare("lt", x.constant(0.0)).select(x * w, x),
    )  # fmt: skip
    scheduled = check(k.finish("elementwise"), blocked("xy", channels))
    (top,) = LoopNest(scheduled.function).statements()
    assert name_of(perfect_chain(top)[-1]) == "c"


def test_nests_that_depend_on_data_run_as_they_are():
    check(samples.gather(7, 20, 5))


def test_channels_that_do_not_fill_their_blocks():
    check(samples.elementwise((1, 40, 4, 4)), blocked("xzy"))


def test_pieces_that_begin_inside_of_a_block():
    """y is the concatenation of x and z along the channels: z starts at channel 24."""
    k = KernelBuilder("concat")
    x = k.argument("x", (1, 24, 3, 5), f32, "input")
    z = k.argument("z", (1, 40, 3, 5), f32, "input")
    y = k.argument("y", (1, 64, 3, 5), f32, "output")
    for source, channels, start in ((x, 24, 0), (z, 40, 24)):
        n, c, i, j = k.dimensions(n=1, c=channels, i=3, j=5)
        k.generic("plain", [(source, (n, c, i, j))], (y, (n, c + start, i, j)), lambda s, v: v)
    scheduled = check(k.finish("copy"), blocked("y"))
    assert len(phases(scheduled.function)) == 1


def test_a_layout_that_a_kernel_cannot_have_is_refused():
    k = KernelBuilder("every_fifth")
    x = k.argument("x", (1, 16, 4, 4), f32, "input")
    y = k.argument("y", (1, 80, 4, 4), f32, "output")
    n, c, i, j = k.dimensions(n=1, c=16, i=4, j=4)
    k.generic("plain", [(x, (n, c, i, j))], (y, (n, c * 5, i, j)), lambda s, x: x)
    with pytest.raises(ScheduleError, match="y: dimension 1 is not aligned to 16"):
        schedule_kernel(k.finish("copy"), AVX512, blocked("y"))


# -- phases ------------------------------------------------------------------------------------


def test_statements_that_need_each_other_are_phases_of_their_own():
    function = lower_to_loops(samples.matmul(4, 6, 32, activation="relu"))
    assert [phase.tasks for phase in phases(function)] == [1, 1, 1]


def test_tasks_are_the_iterations_of_the_leading_parallel_loops():
    function = samples.convolution(64, 16, 6, 14)
    scheduled = schedule_kernel(function, AVX512, blocked("xy"), {"schedule": "direct"})
    (phase,) = phases(scheduled.function)
    assert [nest.extents for nest in phase.nests] == [(1, 2, 6)]
    assert phase.tasks == 12


def test_independent_nests_share_a_phase():
    scheduled = schedule_kernel(samples.matmul(17, 8, 96), AVX512, {}, {"rows": 8, "vectors": 3})
    (phase,) = phases(scheduled.function)
    assert [(nest.first_task, nest.tasks) for nest in phase.nests] == [(0, 4), (4, 2)]


def test_a_statement_that_reads_a_shifted_element_waits_for_its_producer():
    k = KernelBuilder("shifted")
    t = k.argument("t", (9,), f32, "scratch")
    y = k.argument("y", (8,), f32, "output")
    (i,) = k.dimensions(i=9)
    k.generic("plain", [], (t, (i,)), lambda s: s.constant(1.0))
    (i,) = k.dimensions(i=8)
    k.generic("plain", [(t, (i + 1,))], (y, (i,)), lambda s, t: t)
    assert len(phases(lower_to_loops(k.finish("plain")))) == 2


# -- tiles -------------------------------------------------------------------------------------


def test_rows_that_a_stride_leaves_out_are_not_fetched():
    """Of 14 rows of 1024 channels a window of one pixel and a stride of two read seven."""
    function = samples.convolution(2048, 1024, 7, 7, kernel=1, stride=2)
    packs = {"x": blocked_pack(8), "y": blocked_pack(8)}
    caches = (CacheLevel("l1", 32 << 10, 32), CacheLevel("l2", 512 << 10, 24))
    machine = Machine(vector_floats=8, language="c", registers=16, caches=caches)
    scheduled = schedule_kernel(function, machine, packs)
    assert scheduled.choices["order"] == "channels"
