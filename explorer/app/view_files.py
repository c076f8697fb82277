"""A view as a file of data or a picture: what `explorer show -o` and the page save.

view_file(view, trace, index, "csv")        the tables, an empty line between them
view_file(view, trace, index, "parquet")    one table: of several the column `table` says which
view_file(view, trace, index, "svg")        the picture for a paper
"""

from __future__ import annotations

from collections.abc import Sequence

from explorer.errors import InputError
from explorer.results import Trace
from explorer.traces.tables import Table, csv_text, parquet_bytes
from explorer.views.view import View

CSV, PARQUET, SVG, PNG = "csv", "parquet", "svg", "png"
FORMS = (CSV, PARQUET, SVG, PNG)
NUMBER = "table"
"""The column that says of which table of several a row is, from 1."""


def forms_of(view: View) -> tuple[str, ...]:
    """Forms that a view has; one with tables may have none to show in a trace."""
    data = () if view.specification is None else (CSV, PARQUET)
    return (*data, *(() if view.picture() is None else (SVG, PNG)))


def view_file(view: View, trace: Trace, index: int, form: str) -> bytes:
    """The view of a pass in a form. InputError where it has none, or a package is missing."""
    if form not in forms_of(view):
        known = ", ".join(f".{name}" for name in forms_of(view)) or "none"
        raise InputError(f"{view.name} has no .{form} form", hint=f"its forms: {known}")
    if form in (CSV, PARQUET):
        found = view_tables(view, trace, index)
        if not found:
            raise InputError(f"{view.name} has no table", hint="use .json")
        if form == PARQUET:
            return parquet_bytes(joined(found))
        return "\n".join(map(csv_text, found)).encode("utf-8", "backslashreplace")
    picture = view.picture()
    assert picture is not None
    try:
        drawn = picture(trace, index)
    except ValueError as error:
        raise InputError(f"{view.name} cannot be drawn: {error}") from None
    return drawn.encode() if form == SVG else in_pixels(drawn)


def in_pixels(drawn: str) -> bytes:
    """An SVG as PNG. InputError where what draws it is not installed."""
    from explorer.views.renderers.picture import picture_png

    try:
        return picture_png(drawn)
    except ImportError:
        raise InputError(
            "PNG files are drawn with resvg, which is not installed",
            hint='pip install "nn-compiler-explorer[pictures]", or take .svg',
        ) from None


def view_tables(view: View, trace: Trace, index: int) -> list[Table]:
    """The tables of a view that have rows."""
    from explorer.views.renderers.picture import tables

    assert view.specification is not None
    found = tables(view.specification(trace, index))
    return [Table(columns, tuple(rows)) for columns, rows in found if rows]


def joined(tables: Sequence[Table]) -> Table:
    """All rows under all columns; a table has None in the columns of the others."""
    if len(tables) == 1:
        return tables[0]
    columns = tuple(dict.fromkeys(name for table in tables for name in table.columns))
    first = NUMBER if NUMBER not in columns else f"{NUMBER} number"
    rows = [
        (number, *(row.get(name) for name in columns))
        for number, table in enumerate(tables, start=1)
        for row in table
    ]
    return Table((first, *columns), tuple(rows))
