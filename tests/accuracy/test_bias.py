"""A bias is added behind its sum: a large one costs the sum none of its digits."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import explorer

BIAS = np.float32(1000)


def model(operator: str, weight: np.ndarray, shape: list[int]) -> onnx.ModelProto:
    bias = np.full(16, BIAS)
    node = helper.make_node(operator, ["x", "w", "b"], ["y"])
    graph = helper.make_graph(
        [node],
        "biased",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(bias, "b")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize(
    ("operator", "shape", "filters"),
    [("Gemm", [3, 256], [256, 16]), ("Conv", [1, 256, 4, 4], [16, 256, 1, 1])],
)
def test_a_sum_and_a_large_bias_are_rounded_once(tmp_path, operator, shape, filters):
    random = np.random.default_rng(0)
    weight = random.normal(size=filters).astype(np.float32)
    x = (random.normal(size=shape) / 100).astype(np.float32)
    path = tmp_path / "biased.onnx"
    onnx.save(model(operator, weight, shape), path)
    (y,) = explorer.compile(path).run({"x": x}).values()
    wide = x.astype(np.float64), weight.astype(np.float64)
    sums = wide[0] @ wide[1] if operator == "Gemm" else np.einsum("nchw,ocij->nohw", *wide)
    # Half a step for the addition; the small sums (up to 0.5) are 2,000 times as exact.
    assert np.abs(y - (sums + BIAS)).max() <= 0.51 * np.spacing(BIAS)
