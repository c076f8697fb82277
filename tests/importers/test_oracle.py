"""The oracle and its inputs."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from explorer.accuracy.oracle import iterate_reference, random_inputs, reference
from explorer.errors import InputError
from explorer.importers.onnx import from_proto
from explorer.importers.onnx.file.randomize import randomize_constant_weights
from explorer.importers.onnx.file.reading import OnnxContent

X = np.float32([[-1.0, 2.0], [3.0, -4.0]])


@pytest.fixture
def chain(make_model: Callable):
    """h = x + W, y = Relu(h)"""
    nodes = [helper.make_node("Add", ["x", "W"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
    return from_proto(make_model(nodes, {"x": X}, {"W": np.float32([1, 2])}, 13))


def test_all_tensors_inputs_and_weights_can_be_asked_for(chain) -> None:
    found = reference(chain, {"x": X}, ["W", "y", "h", "x"])
    assert {name: array.tolist() for name, array in found.items()} == {
        "W": [1, 2],
        "x": X.tolist(),
        "h": [[0, 4], [4, -2]],
        "y": [[0, 4], [4, 0]],
    }
    assert list(reference(chain, {"x": X})) == ["h", "y"]


def test_tensors_may_be_computed_some_at_a_time(chain) -> None:
    found = dict(iterate_reference(chain, {"x": X}, tensors_per_run=1))
    assert {n: a.tolist() for n, a in found.items()} == {
        n: a.tolist() for n, a in reference(chain, {"x": X}).items()
    }


def test_a_newer_file_format_is_read_as_an_older_one(chain) -> None:
    """onnxruntime refuses files that are newer than itself, whatever stands in them."""
    content = chain.content
    assert isinstance(content, OnnxContent)
    proto = onnx.ModelProto()
    proto.CopyFrom(content.proto)
    proto.ir_version = 99
    newer = replace(chain, content=replace(content, proto=proto))
    assert reference(newer, {"x": X}, ["y"])["y"].tolist() == [[0, 4], [4, 0]]
    assert proto.ir_version == 99


def test_an_unknown_tensor_is_named(chain) -> None:
    with pytest.raises(InputError, match="the model has no tensor 'z'"):
        reference(chain, {"x": X}, ["z"])


def model_with_inputs(*values: onnx.ValueInfoProto):
    nodes = [helper.make_node("Identity", [v.name], [f"{v.name}_out"]) for v in values]
    outputs = [onnx.ValueInfoProto(name=n.output[0]) for n in nodes]
    graph = helper.make_graph(nodes, "graph", list(values), outputs)
    return from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]))


def test_random_inputs_are_seeded_and_sized() -> None:
    model = model_with_inputs(
        helper.make_tensor_value_info("pixels", TensorProto.FLOAT, ["n", 3, "height"]),
        helper.make_tensor_value_info("attention_mask", TensorProto.INT64, ["n", 50]),
        helper.make_tensor_value_info("ids", TensorProto.INT32, ["n", 50]),
    )
    inputs = random_inputs(model, 3, {"height": 7})
    again = random_inputs(model, 3, {"height": 7})
    assert inputs["pixels"].shape == (1, 3, 7)
    assert set(np.unique(inputs["attention_mask"])) == {0, 1}
    assert inputs["ids"].dtype == np.int32 and inputs["ids"].max() < 8
    assert all(np.array_equal(inputs[name], again[name]) for name in inputs)
    assert not np.array_equal(inputs["pixels"], random_inputs(model, 4, {"height": 7})["pixels"])


def test_a_symbolic_dimension_that_is_no_batch_needs_a_size() -> None:
    model = model_with_inputs(
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "length"])
    )
    with pytest.raises(InputError, match="--dim length=16"):
        random_inputs(model, 0)
    assert random_inputs(model, 0, {"length": 4})["x"].shape == (1, 4)


def test_indices_stay_below_the_size_of_their_table(make_model: Callable) -> None:
    nodes = [
        helper.make_node("Cast", ["ids"], ["wide"], to=TensorProto.INT64),
        helper.make_node("Gather", ["TABLE", "wide"], ["y"]),
    ]
    inputs = {"ids": np.zeros(200, np.int32)}
    model = from_proto(make_model(nodes, inputs, {"TABLE": np.zeros((3, 2), np.float32)}, 13))
    assert random_inputs(model, 0)["ids"].max() == 2


def test_constant_weights_become_random_ones_scaled_by_fan_in() -> None:
    shapes = {"W_SHAPE": [64, 32, 3, 3], "V_SHAPE": [64], "OTHER": [2]}
    nodes = [
        helper.make_node("ConstantOfShape", ["W_SHAPE"], ["W"]),
        helper.make_node("ConstantOfShape", ["V_SHAPE"], ["V"]),
        helper.make_node("Conv", ["x", "W"], ["c"]),
        helper.make_node("BatchNormalization", ["c", "V", "V", "V", "V"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "light",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 32, 8, 8])],
        [onnx.ValueInfoProto(name="y")],
        [numpy_helper.from_array(np.array(s, np.int64), n) for n, s in shapes.items()],
    )
    light = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 9)])
    proto = randomize_constant_weights(light, 0)
    weights = {t.name: numpy_helper.to_array(t) for t in proto.graph.initializer}
    assert [n.op_type for n in proto.graph.node] == ["Conv", "BatchNormalization"]
    assert weights["W"].shape == (64, 32, 3, 3)
    assert weights["W"].std() == pytest.approx(np.sqrt(2 / (32 * 9)), rel=0.02)
    assert weights["V"].min() > 0
    same = randomize_constant_weights(light, 0)
    assert proto.SerializeToString() == same.SerializeToString()
    assert len(light.graph.node) == 4


@pytest.mark.parametrize("name", ["INT4", "UINT4", "FLOAT8E4M3FN", "FLOAT8E5M2", "BFLOAT16"])
def test_tensors_that_onnxruntime_does_not_give_to_numpy_are_read_widened(
    name: str, make_model: Callable
) -> None:
    kind = onnx.TensorProto.DataType.Value(name)
    nodes = [
        helper.make_node("Cast", ["x"], ["narrow"], to=kind),
        helper.make_node("Cast", ["narrow"], ["y"], to=onnx.TensorProto.FLOAT),
    ]
    x = np.array([0, 1, 2, 3], np.float32)
    model = make_model(nodes, {"x": x}, {}, 21)
    model.ir_version = 10
    found = reference(from_proto(model), {"x": x})
    assert found["narrow"].dtype == onnx.helper.tensor_dtype_to_np_dtype(kind)
    np.testing.assert_array_equal(found["narrow"].astype(np.float32), x)
    np.testing.assert_array_equal(found["y"], x)


@pytest.mark.parametrize("name", ["BFLOAT16", "FLOAT8E5M2", "INT4"])
def test_random_inputs_of_narrow_types(name: str) -> None:
    kind = onnx.TensorProto.DataType.Value(name)
    graph = helper.make_graph(
        [helper.make_node("Cast", ["x"], ["y"], to=onnx.TensorProto.FLOAT)],
        "one",
        [helper.make_tensor_value_info("x", kind, [64])],
        [onnx.ValueInfoProto(name="y")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    x = random_inputs(from_proto(model), 0)["x"]
    assert x.dtype == onnx.helper.tensor_dtype_to_np_dtype(kind)
    if name != "INT4":
        assert (x.astype(np.float32) < 0).any()
