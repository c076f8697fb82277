"""Interleaved timing of programs: in every round each of them ran, so that a change of the
machine's clock or load affects all of them.

InterleavedTiming(sides=(TimedSide("first", 0.80, ...), TimedSide("without fuse-bias", 0.84, ...)))
    record.sides[1].latency.is_different        more than chance between the two
"""

from __future__ import annotations

from dataclasses import dataclass

from explorer.results.displayed import Displayed


@dataclass(frozen=True, kw_only=True)
class SideTimes:
    """The time of a program or kernel, and how it compares with that of the first side."""

    median_ns: float
    low_ns: float
    """Four of five rounds, each of which gives its median, lie between this and `high_ns`."""
    high_ns: float
    ratio: float = 1.0
    """Median over the rounds of this time / the first side's in the same round."""
    low_ratio: float = 1.0
    high_ratio: float = 1.0
    """The ratios of four of five rounds lie between these two."""
    is_same_code: bool = False
    """Whether what ran is what the first side ran: any difference is chance."""

    @property
    def is_different(self) -> bool:
        """Whether nearly all rounds agree on which of both takes longer: of eight rounds of the
        same program, one time in fourteen they would."""
        return not (self.is_same_code or self.low_ratio <= 1.0 <= self.high_ratio)


@dataclass(frozen=True, kw_only=True)
class TimedSide:
    label: str
    latency: SideTimes
    """Of one inference without event timing."""
    kernels: tuple[tuple[str, SideTimes], ...]
    """(name, all its launches of one inference); ratios where the first side has the kernel."""


@dataclass(frozen=True, kw_only=True, repr=False)
class InterleavedTiming(Displayed):
    """The first side is the base of the others."""

    device: str
    threads: int
    rounds: int
    sides: tuple[TimedSide, ...]
