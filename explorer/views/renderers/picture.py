"""The charts of a specification as one picture for a paper: light, without marks of the interface.

    picture_svg(memory(trace))      '<svg ...>', all charts below one another
    picture_png(svg)                the same in pixels, by resvg
    tables(layers(trace))           columns and rows of its tables, for CSV

A specification without a chart is drawn as bars of its first table's main numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from explorer.views.parts import svg
from explorer.views.renderers.html import marks_of
from explorer.views.renderers.text import shown_columns
from explorer.views.specification import (
    FORMATS,
    Beside,
    Cell,
    ChartSpec,
    Column,
    Label,
    Line,
    Mark,
    Own,
    Part,
    Rect,
    Row,
    Section,
    Specification,
    TableSpec,
    Value,
)
from explorer.views.theme import Look

GAP, LEGEND_HEIGHT, TITLE_HEIGHT = 18.0, 20.0, 18.0
NAMES, BARS, VALUES, ROW = 210.0, 400.0, 90.0, 18.0
"""Widths of a chart of bars, and the height of a row."""
MAX_BARS = 60
SCALE = 2
"""Pixels of a PNG per unit of the picture."""


def picture_svg(specification: Specification) -> str:
    """All charts below one another. ValueError where there is nothing to draw."""
    charts = list(_charts(specification.parts)) or list(_bars(specification.parts))
    if not charts:
        raise ValueError("it has neither a chart nor numbers")
    body, y = "", 0.0
    for chart in charts:
        marks = list(chart.marks)
        height = chart.height
        if len(charts) > 1:
            y += TITLE_HEIGHT
            body += _moved(y - 5, [Label(x=4, y=0, text=chart.title, role="text")])
        if chart.legend:
            marks += _legend(chart.legend, chart.width, height)
            height += LEGEND_HEIGHT * len(_legend_rows(chart.legend, chart.width))
        body += _moved(y, marks)
        y += height + GAP
    width = max(chart.width for chart in charts)
    return svg.document(width, y - GAP, body, is_for_paper=True)


def picture_png(picture: str) -> bytes:
    """An SVG in pixels, two for each unit. ImportError without resvg."""
    import resvg_py  # pyright: ignore[reportMissingImports]  (optional)

    return bytes(resvg_py.svg_to_bytes(svg_string=picture, zoom=SCALE))


def tables(specification: Specification) -> list[tuple[tuple[str, ...], list[tuple[Value, ...]]]]:
    """Columns and rows of every table, with the values and not their texts."""
    return [_values(table) for table in _tables(specification.parts)]


def _moved(y: float, marks: Sequence[Mark]) -> str:
    return f'<g transform="translate(0 {y:g})">{marks_of(marks)}</g>'


def _charts(parts: Sequence[Part]) -> Iterator[ChartSpec]:
    for part in parts:
        if isinstance(part, ChartSpec):
            yield part
        elif isinstance(part, Section | Own | Beside):
            yield from _charts(part.parts)


def _tables(parts: Sequence[Part]) -> Iterator[TableSpec]:
    for part in parts:
        if isinstance(part, TableSpec):
            yield part
        elif isinstance(part, Section | Own | Beside):
            yield from _tables(part.parts)


def _values(table: TableSpec) -> tuple[tuple[str, ...], list[tuple[Value, ...]]]:
    columns = [
        column
        for column in table.columns
        if any(table.cell(row, column).value is not None for row in table.rows)
    ]
    rows = [tuple(table.cell(row, column).value for column in columns) for row in table.rows]
    return tuple(column.key for column in columns), rows


# -- legends ---------------------------------------------------------------------------------------


def _legend_rows(
    legend: Sequence[tuple[Look, str]], width: float
) -> list[list[tuple[float, Look, str]]]:
    """Entries with their places, as many in a row as fit."""
    rows: list[list[tuple[float, Look, str]]] = [[]]
    x = 4.0
    for look, text in legend:
        needed = 30 + len(text) * 12 * svg.CHARACTER_WIDTH
        if x + needed > width and rows[-1]:
            rows.append([])
            x = 4.0
        rows[-1].append((x, look, text))
        x += needed
    return rows


def _legend(legend: Sequence[tuple[Look, str]], width: float, top: float) -> Iterator[Mark]:
    for number, row in enumerate(_legend_rows(legend, width)):
        y = top + LEGEND_HEIGHT * number + 4
        for x, look, text in row:
            fill, edge = f"{look.name}-fill", f"{look.name}-edge"
            yield Rect(x=x, y=y, width=12, height=12, role=fill, stroke=edge)
            yield Label(x=x + 18, y=y + 10, text=text)


# -- bars of a table -------------------------------------------------------------------------------


def _bars(parts: Sequence[Part]) -> Iterator[ChartSpec]:
    for table in _tables(parts):
        chosen = _main_column(table)
        if chosen is not None:
            yield _chart_of(table, *chosen)
            return


def _main_column(table: TableSpec) -> tuple[Column, Column] | None:
    """The column of names and that of the numbers which are drawn: the one that sorts the table,
    else the first with numbers."""
    shown = [column for column, _ in shown_columns(table)]
    names = [column for column in shown if not FORMATS[column.format].is_number]
    numbers = [column for column in shown if any(_number(table, row, column) for row in table.rows)]
    numbers.sort(key=lambda column: column.key != table.sort_by)
    named = [column for column in names if column.title] or names
    return (named[0], numbers[0]) if named and numbers else None


def _number(table: TableSpec, row: Row, column: Column) -> float:
    value = table.cell(row, column).value
    if not isinstance(value, int | float) or isinstance(value, bool):
        return 0.0
    return float(value) if 0 < value < float("inf") else 0.0


def _chart_of(table: TableSpec, names: Column, numbers: Column) -> ChartSpec:
    rows = table.rows[:MAX_BARS]
    largest = max(_number(table, row, numbers) for row in table.rows)
    marks: list[Mark] = [Label(x=NAMES, y=12, text=numbers.title, role="text")]
    for index, row in enumerate(rows):
        y = 20 + ROW * index
        cell: Cell = table.cell(row, names)
        text = svg.fit(table.text(cell, names), NAMES - 10)
        marks.append(Label(x=NAMES - 8, y=y + 12, text=text, anchor="end", role="text"))
        width = BARS * _number(table, row, numbers) / largest
        marks.append(Rect(x=NAMES, y=y + 2, width=width, height=ROW - 5))
        value = table.text(table.cell(row, numbers), numbers)
        marks.append(Label(x=NAMES + width + 6, y=y + 12, text=value))
    height = 24 + ROW * len(rows)
    marks.append(Line(points=((NAMES, 18), (NAMES, height))))
    if left := len(table.rows) - len(rows):
        marks.append(Label(x=NAMES, y=height + 14, text=f"and {left:,} more"))
        height += 20
    width = NAMES + BARS + VALUES
    return ChartSpec(title=table.title, width=width, height=height, marks=tuple(marks))
