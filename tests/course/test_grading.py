"""Grading: honest, empty and cheating copies of a small lesson, each in a child process."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from explorer.course.grading import Result, grade
from explorer.course.grading.answers import is_open, refused
from explorer.course.grading.reports import (
    gradescope_json,
    nbgrader_csv,
    results_csv,
    student_page,
    write_pages,
)
from explorer.course.grading.running import Limits
from explorer.course.terms import Term
from explorer.errors import InputError

LESSON = "01_small"
SET_UP = """
import numpy as np
from explorer.course import check
seven = 7
table = {"truth": 7}
def doubles(function):
    return function(4) == 8 or f"it makes {function(4)} of 4"
"""
GRADERS = {
    "1.1": "check(answer, seven)",
    "1.2": 'check(answer, table["truth"])',
    "1.3": "check(answer, doubles)",
}


def notebook(answers: Mapping[str, str], **metadata: object) -> str:
    def code(source: str, tags: list[str], name: str = "") -> dict:
        own = {"tags": tags, **({"explorer": {"exercise": name}} if name else {})}
        return {
            "cell_type": "code",
            "id": f"cell-{name}-{'-'.join(tags)}",
            "metadata": own,
            "source": source,
            "outputs": [],
            "execution_count": None,
        }

    cells = [{"cell_type": "markdown", "id": "title", "metadata": {}, "source": "# Small"}]
    cells.append(code(SET_UP, []))
    for name, grader in GRADERS.items():
        cells.append(code(answers.get(name, "answer = ..."), ["answer"], name))
        cells.append(code(grader, ["grader"], name))
    return json.dumps({"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5})


@pytest.fixture
def graded(tmp_path: Path):
    """Grades copies by the name of their student."""
    (tmp_path / "lessons").mkdir()
    (tmp_path / "lessons" / f"{LESSON}.ipynb").write_text(notebook({}))

    def run(
        students: Mapping[str, Mapping[str, str] | str],
        term: Term = Term(),  # noqa: B008  # frozen
        seconds: float = 60,
        answer_seconds: float = 20,
    ) -> dict[str, list[Result]]:
        for name, answers in students.items():
            (tmp_path / "handed" / name).mkdir(parents=True)
            text = answers if isinstance(answers, str) else notebook(answers)
            (tmp_path / "handed" / name / f"{LESSON}.ipynb").write_text(text)
        limits = Limits(seconds, answer_seconds)
        found: dict[str, list[Result]] = {}
        folder = tmp_path / "lessons"
        for result in grade(tmp_path / "handed", term, limits=limits, folder=folder):
            found.setdefault(result.student, []).append(result)
        return found

    return run


HONEST = {"1.1": "answer = 7", "1.2": "answer = 3 + 4", "1.3": "def answer(x):\n    return 2 * x"}


def test_right_answers_of_another_form_get_their_points(graded):
    lambdas = {"1.1": "answer = 14 / 2", "1.3": "answer = lambda x: x + x"}
    found = graded({"a": HONEST, "b": lambdas, "c": {}}, Term(points={"1.1": 3.0}))
    assert [r.points for r in found["a"]] == [3.0, 1.0, 1.0]
    assert [r.message for r in found["a"]] == ["right: 7", "right: 7", "right"]
    assert [r.points for r in found["b"]] == [3.0, 0.0, 1.0]
    assert {r.message for r in found["c"]} == {"not answered"}


def test_wrong_answers_get_a_sentence(graded):
    found = graded(
        {
            "none": {"1.1": "answer = None", "1.2": "answer = {}", "1.3": "answer = 'text'"},
            "wrong": {"1.1": "answer = 8", "1.2": "answer = '7'", "1.3": "answer = abs"},
            "raises": {"1.1": "answer = 1 / 0", "1.3": "def answer(x):\n    return x[0]"},
        }
    )
    assert all(r.points == 0 for results in found.values() for r in results)
    said = {name: [r.message for r in results] for name, results in found.items()}
    assert said["none"][0] == "None is no answer" and said["none"][1] == "a number"
    assert said["wrong"] == ["it is not 8", "a number, without quotes", "it makes 4 of 4"]
    assert said["raises"][0] == "ZeroDivisionError: division by zero"
    assert "TypeError" in said["raises"][2]


EQUAL = "class Seven(int):\n    def __eq__(self, other):\n        return True\n"
CHEATS = {
    "rebinds": {"1.1": "check = lambda *a: True\nanswer = 0", "1.2": "seven = 0\nanswer = 0"},
    "changes the lesson": {
        "1.1": "table.clear()\ntable.update(truth=1)\nanswer = 0",
        "1.2": "answer = 1",
    },
    "equal to all": {"1.1": EQUAL + "answer = Seven(0)", "1.2": EQUAL + "answer = [Seven()]"},
    "fakes a class": {
        "1.1": "kind = type('int', (int,), {'__eq__': lambda a, b: True, '__hash__': None,"
        " '__module__': 'builtins'})\nanswer = kind(0)"
    },
    "imports the grader": {
        "1.1": "import explorer.course.predictions as p\nanswer = 0",
        "1.2": "from explorer.course import check\nanswer = 0",
    },
    "reads the truth": {
        "1.1": "answer = globals()['seven']",
        "1.2": "answer = check.__globals__",
        "1.3": "answer = getattr(doubles, '__code' + '__')",
    },
    "patches": {
        "1.1": "np.isclose = lambda *a, **k: True\nanswer = 0",
        "1.2": "import explorer\nexplorer.load = None\nanswer = 1",
    },
    "writes files": {
        "1.1": "open('x', 'w')\nanswer = 0",
        "1.2": "np.save('/tmp/explorer-cheat.npy', np.zeros(1))\nanswer = 0",
        "1.3": "def answer(x):\n    return np.save('/tmp/explorer-cheat.npy', np.zeros(1)) or 8",
    },
    "starts processes": {
        "1.1": "import os\nanswer = 0",
        "1.2": "import dataclasses\nanswer = dataclasses.sys.modules['os'].system('true')",
        "1.3": "answer = lambda x: np.testing.suppress_warnings.__init__",
    },
    "reaches for the network": {
        "1.1": "import socket\nanswer = 0",
        "1.2": "import explorer.references.process as p\nanswer = p.subprocess",
    },
    "magic": {"1.1": "%load solutions/01.py\nanswer = 0", "1.2": "!cat solution\nanswer = 0"},
    "assigns nothing": {"1.1": "print(7)", "1.2": "other = 7", "1.3": "answer: int"},
}


# Five seconds: a child process for each of twelve students.
def test_no_kind_of_cheating_gets_a_point(graded):
    found = graded(CHEATS)
    assert {r.student: r.points for results in found.values() for r in results if r.points} == {}
    assert not Path("/tmp/explorer-cheat.npy").exists()
    said = {(r.student, r.exercise): r.message for results in found.values() for r in results}
    assert said["rebinds", "1.1"] == "it is not 0" and said["rebinds", "1.2"] == "it is not 0"
    assert said["changes the lesson", "1.2"] == "it is not 1"
    assert "class of your own" in said["equal to all", "1.1"]
    assert "class of your own" in said["equal to all", "1.2"]
    assert "class of your own" in said["fakes a class", "1.1"]
    assert "out of reach" in said["imports the grader", "1.2"]
    assert "plain name" in said["reads the truth", "1.3"]
    assert "leaves `np` of the lesson as it is" in said["patches", "1.1"]
    assert "PermissionError" in said["writes files", "1.2"]
    assert "PermissionError" in said["starts processes", "1.2"]
    assert "out of reach" in said["reaches for the network", "1.2"]
    assert "line 1" in said["magic", "1.1"]
    assert said["assigns nothing", "1.1"] == "nothing is assigned to `answer`"


# Children that are killed take their time: three of them, four seconds.
def test_an_endless_answer_costs_its_own_point_only(graded):
    catching = "answer = 0\nwhile True:\n  try:\n    [0]\n  except BaseException:\n    pass"
    found = graded(
        {
            "polite": {**HONEST, "1.1": "answer = 7\nwhile True: pass"},
            "rude": {**HONEST, "1.2": catching},
        },
        seconds=6,
        answer_seconds=1,
    )
    assert [r.points for r in found["polite"]] == [0, 1, 1]
    assert found["polite"][0].message == "this takes longer than 1 s"
    assert [r.points for r in found["rude"]] == [1, 0, 1]
    assert "this takes longer than" in found["rude"][1].message


def test_files_that_are_no_lesson_are_named(graded, tmp_path):
    deep = "[" * 100_000
    plain = json.dumps({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    (tmp_path / "handed" / "nothing").mkdir(parents=True)
    found = graded({"text": "hello", "deep": deep, "empty": plain, "list": "[]"})
    said = {name: results[0].message for name, results in found.items()}
    assert said["nothing"] == "not handed in"
    assert said["text"].startswith("this is no notebook") and "notebook" in said["deep"]
    assert said["empty"] == "no cell is tagged as an answer"
    assert "no list of cells" in said["list"]


def test_a_lesson_of_another_term_is_graded_and_says_so(graded):
    old = notebook({"1.1": "answer = 7"}, explorer={"term": "2026b"})
    found = graded({"old": old}, Term("2027a"))
    assert found["old"][0].points == 1
    assert found["old"][0].message == "(of term 2026b) right: 7"


def test_a_copy_without_metadata_is_matched_by_the_ids_of_its_cells(graded):
    copy = json.loads(notebook({"1.1": "answer = 7"}))
    for cell in copy["cells"]:
        cell["metadata"] = {}
    assert graded({"bare": json.dumps(copy)})["bare"][0].points == 1


def test_what_an_answer_may_be():
    assert refused("from explorer.ir.patterns import x\nanswer = 1", "answer") == ""
    rule = "class R:\n    def __init__(self):\n        self.x = 1\nanswer = R"
    assert refused(rule, "answer") == ""
    assert refused("rows = []\nrows[0:0] = [1]\nanswer = rows", "answer") == ""
    assert "leaves `c`" in refused("c.x[0] = 1\nanswer = 1", "answer")
    assert "leaves `c`" in refused("del c.x\nanswer = 1", "answer")
    assert "no global names" in refused("def f():\n    global c\nanswer = 1", "answer")
    assert "characters" in refused("answer = 1\n" + "#" * 30_000, "answer")
    assert refused("answer = (" + "(" * 500, "answer")
    assert is_open("answer = ...") and is_open("# nothing yet") and not is_open("answer = (")


RESULTS = [
    Result("=cmd()", "01_a", "1.1", 1.0, 2.0, "<b>no</b>\n, =1+1"),
    Result("=cmd()", "01_a", "1.2", 0.0, 1.0, "-1"),
    Result("Zoé", "01_a", "1.1", 2.0, 2.0, "right"),
]


def test_reports_hold_no_formula_and_no_markup(tmp_path):
    rows = list(csv.DictReader(io.StringIO(results_csv(RESULTS))))
    assert list(rows[0]) == ["student", "lesson", "exercise", "points", "of", "message"]
    assert rows[0]["student"] == "'=cmd()" and rows[2]["student"] == "Zoé"
    page = student_page("<i>", RESULTS[:2])
    assert "<b>" not in page and "<i>" not in page and "1 of 3 points" in page
    assert {path.name for path in write_pages(RESULTS, tmp_path / "pages")} == {
        "_cmd__.html",
        "Zoé.html",
    }
    (first, *_) = csv.DictReader(io.StringIO(nbgrader_csv(RESULTS)))
    assert (first["assignment"], first["score"], first["max_score"]) == ("01_a", "1.0", "3.0")
    scores = json.loads(gradescope_json(RESULTS[:2]))
    assert scores["score"] == 1.0 and scores["tests"][0]["max_score"] == 2.0


def test_a_folder_without_students_is_refused(tmp_path):
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(InputError):
            list(grade(folder, Term()))
