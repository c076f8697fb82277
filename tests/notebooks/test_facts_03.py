"""What lesson 3 says, and what its cells show."""

from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import pytest

import explorer as ex
from explorer.compilation import exercises
from explorer.compilation.course import check
from explorer.errors import PassError
from explorer.ir.rewriting import Rule
from explorer.ir.top.elementwise import BinaryOp
from explorer.passes.matching import constant

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
    lesson = lessons.Lesson("03_write_your_own_pass")
    lesson.run("cell-19", KEY)
    return lesson


def test_predictions_answered_with_the_key_are_right(lesson):
    assert [lesson.shown[cell].state for cell in ("cell-09", "cell-18", "cell-19")] == ["right"] * 3


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


def test_the_refusal_names_the_pass_the_rule_and_the_operation(lesson):
    for name in ("pass drop-transpose", "rule drop-transpose", "operation transpose"):
        assert name in lesson.printed["cell-16"]


def test_the_wrong_rule_fires_and_only_the_numbers_tell(lesson):
    assert sum(event.applied for event in lesson["wrong"]["drop-scale"].events) == 2
    assert not lesson["report"].passed
    fault = lesson.shown["cell-19"].evidence
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
    lesson.run("cell-25")
    early = lesson["early"]
    assert sum(event.applied for event in early["fuse-constant-residual"].events) == 13
    assert sum(event.applied for event in early["fuse-residual"].events) == 0
    assert sum(event.applied for event in lesson["c"]["fuse-residual"].events) == 4
    assert len(early.program.launches) > len(lesson["d"].program.launches)
    for cell in ("cell-23", "cell-25"):
        assert lesson.shown[cell].state == "not answered yet"
        assert "13" not in lesson.shown[cell].message
    lessons.numbers_refused(lesson, "cell-23", {1: "it is not 1"})
    wrong = {4: "it is not 4", "0": "a number, without quotes", None: "None is no answer"}
    lessons.numbers_refused(lesson, "cell-25", wrong)
    assert lesson.execute("cell-25", {"answer": 0}).is_right


def test_the_example_of_the_reference_page_fires_as_often_as_the_page_says():
    page = (lessons.REPOSITORY / "docs" / "writing-a-rule.md").read_text()
    example = page.split("```python\n")[1].split("```")[0]
    assert 'c.insert(MultiplyByReciprocal, after="import")' in example
    names = {}
    rule = example[: example.index("c = ex.compile")]
    exec(rule, names)
    c = ex.compile(lessons.MODELS / "digits_transformer.onnx")
    for place, times in (("import", 4), ("recognize-attention", 0)):
        d = c.insert(names["MultiplyByReciprocal"], after=place)
        assert sum(event.applied for event in d["multiply-by-reciprocal"].events) == times
    assert "Right after the import this one fires four times" in page
