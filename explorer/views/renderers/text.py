"""A specification as plain text: for terminals, logs and screen readers."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from explorer.views.parts.markup import plain
from explorer.views.parts.plain import columns
from explorer.views.specification import (
    FORMATS,
    UNKNOWN,
    Action,
    Code,
    Column,
    Facts,
    Part,
    Section,
    Specification,
    TableSpec,
    Text,
)


def text_of(specification: Specification, width: int) -> str:
    """Lines of at most `width` characters, where cutting loses nothing."""
    head = specification.subtitle or specification.title
    return "\n".join([plain(head), *_lines(specification.parts, width)])


def shown_columns(table: TableSpec) -> list[Column]:
    """Those of text and HTML with a value in at least one row."""
    return [
        column
        for column in table.columns
        if not column.is_for_page
        and any(
            table.text(table.cell(row, column), column) not in ("", UNKNOWN) for row in table.rows
        )
    ]


def alignment(shown: Sequence[Column]) -> str:
    """A letter per column: r for numbers, n for names that never break, l for text."""
    formats = (FORMATS[column.format] for column in shown)
    return "".join("r" if f.is_number else "n" if f.is_code else "l" for f in formats)


def rows_left_out(table: TableSpec) -> str:
    """`and 12 more`, or nothing."""
    rest = len(table.rows) - table.max_rows
    return f"and {rest:,} more" if rest > 0 else ""


def _lines(parts: Sequence[Part], width: int) -> Iterator[str]:
    for part in parts:
        if isinstance(part, TableSpec):
            yield from _table(part, width)
        elif isinstance(part, Facts):
            yield from columns([(name, value) for name, value in part.rows], width=width)
        elif isinstance(part, Text):
            glyph = f"{part.look.glyph} " if part.look else ""
            yield from textwrap.wrap(
                glyph + plain(part.text), width, initial_indent="  ", subsequent_indent="  "
            )
        elif isinstance(part, Action):
            yield f"  {plain(part.title)}: {plain(part.call())}"
        elif isinstance(part, Code):
            yield from (f"  {plain(line)}" for line in part.lines)
        elif isinstance(part, Section) and not part.is_folded:
            yield from ("", plain(part.title))
            yield from _lines(part.parts, width)


def _table(table: TableSpec, width: int) -> Iterator[str]:
    shown = shown_columns(table)
    rows = []
    for row in table.rows[: table.max_rows]:
        cells = [(table.cell(row, column), column) for column in shown]
        rows.append(
            [
                f"{cell.look.glyph} {table.text(cell, column)}"
                if cell.look
                else table.text(cell, column)
                for cell, column in cells
            ]
        )
    yield from columns(rows, [column.title for column in shown], alignment(shown), width=width)
    if left_out := rows_left_out(table):
        yield f"  {left_out}"
