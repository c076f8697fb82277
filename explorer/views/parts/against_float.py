"""How far a quantized program is from the float model: after every pass, and where it is most.

Against the float model (measured, not judged)
  pass              worst  at           median
  quantize-tensors  31 dB  /mean_output  38 dB
Furthest after binary on cpu
  tensor            signal to noise  cosine
  /mean_output                31 dB  0.99961
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from explorer.results.accuracy import AccuracyReport, PassAccuracy, TensorError
from explorer.views.numbers import format_decibels
from explorer.views.parts.markup import code, escape, plain, section, table
from explorer.views.parts.plain import columns

TITLE = "Against the float model (measured, not judged)"
PASSES = ("pass", "worst", "at", "median")
TENSORS = ("tensor", "signal to noise", "cosine")
SHOWN = 10


def against_float_text(report: AccuracyReport) -> list[str]:
    """Lines; none where nothing was quantized."""
    rows = list(_passes(report))
    if not rows:
        return []
    last, tensors = _furthest(report)
    return [
        TITLE,
        *columns(rows, PASSES, "lrlr"),
        _furthest_title(last, tensors),
        *columns(list(_tensors(tensors)), TENSORS, "lrr"),
    ]


def against_float_html(report: AccuracyReport) -> str:
    """Two tables; nothing where nothing was quantized."""
    rows = list(_passes(report))
    if not rows:
        return ""
    last, tensors = _furthest(report)
    body = section(TITLE)
    body += table([list(map(escape, row)) for row in rows], PASSES, "lrlr")
    body += section(_furthest_title(last, tensors))
    return body + table(
        [[code(name), *map(escape, others)] for name, *others in _tensors(tensors)], TENSORS, "lrr"
    )


def _passes(report: AccuracyReport) -> Iterator[tuple[str, ...]]:
    """A row per pass after which something changed."""
    before: tuple[str, ...] = ()
    for accuracy in report.against_float:
        if not accuracy.tensors:
            continue
        worst = min(accuracy.tensors, key=lambda t: t.sqnr_db)
        middle = median(t.sqnr_db for t in accuracy.tensors)
        found = (format_decibels(worst.sqnr_db), worst.tensor, format_decibels(middle))
        if found != before:
            yield (accuracy.name, *found)
        before = found


def _furthest(report: AccuracyReport) -> tuple[PassAccuracy, list[TensorError]]:
    """The last comparison that has tensors, and those that are furthest off."""
    last = [accuracy for accuracy in report.against_float if accuracy.tensors][-1]
    found: dict[str, TensorError] = {}
    for error in sorted(last.tensors, key=lambda t: t.sqnr_db):
        found.setdefault(error.tensor, error)  # several operations may make one
    return last, list(found.values())[:SHOWN]


def _furthest_title(last: PassAccuracy, tensors: list[TensorError]) -> str:
    total = len({error.tensor for error in last.tensors})
    return f"Furthest after {plain(last.name)} ({len(tensors)} of {total} tensors)"


def _tensors(tensors: list[TensorError]) -> Iterator[tuple[str, ...]]:
    for error in tensors:
        yield error.tensor, format_decibels(error.sqnr_db), f"{error.cosine:.5f}"
