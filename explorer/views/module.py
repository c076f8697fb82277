"""The explorer's ES module: its sources under `js/` joined into one file without imports.

    js/explorer.js, what it imports  +  css/, theme.py's colours as theme.js
                                     +  the panes of register.py as panes.js
        ->  const $theme = ...; const $dom = ...; ... export default {render};

One module runs unchanged in a notebook (anywidget), in the app (Panel's JSComponent) and in an
offline page; none of the three fetches anything.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path

from explorer.views import register
from explorer.views.bundle import bundle
from explorer.views.theme import (
    DIFFERENCES,
    FAMILIES,
    SCHEDULES,
    STALLS,
    TIERS,
    UNKNOWN_FAMILY,
    UNSUPPORTED,
    VERDICTS,
    Look,
    cividis,
    stylesheet,
)
from explorer.views.view import View

FOLDER = Path(__file__).parent
STYLES = (
    "explorer.css",
    "topbar.css",
    "specification.css",
    "measures.css",
    "model.css",
    "timeline.css",
    "stalls.css",
    "layers.css",
    "accuracy.css",
    "quantization.css",
    "placement.css",
    "compare.css",
    "workspace.css",
    "history.css",
    "graph.css",
    "changes.css",
    "overlay.css",
    "replay.css",
    "open_dialog.css",
    "file_pairs.css",
    "desk.css",
    "python.css",
    "ir_editor.css",
    "narrow.css",
)
SCALE_STEPS = 64


def explorer_module(views: tuple[View, ...] | None = None) -> str:
    """The text of the module, with a pane for every view (all registered ones by default)."""
    return _joined(register.VIEWS if views is None else views)


@cache
def _joined(views: tuple[View, ...]) -> str:
    return bundle("explorer.js", partial(module_source, views=views))


def module_source(name: str, views: tuple[View, ...]) -> str:
    """A module's text: a file of `js/`, that of a view's pane, or what is made here.

    `js/theme.d.ts` and `js/panes.d.ts` say what made modules hold.
    """
    if name == "panes.js":
        return register.panes_module(views)
    panes = {
        register.module_name(view.pane): view.pane.module for view in views if view.pane is not None
    }
    if name in panes:
        return panes[name].read_text(encoding="utf-8")
    if name == "theme.js":
        style, look = json.dumps(_style()), json.dumps(_looks())
        return f"export const STYLE = {style};\nexport const LOOK = {look};\n"
    return (FOLDER / "js" / name).read_text(encoding="utf-8")


def _style() -> str:
    """The variables of both themes, three rules per look, and the sheets of `STYLES`."""
    hues = [
        f".explorer .{prefix}-{look.name or 'other'} {{ --fill: var(--explorer-{look.name}-fill);"
        f" --edge: var(--explorer-{look.name}-edge); --ink: var(--explorer-{look.name}-ink); }}"
        for prefix, looks in (
            ("family", FAMILIES),
            ("mark", (*DIFFERENCES, *SCHEDULES, *STALLS, UNSUPPORTED)),
            ("ink", (*FAMILIES, *VERDICTS, *DIFFERENCES, *TIERS, UNSUPPORTED)),
        )
        for look in looks
    ]
    layouts = [(FOLDER / "css" / name).read_text(encoding="utf-8") for name in STYLES]
    return "\n".join((stylesheet(".explorer"), *hues, *layouts))


def _looks() -> dict[str, object]:
    return {
        "families": _table((*FAMILIES, UNKNOWN_FAMILY)),
        "verdicts": _table(VERDICTS),
        "differences": _table(DIFFERENCES),
        "tiers": _table(TIERS),
        "stalls": _table(STALLS),
        "unsupported": _table([UNSUPPORTED])[0],
        "scale": [cividis(step / (SCALE_STEPS - 1)) for step in range(SCALE_STEPS)],
    }


def _table(looks: Sequence[Look]) -> list[dict[str, str]]:
    return [{"name": look.name, "title": look.title, "glyph": look.glyph} for look in looks]
