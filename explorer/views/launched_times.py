"""Why the times of launches add up to more or less than the latency."""

from __future__ import annotations

from collections.abc import Iterator

from explorer.results import Trace
from explorer.views.numbers import format_seconds

NOTABLE = 0.05
"""Share of the latency from which on the difference is said."""


def two_times(trace: Trace) -> Iterator[str]:
    """One sentence; nothing where both are about the same."""
    profile = trace.profile
    launched = 0.0 if profile is None else profile.launched_milliseconds
    if profile is None or not launched:
        return
    if abs(launched - profile.milliseconds) <= NOTABLE * profile.milliseconds:
        return
    has_queues = any(not event.lane for event in profile.launches if event.kernel)
    how = (
        "each from its first instruction to its last, and they overlap"
        if has_queues
        else ("each timed by itself")
    )
    yield (
        f"Times are those of launches, {how}: together {format_seconds(launched / 1e3)}. "
        f"One inference as a whole takes {format_seconds(profile.milliseconds / 1e3)}, the "
        "latency in the head."
    )
