"""What lesson 16 says, and what its cells show."""

from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import pytest

from explorer.course import exercises
from explorer.course.predictions import check

lessons = SimpleNamespace(**run_path(str(Path(__file__).parent / "lessons.py")))
KEY = {"flash": 120, "allocates": False, "halved": True}


@pytest.fixture(scope="module")
def lesson(tmp_path_factory):
    lesson = lessons.Lesson("16_deploy")
    lesson.run("cell-18", KEY)
    return lesson


def test_predictions_answered_with_the_key_are_right(lesson):
    assert [lesson.shown[cell].state for cell in ("cell-03", "cell-10", "cell-14")] == ["right"] * 3


def test_the_cells_show_the_interface_and_the_table(lesson):
    assert "digits_cnn_init(" in lesson.printed["cell-07"]
    assert "static const struct launch launches" in lesson.printed["cell-09"]
    assert "14,592 bytes" in lesson.printed["cell-09"]
    assert lesson.printed["cell-05"].count("\n") == 10


def test_the_self_test_passes_or_the_missing_tool_is_named(lesson):
    for build in (lesson["build"], lesson["small_build"]):
        assert build.passed or (build.passed is None and build.note)


def test_the_small_program_names_as_many_digits(lesson):
    right = (
        lesson.shown["cell-17"] if isinstance(lesson.shown["cell-17"], dict) else lesson["right"]
    )
    assert right["float"] >= 38 and right["int8"] >= right["float"] - 1


def test_compilations_that_are_too_large_or_for_another_target_do_not_fit(lesson):
    judge = exercises.fits_into(4096, "cortex-m4")
    assert check(lesson["small"], judge).is_right
    assert not check(lesson["c"], judge).is_right
    assert not check(lesson["small"], exercises.fits_into(4096, "cortex-m0")).is_right
    assert not check(3648, judge).is_right
