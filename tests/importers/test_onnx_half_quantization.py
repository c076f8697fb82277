"""QuantizeLinear divides in the type of its scale from opset 23 on, as ONNX has it: a quotient of
float16 is rounded to float16 before it is rounded to the result."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from explorer.onnx_backend import Representation
from explorer.references.onnx_runtime import open_proto
from verification.conformance.suite import open_here

EVERY = np.arange(2**16, dtype=np.uint16).view(np.float16)
NUMBERS = EVERY[np.isfinite(EVERY)][::7]
INT8, UINT8, INT16, UINT16, E4M3, E5M2 = (
    *(TensorProto.INT8, TensorProto.UINT8, TensorProto.INT16, TensorProto.UINT16),
    *(TensorProto.FLOAT8E4M3FNUZ, TensorProto.FLOAT8E5M2),
)
WHOLE = (INT8, UINT8, INT16, UINT16)
SCALES = [0.03, 0.0707, 0.11, 1.0, 3.0]


def model_of(
    to: int, scale: float, dtype: int = TensorProto.FLOAT16, opset: int = 23
) -> onnx.ModelProto:
    zero = 1 if to in WHOLE else 0
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("Cast", ["q"], ["y"], to=TensorProto.FLOAT),
    ]
    constants = [
        helper.make_tensor("s", dtype, (), [scale]),
        helper.make_tensor("z", to, (), [zero]),
    ]
    x = helper.make_tensor_value_info("x", dtype, ["n"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])
    graph = helper.make_graph(nodes, "g", [x], [y], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("device", ["INTERPRETER", "CPU"])
@pytest.mark.parametrize("to", [*WHOLE, E4M3])
@pytest.mark.parametrize("scale", SCALES[:1])
def test_quotients_of_float16_are_those_of_onnxruntime(to: int, scale: float, device: str):
    require_same(model_of(to, scale), NUMBERS, device)


@pytest.mark.parametrize("to", [INT8, E4M3, E5M2])
@pytest.mark.parametrize("scale", SCALES[1:])
def test_other_scales(to: int, scale: float):
    require_same(model_of(to, scale), NUMBERS, "INTERPRETER")


@pytest.mark.parametrize("opset", [21, 24])
@pytest.mark.parametrize("to", [INT8, E4M3])
def test_the_opset_decides(to: int, opset: int):
    require_same(model_of(to, 0.0707, opset=opset), NUMBERS, "INTERPRETER")


@pytest.mark.parametrize("dtype", [TensorProto.FLOAT16, TensorProto.FLOAT])
@pytest.mark.parametrize("to", [INT8, UINT8, INT16])
def test_nan_is_the_least_whole_number(to: int, dtype: int):
    x = np.array([np.nan, 1, np.inf, -np.inf], helper.tensor_dtype_to_np_dtype(dtype))
    require_same(model_of(to, 0.5, dtype), x, "INTERPRETER")


def require_same(model: onnx.ModelProto, x: np.ndarray, device: str) -> None:
    with open_proto(model, "model", is_optimized=False) as opened:
        (expected,) = opened.run({"x": x}).values()
    representation = Representation(model, device, open_here)
    (found,) = representation.run({"x": x})
    representation.close()
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", [TensorProto.FLOAT, TensorProto.INT32])
def test_a_whole_scale_divides_without_truncation(dtype: int):
    """ONNX rounds the quotient to the nearest whole number; as onnx's reference does."""
    model = model_of(INT8, 4, TensorProto.INT32, opset=25)
    model.graph.input[0].type.tensor_type.elem_type = dtype
    numbers = np.array([-2147483647, -14, -10, -7, -6, -5, 0, 2, 3, 5, 6, 7, 10, 14, 505, 2**30])
    x = numbers.astype(onnx.helper.tensor_dtype_to_np_dtype(dtype))
    (expected,) = ReferenceEvaluator(model).run(None, {"x": x})
    (found,) = Representation(model, "INTERPRETER", open_here).run({"x": x})
    np.testing.assert_array_equal(found, expected)
