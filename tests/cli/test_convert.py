"""`explorer convert`: models of other formats as ONNX files."""

import json
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

import explorer
from explorer.errors import InputError

sys.path.insert(0, str(Path(__file__).parent))
from json_page import documented

from verification.conformance.tflite.models import OperatorOf, TensorOf, model_of


@pytest.fixture
def relu(tmp_path):
    """A TFLite model of one operator."""
    numbers = TensorOf(name="x", shape=(4,), element_type="int8", scales=[0.5], zeros=[3])
    result = TensorOf(name="y", shape=(4,), element_type="int8", scales=[0.5], zeros=[3])
    path = tmp_path / "relu.tflite"
    operator = OperatorOf(kind="RELU", inputs=[0], outputs=[1])
    path.write_bytes(model_of([numbers, result], [operator], [0], [1]))
    return path


def test_the_command_writes_the_file(explorer_command, relu):
    written = relu.with_suffix(".onnx")
    finished = explorer_command("convert", relu, "-o", written, "--json")
    assert finished.status == 0, finished.errors
    summary = json.loads(finished.output)
    assert list(summary) == documented("convert")
    assert (summary["opset"], summary["operators"]) == (21, ["Cast", "Gather", "Identity"])
    assert len(onnx.load(written).graph.node) == summary["nodes"]
    x = {"x": np.array([-128, 2, 3, 127], np.int8)}
    assert explorer.interpret(written, x)["y"].tolist() == [3, 3, 3, 127]


def test_another_suffix_is_refused_before_anything_is_read(explorer_command, tmp_path):
    finished = explorer_command("convert", tmp_path / "none.tflite", "-o", tmp_path / "net.tflite")
    assert finished.status == 2 and "models are written as .onnx" in finished.errors
    with pytest.raises(InputError, match="without a suffix"):
        explorer.convert(tmp_path / "none.tflite", tmp_path / "net")
