"""All views. The command `explorer show`, `c.view(name)`, pages and the widget read this list.

A view stands in here once; `docs/adding-a-view.md` adds one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from explorer.views import faces
from explorer.views.catalog import (
    accuracy,
    constraints,
    insights,
    kernels,
    landscape,
    layers,
    memory,
    models,
    operators,
    packages,
    passes,
    placement,
    ports,
    program,
    quantization,
    report,
    roofline,
    scratchpads,
    sensitivity,
    sweep,
    timeline,
    weights,
)
from explorer.views.fixed_numbers import PASSES
from explorer.views.needs import part_named
from explorer.views.view import JAVASCRIPT, Pane, View

if TYPE_CHECKING:
    from explorer.results import Trace
    from explorer.views.payload.text import Json


def _chrome_trace_payload(trace: Trace) -> Json:
    from explorer.views.static.chrome_trace import chrome_trace

    return chrome_trace(trace)


VIEWS: tuple[View, ...] = (
    View(
        name="ir",
        title="the program after a pass, as text",
        is_of_pass=True,
        faces=faces.ir,
    ),
    View(
        name="diff",
        title="what a pass changed, and why",
        is_of_pass=True,
        faces=faces.diff,
    ),
    View(
        name="graph",
        title="the program after a pass, as a drawing",
        is_of_pass=True,
        faces=faces.graph,
    ),
    passes.VIEW,
    operators.VIEW,
    models.VIEW,
    View(
        name="rewrites",
        title="every rewrite of every pass, with the program before and after it",
        is_of_pass=True,
        faces=faces.rewrites,
        pane=Pane(
            module=JAVASCRIPT / "frame" / "replay.js",
            function="replayView",
            moves=PASSES,
            key="w",
            redraws=("rewrite",),
        ),
    ),
    memory.VIEW,
    accuracy.VIEW,
    quantization.VIEW,
    sensitivity.VIEW,
    timeline.VIEW,
    View(
        name="chrome-trace",
        title="the timeline as a file for ui.perfetto.dev and chrome://tracing",
        needs=("profile",),
        faces=faces.chrome_trace,
        payload=_chrome_trace_payload,
    ),
    roofline.VIEW,
    layers.VIEW,
    scratchpads.VIEW,
    landscape.VIEW,
    sweep.VIEW,
    program.VIEW,
    kernels.VIEW,
    weights.VIEW,
    ports.VIEW,
    packages.VIEW,
    placement.VIEW,
    insights.VIEW,
    View(
        name="compare",
        title="this compilation and another one",
        needs=("compare",),
        uses=("memory", "accuracy", "profile", "program", "steps"),
        pane=Pane(
            module=JAVASCRIPT / "branches" / "compare.js",
            function="compareView",
            key="c",
            is_optional=True,
            is_for_sessions=True,
        ),
    ),
    View(
        name="branches",
        title="branches of this model, and what was done",
        needs=("workspace",),
        pane=Pane(
            module=JAVASCRIPT / "branches" / "history.js",
            function="historyView",
            key="h",
            is_optional=True,
            is_for_sessions=True,
        ),
    ),
    View(
        name="tries",
        title="all branches of this model in one table, and the best of them",
        needs=("workspace",),
        pane=Pane(
            module=JAVASCRIPT / "desk" / "tries.js",
            function="triesView",
            key="B",
            is_optional=True,
            is_for_sessions=True,
        ),
    ),
    report.VIEW,
    View(
        name="change",
        title="decide otherwise, edit the IR, write a rule: the notebook's kernel compiles it",
        needs=("kernel",),
        pane=Pane(
            module=JAVASCRIPT / "branches" / "change.js",
            function="changeView",
            key="x",
            is_optional=True,
        ),
    ),
    constraints.VIEW,
)
"""In the order of the tabs. The first one is what `explorer show` shows by itself."""


@contextmanager
def trying(*views: View) -> Iterator[None]:
    """These views, too, for a while: to try one before it gets its place in `VIEWS`."""
    global VIEWS
    before = VIEWS
    VIEWS = (*before, *views)
    try:
        yield
    finally:
        VIEWS = before


def shown_views(views: Sequence[View]) -> list[View]:
    """Those with faces outside of the page."""
    return [view for view in views if view.has_faces]


def view_named(name: str, views: Sequence[View]) -> View:
    """KeyError where there is none."""
    return {view.name: view for view in views}[name]


def tabs_payload(trace: Trace, views: Sequence[View]) -> list[Json]:
    """The tabs as dock.js and keys.js read them."""
    return [
        {
            "id": view.tab,
            "label": view.tab,
            "view": view.name,
            "missing": _missing(view, trace),
            "title": f"{view.title} ({pane.key})" if pane.key else view.title,
            "key": pane.key,
            "needs": list(view.needs),
            "uses": list(view.uses),
            "redraws": list(pane.redraws),
            "count": None if pane.count is None else pane.count(trace),
            "optional": pane.is_optional,
            "moves": pane.moves,
            "session": pane.is_for_sessions,
        }
        for view in views
        if (pane := view.pane) is not None
    ]


def _missing(view: View, trace: Trace) -> Json:
    """[name, noun, advice] of the first part that the view needs and the trace lacks."""
    for name in view.needs:
        part = part_named(name)
        if not part.is_in(trace):
            return [name, part.noun, part.advice]
    return None


def module_name(pane: Pane) -> str:
    """What imports say: the path in `js/`; a file elsewhere is as if it stood in that folder."""
    if pane.module.is_relative_to(JAVASCRIPT):
        return pane.module.relative_to(JAVASCRIPT).as_posix()
    return pane.module.name


def panes_module(views: Sequence[View]) -> str:
    """The module `panes.js`: what makes the pane of each tab (`js/panes.d.ts` has its type)."""
    panes = [(view.tab, view.pane) for view in views if view.pane is not None]
    imports = [
        f'import {{{pane.function} as pane{i}}} from "./{module_name(pane)}";\n'
        for i, (_, pane) in enumerate(panes)
    ]
    names = ", ".join(f'"{tab}": pane{i}' for i, (tab, _) in enumerate(panes))
    return f"{''.join(imports)}export const PANES = {{{names}}};\n"
