"""`explorer reduce`: a model, a command, and three small files."""

import json
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from explorer.importers.arrays import read_arrays

sys.path.insert(0, str(Path(__file__).parent))
from json_page import documented


@pytest.fixture
def digits(sample_models: Path, tmp_path: Path) -> list[str]:
    model = sample_models / "digits_mlp.onnx"
    (value,) = onnx.load(model).graph.input
    shape = [d.dim_value or 1 for d in value.type.tensor_type.shape.dim]
    np.savez(tmp_path / "x.npz", **{value.name: np.ones(shape, np.float32)})
    return [str(model), "--input", str(tmp_path / "x.npz"), "-o", str(tmp_path / "small.onnx")]


def fails_for(operator: str, folder: Path) -> str:
    """A command that ends with status 3 for models that have this operator."""
    path = folder / "fails.sh"
    path.write_text(f'grep -q {operator} "$1" && echo "has {operator}" && exit 3\nexit 0\n')
    return f"sh {path} {{model}} {{input}}"


def test_what_a_command_refuses_is_reduced(explorer_command, digits, tmp_path):
    command = fails_for("Relu", tmp_path)
    finished = explorer_command("reduce", *digits, "--while", command, "--json")
    assert finished.status == 0
    told = json.loads(finished.output)
    assert (told["kind"], told["operations"], told["operators"]) == ("status 3", 1, ["Relu"])
    assert told["operations_before"] > 3
    assert list(told) == documented("reduce")
    model = onnx.load(tmp_path / "small.onnx")
    onnx.checker.check_model(model, full_check=True)
    arrays = read_arrays(tmp_path / "small.npz")
    assert [value.name for value in model.graph.input] == list(arrays)
    page = (tmp_path / "small.md").read_text()
    assert page.startswith("# `small.onnx` fails: status 3\n\n1 operation and ")
    assert "has Relu" in page
    assert command.replace("{model}", "small.onnx").replace("{input}", "small.npz") in page
    assert not (tmp_path / "small.onnx.reducing").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--while", "true {model}"], "it does not fail"),
        (["--while", "true"], "the command has no place for the model"),
        (["--while", "/no/such/program {model}"], "cannot be run: No such file"),
        (["--while", "sh -c 'sleep 60' {model}", "--seconds", "1"], "it hangs: it did not end"),
        (["--target", "no-such-target"], "no-such-target"),
        (["--input", "nothing.npz"], "no such file"),
        (["-o", "small.txt"], "models are written as .onnx"),
    ],
)
def test_what_cannot_be_reduced_is_refused(explorer_command, digits, tmp_path, options, message):
    finished = explorer_command("reduce", *digits, *options)
    assert finished.status == 2
    assert message in finished.errors
    assert [path.name for path in tmp_path.iterdir()] == ["x.npz"]


def test_an_interrupted_command_says_where_it_goes_on(
    explorer_command, digits, tmp_path, monkeypatch
):
    from explorer.reducing.conditions import Command

    ask, count = Command.__call__, 0

    def interrupted(self, candidate):
        nonlocal count
        count += 1
        if count == 4:
            raise KeyboardInterrupt
        return ask(self, candidate)

    monkeypatch.setattr(Command, "__call__", interrupted)
    command = ["reduce", *digits, "--while", fails_for("Relu", tmp_path)]
    finished = explorer_command(*command)
    assert finished.status == 130
    assert "small.onnx.reducing; the same command goes on there" in finished.errors
    assert not (tmp_path / "small.onnx").exists()
    other = explorer_command("reduce", *digits, "--while", "false {model}")
    assert other.status == 2
    assert "another model, input or condition" in other.errors
    assert explorer_command(*command).status == 0
    assert (tmp_path / "small.onnx").is_file()
