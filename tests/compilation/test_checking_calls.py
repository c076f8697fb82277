"""Sequences of calls against onnxruntime: states are compared after each."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import explorer as ex
from explorer.cli import main
from explorer.compilation.checking_calls import check_calls
from explorer.errors import InputError
from explorer.importers.onnx.file.reading import from_proto
from explorer.runtime.stateful import StatefulProgram


def value(name: str, *shape: int | str):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def cell() -> ModelProto:
    """h -> tanh(h w + x), and its sum."""
    weight = np.random.default_rng(1).standard_normal((5, 5)).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["h", "w"], ["a"]),
        helper.make_node("Add", ["a", "x"], ["b"]),
        helper.make_node("Tanh", ["b"], ["hn"]),
        helper.make_node("ReduceSum", ["hn"], ["y"], keepdims=0),
    ]
    graph = helper.make_graph(
        nodes, "g", [value("x", 1, 5), value("h", 1, 5)], [value("y"), value("hn", 1, 5)],
        [numpy_helper.from_array(weight, "w")],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def past() -> ModelProto:
    nodes = [
        helper.make_node("Concat", ["past", "new"], ["present"], axis=1),
        helper.make_node("Softmax", ["present"], ["p"], axis=1),
        helper.make_node("Mul", ["p", "present"], ["z"]),
    ]
    graph = helper.make_graph(
        nodes, "g", [value("new", 1, 1, 4), value("past", 1, "p", 4)],
        [value("present", 1, "all", 4), value("z", 1, "all", 4)],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("target", ["cpu", "opencl"])
def test_states_are_right_after_every_call(target: str):
    verdict = check_calls(ex.compile(from_proto(cell()), target), 4)
    assert verdict.passed and verdict.calls == 4 and verdict.worst < 1e-5


def test_a_past_begins_anew_when_its_capacity_is_full():
    verdict = check_calls(ex.compile(from_proto(past()), capacity=3), 5)
    assert verdict.passed and verdict.calls == 5


def test_the_first_wrong_call_is_named(monkeypatch: pytest.MonkeyPatch):
    run, calls = StatefulProgram.run, []

    def wrong(self, inputs):
        outputs = run(self, inputs)
        calls.append(0)
        if len(calls) == 3:
            self.load({name: array + 0.25 for name, array in self.state().items()})
        return outputs

    monkeypatch.setattr(StatefulProgram, "run", wrong)
    verdict = check_calls(ex.compile(from_proto(cell())), 5)
    assert verdict.calls == 3 and not verdict.passed
    assert verdict.problem.startswith("call 3: state 'h' is off by ")


def test_a_model_without_states_is_refused():
    digits = Path(__file__).parents[2] / "sample_models/digits_mlp.onnx"
    with pytest.raises(InputError, match="the model has no states"):
        check_calls(ex.compile(digits), 2)


def test_the_command_compares_calls(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "cell.onnx"
    path.write_bytes(cell().SerializeToString())
    assert main(["check", str(path), "--calls", "3", "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["passed"] and summary["calls"]["calls"] == 3
    assert main(["check", str(path), "--calls", "3"]) == 0
    assert "3 calls in turn: largest difference" in capsys.readouterr().out


def test_a_call_that_is_nearer_to_float64_than_the_reference_is_right(monkeypatch):
    """onnxruntime's sigmoid errs by units of 1: in a small result, which stands alone, by 2e-4."""
    weight = np.full((3, 1), -3.05, np.float32)
    nodes = [
        helper.make_node("Neg", ["h"], ["hn"]),
        helper.make_node("MatMul", ["hn", "w"], ["a"]),
        helper.make_node("Add", ["a", "x"], ["b"]),
        helper.make_node("Sigmoid", ["b"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes, "g", [value("x", 1, 1), value("h", 1, 3)], [value("y", 1, 1), value("hn", 1, 3)],
        [numpy_helper.from_array(weight, "w")],
    )  # fmt: skip
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    compilation = ex.compile(from_proto(proto), "cpu", states=["h=hn"])
    monkeypatch.setattr(
        type(compilation), "example_inputs",
        lambda self, seed=0, dimensions=None: {"x": np.full((1, 1), -8.7 - seed / 7, np.float32)},
    )  # fmt: skip
    verdict = check_calls(compilation, 3, tolerance=1e-6)
    compilation.close()
    assert verdict.passed, verdict.problem
