"""What lesson 5 says, and what its cells show."""

from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import pytest

from explorer.course import exercises
from explorer.course.predictions import check
from explorer.passes.analysis.matching import constant

lessons = SimpleNamespace(**run_path(str(Path(__file__).parent / "lessons.py")))
KEY = {"size": 1e-6, "broken": 2, "quiet": True, "few": 1}


@pytest.fixture(scope="module")
def lesson():
    lesson = lessons.Lesson("05_when_numbers_go_wrong")
    # The loud fault: its report is the one of `loud`.
    lesson.run("cell-13", KEY)
    lesson.names["loud"] = lesson["fault"]
    lesson.run("cell-19", KEY)
    return lesson


@pytest.fixture(scope="module")
def variances(lesson):
    start = lesson["c"]["import"].after
    return constant(start.operations["norm1"].variance, start.weights)


def test_predictions_answered_with_the_key_are_right(lesson):
    cells = ("cell-03", "cell-11", "cell-17", "cell-19")
    assert [lesson.shown[cell].state for cell in cells] == ["right"] * 4


def test_four_additions_four_rewrites_and_digits_are_lost(lesson):
    assert len(lesson.printed["cell-05"].splitlines()) == 4
    before, after = (
        int(text.split()[-1]) for text in lesson.printed["cell-07"].split(" of 60")[:2]
    )
    assert after < before >= 57


def test_bisection_names_the_first_of_the_two_wrong_rewrites(lesson):
    assert len(lesson["wrong"]) == 2
    assert lesson["loud"].address == f"join-shortcut/join-shortcut/{lesson['wrong'][0]}"
    assert lesson["wrong"][0] == "add2"  # "`add2` adds two convolutions"
    assert "add2 = " in lesson.printed["cell-13"]


def test_the_quiet_fault_does_not_show_in_the_digits(lesson):
    before, after = (
        int(text.split()[-1]) for text in lesson.printed["cell-15"].split(" of 60")[:2]
    )
    assert after == before  # "the network reads as well as before"
    assert sum(event.applied for event in lesson["d"]["fold-norm"].events) == 11
    assert not lesson["report"].passed


def test_the_matrix_is_shown_below_the_last_prediction(lesson):
    assert lesson.shown["cell-19"].evidence is lesson["report"]
    assert len(lesson["together"]) > len(lesson["apart"]) == 1


def test_exercise_1_wants_the_rewrite_without_which_the_numbers_are_right(lesson):
    judge = exercises.heals(lesson["d"], lesson["inputs"])
    lessons.refusals(
        judge,
        {
            "is asked for; this is of type int": 1,
            "no rewrite of this compilation has the address 'norm1'": "norm1",
            "with that rewrite declined the numbers are still wrong": "fold-norm/fold-norm/norm2",
        },
    )
    assert check("fold-norm/fold-norm/norm1", judge).is_right


def test_exercise_2_wants_the_smallest_variance(lesson, variances):
    (guilty,) = lesson["apart"]
    records = lesson["report"].report.isolated[lesson["index"]].tensors
    worst = next(t for t in records if t.operation == guilty).worst_index[1]
    assert worst == variances.argmin()
    other = float(sorted(variances)[-1])
    judge = exercises.smallest_variance(variances)
    lessons.refusals(
        judge,
        {
            "no channel has a variance of 0": 0,
            "which is not the worst": other,
            "a number, without quotes": str(variances.min()),
        },
    )
    assert check(float(f"{variances.min():.2g}"), judge).is_right


def test_exercise_3_wants_the_rule_to_be_fixed(lesson):
    c, d, inputs = lesson["c"], lesson["d"], lesson["inputs"]
    lessons.refusals(
        exercises.folds_norms_rightly(inputs),
        {
            "the compiler's own pass does the work here": c,
            "no rule of yours is in it": c.fork(disable=["fold-batch-norm"]),
            "still wrong: pass fold-norm, rule fold-norm": d,
        },
    )
    names = dict(lesson.names)
    source = lesson.cells["cell-15"].source
    fixed = source.replace(
        '(np.sqrt(variance) + op.get("epsilon"))', 'np.sqrt(variance + op.get("epsilon"))'
    )
    assert fixed != source
    exec(fixed.replace("FoldNorm", "Absorb"), names)  # a name says nothing
    assert check(names["d"], exercises.folds_norms_rightly(inputs)).is_right
    declined = d.fork(decisions={lesson["report"].bisect().address: False})
    assert declined.accuracy(inputs).passed
    lessons.refusals(exercises.folds_norms_rightly(inputs), {"1 of 11 norms are left": declined})
