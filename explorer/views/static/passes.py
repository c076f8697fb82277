"""The table of passes of a compilation, and the line above it that says how it ended.

    tiny_resnet -> cpu (Invented CPU)
      ✓ equal to the source (worst layer 9.0e-6 of 1.0e-4 allowed)   peak 32 KiB   122 µs
         pass             ops  change  rewrites     time
      ✓  import            21     +21         0  12.1 ms  ██▎
      ·  unchanged: infer-shapes                  900 µs
      ✓  fold-batch-norm   17      −3         3   4.2 ms  ▊

Runs of passes that changed nothing fold into one row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from explorer.results.accuracy import PassAccuracy, TensorError
from explorer.results.passes import PassRecord
from explorer.results.trace import Trace
from explorer.views.numbers import (
    format_bytes,
    format_change,
    format_exact,
    format_milliseconds,
    format_seconds,
)
from explorer.views.parts import plain as text_form
from explorer.views.parts.markup import (
    badge,
    bar,
    card,
    escape,
    note,
    paragraph,
    plain,
    table,
)
from explorer.views.theme import BLUE, LIGHT, NOT_RUN, Look, judge, judged_error, tone_of
from explorer.views.verdicts import judged_words, worst_judged

NAMED_UNCHANGED = 6
_HEADER = ("", "pass", "ops", "change", "rewrites", "time", "")
_ALIGN = "nlrrrrn"


@dataclass(frozen=True)
class _Row:
    """One pass that changed something, or a run of passes that did not."""

    records: tuple[PassRecord, ...]
    verdict: Look

    @property
    def seconds(self) -> float:
        return sum(record.seconds for record in self.records)

    @property
    def is_unchanged(self) -> bool:
        return not self.records[0].changed


def passes_text(trace: Trace, width: int = text_form.WIDTH) -> str:
    """A compilation as a table of its passes, in lines of at most `width` characters."""
    rows = list(_rows(trace))
    longest = max((row.seconds for row in rows), default=0.0)
    cells = []
    for row in rows:
        time = (format_seconds(row.seconds), text_form.bar(_share(row.seconds, longest), 10))
        if row.is_unchanged:
            cells.append((row.verdict.glyph, _unchanged(row.records), "", "", "", *time))
        else:
            cells.append((row.verdict.glyph, *_numbers(row.records[0]), *time))
    verdict, outcome = compilation_outcome(trace)
    lines = [
        compilation_title(trace),
        f"  {verdict.glyph} {outcome}",
        *text_form.columns(cells, _HEADER, _ALIGN, width=width),
    ]
    return "\n".join(lines)


def passes_html(trace: Trace) -> str:
    """A card with one row per pass: verdict, name, operations, change, rewrites, time."""
    rows = list(_rows(trace))
    longest = max((row.seconds for row in rows), default=0.0)
    colour = tone_of(BLUE, LIGHT).edge
    cells: list[list[str]] = []
    quiet_rows: list[int] = []
    for index, row in enumerate(rows):
        time = [escape(format_seconds(row.seconds)), bar(_share(row.seconds, longest), colour, 96)]
        if row.is_unchanged:
            quiet_rows.append(index)
            cells.append([badge(row.verdict), escape(_unchanged(row.records)), "", "", "", *time])
        else:
            numbers = [escape(number) for number in _numbers(row.records[0])]
            cells.append([badge(row.verdict), *numbers, *time])
    verdict, outcome = compilation_outcome(trace)
    body = paragraph(badge(verdict, outcome))
    body += table(cells, _HEADER, _ALIGN, quiet_rows)
    total = sum(record.seconds for record in trace.passes)
    body += note(
        f"compiled in {format_seconds(total)}; every pass: .passes[i], "
        "its rewrites: .passes[i].events"
    )
    return card(compilation_title(trace), body)


def compilation_title(trace: Trace) -> str:
    """`model → target (device), fork`."""
    device = f" ({plain(trace.device)})" if trace.device else ""
    label = f", {plain(trace.label)}" if trace.label else ""
    return f"{plain(trace.model.name)} → {plain(trace.target)}{device}{label}"


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


def _rows(trace: Trace) -> Iterator[_Row]:
    tolerance = trace.accuracy.tolerance if trace.accuracy else 0.0
    waiting: list[PassRecord] = []
    waiting_verdict = NOT_RUN
    for record, accuracy in zip(trace.passes, accuracy_by_pass(trace), strict=True):
        verdict = verdict_of(accuracy, tolerance)
        # A run folds only while the verdict stays: nothing may hide a wrong result.
        if waiting and (record.changed or verdict is not waiting_verdict):
            yield _Row(tuple(waiting), waiting_verdict)
            waiting = []
        if record.changed:
            yield _Row((record,), verdict)
        else:
            waiting.append(record)
            waiting_verdict = verdict
    if waiting:
        yield _Row(tuple(waiting), waiting_verdict)


def _numbers(record: PassRecord) -> tuple[str, str, str, str]:
    return (
        plain(record.name),
        format_exact(record.operations_after),
        format_change(record.operations_before, record.operations_after),
        format_exact(sum(event.applied for event in record.events)),
    )


def _unchanged(records: Sequence[PassRecord]) -> str:
    names = ", ".join(plain(record.name) for record in records[:NAMED_UNCHANGED])
    more = len(records) - NAMED_UNCHANGED
    return f"unchanged: {names}" + (f" and {more} more" if more > 0 else "")


def _share(seconds: float, longest: float) -> float:
    return seconds / longest if longest > 0 else 0.0
