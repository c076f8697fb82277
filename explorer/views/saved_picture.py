"""What stands in a saved notebook where the explorer stood: a card of the passes and a graph.

A widget lives as long as its kernel. Where a notebook is read without one (opened again, on a web
site, as HTML), nobody can draw it, and JupyterLab says so in place of it. So a cell has two
outputs: this picture, and the widget. A rule of style hides the picture while the explorer is
drawn below it, and what JupyterLab says while it is not.
"""

from __future__ import annotations

from explorer.results import Trace

PICTURE = "explorer-picture"
"""Class of the picture."""
_OUTPUT = ".jp-OutputArea-child"
_STYLE = (
    f"<style>{_OUTPUT}:has(.{PICTURE}):has(+ {_OUTPUT} .explorer) {{ display: none; }} "
    f"{_OUTPUT}:has(.{PICTURE}) + {_OUTPUT} > .jupyter-widgets:not(:has(*)) "
    "{ display: none; }</style>"
)
"""JupyterLab's elements: a child of the output area for every output of a cell. Elsewhere, and in
a notebook that nobody trusts yet, both outputs are seen."""
_HINT = "Run the cell again for the explorer, of which this is a picture."


def saved_picture(trace: Trace, at_pass: str = "") -> dict[str, str]:
    """The output as text and as HTML: the passes, and the graph as the page opens it.

    `at_pass` names the pass at which it was asked to open; a name that none has is like none.
    """
    from explorer.views.catalog.passes import passes
    from explorer.views.parts.markup import note
    from explorer.views.renderers.html import html_of
    from explorer.views.renderers.text import text_of
    from explorer.views.static.graph import graph_html
    from explorer.views.view import WIDTH

    body = html_of(passes(trace))
    if trace.snapshots:
        index = _opened_at(trace, at_pass)
        body += f'<div style="margin-top: 8px">{graph_html(trace.snapshots[index].graph)}</div>'
        body += note(f"The graph after {trace.passes[index].name}. {_HINT}")
    return {
        "text/plain": text_of(passes(trace), WIDTH),
        "text/html": f'<div class="{PICTURE}">{body}</div>{_STYLE}',
    }


def _opened_at(trace: Trace, at_pass: str) -> int:
    """The pass of that name; else that which fused most, the first of equals, or the import."""
    names = [record.name for record in trace.passes]
    if at_pass in names:
        return names.index(at_pass)
    return max(range(len(trace.diffs)), key=lambda i: len(trace.diffs[i].fused) if i else 0)
