"""A specification as data: for the page (`js/ground/specification.js`), and as plain JSON.

A cell of the page is a string where its text is its value, else [value, text, on hover, look, bar,
operations that the text names]:
numbers are formatted here and nowhere else, and the value is what a column is sorted by.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

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
    Format,
    ImageSpec,
    Line,
    Link,
    Mark,
    Own,
    Part,
    Rect,
    Section,
    Specification,
    TableSpec,
    Text,
)

Json = Any
"""What JSON holds: its own recursive type would need a check at every step."""


def page_of(specification: Specification) -> Json:
    """What the page's generic pane draws."""
    return {
        "title": specification.title,
        "subtitle": specification.subtitle,
        "parts": parts_of(specification.parts),
    }


def bars_path(bars: Bars) -> str:
    """Their outlines, as the `d` of a path in SVG."""
    width = bars.step - 1 if bars.step > 3 else bars.step
    depths = bars.depths or (0.0,) * len(bars.heights)
    return "".join(
        f"M{bars.x + i * bars.step:.1f} {bars.base + depth:.1f}v{-height - depth:.1f}h{width:.2f}"
        f"v{height + depth:.1f}z"
        for i, (height, depth) in enumerate(zip(bars.heights, depths, strict=True))
        if height + depth
    )


def json_of(specification: Specification) -> Json:
    """Tables as lists of objects by the keys of their columns, values without formats."""
    return {
        "title": specification.title,
        "summary": specification.subtitle,
        "parts": [_plain(part) for part in specification.parts],
    }


def parts_of(parts: Sequence[Part]) -> list[Json]:
    """What `drawParts` of the page draws."""
    return [_part(p) for p in parts if not isinstance(p, Section) or p.is_for_page]


def _part(part: Part) -> Json:
    if isinstance(part, TableSpec):
        return {
            "kind": "table",
            "title": part.title,
            "sortBy": part.sort_by,
            "facet": part.facet,
            "cap": part.max_rows,
            "chosen": part.chosen,
            "columns": [
                [c.key, c.title, c.hint, FORMATS[c.format].is_number, _code(FORMATS[c.format])]
                + ([c.moves] if c.moves else [])
                for c in part.columns
            ],
            "rows": [
                [
                    [list(row.operations), _link(row.link), row.pass_name, row.id]
                    + ([_part(row.action)] if row.action else []),
                    *(_cell(part, part.cell(row, c), c) for c in part.columns),
                ]
                for row in part.rows
            ],
            "details": [[part.title_of(row), parts_of(row.details)] for row in part.rows]
            if any(row.details for row in part.rows)
            else None,
        }
    if isinstance(part, Facts):
        return {"kind": "facts", "rows": [list(row) for row in part.rows]}
    if isinstance(part, Text):
        look = part.look and [part.look.name, part.look.glyph, part.look.title]
        drawn = {"kind": "text", "text": part.text, "quiet": part.is_quiet, "look": look}
        named = {"layers": list(part.layers)} if part.layers else {}
        return drawn | named | ({"link": _link(part.link)} if part.link else {})
    if isinstance(part, Action):
        made = {"kind": "action", "title": part.title, "decisions": dict(part.decisions)}
        return made | ({"replaces": part.replaces} if part.replaces else {})
    if isinstance(part, Code):
        return {"kind": "code", "lines": list(part.lines)}
    if isinstance(part, ChartSpec):
        return {
            "kind": "chart",
            "title": part.title,
            "width": part.width,
            "height": part.height,
            "marks": [_mark(mark) for mark in part.marks],
            "legend": [[look.name, look.glyph, words] for look, words in part.legend],
            "moves": part.moves,
        }
    if isinstance(part, ImageSpec):
        return {"kind": "image", "title": part.title, "source": part.png(), "width": part.width}
    if isinstance(part, Own):
        return {"kind": "own", "name": part.name, "data": part.data}
    if isinstance(part, Beside):
        return {"kind": "beside", "parts": parts_of(part.parts)}
    return {
        "kind": "section",
        "title": part.title,
        "folded": part.is_folded,
        "operations": list(part.operations),
        "parts": parts_of(part.parts),
    }


def _cell(table: TableSpec, cell: Cell, column: Column) -> Json:
    text = table.text(cell, column)
    look = cell.look and [cell.look.name, cell.look.glyph, cell.look.title]
    share = None if cell.share is None else round(cell.share, 4)
    whole = [_value(cell.value), text, cell.exact or None, look, share, list(cell.layers) or None]
    while whole[-1] is None:
        del whole[-1]
    return text if whole == [text, text] else whole


def _link(link: Link | None) -> Json:
    if link is None:
        return None
    return {
        "dock": link.dock,
        "tab": link.tab,
        "pass": link.pass_name,
        "selection": link.selection,
        "event": link.event,
    }


def _value(value: object) -> Json:
    """What JSON can hold: a number that is none sorts last."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _mark(mark: Mark) -> Json:
    if isinstance(mark, Bars):
        return ["bars", bars_path(mark), mark.role, *([_hovers(mark)] if mark.titles else [])]
    if isinstance(mark, Rect):
        paint = [mark.role, mark.stroke, mark.stroke_width]
        return ["rect", mark.x, mark.y, mark.width, mark.height, *paint, mark.id, mark.title]
    if isinstance(mark, Dot):
        form = [mark.radius, mark.fill, mark.stroke, mark.shape]
        return ["dot", round(mark.x, 1), round(mark.y, 1), *form, mark.id, mark.title]
    if isinstance(mark, Line):
        return [
            "line",
            [[round(x, 1), round(y, 1)] for x, y in mark.points],
            mark.role,
            mark.is_dashed,
            mark.width,
            mark.id,
            mark.title,
        ]
    place = [round(mark.x, 1), round(mark.y, 1)]
    words = ["text", *place, mark.text, mark.anchor, mark.role, mark.size, mark.angle]
    return words + ([mark.layer_characters] if mark.layer_characters else [])


def _code(known: Format) -> Json:
    return "layer" if known.is_layer else known.is_code


def _hovers(bars: Bars) -> list[Json]:
    """What the page needs to say which bar the pointer is over: [left, width, titles]."""
    return [round(bars.x, 1), round(bars.step, 3), list(bars.titles)]


def _plain(part: Part) -> Json:
    if isinstance(part, TableSpec):
        return [{c.key: _value(part.cell(row, c).value) for c in part.columns} for row in part.rows]
    if isinstance(part, Facts):
        return dict(part.rows)
    if isinstance(part, Text):
        return part.text
    if isinstance(part, Code):
        return list(part.lines)
    if isinstance(part, Action):
        return dict(part.decisions)
    if isinstance(part, (Own, Beside)):
        return [_plain(inner) for inner in part.parts]
    if isinstance(part, Section):
        return {part.title: [_plain(inner) for inner in part.parts]}
    return {"picture": part.title}
