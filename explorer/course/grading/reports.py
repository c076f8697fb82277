"""Results as files: a table, a page for each student, nbgrader's and Gradescope's formats."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from html import escape
from itertools import groupby
from pathlib import Path

from explorer.course.grading.grading import Result
from explorer.files import write_file
from explorer.traces.tables import Table, csv_text

COLUMNS = ("student", "lesson", "exercise", "points", "of", "message")
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>body {{ font: 16px/1.5 sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; }}
table {{ border-collapse: collapse; width: 100%; }}
td, th {{ border-bottom: 1px solid #ccc; padding: 4px 10px; text-align: left; }}
td {{ vertical-align: top; }}
</style></head><body><h1>{title}</h1><p>{sum}</p>{tables}</body></html>
"""


def results_csv(results: Iterable[Result]) -> str:
    """A row for each exercise of each student. No cell begins with what a spreadsheet executes."""
    return csv_text(Table(COLUMNS, tuple(_row(result) for result in results)))


def _row(result: Result) -> tuple[str | float, ...]:
    message = " ".join(result.message.split())
    return (
        result.student,
        result.lesson,
        result.exercise,
        result.points,
        result.of,
        message,
    )


def nbgrader_csv(results: Sequence[Result]) -> str:
    """As `nbgrader export` writes it: a row for each lesson of each student."""
    columns = ("assignment", "student_id", "max_score", "score")
    rows = [
        (lesson, student, sum(r.of for r in group), sum(r.points for r in group))
        for (student, lesson), group in _grouped(results)
    ]
    return csv_text(Table(columns, tuple(rows)))


def gradescope_json(results: Sequence[Result]) -> str:
    """`results.json` of one student, as Gradescope's autograder reads it."""
    tests = [
        {
            "name": f"{result.lesson} {result.exercise}",
            "number": result.exercise,
            "score": result.points,
            "max_score": result.of,
            "output": result.message,
        }
        for result in results
    ]
    return json.dumps({"score": sum(r.points for r in results), "tests": tests}, indent=1) + "\n"


def student_page(student: str, results: Sequence[Result]) -> str:
    """One student's points and sentences, lesson by lesson."""
    tables = "".join(
        f"<h2>{escape(lesson)}</h2><table><tr><th>exercise</th><th>points</th><th></th></tr>"
        + "".join(
            f"<tr><td>{escape(r.exercise)}</td><td>{r.points:g} of {r.of:g}</td>"
            f"<td>{escape(r.message)}</td></tr>"
            for r in group
        )
        + "</table>"
        for (_, lesson), group in _grouped(results)
    )
    total = f"{sum(r.points for r in results):g} of {sum(r.of for r in results):g} points"
    return _PAGE.format(title=escape(student), sum=total, tables=tables)


def write_pages(results: Sequence[Result], folder: Path) -> list[Path]:
    """A page for each student in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for student, group in groupby(results, key=lambda result: result.student):
        path = folder / f"{file_name(student)}.html"
        write_file(path, student_page(student, list(group)))
        written.append(path)
    return written


def write_gradescope(results: Sequence[Result], folder: Path) -> None:
    """A folder for each student with `results.json`."""
    for student, group in groupby(results, key=lambda result: result.student):
        place = folder / file_name(student)
        place.mkdir(parents=True, exist_ok=True)
        write_file(place / "results.json", gradescope_json(list(group)))


def file_name(student: str) -> str:
    """A student's name as the name of a file."""
    return re.sub(r"[^\w.@ -]", "_", student).strip(". ") or "student"


def _grouped(results: Sequence[Result]) -> list[tuple[tuple[str, str], list[Result]]]:
    def key(result: Result) -> tuple[str, str]:
        return result.student, result.lesson

    return [(name, list(group)) for name, group in groupby(results, key=key)]
