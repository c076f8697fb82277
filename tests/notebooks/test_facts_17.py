"""What lesson 17 says, and what its cells show."""

from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import pytest

from explorer.course import exercises
from explorer.course.predictions import check

lessons = SimpleNamespace(**run_path(str(Path(__file__).parent / "lessons.py")))
KEY = {"larger": 1, "where": "the link", "narrow": 1.09}
PREDICTIONS = ("cell-08", "cell-11", "cell-16")


@pytest.fixture(scope="module")
def lesson():
    lesson = lessons.Lesson("17_design_an_npu")
    lesson.run("cell-16", KEY)
    return lesson


def test_predictions_answered_with_the_key_are_right(lesson):
    assert [lesson.shown[cell].state for cell in PREDICTIONS] == ["right"] * 3


def test_weights_are_used_often_by_one_network_and_once_by_the_other(lesson):
    lines = lesson.printed["cell-03"].splitlines()
    assert lines == [
        "cnn: 538,240 multiplications, 16.8 for each weight",
        "mlp: 6,464 multiplications, 1.0 for each weight",
    ]


def test_the_link_decides_for_products_and_small_convolutions(lesson):
    cnn, mlp = lesson["cnn"], lesson["mlp"]
    assert all(mlp[1, link] < 1.01 * mlp[16, link] for link in (1, 4, 16))
    assert cnn[16, 1] > 0.85 * cnn[1, 1] and cnn[4, 16] < cnn[16, 4]
    assert cnn[16, 16] == min(cnn.values()) and mlp[16, 16] == min(mlp.values())


def test_no_machine_is_above_its_roof_and_the_largest_is_furthest_below(lesson):
    shares = {m: lesson["roof"]("cnn", *m) / n for m, n in lesson["cnn"].items()}
    assert max(shares.values()) < 1 and min(shares, key=shares.get) == (16, 16)


def test_a_balanced_array_is_judged_within_a_twentieth():
    judge = exercises.balanced_array(538_240, 31_963, bytes_per_cycle=4)
    assert check(67, judge).is_right and check(67.4, judge).is_right
    assert "one byte a cycle" in check(16.8, judge).message
    for wrong in (32, 0, -67, float("nan"), True, "67", None, (67,)):
        assert not check(wrong, judge).is_right


def test_an_array_is_judged_by_its_cycles_and_its_size():
    def cycles_of(batch, rows, columns):
        return f"{rows} rows do not divide" if rows == 3 else 1000 * batch // columns

    judge = exercises.is_a_better_array(cycles_of, than=(4, 4, 8))
    assert check((2, 4, 16), judge).is_right and check([2, 4, 16], judge).is_right
    assert "256 multipliers" in check((4, 4, 16), judge).message
    assert "3 rows" in check((2, 3, 16), judge).message
    assert "cycles" in check((4, 4, 8), judge).message
    for wrong in ((0, 4, 8), (4, 4), (1, 1, 128), (1.0, 4, 8), (True, 4, 8), "448", {}, None):
        assert not check(wrong, judge).is_right


def test_the_smallest_machine_that_is_fast_enough():
    cycles = {(1, 1): 30, (1, 4): 12, (4, 1): 11, (4, 4): 10}
    judge = exercises.smallest_machine(cycles, within=1.25)
    assert check((1, 4), judge).is_right
    assert "smaller" in check((4, 4), judge).message
    assert "3.00 times" in check((1, 1), judge).message
    for wrong in ((2, 4), (1.0, 4), 4, "1, 4", None):
        assert not check(wrong, judge).is_right


def test_a_slower_array_is_told_its_cycles(lesson):
    left_out = ("cell-18", "cell-20-answer", "cell-21", "cell-22-answer")
    lesson.run("cell-23", {**KEY, "answer": (2, 3, 16)}, leave_out=left_out)
    assert lesson.shown["cell-23"].state == "wrong"
    assert "the machine in the middle" in lesson.shown["cell-23"].message
