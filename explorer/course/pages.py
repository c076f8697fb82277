"""Lessons as pages that open without a kernel, their explorers in frames, their answers open.

    write_lessons(Path("site"))         site/01_first_compilation.html, site/pages/*.html

Each lesson is executed in a kernel of its own with its questions open, as its reader finds it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import Any

from explorer.course.grading.grading import chosen_lessons
from explorer.course.lessons import lessons_folder, read_lesson
from explorer.course.locking import COURSE, OPEN
from explorer.errors import InputError
from explorer.files import write_file

SECONDS = 600
_STYLE = """body { font: 16px/1.6 sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; }
pre { font: 13px/1.45 monospace; overflow: auto; margin: 0.5em 0; padding: 0.6em 1em; }
.highlight pre { background: #f6f6f6; }
.jp-OutputArea-output pre, .output pre { border-left: 3px solid #ddd; }
.prompt, .jp-InputPrompt, .jp-OutputPrompt, .jp-Collapser, .anchor-link { display: none; }
iframe { background: white; }"""
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>{style}</style></head>
<body>{body}</body></html>
"""


def write_lessons(folder: Path, names: Sequence[str] = ()) -> list[Path]:
    """Writes the index and a page for each lesson into a folder; the paths, the index first.

    InputError for a lesson that there is not, or that does not run to its end.
    """
    source = lessons_folder()
    paths = chosen_lessons(source, names) if names else sorted(source.glob("[0-9]*.ipynb"))
    written = []
    with rendering(folder):
        for path in paths:
            place = folder / f"{path.stem}.html"
            write_file(place, lesson_html(path))
            written.append(place)
    index = folder / "index.html"
    write_file(index, _index(paths))
    return [index, *written]


def lesson_html(path: Path) -> str:
    """The executed lesson as one page, which loads nothing but its frames. Formulas stay as they
    are written: what draws them would come from another server."""
    from nbconvert import HTMLExporter

    body, _ = HTMLExporter(template_name="basic").from_notebook_node(executed(path))
    return _PAGE.format(title=escape(read_lesson(path).title), style=_style(), body=body)


def executed(path: Path) -> Any:
    """A notebook with the outputs of its cells. InputError names the lesson that fails."""
    import nbformat
    from jupyter_client.manager import AsyncKernelManager
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as sockets:
        # The kernel is spoken to through sockets in a private folder, so that no port is open.
        kernel = AsyncKernelManager(kernel_name="python3", transport="ipc", ip=f"{sockets}/kernel")
        client = NotebookClient(
            notebook,
            km=kernel,
            timeout=SECONDS,
            resources={"metadata": {"path": str(path.parent)}},
        )
        client.owns_km = True  # and shuts the kernel down
        _execute(client, path)
    return notebook


def _execute(client: Any, path: Path) -> None:
    from nbclient.exceptions import CellExecutionError

    try:
        client.execute()
    except CellExecutionError as error:
        raise InputError(
            f"the lesson does not run to its end: {error.ename}: {error.evalue}", file=str(path)
        ) from None


def _style() -> str:
    """Colours of code, and room for outputs."""
    from pygments.formatters.html import HtmlFormatter

    return f"{HtmlFormatter().get_style_defs('.highlight')}\n{_STYLE}"


def _index(paths: Sequence[Path]) -> str:
    rows = []
    for path in paths:
        lesson = read_lesson(path)
        count = len(lesson.exercises)
        name = escape(lesson.title)
        rows.append(f'<li><a href="{path.stem}.html">{name}</a>, {count} exercises</li>')
    items = "\n".join(rows)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Lessons</title>'
        "<style>body { font: 16px/1.6 sans-serif; max-width: 45em; margin: 2em auto; }</style>"
        f"</head><body><h1>Lessons</h1><ol>{items}</ol></body></html>\n"
    )


@contextmanager
def rendering(folder: Path, course: str = OPEN) -> Iterator[None]:
    """Lessons run with their questions open or answered, and their explorers are pages of the
    folder."""
    pages = folder / "pages"
    pages.mkdir(parents=True, exist_ok=True)
    with _environment({COURSE: course, "EXPLORER_PAGES": str(pages.resolve())}):
        yield


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
