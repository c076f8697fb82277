"""A term of the course: a folder for students, with dates and points in `course.toml`.

new_course(Path("compilers-2027"), term="2027a")
Term.read(Path("compilers-2027/course.toml")).points_of("2.1")      1.0
"""

from __future__ import annotations

import json
import shutil
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from explorer.course.lessons import lessons_folder, read_lesson, read_notebook
from explorer.errors import InputError

SETTINGS = "course.toml"
DEFAULT_POINTS = 1.0


@dataclass(frozen=True)
class Term:
    """Name and points; an exercise that is not named counts one point."""

    name: str = ""
    points: Mapping[str, float] = field(default_factory=dict)

    def points_of(self, exercise: str) -> float:
        return self.points.get(exercise, DEFAULT_POINTS)

    @staticmethod
    def read(path: Path) -> Term:
        """From a `course.toml`; InputError says what is wrong with it."""
        try:
            data = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(f"cannot be read: {error}", file=str(path)) from None
        points = data.get("points", {})
        numbers = isinstance(points, dict) and all(
            isinstance(p, int | float) and not isinstance(p, bool) and p >= 0
            for p in points.values()
        )
        if not numbers:
            raise InputError("points are numbers by the name of an exercise", file=str(path))
        return Term(str(data.get("term", "")), {k: float(p) for k, p in points.items()})


def new_course(folder: Path, term: str = "") -> list[Path]:
    """Writes what students get: lessons without solutions, sample models, dates and points.

    The folder is written at once or not at all. InputError where it exists already.
    """
    if folder.exists():
        raise InputError("the folder exists already", file=str(folder), hint="name another one")
    source = lessons_folder()
    if not folder.parent.is_dir():
        raise InputError("there is no such folder", file=str(folder.parent))
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".explorer-course-") as scratch:
        made = Path(scratch) / folder.name
        made.mkdir()
        for path in sorted(source.glob("[0-9]*.ipynb")):
            _write_lesson(path, made / path.name, term)
        models = source.parent / "sample_models"
        shutil.copytree(
            models, made / "sample_models", ignore=shutil.ignore_patterns("__pycache__")
        )
        (made / SETTINGS).write_text(settings_text(source, term), encoding="utf-8")
        (made / "README.md").write_text(_readme(source, term), encoding="utf-8")
        made.rename(folder)
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _write_lesson(path: Path, to: Path, term: str) -> None:
    notebook = read_notebook(path)
    if term:
        notebook.setdefault("metadata", {}).setdefault("explorer", {})["term"] = term
    for cell in notebook["cells"]:
        if cell.get("cell_type") == "code":
            cell["outputs"], cell["execution_count"] = [], None
    to.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def settings_text(folder: Path, term: str) -> str:
    """`course.toml`: a line for each exercise, and a place for the date of each lesson."""
    lessons = [read_lesson(path) for path in sorted(folder.glob("[0-9]*.ipynb"))]
    dates = "".join(f'# "{lesson.name}" = 2027-01-31\n' for lesson in lessons if lesson.exercises)
    points = "".join(
        f'"{exercise.name}" = {DEFAULT_POINTS:g}\n'
        for lesson in lessons
        for exercise in lesson.exercises
    )
    head = f"term = {json.dumps(term, ensure_ascii=False)}\n"
    return (
        f"{head}\n# The day by which a lesson is handed in.\n[dates]\n{dates}\n[points]\n{points}"
    )


def _readme(folder: Path, term: str) -> str:
    lessons = [read_lesson(path) for path in sorted(folder.glob("[0-9]*.ipynb"))]
    rows = "".join(
        f"| [{lesson.title}]({lesson.name}.ipynb) | {len(lesson.exercises)} |\n"
        for lesson in lessons
    )
    title = f"# How a model is compiled{f', term {term}' if term else ''}\n\n"
    return (
        f"{title}| lesson | exercises |\n| --- | --- |\n{rows}\n"
        "Open a lesson in JupyterLab (`jupyter lab`) and read it from top to bottom. A prediction "
        "comes before the cell that answers it. An answer is in a cell of its own after the "
        "question; hand in the notebooks, and `predictions.jsonl` if your teacher asks for it.\n\n"
        "An answer computes and gives a value to its name. It may import the compiler, NumPy and "
        "Python's modules that compute. It does not reach for files, processes or the network.\n"
    )
