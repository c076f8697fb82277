"""Measured numbers as bars, and rows where there is no pandas: text, HTML, and who shows them."""

from explorer import representations
from explorer.compilation.measurements.ladders import Bars, Ladder, Rung
from explorer.traces.tables import Table
from explorer.views.parts.bars import bars_html, ladder_text
from explorer.views.parts.frames import SHOWN_ROWS, frame_html, frame_text


def test_a_ladder_shows_bars_as_text():
    assert ladder_text([("lower", 4.0, 2.5), ("unroll", 1.0, 10.0)]).splitlines() == [
        "lower    2.5 GFLOP/s  ██████",
        "unroll  10.0 GFLOP/s  ████████████████████████",
    ]


def test_a_kernel_without_multiply_adds_shows_times():
    lines = ladder_text([("lower", 0.5, 0.0), ("merge", 0.25, 0.0)]).splitlines()
    assert [line.split("  ")[1] for line in lines] == ["500.0 µs", "250.0 µs"]
    assert lines[1].endswith("█" * 24)


def test_bars_escape_their_names():
    html = bars_html([("<1>", 2.0), ("4", 4.0)], "GFLOP/s")
    assert "&lt;1&gt;" in html
    assert "width:50.0%" in html and "width:100.0%" in html


COLUMNS = ("name", "size")
ROWS = (("<a>", 1.5), ("b & c", None))


def test_rows_as_text_line_up():
    assert frame_text(COLUMNS, ROWS) == "name   size\n<a>    1.5\nb & c"


def test_rows_are_harmless_in_a_terminal():
    assert "\x1b" not in frame_text(("name",), (("\x1b[31m",), (("\x1b", "b"),)))


def test_names_are_escaped_in_html():
    html = frame_html(COLUMNS, ROWS)
    assert "<td>&lt;a&gt;</td><td>1.5</td>" in html
    assert "<td>b &amp; c</td><td></td>" in html


def test_a_long_table_says_what_it_leaves_out():
    rows = tuple((i,) for i in range(SHOWN_ROWS + 5))
    assert frame_text(("n",), rows).splitlines()[-1] == "and 5 more rows"
    assert "<p>and 5 more rows</p>" in frame_html(("n",), rows)


def test_ladders_bars_and_tables_show_themselves():
    representations.register()
    ladder = Ladder("conv", 100, (Rung("lower", (), 4.0, 2.5, 0.0),))
    for shown, begin in (
        (ladder, "lower  2.5 GFLOP/s  █"),
        (Bars((("one", 2.0),), "ms"), "one  2.0 ms  █"),
        (Table(COLUMNS, ROWS), "name   size"),
    ):
        assert str(shown).startswith(begin)
        assert shown._repr_html_().startswith("<table")
