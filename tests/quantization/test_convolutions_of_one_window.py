"""Convolutions of one window as products: their weights become narrow, others' stay."""

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import explorer
from explorer.importers.onnx import from_proto
from explorer.ir.constants import constant
from explorer.ir.evaluation import outputs_by_name
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.linear.matmul_blocks import MatMulBlocksOp

PASS = "convolutions-of-one-window"
# Sums of at most 128 products in another order.
TOLERANCE = 1e-5

FILTERS = {
    "many_pixels": ((8, 4, 3, 3), {}),
    "whole_picture": ((16, 8, 4, 4), {}),
    "gate": ((32, 16, 1, 1), {"strides": [2, 2]}),
    "padded": ((32, 32, 3, 3), {"pads": [1, 1, 1, 1]}),
    "depthwise": ((32, 1, 1, 1), {"group": 32}),
}
"""Behind one another, a relu behind each, from 4 channels of 6x6; products are the second and the
third: filters and attributes."""


@pytest.fixture(scope="module")
def proto():
    random = np.random.default_rng(4)
    nodes, weights, value = [], [], "x"
    for name, (shape, attributes) in FILTERS.items():
        fan = np.prod(shape[1:])
        arrays = random.normal(size=shape) / np.sqrt(fan), random.normal(size=shape[0]) / 4
        for part, array in zip(("filters", "bias"), arrays, strict=True):
            weights.append(numpy_helper.from_array(array.astype(np.float32), f"{name}.{part}"))
        operands = [value, f"{name}.filters", f"{name}.bias"]
        nodes.append(helper.make_node("Conv", operands, [f"{name}.sums"], **attributes))
        nodes.append(helper.make_node("Relu", [f"{name}.sums"], [name]))
        value = name
    ports = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)]
        for name, shape in (("x", [1, 4, 6, 6]), (value, [1, 32, 1, 1]))
    ]
    graph = helper.make_graph(nodes, "windows", *ports, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture(scope="module")
def pictures():
    return np.random.default_rng(5).normal(size=(40, 1, 4, 6, 6)).astype(np.float32)


@pytest.fixture(scope="module")
def compiled(proto, pictures):
    model = from_proto(proto)
    table = explorer.calibrate(model, {"x": pictures[:39]}, weights="int8", block=32)
    return explorer.compile(model, quantization=table, tuned=False)


def operations(snapshot, kind):
    return [op for op in snapshot.walked if isinstance(op, kind)]


def test_what_sees_its_input_at_once_is_a_product(compiled, proto, pictures):
    """The program means the same, to the order of sums; padded and grouped filters stay."""
    after = compiled[PASS].after
    kept = [constant(op.weight, after.weights).shape for op in operations(after, ConvOp)]
    assert kept == [FILTERS[name][0] for name in ("many_pixels", "padded", "depthwise")]
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    inputs = {"x": pictures[39]}
    (expected,) = session.run(None, inputs)
    (found,) = outputs_by_name(after.program, after.run(inputs)).values()
    assert np.abs(expected).max() > 0.1
    assert np.allclose(found, expected, rtol=0, atol=TOLERANCE * np.abs(expected).max())


def test_its_weights_are_narrow_by_gptq_and_unpacked_by_the_kernel(compiled, pictures):
    events = compiled["quantize-weights"].rewrites
    assert len(events) == 2
    assert all("by GPTQ" in event.explanation for event in events)
    last = compiled["fuse-quantization"].after
    products = operations(last, MatMulBlocksOp)
    assert [constant(op.operands[1], last.weights).shape for op in products] == [
        (128, 16), (16, 32)
    ]  # fmt: skip
    assert [op.get("activation") for op in products] == ["relu", "relu"]
    checked = compiled.accuracy({"x": pictures[39]})
    assert checked.passed and checked.report.float_outputs[0].sqnr_db > 35


def test_a_program_without_such_a_table_keeps_its_convolutions(proto):
    plain = explorer.compile(from_proto(proto), tuned=False)
    assert PASS not in plain.names
    assert not operations(plain["fuse-quantization"].after, MatMulBlocksOp)
