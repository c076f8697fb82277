"""Predictions and exercises: being wrong is answered with the compiler's state, never raised."""

import numpy as np
import pytest

from explorer.compilation.course import check, predict


def test_a_right_prediction():
    verdict = predict("How many?", 11).check(np.int64(11), "One each.")
    assert verdict.is_right
    assert str(verdict) == "✓ as you said: 11. One each."


def test_a_wrong_prediction_is_told_the_state():
    verdict = predict("How many?", 9).check(11, "One each.")
    assert not verdict.is_right
    assert str(verdict) == "✗ you said 9; the compiler says 11. One each."


def test_a_missing_prediction_is_told_the_state():
    verdict = predict("How many?", ...).check(11)
    assert verdict.state == "not answered yet"
    assert str(verdict) == "○ no prediction; the compiler says 11"


def test_a_prediction_shows_its_question():
    assert str(predict("How many?", 9)) == "? How many? You say 9."
    assert str(predict("How many?")) == "? How many? (Put your answer in the place of the dots.)"


@pytest.mark.parametrize(
    ("answer", "truth"),
    [
        (3, 3.0),
        (1 / 3, np.float32(1 / 3)),
        (True, np.bool_(True)),
        ({"a", "b"}, frozenset({"b", "a"})),
        (["b", "a"], {"a", "b"}),
        ((2, 14), (2, 14)),
        ([2, 14], (2, 14)),
        ("unroll", "unroll"),
    ],
)
def test_answers_that_are_the_same(answer, truth):
    assert check(answer, truth).is_right


@pytest.mark.parametrize(
    ("answer", "truth"),
    [
        ("3", 3),
        (1, True),
        (True, 1),
        (3.1, 3),
        ("ab", {"a", "b"}),
        ({"a"}, {"a", "b"}),
        ((14, 2), (2, 14)),
        (None, 0),
    ],
)
def test_answers_that_are_not(answer, truth):
    verdict = check(answer, truth)
    assert verdict.state == "wrong"


def test_an_exercise_that_was_not_answered_keeps_the_answer_to_itself():
    verdict = check(..., 12345, "count them")
    assert verdict.state == "not answered yet"
    assert str(verdict) == "○ not answered yet. count them"


def test_a_judge_may_say_why_not():
    def is_even(number):
        return number % 2 == 0 or f"{number} is odd"

    assert str(check(4, is_even, "try 2")) == "✓ right"
    assert str(check(3, is_even, "try 2")) == "✗ 3 is odd. try 2"
    assert str(check(3, lambda number: False)) == "✗ not right yet"


def test_what_a_judge_raises_is_shown_and_not_raised():
    verdict = check("not a compilation", lambda c: c.accuracy().passed)
    assert verdict.state == "wrong"
    assert "cannot be checked: AttributeError" in str(verdict)


def test_html_is_escaped():
    assert "you say &lt;b&gt;; the compiler says a &amp; b" in check("<b>", "a & b")._repr_html_()
    assert "a &lt; b" in predict("a < b?")._repr_html_()
