"""Slides and handouts: what of a lesson is shown, and sheets that load nothing."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

from explorer.course.handouts import UNIT_BYTES, memory_puzzle, one_convolution, reading_ir
from explorer.course.puzzles.fit import FitIt
from explorer.course.slides import MAX_LINES, page_of, slides_of


def cell(kind, source, outputs=(), tags=()):
    return SimpleNamespace(
        cell_type=kind, source=source, outputs=list(outputs), metadata={"tags": list(tags)}
    )


def printed(text):
    return {"output_type": "stream", "text": text}


def shown(html, text="a figure"):
    return {"output_type": "execute_result", "data": {"text/html": html, "text/plain": text}}


LESSON = [
    cell("markdown", "# Small <b>\n\nMuch to say.\n\nThe idea: **one thing**."),
    cell("code", "setup = 1"),
    cell("markdown", "## Part\n\nFirst paragraph.\n\n- a list\n\nSecond paragraph."),
    cell(
        "code",
        'predict("How many?", ..., choices=["one", "<two>"])',
        [shown("<i>○</i>", "○ first your prediction")],
        ["prediction"],
    ),
    cell("code", "figure", [shown("<svg></svg>")]),
    cell("code", "print()", [printed("\n".join(map(str, range(100))))]),
    cell("markdown", "Text without a heading.\n\n## Exercises\n\n**1.** Do it."),
    cell("code", "answer = ...", tags=["answer"]),
    cell("code", "check(answer, judge)", [shown("no")], ["grader"]),
]


@pytest.mark.parametrize(("count", "is_cut"), [(MAX_LINES, False), (MAX_LINES + 1, True)])
def test_a_printed_text_is_cut_where_it_has_too_many_lines(count: int, is_cut: bool):
    printing = cell("code", "print()", [printed("\n".join(map(str, range(count))))])
    (slide,) = [slide for slide in slides_of([*LESSON[:1], printing]) if slide.kind == "figure"]
    assert ("…" in slide.html) == is_cut and f"\n{MAX_LINES - 1}" in slide.html


def test_a_lesson_becomes_headings_questions_and_figures():
    slides = list(slides_of(LESSON))
    assert [slide.kind for slide in slides] == [
        "title", "section", "question", "figure", "figure", "end",
    ]  # fmt: skip
    title, section, question, figure, text, end = (slide.html for slide in slides)
    assert "one thing" in title and "Much to say" not in title
    assert "First paragraph" in section and "a list" in section and "Second" not in section
    assert "How many?" in question and "&lt;two&gt;" in question
    assert "<svg></svg>" in figure
    assert text.count("\n") == MAX_LINES and text.rstrip("</pre>").endswith("…")
    assert "1 exercises" in end


def test_answers_and_graders_are_on_no_slide():
    page = page_of("Small", list(slides_of(LESSON)))
    assert "Do it" not in page and ">no<" not in page


def test_slides_are_one_page_that_loads_nothing():
    page = page_of("<title>", list(slides_of(LESSON)))
    assert page.count("<section") == 6 and "6 / 6" in page
    assert "<title>&lt;title&gt;</title>" in page
    assert not re.findall(r"(?:src|href)=.?https?:", page)


def test_a_question_that_is_formatted_has_dots_for_what_is_computed():
    cells = [cell("markdown", "## A"), cell("code", 'predict(f"Which of {names}?", ...)')]
    (question,) = slides_of(cells)
    assert "Which of …?" in question.html


def test_one_convolution_is_shown_on_all_levels():
    sheet = one_convolution()
    for level in ("Nodes of the file", "IR after fusion", "Memory", "textbook", "scheduled", ">C<"):
        assert level in sheet
    for trace in ("BatchNormalization", "top.conv", "bytes at", "affine.for", "UNROLL"):
        assert trace in sheet
    assert "A3 landscape" in sheet


def test_the_ir_is_on_one_page_with_its_parts():
    sheet = reading_ir()
    assert "top.return(%dense2)" in sheet and "a value: defined by one line" in sheet


@pytest.mark.parametrize("student", [0, 3])
def test_a_memory_puzzle_has_its_solution_on_another_page(student):
    sheet, puzzle = memory_puzzle(student), FitIt(student)
    before, after = sheet.split('class="solution"')
    assert f"{int(puzzle.optimum)} bytes" in after and f"{int(puzzle.optimum)} bytes" not in before
    assert after.count("<rect") == len(puzzle.buffers) and "<rect" not in before
    assert not re.findall(r"(?:src|href)=.?https?:", sheet)


@pytest.mark.parametrize("student", range(4))
def test_a_plan_is_drawn_inside_of_its_grid_and_nothing_overlaps(student):
    """Steps go to the right and addresses upwards, one row for so many bytes."""
    puzzle = FitIt(student)
    (drawn,) = re.findall(r"<svg.*?</svg>", memory_puzzle(student).split('class="solution"')[1])
    left, top, width, height = map(int, re.findall(r'viewBox="(.*?)"', drawn)[0].split())
    right = max(map(int, re.findall(r"H(\d+)", drawn)))
    bottom = max(map(int, re.findall(r"V(\d+)", drawn)))
    assert left + width >= right and top + height > bottom  # numbers stand below
    boxes = {
        name: tuple(map(int, numbers))
        for *numbers, name in re.findall(
            r'<rect x="(\d+)" y="(-?\d+)" width="(\d+)" height="(\d+)".*?<text .*?>(.*?)</text>',
            drawn,
        )
    }
    assert boxes.keys() == {buffer.id for buffer in puzzle.buffers}
    one_row = min(h for _, _, _, h in boxes.values()) / (
        min(buffer.size_bytes for buffer in puzzle.buffers) // UNIT_BYTES
    )
    for buffer in puzzle.buffers:
        x, y, w, h = boxes[buffer.id]
        assert x >= 0 and x + w <= right and y >= 0
        assert bottom - (y + h) == puzzle.solution.offsets[buffer.id] // UNIT_BYTES * one_row
    names = sorted(boxes)
    for i, name in enumerate(names):
        for other in names[i + 1 :]:
            (ax, ay, aw, ah), (bx, by, bw, bh) = boxes[name], boxes[other]
            assert ax + aw <= bx or bx + bw <= ax or ay + ah <= by or by + bh <= ay
