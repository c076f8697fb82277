"""Calls in a row of what remembers are judged with all that they leave."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer as ex
from verification.operators.sequences import recurrent_onnx
from verification.operators.sequences.trying import sequences, try_sequence

INTERPRETED = ("INTERPRETER",)


def test_all_families_have_sequences():
    assert {name.split(".")[0] for name in sequences()} == {"onnx", "pytorch", "tflite"}
    assert {"tflite.SVDF", "tflite.VARIABLES", "onnx.LSTM"} <= set(sequences())


@pytest.mark.parametrize("name", ["onnx.LSTM", "onnx.Attention", "onnx.GRU"])
def test_states_of_onnx_are_fed_back(name: str):
    assert try_sequence(name, 3, INTERPRETED)["status"] in ("right", "documented")


@pytest.mark.parametrize("device", ["INTERPRETER", "CPU"])
@pytest.mark.parametrize("name", ["tflite.SVDF", "tflite.VARIABLES"])
def test_states_of_tflite_are_those_of_litert(name: str, device: str):
    pytest.importorskip("ai_edge_litert")
    answer = try_sequence(name, 1, (device,))
    assert answer["status"] in ("right", "documented"), answer


@pytest.mark.parametrize("name", ["pytorch.exported", "pytorch.compiled"])
def test_writes_of_pytorch_are_those_of_eager(name: str):
    pytest.importorskip("torch")
    answer = try_sequence(name, 4, INTERPRETED)
    assert answer["status"] == "right", answer


def test_a_seed_is_one_sequence():
    kinds = {recurrent_onnx.drawn("RNN", 7, None)[1]["kind"] for _ in range(2)}
    assert len(kinds) == 1


def test_a_state_that_is_lost_is_found(monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("torch")
    interpret = ex.interpret

    def forgetting(model: Any, inputs: Any) -> Any:
        found = dict(interpret(model, inputs))
        for state in model.states:
            found[state.output] = state.initial
        return found

    monkeypatch.setattr(ex, "interpret", forgetting)
    statuses = {try_sequence("pytorch.exported", seed, INTERPRETED)["status"] for seed in range(3)}
    assert "differs" in statuses


def test_a_write_into_an_input_that_is_lost_is_found(monkeypatch: pytest.MonkeyPatch):
    torch = pytest.importorskip("torch")
    from verification.operators.sequences import writes_pytorch

    called = writes_pytorch._called

    def forgetting(function: Any, module: Any, inputs: Any) -> Any:
        if function is module:
            return called(function, module, inputs)
        return called(lambda *xs: function(*(x.clone() for x in xs)), module, inputs)

    monkeypatch.setattr(writes_pytorch, "_called", forgetting)
    module = writes_pytorch.Written(["rectified"], torch.float32, torch.zeros(3, 4))
    inputs = [torch.from_numpy(np.full((3, 4), -1, np.float32)) for _ in range(2)]
    with pytest.raises(AssertionError, match="call 0: result 1"):
        writes_pytorch._compiled(module, inputs, "CPU", "float32")
