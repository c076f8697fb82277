"""Slides made from lessons: a heading, a question or a figure each, with live views in them.

    write_slides(Path("slides"))        slides/01_first_compilation.html, slides/pages/*.html

A lesson is executed as for `explorer course pages`. Each section gives a slide with its heading and
its first paragraph or list, each prediction one with its question, each picture one of its own.
Arrow keys and space turn them; printed, each is a page.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape, unescape
from importlib import import_module
from pathlib import Path
from typing import Any

from explorer.course.grading.grading import chosen_lessons
from explorer.course.lessons import lessons_folder, read_lesson
from explorer.course.pages import executed, rendering
from explorer.files import write_file

LAST_SECTION = "Exercises"
FORMULA = re.compile(r"\$\$(?P<block>.+?)\$\$|\$(?P<inline>[^$\n]+?)\$", re.DOTALL)
MAX_LINES = 24
"""Of a text that is shown; longer ones end with a mark."""
_STYLE = """@page { size: 1280px 720px; margin: 0; }
* { box-sizing: border-box; }
body { margin: 0; font: 26px/1.45 sans-serif; background: #222; }
section { width: 1280px; height: 720px; margin: 0 auto; padding: 48px 72px; background: white;
  color: #1f2328; overflow: auto; position: relative; break-after: page; }
h1 { font-size: 56px; margin: 150px 0 24px; } h2 { font-size: 38px; margin: 0 0 20px; }
pre, code { font: 18px/1.4 monospace; } .plain { white-space: pre-wrap; }
.anchor-link { display: none; }
footer { position: absolute; right: 32px; bottom: 20px; font-size: 15px; color: #59616b; }
.question { font-size: 34px; border-left: 8px solid #4c78a8; padding-left: 28px;
  margin: 60px 0 20px; }
.figure { font-size: 15px; } img { max-width: 100%; }
iframe { width: 100%; height: 590px; border: 0; }
@media screen { section { display: none; } section.shown { display: block; } }"""
_SCRIPT = """const slides = [...document.querySelectorAll("section")];
const show = (at) => {
  const n = Math.max(0, Math.min(slides.length - 1, at));
  slides.forEach((slide, i) => slide.classList.toggle("shown", i === n));
  history.replaceState(null, "", "#" + (n + 1));
};
const at = () => (parseInt(location.hash.slice(1), 10) || 1) - 1;
addEventListener("keydown", (event) => {
  const step = { ArrowRight: 1, PageDown: 1, " ": 1, ArrowLeft: -1, PageUp: -1 }[event.key];
  if (step) { event.preventDefault(); show(at() + step); }
});
addEventListener("hashchange", () => show(at()));
show(at());"""
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>{style}</style></head>
<body>{slides}<script>{script}</script></body></html>
"""


@dataclass(frozen=True)
class Slide:
    """One slide; `html` is its content."""

    kind: str
    """title, section, question, figure or end."""
    html: str


def write_slides(folder: Path, names: Sequence[str] = ()) -> list[Path]:
    """Writes the slides of lessons into a folder. InputError as `write_lessons`."""
    source = lessons_folder()
    paths = chosen_lessons(source, names) if names else sorted(source.glob("[0-9]*.ipynb"))
    written = []
    with rendering(folder):
        for path in paths:
            title = read_lesson(path).title
            place = folder / f"{path.stem}.html"
            write_file(place, page_of(title, list(slides_of(executed(path).cells))))
            written.append(place)
    return written


def page_of(title: str, slides: Sequence[Slide]) -> str:
    """Slides as one page, which loads nothing but the frames in it."""
    count = len(slides)
    sections = "\n".join(
        f'<section class="{slide.kind}-slide">{slide.html}'
        f"<footer>{escape(title)} · {number} / {count}</footer></section>"
        for number, slide in enumerate(slides, 1)
    )
    return _PAGE.format(title=escape(title), style=_STYLE, slides=sections, script=_SCRIPT)


def slides_of(cells: Sequence[Any]) -> Iterator[Slide]:
    """The slides of an executed notebook's cells."""
    exercises = 0
    heading = ""
    for cell in cells:
        tags = cell.metadata.get("tags", [])
        if cell.cell_type == "markdown":
            for found, text in _sections(cell.source, heading):
                heading = found
                if heading.startswith("# "):
                    yield Slide("title", rendered(f"{heading}\n\n{_idea(text)}"))
                elif heading[3:] != LAST_SECTION and text:
                    yield Slide("section", rendered(f"{heading}\n\n{_beginning(text)}"))
        elif "answer" in tags:
            exercises += 1
        elif "grader" not in tags and heading[3:] != LAST_SECTION:
            yield from _of_code(cell)
    if exercises:
        yield Slide("end", f"<h2>Your turn</h2><p>{exercises} exercises in the notebook.</p>")


def _sections(source: str, before: str) -> Iterator[tuple[str, str]]:
    """Headings with the text below each; text before the first one belongs to none."""
    parts = re.split(r"^(#{1,2} .*)$", source, flags=re.MULTILINE)
    if len(parts) == 1:
        yield before, ""
    for heading, text in zip(parts[1::2], parts[2::2], strict=True):
        yield heading, text.strip()


def _of_code(cell: Any) -> Iterator[Slide]:
    for question, choices in questions_in(cell.source):
        listed = "".join(f"<li>{escape(choice)}</li>" for choice in choices)
        yield Slide("question", f'<p class="question">{escape(question)}</p><ul>{listed}</ul>')
    for output in cell.outputs:
        data = output.get("data", {})
        if "text/html" in data and "○" not in data.get("text/plain", "")[:1]:
            yield Slide("figure", f'<div class="figure">{data["text/html"]}</div>')
        elif "text" in output:
            lines = output["text"].rstrip().splitlines()
            more = ["…"] if len(lines) > MAX_LINES else []
            text = "\n".join([*lines[:MAX_LINES], *more])
            yield Slide("figure", f'<pre class="plain">{escape(text)}</pre>')


def questions_in(source: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The texts of predictions, with their choices where these are written out."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "predict" and node.args:
            (question, *_) = node.args
            given = next((k.value for k in node.keywords if k.arg == "choices"), None)
            listed = given.elts if isinstance(given, ast.List | ast.Tuple) else []
            choices = tuple(str(c.value) for c in listed if isinstance(c, ast.Constant))
            yield _text_of(question), choices


def _text_of(node: ast.expr) -> str:
    """A text, with dots for what a formatted one computes."""
    if isinstance(node, ast.JoinedStr):
        parts = (v.value if isinstance(v, ast.Constant) else "…" for v in node.values)
        return "".join(map(str, parts))
    return str(node.value) if isinstance(node, ast.Constant) else ast.unparse(node)


def _idea(text: str) -> str:
    """The sentence that a lesson is about: it is bold."""
    found = re.search(r"\*\*(.+?)\*\*", text, re.DOTALL)
    return f"**{found[1]}**" if found else text.split("\n\n")[0]


def _beginning(text: str) -> str:
    """The first paragraph, with the formula, list or table after it."""
    first, *others = text.split("\n\n")
    kept = [part for part in others[:1] if part.startswith(("$$", "- ", "| ", "1. "))]
    return "\n\n".join([first, *kept])


def rendered(markdown: str) -> str:
    """HTML of Markdown, with its formulas drawn."""
    from nbconvert.filters import markdown2html

    return FORMULA.sub(_drawn, markdown2html(markdown))


def _drawn(found: re.Match[str]) -> str:
    """A formula as MathML where latex2mathml is installed, else as it is written."""
    try:
        converter = import_module("latex2mathml.converter")  # of the documentation's packages
    except ImportError:
        return found[0]
    display = "inline" if found["block"] is None else "block"
    return converter.convert(unescape(found["block"] or found["inline"]), display=display)
