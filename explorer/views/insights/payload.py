"""What stands out in a trace, as data for the explorer: one row per insight, the largest first."""

from __future__ import annotations

from explorer.results import Trace
from explorer.views.insights.finding import FINDERS, found, missing
from explorer.views.payload.text import Json


def insights_payload(trace: Trace) -> Json:
    return {
        "rows": [
            {
                "name": insight.name,
                "text": insight.text,
                "effect": insight.effect,
                "share": round(insight.share, 4),
                "dock": insight.place.dock,
                "tab": insight.place.tab,
                "pass": insight.place.pass_name,
                "selection": insight.place.selection,
                "event": insight.place.event,
            }
            for insight in found(trace)
        ],
        "unknown": [
            [finder.title, lacking[0]] for finder in FINDERS if (lacking := missing(finder, trace))
        ],
    }
