"""Insights about accuracy: the pass or the layer at which an error jumps."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

from explorer.results import PassAccuracy, TensorError, Trace
from explorer.views.insights.insight import Insight
from explorer.views.numbers import format_error
from explorer.views.specification import Link
from explorer.views.theme import EQUAL_WITHIN, judged_error

JUMP = 10.0
"""Times as large as before."""


def jumps_at_passes(trace: Trace) -> Iterator[Insight]:
    """The pass after which the worst error is ten times what it was, and no rounding any more."""
    report = trace.accuracy
    if report is None:
        return
    for before, after in pairwise(report.passes):
        worst = after.worst
        if worst is None or not _is_jump(_worst(before), worst.max_relative):
            continue
        verdict = judged_error(worst, report.tolerance) <= report.tolerance
        yield Insight(
            name="error-jumps-at-pass",
            text=f"After {after.name} the worst error is {format_error(worst.max_relative)} in "
            f"{worst.tensor}, and {format_error(_worst(before))} before. "
            + ("It is within the tolerance." if verdict else "It is beyond the tolerance."),
            effect=f"error {format_error(worst.max_relative)}",
            share=_weight(worst, report.tolerance),
            place=Link(
                dock="accuracy", tab="tensors", pass_name=after.name, selection=worst.operation
            ),
        )


def jumps_at_layers(trace: Trace) -> Iterator[Insight]:
    """The operation of the last program whose own error, on exact inputs, is far above others'."""
    report = trace.accuracy
    if report is None or not report.isolated:
        return
    last = report.isolated[-1]
    errors = sorted(t.max_relative for t in last.tensors if math.isfinite(t.max_relative))
    worst = last.worst
    if worst is None or len(errors) < 3:
        return
    median = errors[len(errors) // 2]
    if not _is_jump(median, worst.max_relative):
        return
    yield Insight(
        name="error-jumps-at-layer",
        text=f"Given exact inputs, {worst.operation} alone is off by "
        f"{format_error(worst.max_relative)} in {worst.tensor}; half of the operations "
        f"are off by at most {format_error(max(median, EQUAL_WITHIN / JUMP))}.",
        effect=f"error {format_error(worst.max_relative)}",
        share=_weight(worst, report.tolerance),
        place=Link(dock="accuracy", tab="tensors", pass_name=last.name, selection=worst.operation),
        layers=(worst.operation,),
    )


def _worst(accuracy: PassAccuracy) -> float:
    return 0.0 if accuracy.worst is None else accuracy.worst.max_relative


def _is_jump(before: float, after: float) -> bool:
    """Also where an error is not a number: that is worse than any."""
    if math.isnan(after):
        return not math.isnan(before)
    return after > EQUAL_WITHIN and after > JUMP * max(before, EQUAL_WITHIN / JUMP)


def _weight(error: TensorError, tolerance: float) -> float:
    """Beyond the tolerance nothing is more important; within it, as near as it comes."""
    judged = judged_error(error, tolerance)
    if not judged <= tolerance:
        return 1.0
    return 0.3 * judged / tolerance if tolerance else 0.3
