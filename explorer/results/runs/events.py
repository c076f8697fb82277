"""Timed events of a run on a device."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from explorer.results.data import DataRecord
from explorer.results.displayed import Displayed
from explorer.results.runs.counted import CountedRun


@dataclass(frozen=True)
class TimedEvent:
    """One interval on one lane (a queue, a thread, an engine), in nanoseconds from the start."""

    name: str
    operation: str
    """Identity of the launched operation; empty for transfers and overhead."""
    kernel: str
    lane: str
    start_ns: int
    end_ns: int
    flops: int = 0
    bytes_moved: int = 0
    cycles: int = 0
    """That the engine was busy, of a machine whose cycles are counted; 0 elsewhere. Of several
    instructions in one event, less than from its first cycle to its last."""
    start_cycle: int = 0
    end_cycle: int = 0
    waited_cycles: int = 0
    """How long it waited before it began."""
    cause: str = ""
    """What it waited for, for longest: fetch, token, room, channel or bank."""


def launches_of(events: Sequence[TimedEvent]) -> tuple[TimedEvent, ...]:
    """As `ProfileRecord.launches`."""
    lanes: dict[str, set[str]] = defaultdict(set)
    for event in events:
        lanes[event.operation].add(event.lane)
    found: dict[tuple[str, ...], TimedEvent] = {}
    for number, event in enumerate(events):
        has_queues = bool(event.operation) and len(lanes[event.operation]) > 1
        key = (event.operation,) if has_queues else (event.operation, str(number))
        found[key] = _joined(found[key], event) if key in found else event
    return tuple(found.values())


def _joined(first: TimedEvent, second: TimedEvent) -> TimedEvent:
    begin = min(first.start_cycle, second.start_cycle)
    end = max(first.end_cycle, second.end_cycle)
    return replace(
        first,
        name=first.operation,
        lane="",
        start_ns=min(first.start_ns, second.start_ns),
        end_ns=max(first.end_ns, second.end_ns),
        flops=first.flops + second.flops,
        bytes_moved=first.bytes_moved + second.bytes_moved,
        start_cycle=begin,
        end_cycle=end,
        cycles=end - begin,
        waited_cycles=0,
        cause="",
    )


@dataclass(frozen=True)
class ThreadShare:
    """What one of several threads did of a launch, in nanoseconds on the clock of the events."""

    thread: int
    """0: the caller's."""
    operation: str
    kernel: str
    start_ns: int
    end_ns: int
    tasks: int
    """That it took; 1 for a launch that cannot be shared."""


@dataclass(frozen=True)
class CachePeak:
    """One level of a processor's caches, as measured."""

    name: str
    """`l1`, `l2` .."""
    size_bytes: int
    """Of all the caches of this level that the threads have, together."""
    gbytes_per_second: float
    """What all threads read and write together while their data lies in this level."""


@dataclass(frozen=True, kw_only=True, repr=False)
class ProfileRecord(Displayed):
    device: str
    threads: int
    repeats: int
    """Every event's time is the median over so many runs."""
    milliseconds: float
    """Median latency of one inference without event timing."""
    events: tuple[TimedEvent, ...]
    peak_gflops: float = 0.0
    """Measured FMA peak of the device on as many threads; 0 where not measured."""
    peak_gbytes_per_second: float = 0.0
    """Measured bandwidth of the memory; 0 where not measured."""
    caches: tuple[CachePeak, ...] = ()
    """The nearest first; empty where not measured, as on GPUs."""
    shares: tuple[ThreadShare, ...] = ()
    """Of every launch which thread did what, in one run: that of the median length, its times
    scaled to those of the events. Empty on one thread, and where the driver tells nothing."""
    counted: CountedRun | None = None
    """Of a machine whose cycles are counted; None elsewhere, and in older traces."""
    data: DataRecord | None = None
    """What ran; None in older traces."""

    @property
    def launches(self) -> tuple[TimedEvent, ...]:
        """The events, one for each launch: those of a layer on several queues, which work at the
        same time, are one event from the first to the last."""
        return launches_of(self.events)

    @property
    def launched_milliseconds(self) -> float:
        """The times of all launches together, which differs from what the whole takes."""
        return sum(e.end_ns - e.start_ns for e in self.launches if e.kernel) / 1e6

    def bandwidth_for(self, size_bytes: int) -> float:
        """GB/s of the nearest level that holds so much data, else of the memory."""
        for level in self.caches:
            if size_bytes <= level.size_bytes:
                return level.gbytes_per_second
        return self.peak_gbytes_per_second
