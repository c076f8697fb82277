"""Compilations side by side: what they reach, and the passes in which they part.

tiny_resnet -> cpu          first    no fusion
  operations                   14           17   21% more
  latency                  122 µs       150 µs   23% more
  passes
  = fold-batch-norm        17 ops       17 ops
  ≠ fuse-activation        14 ops       17 ops
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from explorer.results.passes import PassRecord
from explorer.results.trace import Trace
from explorer.views.numbers import (
    format_amount,
    format_bytes,
    format_count,
    format_error,
    format_exact,
    format_milliseconds,
    format_ratio,
    format_seconds,
)
from explorer.views.partings import differing_decisions, merged, values_of
from explorer.views.parts.markup import (
    badge,
    card,
    code,
    escape,
    note,
    plain,
    quiet,
    section,
    table,
)
from explorer.views.parts.plain import columns
from explorer.views.static.passes import accuracy_by_pass, verdict_of, worst_error
from explorer.views.theme import CHANGED, NOT_RUN, Look

LISTED_DECISIONS = 12
MISSING = "–"


@dataclass(frozen=True)
class _Side:
    record: PassRecord
    verdict: Look


@dataclass(frozen=True)
class _PassRow:
    """The same pass in all of them; None where a compilation has no such pass."""

    name: str
    sides: tuple[_Side | None, ...]

    @property
    def differs(self) -> bool:
        return any(_figures(side) != _figures(self.sides[0]) for side in self.sides)


def _figures(side: _Side | None) -> tuple[object, ...] | None:
    if side is None:
        return None
    return side.record.operations_after, side.record.rules, side.record.peak_bytes


def comparison_text(*traces: Trace) -> str:
    """Numbers and passes of two or more compilations side by side."""
    names = _names(traces)
    metrics = columns(_metrics(traces), _metric_titles(names), "l" + "rl" * len(names))
    rows = [
        ("≠" if row.differs else "=", row.name, *map(_pass_cell, row.sides))
        for row in _pass_rows(traces)
    ]
    passes = columns(rows, ("", "pass", *names), "ll" + "r" * len(names))
    lines = [_title(traces), *metrics, *passes]
    decisions = _decisions(traces)
    lines += [
        f"  decided otherwise: {plain(address)}: {' / '.join(map(plain, values))}"
        for address, *values in decisions[:LISTED_DECISIONS]
    ]
    if len(decisions) > LISTED_DECISIONS:
        lines.append(f"  and {len(decisions) - LISTED_DECISIONS} more: trace.decisions")
    return "\n".join(lines)


def comparison_html(*traces: Trace) -> str:
    """A card of the same."""
    names = _names(traces)
    body = table(
        [[escape(cell) for cell in row] for row in _metrics(traces)],
        _metric_titles(names),
        "nr" + "rn" * (len(names) - 1),
    )
    body += section("Passes")
    rows: list[list[str]] = []
    same: list[int] = []
    for index, row in enumerate(_pass_rows(traces)):
        if not row.differs:
            same.append(index)
        sign = badge(_DIFFERS) if row.differs else quiet("=")
        rows.append([sign, escape(row.name), *map(_pass_html, row.sides)])
    body += table(rows, ("", "pass", *names), "nl" + "r" * len(names), same)
    decisions = _decisions(traces)
    if decisions:
        body += section("Decided otherwise, the first decision first")
        body += table(
            [list(map(code, row)) for row in decisions[:LISTED_DECISIONS]], ("address", *names)
        )
        if len(decisions) > LISTED_DECISIONS:
            body += note(f"and {len(decisions) - LISTED_DECISIONS} more: trace.decisions")
    return card(_title(traces), body)


def _judged(trace: Trace) -> float | None:
    """The error that the verdict rests on; None without a comparison."""
    worst = worst_error(trace)
    if worst is None or trace.accuracy is None:
        return None
    return worst.judged(trace.accuracy.tolerance)[0]


_DIFFERS = Look(
    name="differs",
    title="the two compilations part here",
    glyph="≠",
    hue=CHANGED.hue,
    light=CHANGED.light,
    dark=CHANGED.dark,
)


def _title(traces: Sequence[Trace]) -> str:
    models = dict.fromkeys(plain(trace.model.name) for trace in traces)
    targets = dict.fromkeys(plain(trace.target) for trace in traces)
    return f"{' / '.join(models)} → {' / '.join(targets)}"


def _names(traces: Sequence[Trace]) -> list[str]:
    """What tells them apart: the forks' labels, else the targets, else their order."""
    labels = [plain(trace.label) for trace in traces]
    if len(set(labels)) == len(labels):
        ordinals = ("first", "second", "third", "fourth")
        return [
            label or (ordinals[number] if number < len(ordinals) else f"number {number + 1}")
            for number, label in enumerate(labels)
        ]
    targets = [trace.target for trace in traces]
    if len(set(targets)) == len(targets):
        return targets
    if len(traces) == 2:
        return ["left", "right"]
    return [f"{number}  {label}".strip() for number, label in enumerate(labels, 1)]


