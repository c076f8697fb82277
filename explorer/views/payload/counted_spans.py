"""Tracks of a machine whose cycles are counted: one span per instruction, and what each waited for.

    load     ▇▇load▇▇ ▇▇load▇▇ ░░room░░ ▇load▇
    compute  ░░░token░░░ ▇multiply▇ ░token░ ▇multiply▇

A stall ends where its instruction begins and is as long as that one waited; the cause is the one
that took the longest (`TimedEvent.cause`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from explorer.results import TimedEvent
from explorer.views.numbers import format_count, format_exact

TOKEN = "token"
"""The cause of a wait for another lane."""


@dataclass(frozen=True)
class Clock:
    """How cycles lie on the clock of a group of tracks."""

    cycle_ns: float
    """Nanoseconds in a cycle."""
    start_ns: int
    """Where cycle 0 is."""
    cycles: int
    """Until the last instruction has ended."""


def clock_of(events: Sequence[TimedEvent]) -> Clock | None:
    """The clock of counted events; None where there are none, or where several runs each begin
    at cycle 0, so that one axis cannot show their cycles."""
    counted = [event for event in events if event.end_cycle > event.start_cycle]
    cycles = sum(event.end_cycle - event.start_cycle for event in counted)
    if not cycles:
        return None
    cycle_ns = sum(event.end_ns - event.start_ns for event in counted) / cycles
    starts = [event.start_ns - event.start_cycle * cycle_ns for event in counted]
    last = max(event.end_cycle for event in counted)
    # Times are whole nanoseconds; a run of its own begins later by all of the cycles before it.
    if max(starts) - min(starts) > 2 + last * cycle_ns / 1e3:
        return None
    return Clock(cycle_ns, round(min(starts)), last)


@dataclass(frozen=True)
class Stall:
    """What an instruction waited for, before it began."""

    cause: str
    cycles: int
    start_ns: int
    end_ns: int
    maker: TimedEvent | None = None
    """Of the token that it waited for; None where no other lane's event ends with the wait."""


def stalls_of(
    events: Sequence[TimedEvent], clock: Clock, others: Sequence[TimedEvent] = ()
) -> Iterator[Stall]:
    """Of the events of a lane, in their order: between two of them, never inside of one.

    others: those of other lanes; the one that ends where a wait for a token does has made it.
    """
    now = clock.start_ns
    makers = {event.end_cycle: event for event in others if event.end_cycle}
    for event in events:
        if event.waited_cycles and event.start_ns > now:
            begin = max(now, round(event.start_ns - event.waited_cycles * clock.cycle_ns))
            maker = makers.get(event.start_cycle) if event.cause == TOKEN else None
            yield Stall(event.cause, event.waited_cycles, begin, event.start_ns, maker)
        now = max(now, event.end_ns)


def counted_facts(event: TimedEvent) -> list[tuple[str, str]]:
    """Cycles of an event in words."""
    facts = [
        ("cycles", f"{format_exact(event.start_cycle)} to {format_exact(event.end_cycle)}"),
        ("busy", format_count(event.cycles, "cycle")),
    ]
    if event.waited_cycles:
        waited = format_count(event.waited_cycles, "cycle")
        facts.append(("waited", f"{waited}, most of all for {event.cause}"))
    return facts
