"""What no array, no archive and no folder of a model can hold is refused when the file is read."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from explorer.errors import ModelError
from explorer.importers import load, to_top
from explorer.importers.building.limits import MAX_DIMENSIONS
from explorer.importers.onnx import from_proto
from explorer.importers.onnx.file.names import MAX_NAME_CHARACTERS


def model_of(
    nodes: list[onnx.NodeProto], shape: list[int], weights: list[TensorProto] | None = None
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, None)],
        weights or [],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def relu(result: str = "y") -> onnx.NodeProto:
    return helper.make_node("Relu", ["x"], [result], name="relu")


# -- shapes ----------------------------------------------------------------------------------------


def test_an_input_of_more_dimensions_than_can_be_compiled():
    to_top(from_proto(model_of([relu()], [1] * MAX_DIMENSIONS)))
    with pytest.raises(ModelError, match="input 'x' has 33 dimensions; at most 32"):
        from_proto(model_of([relu()], [1] * (MAX_DIMENSIONS + 1)))


def test_a_weight_of_more_dimensions_than_can_be_compiled():
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[1] * 70, raw_data=bytes(4))
    node = helper.make_node("Add", ["x", "w"], ["y"])
    with pytest.raises(ModelError, match="tensor 'w' has 70 dimensions"):
        from_proto(model_of([node], [1], [weight]))


def test_a_result_of_more_dimensions_than_can_be_compiled():
    axes = numpy_helper.from_array(np.arange(40), "axes")
    node = helper.make_node("Unsqueeze", ["x", "axes"], ["y"], name="wide")
    with pytest.raises(ModelError, match="the result of Unsqueeze has 41 dimensions") as caught:
        to_top(from_proto(model_of([node], [4], [axes])))
    assert caught.value.node == "wide"


def test_an_empty_shape_that_no_array_can_have():
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[0, 2**62], raw_data=b"")
    node = helper.make_node("Add", ["x", "w"], ["y"])
    with pytest.raises(ModelError, match="tensor 'w' has shape 0x4611686018427387904"):
        from_proto(model_of([node], [1], [weight]))
    with pytest.raises(ModelError, match="input 'x' has shape 0x4611686018427387904"):
        from_proto(model_of([relu()], [0, 2**62]))


def test_an_empty_result_that_no_array_can_have():
    shape = numpy_helper.from_array(np.array([0, 2**62]), "shape")
    node = helper.make_node("ConstantOfShape", ["shape"], ["y"], name="wide")
    with pytest.raises(ModelError) as caught:
        to_top(from_proto(model_of([node], [1], [shape])))
    assert caught.value.node == "wide"


# -- names and attributes --------------------------------------------------------------------------


@pytest.mark.parametrize("excess", [0, 1])
def test_a_name_that_is_longer_than_any_archive_takes(tmp_path, excess):
    path = tmp_path / "net.onnx"
    model = model_of([relu("y" * (MAX_NAME_CHARACTERS + excess))], [1])
    path.write_bytes(model.SerializeToString())
    if not excess:
        assert len(load(path).outputs[0].name) == MAX_NAME_CHARACTERS
        return
    with pytest.raises(ModelError, match="a name has 5,001 characters, at most 5,000"):
        load(path)


def test_an_attribute_that_refers_to_one_of_a_function_outside_of_any():
    node = helper.make_node("Softmax", ["x"], ["y"], name="soft")
    node.attribute.add(name="axis", ref_attr_name="zz", type=onnx.AttributeProto.INT)
    with pytest.raises(ModelError, match="'axis' refers to 'zz' of a function") as caught:
        to_top(from_proto(model_of([node], [1])))
    assert caught.value.node == "soft"


def test_more_functions_than_onnx_writes_out():
    own = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
    nodes = [helper.make_node("F0", ["x"], ["y"], domain="f")]
    graph = model_of(nodes, [2]).graph
    functions = [
        helper.make_function(
            "f", f"F{i}", ["a"], ["b"], [helper.make_node("Relu", ["a"], ["b"])], own
        )
        for i in range(10_001)
    ]
    model = helper.make_model(graph, functions=functions, opset_imports=own, ir_version=9)
    with pytest.raises(ModelError, match="functions"):
        from_proto(model)


def test_what_a_converter_stumbles_over_names_the_node(monkeypatch):
    from explorer.importers.onnx.convert import _Import

    def stumble(*arguments: object) -> None:
        raise AttributeError("'NoneType' object has no attribute 'type'")

    monkeypatch.setattr(_Import, "_convert", stumble)
    with pytest.raises(ModelError, match="Relu does not fit its operands: its parts") as caught:
        to_top(from_proto(model_of([relu()], [1])))
    assert caught.value.node == "relu"


# -- external data ---------------------------------------------------------------------------------


def with_external_weight(folder: Path, location: str) -> Path:
    """A model that adds 16 numbers, which lie in another file."""
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[16])
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    path = folder / "net.onnx"
    node = helper.make_node("Add", ["x", "w"], ["y"])
    path.write_bytes(model_of([node], [16], [tensor]).SerializeToString())
    return path


def test_external_data_below_the_models_folder_is_mapped(tmp_path):
    (tmp_path / "a" / "a").mkdir(parents=True)
    numbers = np.arange(16, dtype=np.float32)
    (tmp_path / "a" / "a" / "a").write_bytes(numbers.tobytes())

    weight = load(with_external_weight(tmp_path, "a/a/a")).content.weights["w"]  # pyright: ignore

    assert isinstance(weight, np.memmap)
    np.testing.assert_array_equal(weight, numbers)


def test_external_data_under_another_name_too(tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(bytes(64))
    (tmp_path / "models").mkdir()
    os.link(secret, tmp_path / "models" / "weights.bin")
    with pytest.raises(ModelError, match="has another name, too"):
        load(with_external_weight(tmp_path / "models", "weights.bin"))


@pytest.mark.parametrize("place", ["weights.bin", "link/weights.bin"])
def test_external_data_behind_a_link_on_the_way(tmp_path, place):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "weights.bin").write_bytes(bytes(64))
    folder = tmp_path / "models"
    folder.mkdir()
    os.symlink(outside, folder / "link")
    os.symlink(outside / "weights.bin", folder / "weights.bin")
    with pytest.raises(ModelError, match="symbolic link"):
        load(with_external_weight(folder, place))


def test_external_data_in_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "weights.bin")
    with pytest.raises(ModelError, match="no plain file"):
        load(with_external_weight(tmp_path, "weights.bin"))


def test_external_data_that_is_replaced_while_it_is_opened(tmp_path, monkeypatch):
    """What is mapped is the very file that was looked at, whatever its name stands for by then."""
    place, other = tmp_path / "weights.bin", tmp_path / "other.bin"
    place.write_bytes(np.ones(16, np.float32).tobytes())
    other.write_bytes(np.zeros(16, np.float32).tobytes())
    path = with_external_weight(tmp_path, "weights.bin")
    look = os.fstat

    def look_and_replace(descriptor: int) -> os.stat_result:
        if other.exists():
            other.replace(place)
        return look(descriptor)

    monkeypatch.setattr(os, "fstat", look_and_replace)
    weight = load(path).content.weights["w"]  # pyright: ignore

    assert not other.exists()
    np.testing.assert_array_equal(weight, np.ones(16, np.float32))
