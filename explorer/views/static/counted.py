"""Where the cycles of one inference go, on a machine whose cycles are counted.

15,606 cycles on simulator of vta-16
  queue    busy            waited
  load     5,012   32 %    9,876, most of all for token
  layer    from      to   cycles
  conv10      0   1,823    1,823  ████
"""

from __future__ import annotations

from collections import Counter

from explorer.results.runs.events import ProfileRecord, TimedEvent
from explorer.views.numbers import format_count, format_percent
from explorer.views.parts import plain as text_form
from explorer.views.parts.markup import plain

SHOWN = 40
"""Most layers that get a line; of more, the longest are shown."""


def is_counted(profile: ProfileRecord) -> bool:
    """Whether its events have cycles."""
    return any(event.cycles for event in profile.events)


def counted_text(profile: ProfileRecord) -> str:
    """Queues with what they waited for, then layers in the order in which they run."""
    events = [event for event in profile.events if event.cycles]
    total = max(event.end_cycle for event in events)
    title = f"{format_count(total, 'cycle')} on {plain(profile.device)}"
    return "\n".join([title, *_queues(events, total), *_layers(events)])


def _queues(events: list[TimedEvent], total: int) -> list[str]:
    busy: Counter[str] = Counter()
    waits: dict[str, Counter[str]] = {}
    for event in events:
        busy[event.lane] += event.cycles
        waits.setdefault(event.lane, Counter())[event.cause] += event.waited_cycles
    rows = []
    for lane, cycles in busy.items():
        waited = sum(waits[lane].values())
        (cause, _), *_ = waits[lane].most_common(1)
        words = f"{waited:,}, most of all for {cause}" if waited else "0"
        rows.append((lane, f"{cycles:,}", format_percent(cycles / total), words))
    return text_form.columns(rows, ("queue", "busy", "", "waited"), "lrrl")


def _layers(events: list[TimedEvent]) -> list[str]:
    spans: dict[str, tuple[int, int]] = {}
    for event in events:
        first, last = spans.get(event.operation, (event.start_cycle, event.end_cycle))
        spans[event.operation] = min(first, event.start_cycle), max(last, event.end_cycle)
    longest = max(end - start for start, end in spans.values()) or 1
    chosen = sorted(spans, key=lambda name: spans[name][0] - spans[name][1])[:SHOWN]
    rows = [
        (name, f"{start:,}", f"{end:,}", f"{end - start:,}", text_form.bar((end - start) / longest))
        for name, (start, end) in spans.items()
        if name in chosen
    ]
    lines = text_form.columns(rows, ("layer", "from", "to", "cycles", ""), "lrrrl")
    rest = len(spans) - len(rows)
    return [*lines, f"  and {format_count(rest, 'more layer')}"] if rest else lines
