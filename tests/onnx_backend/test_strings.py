"""Models of strings: the code points are numbers of generated code like any others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import explorer
from explorer.errors import InputError, UnsupportedError
from explorer.importers.building.code_points import decoded, encoded
from explorer.importers.onnx import from_proto
from explorer.onnx_backend import backend_for
from verification.conformance.coverage import not_generated, values_from_inputs

STRING = TensorProto.STRING


def model_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, np.ndarray],
    outputs: Mapping[str, int],
    weights: Sequence[onnx.TensorProto] = (),
) -> onnx.ModelProto:
    def kind(array: np.ndarray) -> int:
        is_text = array.dtype.kind in "OU"
        return STRING if is_text else helper.np_dtype_to_tensor_dtype(array.dtype)

    infos = [helper.make_tensor_value_info(n, kind(a), a.shape) for n, a in inputs.items()]
    made = [helper.make_tensor_value_info(n, k, None) for n, k in outputs.items()]
    graph = helper.make_graph(nodes, "strings", infos, made, list(weights))
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 4)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def run(model: onnx.ModelProto, *inputs: np.ndarray, device: str = "INTERPRETER") -> list:
    representation = backend_for(device, lambda c: c.open(isolated=False)).prepare(model)
    try:
        found = list(representation.run(list(inputs)))
        for compilation in representation.compilations:
            assert not_generated(compilation, values_from_inputs(model.graph)) is None
        return found
    finally:
        representation.close()


def texts(*items: str) -> np.ndarray:
    return np.array(items, object)


# -- the form of strings ---------------------------------------------------------------------------


def test_strings_come_back_as_they_were() -> None:
    strings = np.array([["", "a", "naïve"], ["日本語", "😀 ", " x"]], object)
    codes = encoded(strings)
    assert codes.shape == (2, 3, 8)
    assert codes.dtype == np.int32
    assert decoded(codes).tolist() == strings.tolist()


def test_no_strings_have_a_form_too() -> None:
    assert encoded(np.empty((0, 2), object)).shape == (0, 2, 1)
    assert decoded(np.zeros((0, 2, 1), np.int32)).shape == (0, 2)


@pytest.mark.parametrize(("item", "message"), [("a\0", "U+0000"), (3.5, "a string is expected")])
def test_what_has_no_form_is_refused(item: object, message: str) -> None:
    with pytest.raises(InputError) as caught:
        encoded(np.array([item], object), "x")
    assert message in caught.value.message


# -- operators -------------------------------------------------------------------------------------

A = np.array([["one", "two"], ["", "vier"]], object)
MOVES = {
    "Transpose": (helper.make_node("Transpose", ["a"], ["y"]), A.T),
    "Reshape": (helper.make_node("Reshape", ["a", "n"], ["y"]), A.reshape(4)),
    "Concat": (helper.make_node("Concat", ["a", "b"], ["y"], axis=0), None),
    "Gather": (helper.make_node("Gather", ["a", "n"], ["y"], axis=1), A[:, [-1]]),
    "Identity": (helper.make_node("Identity", ["a"], ["y"]), A),
    "Tile": (helper.make_node("Tile", ["a", "m"], ["y"]), np.tile(A, (2, 1))),
    "Slice": (helper.make_node("Slice", ["a", "z", "o"], ["y"]), A[:1]),
    "Unsqueeze": (helper.make_node("Unsqueeze", ["a", "z"], ["y"]), A[np.newaxis]),
    "Expand": (helper.make_node("Expand", ["b", "t"], ["y"]), None),
}
B = np.array([["a much longer string", "b"]], object)


@pytest.mark.parametrize("operator", MOVES)
def test_operators_that_move_strings(operator: str) -> None:
    node, wanted = MOVES[operator]
    if wanted is None:
        wanted = np.concatenate([A, B]) if operator == "Concat" else np.broadcast_to(B, (2, 2))
    numbers = {"n": [-1], "m": [2, 1], "z": [0], "o": [1], "t": [2, 2]}
    weights = [
        helper.make_tensor(name, TensorProto.INT64, [len(values)], values)
        for name, values in numbers.items()
        if name in node.input
    ]
    inputs = {name: array for name, array in {"a": A, "b": B}.items() if name in node.input}
    (found,) = run(model_of([node], inputs, {"y": STRING}, weights), *inputs.values())
    assert found.tolist() == wanted.tolist()


def test_a_choice_between_strings() -> None:
    condition = np.array([[True], [False]])
    node = helper.make_node("Where", ["c", "a", "b"], ["y"])
    inputs = {"c": condition, "a": A, "b": B}
    (found,) = run(model_of([node], inputs, {"y": STRING}), *inputs.values())
    assert found.tolist() == np.where(condition, A, B).tolist()


def test_shape_and_size_count_strings() -> None:
    nodes = [helper.make_node(o, ["a"], [o.lower()]) for o in ("Shape", "Size")]
    outputs = {"shape": TensorProto.INT64, "size": TensorProto.INT64}
    shape, size = run(model_of(nodes, {"a": A}, outputs), A)
    assert (shape.tolist(), size.item()) == ([2, 2], 4)


def test_strings_are_equal_whatever_room_they_have() -> None:
    b = texts("one", "two, and a half")
    node = helper.make_node("Equal", ["a", "b"], ["y"])
    (found,) = run(model_of([node], {"a": A, "b": b}, {"y": TensorProto.BOOL}), A, b)
    assert found.tolist() == [[True, False], [False, False]]


@pytest.mark.parametrize("device", ["INTERPRETER", "CPU", "OPENCL"])
def test_constant_strings_are_joined_to_inputs(device: str) -> None:
    tail = helper.make_node("Constant", [], ["t"], value_string="-é")
    join = helper.make_node("StringConcat", ["a", "t"], ["y"])
    (found,) = run(model_of([tail, join], {"a": A}, {"y": STRING}), A, device=device)
    assert found.tolist() == [["one-é", "two-é"], ["-é", "vier-é"]]


SPLITS = ["a b  c", "", "  ", " lead", "x--y", "---", "-a-", "a - b", "no", "aaaa--"]


@pytest.mark.parametrize("limit", [None, 0, 1, 2])
@pytest.mark.parametrize("delimiter", [None, "-", "--", "aa", " - ", "aba"])
def test_a_split_is_that_of_python(delimiter: str | None, limit: int | None) -> None:
    x = texts(*SPLITS, "ababababa")
    node = helper.make_node("StringSplit", ["x"], ["y", "n"], delimiter=delimiter, maxsplit=limit)
    outputs = {"y": STRING, "n": TensorProto.INT64}
    parts, counts = run(model_of([node], {"x": x}, outputs), x)
    wanted = [text.split(delimiter, -1 if limit is None else limit) for text in x]
    assert counts.tolist() == [len(found) for found in wanted]
    most = max(counts)
    assert parts.tolist() == [found + [""] * (most - len(found)) for found in wanted]


@pytest.mark.parametrize("device", ["CPU", "OPENCL"])
def test_a_split_runs_as_generated_code(device: str) -> None:
    x = texts("a::b:::c", "::")
    node = helper.make_node("StringSplit", ["x"], ["y", "n"], delimiter="::")
    outputs = {"y": STRING, "n": TensorProto.INT64}
    parts, counts = run(model_of([node], {"x": x}, outputs), x, device=device)
    assert parts.tolist() == [["a", "b", ":c"], ["", "", ""]]
    assert counts.tolist() == [3, 2]


def test_a_pattern_matches_whole_strings() -> None:
    x = texts("www.a-b.com", "www.a.com/", "www..com", "", "www.日本.com")
    node = helper.make_node("RegexFullMatch", ["x"], ["y"], pattern=r"www\.[\w.-]*\.?com")
    (found,) = run(model_of([node], {"x": x}, {"y": TensorProto.BOOL}), x)
    assert found.tolist() == [True, False, True, False, False]


def test_letters_without_another_case_stay() -> None:
    x = texts("Straße", "ÉCOLE", "ŉ")
    for action, wanted in {
        "UPPER": ["STRAßE", "ÉCOLE", "ŉ"],
        "LOWER": ["straße", "école", "ŉ"],
    }.items():
        node = helper.make_node("StringNormalizer", ["x"], ["y"], case_change_action=action)
        (found,) = run(model_of([node], {"x": x}, {"y": STRING}), x)
        assert found.tolist() == wanted


def test_stop_words_ignore_case_unless_said() -> None:
    x = np.array([["The", "end", "THE", "theme"]], object)
    for is_sensitive, wanted in ((0, ["end", "theme"]), (1, ["The", "end", "THE", "theme"])):
        node = helper.make_node(
            "StringNormalizer", ["x"], ["y"], stopwords=["the"], is_case_sensitive=is_sensitive
        )
        (found,) = run(model_of([node], {"x": x}, {"y": STRING}), x)
        assert found.tolist() == [wanted]


def test_labels_from_strings_and_to_strings() -> None:
    x = texts("b", "unknown", "a longer key")
    nodes = [
        helper.make_node(
            "LabelEncoder",
            ["x"],
            ["n"],
            domain="ai.onnx.ml",
            keys_strings=["a longer key", "b"],
            values_int64s=[7, 8],
            default_int64=9,
        ),
        helper.make_node(
            "LabelEncoder",
            ["n"],
            ["y"],
            domain="ai.onnx.ml",
            keys_int64s=[7, 9],
            values_strings=["seven", "nine"],
            default_string="?",
        ),
    ]
    outputs = {"n": TensorProto.INT64, "y": STRING}
    numbers, strings = run(model_of(nodes, {"x": x}, outputs), x)
    assert numbers.tolist() == [8, 9, 7]
    assert strings.tolist() == ["?", "nine", "seven"]


# -- refusals --------------------------------------------------------------------------------------


def test_an_operator_that_takes_no_strings_is_named() -> None:
    node = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)
    x = texts("1.5")
    with pytest.raises(UnsupportedError) as caught:
        run(model_of([node], {"x": x}, {"y": TensorProto.FLOAT}), x)
    assert "Cast" in caught.value.problems[0]
    assert "strings" in caught.value.problems[0]


def test_a_model_takes_the_code_points_of_strings() -> None:
    nodes = [helper.make_node("StringConcat", ["x", "x"], ["y"])]
    x = texts("a", "to be", "")
    model = from_proto(model_of(nodes, {"x": x}, {"y": STRING}))
    assert [(v.name, v.element_type, v.shape) for v in model.inputs] == [
        ("x.codes", "int32", (3, "x.places"))
    ]
    compilation = explorer.compile(model, dimensions={"x.places": 8})
    outputs = explorer.host_values(model, compilation.run({"x": x}))
    assert outputs["y"].tolist() == ["aa", "to beto be", ""]
    with pytest.raises(InputError, match="longer than the 8 characters") as caught:
        compilation.run({"x": texts("a", "something", "b")})
    assert "--dim x.places=16" in caught.value.hint
    compilation.close()


def test_a_session_compiles_for_the_lengths_of_strings() -> None:
    """How many parts there are, only a run tells: the host splits."""
    nodes = [
        helper.make_node("StringSplit", ["x"], ["y", "n"], delimiter=" "),
        helper.make_node("Identity", ["n"], ["counts"]),
    ]
    x = texts("a b c", "d", "e")
    model = from_proto(model_of(nodes, {"x": x}, {"y": STRING, "counts": TensorProto.INT64}))
    with explorer.Session(model) as session:
        for given, counts in ((x, [3, 1, 1]), (texts("a", "bb ccc", "d"), [1, 2, 1])):
            outputs = explorer.host_values(model, session({"x": given}))
            assert outputs["counts"].tolist() == counts
            assert outputs["y"].shape == (3, max(counts))
            assert [part for part in outputs["y"][0] if part] == given[0].split()
        assert [call.event for call in session.calls] == ["compiled", "hit"]


def test_letter_cases_of_other_languages_are_refused() -> None:
    x = texts("I")
    node = helper.make_node("StringNormalizer", ["x"], ["y"], locale="tr_TR")
    with pytest.raises(UnsupportedError) as caught:
        run(model_of([node], {"x": x}, {"y": STRING}), x)
    assert "tr_TR" in caught.value.problems[0]
