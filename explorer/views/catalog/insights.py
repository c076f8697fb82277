"""Findings about a compilation, the largest first, with where to look.

1  7.8 MiB of 15.6 MiB   constantofshape3 lives in 131 of 132 steps, ...   memory: constantofshape3
"""

from __future__ import annotations

from explorer.results import Trace
from explorer.views.insights.finding import FINDERS, found, missing
from explorer.views.insights.insight import Insight
from explorer.views.launched_times import two_times
from explorer.views.specification import Cell, Column, Part, Row, Specification, TableSpec, Text
from explorer.views.view import Pane, View


def insights(trace: Trace, index: int = -1) -> Specification:
    """A row for every insight; then what was not looked for, and what is missing for it."""
    rows = found(trace)
    largest = max((row.share for row in rows), default=0.0) or 1.0
    parts: list[Part] = [_table(rows, largest) if rows else Text(text="Nothing stands out.")]
    parts += [Text(text=text) for text in (*two_times(trace), *_unknown(trace))]
    title = f"{trace.model.name}: {len(rows) or 'no'} insights"
    return Specification(title=title, parts=tuple(parts))


def _table(insights: list[Insight], largest: float) -> TableSpec:
    return TableSpec(
        title="what stands out, the largest first",
        columns=(
            Column(key="effect", title="about"),
            Column(key="text", title="what stands out"),
            Column(key="place", title="where", format="layer"),
        ),
        rows=tuple(
            Row(
                cells={
                    "effect": Cell(
                        value=round(each.share, 4),
                        text=each.effect,
                        exact=each.name,
                        share=each.share / largest,
                    ),
                    "text": Cell(value=each.text, layers=each.layers),
                    "place": str(each.place),
                },
                operations=(each.place.selection,) if each.place.selection else (),
                link=each.place,
            )
            for each in insights
        ),
    )


def _unknown(trace: Trace) -> list[str]:
    lacking: dict[str, list[str]] = {}
    for finder in FINDERS:
        for noun in missing(finder, trace)[:1]:
            lacking.setdefault(noun, []).append(finder.title)
    return [f"Without {noun} nobody knows of {'; '.join(t)}." for noun, t in lacking.items()]


VIEW = View(
    name="insights",
    title="what stands out, the largest first",
    uses=("memory", "accuracy", "profile", "program", "steps"),
    specification=insights,
    json=lambda trace, _: found(trace),
    pane=Pane(moves="seconds", key="s"),
)
