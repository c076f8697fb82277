"""A specification as HTML without scripts: for notebooks and reports."""

from __future__ import annotations

from collections.abc import Sequence

from explorer.views.parts import svg
from explorer.views.parts.markup import (
    badge,
    bar,
    card,
    code,
    escape,
    fold,
    image,
    note,
    paragraph,
    picture,
    quiet,
    section,
    table,
)
from explorer.views.renderers.text import alignment, rows_left_out, shown_columns
from explorer.views.specification import (
    FORMATS,
    Action,
    Bars,
    Cell,
    ChartSpec,
    Code,
    Column,
    Dot,
    Facts,
    ImageSpec,
    Line,
    Mark,
    Part,
    Rect,
    Specification,
    TableSpec,
    Text,
)
from explorer.views.theme import LIGHT

PIXEL = 6
"""Width of a pixel of an `ImageSpec`, in pixels of the screen."""


def html_of(specification: Specification) -> str:
    """A card."""
    body = _body(specification.parts)
    return card(specification.title, body, subtitle=specification.subtitle)


def svg_of(chart: ChartSpec) -> str:
    """A picture of its own: light, or dark where the page's scheme is."""
    body = "".join(_mark(mark) for mark in chart.marks)
    return svg.document(chart.width, chart.height, body)


def _body(parts: Sequence[Part]) -> str:
    return "".join(_part(part) for part in parts)


def _part(part: Part) -> str:
    if isinstance(part, TableSpec):
        return _table(part)
    if isinstance(part, Facts):
        return table([[quiet(name), escape(value)] for name, value in part.rows], align="nl")
    if isinstance(part, Text):
        glyph = f"{badge(part.look)} " if part.look else ""
        return paragraph(glyph + escape(part.text), quiet=part.is_quiet)
    if isinstance(part, Action):
        return paragraph(f"{escape(part.title)}: {code(part.call())}", quiet=True)
    if isinstance(part, Code):
        return paragraph("<br>".join(code(line.expandtabs(8)) for line in part.lines))
    if isinstance(part, ChartSpec):
        return picture(svg_of(part), part.width, part.title)
    if isinstance(part, ImageSpec):
        return image(part.png(), PIXEL * part.width, part.title)
    if part.is_folded:
        return fold(part.title, _body(part.parts))
    return section(part.title) + _body(part.parts)


def _table(spec: TableSpec) -> str:
    shown = shown_columns(spec)
    rows = [
        [_cell(spec, spec.cell(row, column), column) for column in shown]
        for row in spec.rows[: spec.max_rows]
    ]
    html = table(rows, [column.title for column in shown], alignment(shown)) if rows else ""
    left_out = rows_left_out(spec)
    html += note(left_out) if left_out else ""
    return html + "".join(
        fold(spec.title_of(row), _body(row.details))
        for row in spec.rows[: spec.max_rows]
        if row.details
    )


def _cell(spec: TableSpec, cell: Cell, column: Column) -> str:
    text = spec.text(cell, column)
    html = code(text) if FORMATS[column.format].is_code else escape(text)
    if cell.exact:
        html = f'<span title="{escape(cell.exact)}">{html}</span>'
    if cell.look:
        html = f"{badge(cell.look)} {html}"
    return html if cell.share is None else html + bar(cell.share, LIGHT.accent)


def _mark(mark: Mark) -> str:
    if isinstance(mark, Dot):
        paint = {"fill": _colour(mark.fill), "stroke": _colour(mark.stroke)}
        return svg.circle(mark.x, mark.y, mark.radius, **paint)
    colour = _colour(mark.role)
    if isinstance(mark, Rect):
        return svg.rect(mark.x, mark.y, mark.width, mark.height, fill=colour)
    if isinstance(mark, Bars):
        return "".join(
            svg.rect(mark.x + i * mark.step, mark.base - height, mark.step - 1, height, fill=colour)
            for i, height in enumerate(mark.heights)
        )
    if isinstance(mark, Line):
        return svg.polyline(mark.points, fill="none", stroke=colour)
    return svg.text(mark.x, mark.y, mark.text, fill=colour, text_anchor=mark.anchor)


def _colour(role: str) -> str:
    if not role:
        return "none"
    return role if role.startswith("#") else getattr(LIGHT, role)
