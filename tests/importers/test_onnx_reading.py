"""Files that came from others: every kind of damage has its message, nothing leaves the folder."""

import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from explorer.errors import ModelError, UnsupportedError
from explorer.importers import load
from explorer.importers.onnx import from_proto

X = np.zeros((2, 3), np.float32)


@pytest.fixture
def relu(make_model: Callable) -> onnx.ModelProto:
    """y = Relu(x + W)"""
    nodes = [helper.make_node("Add", ["x", "W"], ["s"]), helper.make_node("Relu", ["s"], ["y"])]
    return make_model(nodes, {"x": X}, {"W": np.arange(3, dtype=np.float32)}, 13)


def external(location: str, offset: int = 0, length: int | None = None) -> TensorProto:
    """A weight `W` of 3 floats whose data lies in another file."""
    tensor = TensorProto(name="W", data_type=TensorProto.FLOAT, dims=[3])
    tensor.data_location = TensorProto.EXTERNAL
    fields = {"location": location, "offset": str(offset)}
    if length is not None:
        fields["length"] = str(length)
    for key, value in fields.items():
        tensor.external_data.add(key=key, value=value)
    return tensor


def with_weight(model: onnx.ModelProto, tensor: TensorProto) -> bytes:
    del model.graph.initializer[:]
    model.graph.initializer.append(tensor)
    return model.SerializeToString()


def test_a_model_is_read_with_its_names_types_and_nodes(
    relu: onnx.ModelProto, save: Callable
) -> None:
    model = load(save(relu.SerializeToString()))
    assert (model.name, model.format, model.opset) == ("model", "onnx", "ai.onnx 13")
    assert [(v.name, v.element_type, v.shape) for v in model.inputs] == [("x", "float32", (2, 3))]
    assert [v.name for v in model.outputs] == ["y"]
    assert [(n.name, n.operator, n.text) for n in model.nodes] == [
        ("Add_0", "Add", "s = Add(x, W)"),
        ("Relu_1", "Relu", "y = Relu(s)"),
    ]
    assert model.parameters == 3


def test_weights_in_nodes_are_parameters_and_shapes_are_none(
    relu: onnx.ModelProto, save: Callable
) -> None:
    shape = numpy_helper.from_array(np.array([2, 3], np.int64))
    for name, value in [("W", relu.graph.initializer[0]), ("shape", shape)]:
        relu.graph.node.insert(0, helper.make_node("Constant", [], [name], value=value))
    del relu.graph.initializer[:]
    assert load(save(relu.SerializeToString())).parameters == 3


def test_weights_are_read_only_and_not_copied(relu: onnx.ModelProto, save: Callable) -> None:
    weight = load(save(relu.SerializeToString())).content.weights["W"]
    assert not weight.flags.writeable
    assert not weight.flags.owndata
    np.testing.assert_array_equal(weight, [0, 1, 2])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the file is empty"),
        (b"\x00\x01\x02 hello", "not an ONNX model, or cut off after 9 bytes"),
        (b"<!DOCTYPE html><html>", "this is a web page"),
        (b"version https://git-lfs.github.com/spec/v1", "Git LFS pointer"),
        (b"\x1f\x8b\x08\x00", "gzip archive"),
        (onnx.ModelProto(ir_version=8).SerializeToString(), "there is no graph in it"),
    ],
)
def test_what_is_no_model_is_refused(data: bytes, message: str, save: Callable) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        load(save(data))
    assert "model.onnx" in caught.value.file


def test_a_file_that_is_cut_off_is_refused(relu: onnx.ModelProto, save: Callable) -> None:
    data = relu.SerializeToString()
    for length in range(1, len(data)):
        with pytest.raises((ModelError, UnsupportedError)):
            load(save(data[:length]))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("net.pt", b"PK\x03\x04", "a pickle of PyTorch"),
        ("net.h5", b"\x89HDF\r\n", "keras models cannot be read yet"),
    ],
)
def test_other_formats_are_named(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ModelError, match=message):
        load(tmp_path / name)


def test_a_missing_file_and_a_folder_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no such file"):
        load(tmp_path / "net.onnx")
    with pytest.raises(ModelError, match="a folder, not a model file"):
        load(tmp_path)


def test_external_data_is_memory_mapped(
    relu: onnx.ModelProto, save: Callable, tmp_path: Path
) -> None:
    (tmp_path / "weights.bin").write_bytes(b"\0" * 4 + np.float32([1, 2, 3]).tobytes())
    model = load(save(with_weight(relu, external("weights.bin", offset=4))))
    weight = model.content.weights["W"]
    assert isinstance(weight, np.memmap)
    assert not weight.flags.writeable
    np.testing.assert_array_equal(weight, [1, 2, 3])


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("../weights.bin", "outside of the model's folder"),
        ("inner/../../weights.bin", "outside of the model's folder"),
        ("/etc/passwd", "outside of the model's folder"),
        ("C:\\weights.bin", "outside of the model's folder"),
        ("", "outside of the model's folder"),
        ("missing.bin", "'missing.bin', which is missing"),
        ("link.bin", "leads through a symbolic link"),
        ("linked/weights.bin", "leads through a symbolic link"),
        ("folder", "which is no plain file"),
    ],
)
def test_external_data_stays_in_the_models_folder(
    location: str, message: str, relu: onnx.ModelProto, save: Callable, tmp_path: Path
) -> None:
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    outside.mkdir()
    (outside / "weights.bin").write_bytes(bytes(12))
    (tmp_path / "link.bin").symlink_to(outside / "weights.bin")
    (tmp_path / "linked").symlink_to(outside)
    (tmp_path / "folder").mkdir()
    with pytest.raises(ModelError, match=message):
        load(save(with_weight(relu, external(location))))


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (external("weights.bin", offset=4), "lies at bytes 4 to 16, but the file has 12"),
        (external("weights.bin", length=8), "needs 12 bytes, but its external data declares 8"),
    ],
)
def test_external_data_must_be_there_in_full(
    tensor: TensorProto, message: str, relu: onnx.ModelProto, save: Callable, tmp_path: Path
) -> None:
    (tmp_path / "weights.bin").write_bytes(bytes(12))
    with pytest.raises(ModelError, match=message):
        load(save(with_weight(relu, tensor)))


