"""Edits of ONNX models: what they change, what is refused, and that the rest computes the same."""

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper

import explorer
from explorer.cli import main
from explorer.editing.bodies import place_of_node, place_of_tensor
from explorer.editing.edits import (
    Cut,
    Delete,
    Edit,
    Outputs,
    Rename,
    SetAttribute,
    SetValue,
    edit_text,
    parse_edit,
    parse_edits,
)
from explorer.editing.graphs import redirect, rename_tensor
from explorer.editing.model import edit_model, edited_proto
from explorer.errors import InputError
from explorer.importers import SourceModel
from explorer.importers.onnx.file.reading import from_proto
from explorer.importers.samples import sample


def model(extra: list | None = None, outputs: tuple[str, ...] = ("y",)) -> SourceModel:
    """x -> relu -> r -> (mul w) -> m -> identity -> y, and a second branch s = softmax(r)."""
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], "relu"),
        helper.make_node("Mul", ["r", "w"], ["m"], "scale"),
        helper.make_node("Dropout", ["m"], ["d"], "drop"),
        helper.make_node("Softmax", ["d"], ["y"], "soft", axis=-1),
        helper.make_node("ReduceSum", ["r"], ["s"], "sum", keepdims=1),
        *(extra or []),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(np.array([1, 2, 3], np.float32), "w")],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    return from_proto(proto, "little")


X = np.array([[-1, 2, 3]], np.float32)


def run(found: SourceModel, **inputs: np.ndarray) -> dict[str, np.ndarray]:
    return explorer.interpret(found, inputs)


def names(found: SourceModel) -> tuple[list[str], list[str], list[str]]:
    return (
        [value.name for value in found.inputs],
        [value.name for value in found.outputs],
        [node.name for node in found.nodes],
    )


# -- lines -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "edit"),
    [
        ("cut a:b", Cut(("a",), ("b",))),
        ('cut a, "b: c" : "d, e", f, f', Cut(("a", "b: c"), ("d, e", "f"))),
        ("outputs y", Outputs(("y",))),
        ('rename /conv/Conv.1 = "a = b"', Rename("/conv/Conv.1", "a = b")),
        ("attribute /a.b/Conv.strides = [1, 2]", SetAttribute("/a.b/Conv", "strides", [1, 2])),
        ("attribute a.mode=null", SetAttribute("a", "mode", None)),
        ("value w = [[1, 2.5]]", SetValue("w", [[1, 2.5]])),
        (' delete  "a \\" b" ', Delete('a " b')),
    ],
)
def test_an_edit_is_a_line_and_back(text: str, edit: Edit):
    assert parse_edit(text) == edit
    assert parse_edit(edit_text(edit)) == edit


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "there is no edit ''"),
        ("remove a", "there is no edit 'remove'"),
        ("cut a", "expected cut INPUT"),
        ("cut : b", "expected a name"),
        ("cut a b : c", "expected names, separated by commas"),
        ("rename a", "expected rename NAME ="),
        ("rename a = b, c", "expected one name"),
        ("attribute strides = 1", "expected attribute NODE.ATTRIBUTE"),
        ("value w = NaN", "NaN is no number of JSON"),
        ("value w = [1", "expected JSON"),
        ("value w = " + "[" * 90_000, "expected JSON"),
        ('delete "a', "expected names"),
        ("value w = " + "1" * 100_000, "more than 100,000 characters"),
    ],
)
def test_what_is_no_edit_is_refused(text: str, words: str):
    with pytest.raises(InputError, match=words):
        parse_edit(text)
    with pytest.raises(InputError, match="101 edits"):
        parse_edits(["delete a"] * 101)


# -- edits -----------------------------------------------------------------------------------------


def test_a_cut_computes_what_it_computed_in_the_whole():
    whole = model()
    part = edit_model(whole, ["cut m : y"])
    assert names(part) == (["m"], ["y"], ["drop", "soft"])
    assert part.inputs[0].shape == ("batch", 3)
    expected = run(whole, x=X)["y"]
    m = np.maximum(X, 0) * np.array([1, 2, 3], np.float32)
    np.testing.assert_array_equal(run(part, m=m)["y"], expected)


def test_a_cut_keeps_the_inputs_and_weights_that_it_still_needs():
    part = edit_model(model(), ["cut r : d, s"])
    assert names(part) == (["r"], ["d", "s"], ["scale", "drop", "sum"])
    assert set(part.constants) == {"w"}


def test_a_node_stands_for_what_it_makes():
    assert names(edit_model(model(), ["cut scale : drop"])) == (["m"], ["d"], ["drop"])
    assert names(edit_model(model(), ["outputs sum"]))[1] == ["s"]


