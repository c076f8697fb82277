"""Numbers of calibration data that lie far beyond all others of their tensor.

    4,095 numbers within 3.2, one of 50,000  ->  Outliers(tensor="x", count=1, rest=8.0, ...)

A range that holds such a number has steps as many times as wide. Whether it is an error of the data
or belongs to the model nobody can tell from the numbers: each method keeps it or cuts it off, and
the table says which, in which example.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from explorer.quantization.histogram import SIDE, Histogram
from explorer.quantization.table import Threshold

FEW = 1e-3
"""Share of a tensor's numbers that outliers are at most; one number may always be one."""
GAP = 8.0
"""How many times as large the least of them is as the largest other number, at least."""
MAX_TENSORS = 5
"""That are named; of the rest the number is told."""


@dataclass(frozen=True)
class Outliers:
    """Of one tensor."""

    tensor: str
    count: int
    of: int
    """Numbers of the tensor in all examples."""
    largest: float
    rest: float
    """What no other magnitude exceeds, within the width of a bin."""
    examples: tuple[int, ...] = ()
    """Numbers of the examples that have them, from 0."""


def outliers_in(tensor: str, h: Histogram) -> Outliers | None:
    """Those above the highest gap that has few numbers above it; None where there is none."""
    counts = h.counts[SIDE:] + h.counts[SIDE - 1 :: -1]
    places = np.flatnonzero(counts)[::-1]
    above = 0
    for place, below in pairwise(places):
        above += int(counts[place])
        if above > max(FEW * h.count, 1):
            return None
        if place >= GAP * (below + 1):
            rest = float((below + 1) * h.width)
            return Outliers(tensor, above, h.count, h.largest, rest)
    return None


def located(
    found: Mapping[str, Outliers], examples: int, values: Callable[[int], Mapping[str, np.ndarray]]
) -> tuple[Outliers, ...]:
    """With the examples that they are in; `values`: of an example, by tensor."""
    places: dict[str, list[int]] = {name: [] for name in found}
    left = {name: one.count for name, one in found.items()}
    for number in range(examples):
        if not any(left.values()):
            break
        arrays = values(number)
        for name, one in found.items():
            with np.errstate(invalid="ignore"):
                far = np.abs(arrays[name].astype(np.float64)) > one.rest
            if count := int(np.count_nonzero(far & np.isfinite(arrays[name]))):
                places[name].append(number)
                left[name] -= count
    return tuple(
        replace(one, tensor=name, examples=tuple(places[name])) for name, one in found.items()
    )


def outlier_words(
    found: Sequence[Outliers], thresholds: Mapping[str, Threshold], method: str
) -> Iterator[str]:
    """A sentence for each tensor: its numbers, the example, and what the method does with them."""
    for one in found[:MAX_TENSORS]:
        threshold = thresholds[one.tensor].threshold
        numbers = "1 number is" if one.count == 1 else f"{one.count:,} numbers are up to"
        example = f"example {one.examples[0]}, counted from 0" if one.examples else "no example"
        more = f" and {len(one.examples) - 1} more" if len(one.examples) > 1 else ""
        wider = threshold / one.rest
        does = (
            f"{method} keeps it, in steps {wider:,.0f} times as wide as without it; leave out what "
            "is an error"
            if wider > GAP / 2
            else f"{method} cuts the range off at {threshold:g}"
        )
        yield (
            f"{one.tensor}: {numbers} {one.largest:g} of {one.of:,}, all others are at most "
            f"{one.rest:g} ({example}{more}): {does}"
        )
    if len(found) > MAX_TENSORS:
        yield f"{len(found) - MAX_TENSORS} tensors more have such outliers"
