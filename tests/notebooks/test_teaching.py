"""The teachers' page names every lesson once, by its title, and headings that the lesson has."""

import re
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import pytest

lessons = SimpleNamespace(**run_path(str(Path(__file__).parent / "lessons.py")))
PAGE = (lessons.REPOSITORY / "docs" / "teaching.md").read_text(encoding="utf-8")
PARTS = PAGE.split("\n## ")[1:]
LINES = ("Aim", "Show", "Misconception", "Exam")


def headings_of(name):
    cells = lessons.cells_of(lessons.FOLDER / name)
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    return re.findall(r"^#+ (.*)", text, re.MULTILINE)


def test_every_lesson_is_there_in_order():
    linked = [re.findall(r"notebooks/(\d+_\w+\.ipynb)", part) for part in PARTS]
    assert linked == [[path.name] for path in sorted(lessons.FOLDER.glob("[0-9]*.ipynb"))]


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.split()[0])
def test_a_lesson_has_its_title_and_the_headings_that_are_shown(part):
    number, title, name = re.match(r"(\d+) \[(.*)\]\(\.\./notebooks/(.*)\)", part).groups()
    headings = headings_of(name)
    assert headings[0] == title and int(name[:2]) == int(number)
    assert re.findall(r"^- (\w+): ", part, re.MULTILINE) == list(LINES)
    shown = re.findall(r"\*([^*]+)\*", part.split("- Exam")[0])
    named = [heading for heading in shown if heading != "confirmed"]  # a column of a table
    assert named and set(named) <= set(headings)
