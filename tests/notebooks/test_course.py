"""Predictions and exercises: a guess comes first, an exercise tells no answer, nothing raises."""

import numpy as np
import pytest

from explorer.course import locking
from explorer.course.predictions import check, give_up, predict, skip, with_truth


def test_a_right_prediction():
    verdict = predict("How many?", 11).check(np.int64(11), "One each.")
    assert verdict.is_right
    assert str(verdict) == "✓ as you said: 11. One each."


def test_a_wrong_prediction_is_told_the_state():
    verdict = predict("How many?", 9).check(11, "One each.")
    assert not verdict.is_right
    assert str(verdict) == "✗ you said 9; the compiler says 11 (off by 2). One each."


def test_without_a_prediction_nothing_is_told():
    verdict = predict("How many?", ...).check(4711, "One each: 4711.", evidence="4711 operations")
    assert verdict.state == "not answered yet"
    assert str(verdict) == "○ first your prediction, or skip()"
    assert "4711" not in verdict._repr_html_()


def test_who_skips_is_told_the_state_and_is_not_right():
    verdict = predict("How many?", skip()).check(11, "One each.")
    assert not verdict.is_right
    assert str(verdict) == "→ the compiler says 11. One each."


@pytest.mark.parametrize(
    ("answer", "truth", "told"),
    [
        ("4711", 4711, "a number, without quotes"),
        (None, 4711, "None is no answer"),
        ({}, 4711, "a number"),
        (True, 4711, "a number"),
        ("True", True, "True or False, without quotes"),
        (1, True, "True or False, without quotes"),
        (3, "unroll", "a name, in quotes"),
        ("a", {"a", "b"}, "several answers, in brackets"),
    ],
)
def test_a_prediction_of_another_kind_is_not_told_the_state(answer, truth, told):
    verdict = predict("How many?", answer).check(truth, "why", evidence="evidence")
    assert verdict.state == "not answered yet"
    assert str(verdict) == f"○ {told}"


def test_a_prediction_may_be_one_of_some_answers():
    question = predict("Which step?", "enroll", choices=["pack", "unroll"])
    assert str(question.check("unroll")) == "○ one of these: 'pack', 'unroll'"
    assert str(question) == "? Which step? You say enroll."
    tile = predict("Which tile?", [2, 14], choices=[(1, 4), (2, 14)])
    assert tile.check((2, 14)).is_right


def test_what_was_measured_need_not_be_met_exactly():
    share = predict("Which share?", 0.75)
    assert share.check(0.8, within=0.1).is_right
    assert str(share.check(0.8, within=0.1)) == "✓ as you said: 0.75; the compiler says 0.8"
    assert not share.check(0.9, within=0.1).is_right
    step = predict("Which step?", "pack")
    assert step.check("unroll", also=["unroll", "pack"]).is_right
    assert not step.check("unroll", also=["unroll"]).is_right


def test_evidence_is_shown_below():
    verdict = predict("How many?", 3).check(3, evidence="a < b")
    assert str(verdict) == "✓ as you said: 3\n\na < b"
    assert "<pre>a &lt; b</pre>" in verdict._repr_html_()
    rich = predict("How many?", 3).check(3, evidence=check(..., 1))
    assert rich._repr_html_().count("<div") == 2


def test_a_prediction_shows_its_question():
    assert str(predict("How many?", 9)) == "? How many? You say 9."
    assert str(predict("How many?")) == "? How many? (Replace the dots with your answer.)"


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
    assert "compiler says" not in str(verdict)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (11, "it is not 11"),
        ("4711", "a number, without quotes"),
        (None, "None is no answer"),
        ({}, "a number"),
        ("x" * 4711, "a number, without quotes"),
    ],
)
def test_an_exercise_does_not_tell_its_answer(answer, told):
    assert str(check(answer, 4711, "count them")) == f"✗ {told}. count them"


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
    assert "it is not &lt;b&gt;" in check("<b>", "a & b")._repr_html_()
    predicted = predict("Which?", "<b>").check("a & b")._repr_html_()
    assert "you said &lt;b&gt;; the compiler says a &amp; b" in predicted
    assert "a &lt; b" in predict("a < b?")._repr_html_()


def test_who_gives_up_is_told_the_only_answer_and_gets_no_point():
    verdict = check(give_up(), with_truth(lambda answer: answer == 11, 11), "Count.")
    assert not verdict.is_right
    assert str(verdict) == "→ it is 11. Count."
    assert str(check(give_up(), {"a", "b"})) == "→ it is a, b"


def test_who_gives_up_where_there_are_many_answers_is_told_where_one_is():
    verdict = check(give_up(), lambda answer: True, "A hint.", "Look there.")
    assert verdict.state == "skipped"
    assert "notebooks/solutions" in verdict.message and "Look there." in verdict.message


@pytest.mark.parametrize("choices", [range(0, 101, 5), range(3)])
def test_a_range_of_numbers_is_a_slider(choices, monkeypatch):
    shown = []
    monkeypatch.setattr("IPython.display.display", shown.append)
    locking._show_widget("How many?", choices)
    (box,) = shown
    slider = box.children[1]
    assert (slider.min, slider.max, slider.step) == (choices[0], choices[-1], choices.step)
    button = box.children[2].children[0]
    button.click()
    assert locking._locked.pop("How many?") == slider.value
    assert slider.disabled
