"""Weights in halves: what is stored, what is computed, what is refused."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from explorer.kernels.loops.lowering import lower_to_loops
from explorer.kernels.loops.nest import LoopNest, ScheduleError, element_name
from explorer.kernels.printing.opencl import print_opencl
from explorer.kernels.program.packing import pack_argument
from explorer.kernels.schedules import Machine, schedule_kernel
from explorer.kernels.steps.narrow import narrow, narrowed_weights
from explorer.kernels.steps.pack import identity_pack

_SPEC = importlib.util.spec_from_file_location(
    "kernel_nest_samples", Path(__file__).with_name("nest_samples.py")
)
assert _SPEC is not None
assert _SPEC.loader is not None
samples = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(samples)

GPU = Machine(vector_floats=4, language="opencl", processor="gpu")
MIXED = Machine(vector_floats=4, language="opencl", processor="gpu", precision="mixed")
# Sums in another order.
TOLERANCE = 1e-5


def with_halves(arrays):
    rounded = arrays["w"].astype(np.float16).astype(np.float32)
    return {**arrays, "w": rounded}


def test_a_narrowed_weight_is_widened_where_it_is_read():
    function = samples.matmul(2, 12, 6)
    nest = LoopNest(lower_to_loops(function))
    narrow(nest, "w")
    nest.function.verify()
    assert element_name(nest.buffers["w"]) == "f16"
    assert narrowed_weights(nest.function) == {"w"}
    arrays = samples.random_arguments(function)
    expected = samples.run_nest(lower_to_loops(function), with_halves(arrays))["y"]
    actual = samples.run_nest(nest.function, arrays)["y"]
    np.testing.assert_allclose(actual, expected, rtol=TOLERANCE, atol=TOLERANCE)


def test_only_weights_of_float32_are_narrowed():
    nest = LoopNest(lower_to_loops(samples.matmul(2, 12, 6)))
    with pytest.raises(ScheduleError, match="x is input of f32, not a weight of f32"):
        narrow(nest, "x")
    narrow(nest, "w")
    with pytest.raises(ScheduleError, match="w is weight of f16, not a weight of f32"):
        narrow(nest, "w")


def test_numbers_beyond_halves_become_the_largest_half():
    nest = LoopNest(lower_to_loops(samples.matmul(2, 2, 2)))
    narrow(nest, "w")
    weight = np.array([[1e6, -1e6], [0.1, 2.0]], np.float32)
    packed = pack_argument(nest.function, "w", weight, identity_pack(2))
    assert packed.dtype == np.float16
    np.testing.assert_array_equal(packed, np.array([[65504, -65504], [0.1, 2]], np.float16))


@pytest.mark.opencl
@pytest.mark.parametrize("sizes", [(1, 64, 40), (2, 48, 28)])
def test_a_product_of_few_rows_reads_halves_in_mixed_precision(sizes, run_opencl):
    function = samples.matmul(*sizes, activation="relu")
    scheduled = schedule_kernel(function, MIXED, {})
    assert scheduled.choices["precision"] == "mixed"
    arrays = samples.random_arguments(function)
    expected = samples.run_nest(lower_to_loops(function), with_halves(arrays))["y"]
    as_loops = samples.run_nest(scheduled.function, arrays, scheduled.packs)["y"]
    taken = samples.as_the_kernel_takes_them(scheduled.function, arrays)
    physical = {n: samples.pack_array(a, scheduled.packs.get(n)) for n, a in taken.items()}
    on_device = run_opencl(scheduled.function, physical)["y"]
    for actual in (as_loops, on_device):
        np.testing.assert_allclose(actual, expected, rtol=TOLERANCE, atol=TOLERANCE)
    text = "\n".join(print_opencl(scheduled.function, "k").lines)
    assert "__global const ushort *restrict w" in text
    assert "*(__global const ushort4 *)(w + " in text
    assert "float_from_f16_ushort4(" in text


def test_precision_is_a_choice_of_every_kernel():
    function = samples.matmul(1, 64, 40)
    by_itself = schedule_kernel(function, GPU, {})
    assert by_itself.choices["precision"] == "float32"
    assert narrowed_weights(by_itself.function) == frozenset()
    mixed = schedule_kernel(function, GPU, {}, {"precision": "mixed"})
    assert narrowed_weights(mixed.function) == {"w"}
    with pytest.raises(ScheduleError, match="precision = half; float32, mixed are legal"):
        schedule_kernel(function, GPU, {}, {"precision": "half"})
