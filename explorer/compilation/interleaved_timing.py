"""Interleaved timing of compilations, whole and kernel by kernel.

record = time_interleaved([c, fork], rounds=8)
record.sides[1].latency.ratio             0.86: the fork takes 14 % less
record.sides[1].latency.is_different      False where the rounds differ by as much among themselves

It is the benchmark against other runtimes (rounds.py) with compilations as its sides.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

import numpy as np

from explorer.compilation.measurements.rounds import Timings, run_interleaved
from explorer.errors import InputError
from explorer.results.runs.interleaved import InterleavedTiming, SideTimes, TimedSide
from explorer.runtime.executable import Executable

if TYPE_CHECKING:
    from explorer.compilation.compiled import Compiled

ROUNDS = 8
SPREAD = (10, 50, 90)
"""Percentiles over the rounds: four of five lie between the outer two."""
MIN_ROUNDS = 4
"""Fewer say nothing of their spread."""


class ProfiledSide:
    """An opened program as a side: a turn times whole inferences, and then every launch."""

    def __init__(self, name: str, executable: Executable, inputs: Mapping[str, np.ndarray]) -> None:
        self.name = name
        self.device = ""
        self.threads = 1
        self.kernels: dict[str, list[float]] = defaultdict(list)
        """Nanoseconds of all launches of a kernel, by round."""
        self._executable = executable
        self._inputs = inputs

    def time(self, least: int, budget_seconds: float) -> list[float]:
        """`budget_seconds` is not used up: launches are timed as often as whole inferences."""
        profile = self._executable.profile(self._inputs, least)
        self.device, self.threads = profile.device, profile.threads
        sums: dict[str, float] = defaultdict(float)
        for event in profile.launches:
            if event.kernel:
                sums[event.kernel] += event.end_ns - event.start_ns
        for kernel, nanoseconds in sums.items():
            self.kernels[kernel].append(nanoseconds)
        return [profile.milliseconds / 1e3]


def time_interleaved(
    compilations: Sequence[Compiled],
    labels: Sequence[str] = (),
    rounds: int = ROUNDS,
    threads: int | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> InterleavedTiming:
    """All get the same inputs where they take the same. InputError for less than two of them."""
    if len(compilations) < 2:
        raise InputError("interleaved timing takes two compilations", hint="c.time_against(d)")
    if rounds < MIN_ROUNDS:
        raise InputError(f"rounds: expected {MIN_ROUNDS} or more, got {rounds}")
    names = [f"{number} {c.label}" for number, c in enumerate(compilations)]
    with ExitStack() as stack:
        sides = [
            ProfiledSide(name, stack.enter_context(c.open(threads)), c.judged_inputs())
            for name, c in zip(names, compilations, strict=True)
        ]
        timings = run_interleaved(sides, rounds, progress)
    sources = [{k.name: k.source.lines for k in c.program.kernels} for c in compilations]
    same = [_is_same_program(compilations[0], c) for c in compilations]
    shown = labels or [c.label or "first" for c in compilations]
    return turns_record(shown, sides, timings, sources, same)


def _is_same_program(base: Compiled, other: Compiled) -> bool:
    """The same kernels, launched in the same order on the same places of the memory."""
    left, right = base.program, other.program
    return left.source.lines == right.source.lines and left.launches == right.launches


def turns_record(
    labels: Sequence[str],
    sides: Sequence[ProfiledSide],
    timings: Timings,
    sources: Sequence[Mapping[str, tuple[str, ...]]],
    same: Sequence[bool],
) -> InterleavedTiming:
    """What the rounds say. `sources`: of every side, the kernels' texts by name; `same`: whether
    its program is that of the first."""
    base = sides[0]
    whole = [[1e9 * statistics.median(turn) for turn in timings.rounds[s.name]] for s in sides]
    made = []
    for number, side in enumerate(sides):
        kernels = []
        for name, found in sorted(side.kernels.items()):
            is_same = number > 0 and sources[number].get(name) == sources[0].get(name)
            kernels.append((name, _times(found, base.kernels.get(name), is_same)))
        is_same = number > 0 and same[number]
        latency = _times(whole[number], whole[0], is_same)
        made.append(TimedSide(label=labels[number], latency=latency, kernels=tuple(kernels)))
    return InterleavedTiming(
        device=base.device, threads=base.threads, rounds=len(whole[0]), sides=tuple(made)
    )


def _times(found: Sequence[float], base: Sequence[float] | None, is_same: bool) -> SideTimes:
    low, median, high = np.percentile(found, SPREAD).tolist()
    if base is None or base is found or len(base) != len(found) or not all(base):
        return SideTimes(median_ns=median, low_ns=low, high_ns=high, is_same_code=is_same)
    ratios = [mine / theirs for mine, theirs in zip(found, base, strict=True)]
    low_ratio, ratio, high_ratio = np.percentile(ratios, SPREAD).tolist()
    return SideTimes(
        median_ns=median,
        low_ns=low,
        high_ns=high,
        ratio=ratio,
        low_ratio=low_ratio,
        high_ratio=high_ratio,
        is_same_code=is_same,
    )
