"""What lesson 2 says, and what its cells show."""

from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import pytest

from explorer.course import exercises
from explorer.course.predictions import check

lessons = SimpleNamespace(**run_path(str(Path(__file__).parent / "lessons.py")))
KEY = {"weights": True, "convolutions": False, "numbers": False}
AFTER = "fuse-activation"


@pytest.fixture(scope="module")
def lesson():
    lesson = lessons.Lesson("02_reading_ir")
    lesson.run("cell-10", KEY)
    return lesson


def text(lesson) -> str:
    return "\n".join(lesson["lines"])


def test_predictions_answered_with_the_key_are_right(lesson):
    for cell in ("cell-05", "cell-06", "cell-10"):
        assert lesson.shown[cell].state == "right", cell


def test_the_line_has_the_parts_of_the_table(lesson):
    line = lesson.printed["cell-01"].strip()
    assert line.startswith("%conv8 = top.conv(%conv7, %w3, bias = %w4) {activation = ")
    assert line.endswith(": tensor<1x32x8x8xf32>")
    assert "pads = [1, 1, 1, 1]" in line


def test_a_reader_before_its_value_is_named(lesson):
    assert lesson["said"] == "%conv7 is not defined above"


def test_the_later_type_has_the_encoding_that_the_text_explains(lesson):
    assert lesson.printed["cell-08"].strip() == "tensor<1x32x8x8xf32, #top.encoding<block = 4>>"


def test_a_shape_is_completed(lesson):
    judge = exercises.shape_with(lesson["c"], "conv2", strides=[2, 2])
    assert check("1x32x4x4", judge).is_right
    lessons.refusals(judge, {"rows and of columns": "1x32x8x8", "channels": "1x16x4x4"})
    assert "4 sizes" in check("32x4x4", judge).message


def test_only_the_line_that_is_asked_for_may_change(lesson):
    c, given = lesson["c"], text(lesson)
    judge = exercises.without_activation(c, AFTER, "conv9")
    relu = 'activation = "relu", '
    at = given.index("%conv9 =")
    assert check(given[:at] + given[at:].replace(relu, "", 1), judge).is_right
    told = {
        "as it was": given,
        "%conv9 is not": given.replace(relu, "", 1),
        "other lines": given.replace(relu, ""),
        "does not take it": given.replace("%conv9 =", "%conv90 ="),
    }
    for sentence, answer in told.items():
        assert sentence in check(answer, judge).message, sentence
    for strange in (None, {}, 7, "x" * 300_000):
        assert check(strange, judge).state == "wrong"


def test_a_damaged_program_is_repaired_with_two_lines(lesson):
    c, given = lesson["c"], text(lesson)
    damaged = exercises.damaged_text(c, AFTER)
    changed = [a for a, b in zip(damaged.splitlines(), given.splitlines(), strict=True) if a != b]
    assert len(changed) == 2
    judge = exercises.repaired(c, AFTER, most=2)
    assert check(given, judge).is_right
    half = damaged.replace("%conv88", "%conv8")
    told = {
        "not defined": damaged,
        "results are 1x48x2x3": half,
        "lines differ": given.replace(" {kind", "  {kind").replace("group = 1, ", "group = 1,  "),
    }
    for sentence, answer in told.items():
        assert sentence in check(answer, judge).message, sentence


def test_a_valid_program_of_other_numbers_is_no_repair(lesson):
    """Another kind of pool is a valid line, in place of the one with the wrong shape."""
    given = text(lesson)
    at = given.index("%pool2 =")
    other = given[:at] + given[at:].replace('kind = "max"', 'kind = "average"', 1)
    judge = exercises.repaired(lesson["c"], AFTER, most=2)
    assert "something else" in check(other, judge).message
