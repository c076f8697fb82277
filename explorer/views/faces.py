"""The faces of every view outside of the page.

Each function imports what draws the view, so that the register itself costs nothing to import.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from explorer.views.view import Faces

if TYPE_CHECKING:
    from explorer.results import Trace


def ir() -> Faces:
    from explorer.views.static.kernels import source_html

    def html(trace: Trace, index: int) -> str:
        text = trace.snapshots[index].text
        return source_html(text, limit=len(text.lines))

    return Faces(
        text=lambda trace, index, _: "\n".join(trace.snapshots[index].text.lines),
        html=html,
        json=lambda trace, index: trace.snapshots[index].text,
    )


def diff() -> Faces:
    import difflib

    from explorer.views.static.rewrites import pass_html, pass_text

    def text(trace: Trace, index: int, width: int) -> str:
        """What the pass did, and the lines of IR that it changed."""
        before = trace.snapshots[max(index - 1, 0)].text.lines
        after = trace.snapshots[index].text.lines
        name = trace.passes[index].name
        names = (f"before {name}", f"after {name}")
        lines = difflib.unified_diff(before, after, *names, n=2, lineterm="")
        return "\n".join([pass_text(trace, index), "", *lines])

    return Faces(text=text, html=pass_html, json=lambda trace, index: trace.diffs[index])


def graph() -> Faces:
    from explorer.views.static import graph as drawn

    def text(trace: Trace, index: int, width: int) -> str:
        shown = trace.snapshots[index].graph
        return drawn.graph_text(shown, limit=len(shown.nodes))

    return Faces(
        text=text,
        html=lambda trace, index: drawn.graph_html(trace.snapshots[index].graph),
        svg=lambda trace, index: drawn.graph_svg(trace.snapshots[index].graph),
        dot=lambda trace, index: drawn.graph_dot(trace.snapshots[index].graph),
        json=lambda trace, index: trace.snapshots[index].graph,
    )


def measured_graph(title: str, values: Mapping[str, float]) -> Faces:
    """The graph with a number for each operation: a person's own."""
    from explorer.views.static.overlay import overlay_html, overlay_text

    return Faces(
        text=lambda trace, index, width: overlay_text(title, values),
        html=lambda trace, index: overlay_html(trace.snapshots[index].graph, title, values),
        json=lambda trace, index: dict(values),
    )


def rewrites() -> Faces:
    from explorer.views.static.rewrites import replay_html, replay_text

    return Faces(
        text=lambda trace, index, _: replay_text(trace, index),
        html=replay_html,
        json=lambda trace, index: trace.passes[index].events,
    )


def chrome_trace() -> Faces:
    from explorer.views.static.chrome_trace import chrome_trace as made
    from explorer.views.static.chrome_trace import chrome_trace_html

    return Faces(
        text=lambda trace, _, width: json.dumps(made(trace), indent=1),
        html=lambda trace, _: chrome_trace_html(trace),
        json=lambda trace, _: made(trace),
    )
