"""Charts of a specification as one picture, and its tables as values."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree

import pytest

from explorer.views.renderers.picture import picture_png, picture_svg, tables
from explorer.views.specification import (
    Cell,
    ChartSpec,
    Column,
    Label,
    Rect,
    Row,
    Section,
    Specification,
    TableSpec,
    Text,
)
from explorer.views.theme import EQUAL, WRONG

HOSTILE = "<script>alert('x')</script>\"&"


def chart(height: float = 50) -> ChartSpec:
    marks = (Rect(x=0, y=0, width=10, height=10), Label(x=0, y=20, text=HOSTILE))
    return ChartSpec(title=HOSTILE, width=200, height=height, marks=marks)


def table(*values: object) -> TableSpec:
    columns = (
        Column(key="name", title="name", format="name"),
        Column(key="size", title="size", format="bytes"),
        Column(key="none", title="none", format="count"),
    )
    rows = tuple(Row(cells={"name": HOSTILE, "size": value}) for value in values)  # pyright: ignore
    return TableSpec(title="sizes", columns=columns, rows=rows, sort_by="size")


def test_charts_stand_below_one_another():
    parts = (chart(), Section(title="more", parts=(chart(30),)), Text(text="words"))
    drawn = picture_svg(Specification(title="", parts=parts))
    root = ElementTree.fromstring(drawn)
    assert float(root.get("height", "")) == 18 + 50 + 18 + 18 + 30
    assert "<script" not in drawn and "prefers-color-scheme" not in drawn


def test_a_legend_takes_as_many_rows_as_it_needs():
    both = ChartSpec(
        title="", width=200, height=50, marks=(), legend=((EQUAL, "equal " * 5), (WRONG, "wrong"))
    )
    root = ElementTree.fromstring(picture_svg(Specification(title="", parts=(both,))))
    assert float(root.get("height", "")) == 50 + 2 * 20


def test_without_a_chart_the_main_numbers_are_bars():
    values = (100, 50, None, -3, math.inf, math.nan, 0)
    drawn = picture_svg(Specification(title="", parts=(table(*values),)))
    widths = [float(w) for w in re.findall(r'<rect x="210" [^>]*width="([\d.]+)"', drawn)]
    assert widths == [400, 200, 0, 0, 0, 0, 0]
    assert "<script" not in drawn


def test_many_rows_are_cut_and_counted():
    drawn = picture_svg(Specification(title="", parts=(table(*range(1, 100)),)))
    assert "and 39 more" in drawn


@pytest.mark.parametrize("parts", [(), (Text(text="words"),), (table(None),), (table(),)])
def test_what_has_no_numbers_cannot_be_drawn(parts):
    with pytest.raises(ValueError, match="neither"):
        picture_svg(Specification(title="", parts=parts))


def test_tables_keep_values_and_leave_out_empty_columns():
    (found,) = tables(Specification(title="", parts=(table(1536, Cell(value=2.5, text="many")),)))
    assert found == (("name", "size"), [(HOSTILE, 1536), (HOSTILE, 2.5)])


def test_pixels_are_twice_as_many_as_units():
    pytest.importorskip("resvg_py", reason="resvg is not installed")
    drawn = picture_png(picture_svg(Specification(title="", parts=(chart(),))))
    assert int.from_bytes(drawn[16:20]) == 400 and int.from_bytes(drawn[20:24]) == 100
