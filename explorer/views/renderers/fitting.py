"""Texts and HTML that fit a screen: tables lose rows until they do.

shorter(specification, text_fits)    the longest of several lengths that fits, or None
cut("line\n" * 100)                  39 lines, and "… 61 more lines: .to_text() has all"
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from explorer.views.parts.markup import escape, in_both_schemes
from explorer.views.specification import (
    Beside,
    ChartSpec,
    Code,
    Facts,
    Own,
    Part,
    Section,
    Specification,
    TableSpec,
)
from explorer.views.theme import LIGHT, MONOSPACE

MAX_LINES = 40
MAX_CHARACTERS = 4000
ROWS = (30, 20, 14, 10, 7, 5, 3)
"""How many rows tables keep, one attempt after the other."""
_FOLDED = re.compile(r"(<details.*?</summary>).*?</details>", re.DOTALL)
_LINE = re.compile(r"<(?:tr|br|p|summary|div)\b[^>]*>")
_TAG = re.compile(r"<[^>]*>")


def text_fits(text: str) -> bool:
    """Whether it has at most `MAX_LINES` lines and `MAX_CHARACTERS` characters."""
    return text.count("\n") < MAX_LINES and len(text) <= MAX_CHARACTERS


def html_fits(markup: str) -> bool:
    """The same of what is seen: pictures count as nothing, a fold as its summary."""
    return text_fits(visible_text(markup))


def visible_text(markup: str) -> str:
    """What is read of HTML while its folds are closed, a line for each row and block."""
    opened = _FOLDED.sub(r"\1", _FOLDED.sub(r"\1", markup))
    text = html.unescape(_TAG.sub(" ", _LINE.sub("\n", opened)))
    lines = (" ".join(line.split()) for line in text.splitlines())
    return "\n".join(line for line in lines if line)


def shorter(
    specification: Specification,
    render: Callable[[Specification], str],
    fits: Callable[[str], bool],
) -> str | None:
    """What is rendered of the specification with as many rows as fit; None where none do."""
    for rows in ROWS:
        parts = tuple(_with_rows(part, rows) for part in specification.parts)
        rendered = render(replace(specification, parts=parts))
        if fits(rendered):
            return rendered
    return None


def cut(text: str) -> str:
    """The first lines; a last one says how many more there are and what has them."""
    if text_fits(text):
        return text
    lines = text.split("\n")
    note = f"  … {{:,}} more lines of {len(lines):,}: .to_text() has all"
    left = MAX_CHARACTERS - len(note) - 12
    kept: list[str] = []
    for line in lines[: MAX_LINES - 1]:
        if len(line) > left:
            if not kept:
                kept.append(line[: left - 1] + "…")
            break
        kept.append(line)
        left -= len(line) + 1
    return "\n".join([*kept, note.format(len(lines) - len(kept))])


def preformatted(text: str) -> str:
    """A short text as HTML."""
    style = f"color:{LIGHT.text};font-family:{MONOSPACE};font-size:12px;white-space:pre-wrap"
    lines = "\n".join(escape(line) for line in text.splitlines())  # a break is no name's character
    return in_both_schemes(f'<pre style="{style}">{lines}</pre>')


def _with_rows(part: Part, rows: int) -> Part:
    if isinstance(part, TableSpec):
        return replace(part, max_rows=min(part.max_rows, rows), max_details=rows)
    if isinstance(part, Code):
        return replace(part, lines=_cut(part.lines, rows))
    if isinstance(part, ChartSpec):
        return replace(part, lines=_cut(part.lines, rows))
    if isinstance(part, Facts):
        return replace(part, rows=part.rows[:rows])
    if isinstance(part, (Section, Own, Beside)):
        return replace(part, parts=tuple(_with_rows(inner, rows) for inner in part.parts))
    return part


def _cut(lines: Sequence[str], most: int) -> tuple[str, ...]:
    if len(lines) <= most:
        return tuple(lines)
    return (*lines[: most - 1], f"… {len(lines) - most + 1} more lines")
