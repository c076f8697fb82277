"""Lessons as pages: the cells of an executed notebook as Markdown, with marks for their outputs.

Outputs are HTML that was made already. They replace their marks after Markdown was read, so that
nothing in them is read as Markdown.
"""

import html
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError

REPOSITORY = Path(__file__).resolve().parents[2]
LESSONS = REPOSITORY / "build" / "lessons"
"""Where scripts/run_notebooks.py writes executed notebooks."""
FORMULA = re.compile(r"\$\$(?P<block>.+?)\$\$|\$(?P<inline>[^$\n]+?)\$", re.DOTALL)
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class Lesson:
    """A lesson's page, and the HTML of its outputs in the order of their marks."""

    markdown: str
    outputs: tuple[str, ...]

    def with_outputs(self, page: str) -> str:
        """The page's HTML with the outputs in place of the marks."""
        for number, output in enumerate(self.outputs):
            page = page.replace(f"<p>{_mark(number)}</p>", f'<div class="output">{output}</div>')
        return page


def read_lessons() -> dict[str, Lesson]:
    """All lessons by the names of their pages, and a page that lists them."""
    paths = sorted((REPOSITORY / "notebooks").glob("[0-9]*.ipynb"))
    found = {}
    for path in paths:
        executed = LESSONS / path.name
        if not executed.exists():
            raise PluginError(f"{path.name} was not executed: `make docs` executes the lessons")
        found[f"lessons/{path.stem}.md"] = _lesson(nbformat.read(executed, as_version=4))
    rows = "".join(
        f"1. [{_title(lesson.markdown)}]({Path(page).stem}.ipynb)\n"
        for page, lesson in found.items()
    )
    found["lessons/index.md"] = Lesson(
        "# Lessons\n\nEach lesson is a notebook: `make learn` opens the first one in JupyterLab. "
        "These pages show what the notebooks show when all questions are open. The explorer in "
        f"them is interactive.\n\n{rows}",
        (),
    )
    return found


def _title(markdown: str) -> str:
    return re.search(r"^# (.*)$", markdown, re.MULTILINE)[1]


def _mark(number: int) -> str:
    return f"output-of-a-cell-{number}"


def _lesson(notebook: Any) -> Lesson:
    blocks: list[str] = []
    outputs: list[str] = []
    for cell in notebook.cells:
        source = cell.source.strip()
        if cell.cell_type == "markdown":
            blocks.append(_with_formulas(source))
        elif cell.cell_type == "code" and source:
            blocks.append(f"````python\n{source}\n````")
            for output in cell.outputs:
                if shown := _html(output):
                    blocks.append(_mark(len(outputs)))
                    outputs.append(shown)
    return Lesson("\n\n".join(blocks) + "\n", tuple(outputs))


def _with_formulas(text: str) -> str:
    """Formulas as MathML, which browsers draw without a script; `$` in code is left alone."""

    def formula(match: re.Match[str]) -> str:
        if match["block"] is not None:
            return convert(match["block"], display="block")
        return convert(match["inline"])

    parts = re.split(r"(`[^`]*`)", text)
    return "".join(p if p.startswith("`") else FORMULA.sub(formula, p) for p in parts)


def _html(output: Any) -> str:
    """An output as HTML: the richest of its forms that a page can show."""
    if output.output_type == "stream":
        return _plain(output.text)
    if output.output_type == "error":
        return _plain("\n".join(output.traceback))
    data = output.data
    if "text/html" in data:
        return data["text/html"]
    if "image/svg+xml" in data:
        return data["image/svg+xml"]
    if "image/png" in data:
        return f'<img alt="" src="data:image/png;base64,{data["image/png"].strip()}">'
    if "text/plain" in data:
        return _plain(data["text/plain"])
    return ""


def _plain(text: str) -> str:
    return f"<pre>{html.escape(COLOURS.sub('', text))}</pre>"