def test_a_weight_whose_shape_is_not_that_of_its_data_is_refused_before_allocation(
    relu: onnx.ModelProto, save: Callable
) -> None:
    tensor = numpy_helper.from_array(np.zeros(3, np.float32), "W")
    tensor.dims[0] = 2**50
    with pytest.raises(ModelError, match="holds 12 bytes"):
        load(save(with_weight(relu, tensor)))
    listed = helper.make_tensor("W", TensorProto.FLOAT, [3], [1, 2, 3])
    listed.dims[0] = 2**50
    with pytest.raises(ModelError, match="but holds 3"):
        load(save(with_weight(relu, listed)))


@pytest.mark.parametrize("operator", ["ConstantOfShape", "Expand"])
def test_a_result_larger_than_memory_is_refused(
    operator: str, make_model: Callable, snapshot: Callable
) -> None:
    shape = np.array([2**20, 2**20, 2**10], np.int64)
    operands = ["SHAPE"] if operator == "ConstantOfShape" else ["x", "SHAPE"]
    inputs = {} if operator == "ConstantOfShape" else {"x": X[:1, :1]}
    node = helper.make_node(operator, operands, ["y"], name="huge")
    model = from_proto(make_model([node], inputs, {"SHAPE": shape}, 13))
    with pytest.raises(ModelError, match=r"takes 4,503,599,627,370,496 bytes") as caught:
        snapshot(model)
    assert caught.value.node == "huge"


def test_an_input_larger_than_memory_is_refused(relu: onnx.ModelProto) -> None:
    relu.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 2**60
    with pytest.raises(ModelError, match="input 'x' has shape"):
        from_proto(relu)


def test_nodes_out_of_order_are_sorted(relu: onnx.ModelProto, compare: Callable) -> None:
    add, activation = (onnx.NodeProto.FromString(n.SerializeToString()) for n in relu.graph.node)
    del relu.graph.node[:]
    relu.graph.node.extend([activation, add])
    model = from_proto(relu)
    assert [n.operator for n in model.nodes] == ["Add", "Relu"]
    assert compare(model, {"x": X}) == 0.0


def test_a_cycle_is_refused(relu: onnx.ModelProto) -> None:
    relu.graph.node[0].input[1] = "y"
    with pytest.raises(ModelError, match="needs its own result, perhaps through others"):
        from_proto(relu)


def test_a_tensor_without_a_maker_is_named(relu: onnx.ModelProto) -> None:
    relu.graph.node[1].input[0] = "nowhere"
    with pytest.raises(ModelError, match=r"no node makes 'nowhere', which Relu_1 \(Relu\) needs"):
        from_proto(relu)


def test_a_tensor_that_is_made_twice_is_named(relu: onnx.ModelProto) -> None:
    relu.graph.node[1].output[0] = "s"
    with pytest.raises(ModelError, match="tensor 's' is made twice; the second time by Relu_1"):
        from_proto(relu)


def test_an_output_without_a_maker_is_named(relu: onnx.ModelProto) -> None:
    relu.graph.output[0].name = "nowhere"
    with pytest.raises(ModelError, match="no node makes the output 'nowhere'"):
        from_proto(relu)


def test_a_newer_opset_than_known_is_refused(relu: onnx.ModelProto) -> None:
    relu.opset_import[0].version = 999
    with pytest.raises(UnsupportedError, match="the model uses opset 999"):
        from_proto(relu)


def test_inputs_without_an_element_type_are_refused(relu: onnx.ModelProto) -> None:
    relu.graph.input[0].type.tensor_type.elem_type = TensorProto.COMPLEX64
    with pytest.raises(UnsupportedError, match="input 'x' has elements of type COMPLEX64"):
        from_proto(relu)


def test_names_stay_data(make_model: Callable, snapshot: Callable) -> None:
    """Whatever a file calls its parts, the IR's names are plain and the true ones are kept."""
    hostile = ['<script>alert("x")</script>', "*/ system(); /*", "a\\\nb", "%s{}", "ä ö"]
    nodes = [helper.make_node("Relu", [a], [b], name=f"node {b}") for a, b in pairwise(hostile)]
    inputs = {hostile[0]: X}
    imported = snapshot(from_proto(make_model(nodes, inputs, {}, 13)))
    assert all(re.fullmatch(r"[A-Za-z0-9_]+", name) for name in imported.run(inputs))
    assert [o.tensor for o in imported.origins.values()] == hostile[1:]
