"""Latency of several programs, measured in turns.

    timings = run_interleaved([ours, onnxruntime, openvino], rounds=10)
    timings.ratio("ours", "onnxruntime")        below 1: ours is faster

In every round each side runs a few inferences, so that a change of the machine's clock or load
meets all of them. A ratio is the median over the rounds of the ratio within a round.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from explorer.references.timing import time_calls

MIN_CALLS = 3
"""Of each side in one round."""
BUDGET_SECONDS = 0.02
"""Of each side in one round: short inferences are repeated for as long."""
PAUSE_SECONDS = 0.02
"""Between turns: threads of some runtimes spin for a while after their work is done."""


class Side(Protocol):
    """Something that runs the model."""

    @property
    def name(self) -> str: ...

    def time(self, least: int, budget_seconds: float) -> list[float]:
        """Seconds of each of so many whole calls, and of more until the budget is spent."""
        ...


@dataclass(frozen=True)
class Calls:
    """A side in this process. `call` is one inference, arrays in and arrays out."""

    name: str
    call: Callable[[], object]

    def time(self, least: int, budget_seconds: float) -> list[float]:
        return time_calls(self.call, least, budget_seconds)


@dataclass(frozen=True)
class Timings:
    """Seconds of every inference by side, round by round."""

    rounds: Mapping[str, tuple[tuple[float, ...], ...]]

    def milliseconds(self, side: str) -> float:
        """Median of all inferences."""
        return statistics.median(s for turn in self.rounds[side] for s in turn) * 1e3

    def ratio(self, side: str, peer: str) -> float:
        """Below 1 the side is faster than its peer."""
        return statistics.median(self._ratios(side, peer))

    def noise(self, side: str, peer: str) -> float:
        """The ratio against itself: that of every other round / that of the rest, 1 or more.

        A ratio that is nearer to 1 than this says nothing.
        """
        ratios = self._ratios(side, peer)
        if len(ratios) < 2:
            return 1.0
        halves = [statistics.median(ratios[start::2]) for start in (0, 1)]
        return max(halves) / min(halves)

    def _ratios(self, side: str, peer: str) -> list[float]:
        pairs = zip(self.rounds[side], self.rounds[peer], strict=True)
        return [statistics.median(mine) / statistics.median(theirs) for mine, theirs in pairs]


def run_interleaved(
    sides: Sequence[Side], rounds: int, progress: Callable[[str, int, int], None] | None = None
) -> Timings:
    """Every round begins with another side."""
    seconds: dict[str, list[tuple[float, ...]]] = {side.name: [] for side in sides}
    for number in range(rounds):
        if progress is not None:
            progress("round", number, rounds)
        first = number % len(sides)
        for side in (*sides[first:], *sides[:first]):
            seconds[side.name].append(tuple(side.time(MIN_CALLS, BUDGET_SECONDS)))
            time.sleep(PAUSE_SECONDS)
    return Timings({name: tuple(turns) for name, turns in seconds.items()})
