"""Events of a simulated run: what every queue did in which cycle, and what it waited for."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field

from explorer.backends.npu.network import Network
from explorer.results.runs.events import TimedEvent
from explorer.runtime.npu import Simulation

MAX_EVENTS = 10_000
"""Of more instructions, those of one layer in one queue are one event."""


@dataclass
class _Span:
    """Instructions of a layer, one behind the other in a queue."""

    name: str
    operation: str
    lane: str
    start: int
    end: int = 0
    cycles: int = 0
    waits: Counter[str] = field(default_factory=Counter)


def events_of(network: Network, simulation: Simulation, clock_hz: float) -> tuple[TimedEvent, ...]:
    """One event per instruction, or per layer and queue, in the order in which they begin."""
    firsts = [section.first for section in network.sections]
    is_folded = len(simulation.events) > MAX_EVENTS
    spans: dict[tuple[str, int], _Span] = {}
    for event in simulation.events:
        number = bisect_right(firsts, event.number) - 1
        operation = network.sections[number].operation
        kind = network.instructions[event.number].kind
        name = operation if is_folded else f"{operation}: {kind}"
        key = event.queue, number if is_folded else event.number
        span = spans.setdefault(key, _Span(name, operation, event.queue, event.start_cycle))
        span.end = event.end_cycle
        span.cycles += event.end_cycle - event.start_cycle
        span.waits.update(dict(event.waits))
    found = (_timed(span, 1e9 / clock_hz) for span in spans.values())
    return tuple(sorted(found, key=lambda event: (event.start_cycle, event.end_cycle)))


def _timed(span: _Span, nanoseconds: float) -> TimedEvent:
    (cause, _), *_ = span.waits.most_common(1) or [("", 0)]
    return TimedEvent(
        name=span.name,
        operation=span.operation,
        kernel=span.operation,
        lane=span.lane,
        start_ns=round(span.start * nanoseconds),
        end_ns=round(span.end * nanoseconds),
        cycles=span.cycles,
        start_cycle=span.start,
        end_cycle=span.end,
        waited_cycles=span.waits.total(),
        cause=cause,
    )
