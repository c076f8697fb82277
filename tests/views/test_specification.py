"""Specifications as text, HTML, JSON and data of the page."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import expect

from explorer.results import Trace
from explorer.results.levers import QUANTITIES
from explorer.results.weights import PART, WeightsRecord
from explorer.views.catalog import landscape
from explorer.views.catalog.weights import weights
from explorer.views.register import VIEWS
from explorer.views.renderers.html import html_of
from explorer.views.renderers.page import json_of, page_of
from explorer.views.renderers.text import text_of
from explorer.views.specification import (
    FORMATS,
    Bars,
    Cell,
    ChartSpec,
    Column,
    Facts,
    Label,
    Line,
    Link,
    Rect,
    Row,
    Section,
    Specification,
    TableSpec,
    Text,
)
from explorer.views.theme import EQUAL

HOSTILE = "<script>\x1b[31m\u202e"
TABLE = TableSpec(
    title="layers",
    columns=(
        Column(key="name", title="name", format="name"),
        Column(key="cycles", title="cycles", format="count"),
        Column(key="share", title="share", format="percent", is_for_page=True),
        Column(key="empty", title="empty", format="error"),
    ),
    rows=(
        Row(cells={"name": HOSTILE, "cycles": 1234, "share": 0.5}, operations=("conv_1",)),
        Row(
            cells={"name": Cell(value="b", look=EQUAL, exact="exact"), "cycles": None},
            link=Link(dock="memory", selection="pool"),
        ),
        Row(cells={"name": "c", "cycles": Cell(value=float("nan"), text="?", share=0.25)}),
    ),
    max_rows=2,
)
CHART = ChartSpec(
    title=HOSTILE,
    width=10,
    height=5,
    marks=(
        Rect(x=0, y=0, width=1, height=2, id=HOSTILE, title=HOSTILE),
        Bars(x=0, base=5, step=2, heights=(0, 4.5)),
        Line(points=((0, 0), (1.5, 2)), role="#d55e00"),
        Label(x=0, y=5, text=HOSTILE),
    ),
)
WHOLE = Specification(
    title="Title",
    subtitle="2 of 3",
    parts=(
        TABLE,
        Facts(rows=(("device", HOSTILE),)),
        Text(text="a sentence", look=EQUAL),
        Section(title="open", parts=(CHART,)),
        Section(title="closed", parts=(Text(text="inside"),), is_folded=True),
        Section(title="static", parts=(), is_for_page=False),
    ),
)


def test_text_lines_up_and_leaves_out_what_has_no_value():
    lines = text_of(WHOLE, 100).splitlines()
    assert lines[0] == "2 of 3" and "\x1b" not in "".join(lines)
    assert lines[1].split() == ["name", "cycles"]
    assert lines[2].split()[-1] == "1,234" and lines[3].split() == [EQUAL.glyph, "b", "–"]
    assert lines[4].strip() == "and 1 more"
    assert f"{EQUAL.glyph} a sentence" in lines[6] and "inside" not in "".join(lines)


def test_html_is_harmless_and_folds():
    html = html_of(WHOLE)
    assert "<script" not in html and "share" not in html.split("</table>")[0]
    assert "<details" in html and 'src="data:image/svg+xml;base64,' in html


def test_the_page_gets_values_to_sort_by_and_their_text():
    table, facts, _, opened, closed = page_of(WHOLE)["parts"]
    first, second, third = table["rows"]
    about = [["conv_1"], None, "", ""]
    assert first == [about, HOSTILE, [1234, "1,234"], [0.5, "50 %"], [None, "–"]]
    assert second[0][1]["selection"] == "pool"
    assert second[1] == ["b", "b", "exact", [EQUAL.name, EQUAL.glyph, EQUAL.title]]
    assert third[2] == [None, "?", None, None, 0.25]
    assert facts["rows"] == [["device", HOSTILE]]
    assert opened["parts"][0]["marks"][2] == [
        "line",
        [[0, 0], [1.5, 2]],
        "#d55e00",
        False,
        1,
        "",
        "",
    ]
    assert closed["folded"]


def test_json_has_the_values_alone():
    table, facts, *_ = json_of(WHOLE)["parts"]
    assert table[0] == {"name": HOSTILE, "cycles": 1234, "share": 0.5, "empty": None}
    assert facts == {"device": HOSTILE}


def test_a_format_that_is_unknown_is_an_error():
    column = Column(key="a", title="a", format="furlongs")
    with pytest.raises(KeyError, match="furlongs"):
        TableSpec(title="", columns=(column,), rows=()).text(Cell(value=1), column)


# -- weights ---------------------------------------------------------------------------------------


@pytest.fixture
def weighted(trace: Trace) -> Trace:
    array = np.linspace(-1, 1, 24, dtype=np.float32).reshape(4, 6)
    record = WeightsRecord.of([(HOSTILE, "conv_1", array), ("bias", "conv_3", np.zeros(3))])
    return replace(trace, parts={PART: record})


def test_weights_of_a_damaged_file_have_no_picture(weighted: Trace):
    record = weighted.part(PART, WeightsRecord)
    assert record is not None
    damaged = replace(record.tensors[0], pixels="!", counts=())
    short = replace(record.tensors[1], picture=(1, 4))
    broken = replace(weighted, parts={PART: replace(record, tensors=(damaged, short))})
    assert "image/png" in html_of(weights(weighted))
    assert "image/png" not in html_of(weights(broken))
    with pytest.raises(ValueError, match="weights"):
        replace(weighted, parts={PART: {"tensors": 3}}).part(PART, WeightsRecord)


def test_ends_of_whole_weights_have_all_their_digits(trace: Trace):
    """Two digits would make 130 of 127, which no byte holds."""
    whole = np.array([-127, 127], np.int8), np.array([-123456, 5], np.int32)
    record = WeightsRecord.of([("w", "conv_1", array) for array in (*whole, np.array([-1.27, 2]))])
    text = text_of(weights(replace(trace, parts={PART: record})), 200)
    assert [line.split()[6:8] for line in text.splitlines() if "conv_1" in line] == [
        ["-127", "127"],
        ["-123,456", "5"],
        ["-1.3", "2"],
    ]


@pytest.mark.browser
def test_the_chosen_weight_is_shown_next_to_the_table(opened: Any, weighted: Trace):
    watched = opened(weighted, link="pass=2&dock=weights")
    page = watched.page
    table = page.locator(".dock table[aria-label='weights']")
    expect(table.locator("tbody tr")).to_have_count(2)
    aside = page.locator(".dock aside")
    expect(aside.locator("h3")).to_contain_text("Conv_0: ")
    table.locator("tbody tr").nth(1).click()
    expect(aside.locator("h3")).to_have_text("Conv_8: bias")
    expect(page.locator(".subject h2")).to_have_text("conv_3")
    table.locator("tbody tr").first.click()
    expect(aside.locator("img")).to_be_visible()
    assert aside.locator(".chart .bars").get_attribute("d").count("z") > 10
    expect(table.locator("tbody tr").first).to_have_class("marked")
    assert watched.is_clean(), watched


MOVED_FORMATS = {"bytes", "nanoseconds", "decibels", "percent", "amount"}
MOVED_BY_NOTHING = {("weights", "zeros")}
"""Facts about the model's own weights, which no decision of the compiler moves."""


