"""A model of half precision is quantized as one of single precision is."""

import sys
from pathlib import Path

import numpy as np
import onnx
import onnx.numpy_helper
import pytest

import explorer
from explorer.ir.types import element_type_of
from explorer.quantization.remaining import float_operations

sys.path.insert(0, str(Path(__file__).parents[1]))
from source_models import source_model

SINGLES = """
halves (float[1,3,8,8] x) => (float[1,4] y)
<float[8,3,3,3] w1, float[8] b1, float[4,8,1,1] w2, float[4] b2> {
  c1 = Conv <pads = [1,1,1,1]> (x, w1, b1)
  r1 = Relu (c1)
  c2 = Conv (r1, w2, b2)
  r2 = Relu (c2)
  g = GlobalAveragePool (r2)
  f = Flatten (g)
  y = Softmax (f)
}
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    proto = onnx.load(source_model(folder, SINGLES).path)
    for value in (*proto.graph.input, *proto.graph.output):
        value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
    for weight in proto.graph.initializer:
        halves = onnx.numpy_helper.to_array(weight).astype(np.float16)
        weight.CopyFrom(onnx.numpy_helper.from_array(halves, weight.name))
    onnx.save(proto, folder / "halves.onnx")
    return explorer.load(folder / "halves.onnx")


@pytest.fixture(scope="module")
def data():
    return {"x": np.random.default_rng(0).normal(size=(8, 3, 8, 8)).astype(np.float16)}


@pytest.fixture(scope="module")
def table(model, data):
    return explorer.calibrate(model, data, method="mse")


@pytest.fixture(scope="module")
def quantized(model, table):
    return explorer.compile(model, quantization=table)


def test_its_tensors_are_quantized_by_their_own_names(quantized):
    assert quantized.quantization is not None
    assert [t.name for t in quantized.quantization.tensors] == ["x", "r1", "r2"]
    assert {t.mode for t in quantized.quantization.tensors} == {"INT8"}


def test_inputs_and_outputs_keep_their_types(quantized, data):
    found = quantized.run({"x": data["x"][:1]})["y"]
    assert found.dtype == np.float16
    exact = explorer.compile(quantized.model).run({"x": data["x"][:1]})["y"]
    assert np.abs(found.astype(np.float32) - exact.astype(np.float32)).max() < 0.02


def test_it_is_checked_against_both_references(quantized, data):
    accuracy = quantized.accuracy({"x": data["x"][:1]})
    assert accuracy.passed and accuracy.report.bit_exact, accuracy.summary
    assert accuracy.report.float_outputs[0].sqnr_db > 25
    assert accuracy.report.quantization.costliest.tensor in ("x", "r1", "r2")


def test_nothing_of_half_precision_stays_between_the_ends(quantized):
    after = quantized["widen-floats"].after
    kinds = {str(element_type_of(op.results[0])) for op in after.walked if op.results}
    assert kinds == {"f32", "f16"}
    narrow = [op for op in after.walked if op.results and "f16" in str(op.results[0].type)]
    assert [op.name for op in narrow] == ["top.cast"]
    assert {op.kind for op in float_operations(quantized["quantize-tensors"].after)} <= {
        "top.cast",
        "top.softmax",
    }


def test_modes_are_searched_for_it(model, data, table):
    found = explorer.mixed(model, {"x": data["x"][:2]}, table=table, sqnr=20)
    assert [t.tensor for t in found.tensors] == ["x", "r1", "r2"]
