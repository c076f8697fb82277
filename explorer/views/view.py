"""What a view is: one thing to look at, with a face for each place where it is shown.

    View(name="memory", title="where every buffer lies, and when", needs=("memory",),
         faces=faces.memory,                              explorer show, c.view("memory")
         payload=..., pane=Pane(module=..., ...))         the page, the notebook's widget

Faces take finished results: nothing is compiled or run for them. `register.py` lists all views.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from pickle import PicklingError
from typing import TYPE_CHECKING

from explorer.results.displayed import Displayed
from explorer.views.needs import LATE_PARTS, TracePart, part_named

if TYPE_CHECKING:
    from explorer.results import Trace
    from explorer.views.payload.text import Json
    from explorer.views.specification import Specification

JAVASCRIPT = Path(__file__).parent / "js"
GENERIC_PANE = JAVASCRIPT / "ground" / "specification.js"
"""What draws the pane of a view that has a specification and no gestures of its own."""
WIDTH = 100
"""Characters of a line where nobody says how many fit."""

Face = Callable[["Trace", int], str]
"""Takes a trace and the index of the pass that is looked at."""


@dataclass(frozen=True, kw_only=True)
class Faces:
    """A view where there is no page: in a terminal, in a file, in a notebook's output."""

    text: Callable[[Trace, int, int], str]
    """Takes the characters of a line, too; the text may be wider where cutting would lose it."""
    html: Face | None = None
    """A part of a page, without scripts."""
    svg: Face | None = None
    dot: Face | None = None
    json: Callable[[Trace, int], object] | None = None
    """What is written: records of `explorer.results`, numbers, strings, lists and dictionaries."""


@dataclass(frozen=True, kw_only=True)
class Pane:
    """A view in the page: a tab of the dock, which is about the whole program."""

    module: Path = GENERIC_PANE
    """The JavaScript; what it imports from `./` stands in `explorer/views/js`."""
    function: str = "specificationPane"
    """Its export that makes the pane: (app, tab) => {node, aside, refresh, resized, hovered}."""
    tab: str = ""
    """Its name in links and on the tab; empty: the view's name."""
    key: str = ""
    """The key that opens it."""
    redraws: tuple[str, ...] = ()
    """Names of the page's state (js/state/state.js) with which it is drawn anew."""
    count: Callable[[Trace], int] | None = None
    """A number beside the tab's name."""
    is_optional: bool = False
    """Whether there is no tab where the trace lacks what the view needs."""
    is_drawn_of_payload: bool = False
    """Whether the page gets the payload alone, and no parts of a specification."""
    moves: str = ""
    """What its numbers are about, where their unit or column does not say it: a quantity of
    `results.levers`, or why no decision moves them (fixed_numbers.py)."""
    is_for_sessions: bool = False
    """Whether the served app has the tab in any case."""


@dataclass(frozen=True, kw_only=True)
class View:
    """One thing to look at."""

    name: str
    title: str
    """What it shows, in a few words."""
    needs: tuple[str, ...] = ()
    """Parts of a trace (needs.py) without which there is nothing to see."""
    uses: tuple[str, ...] = ()
    """Parts that add something where they are there."""
    is_of_pass: bool = False
    """Whether it is about one pass, not about the whole program."""
    is_of_model: bool = False
    """Whether it is shown of a model that cannot be compiled, too."""
    specification: Callable[[Trace, int], Specification] | None = field(default=None, repr=False)
    """What it shows in every medium; takes the index of the pass that is looked at."""
    drawing: Callable[[Trace, int], Specification] | None = field(default=None, repr=False)
    """What a picture in a file shows, where that is not the charts of the specification."""
    json: Callable[[Trace, int], object] | None = field(default=None, repr=False)
    """The record that is written; None: the values of the specification."""
    faces: Callable[[], Faces] | None = field(default=None, repr=False)
    """What draws a view that has no specification; None: the view is for pages only."""
    payload: Callable[[Trace], Json] | None = field(default=None, repr=False)
    """Data for the pane, which gets them as `app.data.chunk(name)`; next to a specification they
    are its `data`."""
    pane: Pane | None = None

    def __reduce__(self) -> tuple[object, ...]:
        if self is not _registered(self.name):
            raise PicklingError(
                f"the view {self.name!r} is not the registered one, and cannot be pickled: "
                "pickle its text or the trace"
            )
        return _registered, (self.name,)

    @property
    def tab(self) -> str:
        """What the page calls it."""
        return (self.pane.tab if self.pane else "") or self.name

    @property
    def is_settled(self) -> bool:
        """Whether its payload stays as it is when more is known of a compilation."""
        return LATE_PARTS.isdisjoint((*self.needs, *self.uses))

    @property
    def has_faces(self) -> bool:
        """Whether it is shown outside of the page."""
        return self.specification is not None or self.faces is not None

    def made_faces(self) -> Faces:
        """Its faces outside of the page. Imports what draws them."""
        if self.faces is not None:
            return self.faces()
        assert self.specification is not None, "views of pages only have no faces"
        return _faces_of(self.specification, self.json)

    def picture(self) -> Face | None:
        """What makes an SVG of it for a paper; ValueError where there is nothing to draw."""
        if self.faces is not None:
            return self.faces().svg
        drawn = self.drawing or self.specification
        if drawn is None:
            return None
        from explorer.views.renderers.picture import picture_svg

        return lambda trace, index: picture_svg(drawn(trace, index))

    @property
    def has_chunk(self) -> bool:
        """Whether the page gets data of its own for it."""
        return self.payload is not None or self._page_parts is not None

    @property
    def _page_parts(self) -> Callable[[Trace, int], Specification] | None:
        return None if self.pane is None or self.pane.is_drawn_of_payload else self.specification

    def chunk(self, trace: Trace) -> Json:
        """What the page gets for it."""
        data = None if self.payload is None else self.payload(trace)
        if self._page_parts is None:
            return data
        from explorer.views.renderers.page import page_of

        drawn = page_of(self._page_parts(trace, len(trace.snapshots) - 1))
        return drawn if data is None else {**drawn, "data": data}

    def missing(self, trace: Trace) -> TracePart | None:
        """The first part that it needs and the trace lacks; None where all is there."""
        parts = map(part_named, self.needs)
        return next((part for part in parts if not part.is_in(trace)), None)


@dataclass(frozen=True, kw_only=True, repr=False)
class Shown(Displayed):
    """A view of one compilation, for a notebook's output: text first, HTML where that is drawn."""

    view: View
    trace: Trace
    index: int
    """The pass that is looked at."""

    def to_text(self) -> str:
        return self._faces.text(self.trace, self.index, WIDTH)

    def to_html(self) -> str:
        """Empty where the view is text only."""
        html = self._faces.html
        return "" if html is None else html(self.trace, self.index)

    @property
    def _faces(self) -> Faces:
        return self.view.made_faces()


def _registered(name: str) -> View | None:
    """The view of a name; the register imports views, and is loaded here by its name."""
    views: Sequence[View] = import_module("explorer.views.register").VIEWS
    return next((view for view in views if view.name == name), None)


def _faces_of(
    specification: Callable[[Trace, int], Specification],
    json: Callable[[Trace, int], object] | None,
) -> Faces:
    from explorer.views.renderers.html import html_of
    from explorer.views.renderers.page import json_of
    from explorer.views.renderers.text import text_of

    return Faces(
        text=lambda trace, index, width: text_of(specification(trace, index), width),
        html=lambda trace, index: html_of(specification(trace, index)),
        json=json or (lambda trace, index: json_of(specification(trace, index))),
    )
