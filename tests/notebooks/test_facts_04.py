"""What lesson 4 says, and what its cells show."""

from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import pytest

import explorer as ex
from explorer.course import exercises
from explorer.course.predictions import check
from explorer.errors import PassError
from explorer.ir.rewriting import Rule
from explorer.ir.top.elementwise import BinaryOp
from explorer.passes.analysis.matching import constant

lessons = SimpleNamespace(**run_path(str(Path(__file__).parent / "lessons.py")))
KEY = {"fires": 1, "refused": False, "noticed": True}


class Reciprocal(Rule):
    """x / constant   =>   x * (1 / constant)"""

    matches = (BinaryOp,)

    def factor(self, divisor):
        return 1 / divisor

    def rewrite(self, op, rewriter):
        divisor = constant(op.right, rewriter.weights)
        if op.kind.data != "div" or divisor is None:
            return
        factor = rewriter.add_weight(op, "factor", self.factor(divisor))
        rewriter.replace(op, BinaryOp.make([op.left, factor], kind="mul"))


class Divisor(Reciprocal):
    """x / constant   =>   x * constant      (wrong)"""

    def factor(self, divisor):
        return divisor


class Again(Reciprocal):
    """x / constant   =>   x / constant      (for ever)"""

    def rewrite(self, op, rewriter):
        if op.kind.data == "div":
            rewriter.replace(op, BinaryOp.make([op.left, op.right], kind="div"))


@pytest.fixture(scope="module")
def lesson():
    lesson = lessons.Lesson("04_write_your_own_pass")
    lesson.run("cell-23", KEY)
    return lesson


def test_predictions_answered_with_the_key_are_right(lesson):
    assert [lesson.shown[cell].state for cell in ("cell-09", "cell-22", "cell-23")] == ["right"] * 3


def test_two_rules_declined_the_same_addition(lesson):
    addresses = lesson.printed["cell-03"].splitlines()[0::2]
    reasons = lesson.printed["cell-03"].splitlines()[1::2]
    assert [address.split("/")[-1] for address in addresses] == ["add_position2"] * 2
    assert "a constant of shape 8x48 is not one number per channel" in reasons[0]  # "no bias"
    assert "is a constant, not an activation" in reasons[1]  # "no residual connection"
    assert "8x48 f32" in lesson.printed["cell-05"]


def test_the_rule_saves_one_launch_and_is_right(lesson):
    assert lesson["accuracy"].passed
    assert lesson.printed["cell-12"] == "35 launches before, 34 after\n"
    assert "One launch fewer" in lesson.prose


def test_the_rule_is_part_of_the_record_with_its_text(lesson):
    assert "class FuseConstantResidual(Rule)" in "\n".join(lesson.shown["cell-14"].lines)


def test_the_rule_as_an_expression_does_the_same_and_says_why_it_declines(lesson):
    assert lesson.printed["cell-16"] == "34 launches, by the expression\n"
    assert len(lesson["d"].program.launches) == 34
    lines = lesson.printed["cell-18"].splitlines()
    assert [line.split()[1] for line in lines if line.startswith("applied")] == ["add_position2"]
    declined = [line for line in lines if line.startswith("declined")]
    assert len(declined) == 4  # "the residual connections"
    assert all("expected a constant c, found " in line for line in declined)
    assert "The docstring of `explorer.ir.patterns` has the whole language" in lesson.prose


def test_the_refusal_names_the_pass_the_rule_and_the_operation(lesson):
    for name in ("pass drop-transpose", "rule drop-transpose", "operation transpose"):
        assert name in lesson.printed["cell-20"]


def test_the_wrong_rule_fires_and_only_the_numbers_tell(lesson):
    assert sum(event.applied for event in lesson["wrong"]["drop-scale"].events) == 2
    assert not lesson["report"].passed
    fault = lesson.shown["cell-23"].evidence
    assert (fault.pass_name, fault.rule) == ("drop-scale", "drop-scale")
    assert "softmax" in fault.operation


def test_exercise_1_wants_a_rule_that_fires_four_times(lesson):
    c = lesson["c"]
    judge = exercises.replaces_divisions(c)
    refused = {
        "no rule of yours is in it": c,
        "there are 4 divisions": lesson["d"],
        "your rule fired 0 times": c.insert(Reciprocal, after="fuse-residual"),
        "the numbers are wrong: pass divisor, rule divisor": c.insert(Divisor, after="import"),
    }
    lessons.refusals(judge, refused)
    with pytest.raises(PassError, match="terminate"):
        c.insert(Again, after="import")
    assert check(c.insert(Reciprocal, after="import"), judge).is_right


def test_exercises_2_and_3_have_the_answers_of_their_solutions(lesson):
    lesson.run("cell-29")
    early = lesson["early"]
    assert sum(event.applied for event in early["fuse-constant-residual"].events) == 13
    assert sum(event.applied for event in early["fuse-residual"].events) == 0
    assert sum(event.applied for event in lesson["c"]["fuse-residual"].events) == 4
    assert len(early.program.launches) > len(lesson["d"].program.launches)
    for cell in ("cell-27", "cell-29"):
        assert lesson.shown[cell].state == "not answered yet"
        assert "13" not in lesson.shown[cell].message
    lessons.numbers_refused(lesson, "cell-27", {1: "it is not 1"})
    wrong = {4: "it is not 4", "0": "a number, without quotes", None: "None is no answer"}
    lessons.numbers_refused(lesson, "cell-29", wrong)
    assert lesson.execute("cell-29", {"answer": 0}).is_right


def test_the_examples_of_the_reference_page_fire_as_often_as_the_page_says():
    page = (lessons.REPOSITORY / "docs" / "writing-a-rule.md").read_text()
    by_hand, as_expression = (part.split("```")[0] for part in page.split("```python\n")[1:3])
    assert 'c.insert(MultiplyByReciprocal, after="import")' in by_hand
    names = {}
    exec(by_hand[: by_hand.index("c = ex.compile")], names)
    exec(as_expression, names)
    c = ex.compile(lessons.MODELS / "digits_transformer.onnx")
    for place, times in (("import", 4), ("recognize-attention", 0)):
        for rule, name in (
            ("MultiplyByReciprocal", "multiply-by-reciprocal"),
            ("DivideByConstant", "divide-by-constant"),
        ):
            d = c.insert(names[rule], after=place)
            assert sum(event.applied for event in d[name].events) == times
    assert "Right after the import this one fires four times" in page


def test_the_page_shows_what_the_matcher_says_of_a_near_miss():
    page = (lessons.REPOSITORY / "docs" / "writing-a-rule.md").read_text()
    names = {}
    (near_miss,) = (part for part in page.split("```python\n")[1:] if "FuseConstantSum" in part)
    exec(near_miss.split("```")[0], names)
    c = ex.compile(lessons.MODELS / "digits_transformer.onnx", disable=["simplify-arithmetic"])
    events = c.insert(names["FuseConstantSum"], after="fuse-bias")["fuse-constant-sum"].events
    (told,) = (event.reason for event in events if event.site == "add6")
    assert f"declined add6: {told}" in page
