"""Programs that were timed in turns: in every round each of them ran, so that a change of the
machine's clock or load met all of them.

TurnsRecord(sides=(TurnSide("first", 0.80, ...), TurnSide("without fuse-bias", 0.84, ...)))
    record.sides[1].latency.is_different        more than chance between the two
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class TurnTimes:
    """The time of a program or kernel, and how it compares with that of the first side."""

    median_ns: float
    low_ns: float
    """First quartile over the rounds, each of which gives its median."""
    high_ns: float
    """Third quartile."""
    ratio: float = 1.0
    """Median over the rounds of this time / the first side's in the same round."""
    low_ratio: float = 1.0
    high_ratio: float = 1.0
    """First and third quartile of that."""
    noise: float = 1.0
    """The ratio of every other round / that of the rest, 1 or more."""
    is_same_code: bool = False
    """Whether what ran is what the first side ran: any difference is chance."""

    @property
    def is_different(self) -> bool:
        """Farther from the first side's than the spread of the rounds."""
        if self.is_same_code or self.low_ratio <= 1.0 <= self.high_ratio:
            return False
        return max(self.ratio, 1.0 / self.ratio) > self.noise


@dataclass(frozen=True, kw_only=True)
class TurnSide:
    label: str
    latency: TurnTimes
    """Of one inference without event timing."""
    kernels: tuple[tuple[str, TurnTimes], ...]
    """(name, all its launches of one inference); ratios where the first side has the kernel."""


@dataclass(frozen=True, kw_only=True)
class TurnsRecord:
    """The first side is the base of the others."""

    device: str
    threads: int
    rounds: int
    sides: tuple[TurnSide, ...]
