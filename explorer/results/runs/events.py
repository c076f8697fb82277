"""Timed events of a run on a device."""

from __future__ import annotations

from dataclasses import dataclass

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
    def launched_milliseconds(self) -> float:
        """The times of all launches, each timed by itself, together: more than the whole takes."""
        return sum(e.end_ns - e.start_ns for e in self.events if e.kernel) / 1e6

    def bandwidth_for(self, size_bytes: int) -> float:
        """GB/s of the nearest level that holds so much data, else of the memory."""
        for level in self.caches:
            if size_bytes <= level.size_bytes:
                return level.gbytes_per_second
        return self.peak_gbytes_per_second
