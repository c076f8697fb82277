"""All finders, and what they find in a trace, ranked.

for insight in found(trace):
    print(insight.effect, insight.text)
"""

from __future__ import annotations

from explorer.results import Trace
from explorer.views.insights.in_compiling import copied_twice, not_fused, on_the_host
from explorer.views.insights.in_memory import kept_through_the_peak, padding
from explorer.views.insights.in_numbers import jumps_at_layers, jumps_at_passes
from explorer.views.insights.in_time import below_the_roof, better_schedules, copies
from explorer.views.insights.insight import Finder, Insight
from explorer.views.needs import PARTS

FINDERS: tuple[Finder, ...] = (
    Finder(
        name="error-jumps-at-pass",
        title="a pass at which errors grow tenfold",
        needs=("accuracy",),
        find=jumps_at_passes,
    ),
    Finder(
        name="error-jumps-at-layer",
        title="an operation that is far less exact than others",
        needs=("accuracy",),
        find=jumps_at_layers,
    ),
    Finder(
        name="kept-through-the-peak",
        title="buffers that live through most of the program",
        needs=("memory",),
        find=kept_through_the_peak,
    ),
    Finder(
        name="padding",
        title="bytes that blocks and halos take and no element fills",
        needs=("program",),
        find=padding,
    ),
    Finder(
        name="below-the-roof",
        title="kernels that reach less than half of their roof",
        needs=("profile",),
        find=below_the_roof,
    ),
    Finder(
        name="better-schedule",
        title="kernels for which a search found a faster schedule",
        needs=("steps",),
        find=better_schedules,
    ),
    Finder(
        name="copies",
        title="a large part of the time that only moves data",
        needs=("profile", "program"),
        find=copies,
    ),
    Finder(
        name="copied-twice",
        title="values that are copied into a layout twice",
        needs=(),
        find=copied_twice,
    ),
    Finder(
        name="not-fused",
        title="operations that a fusing pass declined, with its reason",
        needs=("program",),
        find=not_fused,
    ),
    Finder(
        name="on-the-host",
        title="operations that no device runs",
        needs=("program",),
        find=on_the_host,
    ),
)


def found(trace: Trace) -> list[Insight]:
    """What all finders find, what concerns the largest part of the whole first."""
    insights = [
        insight
        for finder in FINDERS
        if not missing(finder, trace)
        for insight in finder.find(trace)
    ]
    return sorted(insights, key=lambda insight: -insight.share)


def missing(finder: Finder, trace: Trace) -> list[str]:
    """What a finder would need and the trace lacks, in words."""
    return [PARTS[name].noun for name in finder.needs if not PARTS[name].is_in(trace)]
