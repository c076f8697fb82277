"""What a plain notebook or a terminal shows of a result: text first, then HTML.

    print(passes_text(trace))      a table that lines up
    HTML(passes_html(trace))       a card: inline styles, pictures as `data:` URIs, no scripts

Every function is pure: results in, a string out. Names that come from a model are escaped in
HTML and SVG, and made harmless in text. What is capped says so, and how to see the rest.
"""

from explorer.views.parts.bars import bars_html, bars_text, ladder_html, ladder_text
from explorer.views.parts.frames import frame_html, frame_text
from explorer.views.static.accuracy import accuracy_html, accuracy_text
from explorer.views.static.comparison import comparison_html, comparison_text
from explorer.views.static.graph import graph_dot, graph_html, graph_svg, graph_text
from explorer.views.static.kernels import (
    kernel_html,
    kernel_text,
    schedule_html,
    schedule_text,
    source_html,
    source_text,
)
from explorer.views.static.memory import families_of, memory_html, memory_text
from explorer.views.static.operation import operation_html, operation_text
from explorer.views.static.passes import passes_html, passes_text
from explorer.views.static.profile import profile_html, profile_text
from explorer.views.static.rewrites import pass_html, pass_text
from explorer.views.static.search import (
    cost_html,
    cost_text,
    kernel_search_html,
    kernel_search_text,
    search_html,
    search_text,
)
from explorer.views.static.session import session_html, session_text

__all__ = [
    "passes_text",
    "passes_html",
    "pass_text",
    "pass_html",
    "operation_text",
    "operation_html",
    "graph_text",
    "graph_html",
    "graph_svg",
    "graph_dot",
    "memory_text",
    "memory_html",
    "families_of",
    "accuracy_text",
    "accuracy_html",
    "profile_text",
    "profile_html",
    "kernel_text",
    "kernel_html",
    "schedule_text",
    "schedule_html",
    "source_text",
    "source_html",
    "session_text",
    "session_html",
    "comparison_text",
    "comparison_html",
    "cost_text",
    "cost_html",
    "kernel_search_text",
    "kernel_search_html",
    "ladder_text",
    "ladder_html",
    "bars_text",
    "bars_html",
    "frame_text",
    "frame_html",
    "search_text",
    "search_html",
]
