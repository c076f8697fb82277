"""Timed events of a run on a device."""

from __future__ import annotations

from dataclasses import dataclass


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


@dataclass(frozen=True)
class ProfileRecord:
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
