"""Specifications as Markdown, for an issue or a colleague: CommonMark with GitHub's tables.

Text that a model may have chosen has its punctuation escaped, so that none of it is markup.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from explorer.views.parts.markup import plain
from explorer.views.renderers.text import heads, rows_left_out, shown_columns
from explorer.views.specification import (
    FORMATS,
    Action,
    Beside,
    Cell,
    ChartSpec,
    Code,
    Column,
    Facts,
    ImageSpec,
    Own,
    Part,
    Specification,
    TableSpec,
    Text,
)

_PUNCTUATION = re.compile(r"([\\`*_{}\[\]<>#|~])")


def markdown_of(specification: Specification, level: int = 1) -> str:
    """A heading of that level, and paragraphs, lists and tables below it."""
    blocks = [f"{'#' * level} {escaped(specification.title)}"]
    if specification.subtitle:
        glyph = f"{specification.look.glyph} " if specification.look else ""
        blocks.append(glyph + escaped(specification.subtitle))
    return "\n\n".join([*blocks, *_blocks(specification.parts, level)])


def escaped(text: object) -> str:
    """On one line, without markup."""
    return _PUNCTUATION.sub(r"\\\1", plain(text))


def code(text: object) -> str:
    """A name as code, which may stand in a table."""
    shown = plain(text).replace("`", "'").replace("|", "\\|")
    return f"`{shown}`" if shown.strip() else ""


def _blocks(parts: Sequence[Part], level: int) -> Iterator[str]:
    for part in parts:
        if isinstance(part, TableSpec):
            yield from _table(part)
        elif isinstance(part, Facts):
            yield "\n".join(f"- {escaped(name)}: {escaped(value)}" for name, value in part.rows)
        elif isinstance(part, Text):
            yield (f"{part.look.glyph} " if part.look else "") + escaped(part.text)
        elif isinstance(part, Action):
            yield f"{escaped(part.title)}: {code(part.call())}"
        elif isinstance(part, (ChartSpec, Code)):
            if part.lines:
                yield "\n".join(f"    {plain(line)}" for line in part.lines)
        elif isinstance(part, (Own, Beside)):
            yield from _blocks(part.parts, level)
        elif not isinstance(part, ImageSpec) and not part.is_folded:
            yield f"{'#' * (level + 1)} {escaped(part.title)}"
            yield from _blocks(part.parts, level + 1)


def _table(table: TableSpec) -> Iterator[str]:
    shown = [(column, False) for column, _ in shown_columns(table)]
    if not shown or not table.rows:
        return
    titles, letters = heads(shown)
    lines = [[escaped(title) for title in titles]]
    lines.append(["---:" if letter == "r" else "---" for letter in letters])
    for row in table.rows[: table.max_rows]:
        lines.append([_cell(table, table.cell(row, column), column) for column, _ in shown])
    yield "\n".join(f"| {' | '.join(line)} |" for line in lines)
    if left_out := rows_left_out(table):
        yield escaped(left_out)


def _cell(table: TableSpec, cell: Cell, column: Column) -> str:
    text = table.text(cell, column)
    glyph = f"{cell.look.glyph} " if cell.look else ""
    return (glyph + (code(text) if FORMATS[column.format].is_code else escaped(text))).strip()
