"""The backend's interface: programs by what they were made for, devices, inputs in both forms."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import onnx
import onnx.backend.test
import pytest
from onnx import TensorProto, helper, numpy_helper

import explorer.onnx_backend as backend
from explorer.errors import InputError
from explorer.onnx_backend import DEVICES, backend_for
from verification.conformance.coverage import not_generated, values_from_inputs
from verification.conformance.oracle import OracleRepresentation
from verification.conformance.suite import open_here


@pytest.fixture
def model() -> onnx.ModelProto:
    """y = x + x[0], with a size that is not known."""
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [
            helper.make_node("Gather", ["x", "zero"], ["first"], axis=0),
            helper.make_node("Add", ["x", "first"], ["y"]),
        ],
        "g",
        [info("x", TensorProto.FLOAT, ("n",))],
        [info("y", TensorProto.FLOAT, ("n",))],
        [helper.make_tensor("zero", TensorProto.INT64, [], [0])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


X = np.array([1, 2, 3], np.float32)


@pytest.mark.parametrize("device", ["INTERPRETER", "CPU"])
def test_a_model_runs_by_position_and_by_name(model, device):
    (y,) = backend.run_model(model, [X], device=device)
    np.testing.assert_array_equal(y, [2, 3, 4])
    representation = backend_for(device).prepare(model)
    np.testing.assert_array_equal(representation.run({"x": X})[0], [2, 3, 4])
    representation.close()


@pytest.mark.opencl
def test_a_model_runs_in_opencl(model, opencl_device_record):
    (y,) = backend.run_model(model, [X], device="OPENCL")
    np.testing.assert_array_equal(y, [2, 3, 4])


def test_a_program_is_made_once_for_every_shape(model):
    representation = backend_for("CPU").prepare(model)
    representation.run([X])
    representation.run([X * 2])
    assert len(representation.compilations) == 1
    np.testing.assert_array_equal(representation.run([X[:2]])[0], [2, 3])
    assert len(representation.compilations) == 2
    representation.close()
    assert representation.compilations == []


def test_contents_that_decide_a_shape_make_a_program_of_their_own():
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Reshape", ["x", "shape"], ["y"])],
        "g",
        [info("x", TensorProto.FLOAT, (6,)), info("shape", TensorProto.INT64, (2,))],
        [info("y", TensorProto.FLOAT, (None, None))],
    )
    opset = helper.make_opsetid("", 21)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=10)
    representation = backend_for("CPU").prepare(model)
    x = np.arange(6, dtype=np.float32)
    for shape in ((2, 3), (3, 2), (2, 3)):
        (y,) = representation.run([x, np.array(shape)])
        np.testing.assert_array_equal(y, x.reshape(shape))
    assert len(representation.compilations) == 2
    representation.close()


def test_an_unknown_device_is_refused(model):
    with pytest.raises(InputError, match="INTERPRETER, CPU, OPENCL"):
        backend.prepare(model, "TPU")
    with pytest.raises(InputError, match="unknown device"):
        backend_for("TPU")
    assert not backend.supports_device("CUDA")
    assert {"INTERPRETER", "CPU"} <= {d for d in DEVICES if backend.supports_device(d)}


def test_the_number_of_inputs_is_checked(model):
    with pytest.raises(InputError, match="2 inputs were given, the model takes 1"):
        backend_for("INTERPRETER").prepare(model).run([X, X])


def test_onnx_own_runner_takes_the_backend_as_it_is(monkeypatch):
    # Of its 150 modules of cases it reads one: each computes its results when it is imported.
    read = "onnx.backend.test.loader.import_recursive"
    monkeypatch.setattr(read, lambda package: import_module(f"{package.__name__}.relu"))
    tests = onnx.backend.test.BackendTest(backend_for("INTERPRETER"), __name__)
    case = tests.test_cases["OnnxBackendNodeModelTest"]
    case("test_relu_cpu").debug()


def counting_loop(has_limit: bool) -> onnx.ModelProto:
    """Adds x to the state until a sum is reached, at most five times if there is a limit."""
    body = helper.make_graph(
        [
            helper.make_node("Add", ["state", "x"], ["next"]),
            helper.make_node("ReduceSum", ["next"], ["sum"], keepdims=0),
            helper.make_node("Less", ["sum", "limit"], ["goes_on"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("number", TensorProto.INT64, []),
            helper.make_tensor_value_info("went_on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("state", TensorProto.FLOAT, [4]),
        ],
        [
            helper.make_tensor_value_info("goes_on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", TensorProto.FLOAT, [4]),
        ],
    )
    operands = ["most" if has_limit else "", "starts", "x"]
    graph = helper.make_graph(
        [helper.make_node("Loop", operands, ["y"], name="count", body=body)],
        "graph",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [4]),
            helper.make_tensor_value_info("limit", TensorProto.FLOAT, []),
            helper.make_tensor_value_info("starts", TensorProto.BOOL, []),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])],
        [numpy_helper.from_array(np.array(5), "most")] if has_limit else [],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize("limit", [3.0, 9.5, 99.0])
@pytest.mark.parametrize("starts", [True, False])
def test_a_loop_that_data_end_runs_compiled_as_in_onnxruntime(limit, starts):
    model = counting_loop(has_limit=True)
    inputs = [np.ones(4, np.float32), np.array(limit, np.float32), np.array(starts)]
    (expected,) = OracleRepresentation(model).run(inputs)
    representation = backend_for("CPU", open_here).prepare(model)
    np.testing.assert_array_equal(representation.run(inputs)[0], expected)
    representation.close()


def test_a_loop_without_a_limit_runs_on_the_host():
    model = counting_loop(has_limit=False)
    inputs = [np.ones(4, np.float32), np.array(9.5, np.float32), np.array(True)]
    (expected,) = OracleRepresentation(model).run(inputs)
    (interpreted,) = backend_for("INTERPRETER").prepare(model).run(inputs)
    np.testing.assert_array_equal(interpreted, expected)
    compiled = backend_for("CPU").prepare(model)
    (made,) = compiled.run(inputs)
    np.testing.assert_array_equal(made, expected)
    status, reason = not_generated(compiled.compilations[0], values_from_inputs(model.graph)) or (
        "",
        "",
    )
    assert status == "host"
    assert reason.endswith("runs on the host: is control flow that depends on data")
    compiled.close()


def test_arrays_by_position_may_leave_out_inputs_that_the_model_stores():
    """An old model lists its constants as inputs; they may be given, too."""
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Sub", ["x", "w"], ["y"])], "stored",
        [info("w", TensorProto.FLOAT, [3]), info("x", TensorProto.FLOAT, [3])],
        [info("y", TensorProto.FLOAT, [3])],
        [numpy_helper.from_array(np.float32([10, 10, 10]), "w")],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 21)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    representation = backend_for("INTERPRETER").prepare(model)
    assert representation._named([X])["x"] is X
    assert representation._named([-X, X]).keys() == {"w", "x"}
    np.testing.assert_array_equal(representation.run([X])[0], X - 10)
    with pytest.raises(InputError, match="3 inputs were given, the model takes 1"):
        representation.run([X, X, X])
