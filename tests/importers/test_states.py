"""Which inputs and outputs of an ONNX model are states: by their names, or named."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper

import explorer as ex
from explorer.cli import main
from explorer.errors import InputError
from explorer.importers.model import SourceModel
from explorer.importers.onnx.file.reading import from_proto
from explorer.importers.states import named_states
from explorer.ir.evaluation import entry_function
from explorer.ir.states import StateRecord, states_of


def proto(pairs: Mapping[str, str], sizes: Mapping[str, int] | None = None) -> ModelProto:
    """Every output is its input plus x; `sizes`: of outputs that are longer than their inputs."""

    def value(name: str):
        size = (sizes or {}).get(name, 3)
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, size])

    nodes = [
        helper.make_node("Concat", [before, "x"], [after], axis=1)
        if after in (sizes or {})
        else helper.make_node("Add", [before, "x"], [after])
        for before, after in pairs.items()
    ]
    graph = helper.make_graph(
        nodes, "g", [value("x"), *map(value, pairs)], [value(after) for after in pairs.values()]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def model(pairs: Mapping[str, str], sizes: Mapping[str, int] | None = None) -> SourceModel:
    return from_proto(proto(pairs, sizes))


def found(source: SourceModel) -> list[tuple[str, str]]:
    return [(state.input, state.output) for state in source.states]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("past_key_values.0.key", "present.0.key"),
        ("past_key_values.0.value", "present_key_values.0.value"),
        ("past_3", "present_3"),
        ("past", "present"),
        ("h", "hn"),
        ("c0", "cn"),
        ("state", "stateN"),
        ("conv_cache", "conv_cache_out"),
        ("state_in", "state_out"),
        ("cell", "new_cell"),
    ],
)
def test_states_are_found_by_their_names(before: str, after: str):
    assert found(model({before: after, "other": "result"})) == [(before, after)]


@pytest.mark.parametrize(("before", "after"), [("input_1", "output_1"), ("image", "imagen")])
def test_other_names_are_no_states(before: str, after: str):
    assert found(model({before: after})) == []


def test_a_past_that_grows_is_no_state_of_one_size():
    source = model({"past": "present"}, {"present": 6})
    assert found(source) == []
    with pytest.raises(
        InputError, match="'past' and its output differ: past is 1x3, present is 1x6"
    ):
        ex.compile(source, states="past=present")


def test_named_states_stand_in_the_program():
    source = model({"a.0.k": "b.0.k", "a.1.k": "b.1.k", "c": "d"})
    compilation = ex.compile(source, states=["a.*.k=b.*.k", "c=d"])
    names = ("a.0.k", "b.0.k"), ("a.1.k", "b.1.k"), ("c", "d")
    for result in compilation.passes:
        assert states_of(entry_function(result.after.program)) == tuple(
            StateRecord(*pair) for pair in names
        )
    x = np.ones((1, 3), np.float32)
    with compilation.open(isolated=False, remembers=True) as program:
        assert [port.name for port in program.program.inputs] == ["x"]
        for _ in range(3):
            assert program.run({"x": x}) == {}
        np.testing.assert_array_equal(program.state()["c"], 3 * x)


def test_a_program_with_states_is_a_function_of_all_its_inputs_as_well():
    compilation = ex.compile(model({"h": "hn"}))
    x = np.ones((1, 3), np.float32)
    for value in (0, 7):
        outputs = compilation.run({"x": x, "h": value * x})
        np.testing.assert_array_equal(outputs["hn"], (value + 1) * x)


PAIRS = {"h": "hn", "k": "kn"}


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ("h", "'h' names no states: expected INPUT=OUTPUT"),
        ("h*=hn", "as many \\* on both sides"),
        ("hh=hn", "no input is called 'hh'"),
        ("h=ho", "nothing writes the state 'h': the model has no output 'ho'"),
        (["h=hn", "k=hn"], "k=hn and h=hn would be one memory"),
        (["h=hn", "h=kn"], "h=kn and h=hn would be one memory"),
    ],
)
def test_what_is_no_state_is_refused_by_name(names: str | list[str], words: str):
    with pytest.raises(InputError, match=words):
        named_states(model(PAIRS), names)


def test_a_state_that_nothing_writes_is_refused():
    pairs = {"h": "hn"}
    made = proto(pairs)
    del made.graph.node[:]
    made.graph.node.append(helper.make_node("Identity", ["h"], ["hn"]))
    with pytest.raises(InputError, match="'h' and 'hn' are no state: nothing writes it"):
        ex.compile(from_proto(made), states="h=hn")
    assert not states_of(entry_function(ex.compile(from_proto(made)).final.program))


def test_the_command_line_names_states(tmp_path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "net.onnx"
    path.write_bytes(proto({"a": "b"}).SerializeToString())
    assert main(["compile", str(path), "--state", "a=b"]) == 0
    assert main(["compile", str(path), "--state", "a=x"]) == 2
    assert "nothing writes the state 'a'" in capsys.readouterr().err
