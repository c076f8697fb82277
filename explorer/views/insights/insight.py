"""One thing that stands out in a trace: what it is, how much it is about, where it is looked at.

    Insight(name="kept-constant", text="constantofshape3 is filled in step 0 and first read in ...",
            effect="7.8 MiB of 15.6 MiB", share=0.5, place=Link(dock="memory", selection=...))

A finder is a function from a trace to insights. It is a rule about any trace: what it names comes
out of the trace, and where nothing stands out it finds nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from explorer.results import Trace
from explorer.views.specification import Link


@dataclass(frozen=True, kw_only=True)
class Insight:
    name: str
    """Of the finder."""
    text: str
    """One or two sentences with the numbers that it rests on."""
    effect: str
    """How much it is about, with its unit: `7.8 MiB of 15.6 MiB`."""
    share: float
    """The same as a part of the whole, 0 to 1: what ranks insights of different units."""
    place: Link
    """Where the page shows it."""
    layers: tuple[str, ...] = ()
    """Operations that the text names."""


@dataclass(frozen=True, kw_only=True)
class Finder:
    """What looks for one kind of insight."""

    name: str
    title: str
    """What it looks for, in a few words."""
    needs: tuple[str, ...]
    """Parts of a trace (needs.py) without which it cannot say anything."""
    find: Callable[[Trace], Iterable[Insight]]
