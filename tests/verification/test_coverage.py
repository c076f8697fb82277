"""What counts as running in generated code, read off compiled programs."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from explorer.ir.structure import value_name
from explorer.onnx_backend import backend_for
from verification.conformance.coverage import not_generated, values_from_inputs


def model_of(nodes, inputs, outputs, initializers=()) -> onnx.ModelProto:
    """A model of float tensors; inputs and outputs are (name, shape) or value infos."""

    def info(value):
        if isinstance(value, onnx.ValueInfoProto):
            return value
        return helper.make_tensor_value_info(value[0], TensorProto.FLOAT, value[1])

    graph = helper.make_graph(
        nodes, "g", [info(i) for i in inputs], [info(o) for o in outputs], list(initializers)
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def compiled(model: onnx.ModelProto, *inputs: np.ndarray):
    """(outputs, what is not generated) of a model on the processor, in this process."""
    representation = backend_for("CPU", lambda c: c.open(isolated=False)).prepare(model)
    outputs = representation.run(list(inputs))
    (compilation,) = representation.compilations
    problem = not_generated(compilation, values_from_inputs(model.graph))
    representation.close()
    return outputs, problem


X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2


def test_an_operation_with_a_kernel_counts():
    model = model_of([helper.make_node("Relu", ["x"], ["y"])], [("x", (2, 3))], [("y", (2, 3))])
    (y,), problem = compiled(model, X)
    assert problem is None
    np.testing.assert_array_equal(y, np.maximum(X, 0))


@pytest.mark.parametrize("operator", ["Identity", "Flatten"])
def test_an_output_that_is_an_input_is_written_by_a_kernel(operator):
    model = model_of([helper.make_node(operator, ["x"], ["y"])], [("x", (2, 3))], [("y", (2, 3))])
    (y,), problem = compiled(model, X)
    assert problem is None
    np.testing.assert_array_equal(y, X)


def test_two_results_of_one_operation_both_come_from_its_kernel():
    k = helper.make_tensor("k", TensorProto.INT64, [1], [2])
    indices = helper.make_tensor_value_info("i", TensorProto.INT64, (2, 2))
    node = helper.make_node("TopK", ["x", "k"], ["y", "i"])
    model = model_of([node], [("x", (2, 3))], [("y", (2, 2)), indices], [k])
    (y, i), problem = compiled(model, X)
    assert problem is None
    np.testing.assert_array_equal(y, [[0, -1], [3, 2]])
    np.testing.assert_array_equal(i, [[2, 1], [2, 1]])


def test_one_value_as_two_outputs():
    nodes = [
        helper.make_node("Abs", ["x"], ["y"]),
        helper.make_node("Identity", ["y"], ["z"]),
    ]
    model = model_of(nodes, [("x", (2, 3))], [("y", (2, 3)), ("z", (2, 3))])
    (y, z), problem = compiled(model, X)
    assert problem is None
    np.testing.assert_array_equal(y, np.abs(X))
    np.testing.assert_array_equal(z, np.abs(X))


def test_a_constant_of_the_model_as_output_counts():
    constant = helper.make_tensor("c", TensorProto.FLOAT, [2], [1.0, 2.0])
    nodes = [helper.make_node("Constant", [], ["y"], value=constant)]
    (y,), problem = compiled(model_of(nodes, [], [("y", (2,))]))
    assert problem is None
    np.testing.assert_array_equal(y, [1, 2])


def test_an_input_that_was_compiled_in_does_not_count_where_an_output_lost_it():
    shape = helper.make_tensor_value_info("shape", TensorProto.INT64, (2,))
    numbers = helper.make_tensor("c", TensorProto.FLOAT, [6], range(6))
    nodes = [helper.make_node("Reshape", ["c", "shape"], ["y"])]
    model = model_of(nodes, [shape], [("y", (None, None))], [numbers])
    (y,), problem = compiled(model, np.array([2, 3]))
    np.testing.assert_array_equal(y, np.arange(6).reshape(2, 3))
    assert problem == ("constant", "output y is a constant: shape was compiled in")


def test_an_input_that_decides_the_size_only_may_be_compiled_in():
    shape = helper.make_tensor_value_info("shape", TensorProto.INT64, (2,))
    nodes = [helper.make_node("ConstantOfShape", ["shape"], ["y"])]
    (y,), problem = compiled(model_of(nodes, [shape], [("y", (None, None))]), np.array([2, 3]))
    assert problem is None
    np.testing.assert_array_equal(y, np.zeros((2, 3)))


def test_a_shape_is_no_dependence_on_what_an_input_holds():
    graph = model_of(
        [
            helper.make_node("Shape", ["x"], ["s"]),
            helper.make_node("ConstantOfShape", ["s"], ["y"]),
            helper.make_node("Relu", ["x"], ["z"]),
        ],
        [("x", (2, 3))],
        [("y", (2, 3)), ("z", (2, 3))],
    ).graph
    assert values_from_inputs(graph) == {"x", "z"}


def test_what_a_nested_graph_reads_is_a_dependence():
    inner = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["n"])],
        "inner",
        [],
        [helper.make_empty_tensor_value_info("n")],
    )
    flag = helper.make_tensor("flag", TensorProto.BOOL, [], [True])
    node = helper.make_node("If", ["flag"], ["y"], then_branch=inner, else_branch=inner)
    graph = model_of([node], [("x", (2,))], [("y", (2,))], [flag]).graph
    assert "y" in values_from_inputs(graph)


def test_every_result_of_an_operation_can_be_read_below_top():
    k = helper.make_tensor("k", TensorProto.INT64, [1], [2])
    indices = helper.make_tensor_value_info("i", TensorProto.INT64, (2, 2))
    node = helper.make_node("TopK", ["x", "k"], ["y", "i"], name="best")
    model = model_of([node], [("x", (2, 3))], [("y", (2, 2)), indices], [k])
    representation = backend_for("CPU", lambda c: c.open(isolated=False)).prepare(model)
    representation.run([X])
    (compilation,) = representation.compilations
    above, below = (compilation[name].after for name in ("import", "plan-memory"))
    (launch,) = [op for op in below.operations.values() if op.name == "kernel.launch"]
    first, second = (value_name(result) for result in launch.results)
    expected, actual = above.run({"x": X}), below.run({"x": X})
    np.testing.assert_array_equal(actual[first], expected[first])
    np.testing.assert_array_equal(actual[second], expected[second])
    places = [launch.get("offset"), *launch.get("other_offsets")]
    assert len(set(places)) == 2  # each result has memory of its own
    representation.close()


def test_an_output_without_channels_is_copied_too():
    model = model_of(
        [helper.make_node("Identity", ["x"], ["y"])], [("x", (2, 0, 3))], [("y", (2, 0, 3))]
    )
    (y,), problem = compiled(model, np.zeros((2, 0, 3), np.float32))
    assert problem is None
    assert y.shape == (2, 0, 3)
