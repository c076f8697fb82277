"""Seeded Caffe nets of one layer: drawn alike from one seed, and judged by OpenCV."""

from __future__ import annotations

import json
from dataclasses import replace
from math import prod
from pathlib import Path

import numpy as np
import pytest

from explorer.cli import main
from explorer.importers.caffe.layers.register import converters
from verification.conformance.caffe import suite
from verification.conformance.caffe.drawing import Draw
from verification.conformance.caffe.suite import DRAWS, Suite, draw_case
from verification.conformance.choices import LARGE

pytest.importorskip("cv2", reason="OpenCV judges here: the extra caffe")


def test_one_seed_draws_one_net():
    first, again, other = (draw_case("Convolution", seed, 2) for seed in (4, 4, 5))

    assert first.files == again.files != other.files
    assert all(np.array_equal(first.inputs[n], again.inputs[n]) for n in first.inputs)


@pytest.mark.parametrize("kind", ["Convolution", "Pooling", "Eltwise", "ROIPooling"])
def test_every_second_case_is_large(kind: str):
    drawn = [DRAWS[kind](Draw(1, kind, number)) for number in range(0, 12, 2)]

    assert all(max(prod(array.shape) for array in each.inputs) >= LARGE for each in drawn)


def test_what_is_not_drawn_is_what_opencv_does_not_run_or_gets_wrong():
    assert set(converters()) - set(DRAWS) == {
        "ArgMax", "Axpy", "Bias", "Clip", "DepthwiseConvolution", "Padding", "Reduction",
        "Threshold", "Tile"}  # fmt: skip
    assert set(DRAWS) <= set(converters())


@pytest.mark.parametrize("case", ["Pooling-1", "Slice-3", "Proposal-1", "BatchNorm-0"])
def test_cases_are_right_interpreted(case: str):
    assert Suite(seed=3).run(case, case.partition("-")[0], "INTERPRETER").reason == ""


def test_a_case_is_right_as_generated_code():
    assert Suite(seed=3).run("PReLU-1", "PReLU", "CPU").status == "passed"


def test_a_small_difference_is_wrong(monkeypatch: pytest.MonkeyPatch):
    legal = draw_case("Softmax", 3, 1)
    moved = {name: array * np.float32(1.001) for name, array in legal.expected.items()}
    monkeypatch.setattr(suite, "draw_case", lambda *_: replace(legal, expected=moved))

    assert Suite(seed=3).run("Softmax-1", "Softmax", "INTERPRETER").status == "wrong"


def test_the_command_keeps_both_files_and_says_the_seed(tmp_path: Path):
    words = ["--suite", "caffe", "--device", "INTERPRETER", "--only", "^Power-", "--seed", "6"]
    files = ["--per-op", "1", "--json", str(tmp_path / "o.json"), "--keep", str(tmp_path / "kept")]
    report = ["--report", str(tmp_path / "r.md")]
    assert main(["conformance", *words, *files, *report]) == 0
    found = json.loads((tmp_path / "o.json").read_text())

    assert (found["suite"], found["seed"], "opencv" in found) == ("caffe", 6, True)
    assert [outcome["status"] for outcome in found["outcomes"]] == ["passed"]
    kept = sorted(path.name for path in (tmp_path / "kept").iterdir())
    assert kept == ["Power-0.caffemodel", "Power-0.prototxt"]
    assert "# Conformance of Caffe" in (tmp_path / "r.md").read_text()
