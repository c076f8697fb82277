"""Where a target can only shift, scales are powers of two and shifts round to the nearest."""

import sys
from pathlib import Path

import numpy as np
import pytest

import explorer
from explorer.ir.constants import constant
from explorer.ir.requantization import Requantization, requantize
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.quantization.quantized import RequantizeOp
from explorer.ir.types import QuantizedType, element_type_of
from explorer.quantization.quantize_tensors import powers_above, type_of, weight_type
from explorer.quantization.table import Threshold

sys.path.insert(0, str(Path(__file__).parents[1]))
from source_models import source_model

SHIFT = {
    "target/arithmetic": "integer",
    "target/requantization.scheme": "shift",
    "target/requantization.rounding": "down",
}
BLOCK = """
block (float[1,4,8,8] x) => (float[1,8,8,8] y)
<float[8,4,3,3] w1, float[8] b1, float[8,8,3,3] w2> {
  c1 = Conv <pads = [1,1,1,1]> (x, w1, b1)
  r1 = Relu (c1)
  c2 = Conv <pads = [1,1,1,1]> (r1, w2)
  y = Add (r1, c2)
}
"""


@pytest.fixture(scope="module")
def data():
    return {"x": np.random.default_rng(0).normal(size=(12, 4, 8, 8)).astype(np.float32)}


@pytest.fixture(scope="module")
def shifted(tmp_path_factory, data):
    model = source_model(tmp_path_factory.mktemp("model"), BLOCK)
    table = explorer.calibrate(model, data, method="min-max", corrections=(), arithmetic="integer")
    return explorer.compile(model, quantization=table, decisions=SHIFT)


def quantized_types(c):
    values = [v for op in c["compute-in-integers"].after.walked for v in op.results]
    return [t for t in map(element_type_of, values) if isinstance(t, QuantizedType)]


def test_the_least_power_that_is_no_smaller():
    assert powers_above(np.array([1.0, 1.5, 2.0, 0.3, 2.0**-60])).tolist() == [
        1.0, 2.0, 2.0, 0.5, 2.0**-60,
    ]  # fmt: skip


@pytest.mark.parametrize(("low", "high"), [(0.0, 3.0), (-1.0, 3.0), (-2.0, 0.5)])
def test_a_range_fits_into_its_type(low, high):
    to = type_of(Threshold("x", max(-low, high), low, high), in_powers=True)
    scale, zero = float(to.scale_array[0]), int(to.zero_point_array[0])
    assert np.log2(scale) % 1 == 0
    assert (0 - zero) * scale <= low + scale / 2 and (255 - zero) * scale >= high - scale / 2


def test_weights_fit_into_their_types():
    array = np.random.default_rng(0).normal(size=(16, 3, 3, 3))
    scales = weight_type(array, 0, in_powers=True).scale_array
    largest = np.abs(array).max(axis=(1, 2, 3))
    assert np.all(np.log2(scales) % 1 == 0)
    assert np.all((largest / scales <= 127) & (largest / scales > 127 / 2))


def test_every_scale_of_such_a_target_is_a_power_of_two(shifted):
    kinds = quantized_types(shifted)
    assert len(kinds) > 6
    for kind in kinds:
        assert np.all(np.log2(kind.scale_array.astype(np.float64)) % 1 == 0)


def test_other_targets_keep_the_scales_of_their_ranges(shifted):
    free = shifted.fork(decisions={**SHIFT, "target/requantization.scheme": "multiplier_shift"})
    scales = [s for kind in quantized_types(free) for s in kind.scale_array.tolist()]
    assert any(np.log2(scale) % 1 for scale in scales)


def test_sums_are_rounded_to_the_nearest_by_their_biases(shifted):
    """Whatever a sum is, shifting it with its half step gives what rounding without would give."""
    after = shifted["compute-in-integers"].after
    found = 0
    for op in after.walked:
        if not isinstance(op, RequantizeOp) or not isinstance(op.input.owner, ConvOp):
            continue
        bias = constant(op.input.owner.bias, after.weights).astype(np.int64)
        sums, to = element_type_of(op.input), op.by.to
        ratio = sums.scale_array.astype(np.float64) / to.scale_array[0]
        before = shifted["compute-in-integers"].before
        exact = {b.tobytes() for b in _biases(before, sums.scale_array)}
        halves = (1 / ratio / 2).astype(np.int64)
        assert (bias - halves).astype(np.int32).tobytes() in exact
        numbers = np.arange(-3000, 3000)
        near = Requantization("shift", "nearest_up")
        args = (float(ratio[0]), 0, (-(2**31), 2**31 - 1))
        rounded = requantize(numbers + halves[0], *args, Requantization("shift", "down"))
        assert np.array_equal(rounded, requantize(numbers, *args, near))
        found += 1
    assert found == 2


def _biases(before, scales):
    """What biases are in steps of sums, and the zeros of products without."""
    yield np.zeros(len(scales), np.int32)
    for op in before.walked:
        if isinstance(op, ConvOp) and op.bias is not None:
            array = constant(op.bias, before.weights).astype(np.float64)
            yield np.rint(array / scales.astype(np.float64)).astype(np.int32)


def test_the_program_is_bit_exact_and_close_to_the_float_model(shifted, data):
    accuracy = shifted.accuracy({"x": data["x"][:1]})
    assert accuracy.passed and accuracy.report.bit_exact
    assert accuracy.report.float_outputs[0].sqnr_db > 30
