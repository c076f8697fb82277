"""A few measured numbers side by side, as bars: the rungs of a kernel's ladder, or named numbers;
and rows under named columns, where there is no pandas to show them.

lower     2.3 GFLOP/s  ▍
unroll  115.8 GFLOP/s  ████████████████████
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from explorer.views.parts.markup import plain
from explorer.views.specification import Cell, Column, Row, Specification, TableSpec

MAX_ROWS = 60
"""Rows of a table that are shown; the table holds all."""
COLUMNS = (
    Column(key="name", title="", format="name"),
    Column(key="value", title="", format="decimal"),
)

Rung = tuple[str, float, float]
"""The step, milliseconds, and GFLOP/s, which is 0 where nothing is multiplied and added."""


def ladder(rungs: Iterable[Rung]) -> Specification:
    """A bar per rung: longer is faster."""
    return _bars(
        (step, f"{gflops:.1f} GFLOP/s", gflops)
        if gflops
        else (step, f"{milliseconds * 1e3:.1f} µs", 1 / milliseconds)
        for step, milliseconds, gflops in rungs
    )


def bars(values: Iterable[tuple[str, float]], unit: str) -> Specification:
    """A bar per named number."""
    return _bars((name, f"{value:.1f} {unit}", value) for name, value in values)


def frame(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Specification:
    """A row per row."""
    table = TableSpec(
        title="rows",
        columns=tuple(Column(key=str(i), title=title) for i, title in enumerate(columns)),
        rows=tuple(Row(cells={str(i): _cell(v) for i, v in enumerate(row)}) for row in rows),
        max_rows=MAX_ROWS,
        keeps_columns=True,
    )
    return Specification(title="", parts=(table,))


def _bars(measured: Iterable[tuple[str, str, float]]) -> Specification:
    found = list(measured)
    most = max((height for *_, height in found), default=0.0) or 1.0
    rows = tuple(
        Row(cells={"name": name, "value": Cell(value=height, text=text, share=height / most)})
        for name, text, height in found
    )
    return Specification(title="", parts=(TableSpec(title="measured", columns=COLUMNS, rows=rows),))


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, tuple):
        return ", ".join(plain(item) for item in value)
    return "" if value is None else plain(value)
