"""Calibrating, and commands that quantize."""

from __future__ import annotations

import json
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from explorer.cli import main
from explorer.results.runs.sensitivity import MixedPrecision

sys.path.insert(0, str(Path(__file__).parent))
from json_page import documented


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
    assert lines[2].startswith("# corrections mlp.table.corrections.npz ")
    assert lines[3] == "# name threshold min max"
    assert all(len(line.split()) == 4 for line in lines[4:])


def test_the_page_of_json_has_the_fields_of_the_record_of_modes():
    assert documented("mixed") == [field.name for field in fields(MixedPrecision)]


def test_corrections_are_chosen(explorer_command, mlp, data, tmp_path):
    path = tmp_path / "mlp.table"
    asked = ("calibrate", mlp, "--data", data, "--method", "min-max", "-o", path)
    found = explorer_command(*asked, "--corrections", "bias,cle", "--json")
    assert list(json.loads(found.output)) == documented("calibrate")
    effects = json.loads(found.output)["corrections"]
    assert list(effects) == ["bias"] and effects["bias"]
    assert all(e["error_after"] <= e["error"] for e in effects["bias"])
    path.with_name("mlp.table.corrections.npz").unlink()
    refused = explorer_command("check", mlp, "--quantize", path)
    assert refused.status == 2 and "mlp.table.corrections.npz" in refused.errors
    assert explorer_command(*asked, "--corrections", "none").status == 0
    assert "# corrections" not in path.read_text()
    assert explorer_command(*asked, "--corrections", "blas").status == 2


def test_histograms_lie_beside_the_table_and_are_shown(explorer_command, mlp, table):
    assert table.with_name(f"{table.name}.observed.npz").is_file()
    shown = explorer_command(
        "show", str(mlp), "--quantize", str(table), "--what", "quantization"
    ).output
    assert "thresholds: best, 20 examples" in shown
    assert "Candidates of" in shown and "aciq-laplace" in shown


def test_the_app_is_not_started_with_a_table_that_is_none(explorer_command, mlp, tmp_path):
    path = tmp_path / "bad.table"
    path.write_text("conv1 oops\n")
    done = explorer_command("serve", str(mlp), "--quantize", str(path), "--no-browser")
    assert done.status == 2 and "bad.table:1" in done.errors
    done = explorer_command("serve", str(mlp), "--qtable", str(path), "--no-browser")
    assert done.status == 2 and "--qtable without --quantize" in done.errors


def test_check_tells_decibels_and_bits(explorer_command, mlp, table, data, tmp_path):
    one = tmp_path / "one.npz"
    np.savez(one, image=np.load(data)["image"][:1])
    asked = ("check", mlp, "--quantize", table, "--input", one)
    finished = explorer_command(*asked, "--json")
    summary = json.loads(finished.output)
    assert finished.status == 0 and summary["passed"] and summary["bit_exact"]
    (output,) = summary["float"]
    assert set(output) == {"name", "sqnr_db", "cosine"} and 20 < output["sqnr_db"] < 70
    costliest = summary["costliest"]
    assert all(costliest[name] > 20 for name in ("alone_db", "all_db", "without_db"))
    finished = explorer_command(*asked, "--min-sqnr", "90")
    assert finished.status == 1 and "at least 90 wanted" in finished.errors
    assert "equal bit by bit" in finished.output
    assert f"costs the outputs most, by bisection: {costliest['tensor']}, " in finished.output


def test_the_least_decibels_hold_for_all_examples(explorer_command, mlp, table, data, tmp_path):
    """The first example is one of the task; the others lie far outside of what is represented."""
    examples = np.load(data)["image"][:3]
    examples[1:] *= 50
    np.savez(tmp_path / "few.npz", image=examples[:1])
    np.savez(tmp_path / "all.npz", image=examples)
    asked = ("check", mlp, "--quantize", table, "--min-sqnr", "20", "--data")
    finished = explorer_command(*asked, tmp_path / "few.npz")
    assert finished.status == 0 and "examples)" not in finished.output
    finished = explorer_command(*asked, tmp_path / "all.npz")
    assert finished.status == 1 and "at least 20 wanted" in finished.errors
    assert "dB (3 examples)" in finished.output


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
        ({"image": np.full((2, 1, 8, 8), 1e39)}, "beyond float32, whose range is -3.4"),
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
    assert finished.status == 2 and "not a readable .npz file" in finished.errors
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
    assert list(summary) == documented("quantize")
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


# -- tables that cannot be used --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda line: line.replace(line.split()[1], "0"), "is 0, not positive"),
        (lambda line: line.replace(line.split()[1], "-1.5"), "is -1.5, not positive"),
        (lambda line: line.replace(line.split()[1], "nan"), "only finite numbers are thresholds"),
        (lambda line: line.replace(line.split()[1], "inf"), "only finite numbers are thresholds"),
        (lambda line: line.replace(line.split()[1], "wide"), "`wide` is no number"),
        (lambda line: f"{line.split()[0]} 1e-44 0 1e-44", "cannot be represented"),
        (lambda line: f"{line.split()[0]} 1e42 0 1e42", "cannot be represented"),
        (lambda line: "imgae" + line[len("image") :], "did you mean 'image'"),
        (lambda line: "", "lacks 1 tensors of the model: image"),
        (lambda line: " ".join(line.split()[:3]), "3 words; name, threshold, min, max"),
        (lambda line: f"{line}\n{line}", "`image` stands there twice"),
    ],
)
def test_thresholds_that_are_none_are_refused(explorer_command, mlp, table, tmp_path, change, said):
    lines = [line for line in table.read_text().splitlines() if "# corrections" not in line]
    assert lines[3].startswith("image ")
    other, written = tmp_path / "other.table", tmp_path / "out.onnx"
    other.write_text("\n".join([*lines[:3], change(lines[3]), *lines[4:]]) + "\n")
    finished = explorer_command("quantize", mlp, "--table", other, "-o", written)
    assert finished.status == 2 and said in finished.errors
    assert not written.exists()


