"""`explorer check --data`: a model judged on what a person attaches."""

import json
from pathlib import Path

import numpy as np
import pytest

from explorer.cli import main
from explorer.importers.samples import sample


def test_outputs_and_right_answers_are_judged_on_the_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    digits = np.load(sample("digits_test"))
    data = tmp_path / "eval.npz"
    np.savez(data, image=digits["images"][:12], labels=digits["labels"][:12])
    mlp = str(sample("digits_mlp"))
    assert main(["check", mlp, "--data", str(data), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["data"] == "eval.npz, 12 examples"
    right, source, total = found["right"]
    assert (right, total) == (source, 12)
    assert float(found["against_source"][0]["sqnr_db"]) > 60  # "Infinity" where all is equal
    assert found["passed"] is True
    assert main(["check", mlp, "--data", str(data)]) == 0
    said = capsys.readouterr().out
    assert "judged on eval.npz, 12 examples" in said
    assert f"{right} of 12 right, source {source} of 12" in said


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--inputs", "hard"], "leave out --data"),
        (["--input", "x.npz"], "--data has the inputs: leave out --input"),
    ],
)
def test_data_and_other_inputs_are_refused_together(
    more: list[str], words: str, capsys: pytest.CaptureFixture[str]
):
    assert main(["check", str(sample("digits_mlp")), "--data", "eval.npz", *more]) == 2
    assert words in capsys.readouterr().err


def test_data_that_do_not_fit_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    np.savez(tmp_path / "few.npz", image=np.zeros((3, 1, 8, 8), np.float32), labels=np.arange(2))
    assert main(["check", str(sample("digits_mlp")), "--data", str(tmp_path / "few.npz")]) == 2
    assert "few.npz has 2 labels for 3 examples" in capsys.readouterr().err
