"""Rows under named columns, where there is no pandas to show them.

name   size
conv1  1.5
"""

from __future__ import annotations

from collections.abc import Sequence

from explorer.views.parts.markup import escape, plain

SHOWN_ROWS = 60
"""Most rows that are shown; the table holds all."""


def frame_text(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A line per row, and how many are left out."""
    cells = [columns, *(tuple(map(_cell, row)) for row in rows[:SHOWN_ROWS])]
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    lines = [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]
    return "\n".join([*lines, *_left_out(rows)])


def frame_html(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table without styles: notebooks draw it like one of pandas."""
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(_cell(value))}</td>" for value in row) + "</tr>"
        for row in rows[:SHOWN_ROWS]
    )
    note = "".join(f"<p>{escape(line)}</p>" for line in _left_out(rows))
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{note}"


def _left_out(rows: Sequence[object]) -> list[str]:
    rest = len(rows) - SHOWN_ROWS
    return [f"and {rest} more rows"] if rest > 0 else []


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, tuple):
        return ", ".join(plain(item) for item in value)
    return plain(value)