def test_modes_of_tensors_that_there_are_not_are_refused(explorer_command, mlp, table, tmp_path):
    modes, written = tmp_path / "modes", tmp_path / "out.onnx"
    asked = ("quantize", mlp, "--table", table, "--qtable", modes, "-o", written)
    for line, said in (("imag F32", "did you mean 'image'"), ("image F64", "no mode 'F64'")):
        modes.write_text(line + "\n")
        finished = explorer_command(*asked)
        assert finished.status == 2 and said in finished.errors
        assert not written.exists()


def test_inputs_of_another_scale_are_refused_with_both_ranges(
    explorer_command, mlp, table, data, tmp_path
):
    one = tmp_path / "one.npz"
    np.savez(one, image=255 * np.load(data)["image"][:1])
    finished = explorer_command("check", mlp, "--quantize", table, "--input", one)
    assert finished.status == 2
    assert "lie between 0 and 255; the table was made for 0 to 1" in finished.errors


def test_a_model_without_products_is_refused(explorer_command, tmp_path):
    import onnx

    text = '<ir_version: 9, opset_import: ["" : 17]> none (float[1,4] x) => (float[1,4] y) {'
    model, data, table = (tmp_path / name for name in ("none.onnx", "x.npz", "table"))
    onnx.save(onnx.parser.parse_model(text + " y = Relu (x) }"), model)
    np.savez(data, x=np.ones((2, 4), np.float32))
    finished = explorer_command("calibrate", model, "--data", data, "-o", table)
    assert finished.status == 2 and "nothing in this model can be quantized" in finished.errors
    assert not table.exists()


# -- data ------------------------------------------------------------------------------------------


def test_files_and_folders_of_data_are_one(explorer_command, mlp, table, data, tmp_path):
    folder, other = tmp_path / "folder", tmp_path / "mlp.table"
    folder.mkdir()
    images = np.load(data)["image"]
    np.savez_compressed(folder / "a.npz", image=images[:7])
    np.savez(folder / "b.npz", image=images[7:12])
    np.savez(tmp_path / "c.npz", image=images[12:])
    asked = ("calibrate", mlp, "--data", folder, tmp_path / "c.npz", "-o", other)
    assert explorer_command(*asked).status == 0
    assert other.read_text() == table.read_text()


def test_files_that_do_not_go_together_are_refused(explorer_command, mlp, data, tmp_path):
    images = np.load(data)["image"]
    first, second, table = (tmp_path / name for name in ("a.npz", "b.npz", "table"))
    np.savez(first, image=images[:4])
    asked = ("calibrate", mlp, "--data", first, second, "-o", table)
    for arrays, said in (
        ({"image": 255 * images[:4]}, "between 0 and 255, in"),
        ({"image": images[:4].astype(np.float64)}, "`image` is float64 of shape"),
        ({"picture": images[:4]}, "its arrays are picture"),
    ):
        np.savez(second, **arrays)
        finished = explorer_command(*asked)
        assert finished.status == 2 and said in finished.errors and "b.npz" in finished.errors
    empty = tmp_path / "empty"
    empty.mkdir()
    finished = explorer_command("calibrate", mlp, "--data", empty, "-o", table)
    assert finished.status == 2 and "no .npz file in it" in finished.errors
    assert not table.exists()


def test_cases_name_the_data(explorer_command, mlp, table, data, sample_models, tmp_path):
    images = np.load(data)["image"]
    np.savez(tmp_path / "digits.npz", pictures=16 * images, numbers=np.zeros(20, np.int64))
    cases, other = tmp_path / "cases.toml", tmp_path / "mlp.table"
    labels = '{kind = "arrays", file = "digits.npz", data = "pictures", label = "numbers", '
    steps = 'steps = [["multiply", 0.0625]]}'
    cases.write_text(f"[models.digits_mlp]\nlabels = [{labels}{steps}]\n")
    assert explorer_command("calibrate", mlp, "--cases", cases, "-o", other).status == 0
    assert other.read_text() == table.read_text()
    finished = explorer_command(
        "calibrate", sample_models / "digits_cnn.onnx", "--cases", cases, "-o", other
    )
    assert finished.status == 2 and "it has no case of digits_cnn" in finished.errors


def test_some_examples_are_chosen_by_a_seed(explorer_command, mlp, data, tmp_path):
    def texts(*more):
        path = tmp_path / "table"
        asked = ("calibrate", mlp, "--data", data, "--method", "mse", "-o", path)
        finished = explorer_command(*asked, *more)
        return path.read_text() if finished.status == 0 else finished.errors

    first = texts("--examples", 5, "--seed", 1)
    assert "# method mse, 5 examples" in first
    assert texts("--examples", 5, "--seed", 1) == first != texts("--examples", 5)
    assert "there are 20 examples, not 21" in texts("--examples", 21)
