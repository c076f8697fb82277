"""A search for modes in words: the same in text, HTML and page.

summary(found)          wanted: SQNR 35 dB, 20 examples; all INT8: 28.10 dB, 2 differ; chosen: ...
modes_words(point)      INT16 relu1, fc1; F32 conv7
"""

from __future__ import annotations

import math
from collections import Counter

from explorer.results.runs.sensitivity import (
    MixedPoint,
    MixedPrecision,
    Quality,
    TensorSensitivity,
)
from explorer.views.numbers import format_count

NAMES = 4
"""Tensors that are named of one point; of more only their number is."""


def by_noise(found: MixedPrecision) -> list[TensorSensitivity]:
    """The tensors, the one whose bytes alone cost the outputs most first."""
    return sorted(found.tensors, key=lambda tensor: tensor.alone.sqnr_db)


def summary(found: MixedPrecision) -> str:
    """What was wanted, where it began, and what was chosen."""
    first, chosen = found.points[0], found.points[found.chosen]
    return (
        f"wanted: {found.wanted}, {format_count(found.examples, 'example')}; all INT8: "
        f"{_quality(first.quality)}; chosen: {_quality(chosen.quality)}, cost {chosen.cost:.2f} "
        f"of INT8, {modes_words(chosen)}"
    )


def modes_words(point: MixedPoint) -> str:
    """`INT16 relu1, fc1; F32 conv7`, `INT16 24 tensors`, `nothing but INT8`."""
    if not point.modes:
        return "nothing but INT8"
    words = []
    for mode, count in Counter(point.modes.values()).items():
        names = [name for name, own in point.modes.items() if own == mode]
        listed = ", ".join(names) if len(point.modes) <= NAMES else format_count(count, "tensor")
        words.append(f"{mode} {listed}")
    return "; ".join(words)


def _quality(quality: Quality) -> str:
    words = f"{decibels(quality.sqnr_db)}, {quality.differ} differ"
    return words if quality.accuracy is None else f"{words}, accuracy {quality.accuracy:.2f} %"


def decibels(value: float) -> str:
    return f"{value:.2f} dB" if math.isfinite(value) else "exact"
