"""Tensors without elements, on every device."""

import numpy as np
import pytest
from onnx import TensorProto, helper

from explorer.onnx_backend import DEVICES, backend_for

X = np.arange(12, dtype=np.float32).reshape(3, 4)
CASES = {
    "a slice that begins behind the axis": (
        [helper.make_node("Slice", ["x", "five", "nine"], ["y"])],
        np.zeros((0, 4), np.float32),
    ),
    "arithmetic on nothing": (
        [
            helper.make_node("Slice", ["x", "five", "nine"], ["e"]),
            helper.make_node("Exp", ["e"], ["f"]),
            helper.make_node("Add", ["f", "f"], ["y"]),
        ],
        np.zeros((0, 4), np.float32),
    ),
    "a sum over nothing": (
        [
            helper.make_node("Slice", ["x", "five", "nine"], ["e"]),
            helper.make_node("ReduceSum", ["e", "zero"], ["y"], keepdims=0),
        ],
        np.zeros(4, np.float32),
    ),
    "a matrix product over nothing": (
        [
            helper.make_node("Slice", ["x", "five", "nine", "one"], ["e"]),
            helper.make_node("Slice", ["x", "five", "nine"], ["f"]),
            helper.make_node("MatMul", ["e", "f"], ["y"]),
        ],
        np.zeros((3, 4), np.float32),
    ),
    "nothing joined to something": (
        [
            helper.make_node("Slice", ["x", "five", "nine"], ["e"]),
            helper.make_node("Concat", ["e", "x", "e"], ["y"], axis=0),
        ],
        X,
    ),
}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("case", CASES)
def test_tensors_without_elements(case: str, device: str) -> None:
    nodes, expected = CASES[case]
    numbers = {"zero": 0, "one": 1, "five": 5, "nine": 9}
    used = {name for node in nodes for name in node.input}
    weights = [
        helper.make_tensor(name, TensorProto.INT64, [1], [number])
        for name, number in numbers.items()
        if name in used
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape)]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, expected.shape)]
    graph = helper.make_graph(nodes, "empty", inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    representation = backend_for(device, lambda c: c.open(isolated=False)).prepare(model)
    (y,) = representation.run([X])
    representation.close()
    assert y.shape == expected.shape
    np.testing.assert_array_equal(y, expected)
