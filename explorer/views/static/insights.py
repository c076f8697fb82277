"""What stands out in a compilation, the largest first, with where to look.

1  7.8 MiB of 15.6 MiB   constantofshape3 lives in 131 of 132 steps, ...   memory: constantofshape3
"""

from __future__ import annotations

from explorer.results import Trace
from explorer.views.insights.finding import FINDERS, found, missing
from explorer.views.insights.insight import Insight, Place
from explorer.views.static.parts.markup import card, code, escape, note, plain, quiet, table
from explorer.views.static.parts.plain import WIDTH, columns

NOTHING = "Nothing stands out."


def insights_text(trace: Trace, width: int = WIDTH) -> str:
    """A line or more for every insight, in lines of at most `width` characters."""
    insights = found(trace)
    rows = [
        (str(number), plain(each.effect), plain(each.text), plain(_where(each.place)))
        for number, each in enumerate(insights, start=1)
    ]
    header = ("", "about", "what stands out", "where")
    lines = columns(rows, header, "rlll", width=width) if rows else [f"  {NOTHING}"]
    return "\n".join([_title(trace, insights), *lines, *(f"  {text}" for text in _unknown(trace))])


def insights_html(trace: Trace) -> str:
    """A card of the same."""
    insights = found(trace)
    rows = [
        [quiet(number), escape(each.effect), escape(each.text), code(_where(each.place))]
        for number, each in enumerate(insights, start=1)
    ]
    header = ("", "about", "what stands out", "where")
    body = table(rows, header, "rlll") if rows else note(NOTHING)
    body += "".join(note(text) for text in _unknown(trace))
    return card(_title(trace, insights), body)


def _title(trace: Trace, insights: list[Insight]) -> str:
    return f"{plain(trace.model.name)}: {len(insights) or 'no'} insights"


def _where(place: Place) -> str:
    """`accuracy, fold-scale: mul3`"""
    parts = ", ".join(part for part in (place.dock or place.tab, place.pass_name) if part)
    return ": ".join(part for part in (parts, place.selection) if part)


def _unknown(trace: Trace) -> list[str]:
    """What was not looked for, and what is missing for it."""
    lacking: dict[str, list[str]] = {}
    for finder in FINDERS:
        for noun in missing(finder, trace)[:1]:
            lacking.setdefault(noun, []).append(finder.title)
    return [f"Without {noun} nobody knows of {'; '.join(t)}." for noun, t in lacking.items()]
