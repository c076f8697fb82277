"""Products of bytes in the reference are exact, also where the processor would saturate them."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from explorer.references.onnx_runtime import open_proto
from explorer.references.saturation import with_exact_rows, with_unsigned_weights

DEPTH = 64


def model_of(node, activation: np.dtype, shape, result, constants) -> ModelProto:
    element = helper.np_dtype_to_tensor_dtype(np.dtype(activation))
    graph = helper.make_graph(
        [node],
        "products",
        [helper.make_tensor_value_info("a", element, shape)],
        [helper.make_tensor_value_info("y", result, None)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def bytes_of(kind, shape, seed: int) -> np.ndarray:
    """With both ends of the range in every row: their sums are the largest."""
    limits = np.iinfo(kind)
    array = np.random.default_rng(seed).integers(limits.min, limits.max + 1, shape).astype(kind)
    array[..., : shape[-1] // 2] = limits.max
    return array


def run(model: ModelProto, activation: np.ndarray) -> np.ndarray:
    with open_proto(model, "products", is_optimized=False) as opened:
        return opened.run({"a": activation})["y"]


@pytest.mark.parametrize("zero", [None, np.int8(0), np.int8(-7)], ids=["none", "0", "-7"])
def test_a_product_of_unsigned_and_signed_bytes_is_exact(zero):
    a, b = bytes_of(np.uint8, (3, DEPTH), 0), bytes_of(np.int8, (5, DEPTH), 1).T.copy()
    constants = {"b": b} if zero is None else {"b": b, "z": np.asarray(zero)}
    inputs = ["a", "b"] if zero is None else ["a", "b", "", "z"]
    node = helper.make_node("MatMulInteger", inputs, ["y"])
    model = model_of(node, np.uint8, a.shape, TensorProto.INT32, constants)
    exact = a.astype(np.int32) @ (b.astype(np.int32) - np.int32(0 if zero is None else zero))
    np.testing.assert_array_equal(run(model, a), exact)


def test_a_quantized_convolution_is_exact():
    x = bytes_of(np.uint8, (1, 8, 5, 5), 2)
    filters = bytes_of(np.int8, (4, 8, 3, 3), 3)
    constants = {
        "xs": np.float32(1),
        "xz": np.uint8(0),
        "w": filters,
        "ws": np.full(4, 1, np.float32),
        "wz": np.zeros(4, np.int8),
        "ys": np.float32(16384),
        "yz": np.uint8(100),
    }
    inputs = ["a", "xs", "xz", "w", "ws", "wz", "ys", "yz"]
    node = helper.make_node("QLinearConv", inputs, ["y"])
    model = model_of(node, np.uint8, x.shape, TensorProto.UINT8, constants)
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.int64), (3, 3), (2, 3))
    sums = np.einsum("nchwpq,ocpq->nohw", windows, filters.astype(np.int64))
    exact = np.clip(np.rint(sums / 16384) + 100, 0, 255)
    np.testing.assert_array_equal(run(model, x), exact)


def test_signed_activations_and_computed_weights_stay_as_they_are():
    node = helper.make_node("MatMulInteger", ["a", "b"], ["y"])
    computed = model_of(node, np.uint8, (3, DEPTH), TensorProto.INT32, {})
    assert with_unsigned_weights(computed) is computed
    inputs = ["a", "s", "z", "b", "s", "z", "s", "z"]
    signed = model_of(
        helper.make_node("QLinearMatMul", inputs, ["y"]),
        np.int8,
        (3, DEPTH),
        TensorProto.INT8,
        {"s": np.float32(1), "z": np.int8(0), "b": bytes_of(np.int8, (DEPTH, 5), 4)},
    )
    assert with_unsigned_weights(signed) is signed


def test_weights_of_an_inner_graph_are_turned_and_the_model_itself_is_not():
    b = bytes_of(np.int8, (DEPTH, 5), 5)
    inner = helper.make_graph(
        [helper.make_node("MatMulInteger", ["a", "b"], ["i"])],
        "inner",
        [],
        [helper.make_tensor_value_info("i", TensorProto.INT32, None)],
        [numpy_helper.from_array(b, "b")],
    )
    node = helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)
    constants = {"c": np.array(True)}
    model = model_of(node, np.uint8, (3, DEPTH), TensorProto.INT32, constants)
    before = model.SerializeToString()
    a = bytes_of(np.uint8, (3, DEPTH), 6)
    np.testing.assert_array_equal(run(model, a), a.astype(np.int32) @ b.astype(np.int32))
    assert model.SerializeToString() == before


@pytest.mark.parametrize("level", [None, 1, 4])
def test_rows_that_are_multiplied_with_blocks_are_exact(level):
    """Whatever the model permits: onnxruntime itself rounds them to bytes for level 4."""
    random = np.random.default_rng(0)
    a = random.standard_normal((2, 32)).astype(np.float32)
    packed = random.integers(0, 256, (5, 1, 16)).astype(np.uint8)
    scale = random.uniform(0.1, 1, 5).astype(np.float32)
    sizes = {"N": 5, "K": 32, "bits": 4, "block_size": 32}
    levels = {} if level is None else {"accuracy_level": level}
    node = helper.make_node(
        "MatMulNBits", ["a", "b", "s"], ["y"], domain="com.microsoft", **sizes, **levels
    )
    model = model_of(node, np.float32, a.shape, TensorProto.FLOAT, {"b": packed, "s": scale})
    numbers = np.stack([packed[:, 0] & 15, packed[:, 0] >> 4], axis=-1).reshape(5, 32)
    exact = a.astype(np.float64) @ ((numbers - 8.0) * scale[:, np.newaxis]).T
    np.testing.assert_allclose(run(model, a), exact, rtol=0, atol=2e-6 * np.abs(exact).max())
    assert (with_exact_rows(model) is model) == (level is None)
    kept = {attribute.name for attribute in node.attribute}
    assert ("accuracy_level" in kept) == (level is not None)
