"""What a view shows, as data: tables, facts, sentences and charts, the same for every medium.

    Specification(title="Layers", parts=(
        Facts(rows=(("device", "simulator of vta-16"),)),
        TableSpec(title="layers", columns=(
            Column(key="layer", title="layer", format="name"),
            Column(key="cycles", title="cycles", format="count", hint="from first to last"),
        ), rows=(Row(cells={"layer": "conv1", "cycles": 2351}, operations=("conv1",)),)),
    ))

A view is a pure function from a trace to one of these. `renderers/` draws it as text, HTML,
Markdown, JSON and for the page; a number is formatted once, by the format of its column
(`FORMATS`).
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from explorer.views.numbers import (
    format_amount,
    format_bytes,
    format_decibels,
    format_error,
    format_exact,
    format_nanoseconds,
    format_percent,
    format_picojoules,
    format_seconds,
)
from explorer.views.theme import BLUE, LIGHT, VERMILLION, Look, mix

Value = str | int | float | bool | None
"""None is a number that nobody knows, written `–`, or no text."""

UNKNOWN = "–"


@dataclass(frozen=True, kw_only=True)
class Format:
    """How the values of a column are written, and on which side they stand."""

    text: Callable[[Any], str]
    is_number: bool = True
    is_code: bool = False
    """Whether it is a name of the program: monospaced where there are fonts."""
    is_layer: bool = False
    """Whether the page writes the name that the layer has in the file of the model."""


FORMATS: Mapping[str, Format] = {
    "text": Format(text=str, is_number=False),
    "name": Format(text=str, is_number=False, is_code=True),
    "layer": Format(text=str, is_number=False, is_code=True, is_layer=True),
    "count": Format(text=format_exact),
    "bytes": Format(text=format_bytes),
    "seconds": Format(text=format_seconds),
    "nanoseconds": Format(text=format_nanoseconds),
    "picojoules": Format(text=format_picojoules),
    "amount": Format(text=format_amount),
    "percent": Format(text=format_percent),
    "error": Format(text=format_error),
    "decibels": Format(text=format_decibels),
    "decimal": Format(text=lambda value: f"{value:,.1f}"),
}
"""By name: `layer` takes an operation, `percent` a share of one, `nanoseconds` nanoseconds, `bytes`
bytes."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A value that says more than its format does."""

    value: Value
    """What the column is sorted by."""
    text: str = ""
    """Instead of the formatted value."""
    exact: str = ""
    """On hover: all digits, or what the number is made of."""
    look: Look | None = None
    """A glyph in its colour before the text."""
    share: float | None = None
    """A bar, from 0 to 1: next to a number, below a text where there are pictures."""
    layers: tuple[str, ...] = ()
    """Operations that the text names: the page writes the names that they have in the file."""


@dataclass(frozen=True, kw_only=True)
class Link:
    """A place in the page; what is empty stays as it is."""

    dock: str = ""
    """A tab of a registered view."""
    tab: str = ""
    """A tab of the inspector."""
    pass_name: str = ""
    selection: str = ""
    """Identity of an operation."""
    event: int | None = None
    """A rewrite, or a declined candidate, of that pass."""

    def __str__(self) -> str:
        """`accuracy, fold-scale: mul3`"""
        parts = ", ".join(part for part in (self.dock or self.tab, self.pass_name) if part)
        return ": ".join(part for part in (parts, self.selection) if part)


@dataclass(frozen=True, kw_only=True)
class Column:
    key: str
    """Its name in JSON and in the cells of a row."""
    title: str
    format: str = "text"
    """A name of `FORMATS`."""
    hint: str = ""
    """What the number means, on hover."""
    is_for_page: bool = False
    """Whether text and HTML, which have less room, leave it out."""
    moves: str = ""
    """A quantity of `results.levers`: in the page a press on a number opens what moves it, that of
    the first column's kernel or tensor first. Or a sentence: why no decision moves it. Empty: what
    `Pane.moves` says."""


