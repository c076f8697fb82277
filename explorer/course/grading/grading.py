"""Goes over a folder of submissions: a folder for each student, lessons in it under their names."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from explorer.course.grading.answers import answers_of
from explorer.course.grading.running import Limits, run_lesson
from explorer.course.lessons import lessons_folder, read_lesson
from explorer.course.terms import Term
from explorer.errors import InputError

NOT_ANSWERED = "not answered"
NOT_HANDED_IN = "not handed in"


@dataclass(frozen=True)
class Result:
    """One exercise of one student."""

    student: str
    lesson: str
    exercise: str
    points: float
    of: float
    message: str


def grade(
    submissions: Path,
    term: Term,
    *,
    lessons: Sequence[str] = (),
    limits: Limits = Limits(),  # noqa: B008  # frozen
    folder: Path | None = None,
    progress: Callable[[str, str], None] | None = None,
) -> Iterator[Result]:
    """The results of every student, lesson by lesson.

    lessons: names or numbers of those that count; all by default. folder: where the reference
    lessons are. Nothing of a submission runs outside of a child process with a folder of its own.

    Raises:
        InputError: for a folder without students, and for lessons that there are not.
    """
    students = students_of(submissions)
    reference = lessons_folder() if folder is None else folder
    chosen = chosen_lessons(reference, lessons)
    with tempfile.TemporaryDirectory(prefix="explorer-grading-") as work:
        for student in students:
            for path in chosen:
                if progress is not None:
                    progress(student.name, path.stem)
                yield from _of_lesson(student, path, term, Path(work), limits)


def students_of(submissions: Path) -> list[Path]:
    """The students' folders in the order of their names."""
    if not submissions.is_dir():
        raise InputError("this is no folder", file=str(submissions))
    found = sorted(p for p in submissions.iterdir() if p.is_dir() and not p.name.startswith("."))
    if not found:
        raise InputError(
            "there is no student's folder in it",
            file=str(submissions),
            hint="one folder for each student, with the lessons under their names",
        )
    return found


def chosen_lessons(folder: Path, names: Sequence[str]) -> list[Path]:
    """The lessons of those names or numbers that have exercises."""
    paths = sorted(folder.glob("[0-9]*.ipynb"))
    if not names:
        return [path for path in paths if read_lesson(path).exercises]
    found = []
    for name in names:
        fit = [p for p in paths if p.stem == name or p.stem.split("_")[0] == f"{name:0>2}"]
        if not fit:
            known = ", ".join(path.stem for path in paths)
            raise InputError(f"there is no lesson {name!r}", hint=f"lessons: {known}")
        found += fit
    return found


def _of_lesson(
    student: Path, path: Path, term: Term, work: Path, limits: Limits
) -> Iterator[Result]:
    lesson = read_lesson(path)

    def result(exercise: str, is_right: bool, message: str) -> Result:
        of = term.points_of(exercise)
        points = of if is_right else 0.0
        return Result(
            student=student.name,
            lesson=lesson.name,
            exercise=exercise,
            points=points,
            of=of,
            message=message,
        )

    def none(message: str) -> list[Result]:
        return [result(exercise.name, False, message) for exercise in lesson.exercises]

    handed = next(iter(sorted(student.rglob(f"{lesson.name}.ipynb"))), None)
    if handed is None:
        yield from none(NOT_HANDED_IN)
        return
    try:
        note = _term_note(handed, term)
        answers = answers_of(handed, lesson)
    except InputError as error:
        yield from none(error.message)
        return
    missing = [name for name in lesson.needs if importlib.util.find_spec(name) is None]
    if missing and answers:
        yield from none(f"not judged: {', '.join(missing)} is not installed here")
        return
    judged = run_lesson(path, answers, work / student.name, limits) if answers else {}
    for exercise in lesson.exercises:
        found = judged.get(exercise.name)
        if found is None:
            yield result(exercise.name, False, note + NOT_ANSWERED)
        else:
            yield result(exercise.name, found.is_right, note + found.message)


def _term_note(handed: Path, term: Term) -> str:
    own = read_lesson(handed).term
    if own and term.name and own != term.name:
        return f"(of term {own}) "
    return ""
