"""The lessons of the course as data: cells, exercises, where they are.

    lesson = read_lesson(lessons_folder() / "03_passes_and_diffs.ipynb")
    lesson.exercises[0]        Exercise(name="2.1", variable="answer", question="One rewrite ...")

An answer has a cell of its own, tagged `answer`; the cell after it, tagged `grader`, judges it.
"""

from __future__ import annotations

import ast
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from explorer.errors import InputError

MAX_BYTES = 50 << 20
"""Of a notebook with its outputs."""
REPOSITORY = Path(__file__).parents[2]


@dataclass(frozen=True)
class Cell:
    """A cell of a notebook; `exercise` is empty where it belongs to none."""

    id: str
    kind: str
    """code or markdown."""
    source: str
    tags: tuple[str, ...]
    exercise: str


@dataclass(frozen=True)
class Exercise:
    name: str
    """Lesson and number: 2.1."""
    lesson: str
    variable: str
    """What the answer is assigned to."""
    question: str


@dataclass(frozen=True)
class Lesson:
    name: str
    """Of its file, without the suffix."""
    title: str
    cells: tuple[Cell, ...]
    needs: tuple[str, ...]
    """Packages without which it does not run."""
    term: str

    @cached_property
    def exercises(self) -> tuple[Exercise, ...]:
        found = []
        question = ""
        for cell in self.cells:
            if cell.kind == "markdown":
                question = cell.source
            if "answer" in cell.tags:
                text = question.rsplit("\n\n", 1)[-1]
                found.append(Exercise(cell.exercise, self.name, variable_of(cell), text))
        return tuple(found)


def variable_of(cell: Cell) -> str:
    """The name that an answer's cell assigns dots to."""
    (given,) = ast.parse(cell.source).body
    assert isinstance(given, ast.Assign) and isinstance(given.targets[0], ast.Name)
    return given.targets[0].id


def lessons_folder() -> Path:
    """The lessons of this clone; InputError where there are none."""
    folder = REPOSITORY / "notebooks"
    if not folder.is_dir():
        raise InputError(
            "the lessons are not here: they are in the repository, and not in the wheel",
            hint="clone the repository, or unpack the source distribution",
        )
    return folder


def read_lessons(folder: Path | None = None) -> tuple[Lesson, ...]:
    """All lessons in the order of their numbers."""
    found = lessons_folder() if folder is None else folder
    return tuple(read_lesson(path) for path in sorted(found.glob("[0-9]*.ipynb")))


def read_lesson(path: Path) -> Lesson:
    """A lesson's notebook. InputError for a file that is none."""
    notebook = read_notebook(path)
    cells = tuple(_cell(cell) for cell in notebook["cells"])
    metadata = notebook.get("metadata", {}).get("explorer", {})
    titles = [line for cell in cells for line in cell.source.splitlines() if line.startswith("# ")]
    return Lesson(
        name=path.stem,
        title=titles[0][2:] if titles else path.stem,
        cells=cells,
        needs=tuple(metadata.get("needs", ())),
        term=str(metadata.get("term", "")),
    )


def read_notebook(path: Path) -> dict[str, Any]:
    """The JSON of a notebook; InputError says what is wrong with it. Nothing in it is executed."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InputError(f"larger than {MAX_BYTES >> 20} MB", file=str(path))
        notebook = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        reason = str(error) or type(error).__name__
        raise InputError(f"this is no notebook: {reason}", file=str(path)) from None
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
        raise InputError("this is no notebook: it has no list of cells", file=str(path))
    return notebook


def _cell(cell: dict[str, Any]) -> Cell:
    source = cell.get("source", "")
    text = "".join(map(str, source)) if isinstance(source, list) else str(source)
    metadata = cell.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    tags = metadata.get("tags")
    own = metadata.get("explorer")
    exercise = own.get("exercise", "") if isinstance(own, dict) else ""
    return Cell(
        id=str(cell.get("id", "")),
        kind=str(cell.get("cell_type", "")),
        source=text,
        tags=tuple(map(str, tags)) if isinstance(tags, list) else (),
        exercise=str(exercise),
    )
