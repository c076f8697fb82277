"""Kernels measured step by step: what is measured is right, whatever the speed."""

import numpy as np
import pytest
from xdsl.dialects.builtin import f32

import explorer
from explorer.compilation.measurements.schedule_steps import (
    Ladder,
    Rung,
    layouts_at,
    measure_ladder,
    measure_last_rung,
    multiply_add_flops,
    random_arguments,
    run_nest,
    unpack_array,
)
from explorer.errors import InputError
from explorer.ir.compute import KernelBuilder
from explorer.kernels.program.packing import pack_array
from explorer.kernels.schedules import Machine, schedule_kernel
from explorer.kernels.steps.pack import blocked_pack

# Sums of 72 products in another order.
TOLERANCE = 1e-6


def convolution():
    """8 to 16 channels, 3x3 window, 6x6 pixels, without a border."""
    k = KernelBuilder("conv")
    x = k.argument("x", (1, 8, 8, 8), f32, "input")
    w = k.argument("w", (16, 8, 3, 3), f32, "weight")
    y = k.argument("y", (1, 16, 6, 6), f32, "output")
    n, o, i, j = k.dimensions(n=1, o=16, i=6, j=6)
    k.generic("init", [], (y, (n, o, i, j)), lambda s: s.constant(0.0))
    n, o, i, j, c, p, q = k.dimensions(n=1, o=16, i=6, j=6, c=8, p=3, q=3)
    k.generic(
        "main",
        [(x, (n, c, i + p, j + q)), (w, (o, c, p, q))],
        (y, (n, o, i, j)),
        lambda s, x, w, y: y + x * w,
        reductions="c p q",
        accumulates=True,
    )
    return k.finish("convolution")


@pytest.fixture(scope="module")
def scheduled():
    layouts = {"x": blocked_pack(8), "y": blocked_pack(8)}
    return schedule_kernel(convolution(), Machine(vector_floats=8, language="c"), layouts)


def expected_result(arrays):
    windows = np.lib.stride_tricks.sliding_window_view(arrays["x"], (3, 3), axis=(2, 3))
    return np.einsum("ncijpq,ocpq->noij", windows, arrays["w"])


def test_multiply_adds_are_counted_from_the_loops(scheduled):
    assert multiply_add_flops(scheduled.steps[0].function) == 2 * 16 * 6 * 6 * 8 * 3 * 3


def test_the_first_and_the_last_rung_compute_the_convolution(scheduled):
    arrays = random_arguments(scheduled.steps[0].function, seed=1)
    expected = expected_result(arrays)
    for step in (scheduled.steps[0], scheduled.steps[-1]):
        _, results = run_nest(step.function, layouts_at(step), arrays, repeats=1)
        np.testing.assert_allclose(results["y"], expected, atol=TOLERANCE * abs(expected).max())


def test_layouts_follow_the_steps(scheduled):
    names = [step.name for step in scheduled.steps]
    assert layouts_at(scheduled.steps[names.index("pack") - 1]) == {}
    assert set(layouts_at(scheduled.steps[-1])) == {"x", "w", "y"}


def test_a_ladder_has_a_rung_for_every_step_and_all_are_right(scheduled):
    ladder = measure_ladder(scheduled, repeats=1)
    assert [r.step for r in ladder.rungs] == [s.name for s in scheduled.steps]
    assert all(r.max_relative <= TOLERANCE for r in ladder.rungs)
    assert all(r.milliseconds > 0 and r.gflops > 0 for r in ladder.rungs)
    assert list(ladder.gains) == [s.name for s in scheduled.steps[1:]]
    assert ladder["unroll"].step == "unroll"
    with pytest.raises(KeyError, match="the steps are lower"):
        ladder["rise"]


def test_the_last_rung_alone_is_compared_too(scheduled):
    rung = measure_last_rung(scheduled, repeats=1)
    assert rung.step == scheduled.steps[-1].name
    assert rung.max_relative <= TOLERANCE


def test_a_kernel_of_a_compilation_is_measured_by_its_name(sample_models):
    compiled = explorer.compile(sample_models / "digits_mlp.onnx")
    name = next(iter(compiled.kernels))
    ladder = compiled.measure_ladder(name, repeats=1)
    assert ladder.flops == compiled.kernels[name].flops
    assert all(r.max_relative <= TOLERANCE for r in ladder.rungs)
    with pytest.raises(InputError, match=f"did you mean '{name}'"):
        compiled.measure_ladder(name + "x")


def test_unpacking_undoes_packing():
    array = np.arange(1 * 5 * 2 * 3, dtype=np.float32).reshape(1, 5, 2, 3)
    packed = pack_array(array, blocked_pack(4))
    assert packed.shape == (1, 2, 2, 3, 4)
    np.testing.assert_array_equal(unpack_array(packed, array.shape, blocked_pack(4)), array)


def test_gains_are_told_by_step():
    ladder = Ladder(
        "conv", 100, (Rung("lower", (), 4.0, 2.5, 0.0), Rung("unroll", (), 1.0, 10.0, 1e-7))
    )
    assert ladder.gains == {"unroll": 4.0}
