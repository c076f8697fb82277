"""A name that is no text is refused, wherever it stands."""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx import TensorProto, helper

from explorer.errors import ModelError
from explorer.importers import load, to_top


@pytest.mark.parametrize("name", ["input_x", "output_y", "a_node", "Relu", "size_n"])
def test_a_name_that_is_not_utf8_is_refused(name: str, tmp_path: Path):
    graph = helper.make_graph(
        [helper.make_node("Relu", ["input_x"], ["output_y"], name="a_node")],
        "g",
        [helper.make_tensor_value_info("input_x", TensorProto.FLOAT, ("size_n",))],
        [helper.make_tensor_value_info("output_y", TensorProto.FLOAT, ("size_n",))],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    broken = name.encode()[:-1] + b"\xff"
    path = tmp_path / "net.onnx"
    path.write_bytes(model.SerializeToString().replace(name.encode(), broken))
    with pytest.raises(ModelError, match="a name is not UTF-8"):
        load(path)


@pytest.mark.parametrize("version", [-1, 2**40])
def test_an_opset_that_is_no_version_is_refused(version: int, tmp_path: Path):
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"], domain="com.example")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (2,))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (2,))],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.example", version)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    path = tmp_path / "net.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match=r"is no version of the opset 'com\.example'"):
        load(path)


@pytest.mark.parametrize("kind", ["inputs", "outputs"])
def test_two_of_one_name_are_refused(kind: str, tmp_path: Path):
    value = helper.make_tensor_value_info
    x, y = value("x", TensorProto.FLOAT, (2,)), value("y", TensorProto.FLOAT, (2,))
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "g",
        [x, x] if kind == "inputs" else [x],
        [y, y] if kind == "outputs" else [y],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    path = tmp_path / "net.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match=f"two {kind} are called"):
        load(path)


def test_an_attribute_without_a_type_is_refused(tmp_path: Path):
    node = helper.make_node("LeakyRelu", ["x"], ["y"], alpha=0.5)
    node.attribute[0].ClearField("type")
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (2,))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (2,))],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    path = tmp_path / "net.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match="attribute 'alpha' has no type"):
        to_top(load(path))
