"""Calibrating, and commands that quantize."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from explorer.cli import main


@pytest.fixture(scope="module")
def mlp(sample_models: Path) -> Path:
    return sample_models / "digits_mlp.onnx"


@pytest.fixture(scope="module")
def data(sample_models: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "digits.npz"
    np.savez(path, image=np.load(sample_models / "digits_test.npz")["images"][:20])
    return path


@pytest.fixture(scope="module")
def table(mlp: Path, data: Path) -> Path:
    path = data.with_name("mlp.table")
    assert main(["calibrate", str(mlp), "--data", str(data), "-o", str(path)]) == 0
    return path


def test_a_table_says_its_model_and_its_method(table):
    lines = table.read_text().splitlines()
    assert lines[0].startswith("# model ") and lines[1] == "# method best, 20 examples"
    assert lines[2].startswith("# corrections mlp.table.npz ")
    assert lines[3] == "# name threshold min max"
    assert all(len(line.split()) == 4 for line in lines[4:])


def test_corrections_are_chosen(explorer_command, mlp, data, tmp_path):
    path = tmp_path / "mlp.table"
    asked = ("calibrate", mlp, "--data", data, "--method", "min-max", "-o", path)
    found = explorer_command(*asked, "--corrections", "bias,cle", "--json")
    effects = json.loads(found.output)["corrections"]
    assert list(effects) == ["bias"] and effects["bias"]
    assert all(e["error_after"] <= e["error"] for e in effects["bias"])
    path.with_name("mlp.table.npz").unlink()
    refused = explorer_command("check", mlp, "--quantize", path)
    assert refused.status == 2 and "mlp.table.npz" in refused.errors
    assert explorer_command(*asked, "--corrections", "none").status == 0
    assert "# corrections" not in path.read_text()
    assert explorer_command(*asked, "--corrections", "blas").status == 2


def test_check_tells_decibels_and_bits(explorer_command, mlp, table, data, tmp_path):
    one = tmp_path / "one.npz"
    np.savez(one, image=np.load(data)["image"][:1])
    asked = ("check", mlp, "--quantize", table, "--input", one)
    finished = explorer_command(*asked, "--json")
    summary = json.loads(finished.output)
    assert finished.status == 0 and summary["passed"] and summary["bit_exact"]
    (output,) = summary["float"]
    assert set(output) == {"name", "sqnr_db", "cosine"} and 20 < output["sqnr_db"] < 70
    finished = explorer_command(*asked, "--min-sqnr", "90")
    assert finished.status == 1 and "at least 90 wanted" in finished.errors
    assert "equal bit by bit" in finished.output


def test_run_computes_in_integers(explorer_command, mlp, table, data, tmp_path):
    one, plain, quantized = (tmp_path / f"{name}.npz" for name in ("one", "plain", "quantized"))
    np.savez(one, image=np.load(data)["image"][:1])
    run = ("run", mlp, "--input", one, "--output")
    assert explorer_command(*run, plain).status == 0
    assert explorer_command(*run, quantized, "--quantize", table).status == 0
    # Once more: what is kept of both is not mixed up.
    assert explorer_command(*run, plain).status == 0
    real, rounded = np.load(plain)["logits"], np.load(quantized)["logits"]
    assert not np.array_equal(real, rounded)
    assert np.abs(real - rounded).max() < 0.1 * np.abs(real).max()


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"images": np.zeros((4, 1, 8, 8), np.float32)}, "no input `images`"),
        ({"image": np.zeros((4, 8, 9), np.float32)}, "expected is (N, 1, 8, 8)"),
        ({"image": np.zeros((0, 1, 8, 8), np.float32)}, "are empty"),
        ({"image": np.full((2, 1, 8, 8), np.nan, np.float32)}, "128 numbers that are NaN"),
        ({"image": np.zeros((2, 1, 8, 8), np.complex64)}, "complex64"),
        ({}, "no array `image`"),
    ],
)
def test_data_that_do_not_fit_are_refused(explorer_command, mlp, tmp_path, arrays, said):
    path, output = tmp_path / "data.npz", tmp_path / "table"
    np.savez(path, **arrays)
    finished = explorer_command("calibrate", mlp, "--data", path, "-o", output)
    assert finished.status == 2 and said in finished.errors
    assert not output.exists()


def test_what_is_no_archive_or_no_method_is_refused(explorer_command, mlp, data, tmp_path):
    output = tmp_path / "table"
    finished = explorer_command("calibrate", mlp, "--data", mlp, "-o", output)
    assert finished.status == 2 and "no archive of arrays" in finished.errors
    asked = ("calibrate", mlp, "--data", data, "--method", "best-of", "-o", output)
    finished = explorer_command(*asked)
    assert finished.status == 2 and "did you mean 'best'" in finished.errors
    assert not output.exists()


def test_the_table_of_another_model_is_refused(explorer_command, sample_models, table, tmp_path):
    other = sample_models / "digits_cnn.onnx"
    finished = explorer_command("compile", other, "--quantize", table)
    assert finished.status == 2 and "another file than that of digits_cnn" in finished.errors
    unsigned = tmp_path / "table"
    unsigned.write_text("\n".join(table.read_text().splitlines()[3:]))
    finished = explorer_command("compile", other, "--quantize", unsigned)
    assert finished.status == 2 and "the model has no tensor" in finished.errors


def test_modes_need_thresholds(explorer_command, mlp, table, tmp_path):
    modes = tmp_path / "modes"
    modes.write_text("image F32\n")
    finished = explorer_command("compile", mlp, "--qtable", modes)
    assert finished.status == 2 and "--quantize" in finished.errors
    assert explorer_command("compile", mlp, "--quantize", table, "--qtable", modes).status == 0


# -- writing ---------------------------------------------------------------------------------------


def test_a_quantized_model_is_written_and_read_back(explorer_command, mlp, table, data, tmp_path):
    written = tmp_path / "mlp.int8.onnx"
    finished = explorer_command("quantize", mlp, "--table", table, "-o", written)
    assert finished.status == 0 and f"tensors quantized; wrote {written}" in finished.output
    one, first, second = (tmp_path / f"{name}.npz" for name in ("one", "first", "second"))
    np.savez(one, image=np.load(data)["image"][:1])
    run = ("run", "--input", one, "--output")
    assert explorer_command(*run, first, mlp, "--quantize", table).status == 0
    assert explorer_command(*run, second, written).status == 0
    assert np.array_equal(np.load(first)["logits"], np.load(second)["logits"])


def test_what_stays_float_is_listed(explorer_command, mlp, table, tmp_path):
    modes, written = tmp_path / "modes", tmp_path / "out.onnx"
    modes.write_text("image F32\n")
    asked = ("quantize", mlp, "--table", table, "--qtable", modes, "-o", written)
    summary = json.loads(explorer_command(*asked, "--json").output)
    tensors = sum(not line.startswith("#") for line in table.read_text().splitlines())
    assert summary["opset"] == 21 and summary["tensors"] == tensors - 1
    (first,) = summary["float"]
    assert (first["kind"], first["reason"]) == ("top.matmul", "an operand is not quantized")
    assert "1 operations stay float (an operand is not" in explorer_command(*asked).output


def test_nothing_is_written_for_a_table_that_does_not_fit(
    explorer_command, sample_models, table, tmp_path
):
    written = tmp_path / "out.onnx"
    other = sample_models / "digits_cnn.onnx"
    finished = explorer_command("quantize", other, "--table", table, "-o", written)
    assert finished.status == 2 and "another file than that of digits_cnn" in finished.errors
    assert not list(tmp_path.iterdir())
