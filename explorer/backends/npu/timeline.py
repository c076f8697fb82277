"""Events of a simulated run: what every queue did in which cycle, and what it waited for."""

from __future__ import annotations

from bisect import bisect_right

from explorer.backends.npu.network import Network
from explorer.results.runs.events import TimedEvent
from explorer.runtime.npu import Simulation

MOST_EVENTS = 10_000
"""More are folded: what a queue does for one layer without a longer wait between is one event."""


def events_of(network: Network, simulation: Simulation, clock_hz: float) -> tuple[TimedEvent, ...]:
    """One event per instruction, or per layer and queue where there are too many."""
    firsts = [section.first for section in network.sections]
    found: list[TimedEvent] = []
    each = 1e9 / clock_hz
    is_folded = len(simulation.events) > MOST_EVENTS
    open_events: dict[tuple[str, int], list] = {}
    for event in simulation.events:
        number = bisect_right(firsts, event.number) - 1
        section = network.sections[number]
        waits = dict(event.waits)
        cause = max(waits, key=lambda name: waits[name], default="")
        kind = network.instructions[event.number].kind
        if is_folded:
            key = event.queue, number
            if key in open_events:
                held = open_events[key]
                held[1] = event.end_cycle
                for name, waited in waits.items():
                    held[2][name] = held[2].get(name, 0) + waited
                held[3] += event.end_cycle - event.start_cycle
            else:
                open_events[key] = [
                    event.start_cycle, event.end_cycle, waits, event.end_cycle - event.start_cycle,
                ]  # fmt: skip
            continue
        found.append(
            TimedEvent(
                name=f"{section.operation}: {kind}",
                operation=section.operation,
                kernel=section.operation,
                lane=event.queue,
                start_ns=round(event.start_cycle * each),
                end_ns=round(event.end_cycle * each),
                cause=cause,
                waited_cycles=sum(waits.values()),
                cycles=event.end_cycle - event.start_cycle,
            )
        )
    for (queue, number), (start, end, waits, cycles) in open_events.items():
        section = network.sections[number]
        found.append(
            TimedEvent(
                name=section.operation,
                operation=section.operation,
                kernel=section.operation,
                lane=queue,
                start_ns=round(start * each),
                end_ns=round(end * each),
                flops=2 * section.macs if queue == "compute" else 0,
                cause=max(waits, key=lambda name: waits[name], default=""),
                waited_cycles=sum(waits.values()),
                cycles=cycles,
            )
        )
    return tuple(sorted(found, key=lambda event: event.start_ns))
