"""Histograms and worst elements of tensors, as data for the explorer.

    "details/0"   the first ten tensors: every distinct detail once, and which one a tensor has
                  after which row of the heat map

A detail is written in few characters, for a page holds thousands: the histogram of the values as
its difference from the reference's, which is most often none; that of the errors without the
zeros at its ends; numbers with the nine digits that tell any two float32 apart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from explorer.results import AccuracyReport, PassAccuracy, TensorDetail
from explorer.views.payload.text import Json

TENSORS_PER_PAGE = 10
"""Tensors whose details travel in one message."""
MAX_DETAILS = 3000
"""Details in one page, about 0.5 kB each; of more, those of the tensors with the worst errors."""


@dataclass(frozen=True)
class DetailPages:
    """The details of a report, those of some tensors at a time."""

    report: AccuracyReport
    tensors: tuple[str, ...]
    """In the order of the heat map's columns."""

    def page_count(self) -> int:
        return -(-len(self.tensors) // TENSORS_PER_PAGE) if self.kept else 0

    @property
    def left_out(self) -> int:
        """Details that were made or wanted, and are not here."""
        return self.report.details_left_out + len(self.report.details) - len(self.kept)

    @cached_property
    def kept(self) -> frozenset[int]:
        """Places of the details that are shown."""
        count = len(self.report.details)
        if count <= MAX_DETAILS:
            return frozenset(range(count))
        worst = [-1.0] * count
        for accuracy in (*self.report.passes, *self.report.isolated):
            for error in accuracy.tensors:
                if error.detail is not None:
                    relative = error.max_relative
                    order = math.inf if math.isnan(relative) else relative
                    worst[error.detail] = max(worst[error.detail], order)
        ranked = sorted(range(count), key=lambda place: (-worst[place], place))
        return frozenset(ranked[:MAX_DETAILS])

    def page(self, index: int) -> Json:
        """`accumulated` and `isolated`: per tensor [row, detail or null] wherever it changes."""
        start = index * TENSORS_PER_PAGE
        wanted = self.tensors[start : start + TENSORS_PER_PAGE]
        numbers: dict[int, int] = {}
        runs = {
            mode: self._runs(measured, wanted, numbers)
            for mode, measured in (
                ("accumulated", self.report.passes),
                ("isolated", self.report.isolated),
            )
        }
        return {
            "first": start,
            "details": [detail_payload(self.report.details[place]) for place in numbers],
            **runs,
        }

    def _runs(
        self, measured: Sequence[PassAccuracy], wanted: Sequence[str], numbers: dict[int, int]
    ) -> list[Json]:
        runs: dict[str, list[list[int | None]]] = {name: [] for name in wanted}
        for row, accuracy in enumerate(measured):
            places = {error.tensor: error.detail for error in accuracy.tensors}
            for name, noted in runs.items():
                place = places.get(name)
                number = None
                if place is not None and place in self.kept:
                    number = numbers.setdefault(place, len(numbers))
                if not noted or noted[-1][1] != number:
                    noted.append([row, number])
        return list(runs.values())


def detail_payload(detail: TensorDetail) -> Json:
    """[shape, type, low, high, expected counts, [bin, count, ...] where the values' differ,
    first error bin, error counts from there, equal, special values of both, worst elements]."""
    changed: list[int] = []
    for place, (value, expected) in enumerate(
        zip(detail.value_counts, detail.expected_counts, strict=True)
    ):
        if value != expected:
            changed += [place, value]
    filled = [place for place, count in enumerate(detail.error_counts) if count]
    first, end = (filled[0], filled[-1] + 1) if filled else (0, 0)
    special = [*detail.expected_special, *detail.value_special]
    return [
        list(detail.shape),
        detail.element_type,
        shortest(detail.low, detail.element_type),
        shortest(detail.high, detail.element_type),
        list(detail.expected_counts),
        changed,
        first,
        list(detail.error_counts[first:end]),
        detail.equal,
        special if any(special) else [],
        [
            [
                list(worst.index),
                shortest(worst.value, detail.element_type),
                shortest(worst.expected, detail.element_type),
                shortest(worst.difference, "float16"),
            ]
            for worst in detail.worst
        ],
    ]


_DIGITS = {"float16": 5, "float32": 9, "bfloat16": 4}
"""Significant digits that tell any two numbers of a type apart."""


def shortest(value: float, element_type: str) -> float | int | str:
    """A number of a type that JSON can hold, in no more digits than it has."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    digits = _DIGITS.get(element_type, 17)
    short = float(f"{value:.{digits}g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short
