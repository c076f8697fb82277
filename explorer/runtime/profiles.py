"""From the raw times of several runs to one profile: medians per launch.

starts = [[0, 1000], [0, 1400], [0, 1200]]
ends = [[900, 3000], [1300, 3500], [1000, 3300]]
-> launch 0 takes 1000 ns (of 900, 1300, 1000), launch 1 takes 2100 ns (of 2000, 2100, 2100)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from explorer.results.program import Program
from explorer.results.runs.events import CachePeak, ProfileRecord, TimedEvent


@dataclass(frozen=True)
class Peaks:
    """What a device can do at best, as measured: the lines of a roofline."""

    device: str
    threads: int
    gflops: float
    """Float32 multiply-adds, two operations each."""
    gbytes_per_second: float
    """Bytes read and written by `a = b + s * c` on arrays far larger than the caches."""
    caches: tuple[CachePeak, ...] = ()
    """The same on arrays that fill half of a level, the nearest first; of processors only."""

    def on(self, profile: ProfileRecord) -> ProfileRecord:
        """The profile, with these peaks to compare with."""
        return replace(
            profile,
            peak_gflops=self.gflops,
            peak_gbytes_per_second=self.gbytes_per_second,
            caches=self.caches,
        )


def median_events(
    program: Program, nanoseconds: Sequence[Sequence[int]], lane: str
) -> tuple[TimedEvent, ...]:
    """One event per launch from the tables of all repeats.

    `nanoseconds[r]` holds start and end of launch 0, start and end of launch 1 ... of repeat r.
    """
    kernels = {kernel.name: kernel for kernel in program.kernels}
    events = []
    intervals = median_intervals(nanoseconds, len(program.launches))
    for launch, (start_ns, end_ns) in zip(program.launches, intervals, strict=True):
        kernel = kernels.get(launch.kernel)
        events.append(
            TimedEvent(
                name=launch.sources[0] if launch.sources else launch.operation,
                operation=launch.operation,
                kernel=launch.kernel,
                lane=lane,
                start_ns=start_ns,
                end_ns=end_ns,
                flops=kernel.flops if kernel else 0,
                bytes_moved=kernel.bytes_moved if kernel else 0,
            )
        )
    return tuple(events)


def median_intervals(nanoseconds: Sequence[Sequence[int]], count: int) -> list[tuple[int, int]]:
    """(start, end) of each of `count` intervals that follow one another, over all repeats.

    An interval takes the median of its durations, and starts at the median of its starts, but
    never before the one in front of it has ended.
    """
    times = np.asarray(nanoseconds, dtype=np.int64).reshape(len(nanoseconds), count, 2)
    starts = np.median(times[:, :, 0], axis=0).astype(int).tolist()
    durations = np.median(times[:, :, 1] - times[:, :, 0], axis=0).astype(int).tolist()
    intervals: list[tuple[int, int]] = []
    for start, duration in zip(starts, durations, strict=True):
        start_ns = max(start, intervals[-1][1]) if intervals else start
        intervals.append((start_ns, start_ns + duration))
    return intervals
