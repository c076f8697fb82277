"""The oracle's products of bytes are exact on every processor."""

import numpy as np
import pytest
from onnx import helper, numpy_helper

import explorer
from explorer.accuracy.exact_bytes import with_unsigned_weights
from explorer.importers.onnx import from_proto

INPUTS = np.full((2, 8), 255, np.uint8)
WEIGHTS = np.full((8, 3), 127, np.int8)


def product(*zeros: str):
    """255 * 127 * 8: sums of two products exceed 16 bits."""
    arrays = {"w": WEIGHTS, "zx": np.array(7, np.uint8), "zw": np.array(-3, np.int8)}
    graph = helper.make_graph(
        [
            helper.make_node("MatMulInteger", ["x", "w", *zeros], ["sums"]),
            helper.make_node("Cast", ["sums"], ["y"], to=1),
        ],
        "product",
        [helper.make_tensor_value_info("x", 2, INPUTS.shape)],
        [helper.make_tensor_value_info("y", 1, (2, 3))],
        [numpy_helper.from_array(arrays[n], n) for n in ("w", *zeros) if n],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("zeros", [(), ("zx",), ("zx", "zw"), ("", "zw")])
def test_sums_that_exceed_16_bits_are_right(zeros):
    compilation = explorer.compile(from_proto(product(*zeros)))
    assert compilation.accuracy({"x": INPUTS}).passed


def test_weights_lose_their_sign_and_zero_points_follow():
    node, _ = (changed := with_unsigned_weights(product("zx"))).graph.node
    arrays = {t.name: numpy_helper.to_array(t) for t in changed.graph.initializer}
    assert arrays[node.input[1]].dtype == np.uint8 and arrays[node.input[1]].max() == 255
    assert node.input[2] == "zx" and arrays[node.input[3]] == 128


def test_a_model_without_signed_weights_stays_as_it_is():
    model = product()
    model.graph.node[0].op_type = "Relu"
    assert with_unsigned_weights(model) is model
