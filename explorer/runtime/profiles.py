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
from explorer.results.runs.events import CachePeak, ProfileRecord, ThreadShare, TimedEvent


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


def median_shares(
    events: Sequence[TimedEvent],
    nanoseconds: Sequence[Sequence[int]],
    shares: Sequence[Sequence[Sequence[int]]],
) -> tuple[ThreadShare, ...]:
    """What each thread did in the run of the median length.

    `shares[r]` holds (thread, first launch, last launch, beginning, end, tasks) of repeat r. Other
    runs are divided otherwise, so that there is no median of shares; a launch's are scaled from
    the time that it took in that run to its event's.
    """
    if not any(shares):
        return ()
    order = sorted(range(len(nanoseconds)), key=lambda repeat: max(nanoseconds[repeat], default=0))
    chosen = order[len(order) // 2]
    times = nanoseconds[chosen]
    found: list[ThreadShare] = []
    free: dict[int, int] = {}
    """By thread: when what it did before was over."""
    for thread, first, last, begin, end, tasks in shares[chosen]:
        for launch in range(first, last + 1):
            own_begin, own_end = times[2 * launch], times[2 * launch + 1]
            if own_end <= own_begin:
                continue
            event = events[launch]
            scale = (event.end_ns - event.start_ns) / (own_end - own_begin)
            start, stop = (
                event.start_ns + round((min(max(at, own_begin), own_end) - own_begin) * scale)
                for at in (begin, end)
            )
            start = max(start, free.get(thread, 0))
            stop = free[thread] = max(start, stop)
            found.append(
                ThreadShare(
                    thread=thread,
                    operation=event.operation,
                    kernel=event.kernel,
                    start_ns=start,
                    end_ns=stop,
                    tasks=tasks,
                )
            )
    return tuple(sorted(found, key=lambda share: (share.thread, share.start_ns)))


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
