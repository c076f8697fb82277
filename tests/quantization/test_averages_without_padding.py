"""Averages that leave padding out, as integers: numbers, tables without what they read, causes."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import explorer
from explorer.cli.compile import bounded_lines
from explorer.compilation import Compilation
from explorer.ir.top.quantization.integer_average import IntegerAverageOp
from explorer.tuning.calibration import calibrate

sys.path.insert(0, str(Path(__file__).parents[1]))
from source_models import source_model

INTEGER = {"target/arithmetic": "integer"}
PAIRS = """
pairs (uint8[1,3,6,5] x) => (uint8[1,3,6,5] y)
<float s, uint8 zx, float t, uint8 zy> {
  a = DequantizeLinear (x, s, zx)
  b = AveragePool <kernel_shape = [3,3], pads = [1,1,1,1]> (a)
  y = QuantizeLinear (b, t, zy)
}
"""
NETWORK = """
network (float[1,4,9,9] x) => (float[1,5,9,9] y)
<float[8,4,3,3] w, float[8] b, float[5,8,1,1] v> {
  c = Conv <pads = [1,1,1,1]> (x, w, b)
  a = Relu (c)
  p = AveragePool <kernel_shape = [3,3], pads = [1,1,1,1]> (a)
  y = Conv (p, v)
}
"""


def averages(c: Compilation) -> list[IntegerAverageOp]:
    ops = c["compute-without-floats"].after.walked
    return [op for op in ops if isinstance(op, IntegerAverageOp)]


def test_pairs_around_an_average_are_what_onnxruntime_computes_but_for_ties(tmp_path):
    model = source_model(
        tmp_path, PAIRS, s=np.float32(0.043), zx=np.uint8(113), t=np.float32(0.019),
        zy=np.uint8(140),
    )  # fmt: skip
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(tmp_path / "pairs.onnx", options)
    c = explorer.compile(model, decisions=INTEGER)
    assert len(averages(c)) == 1
    random, differences = np.random.default_rng(0), []
    for _ in range(8):
        x = random.integers(0, 256, (1, 3, 6, 5)).astype(np.uint8)
        (expected,) = session.run(None, {"x": x})
        differences.append(c.run({"x": x})["y"].astype(int) - np.asarray(expected).astype(int))
    assert np.abs(differences).max() <= 1
    assert np.count_nonzero(differences) <= 0.01 * np.size(differences)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return source_model(tmp_path_factory.mktemp("model"), NETWORK)


@pytest.fixture(scope="module")
def data():
    return {"x": np.random.default_rng(0).normal(size=(4, 4, 9, 9)).astype(np.float32)}


@pytest.fixture(scope="module")
def table(model, data):
    return calibrate(model, data, "min-max", arithmetic="integer")


def test_an_npu_computes_the_average(model, table, data):
    c = explorer.compile(model, "tiny-8", quantization=table)
    assert [op for op, _ in c.host_operations] == ["quantize1", "dequantize7"]
    accuracy = c.accuracy({"x": data["x"][:1]})
    assert accuracy.passed and accuracy.report.bit_exact
    assert accuracy.report.float_outputs[0].sqnr_db > 20


def test_a_table_without_what_an_average_reads_gets_the_range_that_weights_allow(model, table):
    """No number lies outside of it, whatever the input, and it is named."""
    thresholds = {name: own for name, own in table.thresholds.items() if name != "a"}
    older = replace(table, thresholds=thresholds)
    c = explorer.compile(model, "tiny-8", quantization=older)
    assert len(averages(c)) == 1
    (line, hint) = bounded_lines(c)
    assert line.startswith("quantized a: ui8 from 0 to") and "--arithmetic integer" in hint
    high = averages(c)[0].kind.double_scales[0] * 255
    low, top = table.thresholds["x"].represented
    weights = {name: np.asarray(model.constants[name], np.float64) for name in "wb"}
    rows = weights["w"].reshape(8, -1)
    reached = np.maximum(rows * low, rows * top).sum(axis=1) + weights["b"]
    assert high == pytest.approx(reached.max(), rel=1e-6)
    assert bounded_lines(explorer.compile(model, "tiny-8", quantization=table)) == []


def test_what_only_shifts_refuses_divisors_that_are_no_powers_of_two(model, table):
    c = explorer.compile(model, "vta-16", quantization=table)
    assert not averages(c)
    reasons = [reason for _, reason in c.host_operations if "divides by 4, 6, 9" in reason]
    assert len(reasons) == 1 and "only shifts" in reasons[0]
