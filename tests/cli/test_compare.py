"""`explorer compare A B`: status, JSON and page."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.cli.json_page import JSON_PAGE


@pytest.fixture
def changed(sample_models: Path, tmp_path: Path) -> Path:
    """digits_mlp with another sign of its last layer's weights."""
    model = onnx.load(sample_models / "digits_mlp.onnx")
    name = [node for node in model.graph.node if node.op_type == "Gemm"][-1].input[1]
    (held,) = (tensor for tensor in model.graph.initializer if tensor.name == name)
    held.CopyFrom(numpy_helper.from_array(-numpy_helper.to_array(held), name))
    onnx.save(model, tmp_path / "changed.onnx")
    return tmp_path / "changed.onnx"


def test_a_model_agrees_with_itself(explorer_command, sample_models):
    model = sample_models / "digits_mlp.onnx"
    finished = explorer_command("compare", model, model)
    assert finished.status == 0, finished.errors
    assert "no tensor differs" in finished.output


def test_a_difference_is_named_with_status_1(explorer_command, sample_models, changed):
    finished = explorer_command("compare", sample_models / "digits_mlp.onnx", changed, "--json")
    assert finished.status == 1
    printed = json.loads(finished.output)
    first = printed["first_difference"]
    assert first["operator_a"] == first["operator_b"] == "Gemm"
    assert printed["matched"][-1]["tensor_a"] == first["tensor_a"]
    assert (printed["unmatched_a"], printed["unmatched_b"]) == ([], [])
    section = JSON_PAGE.read_text().split("## `explorer compare A B --json`\n")[1]
    assert all(f"`{field}`" in section.split("\n## ")[0] for field in printed)


def test_the_page_shows_both_models(explorer_command, sample_models, changed, tmp_path):
    page = tmp_path / "page.html"
    finished = explorer_command(
        "compare", sample_models / "digits_mlp.onnx", changed, "-o", page, "--seed", "3"
    )
    assert finished.status == 1
    text = page.read_text(encoding="utf-8")
    assert "changed" in text and "first difference" in text and "<script" in text


def test_arrays_that_no_model_takes_are_refused(explorer_command, sample_models, changed, tmp_path):
    np.savez(tmp_path / "x.npz", nobody=np.zeros(3))
    finished = explorer_command("compare", changed, changed, "--input", tmp_path / "x.npz")
    assert finished.status == 2
    assert "neither model has an input 'nobody'" in finished.errors
