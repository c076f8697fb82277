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
    in_both_schemes,
    legend_of,
    note,
    paragraph,
    picture,
    quiet,
    section,
    table,
)
from explorer.views.renderers.page import bars_path
from explorer.views.renderers.text import heads, rows_left_out, shown_columns
from explorer.views.specification import (
    FORMATS,
    Action,
    Bars,
    Beside,
    Cell,
    ChartSpec,
    Code,
    Column,
    Dot,
    Facts,
    ImageSpec,
    Label,
    Line,
    Mark,
    Own,
    Part,
    Rect,
    Row,
    Specification,
    TableSpec,
    Text,
)
from explorer.views.theme import LIGHT, toned

PIXEL = 6
"""Width of a pixel of an `ImageSpec`, in pixels of the screen."""


def html_of(specification: Specification) -> str:
    """A card; without a title, the parts alone."""
    body = _body(specification.parts)
    if not specification.title:
        return in_both_schemes(body)
    return card(specification.title, body, specification.subtitle, specification.look)


def svg_of(chart: ChartSpec) -> str:
    """A picture of its own: light, or dark where the page's scheme is."""
    return svg.document(chart.width, chart.height, marks_of(chart.marks))


def marks_of(marks: Sequence[Mark]) -> str:
    """The SVG elements of marks; words last, so that no line crosses them."""
    return "".join(_mark(mark) for mark in sorted(marks, key=lambda m: isinstance(m, Label)))


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
        drawn = picture(svg_of(part), part.width, part.title)
        return drawn + (legend_of(part.legend) if part.legend else "")
    if isinstance(part, ImageSpec):
        return image(part.png(), PIXEL * part.width, part.title)
    if isinstance(part, (Own, Beside)):
        return _body(part.parts)
    if part.is_folded:
        return fold(part.title, _body(part.parts))
    return section(part.title) + _body(part.parts)


def _table(spec: TableSpec) -> str:
    shown = shown_columns(spec)
    listed = spec.rows[: spec.max_rows]
    rows = [[html for column in shown for html in _cells(spec, row, *column)] for row in listed]
    quiet_rows = [place for place, row in enumerate(listed) if row.is_quiet]
    html = ""
    if rows:
        html = table(rows, *heads(shown), quiet_rows)
    left_out = rows_left_out(spec)
    html += note(left_out) if left_out else ""
    detailed = [row for row in listed if row.details]
    for row in detailed[: spec.max_details]:
        html += fold(spec.title_of(row), _body(row.details))
    if len(detailed) > spec.max_details:
        html += note(f"Details of {spec.max_details} of {len(detailed)} rows.")
    return html


def _cells(spec: TableSpec, row: Row, column: Column, has_bars: bool) -> list[str]:
    cell = spec.cell(row, column)
    own = [_cell(cell, spec.text(cell, column), column)]
    below = "" if cell.share is None else bar(cell.share, LIGHT.accent)
    return [*own, below] if has_bars else [own[0] + below]


def _cell(cell: Cell, text: str, column: Column) -> str:
    html = code(text) if FORMATS[column.format].is_code else escape(text)
    if cell.exact:
        html = f'<span title="{escape(cell.exact)}">{html}</span>'
    return f"{badge(cell.look)} {html}" if cell.look else html


def _mark(mark: Mark) -> str:
    if isinstance(mark, Dot):
        paint = {"fill": _colour(mark.fill), "stroke": _colour(mark.stroke)}
        x, y, r = mark.x, mark.y, mark.radius
        if mark.shape == "square":
            return svg.rect(x - r, y - r, 2 * r, 2 * r, **paint)
        if mark.shape == "diamond":
            return svg.polygon([(x, y - r), (x + r, y), (x, y + r), (x - r, y)], **paint)
        return svg.circle(x, y, r, **paint)
    colour = _colour(mark.role)
    if isinstance(mark, Rect):
        outline = {"stroke": _colour(mark.stroke), "stroke_width": mark.stroke_width}
        drawn = outline if mark.stroke else {}
        return svg.rect(mark.x, mark.y, mark.width, mark.height, fill=colour, **drawn)
    if isinstance(mark, Bars):
        return svg.path(bars_path(mark), fill=colour)
    if isinstance(mark, Line):
        dashes = "4 4" if mark.is_dashed else ""
        width = "" if mark.width == 1 else mark.width
        return svg.polyline(
            mark.points, fill="none", stroke=colour, stroke_dasharray=dashes, stroke_width=width
        )
    return svg.text(
        mark.x,
        mark.y,
        mark.text,
        fill=colour,
        text_anchor="" if mark.anchor == "start" else mark.anchor,
        font_size="" if mark.size == 12 else mark.size,
        transform=f"rotate({mark.angle} {mark.x:.1f} {mark.y:.1f})" if mark.angle else "",
        **(svg.ON_ITS_OWN_GROUND if mark.is_on_mark else {}),
    )


def _colour(role: str) -> str:
    if not role:
        return "none"
    if "-" in role:
        return toned(role)
    return role if role.startswith("#") else getattr(LIGHT, role)
