"""Sheets for teachers: what to show of a lesson, its predictions with answers, its solutions.

    write_guides(Path("guides"), ["2"])         guides/02_reading_ir.html, two pages of A4

A sheet is made from what there is: the lesson, which is executed with its predictions skipped, its
notebook in `solutions`, and its part of docs/teaching.md.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from explorer.course.grading.grading import chosen_lessons
from explorer.course.handouts import sheet
from explorer.course.lessons import REPOSITORY, lessons_folder, read_lesson
from explorer.course.locking import ANSWERS
from explorer.course.pages import executed, rendering
from explorer.course.slides import questions_in, rendered
from explorer.files import write_file

TEACHING = REPOSITORY / "docs" / "teaching.md"
LABELS = {
    "Aim": "Aim",
    "Show": "Demonstration, ten minutes",
    "Misconception": "Misconception and the figure that cures it",
    "Exam": "Exam question, five points",
}
_STYLE = """body { font: 10.5px/1.35 sans-serif; } .anchor-link { display: none; }
h2 { break-after: avoid; } table { width: 100%; } td { vertical-align: top; }
td p, li p, dd p { margin: 0 0 3px; } dt { font-weight: bold; } dd { margin: 0 0 5px; }
pre { font-size: 8.5px; background: #f6f6f6; padding: 3px 6px; } tr { break-inside: avoid; }"""


@dataclass(frozen=True)
class AnsweredPrediction:
    question: str
    answer: str
    """What the compiler says, and why."""
    tempting: tuple[tuple[str, str], ...]
    """Likely wrong answers, and why they are likely."""


def write_guides(folder: Path, names: Sequence[str] = ()) -> list[Path]:
    """Writes a sheet for each lesson into a folder. InputError as `write_lessons`."""
    source = lessons_folder()
    paths = chosen_lessons(source, names) if names else sorted(source.glob("[0-9]*.ipynb"))
    parts = teaching_parts(TEACHING.read_text(encoding="utf-8"))
    written = []
    with rendering(folder, ANSWERS):
        for path in paths:
            solution = source / "solutions" / path.name
            place = folder / f"{path.stem}.html"
            predictions = list(predictions_in(executed(path).cells))
            write_file(
                place,
                guide(
                    read_lesson(path).title,
                    parts.get(path.name, {}),
                    predictions,
                    solutions_in(path, solution) if solution.exists() else [],
                ),
            )
            written.append(place)
    return written


def teaching_parts(text: str) -> dict[str, dict[str, str]]:
    """By the file of a lesson: what the teachers' page says under each label."""
    found = {}
    for part in text.split("\n## ")[1:]:
        name = re.search(r"notebooks/(\d+_\w+\.ipynb)", part)
        assert name is not None, part.splitlines()[0]
        found[name[1]] = dict(re.findall(r"^- (\w+): (.*)$", part, re.MULTILINE))
    return found


def predictions_in(cells: Sequence[Any]) -> Iterator[AnsweredPrediction]:
    """The predictions of a lesson that was executed with its answers, in their order."""
    asked: dict[str, str] = {}
    for cell in cells:
        if cell.cell_type != "code":
            continue
        body = ast.parse(cell.source).body
        for statement in body:
            if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                for question, _ in questions_in(ast.unparse(statement)):
                    asked[statement.targets[0].id] = question
        call = body[-1].value if body and isinstance(body[-1], ast.Expr) else None
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            continue
        name = ast.unparse(call.func.value)
        if call.func.attr == "check" and name in asked:
            said = "".join(_texts(cell.outputs)).removeprefix("→ ").split("\n\n")[0]
            yield AnsweredPrediction(asked[name], _sentence(said), tuple(_tempting(call)))


def _texts(outputs: Sequence[Any]) -> Iterator[str]:
    for output in outputs:
        if output.output_type == "execute_result":
            yield output["data"].get("text/plain", "")


def _tempting(call: ast.Call) -> Iterator[tuple[str, str]]:
    given = next((k.value for k in call.keywords if k.arg == "tempting"), None)
    if isinstance(given, ast.Dict):
        for key, value in zip(given.keys, given.values, strict=True):
            if key is not None and isinstance(value, ast.Constant):
                yield ast.unparse(key), str(value.value)


def solutions_in(lesson: Path, solution: Path) -> list[tuple[str, str, str]]:
    """Question, explanation and code of every exercise of a lesson."""
    import nbformat

    cells = nbformat.read(solution, as_version=4).cells
    found: list[tuple[str, str]] = []
    for cell in cells:
        if cell.cell_type == "markdown" and cell.source.startswith("**Exercise"):
            found.append((re.sub(r"^\*\*Exercise \d\.\*\* ", "", cell.source), ""))
        elif cell.cell_type == "code" and found:
            text, code = found[-1]
            found[-1] = text, f"{code}\n\n{cell.source}".strip()
    questions = [exercise.question for exercise in read_lesson(lesson).exercises]
    return [(q, *answer) for q, answer in zip(questions, found, strict=True)]


def guide(
    title: str,
    teaching: dict[str, str],
    predictions: Sequence[AnsweredPrediction],
    solutions: Sequence[tuple[str, str, str]],
) -> str:
    """The sheet of one lesson, a page of HTML that loads nothing."""
    head = "".join(
        f"<dt>{label}</dt><dd>{rendered(_sentence(teaching[key]))}</dd>"
        for key, label in LABELS.items()
        if key in teaching
    )
    rows = "".join(
        f"<tr><td>{rendered(p.question)}</td><td>{rendered(p.answer)}"
        + "".join(f"<p>Tempting: <b>{escape(a)}</b>. {escape(why)}</p>" for a, why in p.tempting)
        + "</td></tr>"
        for p in predictions
    )
    asked = (
        "<h2>Predictions</h2><table><tr><th>question</th><th>answer, and likely wrong ones</th>"
        f"</tr>{rows}</table>"
    )
    solved = "".join(
        f"<li>{rendered(_unnumbered(question))}{rendered(text)}<pre>{escape(code)}</pre></li>"
        for question, text, code in solutions
    )
    return sheet(
        f"{title}: for the teacher",
        f"<dl>{head}</dl>"
        + (asked if rows else "")
        + (f"<h2>Exercises, one point each, and solutions</h2><ol>{solved}</ol>" if solved else ""),
        "A4 portrait",
        _STYLE,
    )


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _unnumbered(question: str) -> str:
    return re.sub(r"^\*\*\d\.\*\* ", "", question)
