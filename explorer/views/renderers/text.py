"""A specification as plain text: for terminals, logs and screen readers."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from explorer.views.parts.markup import plain
from explorer.views.parts.plain import WIDTH, bar, columns
from explorer.views.specification import (
    FORMATS,
    UNKNOWN,
    Action,
    Beside,
    ChartSpec,
    Code,
    Column,
    Facts,
    Own,
    Part,
    Section,
    Specification,
    TableSpec,
    Text,
)


def text_of(specification: Specification, width: int) -> str:
    """Lines of at most `width` characters, where cutting loses nothing."""
    head = plain(specification.subtitle or specification.title)
    if specification.look:
        head = f"{specification.look.glyph} {head}"
    return "\n".join([*([head] if head else []), *_lines(specification.parts, width)])


def shown_columns(table: TableSpec) -> list[tuple[Column, bool]]:
    """Those of text and HTML with a value in at least one row, and whether bars follow them."""
    shown = []
    for column in table.columns:
        cells = [table.cell(row, column) for row in table.rows]
        has_value = any(c.look or table.text(c, column) not in ("", UNKNOWN) for c in cells)
        if not column.is_for_page and (has_value or table.keeps_columns):
            is_number = FORMATS[column.format].is_number
            shown.append((column, is_number and any(c.share is not None for c in cells)))
    return shown


def heads(shown: Sequence[tuple[Column, bool]]) -> tuple[list[str], str]:
    """Titles of columns, empty for bars; and a letter for each: r for numbers, l for text, n for
    what never breaks: names, bars and marks, of which the column has no title."""
    titles, letters = [], ""
    for column, has_bars in shown:
        known = FORMATS[column.format]
        titles += [column.title, ""] if has_bars else [column.title]
        never_breaks = known.is_code or not column.title
        letters += "r" if known.is_number else "n" if never_breaks else "l"
        letters += "n" if has_bars else ""
    return titles, letters


def rows_left_out(table: TableSpec) -> str:
    """`and 12 more: result.kernels`, or nothing."""
    rest = len(table.rows) - table.max_rows
    where = f": {table.rest}" if table.rest else ""
    return f"and {rest:,} more{where}" if rest > 0 else ""


def _lines(parts: Sequence[Part], width: int) -> Iterator[str]:
    for part in parts:
        if isinstance(part, TableSpec):
            yield from _table(part, width)
        elif isinstance(part, Facts):
            yield from columns([(name, value) for name, value in part.rows], width=width)
        elif isinstance(part, Text):
            glyph = f"{part.look.glyph} " if part.look else ""
            yield from textwrap.wrap(
                glyph + plain(part.text),
                width,
                initial_indent="  ",
                subsequent_indent="  ",
                break_on_hyphens=False,
                break_long_words=False,
            )
        elif isinstance(part, Action):
            yield f"  {plain(part.title)}: {plain(part.call())}"
        elif isinstance(part, (ChartSpec, Code)):
            yield from (f"  {plain(line)}" for line in part.lines)
        elif isinstance(part, Section) and not part.is_folded:
            yield from ("", plain(part.title))
            yield from _lines(part.parts, width)
        elif isinstance(part, (Own, Beside)):
            yield from _lines(part.parts, width)


def _table(table: TableSpec, width: int) -> Iterator[str]:
    shown = shown_columns(table)
    rows = []
    for row in table.rows[: table.max_rows]:
        cells: list[str] = []
        for column, has_bars in shown:
            cell = table.cell(row, column)
            glyph = f"{cell.look.glyph} " if cell.look else ""
            cells.append((glyph + table.text(cell, column)).rstrip())
            if has_bars:
                cells.append(bar(cell.share or 0, 20 if width >= WIDTH else 10))
        rows.append(cells)
    yield from columns(rows, *heads(shown), width=width)
    if left_out := rows_left_out(table):
        yield f"  {left_out}"
