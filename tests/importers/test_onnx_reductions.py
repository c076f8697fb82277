"""Reductions by element type: integers, and reductions of no axes, against onnxruntime."""

import numpy as np
import onnxruntime
import pytest
from onnx import helper

from explorer.ir.evaluation import outputs_by_name

OPERATORS = (
    "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
    "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp",
)  # fmt: skip
TYPES = (np.int32, np.int64, np.float32, np.float64)
CASES = {"an axis": [1], "two axes": [0, 2], "all": [], "no axes": None}


def both(make_model, snapshot, load_proto, operator, x, axes, **attributes):
    """(ours, onnxruntime's)"""
    node = helper.make_node(operator, ["x", "a"], ["y"], **attributes)
    model = make_model([node], {"x": x}, {"a": np.array(axes, np.int64)}, 18)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    read = snapshot(load_proto(model))
    (found,) = outputs_by_name(read.module, read.run({"x": x})).values()
    return found, session.run(None, {"x": x})[0]


@pytest.mark.sampled(16)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("operator", OPERATORS)
def test_reductions_of_every_type(operator, dtype, make_model, snapshot, load_proto):
    x = np.random.default_rng(4).integers(1, 6, (2, 3, 4)).astype(dtype)
    if operator != "ReduceLogSum":
        x[0, 0], x[1, 1] = [-7, -7, -7, -9], [0, -1, 3, 3]
    for axes in CASES.values():
        attributes = {"noop_with_empty_axes": 1} if axes is None else {}
        if operator == "ReduceProd" and axes == []:
            continue  # onnxruntime multiplies integers in floats there, and loses their digits
        found, expected = both(
            make_model, snapshot, load_proto, operator, x, axes or [], keepdims=0, **attributes
        )
        assert found.dtype == dtype
        if dtype in (np.int32, np.int64):
            np.testing.assert_array_equal(found, expected)
        else:
            np.testing.assert_allclose(found, expected, rtol=1e-6 if dtype == np.float32 else 1e-12)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_the_logarithm_of_a_sum_of_exponentials_does_not_overflow(
    dtype, make_model, snapshot, load_proto
):
    top = np.iinfo(dtype).max
    rows = [[top, 5, 0], [-5, -5, -9], [-5, -6, -6], [-8, -8, -8], [100, 2, 100], [0, 0, 0]]
    x = np.array(rows, dtype)
    found, expected = both(make_model, snapshot, load_proto, "ReduceLogSumExp", x, [1])
    assert found.tolist() == expected.tolist() and found[0, 0] == top


@pytest.mark.parametrize(("opset", "shape"), [(13, (3, 0, 5)), (11, (3, 0, 5)), (13, (0, 2, 5))])
def test_a_hardmax_of_nothing(opset, shape, make_model, snapshot, load_proto):
    x = np.zeros(shape, np.float32)
    model = make_model([helper.make_node("Hardmax", ["x"], ["y"], axis=1)], {"x": x}, {}, opset)
    (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    read = snapshot(load_proto(model))
    (found,) = outputs_by_name(read.module, read.run({"x": x})).values()
    assert found.shape == expected.shape and found.dtype == expected.dtype
