"""What lesson 18 says, and what its cells show."""

from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import pytest

from explorer.compilation.levers import trials
from explorer.course import exercises
from explorer.course.predictions import check

lessons = SimpleNamespace(**run_path(str(Path(__file__).parent / "lessons.py")))
KEY = {"falls": False, "factor": 3, "kept": "stage2"}
PREDICTIONS = ("cell-05", "cell-09", "cell-11")


@pytest.fixture(scope="module")
def lesson():
    lesson = lessons.Lesson("18_three_ways_to_make_it_smaller")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trials, "MAX_TRIALS", 0)  # the lesson shows levers that need none
        lesson.run("cell-11", KEY)
    return lesson


def test_predictions_answered_with_the_key_are_right(lesson):
    assert [lesson.shown[cell].state for cell in PREDICTIONS] == ["right"] * 3


def test_each_way_moves_the_numbers_that_the_table_names(lesson):
    def sizes(compiled):
        return compiled.memory.peak_bytes, compiled.program.weights_bytes

    arena, weights = sizes(lesson["c"])
    assert sizes(lesson["banded"])[0] <= arena * 4 // 5
    assert sizes(lesson["banded"])[1] == weights
    assert sizes(lesson["rounded"]) < (arena // 2, weights // 3)
    early, late = (sizes(lesson["shorter"][stage]) for stage in ("stage1", "stage2"))
    assert early[0] < arena == late[0]
    assert late[1] < early[1] < weights


def test_bands_cost_no_answer_and_the_early_block_most_of_them(lesson):
    right = lesson["right"]
    assert right(lesson["c"]) == right(lesson["banded"]) >= 99
    assert right(lesson["rounded"]) >= 97
    assert right(lesson["shorter"]["stage1"]) < 60 < 90 <= right(lesson["shorter"]["stage2"])


def test_bytes_and_answers_are_judged(lesson):
    tested, known, c = lesson["tested"], lesson["known"], lesson["c"]

    def said(mine, right=99, **limits):
        return check(mine, exercises.is_small_and_right(tested, known, right, **limits))

    assert said(lesson["banded"], arena_bytes=42_000, is_float=True).is_right
    assert "at most 42,000" in said(c, arena_bytes=42_000).message
    assert "weights" in said(c, weights_bytes=35_000).message
    assert "of 100 right" in said(lesson["shorter"]["stage1"]).message
    assert "stay floats" in said(lesson["rounded"], is_float=True).message
    for wrong in (42_000, None, "c", lesson["model"]):
        assert not said(wrong).is_right
