"""`explorer course`: the lessons as a course for a term, with grades.

explorer course new FOLDER [--term 2027a]        what students get: no solutions, dates and points
explorer course grade SUBMISSIONS --out grades.csv   a folder for each student; a page for each
explorer course guesses SUBMISSIONS              histograms of locked predictions
explorer course doctor                           whether this machine can run the course
explorer course pages DIR                        every lesson as a page that needs no kernel
explorer course slides DIR                       slides of every lesson, with live views
explorer course guides DIR                       a sheet for the teacher of every lesson
explorer course handouts DIR                     sheets to print
explorer course play [PUZZLE|LINK]               a puzzle as a page
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from explorer.cli import arguments as options
from explorer.cli.terminal import Progress, print_json, print_lines, print_note

if TYPE_CHECKING:
    from explorer.course.grading import Result

SUMMARY = "hand out the lessons for a term, grade answers, and check a machine"
NOT_READY = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")

    def action(name: str, text: str) -> argparse.ArgumentParser:
        return actions.add_parser(name, help=text, description=text)

    new = action("new", "a folder for students: lessons without solutions, models, course.toml")
    new.add_argument("folder", type=Path, metavar="FOLDER")
    new.add_argument("--term", default="", metavar="T", help="noted in every lesson")
    options.add_json(new)

    grade = action("grade", "put each student's answers into the lessons, run them, give points")
    grade.add_argument(
        "submissions", type=Path, metavar="SUBMISSIONS", help="a folder for each student"
    )
    grade.add_argument(
        "--out", type=Path, required=True, metavar="GRADES.csv", help="a row for each exercise"
    )
    grade.add_argument(
        "--course", type=Path, metavar="course.toml", help="term and points (default: a point each)"
    )
    grade.add_argument(
        "--lesson", action="append", default=[], metavar="N", help="only this one; several times"
    )
    grade.add_argument(
        "--seconds",
        type=options.count,
        default=300,
        metavar="S",
        help="for a lesson (default: 300)",
    )
    grade.add_argument(
        "--answer-seconds",
        type=options.count,
        default=60,
        metavar="S",
        help="for one answer (default: 60)",
    )
    grade.add_argument("--nbgrader", type=Path, metavar="FILE.csv", help="points as nbgrader's")
    grade.add_argument(
        "--gradescope", type=Path, metavar="DIR", help="results.json for each student"
    )
    options.add_json(grade)

    guesses = action("guesses", "histograms of the predictions that students locked")
    guesses.add_argument("submissions", type=Path, metavar="SUBMISSIONS")
    options.add_json(guesses)

    options.add_json(action("doctor", "whether this machine can run the course, and what to do"))

    for name, text in (
        ("pages", "every lesson as a page that opens without a kernel"),
        ("slides", "slides of every lesson: headings, questions and live views"),
        (
            "guides",
            "two pages for the teacher of every lesson: answers, solutions, an exam question",
        ),
    ):
        pages = action(name, text)
        pages.add_argument("folder", type=Path, metavar="DIR")
        pages.add_argument(
            "--lesson",
            action="append",
            default=[],
            metavar="N",
            help="only this one; several times",
        )

    handouts = action("handouts", "sheets to print: a convolution, the IR, memory puzzles")
    handouts.add_argument("folder", type=Path, metavar="DIR")
    handouts.add_argument(
        "--student",
        type=int,
        action="append",
        default=[],
        metavar="N",
        help="a memory puzzle for this number; several times",
    )

    play = action("play", "a puzzle as a page, scored against a proven optimum")
    play.add_argument(
        "puzzle", nargs="?", default="fit-it", metavar="PUZZLE", help="a name, or a puzzle's link"
    )
    play.add_argument(
        "--student", type=int, default=0, metavar="N", help="the number of the instance"
    )
    play.add_argument("--port", type=int, default=0, metavar="N", help="default: a free one")
    play.add_argument("--no-browser", action="store_true", help="print the address only")


def run(arguments: argparse.Namespace) -> int:
    actions = {
        "new": _new,
        "grade": _grade,
        "guesses": _guesses,
        "doctor": _doctor,
        "pages": _pages,
        "slides": _slides,
        "guides": _guides,
        "handouts": _handouts,
        "play": _play,
    }
    return actions[arguments.action](arguments)


def _new(arguments: argparse.Namespace) -> int:
    from explorer.course.terms import new_course

    written = new_course(arguments.folder, arguments.term)
    if arguments.json:
        print_json({"folder": str(arguments.folder), "files": [str(path) for path in written]})
    else:
        lessons = sum(path.suffix == ".ipynb" for path in written)
        print_lines([f"{lessons} lessons, {len(written)} files in {arguments.folder}"])
    return 0


def _grade(arguments: argparse.Namespace) -> int:
    from explorer.course.grading import grade
    from explorer.course.grading.reports import (
        nbgrader_csv,
        results_csv,
        write_gradescope,
        write_pages,
    )
    from explorer.course.grading.running import Limits
    from explorer.course.terms import Term
    from explorer.files import check_output, write_file

    check_output(arguments.out)
    term = Term() if arguments.course is None else Term.read(arguments.course)
    limits = Limits(float(arguments.seconds), float(arguments.answer_seconds))
    results: list[Result] = []
    with Progress("grading") as progress:

        def report(student: str, lesson: str) -> None:
            progress(f"{student}: {lesson}", len(results), len(results) + 1)

        results.extend(
            grade(
                arguments.submissions,
                term,
                lessons=arguments.lesson,
                limits=limits,
                progress=report,
            )
        )
    write_file(arguments.out, results_csv(results))
    pages = write_pages(results, arguments.out.with_suffix(""))
    if arguments.nbgrader is not None:
        write_file(arguments.nbgrader, nbgrader_csv(results))
    if arguments.gradescope is not None:
        write_gradescope(results, arguments.gradescope)
    if arguments.json:
        print_json([vars(result) for result in results])
    else:
        print_lines(_summary(results))
    print_note(f"wrote {arguments.out} and {len(pages)} pages in {arguments.out.with_suffix('')}")
    return 0


def _summary(results: list[Result]) -> list[str]:
    """A line for each student, then the exercises that were missed most."""
    lines = []
    for student in dict.fromkeys(result.student for result in results):
        own = [result for result in results if result.student == student]
        points, of = sum(r.points for r in own), sum(r.of for r in own)
        lines.append(f"{student}: {points:g} of {of:g}")
    missed: dict[str, int] = {}
    for result in results:
        missed[result.exercise] = missed.get(result.exercise, 0) + (result.points < result.of)
    worst = sorted(missed.items(), key=lambda item: -item[1])[:5]
    lines.append("missed most: " + ", ".join(f"{name} ({count})" for name, count in worst))
    return lines


def _guesses(arguments: argparse.Namespace) -> int:
    from explorer.course.ledger import collect, histogram_lines

    questions = collect(arguments.submissions)
    if arguments.json:
        print_json([question.summary() for question in questions])
    else:
        print_lines(line for question in questions for line in histogram_lines(question))
    return 0


def _doctor(arguments: argparse.Namespace) -> int:
    from explorer.course.machine import examine

    findings = examine()
    if arguments.json:
        print_json([vars(finding) for finding in findings])
    else:
        width = max(len(finding.name) for finding in findings)
        for finding in findings:
            sign = "✓" if finding.is_fine else ("✗" if finding.is_needed else "–")
            advice = "" if finding.is_fine else f"; {finding.advice}"
            print_lines([f"{sign} {finding.name:{width}}  {finding.found}{advice}"])
    return 0 if all(f.is_fine or not f.is_needed for f in findings) else NOT_READY


def _pages(arguments: argparse.Namespace) -> int:
    from explorer.course.pages import write_lessons

    return _write(write_lessons, "pages", arguments)


def _slides(arguments: argparse.Namespace) -> int:
    from explorer.course.slides import write_slides

    return _write(write_slides, "lessons", arguments)


def _guides(arguments: argparse.Namespace) -> int:
    from explorer.course.guide import write_guides

    return _write(write_guides, "sheets", arguments)


def _write(
    write: Callable[[Path, Sequence[str]], list[Path]], what: str, arguments: argparse.Namespace
) -> int:
    if not sys.stderr.isatty():
        print_note("executing lessons")
    written = write(arguments.folder, arguments.lesson)
    print_lines([f"{len(written)} {what} in {arguments.folder}; open {written[0]}"])
    return 0


def _handouts(arguments: argparse.Namespace) -> int:
    from explorer.course.handouts import write_handouts

    written = write_handouts(arguments.folder, arguments.student or (0,))
    print_lines([f"{len(written)} sheets in {arguments.folder}; open {written[0]}"])
    return 0


def _play(arguments: argparse.Namespace) -> int:
    from explorer.course.puzzles import open_link, open_puzzle

    name = arguments.puzzle
    puzzle = open_link(name) if ":" in name else open_puzzle(name, arguments.student)
    from explorer.app.server.puzzles import serve_puzzle  # brings Panel

    serve_puzzle(puzzle, arguments.port, not arguments.no_browser)
    return 0