@dataclass(frozen=True, kw_only=True)
class Row:
    cells: Mapping[str, Value | Cell]
    operations: tuple[str, ...] = ()
    """Operations that it is about: a click selects the first one, another click the next, and the
    row is marked while one of them is selected."""
    pass_name: str = ""
    """The pass in which those operations stand; empty: the one that is looked at."""
    link: Link | None = None
    """Where a click leads, where that is more than an operation."""
    id: str = ""
    """Its name among the marks of charts: a click on such a mark chooses the row."""
    title: str = ""
    """The heading of its details; empty: its first cell."""
    details: tuple[Part, ...] = ()
    """More about it: next to the table in the page, folded in HTML, and not in text."""
    action: Action | None = None
    """What a button at its end tries in the page."""
    is_quiet: bool = False
    """Whether HTML writes it in the colour of text of second rank."""


@dataclass(frozen=True, kw_only=True)
class TableSpec:
    """Rows of cells. Columns without any value are left out."""

    title: str
    """What it lists, for those who hear it: "kernels"."""
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    sort_by: str = ""
    """The column by which the page sorts it at first, the largest value on top."""
    facet: str = ""
    """The column of which the page offers each value as a filter."""
    max_rows: int = 400
    """Text and HTML list so many; the page says how many more there are."""
    chosen: int = 0
    """The row of which the page shows the details at first."""
    max_details: int = 40
    """HTML has the details of so many rows."""
    rest: str = ""
    """Where all rows are, for those who read a capped table: `result.kernels`."""
    keeps_columns: bool = False
    """Whether text and HTML have columns without any value, too."""

    def cell(self, row: Row, column: Column) -> Cell:
        """A row's cell of a column; a value that is missing or None is unknown."""
        value = row.cells.get(column.key)
        return value if isinstance(value, Cell) else Cell(value=value)

    def title_of(self, row: Row) -> str:
        """The heading of a row's details."""
        return row.title or self.text(self.cell(row, self.columns[0]), self.columns[0])

    def text(self, cell: Cell, column: Column) -> str:
        """The text of a cell, without its glyph."""
        if cell.text:
            return cell.text
        known = FORMATS[column.format]
        if cell.value is None:
            return UNKNOWN if known.is_number else ""
        return known.text(cell.value)


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Names with one value each, below one another."""

    rows: tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True)
class Text:
    """A sentence or two."""

    text: str
    is_quiet: bool = True
    look: Look | None = None
    link: Link | None = None
    """What it is about: the page has a button that leads there."""
    layers: tuple[str, ...] = ()
    """Operations that the text names: the page writes the names that they have in the file."""

    @staticmethod
    def of(text: str) -> Text:
        """A quiet sentence."""
        return Text(text=text)


@dataclass(frozen=True, kw_only=True)
class Code:
    """Lines in the monospaced font."""

    lines: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Action:
    """Decisions that can be tried: a button where the page can compile, else the call."""

    title: str
    decisions: Mapping[str, str | int | float | bool]
    """Value by address, as `Compilation.fork(decisions=...)` takes them."""
    replaces: str = ""
    """With what the addresses of decisions begin that a page takes back first."""

    def call(self) -> str:
        """`c.fork(decisions={"tile": 4})`"""
        pairs = ", ".join(f"{json.dumps(k)}: {v!r}" for k, v in self.decisions.items())
        return f"c.fork(decisions={{{pairs}}})"


@dataclass(frozen=True, kw_only=True)
class Rect:
    """A filled rectangle, in units of the chart."""

    x: float
    y: float
    width: float
    height: float
    role: str = "accent"
    """A role of the surface (accent, line, quiet, border, raised, background, text), a colour as
    #rrggbb, or the fill, edge or ink of a look of theme.py: `pooling-fill`."""
    stroke: str = ""
    """Of its outline, likewise; empty for none."""
    stroke_width: float = 1
    id: str = ""
    """The operation that a click selects, or the row of a table that it chooses."""
    title: str = ""
    """What it is, on hover."""


@dataclass(frozen=True, kw_only=True)
class Bars:
    """Bars of equal width from left to right, which stand on `base` or go on below it."""

    x: float
    base: float
    step: float
    """Width of a bar and of the gap after it, which takes one unit where bars are wider."""
    heights: tuple[float, ...]
    depths: tuple[float, ...] = ()
    """How far each goes below the base."""
    titles: tuple[str, ...] = ()
    """What each is, on hover."""
    role: str = "accent"


