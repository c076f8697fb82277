"""A compilation as one text: model, decisions, verdict, and what the views show of it.

report_text(trace)      Markdown, for an issue, a notebook or a colleague
report_html(trace)      cards one below the other, for a cell or a part of a page
report_page(trace)      a page that stands alone: no script, no other file, light and dark
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from explorer.results import Trace
from explorer.views.catalog.accuracy import accuracy
from explorer.views.catalog.insights import insights
from explorer.views.catalog.kernels import kernels
from explorer.views.catalog.memory import memory
from explorer.views.catalog.passes import passes
from explorer.views.catalog.timeline import timeline
from explorer.views.numbers import format_error
from explorer.views.parts.markup import document
from explorer.views.renderers.html import html_of
from explorer.views.renderers.markdown import markdown_of
from explorer.views.specification import Facts, Specification
from explorer.views.view import Faces, View


def report_text(trace: Trace) -> str:
    """Markdown."""
    first, *others = report(trace)
    return "\n\n".join([markdown_of(first), *(markdown_of(s, 2) for s in others)]) + "\n"


def report_page(trace: Trace) -> str:
    """A whole document."""
    return document(f"{trace.model.name}: report", report_html(trace))


def report_html(trace: Trace) -> str:
    """A card for each."""
    return "\n".join(f'<div style="margin:0 0 16px">{html_of(s)}</div>' for s in report(trace))


def report(trace: Trace) -> Iterator[Specification]:
    """Model and verdict, what stands out, passes, memory, kernels, times and accuracy."""
    yield _about(trace)
    yield insights(trace)
    yield replace(passes(trace), title="Passes")
    if trace.memory is not None:
        yield memory(trace)
    if trace.program is not None:
        yield kernels(trace)
    if trace.profile is not None:
        yield timeline(trace)
    if trace.accuracy is not None:
        yield accuracy(trace)


def _about(trace: Trace) -> Specification:
    model = trace.model
    rows = (
        ("model", f"{model.nodes:,} nodes, {model.parameters:,} parameters, {model.format}"),
        ("producer", model.producer or "unknown"),
        *((f"input {name}", type_) for name, type_ in model.inputs),
        *((f"output {name}", type_) for name, type_ in model.outputs),
        ("device", trace.device or "not run"),
        ("branch", trace.label or "as by default"),
        ("verdict", _verdict(trace)),
        *trace.problems,
    )
    title = f"{model.name} for {trace.target or 'no target'}"
    return Specification(title=title, parts=(Facts(rows=rows),))


def _verdict(trace: Trace) -> str:
    """Whether the program equals its model, in words."""
    found = trace.accuracy
    if found is None:
        return "not compared with the source model"
    passed = "equals the source model" if found.passed else "differs from the source model"
    return f"{passed} (tolerance {format_error(found.tolerance)}, {found.oracle})"


def _faces() -> Faces:
    return Faces(
        text=lambda trace, _index, _width: report_text(trace),
        html=lambda trace, _: report_html(trace),
    )


VIEW = View(
    name="report",
    title="model, decisions, verdict, passes, memory, kernels and errors, as Markdown",
    uses=("memory", "accuracy", "profile", "program"),
    faces=_faces,
)