def test_other_outputs_take_along_only_what_they_need():
    found = edit_model(model(), ["outputs s"])
    assert names(found) == (["x"], ["s"], ["relu", "sum"])
    assert run(found, x=X)["s"].item() == 5


def test_a_deleted_node_is_read_through():
    found = edit_model(model(), ["delete drop"])
    assert names(found)[2] == ["relu", "scale", "soft", "sum"][:3]
    np.testing.assert_array_equal(run(found, x=X)["y"], run(model(), x=X)["y"])


def test_an_output_keeps_its_name_when_its_node_is_deleted():
    found = edit_model(model(), ["delete soft"])
    assert names(found)[1] == ["y"]
    np.testing.assert_array_equal(run(found, x=X)["y"], np.maximum(X, 0) * [1, 2, 3])


def test_a_name_is_changed_everywhere_bodies_included():
    body = helper.make_graph(
        [helper.make_node("Add", ["r", "r"], ["then"], "inner")],
        "body",
        [],
        [helper.make_tensor_value_info("then", TensorProto.FLOAT, None)],
    )
    other = helper.make_graph(
        [helper.make_node("Identity", ["r"], ["else"], "same")],
        "body",
        [],
        [helper.make_tensor_value_info("else", TensorProto.FLOAT, None)],
    )
    condition = helper.make_node(
        "Constant", [], ["c"], "c", value=numpy_helper.from_array(np.array(True), "t")
    )
    branch = helper.make_node("If", ["c"], ["z"], "if", then_branch=body, else_branch=other)
    whole = model([condition, branch], ("y", "z"))
    found = edit_model(whole, ["rename r = rectified", "rename if = choice"])
    text = onnx.printer.to_text(edited_proto(whole, ["rename r = rectified"]))
    assert "(r)" not in text
    assert "(r," not in text
    assert "choice" in names(found)[2]
    np.testing.assert_array_equal(run(found, x=X)["z"], run(whole, x=X)["z"])
    with pytest.raises(InputError, match="the name 'then' is taken"):
        edit_model(whole, ["rename r = then"])


def looped() -> SourceModel:
    """y = relu(x) doubled and increased by k three times; both branches of z have a node `same`."""
    turn = helper.make_graph(
        [
            helper.make_node("Constant", [], ["k"], "step",
                             value=numpy_helper.from_array(np.array([1], np.float32), "k")),
            helper.make_node("Relu", ["state"], ["up"], "clip"),
            helper.make_node("Add", ["up", "up"], ["twice"], "double"),
            helper.make_node("Add", ["twice", "k"], ["next"], "more"),
            helper.make_node("Identity", ["on"], ["on_next"], "go"),
        ],
        "turn",
        [helper.make_tensor_value_info("i", TensorProto.INT64, []),
         helper.make_tensor_value_info("on", TensorProto.BOOL, []),
         helper.make_tensor_value_info("state", TensorProto.FLOAT, [2])],
        [helper.make_tensor_value_info("on_next", TensorProto.BOOL, []),
         helper.make_tensor_value_info("next", TensorProto.FLOAT, [2])],
    )  # fmt: skip

    def branch(name: str, sign: str) -> onnx.GraphProto:
        made = helper.make_node(sign, ["y"], [name], "same")
        return helper.make_graph(
            [made], name, [], [helper.make_tensor_value_info(name, TensorProto.FLOAT, None)]
        )

    graph = helper.make_graph(
        [
            helper.make_node("Loop", ["n", "yes", "x"], ["y"], "loop", body=turn),
            helper.make_node("If", ["yes"], ["z"], "if", then_branch=branch("then", "Neg"),
                             else_branch=branch("else", "Abs")),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("y", "z")],
        [numpy_helper.from_array(np.array(3), "n"), numpy_helper.from_array(np.array(True), "yes")],
    )  # fmt: skip
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    return from_proto(proto, "looped")


