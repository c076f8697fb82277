"""The table of passes of a compilation, and the line above it that says how it ended.

    tiny_resnet → cpu (Invented CPU)
      ✓ equal to the source (worst layer 9.0e-6 of 1.0e-4 allowed)   peak 32 KiB   122 µs
         pass             ops  change  rewrites     time
      ✓  import            21     +21         0  12.1 ms  ██▎
      ·  unchanged: infer-shapes                  900 µs
      ✓  fold-batch-norm   17      −3         3   4.2 ms  ▊

Runs of passes that changed nothing fold into one row.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from explorer.results.accuracy import PassAccuracy, TensorError
from explorer.results.passes import PassRecord
from explorer.results.trace import Trace
from explorer.views.fixed_numbers import PASSES
from explorer.views.numbers import format_bytes, format_change, format_milliseconds, format_seconds
from explorer.views.specification import Cell, Column, Row, Specification, TableSpec, Text
from explorer.views.theme import NOT_RUN, Look, judge, judged_error
from explorer.views.verdicts import judged_words, worst_judged
from explorer.views.view import View

MAX_UNCHANGED = 6
"""Passes that a row of those which changed nothing names."""
COLUMNS = (
    Column(key="verdict", title="", format="name"),
    Column(key="pass", title="pass"),
    Column(key="operations", title="ops", format="count", moves=PASSES),
    Column(key="change", title="change", format="count", moves=PASSES),
    Column(key="rewrites", title="rewrites", format="count", moves=PASSES),
    Column(key="seconds", title="time", format="seconds", moves="compile_seconds"),
)
NOTHING = Cell(value=None, text=" ")
"""Where a number would say nothing."""


def passes(trace: Trace, index: int = -1) -> Specification:
    """How it ended, and one row per pass: verdict, name, operations, change, rewrites, time."""
    runs = list(_runs(trace))
    longest = max((sum(r.seconds for r in run) for run, _ in runs), default=0.0) or 1.0
    table = TableSpec(
        title="passes",
        columns=COLUMNS,
        rows=tuple(_row(run, verdict, longest) for run, verdict in runs),
    )
    verdict, outcome = compilation_outcome(trace)
    total = sum(record.seconds for record in trace.passes)
    device = f" ({trace.device})" if trace.device else ""
    label = f", {trace.label}" if trace.label else ""
    return Specification(
        title=f"{trace.model.name} → {trace.target}{device}{label}",
        parts=(
            Text(text=outcome, look=verdict, is_quiet=False),
            table,
            Text(text=f"compiled in {format_seconds(total)}"),
        ),
    )


def compilation_outcome(trace: Trace) -> tuple[Look, str]:
    """How a compilation ended: `equal to the source (worst layer 9.0e-6 of ...), 122 µs`."""
    worst = worst_error(trace)
    tolerance = trace.accuracy.tolerance if trace.accuracy else 0.0
    verdict = judge(None if worst is None else judged_error(worst, tolerance), tolerance)
    if verdict is NOT_RUN or worst is None:
        parts = ["not compared with the source model"]
    else:
        parts = [f"{verdict.title} (worst layer {judged_words(worst, tolerance)})"]
    if trace.memory:
        parts.append(f"peak {format_bytes(trace.memory.peak_bytes)}")
    if trace.profile:
        parts.append(format_milliseconds(trace.profile.milliseconds))
    return verdict, " · ".join(parts)


def worst_error(trace: Trace) -> TensorError | None:
    """The worst tensor after the last pass; None without a comparison."""
    if trace.accuracy is None:
        return None
    last = trace.accuracy.passes[-1].tensors if trace.accuracy.passes else ()
    return worst_judged((*last, *trace.accuracy.outputs), trace.accuracy.tolerance)


def accuracy_by_pass(trace: Trace) -> list[PassAccuracy | None]:
    """What was measured after every pass. The two lists are walked together by name, for a pass
    may run twice and some may not have been compared."""
    measured = list(trace.accuracy.passes) if trace.accuracy else []
    found: list[PassAccuracy | None] = []
    for record in trace.passes:
        position = next((i for i, m in enumerate(measured) if m.name == record.name), None)
        if position is None:
            found.append(None)
            continue
        found.append(measured[position])
        measured = measured[position + 1 :]
    return found


def verdict_of(accuracy: PassAccuracy | None, tolerance: float) -> Look:
    """The verdict on one pass by its worst tensor."""
    if accuracy is None or accuracy.worst is None:
        return NOT_RUN
    errors = [judged_error(tensor, tolerance) for tensor in accuracy.tensors]
    return judge(next((e for e in errors if e != e), max(errors)), tolerance)


def _runs(trace: Trace) -> Iterator[tuple[list[PassRecord], Look]]:
    """Passes that changed something, and runs of those that did not while the verdict stays:
    nothing may hide a wrong result."""
    tolerance = trace.accuracy.tolerance if trace.accuracy else 0.0
    judged = [
        (record, verdict_of(accuracy, tolerance))
        for record, accuracy in zip(trace.passes, accuracy_by_pass(trace), strict=True)
    ]
    for (changed, _), group in groupby(judged, lambda each: (each[0].changed, each[1].name)):
        run = list(group)
        if changed:
            yield from (([record], verdict) for record, verdict in run)
        else:
            yield [record for record, _ in run], run[0][1]


def _row(run: list[PassRecord], verdict: Look, longest: float) -> Row:
    seconds = sum(record.seconds for record in run)
    first = run[0]
    before, after = first.operations_before, first.operations_after
    name = first.name
    if not first.changed:
        more = len(run) - MAX_UNCHANGED
        names = ", ".join(record.name for record in run[:MAX_UNCHANGED])
        name = f"unchanged: {names}" + (f" and {more} more" if more > 0 else "")
    return Row(
        is_quiet=not first.changed,
        cells={
            "verdict": Cell(value="", look=verdict),
            "pass": name,
            "operations": after if first.changed else NOTHING,
            "change": Cell(value=after - before, text=format_change(before, after))
            if first.changed
            else NOTHING,
            "rewrites": sum(event.applied for event in first.events) if first.changed else NOTHING,
            "seconds": Cell(value=seconds, share=seconds / longest),
        },
    )


VIEW = View(
    name="passes",
    title="what every pass did",
    uses=("accuracy",),
    specification=passes,
    json=lambda trace, _: trace.passes,
)
