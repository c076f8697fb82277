"""What lesson 15 says, and what its cells show."""

from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import pytest

pytest.importorskip("torch", reason="PyTorch exports the module here: the extra pytorch")
lessons = SimpleNamespace(**run_path(str(Path(__file__).parent / "lessons.py")))
KEY = {"nodes": 3, "where": "none of them", "changed": {"tanh_1"}}


@pytest.fixture(scope="module")
def lesson():
    lesson = lessons.Lesson("15_from_pytorch")
    lesson.run("cell-14", KEY)
    return lesson


def test_predictions_answered_with_the_key_are_right(lesson):
    cells = ("cell-05", "cell-08", "cell-12")
    assert [lesson.shown[cell].state for cell in cells] == ["right"] * 3


def test_the_module_is_computed_as_pytorch_does(lesson):
    assert float(lesson.printed["cell-03"].split()[-1]) < 1e-6


def test_lines_are_those_of_the_cell(lesson):
    source = lesson.cells["cell-03"].source.splitlines()
    lines = lesson["lines"]
    assert [source[line.place.line - 1].strip() for line in lines] == [
        line.place.text for line in lines
    ]
    assert len(lines) == 4


def test_the_factor_and_the_offset_become_weights(lesson):
    assert lesson["of_both"] == "matmul_1" and len(lesson["kernels"]["matmul_1"]) == 2
    rules = [line.split()[0] for line in lesson.printed["cell-10"].splitlines()]
    assert {"fold-offset-ahead", "fold-scale-ahead"} < set(rules)


def test_the_second_relu_is_removed_and_nothing_else_changes(lesson):
    assert lesson["touched"] == {"tanh_1"}
    assert lesson["gone"] == "simplify-arithmetic"
    assert "remove-clamp" in lesson.printed["cell-14"]


def test_exercises(lesson):
    for cell, right, wrong in (
        ("cell-16", 3, 1),
        ("cell-18", 9, 4),
        ("cell-20", "fold-into-weights", "fuse-unary"),
    ):
        assert lesson.execute(cell, {"answer": right}).is_right, cell
        assert lesson.execute(cell, {"answer": wrong}).state == "wrong", cell