def _metric_titles(names: Sequence[str]) -> tuple[str, ...]:
    """Of every compilation but the first the change stands behind its number."""
    return ("", names[0], *(title for name in names[1:] for title in (name, "")))


def _metrics(traces: Sequence[Trace]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []

    def add(name: str, values: Sequence[float | None], show: Callable[[float], str]) -> None:
        if all(value is None for value in values):
            return
        cells = [MISSING if value is None else show(value) for value in values]
        first = values[0]
        changes = [
            "" if first is None or value is None else format_ratio(first, value)
            for value in values[1:]
        ]
        pairs = zip(cells[1:], changes, strict=True)
        rows.append((name, cells[0], *(cell for pair in pairs for cell in pair)))

    last = [trace.passes[-1] if trace.passes else None for trace in traces]
    memories = [trace.memory for trace in traces]
    programs = [trace.program for trace in traces]
    profiles = [trace.profile for trace in traces]
    exact = lambda value: format_exact(int(value))  # noqa: E731  (a name for the calls below)
    add("operations", [record and record.operations_after for record in last], exact)
    add("multiply-accumulates", [record and record.macs for record in last], format_amount)
    add("kernels", [len(trace.kernels) for trace in traces], exact)
    add("peak memory", [memory and memory.peak_bytes for memory in memories], format_bytes)
    add("weights", [program and program.weights_bytes for program in programs], format_bytes)
    add("latency", [p and p.milliseconds for p in profiles], format_milliseconds)
    add("worst relative error", [_judged(trace) for trace in traces], format_error)
    add("compile time", [_seconds(trace) for trace in traces], format_seconds)
    return rows


def _seconds(trace: Trace) -> float:
    return sum(record.seconds for record in trace.passes)


def _pass_rows(traces: Sequence[Trace]) -> list[_PassRow]:
    """Passes of all in order, equal names side by side."""
    tables = [_sides(trace) for trace in traces]
    names: list[str] = []
    for table_ in tables:
        names = merged(names, list(table_))
    return [_PassRow(name, tuple(table_.get(name) for table_ in tables)) for name in names]


def _sides(trace: Trace) -> dict[str, _Side]:
    tolerance = trace.accuracy.tolerance if trace.accuracy else 0.0
    return {
        record.name: _Side(record, verdict_of(accuracy, tolerance))
        for record, accuracy in zip(trace.passes, accuracy_by_pass(trace), strict=True)
    }


def _pass_cell(side: _Side | None) -> str:
    if side is None:
        return MISSING
    mark = "" if side.verdict is NOT_RUN else f" {side.verdict.glyph}"
    return f"{format_count(side.record.operations_after)}{mark}"


def _pass_html(side: _Side | None) -> str:
    if side is None:
        return quiet(MISSING)
    return f"{escape(format_count(side.record.operations_after))} {badge(side.verdict)}"


def _decisions(traces: Sequence[Trace]) -> list[tuple[str, ...]]:
    """(address, value of each) of decisions that are not the same in all, the first one first."""
    values = [values_of(trace) for trace in traces]
    passes = [[record.name for record in trace.passes] for trace in traces]
    addresses = dict.fromkeys(
        address
        for other, names in zip(values[1:], passes[1:], strict=True)
        for address, *_ in differing_decisions(values[0], other, passes[0], names)
    )
    return [(address, *(own.get(address, MISSING) for own in values)) for address in addresses]