@dataclass(frozen=True, kw_only=True)
class Dot:
    """A circle, or another shape, so that colour never carries meaning alone."""

    x: float
    y: float
    radius: float = 4
    fill: str = "accent"
    """A role, a colour, or empty for none."""
    stroke: str = "accent"
    shape: str = "circle"
    """circle, square or diamond."""
    id: str = ""
    title: str = ""


@dataclass(frozen=True, kw_only=True)
class Line:
    """A line through points."""

    points: tuple[tuple[float, float], ...]
    role: str = "line"
    id: str = ""
    title: str = ""
    is_dashed: bool = False
    width: float = 1


@dataclass(frozen=True, kw_only=True)
class Label:
    """Words at a place; `anchor` is start, middle or end."""

    x: float
    y: float
    text: str
    anchor: str = "start"
    role: str = "quiet"
    size: float = 12
    """Of the font, in units of the chart."""
    angle: float = 0
    """Degrees by which it is turned around its place."""
    is_on_mark: bool = False
    """Whether it stands on a colour that light and dark share, and keeps its own."""
    layer_characters: int = 0
    """Of a layer's name in the text, which the page replaces by the end of that of the file. 0: the
    text has no such name."""


Mark = Rect | Bars | Dot | Line | Label


@dataclass(frozen=True, kw_only=True)
class ChartSpec:
    """A picture of marks, with its meaning in words for those who do not see it."""

    title: str
    width: float
    height: float
    marks: tuple[Mark, ...]
    legend: tuple[tuple[Look, str], ...] = ()
    """Glyphs and what they stand for, below the picture."""
    lines: tuple[str, ...] = ()
    """What text shows in its place."""
    moves: str = ""
    """What moves the numbers in it, as of a `Column`."""


@dataclass(frozen=True, kw_only=True)
class ImageSpec:
    """A picture of numbers, a pixel each, with its meaning in words."""

    title: str
    width: int
    height: int
    pixels: bytes
    """Row by row: 0 the most negative number, 128 zero, 255 the most positive one."""

    def png(self) -> str:
        """A PNG as a `data:` address: vermillion for what is negative, blue for what is positive.

        Raises:
            ValueError: when there are more or fewer pixels than the size says.
        """
        from PIL import Image

        picture = Image.frombytes("P", (self.width, self.height), self.pixels)
        ends = (VERMILLION, BLUE)
        shades = (mix(LIGHT.background, ends[i >= 128], abs(i - 128) / 128) for i in range(256))
        picture.putpalette(bytes.fromhex("".join(shade[1:] for shade in shades)))
        content = io.BytesIO()
        picture.save(content, "PNG", optimize=True)
        return f"data:image/png;base64,{base64.b64encode(content.getvalue()).decode('ascii')}"


@dataclass(frozen=True, kw_only=True)
class Section:
    """Parts under a heading."""

    title: str
    parts: tuple[Part, ...]
    is_folded: bool = False
    """Whether it is closed at first where it can be opened; text leaves it out."""
    operations: tuple[str, ...] = ()
    """Those that it is about: the page opens it when one of them is selected."""
    is_for_page: bool = True
    """Whether the page draws it; not where the pane has a richer form of its own."""


@dataclass(frozen=True, kw_only=True)
class Own:
    """What a pane draws by a module of its own, for it has gestures of its own."""

    name: str
    """By which the pane knows what draws it."""
    data: object
    """For that module, as JSON holds it."""
    parts: tuple[Part, ...] = ()
    """The same where there is no page."""


@dataclass(frozen=True, kw_only=True)
class Beside:
    """Parts from left to right in the page, and below one another elsewhere."""

    parts: tuple[Part, ...]


Part = TableSpec | Facts | Text | Code | Action | ChartSpec | ImageSpec | Section | Own | Beside


@dataclass(frozen=True, kw_only=True)
class Specification:
    """All that a view shows of one trace."""

    title: str
    subtitle: str = ""
    """The numbers that matter most, on one line; the page has them in the head of the pane."""
    look: Look | None = None
    """A glyph in its colour before that line: a verdict."""
    parts: tuple[Part, ...] = field(default_factory=tuple)
