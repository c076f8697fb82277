"""A concat of several tensors gets one quantized type, with which its parts are made."""

import sys
from pathlib import Path

import numpy as np
import pytest

import explorer
from explorer.ir.evaluation import outputs_by_name
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.movement.concat import ConcatOp
from explorer.ir.top.quantization.quantized import RequantizeOp
from explorer.ir.types import QuantizedType, element_type_of, static_shape
from explorer.quantization.remaining import float_operations
from explorer.tuning.calibration import calibrate

sys.path.insert(0, str(Path(__file__).parents[1]))
from source_models import source_model

FIRE = """
fire (float[1,4,8,8] x) => (float[1,4,4,4] y)
<float[4,4,1,1] w1, float[4] b1, float[6,4,3,3] w2, float[6] b2, float[4,10,1,1] w3, float[4] b3,
 float[4,14,1,1] w4, float[4] b4> {
  c1 = Conv (x, w1, b1)
  r1 = Relu (c1)
  c2 = Conv <pads = [1,1,1,1]> (x, w2, b2)
  r2 = Relu (c2)
  j = Concat <axis = 1> (r1, r2)
  p = MaxPool <kernel_shape = [2,2], strides = [2,2]> (j)
  c3 = Conv (p, w3, b3)
  r3 = Relu (c3)
  k = Concat <axis = 1> (p, r3)
  y = Conv (k, w4, b4)
}
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return source_model(tmp_path_factory.mktemp("model"), FIRE)


@pytest.fixture(scope="module")
def data():
    return {"x": np.random.default_rng(0).normal(size=(8, 4, 8, 8)).astype(np.float32)}


@pytest.fixture(scope="module")
def quantized(model, data):
    return explorer.compile(model, quantization=calibrate(model, data, "min-max"))


def test_what_only_a_concat_reads_has_no_threshold_of_its_own(quantized):
    assert quantized.quantization is not None
    assert [t.name for t in quantized.quantization.tensors] == ["x", "j", "k"]
    assert [t.mode for t in quantized.quantization.tensors] == ["INT8"] * 3


def test_convolutions_behind_a_concat_compute_in_integers(quantized):
    assert float_operations(quantized["quantize-tensors"].after) == []
    convs = [op for op in quantized.final.walked if isinstance(op, ConvOp)]
    convs = convs or [
        op for op in quantized["fuse-quantization"].after.walked if isinstance(op, ConvOp)
    ]
    assert len(convs) == 4
    assert all(isinstance(element_type_of(op.operands[0]), QuantizedType) for op in convs)


def test_it_is_checked_and_shown_as_other_tensors_are(quantized, data):
    accuracy = quantized.accuracy({"x": data["x"][:1]})
    report = accuracy.report
    assert accuracy.passed and report.bit_exact and report.float_outputs[0].sqnr_db > 30
    shown = {s.tensor: s for s in report.quantization.saturation}
    assert set(shown) == {"x", "j", "k"}
    assert shown["j"].total == 10 * 8 * 8  # both of its parts
    assert [layer.reads for layer in report.quantization.layers][2:] == [("j",), ("k",)]


def test_its_threshold_and_mode_are_knobs(quantized, data):
    narrow = quantized.fork(decisions={"quantize-tensors/threshold/j": 0.1})
    found = narrow.accuracy({"x": data["x"][:1]}).report
    assert found.passed and found.quantization.costliest.tensor == "j"
    apart = quantized.fork(decisions={"quantize-tensors/mode/j": "F32"})
    stays = float_operations(apart["quantize-tensors"].after)
    assert "an operand is not quantized" in {op.reason for op in stays}


def test_the_best_thresholds_and_roundings_are_found_for_it(model, data):
    table = explorer.calibrate(model, {"x": data["x"][:3]})
    assert set(table.thresholds) == {"x", "j", "k"}
    assert table.corrections is not None and len(table.corrections.roundings) == 4
    c = explorer.compile(model, quantization=table)
    pairs = c["quantize-tensors"]
    inputs = {"x": data["x"][-1:]}
    exact, found = (
        outputs_by_name(s.program, s.run(inputs))["y"] for s in (pairs.before, pairs.after)
    )
    assert -10 * np.log10(np.sum((found - exact) ** 2) / np.sum(exact**2)) > 30


SPLIT = """
split (float[1,4,6,6] x) => (float[1,4,6,6] y)
<float[8,4,1,1] w1, float[4,4,1,1] w2, float[4,8,1,1] w3,
 int64[5] pairs = {1, 4, 2, 6, 6}, int64 first = {0}, int64 second = {1}> {
  a = Conv (x, w1)
  b = Reshape (a, pairs)
  c = Transpose <perm = [2, 0, 1, 3, 4]> (b)
  d = Gather (c, first)
  e = Gather (c, second)
  f = Conv (e, w2)
  k = Concat <axis = 1> (d, f)
  y = Conv (k, w3)
}
"""
"""Channels that are shuffled and split in two halves: one is joined again with what the other
becomes, as in ShuffleNet V2."""


def test_of_what_is_split_only_the_half_that_is_joined_is_rounded_again(tmp_path, data):
    model = source_model(tmp_path, SPLIT)
    x = {"x": data["x"][:, :, :6, :6]}
    compilation = explorer.compile(model, quantization=calibrate(model, x, "min-max"))
    snapshot = compilation["fuse-quantization"].after
    (concat,) = [op for op in snapshot.walked if isinstance(op, ConcatOp)]
    (rounded,) = [op for op in snapshot.walked if isinstance(op, RequantizeOp)]
    assert concat.operands[0] is rounded.output
    assert static_shape(rounded.input) == (1, 4, 6, 6)  # of 1 x 8 x 6 x 6
    assert compilation.accuracy({"x": x["x"][:1]}).report.bit_exact


AGAIN = """
again (float[1,4,8,8] x) => (float[1,4,8,8] y)
<float[4,4,1,1] w1, float[4,4,1,1] w2, float[4,8,1,1] w3> {
  a = Conv (x, w1)
  b = Conv (a, w2)
  k = Concat <axis = 1> (a, b)
  y = Conv (k, w3)
}
"""


def test_a_tensor_that_is_rounded_again_to_be_joined_is_checked(tmp_path, data):
    model = source_model(tmp_path, AGAIN)
    compilation = explorer.compile(model, quantization=calibrate(model, data, "min-max"))
    report = compilation.accuracy({"x": data["x"][:1]}).report
    assert report.bit_exact
    joined = report.quantization.layers[-1]
    assert joined.reads == ("k",)
    assert 30 < joined.activations_db < 60
