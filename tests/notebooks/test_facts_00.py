"""What lesson 0 says, and what its cells show."""

import ast
import json
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import numpy as np
import pytest

from explorer.course import exercises
from explorer.course.exercises import small_compiler as hidden
from explorer.course.predictions import check

lessons = SimpleNamespace(**run_path(str(Path(__file__).parent / "lessons.py")))
NAME = "00_a_compiler"
KEY = {"different": 3, "left": 1, "noticed": False}
TEMPTING = {"different": 5, "left": 2, "noticed": True}
CHECKS = ("cell-06", "cell-16", "cell-19")


@pytest.fixture(scope="module")
def lesson():
    lesson = lessons.Lesson(NAME)
    lesson.run("cell-20", KEY)
    return lesson


def test_predictions_answered_with_the_key_are_right(lesson):
    assert [lesson.shown[cell].state for cell in CHECKS] == ["right"] * 3


def test_tempting_predictions_are_answered_with_the_reason_why_they_are():
    lesson = lessons.Lesson(NAME)
    lesson.run("cell-20", TEMPTING)
    reasons = ("computed before", "the sum and the product", "sees only the numbers")
    for cell, reason in zip(CHECKS, reasons, strict=True):
        assert lesson.shown[cell].state == "wrong"
        assert reason in lesson.shown[cell].message


def test_the_lesson_is_as_short_as_it_says_and_needs_nothing_of_the_compiler(lesson):
    assert len(lesson.prose.split()) <= 700
    cells = json.loads((lessons.FOLDER / f"{NAME}.ipynb").read_text())["cells"]
    own = [c for c in cells if c["cell_type"] == "code" and not c["metadata"].get("tags")]
    lines = [line for cell in own for line in "".join(cell["source"]).splitlines()]
    assert len([line for line in lines if line.strip()]) <= 150
    imported = {
        node.module
        for node in ast.walk(ast.parse("\n".join(lines)))
        if isinstance(node, ast.ImportFrom)
    }
    assert imported == {"explorer.course"}


def test_tracing_writes_numbers_as_second_operands(lesson):
    product = ("mul", ("relu", ("matmul", "x", "y")), 2.0)
    assert lesson.shown["cell-03"] == ("add", product, 1.0)


def test_the_backend_writes_a_line_for_each_operation(lesson):
    lines = lesson.printed["cell-08"].splitlines()
    assert len(lines) == 3 + 2 and lines[0] == "def compiled(x, y):"
    assert lesson.shown["cell-08"].tolist() == [9.0, 0.0]


@pytest.mark.parametrize("seed", range(8))
def test_what_the_backend_writes_computes_what_numpy_does(lesson, seed):
    """Both read their operators from tables of their own."""
    generator = np.random.default_rng(seed)
    graph = hidden.random_node(generator, 4, tuple(hidden.ARITY))
    inputs = {name: generator.normal(size=(3, 3)) for name in "xyz"}
    expected = hidden.values(graph, inputs)[graph]
    np.testing.assert_array_equal(lesson["build"](graph, "x, y, z")(**inputs), expected)
    assert lesson["operations"](graph) == hidden.operations(graph)


def test_the_rules_of_the_lesson_are_right_and_fire_one_after_the_other(lesson):
    names = [name for name, _ in lesson["history"]]
    assert sorted(names[1:]) == ["drop_one", "drop_zero", "one_relu"]
    assert names.index("drop_one") < names.index("one_relu")
    rules = [lesson[name] for name in names[1:]]
    assert hidden.tried(rules, []) is True
    assert lesson.printed["cell-10"] == "x None\n"


def test_the_picture_of_the_history_has_a_row_for_each_graph(lesson):
    replay = lesson.shown["cell-16"].evidence
    assert str(replay).splitlines()[0].split("   ")[-1] == "relu → mul → relu → add"
    assert str(replay).splitlines()[-1].endswith(" relu")
    assert replay._repr_html_().count("<div") == len(lesson["history"]) == 4


def test_the_wrong_rule_is_found_with_numbers_of_both_signs_only(lesson):
    before, after = lesson.printed["cell-20"].splitlines()
    assert before != after and "-" in after and "-" not in before.replace("-0.", "0.")
    said = hidden.tried([lesson["bare_square"]], [])
    assert said == "on a hidden graph with all kinds of operations the numbers change"


def test_rules_that_undo_each_other_end_with_a_sentence(lesson):
    def swap(node):
        return (node[0], node[2], node[1]) if node[0] == "matmul" else None

    with pytest.raises(RuntimeError, match="come to no end"):
        lesson["rewrite"](("matmul", "x", "y"), [swap])


# -- exercises -------------------------------------------------------------------------------------


def merge(node):
    """x * a * b   =>   x * (a * b)"""
    match node:
        case ("mul", ("mul", x, float(a)), float(b)):
            return ("mul", x, a * b)


def merge_by_index(node):
    """The same, by hand, and a product with 1 is dropped, too."""
    operator, inner, factor = node if len(node) == 3 else (None, None, None)
    if operator != "mul" or not isinstance(factor, float) or not isinstance(inner, tuple):
        return None
    if inner[0] != "mul" or not isinstance(inner[2], float):
        return None
    product = factor * inner[2]
    return inner[1] if product == 1 else ("mul", inner[1], product)


def merge_sum(node):
    match node:
        case ("mul", ("mul", x, float(a)), float(b)):
            return ("mul", x, a + b)


def merge_anything(node):
    match node:
        case ("mul", (_, x, float(a)), float(b)):
            return ("mul", x, a * b)


