"""A person's own numbers on a graph: colour and number of every operation, the highest as a list.

power: 3 operations have a number, from 0.1 to 3.5
  conv_1   3.5
  relu_2   0.4
"""

from __future__ import annotations

from collections.abc import Mapping

from explorer.results.graph import Graph
from explorer.views.drawing.collapse import closed_units, merged
from explorer.views.numbers import format_count
from explorer.views.parts.markup import card, escape, note, picture, plain, table
from explorer.views.parts.plain import columns
from explorer.views.static.graph import PICTURE_NODES, GraphMarks, graph_svg, placed
from explorer.views.theme import cividis

MAX_LISTED = 10


def overlay_text(title: str, values: Mapping[str, float]) -> str:
    """The range, and the highest numbers with their operations."""
    rows = [(plain(name), f"{value:.4g}") for name, value in _highest(values)]
    return "\n".join([_summary(title, values), *columns(rows, align="lr")])


def overlay_html(
    graph: Graph, title: str, values: Mapping[str, float], limit: int = PICTURE_NODES
) -> str:
    """The graph coloured by the numbers (cividis, from the lowest to the highest that is shown);
    a closed block has the sum of its operations."""
    units = closed_units(graph, limit)
    shown = merged(graph, units)
    sums: dict[str, float] = {}
    for name, value in values.items():
        sums[units[name]] = sums.get(units[name], 0.0) + value
    low, high = min(0.0, *sums.values()), max(0.0, *sums.values())
    marks = GraphMarks(
        remarks={name: f"{title} {value:.4g}" for name, value in sums.items()},
        grounds={n: cividis((v - low) / ((high - low) or 1.0)) for n, v in sums.items()},
    )
    drawing = placed(shown)
    drawn = graph_svg(shown, drawing, marks)
    body = picture(drawn, drawing.width, f"graph coloured by {title}")
    rows = [[escape(name), f"{value:.4g}"] for name, value in _highest(values)]
    body += table(rows, ("operation", title), "lr")
    if len(shown.nodes) < len(graph.nodes):
        body += note("A closed block has the sum of its operations.")
    return card("Graph", body, subtitle=_summary(title, values))


def _highest(values: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(values.items(), key=lambda item: -item[1])[:MAX_LISTED]


def _summary(title: str, values: Mapping[str, float]) -> str:
    if not values:
        return f"{plain(title)}: no operation after this pass has a number"
    return (
        f"{plain(title)}: {format_count(len(values), 'operation')} with a number, from "
        f"{min(values.values()):.4g} to {max(values.values()):.4g}"
    )
