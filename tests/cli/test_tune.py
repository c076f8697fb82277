"""`explorer tune`: what a person sees of a search, and what it leaves behind."""

import json
from pathlib import Path

import pytest

from explorer.cli import main


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "programs"
    monkeypatch.setenv("EXPLORER_CACHE", str(folder))
    return folder


def test_a_kernel_is_searched_and_its_results_are_kept(
    sample_models: Path, folder: Path, capsys: pytest.CaptureFixture[str]
):
    model = str(sample_models / "digits_mlp.onnx")
    asked = ["tune", model, "--kernel", "matmul_1", "--candidates", "2", "--backend", "threading"]
    assert main([*asked, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    (search,) = result["kernels"]
    assert (search["kernel"], search["default"], result["threads"]) == ("matmul_1", 0, 1)
    assert [c["status"] for c in search["candidates"]] == ["measured", "measured"]
    assert len(list((folder / "searches").iterdir())) == 1

    assert main(asked) == 0
    text = capsys.readouterr().out
    assert text.startswith("2 candidates of 1 kernel of digits_mlp")
    assert "matmul_1" in text


def test_an_unknown_kernel_is_refused_with_a_near_name(
    sample_models: Path, capsys: pytest.CaptureFixture[str]
):
    model = str(sample_models / "digits_mlp.onnx")
    assert main(["tune", model, "--kernel", "matmull_1"]) == 2
    errors = capsys.readouterr().err
    assert "there is no kernel 'matmull_1'" in errors
    assert "matmul_1" in errors
