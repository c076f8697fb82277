"""Which tasks of a kernel work on the same rows."""

import importlib.util
from pathlib import Path

from explorer.kernels.printing.c import print_c
from explorer.kernels.printing.printer import PrintedKernel
from explorer.kernels.schedules import Machine, schedule_kernel
from explorer.kernels.sections.locality import Rounds
from explorer.kernels.steps.pack import blocked_pack

_SPEC = importlib.util.spec_from_file_location(
    "kernel_nest_samples", Path(__file__).with_name("nest_samples.py")
)
assert _SPEC is not None
assert _SPEC.loader is not None
samples = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(samples)

BLOCKED = {"x": blocked_pack(16), "y": blocked_pack(16)}


def printed(function, packs=None, **choices) -> PrintedKernel:
    return print_c(
        schedule_kernel(
            function, Machine(vector_floats=16, language="c"), packs or {}, choices
        ).function,
        "k",
    )


def test_a_convolution_has_a_round_of_rows_for_every_tile_of_channels():
    kernel = printed(samples.convolution(128, 64, 14, 14), BLOCKED, schedule="direct", vectors=2)
    (phase,) = kernel.phases
    (rounds,) = kernel.rounds
    assert rounds.first == 0
    assert phase.tasks == 4 * rounds.rows
    assert rounds.rows > 1


def test_rounds_begin_behind_the_tasks_of_a_halo():
    kernel = printed(
        samples.convolution(128, 64, 14, 14, halo=1), BLOCKED, schedule="direct", vectors=2
    )
    (phase,) = kernel.phases
    (rounds,) = kernel.rounds
    assert rounds.first == 4
    assert phase.tasks == 4 + 4 * rounds.rows


def test_depthwise_convolutions_and_pools_have_the_rows_of_images():
    for function in (samples.depthwise(32, 56, 56), samples.pool(32, 56, 56)):
        kernel = printed(function, BLOCKED)
        (phase,) = kernel.phases
        assert phase.tasks == 2 * 56
        assert kernel.rounds == (Rounds(0, 56),)


def test_columns_of_a_matrix_go_round_its_rows():
    kernel = printed(samples.matmul(128, 64, 256))
    (phase,) = kernel.phases
    (rounds,) = kernel.rounds
    assert rounds.rows > 1
    assert phase.tasks % rounds.rows == 0
    assert phase.tasks > rounds.rows


def test_where_weights_outweigh_all_else_no_thread_reads_them_all():
    assert printed(samples.matmul(32, 1024, 1024)).rounds == (Rounds(),)


def test_the_images_of_a_batch_are_ranges_of_tasks():
    kernel = printed(
        samples.convolution(128, 64, 14, 14, batch=2), BLOCKED, schedule="direct", vectors=2
    )
    assert kernel.rounds == (Rounds(),)


def test_elements_in_one_row_have_no_rounds():
    assert set(printed(samples.elementwise((64, 1024))).rounds) == {Rounds()}