def test_every_number_that_a_decision_moves_leads_to_its_levers(trace: Trace):
    seen: set[str] = set()
    for view in VIEWS:
        if view.specification is None or view.missing(trace):
            continue
        for table in tables_of(view.specification(trace, len(trace.passes) - 1)):
            for column in table.columns:
                if column.format not in MOVED_FORMATS:
                    continue
                seen.add(view.name)
                is_moved = column.moves in QUANTITIES
                assert is_moved or (view.name, column.key) in MOVED_BY_NOTHING, (
                    view.name,
                    column.key,
                )
    assert {"kernels", "memory", "accuracy"} <= seen


def test_a_time_that_is_not_the_latency_names_its_quantity():
    """A unit says `seconds` of every time, so a time of the compiler has to say more."""
    columns = {column.key: column for column in landscape.LAYERS}
    assert columns["seconds"].moves == "compile_seconds"
    assert columns["candidates"].moves not in QUANTITIES


def test_every_number_says_what_moves_it_by_its_column_or_by_its_view(trace: Trace):
    """No cell is left to the answer for numbers of which nobody knows anything."""
    for view in VIEWS:
        if view.specification is None or view.pane is None or view.missing(trace):
            continue
        for table in tables_of(view.specification(trace, len(trace.passes) - 1)):
            for column in table.columns:
                if FORMATS[column.format].is_number:
                    assert column.moves or view.pane.moves, (view.name, column.key)


def tables_of(part: Any) -> Iterator[TableSpec]:
    if isinstance(part, TableSpec):
        yield part
    for inner in getattr(part, "parts", ()):
        yield from tables_of(inner)