def merge_nodes(node):
    match node:
        case ("mul", ("mul", x, a), b):
            return ("mul", x, a * b)


def associate(node):
    match node:
        case ("mul", ("mul", x, a), b):
            return ("mul", x, ("mul", a, b))


def test_exercise_1_wants_two_factors_to_be_one():
    judge = exercises.merges_factors()
    refused = {
        "with two factors the numbers change": merge_sum,
        "with an addition in between the numbers change": merge_anything,
        "with a factor that is an array the rule raises TypeError": merge_nodes,
        "with two factors there are 2 operations before, and 2 after": lambda node: None,
        "a rule is asked for, a function; this is of type int": 6,
    }
    lessons.refusals(judge, refused)
    assert not check(associate, judge).is_right
    assert check(merge, judge).is_right
    assert check(merge_by_index, judge).is_right


def turn(node):
    """x.T @ y.T   =>   (y @ x).T"""
    match node:
        case ("matmul", ("transpose", x), ("transpose", y)):
            return ("transpose", ("matmul", y, x))


def turn_sums_too(node):
    """And x.T + y.T   =>   (x + y).T, and x.T.T   =>   x"""
    match node:
        case ("add", ("transpose", x), ("transpose", y)):
            return ("transpose", ("add", x, y))
        case ("transpose", ("transpose", x)):
            return x
    return turn(node)


def keep_order(node):
    match node:
        case ("matmul", ("transpose", x), ("transpose", y)):
            return ("transpose", ("matmul", x, y))


def forget_the_result(node):
    match node:
        case ("matmul", ("transpose", x), ("transpose", y)):
            return ("matmul", y, x)


def turn_one(node):
    match node:
        case ("matmul", ("transpose", x), y):
            return ("transpose", ("matmul", ("transpose", y), x))


def turn_before_y(node):
    """Right numbers, and more operations where only the left operand is transposed."""
    match node:
        case ("matmul", ("transpose", x), "y"):
            return ("transpose", ("matmul", ("transpose", "y"), x))
    return turn(node)


def turn_everything(node):
    match node:
        case (_, ("transpose", x), ("transpose", y)):
            return ("transpose", ("matmul", y, x))


def test_exercise_2_wants_one_transposition():
    refused = {
        "a product of two transpositions the numbers change": keep_order,
        "with a product of two transpositions the numbers": forget_the_result,
        "of the left operand there are 2 operations before, and 3": turn_before_y,
        "with a sum of transpositions the numbers change": turn_everything,
        "the rules never come to an end": turn_one,
    }
    lessons.refusals(exercises.turns_products(), refused)
    assert check(turn, exercises.turns_products()).is_right
    assert check(turn_sums_too, exercises.turns_products()).is_right


def pull(node):
    """relu(x * a)   =>   relu(x) * a      if a >= 0"""
    match node:
        case ("relu", ("mul", x, float(a))) if a >= 0:
            return ("mul", ("relu", x), a)


def push(node):
    """relu(x) * a   =>   relu(x * a)      if a > 0"""
    if node[0] == "mul" and node[1][0] == "relu" and isinstance(node[2], float) and node[2] > 0:
        return ("relu", ("mul", node[1][1], node[2]))
    return None


def around(node):
    """relu(x * a) * b   =>   relu(x) * (a * b)      if a >= 0"""
    match node:
        case ("mul", ("relu", ("mul", x, float(a))), float(b)) if a >= 0:
            return ("mul", ("relu", x), a * b)


def pull_every(node):
    match node:
        case ("relu", ("mul", x, float(a))):
            return ("mul", ("relu", x), a)


def pull_arrays(node):
    match node:
        case ("relu", ("mul", x, a)) if not isinstance(a, float) or a >= 0:
            return ("mul", ("relu", x), a)


def test_exercise_3_wants_rules_that_bring_factors_together():
    judge = exercises.brings_factors_together()
    refused = {
        "there are 3 operations before, and 3 after": [merge],
        "with a negative factor before the relu the numbers change": [pull_every, merge],
        "with an array as a factor before the relu the numbers change": [pull_arrays, merge],
        "the rules never come to an end": [pull, push],
        "a list of rules is asked for; this is of type function": pull,
        "a rule is a function; this list has one of type str": ["pull", merge],
    }
    lessons.refusals(judge, refused)
    assert check([pull, merge], judge).is_right
    assert check((merge, push), judge).is_right
    assert check([around], judge).is_right


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        (lambda node: ("add", node, 0.0), "larger and larger"),
        (lambda node: ("add", node, node), "larger and larger"),
        (lambda node: ("div", node, 2.0), "gives ('div', "),
        (lambda node: ("relu", "x", "y"), "gives ('relu', 'x', 'y'), which is no node"),
        (lambda node: ["relu", "x"], "gives ['relu', 'x'], which is no node"),
        (lambda node: "w", "gives 'w', which is no node"),
        (lambda node: 10**400, "gives 1000000"),
        (lambda node: np.complex128(1j), "gives np.complex128(1j), which is no node"),
        (lambda node: True, "gives True, which is no node"),
        (lambda node: 0, "the numbers change"),
        (lambda node: node[7], "the rule raises IndexError"),
        (lambda: None, "the rule raises TypeError"),
    ],
)
def test_rules_that_give_no_graph_are_refused_with_a_sentence(rule, told):
    for judge in (exercises.merges_factors(), exercises.turns_products()):
        verdict = check(rule, judge)
        assert verdict.state == "wrong"
        assert told in verdict.message
    assert told in check([rule], exercises.brings_factors_together()).message
