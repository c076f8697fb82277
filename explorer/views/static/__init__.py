"""What a plain notebook or a terminal shows of a result: text first, then HTML.

    print(pass_text(trace, 5))      a table that lines up
    HTML(pass_html(trace, 5))       a card: inline styles, pictures as `data:` URIs, no scripts

Every function is pure: results in, a string out. Names that come from a model are escaped in
HTML and SVG, and made harmless in text. What is capped says so, and how to see the rest.
"""

from explorer.views.static.graph import graph_dot, graph_html, graph_svg, graph_text
from explorer.views.static.kernels import (
    kernel_html,
    kernel_text,
    schedule_html,
    schedule_text,
    source_html,
    source_text,
)
from explorer.views.static.operation import operation_html, operation_text
from explorer.views.static.rewrites import diff_html, diff_text, pass_html, pass_text

__all__ = [
    "diff_text",
    "diff_html",
    "pass_text",
    "pass_html",
    "operation_text",
    "operation_html",
    "graph_text",
    "graph_html",
    "graph_svg",
    "graph_dot",
    "kernel_text",
    "kernel_html",
    "schedule_text",
    "schedule_html",
    "source_text",
    "source_html",
]
