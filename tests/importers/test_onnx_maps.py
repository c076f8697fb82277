"""Classifiers as scikit-learn's are exported: strings as labels, maps from label to number."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import explorer
import explorer.onnx_backend as backend
from explorer.cli import main
from explorer.errors import ModelError
from explorer.importers.onnx import from_proto, to_top

ML = "ai.onnx.ml"
LABELS = {"strings": ["pig", "cat", "dog"], "numbers": [7, 3, 5]}
X = np.random.default_rng(3).standard_normal((2, 4)).astype(np.float32)


def classifier(labels, columns=3) -> onnx.ModelProto:
    """A label for each row, and the probabilities of all labels."""
    is_text = isinstance(labels[0], str)
    suffix, kind = ("strings", 8) if is_text else ("int64s", TensorProto.INT64)
    names = {f"classlabels_{suffix}": labels}
    keys = {"keys_int64s": [0, 1, 2], f"values_{suffix}": labels}
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["scores"], "product"),
        helper.make_node("Softmax", ["scores"], ["p"], "softmax"),
        helper.make_node("ArgMax", ["p"], ["number"], "argmax", axis=1, keepdims=0),
        helper.make_node("LabelEncoder", ["number"], ["label"], "label", domain=ML, **keys),
        helper.make_node("ZipMap", ["p"], ["maps"], "maps", domain=ML, **names),
    ]
    maps = onnx.ValueInfoProto(name="maps")
    map_type = maps.type.sequence_type.elem_type.map_type
    map_type.key_type = kind
    map_type.value_type.tensor_type.elem_type = TensorProto.FLOAT
    weight = np.random.default_rng(1).standard_normal((4, columns)).astype(np.float32)
    graph = helper.make_graph(
        nodes,
        "classifier",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])],
        [helper.make_tensor_value_info("label", kind, ["n"]), maps],
        [numpy_helper.from_array(weight, "w")],
    )
    opsets = [helper.make_opsetid("", 15), helper.make_opsetid(ML, 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


@pytest.fixture(scope="module", params=LABELS.values(), ids=LABELS)
def case(request):
    """The model, and what onnxruntime makes of two rows."""
    proto = classifier(request.param)
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    return proto, request.param, session.run(None, {"x": X})


def assert_maps(found, expected):
    """The same labels; numbers to the last places of a softmax over three."""
    assert [set(row) for row in found] == [set(row) for row in expected]
    for row, own in zip(found, expected, strict=True):
        assert all(abs(row[label] - number) <= 1e-6 for label, number in own.items())


def test_the_compiled_program_gives_numbers_and_labels(case):
    proto, labels, (label, maps) = case
    model = from_proto(proto)
    compiled = explorer.compile(model, dimensions={"n": 2})
    outputs = compiled.run({"x": X})
    suffix = ".codes" if isinstance(labels[0], str) else ""
    assert list(outputs) == [f"label{suffix}", "maps", f"maps.labels{suffix}"]
    assert outputs["maps"].shape == (2, 3)
    values = explorer.host_values(model, outputs)
    assert values["label"].tolist() == label.tolist()
    assert list(values["maps"][0]) == labels
    assert_maps(values["maps"], maps)
    assert compiled.accuracy({"x": X}).passed


def test_the_backend_gives_maps(case):
    proto, _, (label, maps) = case
    found = backend.prepare(proto, "INTERPRETER").run([X])
    assert found[0].tolist() == label.tolist()
    assert_maps(found[1], maps)


def test_a_file_of_outputs_holds_the_labels_as_they_are(case, tmp_path, capsys):
    proto, labels, (label, _) = case
    onnx.save(proto, tmp_path / "model.onnx")
    np.savez(tmp_path / "in.npz", x=X)
    files = ["--input", str(tmp_path / "in.npz"), "--output", str(tmp_path / "out.npz")]
    assert main(["run", str(tmp_path / "model.onnx"), *files]) == 0
    kind = "strings" if isinstance(labels[0], str) else "int64"
    assert f"maps.labels: {kind} of shape (3,)" in capsys.readouterr().out
    with np.load(tmp_path / "out.npz", allow_pickle=False) as outputs:
        assert outputs["label"].tolist() == label.tolist()
        assert outputs["maps.labels"].tolist() == labels
        assert outputs["maps"].shape == (2, 3)


def test_labels_that_do_not_fit_the_columns_are_refused():
    with pytest.raises(ModelError, match=r"3 labels for the columns of \('n', 5\)"):
        to_top(from_proto(classifier(LABELS["numbers"], columns=5)))
