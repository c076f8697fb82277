"""The course: every notebook is well formed and its exercises have solutions.

`make test-notebooks` executes all of them, `make learn` opens them.
"""

import ast
import importlib
import json
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest

REPOSITORY = Path(__file__).parents[2]
FOLDER = REPOSITORY / "notebooks"
LESSONS = sorted(FOLDER.glob("*.ipynb"))
SOLUTIONS = sorted(FOLDER.glob("solutions/*.ipynb"))
EXPLORE = "-explore"
ANSWER = "-answer"
TAGS = ("answer", "grader")
OPTIONAL = {"ai_edge_litert", "cv2", "torch"}
REFERENCES = {"explorer.references.lite_rt": "ai_edge_litert"}
"""What modules of ours run in a process of its own."""
cells_of = run_path(str(Path(__file__).with_name("lessons.py")))["cells_of"]
WITH_EXERCISES = [p for p in LESSONS if not p.name.startswith("01")]


def name(path: Path) -> str:
    return str(path.relative_to(FOLDER))


def code_of(path: Path) -> str:
    return text_of(cells_of(path), "code")


def prose_of(path: Path) -> str:
    return text_of(cells_of(path), "markdown")


def text_of(cells: Sequence[Any], kind: str) -> str:
    return "\n".join(cell.source for cell in cells if cell.cell_type == kind)


def test_the_course_is_complete():
    assert [p.stem[:2] for p in LESSONS] == [f"{number:02}" for number in range(20)]
    assert [p.name for p in SOLUTIONS] == [p.name for p in WITH_EXERCISES]


@pytest.mark.parametrize("path", [*LESSONS, *SOLUTIONS], ids=name)
def test_a_notebook_is_stored_without_outputs_and_with_stable_names(path):
    import nbformat  # a second, which the collection of all tests would take

    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
    assert notebook.metadata.kernelspec.name == "python3"
    # A cell that opens the explorer or takes an answer is named for the one before it.
    names = [c.id for c in notebook.cells if not c.id.endswith((EXPLORE, ANSWER))]
    assert names == [f"cell-{n:02}" for n in range(len(names))]
    for before, cell in pairwise(notebook.cells):
        for suffix in (EXPLORE, ANSWER):
            assert not cell.id.endswith(suffix) or cell.id == before.id + suffix
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert cell.outputs == []
            assert cell.execution_count is None


@pytest.mark.parametrize("path", [*LESSONS, *SOLUTIONS], ids=name)
def test_what_a_notebook_imports_of_ours_is_there(path):
    """Without executing it: a name that moves is missed here, not minutes later."""
    imports = [
        node
        for node in ast.walk(ast.parse(code_of(path)))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("explorer")
    ]
    for node in imports:
        module = importlib.import_module(node.module)
        for alias in node.names:
            if not hasattr(module, alias.name):
                importlib.import_module(f"{node.module}.{alias.name}")


@pytest.mark.parametrize("path", [*LESSONS, *SOLUTIONS], ids=name)
def test_a_notebook_says_which_optional_package_it_cannot_do_without(path):
    """`make test-notebooks` leaves it out where the package is missing."""
    metadata = json.loads(path.read_text(encoding="utf-8"))["metadata"]
    imported: set[str] = set()
    for node in ast.walk(ast.parse(code_of(path))):
        if isinstance(node, ast.Import):
            imported |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(REFERENCES.get(node.module or "", ""))
    assert metadata.get("explorer", {}).get("needs", []) == sorted(imported & OPTIONAL)


@pytest.mark.parametrize("path", LESSONS, ids=name)
def test_a_lesson_is_short_and_says_what_others_chose(path):
    assert len(prose_of(path).split()) <= 700
    assert prose_of(path).count("**Design note.**") == 1


@pytest.mark.parametrize("path", WITH_EXERCISES, ids=name)
def test_a_lesson_asks_and_leaves_the_answers_open(path):
    calls = [
        node
        for node in ast.walk(ast.parse(code_of(path)))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "predict"
    ]
    assert len(calls) >= 3
    for call in calls:
        _, answer = call.args
        assert isinstance(answer, ast.Constant) and answer.value is ...


@pytest.mark.parametrize("path", WITH_EXERCISES, ids=name)
def test_every_exercise_has_a_solution_apart(path):
    solution = FOLDER / "solutions" / path.name
    exercises = re.findall(r"^\*\*(\d)\.\*\*", prose_of(path), re.MULTILINE)
    solved = re.findall(r"^\*\*Exercise (\d)\.\*\*", prose_of(solution), re.MULTILINE)
    assert len(exercises) >= 3
    assert solved == exercises
    assert code_of(solution).count("assert verdict.is_right") == len(solved)


@pytest.mark.parametrize("path", WITH_EXERCISES, ids=name)
def test_an_answer_has_a_cell_of_its_own_before_its_grader(path):
    """And no cell of the lesson contains it: truths are computed by the package."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    tagged = {kind: [c for c in cells if kind in c["metadata"].get("tags", [])] for kind in TAGS}
    assert len(tagged["answer"]) == len(tagged["grader"]) >= 3
    lesson = int(path.name[:2])
    for number, (answer, grader) in enumerate(zip(*tagged.values(), strict=True), 1):
        assert cells.index(grader) == cells.index(answer) + 1
        for cell in (answer, grader):
            assert cell["metadata"]["explorer"]["exercise"] == f"{lesson}.{number}"
        (given,) = ast.parse("".join(answer["source"])).body
        assert isinstance(given, ast.Assign) and isinstance(given.value, ast.Constant)
        assert given.value.value is ...
        (call,) = (
            node
            for node in ast.walk(ast.parse("".join(grader["source"])))
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "check"
        )
        judge = call.args[1]
        assert isinstance(judge, ast.Call) and ast.unparse(judge.func).startswith("exercises.")


BEFORE_THE_ANSWER = {("10_memory", "cell-07"), ("16_deploy", "cell-03")}
"""Cells that print what a question is about, and not its answer."""


@pytest.mark.parametrize("path", LESSONS, ids=name)
def test_a_cell_prints_nothing_of_an_answer_before_the_prediction(path):
    """`PREDICTION.require()` ends a cell that would print before `check` does."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    code = {c["id"]: ast.parse("".join(c["source"])) for c in cells if c["cell_type"] == "code"}
    statements = [node for tree in code.values() for node in ast.walk(tree)]
    printing = {"print"}
    for node in statements:
        if isinstance(node, ast.FunctionDef) and _calls(node, printing):
            printing.add(node.name)
    asked = {
        ast.unparse(node.targets[0])
        for node in statements
        if isinstance(node, ast.Assign) and _calls(node.value, {"predict"})
    }
    for cell, tree in code.items():
        has_printed = False
        for statement in tree.body:
            text = ast.unparse(statement)
            if any(text.startswith(f"{one}.require()") for one in asked):
                break
            if any(text.startswith(f"{one}.check(") for one in asked):
                assert not has_printed or (path.stem, cell) in BEFORE_THE_ANSWER, cell
                break
            is_definition = isinstance(statement, ast.FunctionDef | ast.ClassDef)
            has_printed = has_printed or (not is_definition and _calls(statement, printing))


def _calls(tree, names):
    """Whether a function with one of the names is called."""
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    return any(isinstance(called, ast.Name) and called.id in names for called in calls)
