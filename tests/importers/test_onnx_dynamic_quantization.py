"""Operators of dynamic quantization against onnxruntime, bit by bit where it is exact."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from explorer.importers.onnx import from_proto, to_top
from explorer.ir.evaluation import outputs_by_name
from explorer.ir.program import Snapshot

LARGEST = 64
"""Of weights: below 65 onnxruntime's products are exact without VNNI, too."""


def model(nodes, inputs, outputs, weights) -> onnx.ModelProto:
    def value(name, array):
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        return helper.make_tensor_value_info(name, kind, array.shape)

    graph = helper.make_graph(
        nodes,
        "graph",
        [value(name, array) for name, array in inputs.items()],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def compared(nodes, inputs, outputs, weights=None):
    """(ours, onnxruntime's) by output."""
    proto = model(nodes, inputs, outputs, weights or {})
    snapshot = Snapshot(*to_top(from_proto(proto)))
    ours = outputs_by_name(snapshot.program, snapshot.run(inputs))
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1  # with more, its LSTM quantizes each row of h by itself
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options)
    theirs = session.run(list(outputs), inputs)
    return [(ours[name], expected) for name, expected in zip(outputs, theirs, strict=True)]


def floats(*shape: int, seed: int = 0, offset: float = 0.0) -> np.ndarray:
    return (np.random.default_rng(seed).normal(size=shape) + offset).astype(np.float32)


def small_bytes(kind: str, *shape: int) -> np.ndarray:
    random = np.random.default_rng(5)
    middle = 0 if kind == "i1" else 128
    return (random.integers(-LARGEST, LARGEST + 1, shape) + middle).astype(kind)


@pytest.mark.parametrize("offset", [0.0, 5.0, -5.0], ids=["both", "above", "below"])
def test_parameters_and_bytes_are_those_of_onnxruntime(offset):
    node = helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"])
    for ours, theirs in compared([node], {"x": floats(5, 7, offset=offset)}, ["q", "s", "z"]):
        np.testing.assert_array_equal(ours, theirs)
        assert ours.dtype == theirs.dtype


@pytest.mark.parametrize("shape", [(3, 4), (6,), ()])
def test_zeros_have_a_scale(shape):
    node = helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"])
    inputs = {"x": np.zeros(shape, np.float32)}
    for ours, theirs in compared([node], inputs, ["q", "s", "z"]):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("kind", ["i1", "u1"])
@pytest.mark.parametrize("columns", [(), (6,)], ids=["one scale", "scales"])
@pytest.mark.parametrize("parts", [2, 3, 4, 5])
def test_dynamic_quantize_matmul(kind, columns, parts):
    middle = np.full(columns, 0 if kind == "i1" else 128).astype(kind)
    scale = np.abs(floats(*columns, seed=2)) / 50
    scale = np.asarray(scale, np.float32)
    weights = {"w": small_bytes(kind, 8, 6), "s": scale, "z": middle, "b": floats(6, seed=3)}
    operands = ["x", "w", "s", "z" if parts > 3 or kind == "u1" else "", "b"][:parts]
    if len(operands) < 3:
        operands.append("s")
    while operands[-1] == "":
        operands.pop()
    node = helper.make_node("DynamicQuantizeMatMul", operands, ["y"], domain="com.microsoft")
    ((ours, theirs),) = compared([node], {"x": floats(2, 3, 8)}, ["y"], weights)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_matmul_integer_to_float():
    weights = {"w": small_bytes("i1", 8, 6), "sw": np.float32(0.02), "b": floats(6, seed=3)}
    inputs = {
        "x": np.random.default_rng(0).integers(0, 256, (3, 8)).astype(np.uint8),
        "sx": np.array(0.3, np.float32),
        "zx": np.array(117, np.uint8),
    }
    weights["sw"] = np.asarray(weights["sw"])
    operands = ["x", "w", "sx", "sw", "zx", "", "b"]
    node = helper.make_node("MatMulIntegerToFloat", operands, ["y"], domain="com.microsoft")
    ((ours, theirs),) = compared([node], inputs, ["y"], weights)
    np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("kind", ["i1", "u1"])
def test_dynamic_quantize_lstm(direction, kind):
    directions, size, hidden = 1 + (direction == "bidirectional"), 4, 5
    zero = np.full((directions,), 0 if kind == "i1" else 128).astype(kind)
    scale = np.full((directions,), 0.01, np.float32)
    weights = {
        "w": small_bytes(kind, directions, size, 4 * hidden),
        "r": small_bytes(kind, directions, hidden, 4 * hidden),
        "b": floats(directions, 8 * hidden, seed=4),
        "s": scale,
        "z": zero,
    }
    operands = ["x", "w", "r", "b", "", "", "", "", "s", "z", "s", "z"]
    node = helper.make_node(
        "DynamicQuantizeLSTM",
        operands,
        ["y", "h", "c"],
        domain="com.microsoft",
        hidden_size=hidden,
        direction=direction,
    )
    for ours, theirs in compared([node], {"x": floats(3, 2, size)}, ["y", "h", "c"], weights):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)
