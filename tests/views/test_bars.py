"""Measured numbers as bars, and rows where there is no pandas: text, HTML, and who shows them."""

from explorer.compilation.measurements.schedule_steps import Bars, Ladder, Rung
from explorer.traces.tables import Table
from explorer.views.catalog.bars import MAX_ROWS, bars, frame, ladder
from explorer.views.renderers.html import html_of
from explorer.views.renderers.text import text_of


def test_a_ladder_shows_bars_as_text():
    rungs = [("lower", 4.0, 2.5), ("unroll", 1.0, 10.0)]
    assert text_of(ladder(rungs), 100).splitlines() == [
        "  lower    2.5 GFLOP/s  █████",
        "  unroll  10.0 GFLOP/s  ████████████████████",
    ]


def test_a_kernel_without_multiply_adds_shows_times():
    lines = text_of(ladder([("lower", 0.5, 0.0), ("merge", 0.25, 0.0)]), 100).splitlines()
    assert [line.split("  ")[2] for line in lines] == ["500.0 µs", "250.0 µs"]
    assert lines[1].endswith("█" * 20)


def test_bars_escape_their_names():
    html = html_of(bars([("<1>", 2.0), ("4", 4.0)], "GFLOP/s"))
    assert "&lt;1&gt;" in html
    assert "width:60px;height" in html and html.count("width:120px;height") == 3


COLUMNS = ("name", "size")
ROWS = (("<a>", 1.5), ("b & c", None))


def test_rows_as_text_line_up():
    assert text_of(frame(COLUMNS, ROWS), 100) == "  name   size\n  <a>    1.5\n  b & c"


def test_rows_are_harmless_in_a_terminal():
    assert "\x1b" not in text_of(frame(("name",), (("\x1b[31m",), (("\x1b", "b"),))), 100)


def test_names_are_escaped_in_html():
    html = html_of(frame(COLUMNS, ROWS))
    assert ">&lt;a&gt;</td>" in html and ">1.5</td>" in html
    assert ">b &amp; c</td>" in html


def test_a_long_table_says_what_it_leaves_out():
    rows = tuple((i,) for i in range(MAX_ROWS + 5))
    assert text_of(frame(("n",), rows), 100).splitlines()[-1] == "  and 5 more"
    assert "and 5 more" in html_of(frame(("n",), rows))


def test_ladders_bars_and_tables_show_themselves():
    measured = Ladder("conv", 100, (Rung("lower", (), 4.0, 2.5, 0.0),))
    for shown, begin in (
        (measured, "lower  2.5 GFLOP/s  █"),
        (Bars((("one", 2.0),), "ms"), "one  2.0 ms  █"),
        (Table(COLUMNS, ROWS), "name   size"),
    ):
        assert str(shown).lstrip().startswith(begin)
        assert shown._repr_html_().startswith("<table")
