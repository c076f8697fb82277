"""Ties results to views: what a notebook shows of them, and how they become pages.

Layers below know no view: their classes derive from `Displayed` or `Explorable`, which call the
functions of this module by its name. Text forms come first: `str()` of everything is readable.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from explorer.compilation import (
    Accuracy,
    Compilation,
    Inspection,
    Ladder,
    SavedCompilation,
    Table,
)
from explorer.compilation.branching import Branches
from explorer.compilation.custom_passes.pipelines import near_name
from explorer.compilation.measurements.schedule_steps import Bars
from explorer.errors import InputError
from explorer.files import write_file
from explorer.ir.program import Snapshot
from explorer.ir.rewriting.passes import PassResult
from explorer.results import (
    TRACE_VERSION,
    AccuracyReport,
    CostEstimate,
    Graph,
    GraphDiff,
    KernelRecord,
    KernelSearch,
    MemoryPlan,
    ModelRecord,
    ProfileRecord,
    ProgramLookup,
    SearchResult,
    SessionRecord,
    SourceText,
    Trace,
)
from explorer.results.displayed import Displayed
from explorer.results.graph import GRAPHS
from explorer.results.model_comparison import ModelComparison
from explorer.results.overlays import Overlay
from explorer.results.runs.sensitivity import MixedPrecision
from explorer.results.sweep import MachineSweep
from explorer.results.trace import SnapshotRecord
from explorer.runtime.cache import ProgramCache
from explorer.session import Session
from explorer.traces.collections import Kernels, Knobs, Passes
from explorer.traces.comparing import Comparison
from explorer.traces.exploring import Explorable
from explorer.traces.overlays import OverlayLike, operations_of, read_overlay
from explorer.traces.saving import SavedPass
from explorer.views import register as register_of_views
from explorer.views.catalog.accuracy import compared
from explorer.views.catalog.bars import bars, frame, ladder
from explorer.views.catalog.comparison import comparison
from explorer.views.catalog.memory import planned
from explorer.views.catalog.models import models
from explorer.views.catalog.operators import operators
from explorer.views.catalog.passes import passes
from explorer.views.catalog.program import programs
from explorer.views.catalog.search import cost, kernel_search, search
from explorer.views.catalog.sensitivity import searched
from explorer.views.catalog.session import session
from explorer.views.catalog.sweep import sweep
from explorer.views.catalog.timeline import profile
from explorer.views.parts.markup import plain
from explorer.views.renderers.fitting import (
    cut,
    html_fits,
    preformatted,
    shorter,
    text_fits,
)
from explorer.views.renderers.html import html_of as specified_html
from explorer.views.renderers.text import text_of as specified_text
from explorer.views.specification import Facts, Specification
from explorer.views.view import WIDTH, Shown

if TYPE_CHECKING:
    from anywidget import AnyWidget

_Found = TypeVar("_Found")
MAX_VALUES = 6
MAX_TEXT = 60
"""Of a field of a record that has no view."""

_Render = Callable[[Any], str]  # of the class that it stands beside


class _Views:
    """The text and HTML views by name, loaded when something is shown for the first time."""

    def __getattr__(self, name: str) -> Callable[..., str]:
        def render(*shown: object) -> str:
            from explorer.views import static

            return getattr(static, name)(*shown)

        return render


static = _Views()


def text_of(shown: Displayed) -> str:
    """The whole text of what is shown."""
    if (of := _of_kind(shown, _SPECIFICATIONS)) is not None:
        return specified_text(of(shown), WIDTH)
    if _has_fields_only(shown):
        return specified_text(_fields(shown, repr), WIDTH)
    return _drawn(shown)[0](shown)


def html_of(shown: Displayed) -> str:
    """The whole HTML of what is shown."""
    if (of := _of_kind(shown, _SPECIFICATIONS)) is not None:
        return specified_html(of(shown))
    if _has_fields_only(shown):
        return specified_html(_fields(shown, repr))
    return _drawn(shown)[1](shown)


def short_text_of(shown: Displayed) -> str:
    """A text that fits a screen; its last line says where the rest is."""
    if _has_fields_only(shown):
        return specified_text(_fields(shown, _in_a_line), WIDTH)
    whole = shown.to_text()
    of = _specification_of(shown)
    if of is None or text_fits(whole):
        return cut(whole)

    def render(specification: Specification) -> str:
        rest = "  … .to_text() has all rows"
        return f"{specified_text(specification, WIDTH)}\n{rest}"

    return shorter(of(shown), render, text_fits) or cut(whole)


def short_html_of(shown: Displayed) -> str:
    """HTML that fits a screen; where its own forms do not, the short text."""
    if _has_fields_only(shown):
        return specified_html(_fields(shown, _in_a_line))
    whole = shown.to_html()
    if html_fits(whole):
        return whole
    of = _specification_of(shown)
    short = None if of is None else shorter(of(shown), specified_html, html_fits)
    return short or preformatted(short_text_of(shown))


def _of_kind(shown: object, known: Mapping[type, _Found]) -> _Found | None:
    """What is known of the first of its classes."""
    return next((known[kind] for kind in type(shown).__mro__ if kind in known), None)


def _specification_of(shown: Displayed) -> Callable[[Any], Specification] | None:
    """What is shortened to make it fit; None of what something draws."""
    if isinstance(shown, Shown):
        of = shown.view.specification
        return None if of is None else lambda view: of(view.trace, view.index)
    return _of_kind(shown, _SPECIFICATIONS)


def _has_fields_only(shown: Displayed) -> bool:
    """Whether it is a record that has no view."""
    known = (_SPECIFICATIONS, _REPRESENTATIONS)
    draws_itself = type(shown).to_text is not Displayed.to_text
    return is_dataclass(shown) and not draws_itself and not any(_of_kind(shown, k) for k in known)


def _drawn(shown: object) -> tuple[_Render, _Render]:
    """What draws text and HTML."""
    drawn = _of_kind(shown, _REPRESENTATIONS)
    if drawn is None:
        raise TypeError(f"{type(shown).__name__} has no representation")
    return drawn


def explore(
    shown: Explorable,
    height: str,
    overlay: OverlayLike | None,
    at: Mapping[str, str] | None,
) -> AnyWidget:
    """See `Explorable.explore`."""
    from explorer.runtime.assembly.queries import answer
    from explorer.views import widget

    # A saved trace may be a stranger's: its source is for reading.
    trace = shown.trace()
    numbers = _overlay(overlay, trace)
    _check_place(trace, at or {})
    if not isinstance(shown, Compilation):
        return widget.explore(trace, height=height, overlay=numbers, at=at)
    branches = Branches(shown)
    return widget.explore(
        trace, height=height, ask=answer, overlay=numbers, branches=branches, at=at
    )


def _check_place(trace: Trace, at: Mapping[str, str]) -> None:
    """InputError for what the page could not open at."""
    docks = [view.tab for view in register_of_views.VIEWS if view.pane is not None]
    known = {"pass": [record.name for record in trace.passes], "dock": docks}
    for key, value in at.items():
        if key not in ("pass", "operation", "dock", "tab"):
            raise InputError(f"explore knows no {key!r}", hint="pass, operation, dock or tab")
        if key in known and value not in known[key]:
            raise InputError(f"there is no {key} {value!r}", hint=near_name(value, known[key]))


def export_html(shown: Explorable, path: str | Path, overlay: OverlayLike | None) -> Path:
    """See `Explorable.export_html`."""
    from explorer.views.page import export_page

    path = Path(path)
    trace = shown.trace()
    write_file(path, export_page(trace, overlay=_overlay(overlay, trace)))
    return path


def _overlay(given: OverlayLike | None, trace: Trace) -> Overlay | None:
    return None if given is None else read_overlay(given, trace)


def view(
    explored: Explorable, name: str, pass_name: str | None, overlay: OverlayLike | None
) -> Shown:
    """See `Explorable.view`."""
    views = {view.name: view for view in register_of_views.shown_views(register_of_views.VIEWS)}
    if name not in views:
        raise InputError(f"there is no view {name!r}", hint=near_name(name, list(views)))
    trace = explored.trace()
    names = [record.name for record in trace.passes]
    if pass_name is not None and pass_name not in names:
        raise InputError(f"there is no pass {pass_name!r}", hint=near_name(pass_name, names))
    part = views[name].missing(trace)
    if part is not None:
        raise InputError(f"this compilation has no {part.noun}", hint=part.advice)
    index = len(names) - 1 if pass_name is None else names.index(pass_name)
    shown = Shown(view=views[name], trace=trace, index=index)
    if overlay is None:
        return shown
    if name != "graph":
        raise InputError(f"the view {name!r} shows no overlay", hint="c.view('graph', overlay=...)")
    from explorer.views.faces import measured_graph

    numbers = read_overlay(overlay, trace)
    faces = measured_graph(numbers.columns[0].title, operations_of(numbers, trace, index))
    return replace(shown, view=replace(shown.view, faces=lambda: faces))


def _pass_trace(result: PassResult | SavedPass) -> Trace:
    """A trace of nothing but one pass: what the views of a single pass take."""
    if isinstance(result, SavedPass):
        before, after = result.before, result.after
    else:
        before, after = (SnapshotRecord(s.text, s.graph) for s in (result.before, result.after))
    nothing = ModelRecord(
        name="", format="", producer="", opset="", nodes=0, parameters=0, inputs=(), outputs=()
    )
    return Trace(
        version=TRACE_VERSION,
        model=nothing,
        target="",
        device="",
        label="",
        passes=(result.record, result.record),
        snapshots=(before, after),
        diffs=(GraphDiff(), result.diff),
        decisions=(),
        memory=None,
        kernels=(),
        program=None,
        accuracy=None,
        profile=None,
    )


def _rungs(ladder: Ladder) -> list[tuple[str, float, float]]:
    return [(rung.step, rung.milliseconds, rung.gflops) for rung in ladder.rungs]


def _passes(listed: Passes[Any]) -> Specification:
    columns = ("pass", "level", "operations", "rewrites", "declined", "milliseconds")
    rows = []
    for record in (result.record for result in listed):
        fired = sum(event.applied for event in record.events)
        numbers = (record.operations_after, fired, len(record.events) - fired)
        rows.append((record.name, record.level, *numbers, round(record.seconds * 1e3, 1)))
    return frame(columns, rows)


def _fields(record: Any, write: Callable[[object], str]) -> Specification:
    """The fields of a record that has no view of its own."""
    rows = tuple((f.name, plain(write(getattr(record, f.name)))) for f in fields(record))
    return Specification(title=type(record).__name__, parts=(Facts(rows=rows),))


def _in_a_line(value: object) -> str:
    """A value in 60 characters; of records their kind, of many their number."""
    if isinstance(value, Displayed):
        return type(value).__name__
    if isinstance(value, Collection) and not isinstance(value, str | bytes):
        kinds = {type(item).__name__ for item in value if is_dataclass(item)}
        if kinds or len(value) > MAX_VALUES:
            return f"{len(value)} × {' or '.join(sorted(kinds)) or 'value'}"
    text = " ".join(reprlib.repr(value).split())
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"


def _kernels(kernels: Kernels) -> Specification:
    columns = ("kernel", "kind", "flops", "bytes_moved", "tasks", "lines")
    rows = []
    for k in kernels.values():
        tasks = sum(phase.tasks for phase in k.phases)
        rows.append((k.name, k.kind, k.flops, k.bytes_moved, tasks, len(k.source.lines)))
    return frame(columns, rows)


def _knobs(knobs: Knobs) -> Specification:
    rows = [(knob.address, knob.value, ", ".join(map(str, knob.choices))) for knob in knobs]
    return frame(("address", "value", "choices"), rows)


_SPECIFICATIONS: dict[type, Callable[[Any], Specification]] = {
    Compilation: lambda c: passes(c.trace(with_code=False)),
    SavedCompilation: lambda c: passes(c.trace()),
    Inspection: lambda i: operators(i.trace()),
    Comparison: lambda c: comparison(*c.branches),
    Accuracy: lambda measured: compared(measured.report),
    AccuracyReport: compared,
    MemoryPlan: planned,
    ProfileRecord: profile,
    CostEstimate: cost,
    KernelSearch: kernel_search,
    SearchResult: search,
    ProgramLookup: lambda found: programs([found]),
    ProgramCache: lambda cache: programs(cache.looked),
    SessionRecord: session,
    Session: lambda live: session(live.record()),
    MixedPrecision: searched,
    ModelComparison: models,
    MachineSweep: sweep,
    Ladder: lambda found: ladder(_rungs(found)),
    Bars: lambda found: bars(found.values, found.unit),
    Table: lambda table: frame(table.columns, table.rows),
    Passes: _passes,
    Kernels: _kernels,
    Knobs: _knobs,
}

_REPRESENTATIONS: dict[type, tuple[_Render, _Render]] = {
    PassResult: (
        lambda r: static.pass_text(_pass_trace(r), 1),
        lambda r: static.pass_html(_pass_trace(r), 1),
    ),
    SavedPass: (
        lambda r: static.pass_text(_pass_trace(r), 1),
        lambda r: static.pass_html(_pass_trace(r), 1),
    ),
    KernelRecord: (static.kernel_text, static.kernel_html),
    SourceText: (static.source_text, static.source_html),
    Graph: (static.graph_text, static.graph_html),
    GraphDiff: (
        static.diff_text,
        lambda diff: static.diff_html(diff, getattr(diff, GRAPHS, None)),
    ),
    Snapshot: (
        lambda s: static.source_text(s.text),
        lambda s: static.source_html(s.text),
    ),
}
