"""Single operators with other types, sizes and hostile numbers are judged by other programs."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx.parser
import pytest
from onnx import helper

from explorer.importers.onnx import convert
from explorer.importers.onnx.converters import find_converter
from explorer.ir.types import ELEMENT_TYPES
from verification.operators import running
from verification.operators.chains import draw_chain
from verification.operators.comparing import same
from verification.operators.drawing import NotPossible, draw
from verification.operators.judges import NoOpinion, ask
from verification.operators.numbers import hostile, kinds
from verification.operators.page import cells, page
from verification.operators.pairs import Pair, pairs, schemas
from verification.operators.running import Plan, read_record, run
from verification.operators.templates import Template, read, write
from verification.operators.trying import judged, try_case
from verification.operators.verdicts import Disagreement, disagreements, verdict
from verification.random_models.tried import known_operators


def template(operator: str, *shapes: tuple[int, ...], **attributes) -> Template:
    """An example with float32 inputs of some shapes."""
    names = [f"x{i}" for i in range(len(shapes))]
    inputs = [
        helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, s)
        for n, s in zip(names, shapes, strict=True)
    ]
    output = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    node = helper.make_node(operator, names, ["y"], **attributes)
    graph = helper.make_graph([node], operator, inputs, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 26)], ir_version=10)
    arrays = tuple(np.ones(s, np.float32) for s in shapes)
    return Template(operator, model, arrays)


ADD = template("Add", (2, 3), (3,))
PLANTED = Pair("Softmax", "float64")


def test_pairs_are_those_of_the_schemas():
    found = Counter(pair.operator for pair in pairs())
    assert set(found) == set(schemas()) <= known_operators()
    assert found["Relu"] == 8
    assert {p.element_type for p in pairs() if p.operator == "And"} == {"bool"}
    assert len(pairs()) > 2000


@pytest.mark.parametrize("dtype", [*ELEMENT_TYPES, "string"])
def test_arrays_have_the_type_and_the_shape(dtype):
    random = np.random.default_rng(0)
    for kind in kinds(dtype):
        for shape in ((), (0, 3), (40,)):
            array = hostile(random, dtype, shape, kind)
            assert array.shape == shape
            assert array.dtype == (object if dtype == "string" else np.dtype(dtype))


def test_ends_are_the_ends_of_a_type():
    random = np.random.default_rng(0)
    assert {0, 2**64 - 1} < set(hostile(random, "uint64", (60,), "ends").tolist())
    assert {-128, 127, -1} < set(hostile(random, "int8", (60,), "ends").tolist())
    special = hostile(random, "float16", (200,), "special")
    assert np.isnan(special).any() and np.isposinf(special).any()
    assert (np.signbit(special) & (special == 0)).any()


def test_a_seed_is_one_case():
    first, second = (draw(Pair("Add", "int8"), 5, [ADD]) for _ in range(2))
    assert first.model == second.model
    assert first.kind == second.kind
    assert {a.dtype.name for a in first.inputs.values()} == {"int8"}
    assert first.model.graph.output[0].type.tensor_type.elem_type == onnx.TensorProto.INT8


def test_types_that_numpy_lacks_stay_inside():
    case = draw(Pair("Add", "bfloat16"), 0, [ADD])
    assert [n.op_type for n in case.model.graph.node] == ["Cast", "Cast", "Add", "Cast"]
    assert {a.dtype.name for a in case.inputs.values()} == {"float32"}


def test_sizes_and_axes_change():
    cases = [
        draw(Pair("Softmax", "float32"), s, [template("Softmax", (2, 3), axis=1)])
        for s in range(60)
    ]
    assert any(0 in a.shape for case in cases for a in case.inputs.values())
    assert any(case.model.graph.node[0].attribute[0].i == -1 for case in cases)


def test_what_has_no_example_is_not_drawn():
    with pytest.raises(NotPossible, match="no example"):
        draw(Pair("Add", "int8"), 0, [])


def test_the_interpreter_is_right():
    for seed in range(3):
        answer = try_case(Pair("Add", "int8"), seed, ("INTERPRETER",), [ADD], lambda _: None)
        assert answer["status"] in ("right", "illegal"), answer


def test_a_planted_wrong_converter_is_found(monkeypatch, tmp_path):
    def planted(operator: str, *rest):
        return find_converter("Identity" if operator == "Softmax" else operator, *rest)

    monkeypatch.setattr(convert, "find_converter", planted)
    softmax = [template("Softmax", (2, 3))]
    answers = [
        try_case(PLANTED, s, ("INTERPRETER",), softmax, lambda _: None, tmp_path) for s in range(4)
    ]
    assert "differs" in {answer["status"] for answer in answers}
    assert list(tmp_path.glob("Softmax-float64-*.onnx"))


ONE, TWO = [np.array([1, 1])], [np.array([2, 1])]
PAIR = Pair("Add", "int64")


def entry(right: str) -> list[Disagreement]:
    return [Disagreement(("Add",), ("int64",), right, "the reason")]


@pytest.mark.parametrize(
    ("table", "found", "status"),
    [
        ([], ONE, "disputed"),
        (entry("onnx"), TWO, "documented"),
        (entry("onnx"), ONE, "differs"),
        (entry("onnxruntime"), ONE, "documented"),
        (entry("either"), TWO, "documented"),
        (entry("either"), [np.array([3, 1])], "differs"),
        (entry("ours"), [np.array([3, 1])], "documented"),
    ],
)
def test_judges_that_disagree_need_an_entry(table, found, status):
    told = verdict(PAIR, {"onnxruntime": ONE, "onnx": TWO}, found, table, {})
    assert told.status == status


def test_judges_that_agree_need_no_entry():
    opinions = {"onnxruntime": ONE, "onnx": ONE}
    assert verdict(PAIR, opinions, ONE, [], {}).status == "right"
    assert verdict(PAIR, opinions, TWO, entry("onnx"), {}).status == "differs"
    alone = {"onnxruntime": NoOpinion("no kernel"), "onnx": TWO}
    assert verdict(PAIR, alone, TWO, [], {}).status == "right"
    assert (
        verdict(PAIR, alone, ONE, [], {}).reason == "onnx: 1 instead of 2 at [0], 1 of 2 elements"
    )


def test_float64_decides_about_roundings():
    rough, fine = [np.array([1.001], np.float32)], [np.array([1.0], np.float32)]
    opinions = {"onnxruntime": rough, "onnx": rough, "float64": [np.array([1.0])]}
    assert verdict(Pair("Tanh", "float32"), opinions, fine, [], {}).status == "right"


def test_entries_name_operators_types_and_a_judge():
    for known in disagreements():
        if known.format == "onnx":
            assert set(known.operators) <= set(schemas())
            for element_type in known.types:
                assert any(Pair(o, element_type) in pairs() for o in known.operators)
        assert known.right in ("onnxruntime", "onnx", "float64", "either", "ours")
        assert known.why.endswith(".")


@pytest.mark.parametrize(
    ("a", "b", "problem"),
    [
        ([1, 2], [1, 2], ""),
        ([1.0, np.nan], [1.0, np.nan], ""),
        ([0.0], [-0.0], ""),
        ([np.inf], [np.nan], "inf instead of nan"),
        ([[1]], [1], "shape (1, 1) instead of (1,)"),
        (["a"], ["b"], "a instead of b"),
        ([1], [1.0], "int64 instead of float64"),
    ],
)
def test_results_are_compared(a, b, problem):
    assert same([np.array(a)], [np.array(b)], "float64").startswith(problem)
    assert bool(problem) == bool(same([np.array(a)], [np.array(b)], "float64"))


def test_inputs_that_onnxruntime_refuses_are_illegal():
    base = template("Gather", (3,), (1,))
    model = base.model
    model.graph.input[1].type.tensor_type.elem_type = onnx.TensorProto.INT64
    opinions = ask(model, {"x0": np.ones(3, np.float32), "x1": np.array([9])})
    assert isinstance(opinions["onnxruntime"], NoOpinion)
    assert opinions["onnxruntime"].is_illegal


def answer_of(operator: str, element_type: str, status: str, seed: int = 0) -> dict:
    return {
        "operator": operator,
        "type": element_type,
        "status": status,
        "seed": seed,
        "format": "onnx",
        "devices": {"CPU": [status, ""]},
    }


def test_a_cell_is_the_worst_of_its_cases():
    answers = [answer_of("Add", "int8", s) for s in ("right", "illegal", "refused")]
    assert cells(answers) == {("Add", "int8"): "right"}
    assert cells([*answers, answer_of("Add", "int8", "hung")]) == {("Add", "int8"): "wrong"}


def test_equal_rows_of_the_page_are_one():
    answers = [
        answer_of(o, t, "refused" if t == "string" else "right")
        for o in ("Add", "Sub")
        for t in ("int8", "string")
    ]
    text = page(answers, ["the command"], entry("onnx"))
    assert "| Add, Sub | int8 |  | string |  |  |" in text
    assert "the command" in text
    assert "| Add | int64 | onnx | the reason |" in text


def test_all_types_of_a_set_have_one_name():
    types = ("bfloat16", "bool", "float16", "float32", "float64")
    text = page([answer_of("Relu", t, "right") for t in types], [], [])
    assert "| Relu | floats, bool |  |  |  |  |" in text


def test_a_record_is_gone_on_from(tmp_path, monkeypatch):
    asked: list[int] = []

    def answer_all(requests, child, *, report, **limits):
        for number, request in enumerate(requests):
            asked.append(request["seed"])
            report(number, {"status": "right", "reason": "", "devices": {}}, number + 1)

    monkeypatch.setattr(running, "all_templates", dict)
    monkeypatch.setattr(running, "answer_all", answer_all)
    record = tmp_path / "record.jsonl"
    run(Plan("onnx", 0, 3, ("CPU",)), record, 1, lambda *_: None)
    with record.open("a") as file:
        file.write('{"cut')
    found = run(Plan("onnx", 0, 5, ("CPU",)), record, 1, lambda *_: None)
    assert asked == [0, 1, 2, 3, 4]
    assert [answer["seed"] for answer in found] == [0, 1, 2, 3, 4]
    assert len(read_record(record)) == 5


def test_a_chain_has_three_nodes_and_more():
    chains = [draw_chain(seed) for seed in range(4)]
    assert all(len(chain.model.graph.node) >= 3 for chain in chains)
    assert draw_chain(3).model == chains[3].model
    assert {chain.kind for chain in chains} > {"as drawn"}


def test_a_chain_that_onnxruntime_confirms_is_right():
    chain = Pair("chain", "float32")
    assert verdict(chain, {"onnxruntime": ONE, "onnx": TWO}, ONE, [], {}).status == "right"
    assert verdict(chain, {"onnxruntime": ONE, "onnx": TWO}, TWO, [], {}).status == "disputed"


def test_whole_numbers_are_judged_by_those_of_python():
    top = np.array([2**31 - 1, 1], np.int32)
    cases = (draw(Pair("Add", "int32"), n, [template("Add", (2,), (2,))]) for n in range(20))
    case = next(case for case in cases if "size" not in case.kind)
    opinions = ask(case.model, {"x0": top, "x1": top})
    (found,) = opinions["integers"]
    assert found.tolist() == [-2, 2] and found.dtype == np.int32


def test_what_onnxruntime_calls_illegal_is_asked_no_other():
    """onnx's reference does not end for an index that is far outside."""
    graph = "g (float[3] x, int64[1] i) => (float[1] y) { y = GatherElements(x, i) }"
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 20]> {graph}')
    opinions = ask(model, {"x": np.ones(3, np.float32), "i": np.array([2**62])})
    assert list(opinions) == ["onnxruntime"]


