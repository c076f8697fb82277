"""What terminals, debuggers and notebooks show of an object: text first, HTML second.

    class MemoryPlan(Displayed): ...      str, repr, _repr_html_, to_text() and to_html()

`str`, `repr` and a notebook show at most 40 lines and 4,000 characters; `to_text` and `to_html` are
the whole content.

A class here says only that it is shown. `explorer.representations` knows how, and is loaded when
something is shown for the first time: no layer below the views imports one.
"""

from __future__ import annotations

from importlib import import_module
from typing import Protocol, cast


class TextPrinter(Protocol):
    """The printer of IPython, which asks an object for its text."""

    def text(self, text: str) -> None: ...


class Displayed:
    """A base for what is shown. Dataclasses that derive from it take `repr=False`."""

    __slots__ = ()

    def to_text(self) -> str:
        """The whole text."""
        return _presenter().text_of(self)

    def to_html(self) -> str:
        """The whole HTML, without scripts, for a notebook's output or a report."""
        return _presenter().html_of(self)

    def __str__(self) -> str:
        return _presenter().short_text_of(self)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str | None:
        return _presenter().short_html_of(self) or None

    def _repr_pretty_(self, printer: TextPrinter, cycle: bool) -> None:
        """IPython's hook for the text form."""
        printer.text("..." if cycle else str(self))


class _Presenter(Protocol):
    def text_of(self, shown: Displayed) -> str: ...
    def html_of(self, shown: Displayed) -> str: ...
    def short_text_of(self, shown: Displayed) -> str: ...
    def short_html_of(self, shown: Displayed) -> str: ...


def _presenter() -> _Presenter:
    return cast(_Presenter, import_module("explorer.representations"))
