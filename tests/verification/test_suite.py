"""How cases are compared."""

from dataclasses import replace

import numpy as np
import pytest

from explorer.cli import main
from verification.conformance import onnx_cases
from verification.conformance.pytorch import needed
from verification.conformance.suite import Suite, _Runner


def test_sequences_of_single_numbers_can_be_compared() -> None:
    """A case of onnx whose sequence begins with a number, at which onnx's own runner gives up."""
    assert Suite().run("test_loop16_seq_none", "node", "INTERPRETER").passed


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("test_relu", "node"),
        ("test_hardswish_expanded", "node"),
        ("test_ai_onnx_ml_label_encoder_string_int", "node"),
        ("test_expand_shape_model1", "simple"),
    ],
)
def test_one_case_is_found_without_the_others(name: str, group: str, monkeypatch) -> None:
    if group == "node":
        monkeypatch.delattr(onnx_cases, "load_group")
    assert onnx_cases.find_case(name, group).name == name


def test_a_case_whose_name_is_written_nowhere_is_found_among_all(monkeypatch) -> None:
    asked = []
    relu = onnx_cases.find_case("test_relu", "node")
    composed = replace(relu, name="test_composed")
    monkeypatch.setattr(onnx_cases, "load_group", lambda group: asked.append(group) or [composed])
    assert onnx_cases.find_case("test_composed", "node") is composed
    assert asked == ["node"]
    with pytest.raises(KeyError, match="test_none"):
        onnx_cases.find_case("test_none", "node")


@pytest.mark.parametrize(
    "other", [np.zeros((2, 1), np.float32), np.zeros(2), np.ones(2, np.float32)]
)
def test_tensors_of_sequences_agree_in_shape_type_and_numbers(other: np.ndarray) -> None:
    expected = [np.zeros(2, np.float32)]
    _Runner.assert_similar_outputs([expected], [[np.zeros(2, np.float32)]], 1e-3, 1e-7)
    with pytest.raises(AssertionError):
        _Runner.assert_similar_outputs([expected], [[other]], 1e-3, 1e-7)
    with pytest.raises(AssertionError, match="2 results, 1 expected"):
        _Runner.assert_similar_outputs([expected], [[*expected, other]], 1e-3, 1e-7)


@pytest.mark.parametrize("missing", ["torch", "expecttest"])
@pytest.mark.parametrize(
    "command",
    ["conformance --suite pytorch", "fuzz --operators --format pytorch --count 1"],
)
def test_what_the_suite_of_pytorch_needs_is_named(
    command: str, missing: str, monkeypatch, capsys
) -> None:
    """Instead of a traceback from within PyTorch's own tests."""
    monkeypatch.setattr(needed, "find_spec", lambda name: None)
    version = "" if missing == "torch" else "2.13.0"
    monkeypatch.setattr("explorer.references.torch_graph.torch_version", lambda: version)
    assert main([*command.split(), "--device", "INTERPRETER"]) == 2
    assert f"{missing} is not installed; try: pip install" in capsys.readouterr().err