def test_numbers_near_the_end_may_overflow():
    end = np.array([np.finfo(np.float32).max, 1], np.float32)
    above = np.array([np.inf, 1], np.float32)
    assert same([above], [end], "float32") == ""
    assert same([-above], [end], "float32") != ""
    assert same([above], [end / 2], "float32") != ""


def test_tflite_models_get_hostile_inputs():
    pytest.importorskip("ai_edge_litert")
    from verification.operators.seeded import try_seeded

    answer = try_seeded("tflite", "ADD", 1, ("INTERPRETER",))
    assert answer["status"] == "right"
    assert answer["kind"] != "as drawn"


def test_templates_survive_the_file(tmp_path: Path):
    write({"Add": [ADD]}, tmp_path)
    (found,) = read(tmp_path, "Add")
    assert found.model == ADD.model
    np.testing.assert_array_equal(found.inputs[0], ADD.inputs[0])
    assert read(tmp_path, "Sub") == []


def test_inputs_are_given_by_name():
    """The inputs of a chain stand in another order in the model than they were drawn in."""
    case = draw(Pair("Sub", "float32"), 1, [template("Sub", (3,), (3,))])
    turned = replace(case, inputs=dict(reversed(case.inputs.items())))
    assert judged(turned, ("INTERPRETER",), lambda _: None, [])["status"] == "right"
