"""What a search for schedules tried and found: one record per candidate, kernel and search.

Candidate((("pixels", 14), ("vectors", 2)), predicted_us=36.1, measured_us=41.2, ...)
KernelSearch("conv_1", ..., default=0, chosen=3, candidates=(...))
SearchResult("digits_cnn", ..., kernels=(...))
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from explorer.results.displayed import Displayed

ChoicePair = tuple[str, int | str]
"""A choice of a schedule by name, and its value."""

STATUSES = ("measured", "refused", "failed", "wrong", "hung", "not measured")
"""measured: timed, and its numbers are right; refused: the schedule is not legal; failed: it did
not compile, or ended its process; wrong: its numbers differ; hung: it did not end in time; not
measured: the search ended before its turn."""


@dataclass(frozen=True)
class CostTerm:
    """A part of a predicted time, with the figures that it is made of."""

    name: str
    """arithmetic, loads, stores, issue, latency, conflicts, l2, l3, memory; added are spills,
    waiting and tasks."""
    microseconds: float
    why: str
    is_added: bool = False
    """Of the terms that are not added only the longest counts: they overlap."""


@dataclass(frozen=True, repr=False)
class CostEstimate(Displayed):
    """The predicted time of a kernel under one schedule, explained."""

    kernel: str
    microseconds: float
    terms: tuple[CostTerm, ...]
    threads: int = 1

    @property
    def bound(self) -> str:
        """The overlapping term that takes longest."""
        overlapping = [term for term in self.terms if not term.is_added]
        return max(overlapping, key=lambda term: term.microseconds).name if overlapping else ""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One schedule of a kernel that was tried."""

    choices: tuple[ChoicePair, ...]
    """All that it decides."""
    predicted_us: float
    """Of one launch, by the cost model; NaN where the schedule was refused."""
    measured_us: float = 0.0
    """Median of one launch; 0 where it was not measured."""
    spread_us: float = 0.0
    """Half of the distance between the quartiles of what was measured."""
    status: str = "not measured"
    """One of `STATUSES`."""
    reason: str = ""
    """Why it was not measured, or was not chosen although it was fast."""
    default_us: float = 0.0
    """Median of the default schedule, measured in turns with this one."""
    origin: str = ""
    """default, predicted, mutation of N (the candidate's number), or random."""
    confirmed_us: float = 0.0
    """Median of the second, longer measurement; 0 where there was none."""
    confirmed_default_us: float = 0.0
    """The default's, in turns with that one."""

    @property
    def ratio(self) -> float:
        """Measured / default of the same rounds: below 1 it is faster; 0 where not measured."""
        return self.measured_us / self.default_us if self.default_us else 0.0

    @property
    def confirmed_ratio(self) -> float:
        """The same of the second measurement; 0 where there was none."""
        default = self.confirmed_default_us
        return self.confirmed_us / default if default else 0.0


@dataclass(frozen=True, kw_only=True, repr=False)
class KernelSearch(Displayed):
    """All candidates of one kernel, in the order in which they were proposed."""

    kernel: str
    workload: str
    """Digest of all that the kernel computes, and on which layouts."""
    target: str
    device: str
    """Processor and compiler, or OpenCL device and driver."""
    seed: int
    default: int
    """Number of the candidate that is used without a search; -1 where it could not be measured."""
    chosen: int
    """Number of the candidate that was kept: the default where nothing was clearly faster."""
    candidates: tuple[Candidate, ...]
    seconds: float
    launches: int = 1
    """How often the model runs the kernel."""
    threads: int = 1
    why: str = ""
    """The reason for the choice: `tuned: 41.2 µs against 48.0`, or why the default stays."""

    @property
    def gain(self) -> float:
        """How many times as fast the chosen one is as the default; 1 where that was kept."""
        if self.chosen < 0 or self.chosen == self.default:
            return 1.0
        best = self.candidates[self.chosen]
        ratio = best.confirmed_ratio or best.ratio
        return 1 / ratio if ratio else 1.0

    @property
    def rank_correlation(self) -> float:
        """Spearman's, of predicted and measured times: 1 where the cost model sorts as the clock.

        NaN for fewer than three candidates with both times, or where all of one kind are equal.
        Ratios to the default are compared, which were measured in turns with it.
        """
        pairs = [
            (c.predicted_us, c.ratio)
            for c in self.candidates
            if c.status == "measured" and c.predicted_us > 0 and c.ratio > 0
        ]
        if len(pairs) < 3:
            return math.nan
        first, second = (_ranks([pair[side] for pair in pairs]) for side in (0, 1))
        middle = (len(pairs) + 1) / 2
        together = sum((a - middle) * (b - middle) for a, b in zip(first, second, strict=True))
        spreads = [sum((r - middle) ** 2 for r in ranks) for ranks in (first, second)]
        return together / math.sqrt(spreads[0] * spreads[1]) if all(spreads) else math.nan


def _ranks(values: Sequence[float]) -> list[float]:
    """The place of each from 1 on; equal ones share the mean of their places."""
    return [
        sum(other < value for other in values) + (1 + sum(other == value for other in values)) / 2
        for value in values
    ]


@dataclass(frozen=True, kw_only=True, repr=False)
class SearchResult(Displayed):
    """What a search over the kernels of a model found."""

    model: str
    target: str
    device: str
    threads: int
    seed: int
    kernels: tuple[KernelSearch, ...]
    seconds: float
    kept_in: str = ""
    """Folder of the tuned schedules that later compilations use; empty where none were kept."""

    def __getitem__(self, kernel: str) -> KernelSearch:
        """The search of a kernel by its name; KeyError lists the names."""
        for search in self.kernels:
            if search.kernel == kernel:
                return search
        raise KeyError(f"{kernel}; searched were {', '.join(k.kernel for k in self.kernels)}")

    def to_frame(self) -> Any:  # a pandas.DataFrame or a tables.Table
        """One row per candidate; see `explorer.tuning.frames`."""
        return import_module("explorer.tuning.frames").search_frame(self)

    @property
    def schedule(self) -> dict[str, dict[str, int | str]]:
        """What was chosen, by kernel: `compilation.fork(schedule=...)` takes it."""
        return {
            search.kernel: dict(search.candidates[search.chosen].choices)
            for search in self.kernels
            if search.chosen not in (-1, search.default)
        }
