"""Sheets for teachers: predictions with their answers, solutions, the teachers' page."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

from explorer.course.guide import (
    TEACHING,
    AnsweredPrediction,
    guide,
    predictions_in,
    solutions_in,
    teaching_parts,
)
from explorer.course.lessons import lessons_folder, read_lesson
from explorer.course.predictions import predict


def cell(source, *shown):
    outputs = [
        SimpleNamespace(output_type="execute_result", **{"data": {"text/plain": s}}) for s in shown
    ]
    return SimpleNamespace(cell_type="code", source=source, outputs=list(map(Output, outputs)))


class Output(dict):
    """As nbformat's: attributes and items."""

    def __init__(self, made):
        super().__init__(vars(made))
        self.output_type = made.output_type


def test_each_prediction_has_its_answer_also_where_a_cell_asks_two():
    cells = [
        cell('a, b = 1, 2\nfirst = predict("One?", ...)\nsecond = predict(f"Two of {a}?", ...)'),
        cell("second.check(2, 'why')", "→ the compiler says 2. Why.\n\nevidence"),
        cell(
            'first.check(1, tempting={3: "It is near.", (1, 2): "Both."})', "→ the compiler says 1."
        ),
        cell("first.answer", "→ no verdict"),
        cell("%time"[1:], "→ no call"),
    ]
    assert list(predictions_in(cells)) == [
        AnsweredPrediction("Two of …?", "The compiler says 2. Why.", ()),
        AnsweredPrediction(
            "One?", "The compiler says 1.", (("3", "It is near."), ("(1, 2)", "Both."))
        ),
    ]


def test_the_teachers_page_has_four_parts_for_each_lesson():
    parts = teaching_parts(TEACHING.read_text(encoding="utf-8"))
    assert set(parts) == {path.name for path in lessons_folder().glob("[0-9]*.ipynb")}
    assert all(list(part) == ["Aim", "Show", "Misconception", "Exam"] for part in parts.values())


@pytest.mark.parametrize(
    "path", sorted(lessons_folder().glob("[0-9]*.ipynb")), ids=lambda p: p.stem
)
def test_every_exercise_comes_with_its_explanation_and_code(path):
    solution = path.parent / "solutions" / path.name
    if not read_lesson(path).exercises:
        return
    found = solutions_in(path, solution)
    assert len(found) >= 3
    assert all(question and text and "check(" in code for question, text, code in found)


def test_a_sheet_escapes_what_it_shows_and_loads_nothing():
    answered = AnsweredPrediction("Is a < b?", "Yes & no.", (("<b>", "1 < 2"),))
    text = guide("A <lesson>", {"Aim": "see `x < y`."}, [answered], [("**1.** Do.", "So.", "a<b")])
    assert "A &lt;lesson&gt;" in text and "<pre>a&lt;b</pre>" in text and "&lt;b&gt;" in text
    assert "See <code>x &lt; y</code>." in text and "<p>Do.</p>" in text
    assert not re.findall(r"(?:src|href)=.?https?:", text)


def test_with_answers_a_prediction_is_skipped(monkeypatch):
    monkeypatch.setenv("EXPLORER_COURSE", "answers")
    assert str(predict("How many?", ...).check(3, "So.")) == "→ the compiler says 3. So."