@pytest.mark.parametrize(
    ("edits", "expected"),
    [
        ([], ([7, 15], [-7, -15])),
        (["value k = 0"], ([0, 8], [0, -8])),
        (["value loop/body/k = [10]"], ([70, 78], [-70, -78])),
        (["delete double"], ([3, 4], [-3, -4])),
        (["delete clip"], ([-1, 15], [1, -15])),
        (["delete loop/body/more"], ([0, 8], [0, -8])),
        (["delete if/then_branch/same#2"], ([7, 15], [7, 15])),
        (["rename loop/body/up = up2", "rename twice = t", "rename double = d", "delete d"],
         ([3, 4], [-3, -4])),
    ],
)  # fmt: skip
def test_bodies_are_edited_and_compute_what_the_edit_says(edits: list[str], expected: tuple):
    found = edit_model(looped(), edits) if edits else looped()
    made = run(found, x=np.array([-1, 1], np.float32))
    assert (made["y"].tolist(), made["z"].tolist()) == expected


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        ("delete if/else_branch/same#2", "no node is called.*did you mean 'if/else_branch/same'"),
        ("delete loop/body/nothing", "no node is called"),
        ("cut state : next", "'state' is computed in the body"),
        ("outputs next", "'next' is computed in the body"),
        ("rename up = twice", "the name 'twice' is taken"),
        ("value k = [1, 2]", r"has shape \(1,\)"),
        ("attribute clip.alpha = 1", "Unrecognized attribute: alpha"),
    ],
)
def test_what_cannot_be_edited_in_a_body_is_refused(edit: str, words: str):
    with pytest.raises(InputError, match=words):
        edit_model(looped(), [edit])


def test_one_of_several_of_a_name_is_called_by_its_body():
    def weights(graph: onnx.GraphProto) -> set[str]:
        return {tensor.name for tensor in graph.initializer}

    w = numpy_helper.from_array(np.array([1], np.float32), "w")
    bodies = {
        f"{side}_branch": helper.make_graph([], side, [], [], [w]) for side in ("then", "else")
    }
    for body in bodies.values():
        body.node.append(helper.make_node("Identity", ["w"], ["r"], "same"))
    graph = helper.make_graph([helper.make_node("If", ["c"], ["z"], "if", **bodies)], "g", [], [])
    with pytest.raises(InputError, match=r"several weights.*if/else_branch/w, if/then_branch/w"):
        place_of_tensor(graph, "w", "weight", weights)
    with pytest.raises(InputError, match="several nodes are called 'same'"):
        place_of_node(graph, "same")
    place, own = place_of_tensor(graph, "if/then_branch/w", "weight", weights)
    assert (place.graph.name, own) == ("then", "w")
    graph.initializer.append(w)
    assert place_of_tensor(graph, "w", "weight", weights)[0].path == ""


def test_an_attribute_in_a_body_changes_the_shapes_around_it():
    total = helper.make_graph(
        [helper.make_node("ReduceSum", ["x"], ["then"], "sum", keepdims=1)],
        "body", [], [helper.make_tensor_value_info("then", TensorProto.FLOAT, [1, 1])],
    )  # fmt: skip
    other = helper.make_graph(
        [helper.make_node("ReduceMax", ["x"], ["else"], "max", keepdims=1)],
        "body", [], [helper.make_tensor_value_info("else", TensorProto.FLOAT, [1, 1])],
    )  # fmt: skip
    graph = helper.make_graph(
        [helper.make_node("If", ["yes"], ["z"], "if", then_branch=total, else_branch=other)],
        "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3])],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, [1, 1])],
        [numpy_helper.from_array(np.array(True), "yes")],
    )  # fmt: skip
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    found = edit_model(
        from_proto(proto, "m"), ["attribute sum.keepdims = 0", "attribute max.keepdims = 0"]
    )
    assert run(found, x=X)["z"].shape == ()
    assert run(found, x=X)["z"] == 4


def test_an_attribute_has_the_type_of_its_operator():
    assert run(edit_model(model(), ["attribute soft.axis = 0"]), x=X)["y"].tolist() == [[1, 1, 1]]
    gone = edited_proto(model(), ["attribute sum.keepdims = null", "outputs s"])
    assert not gone.graph.node[-1].attribute
    new = edited_proto(model(), ["attribute relu.note = 1", "outputs s"][1:])
    assert [n.name for n in new.graph.node] == ["relu", "sum"]


def test_shapes_follow_an_attribute_that_changes_them():
    """Also those that the file declares, of tensors between nodes and of outputs."""
    declared = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 1]) for name in ("s", "t")
    ]
    proto = model([helper.make_node("Neg", ["s"], ["t"], "neg")], ("t",)).content.proto
    proto.graph.value_info.append(declared[0])
    proto.graph.output[0].CopyFrom(declared[1])
    found = edit_model(from_proto(proto, "little"), ["attribute sum.keepdims = 0"])
    assert [value.shape for value in found.outputs] == [()]
    assert run(found, x=X)["t"] == -5


