"""The report as HTML: what the Markdown says, drawn by the views, in cards one below the other.

report_html(trace)      for a cell, or a part of a page
report_page(trace)      a page that stands alone: no script, no other file, light and dark
"""

from __future__ import annotations

from collections.abc import Iterator

from explorer.results import Trace
from explorer.views.catalog.accuracy import compared
from explorer.views.catalog.insights import insights
from explorer.views.catalog.memory import memory
from explorer.views.catalog.timeline import timeline
from explorer.views.numbers import format_bytes, format_exact, format_seconds
from explorer.views.parts.markup import (
    card,
    code,
    document,
    escape,
    note,
    paragraph,
    shorten,
    table,
)
from explorer.views.renderers.html import html_of
from explorer.views.static.passes import passes_html
from explorer.views.static.report import MOST_ROWS, kernel_rows, verdict_of

MOST_NAME = 60


def report_page(trace: Trace) -> str:
    """A whole document."""
    return document(f"{trace.model.name}: report", report_html(trace))


def report_html(trace: Trace) -> str:
    """Model and verdict, what stands out, passes, memory, kernels, times and accuracy."""
    return "\n".join(f'<div style="margin:0 0 16px">{html}</div>' for html in _cards(trace))


def _cards(trace: Trace) -> Iterator[str]:
    yield card(trace.model.name, _about(trace), f"for {trace.target or 'no target'}")
    yield html_of(insights(trace))
    yield passes_html(trace)
    if trace.memory is not None:
        yield html_of(memory(trace))
    if trace.program is not None:
        yield card("kernels", _kernels(trace))
    if trace.profile is not None:
        yield html_of(timeline(trace))
    if trace.accuracy is not None:
        yield html_of(compared(trace.accuracy))


def _about(trace: Trace) -> str:
    model = trace.model
    lines = [
        f"{model.nodes:,} nodes, {model.parameters:,} parameters, {escape(model.format)}, "
        f"{escape(model.producer or 'unknown producer')}",
        *(f"input {code(name)} {code(type_)}" for name, type_ in model.inputs),
        *(f"output {code(name)} {code(type_)}" for name, type_ in model.outputs),
        f"device: {escape(trace.device or 'unknown')}",
        f"branch: {code(trace.label)}" if trace.label else "branch: as by default",
        f"verdict: {escape(verdict_of(trace))}",
        *(f"{code(what)}: {escape(why)}" for what, why in trace.problems),
    ]
    return "".join(map(paragraph, lines))


def _kernels(trace: Trace) -> str:
    rows = kernel_rows(trace)
    shown = [
        (
            code(kernel.name),
            code(shorten(", ".join(kernel.operations), MOST_NAME)),
            format_exact(kernel.flops),
            format_bytes(kernel.bytes_moved),
            "" if seconds is None else format_seconds(seconds),
        )
        for kernel, seconds in rows[:MOST_ROWS]
    ]
    made = table(shown, ("kernel", "operations", "FLOPs", "bytes moved", "time"), "llrrr")
    left_out = len(rows) - len(shown)
    return made + (note(f"{left_out} more are left out.") if left_out else "")
