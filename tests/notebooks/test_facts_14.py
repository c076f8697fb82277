"""What lesson 14 says, and what its cells show."""

from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import pytest

from explorer.course import exercises
from explorer.course.predictions import check

lessons = SimpleNamespace(**run_path(str(Path(__file__).parent / "lessons.py")))
KEY = {"conv": "cpu", "more": "more", "same": True, "joined": False}
PREDICTIONS = ("cell-04", "cell-10", "cell-13", "cell-16")
PINS = {"conv7": "accelerator", "conv8": "cpu", "conv9": "accelerator"}


@pytest.fixture(scope="module")
def lesson():
    lesson = lessons.Lesson("14_where_things_run")
    lesson.run("cell-17", KEY)
    return lesson


def test_predictions_answered_with_the_key_are_right(lesson):
    assert [lesson.shown[cell].state for cell in PREDICTIONS] == ["right"] * 4


def test_the_picture_takes_ten_milliseconds(lesson):
    found = lesson["camera"](1e8)
    assert found.seconds == pytest.approx(6e-3)

    assert lesson["camera"](1e9).devices["conv"] == "gpu"


def test_the_cut_lies_after_the_pool_and_moves_with_the_bandwidth(lesson):
    assert [(t.value, t.size_bytes) for t in lesson["fast"].placement.transfers] == [
        ("image", 256), ("pool2", 768)]  # fmt: skip
    assert [(t.value, t.size_bytes) for t in lesson["slow"].placement.transfers] == [
        ("image", 256), ("dense2", 40)]  # fmt: skip
    bars = [line.count("█") for line in lesson.printed["cell-11"].splitlines()]
    assert bars == [8, 8, 8, 8, 5, 4, 4]


def test_the_cycle_is_named_and_both_halves_run_where_they_are_cheaper(lesson):
    assert "topk1 -> add1: cycle: what lies between the two would wait" in lesson.printed["cell-16"]
    devices = {op.operation: op.device for op in lesson["loop"].placement.operations}
    assert devices["topk1"] == "accelerator" and devices["cast1"] == "cpu"


def test_a_bandwidth_is_judged_by_what_runs_elsewhere(lesson):
    judge = exercises.keeps_all_on("cpu", lesson["c"], lesson["prices"])
    assert check(1e6, judge).is_right
    for wrong in (1e8, 0, -1.0, float("nan"), float("inf"), True, "1e6", None):
        assert not check(wrong, judge).is_right


def test_pins_are_judged_by_devices_and_numbers(lesson):
    judge = exercises.runs_on(PINS)
    pins = {f"assign/device/{name}": device for name, device in PINS.items()}
    assert check(lesson["fast"].fork(decisions=pins), judge).is_right
    for wrong in (lesson["fast"], lesson["loop"], pins):
        assert not check(wrong, judge).is_right


def test_a_cost_is_judged_within_a_hundredth(lesson):
    decisions = lesson["prices"](1e8) | {"assign/device": "accelerator"}
    judge = exercises.cost_of(lesson["c"].fork(decisions=decisions))
    assert check(92.96, judge).is_right and check(93, judge).is_right
    assert "transfers are missing" in check(80, judge).message
    for wrong in (310, True, "93", float("nan")):
        assert not check(wrong, judge).is_right