def test_a_value_keeps_type_and_shape():
    assert run(edit_model(model(), ["value w = 0", "outputs m"]), x=X)["m"].tolist() == [[0, 0, 0]]
    found = edit_model(model(), ["value w = [5, 6, 7]", "outputs m"])
    assert run(found, x=X)["m"].tolist() == [[0, 12, 21]]
    assert found.constants["w"].dtype == np.float32


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        ("delete dorp", "'dorp'.*did you mean 'drop'"),
        ("delete sum", "cannot be left out"),
        ("cut m : nothing", "no tensor 'nothing'"),
        ("cut y : m", "'y' does not lead to m"),
        ("cut m : m", "on both sides"),
        ("cut m : x", "nothing between the two sides computes 'x'"),
        ("outputs x", "no node computes 'x'"),
        ("outputs w", "no node computes 'w'"),
        ("rename nothing = a", "no tensor and no node is called 'nothing'"),
        ("rename m = w", "the name 'w' is taken"),
        ("attribute soft.axsi = 1", "Softmax has no attribute 'axsi'.*did you mean 'axis'"),
        ("attribute soft.axis = 1.5", "soft.axis is a int, not 1.5"),
        ("attribute soft.axis = [1]", "soft.axis is a int"),
        ("attribute soft.axis = true", "soft.axis is a int"),
        ("attribute soft.axis = 7", "not valid"),
        ("attribute relu.alpha = null", "has no attribute 'alpha'"),
        ("value m = 1", "no weight is called 'm'"),
        ("value w = [1, 2]", r"has shape \(3,\)"),
        ('value w = "a"', "given are str"),
        ("value w = [[1], [2, 3]]", "w"),
        ("value w = null", "given are object"),
    ],
)
def test_what_cannot_be_edited_is_refused_with_the_reason(edit: str, words: str):
    whole = model(outputs=("y", "s"))
    before = edited_proto(whole, ["rename x = x2"]).SerializeToString()
    with pytest.raises(InputError, match=words):
        edit_model(whole, [edit])
    assert edited_proto(whole, ["rename x = x2"]).SerializeToString() == before  # nothing is lost


def test_integers_hold_what_they_hold(tmp_path: Path):
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "k"], ["y"], "add")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.INT8, [2])],
        [helper.make_tensor_value_info("y", TensorProto.INT8, [2])],
        [numpy_helper.from_array(np.array([1, 2], np.int8), "k")],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    for value in ("128", "-129", "0.5", "[1, 300]"):
        with pytest.raises(InputError, match="int8, which lacks"):
            edit_model(from_proto(proto, "m"), [f"value k = {value}"])
    assert edit_model(from_proto(proto, "m"), ["value k = -128.0"]).constants["k"].tolist() == [
        -128, -128,
    ]  # fmt: skip


def test_models_of_other_formats_name_the_way():
    with pytest.raises(InputError, match="this is tflite; try: explorer convert"):
        edit_model(explorer.load(sample("roundings_int8")), ["delete a"])
    with pytest.raises(InputError, match="there is no edit"):
        edit_model(model(), [])


def test_an_edited_file_is_right_and_a_refused_one_is_not_written(tmp_path: Path, capsys):
    out = tmp_path / "part.onnx"
    loaded = explorer.load(sample("digits_cnn"))
    last = loaded.nodes[-2].name
    assert main(["edit", str(sample("digits_cnn")), f'rename "{last}" = end', "-o", str(out)]) == 0
    assert "17 -> 17 nodes" in capsys.readouterr().out
    assert explorer.compile(out).accuracy().passed
    refused = tmp_path / "no.onnx"
    arguments = ["edit", str(sample("digits_cnn")), "delete nothing", "-o", str(refused)]
    assert main(arguments) == 2
    assert not refused.exists()
    assert "no node is called 'nothing'" in capsys.readouterr().err


@pytest.mark.parametrize("rename", [rename_tensor, redirect])
def test_a_body_without_nodes_gives_the_renamed_tensor(rename):
    """A branch may give a tensor of the outer graph as it is."""
    given = helper.make_graph([], "g", [], [helper.make_tensor_value_info("r", 1, None)])
    node = helper.make_node("If", ["c"], ["v"], then_branch=given, else_branch=given)
    whole = helper.make_graph([node], "whole", [], [helper.make_tensor_value_info("v", 1, None)])
    rename(whole, "r", "q")
    branches = [attribute.g for attribute in whole.node[0].attribute]
    assert [branch.output[0].name for branch in branches] == ["q", "q"]


def test_fewer_parts_than_results_are_refused_and_end_no_process():
    """onnx's own inference ends the process at such a node."""
    text = """<ir_version: 10, opset_import: ["" : 20]> g (float[6] x) => (float[3] a, float[3] b) {
      a, b = Split <axis = 0, num_outputs = 2> (x) }"""
    proto = onnx.parser.parse_model(text)
    proto.graph.node[0].name = "split"
    with pytest.raises(InputError, match="num_outputs is 1, but it has 2 outputs"):
        edit_model(from_proto(proto), ["attribute split.num_outputs = 1"])
