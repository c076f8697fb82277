"""What lesson 19 says, and what its cells show."""

from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import pytest

from explorer.course import exercises
from explorer.course.predictions import check

lessons = SimpleNamespace(**run_path(str(Path(__file__).parent / "lessons.py")))
KEY = {"computed": 20_100, "moved": 524_288, "copied": 0, "needed": True}


@pytest.fixture(scope="module")
def lesson():
    lesson = lessons.Lesson("19_a_cache_and_what_it_costs_to_move_it")
    lesson.run("cell-21", KEY)
    return lesson


def test_predictions_answered_with_the_key_are_right(lesson):
    shown = [lesson.shown[cell].state for cell in ("cell-04", "cell-07", "cell-09", "cell-13")]
    assert shown == ["right"] * 4


def test_input_and_output_of_a_kept_cache_are_one_place(lesson):
    program = lesson["kept"].program
    places = {port.name: port.offset_bytes for port in (*program.inputs, *program.outputs)}
    assert places["keys"] == places["new_keys"] != places["values"] == places["new_values"]


def test_one_of_two_states_that_change_places_says_why_it_is_copied(lesson):
    reasons = lesson["swapped"]["write-in-place"].artifacts["state copies"]
    assert sum(bool(reason) for reason in reasons.values()) == 1


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (100_663_296, "✓"),
        (50_331_648, "keys and values"),
        (25_165_824 * 2, "keys and values"),
        (7, "not what all layers"),
        ("7", "a number"),
        (True, "a number"),
    ],
)
def test_bytes_of_a_cache_are_judged(answer, words):
    judge = exercises.cache_size(layers=24, heads=8, size=64, rows=2048, element_bytes=2)
    assert words in str(check(answer, judge))


@pytest.mark.parametrize(
    ("answer", "words"),
    [(6200, "✓"), (12_370, "out again"), (1, "another number"), ("x", "a number of rows")],
)
def test_rows_are_judged(answer, words):
    judge = exercises.rows_that_cost_as_much(weights_bytes=152_000_000, row_bytes=12_288)
    assert words in str(check(answer, judge))


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        (["q=s", "p=t"], "✓"),
        (["p=s", "q=t"], "bytes are copied"),
        (["q=s"], "p would be given"),
        (["x=r"], "p and q would be given"),
        (["p=r"], "p"),
        (["y=z"], "y"),
        ("q=s", "a list"),
        ([1, 2], "a list"),
    ],
)
def test_pairs_are_judged_by_what_the_program_does(lesson, pairs, words):
    judge = exercises.keeps_in_place(lesson["unnamed"], {"p", "q"})
    assert words in str(check(pairs, judge))
