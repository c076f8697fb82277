"""Pools with windows that are larger than the padded image, as onnxruntime runs them."""

from __future__ import annotations

from itertools import product

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import explorer as ex
from explorer.errors import ModelError
from explorer.importers.onnx import from_proto

X = np.random.default_rng(0).normal(size=(2, 3, 3, 5)).astype(np.float32)


def pool(operator: str, window: tuple[int, int], strides: tuple[int, int], pads: int, ceil: int):
    outputs = ["y", "places"] if operator == "MaxPool" else ["y"]
    settings = {"count_include_pad": 1} if operator == "AveragePool" else {}
    node = helper.make_node(
        operator, ["x"], outputs, kernel_shape=window, strides=strides, pads=[pads] * 4,
        ceil_mode=ceil, **settings,
    )  # fmt: skip
    infos = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, X.shape)]
    kinds = (onnx.TensorProto.FLOAT, onnx.TensorProto.INT64)
    results = [
        helper.make_tensor_value_info(name, kind, None)
        for name, kind in zip(outputs, kinds, strict=False)
    ]
    graph = helper.make_graph([node], "one", infos, results)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=8)


@pytest.mark.parametrize("operator", ["MaxPool", "AveragePool", "LpPool"])
@pytest.mark.parametrize("ceil", [0, 1])
def test_a_window_may_lack_elements(operator: str, ceil: int):
    cases = product([4, 5, 6, 7, 8], [1, 2, 3], [0, 1])
    for height, stride, pads in cases:
        proto = pool(operator, (height, 2), (stride, 1), pads, ceil)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(proto.SerializeToString(), options)
        try:
            expected = session.run(None, {"x": X})
        except onnxruntime.capi.onnxruntime_pybind11_state.Fail:
            with pytest.raises(ModelError, match="does not fit"):
                ex.interpret(from_proto(proto), {"x": X})
            continue
        found = ex.interpret(from_proto(proto), {"x": X})
        for own, theirs in zip(found.values(), expected, strict=True):
            assert own.dtype == theirs.dtype
            np.testing.assert_allclose(own, theirs, rtol=1e-5, atol=1e-6)


def test_generated_code_has_empty_results():
    proto = pool("MaxPool", (4, 2), (1, 1), 0, 0)
    found = ex.compile(from_proto(proto)).run({"x": X})
    assert [array.shape for array in found.values()] == [(2, 3, 0, 4)] * 2
