"""Dimensions without a name, and where their sizes come from; graphs without nodes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import explorer as ex
from explorer.errors import InputError, ModelError
from explorer.importers.onnx import from_proto
from explorer.runtime.cache import ProgramCache


def info(name: str, shape: list | None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def model_of(nodes: list, inputs: list, outputs: list, weights: list = ()) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(weights))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def added(unnamed: int | None) -> onnx.ModelProto:
    """y = x + x over (2, unnamed, 3)."""
    node = helper.make_node("Add", ["x", "x"], ["y"])
    return model_of([node], [info("x", [2, unnamed, 3])], [info("y", [2, unnamed, 3])])


@pytest.mark.parametrize("unnamed", [-1, None])
def test_a_dimension_of_minus_one_is_as_one_without_a_name(unnamed: int | None):
    model = from_proto(added(unnamed))

    assert model.inputs[0].shape == (2, "x.1", 3)
    compilation = ex.compile(model, dimensions={"x.1": 4})
    assert compilation.accuracy().passed
    compilation.close()


def test_another_negative_size_stays_damage():
    with pytest.raises(ModelError, match="input 'x' has a negative size"):
        from_proto(added(-2))


def test_sizes_come_from_the_inputs_that_are_given(tmp_path: Path):
    onnx.save(added(-1), tmp_path / "net.onnx")
    x = np.ones((2, 5, 3), np.float32)
    with pytest.raises(InputError, match=r"axis 1 of input 'x' has no size of its own"):
        ex.compile(tmp_path / "net.onnx")

    compilation = ex.compile(tmp_path / "net.onnx", inputs={"x": x})
    assert compilation.settings.dimensions == {"x.1": 5}
    np.testing.assert_array_equal(compilation.run({"x": x})["y"], 2 * x)
    compilation.close()
    with ex.Session(tmp_path / "net.onnx", cache=ProgramCache(None)) as session:
        np.testing.assert_array_equal(session.run({"x": x})["y"], 2 * x)


def test_inputs_that_do_not_fit_are_named():
    model = from_proto(
        model_of(
            [helper.make_node("Add", ["a", "b"], ["y"])],
            [info("a", ["n", 3]), info("b", ["n", 3])],
            [info("y", ["n", 3])],
        )
    )
    a = np.ones((4, 3), np.float32)
    for inputs, message in (
        ({"c": a}, "the model has no input 'c'"),
        ({"a": a[0]}, "input 'a': expected 2 axes, got 1"),
        ({"a": a[:, :2]}, "axis 1 has size 2, expected 3 as the model says"),
        ({"a": a, "b": a[:2]}, "axis 0 has size 2, expected 4 as 'n' has elsewhere"),
    ):
        with pytest.raises(InputError, match=message):
            ex.compile(model, inputs=inputs)
    with pytest.raises(InputError, match="dimension 'n' is 4 in the inputs, and 2 was asked for"):
        ex.compile(model, inputs={"a": a}, dimensions={"n": 2})
    compilation = ex.compile(model, inputs={"a": a}, dimensions={"n": (1, 8)})
    assert compilation.settings.open_ranges
    compilation.close()


def test_what_a_constraint_fixes_need_not_be_given():
    weight = numpy_helper.from_array(np.ones((7, 2), np.float32), "w")
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    model = from_proto(model_of([node], [info("x", [3, -1])], [info("y", [3, 2])], [weight]))
    compilation = ex.compile(model)

    assert compilation.settings.dimensions == {"x.1": 7}
    compilation.close()


def test_a_graph_without_nodes_gives_its_inputs_and_weights():
    weight = numpy_helper.from_array(np.arange(2, dtype=np.float32), "w")
    model = from_proto(
        model_of([], [info("x", [2, 3])], [info("x", [2, 3]), info("w", [2])], [weight])
    )
    compilation = ex.compile(model)
    x = np.ones((2, 3), np.float32)
    found = compilation.run({"x": x})

    np.testing.assert_array_equal(found["x"], x)
    np.testing.assert_array_equal(found["w"], [0, 1])
    assert compilation.accuracy({"x": x}).passed
    compilation.close()
    with pytest.raises(ModelError, match="there is no graph in it"):
        from_proto(model_of([], [info("x", [2, 3])], []))
