"""Seeded TFLite models of one operator: drawn alike from one seed, and judged by LiteRT."""

from __future__ import annotations

import json
from dataclasses import replace
from math import prod
from pathlib import Path

import numpy as np
import pytest

from explorer.cli import main
from verification.conformance.choices import LARGE
from verification.conformance.tflite import suite
from verification.conformance.tflite.drawing import Draw
from verification.conformance.tflite.suite import DRAWS, Suite, draw_case

pytest.importorskip("ai_edge_litert", reason="LiteRT judges here: the extra tflite")


def test_one_seed_draws_one_model():
    first, again, other = (draw_case("CONV_2D", seed, 2) for seed in (4, 4, 5))

    assert first.files == again.files != other.files
    assert all(np.array_equal(first.inputs[n], again.inputs[n]) for n in first.inputs)


@pytest.mark.parametrize("kind", ["CONV_2D", "ADD", "LOGISTIC", "MEAN"])
def test_every_second_case_is_large(kind: str):
    drawn = [DRAWS[kind](Draw(1, kind, number)) for number in range(0, 12, 2)]

    assert all(max(prod(t.shape) for t in (*d.inputs, *d.results)) >= LARGE for d in drawn)


@pytest.mark.parametrize("case", ["DEPTHWISE_CONV_2D-1", "PRELU-0", "STRIDED_SLICE-3", "UNIQUE-1"])
def test_cases_are_right_interpreted(case: str):
    assert Suite(seed=3).run(case, case.partition("-")[0], "INTERPRETER").reason == ""


def test_a_case_is_right_as_generated_code():
    assert Suite(seed=3).run("ONE_HOT-1", "ONE_HOT", "CPU").status == "passed"


def test_a_step_of_difference_is_wrong(monkeypatch: pytest.MonkeyPatch):
    legal = draw_case("ADD", 3, 1)
    assert legal.expected["y"].dtype.kind in "iuf"
    moved = replace(legal, expected={"y": legal.expected["y"] + legal.expected["y"].dtype.type(1)})
    monkeypatch.setattr(suite, "draw_case", lambda *_: moved)

    assert Suite(seed=3).run("ADD-1", "ADD", "INTERPRETER").status == "wrong"


def test_the_command_keeps_models_and_says_the_seed_of_a_sample(tmp_path: Path):
    words = ["--suite", "tflite", "--device", "INTERPRETER", "--only", "^ABS-", "--seed", "6"]
    sample = ["--per-op", "2", "--every", "2"]
    files = ["--json", str(tmp_path / "o.json"), "--keep", str(tmp_path / "kept")]
    assert main(["conformance", *words, *sample, *files]) == 0
    report = json.loads((tmp_path / "o.json").read_text())

    assert (report["suite"], report["seed"]) == ("tflite", 6)
    assert [(o["case"], o["status"]) for o in report["outcomes"]] == [("ABS-0", "passed")]
    assert (tmp_path / "kept" / "ABS-0.tflite").read_bytes()[4:8] == b"TFL3"


def test_several_patterns_choose_the_cases_of_all_of_them(tmp_path: Path):
    outcomes, report = tmp_path / "o.json", tmp_path / "report.md"
    words = ["--suite", "tflite", "--device", "INTERPRETER", "--per-op", "1", "--seed", "6"]
    only = ["--only", "^ABS-", "--only", "^NEG-"]
    assert (
        main(["conformance", *words, *only, "--json", str(outcomes), "--report", str(report)]) == 0
    )

    found = json.loads(outcomes.read_text())["outcomes"]
    assert [outcome["case"] for outcome in found] == ["ABS-0", "NEG-0"]
    assert "--only ^ABS- --only ^NEG-" in report.read_text()


def test_patterns_that_choose_nothing_are_all_named(capsys: pytest.CaptureFixture[str]):
    assert main(["conformance", "--suite", "tflite", "--only", "nothing", "--only", "at all"]) == 2
    assert "no case has 'nothing' or 'at all' in its name" in capsys.readouterr().err


def test_options_of_one_suite_are_refused_for_the_other():
    assert main(["conformance", "--seed", "1", "--only", "^test_abs$"]) == 2
    assert main(["conformance", "--suite", "tflite", "--oracle"]) == 2
