"""The explorer's ES module: its sources under `js/` joined into one file without imports.

    js/dom.js, js/numbers.js, ... js/explorer.js  +  explorer.css  +  theme.py's colours
        ->  const STYLE = "..."; const LOOK = {...}; ... export default {render};

One module runs unchanged in a notebook (anywidget), in the app (Panel's JSComponent) and in an
offline page; none of the three fetches anything.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from explorer.views.theme import (
    DIFFERENCES,
    FAMILIES,
    SCHEDULES,
    TIERS,
    UNKNOWN_FAMILY,
    UNSUPPORTED,
    VERDICTS,
    Look,
    cividis,
    stylesheet,
)

FOLDER = Path(__file__).parent
SOURCES = (
    "dom",
    "numbers",
    "host",
    "state",
    "shared_link",
    "steady",
    "hover",
    "blocks",
    "data",
    "code",
    "addresses",
    "rule",
    "errors",
    "launches",
    "passes",
    "scene",
    "graph_nodes",
    "minimap",
    "graph",
    "details",
    "tensors",
    "schedule_editor",
    "schedule_search",
    "levels",
    "links",
    "inspector",
    "fork",
    "plot",
    "placing",
    "memory",
    "accuracy",
    "timeline",
    "roofline",
    "kernels",
    "operators",
    "lookups",
    "sides",
    "difference",
    "compare",
    "dock",
    "search",
    "topbar",
    "documents",
    "session",
    "keys",
    "explorer",
)
"""Files of `js/` in reading order; constants stand before what uses them."""
STYLES = ("explorer.css", "measures.css", "model.css")
SCALE_STEPS = 64


@cache
def explorer_module() -> str:
    """The text of the module."""
    sources = [(FOLDER / "js" / f"{name}.js").read_text(encoding="utf-8") for name in SOURCES]
    head = f"const STYLE = {json.dumps(_style())};\nconst LOOK = {json.dumps(_looks())};\n"
    return head + "\n".join(sources) + "\nexport default {render};\n"


def _style() -> str:
    """The variables of both themes, three rules per look, and the sheets of `STYLES`."""
    hues = [
        f".explorer .{prefix}-{look.name or 'other'} {{ --fill: var(--explorer-{look.name}-fill);"
        f" --edge: var(--explorer-{look.name}-edge); --ink: var(--explorer-{look.name}-ink); }}"
        for prefix, looks in (
            ("family", FAMILIES),
            ("mark", (*DIFFERENCES, *SCHEDULES, UNSUPPORTED)),
            ("ink", (*DIFFERENCES, *TIERS, UNSUPPORTED)),
        )
        for look in looks
    ]
    layouts = [(FOLDER / name).read_text(encoding="utf-8") for name in STYLES]
    return "\n".join((stylesheet(".explorer"), *hues, *layouts))


def _looks() -> dict[str, object]:
    return {
        "families": _table((*FAMILIES, UNKNOWN_FAMILY)),
        "verdicts": _table(VERDICTS),
        "differences": _table(DIFFERENCES),
        "tiers": _table(TIERS),
        "unsupported": _table([UNSUPPORTED])[0],
        "scale": [cividis(step / (SCALE_STEPS - 1)) for step in range(SCALE_STEPS)],
    }


def _table(looks: Sequence[Look]) -> list[dict[str, str]]:
    return [{"name": look.name, "title": look.title, "glyph": look.glyph} for look in looks]
