"""Compilations side by side: what they reach, and the passes in which they part.

tiny_resnet → cpu          first    no fusion
  operations                   14           17   21% more
  latency                  122 µs       150 µs   23% more
  = fold-batch-norm        17 ops       17 ops
  ≠ fuse-activation        14 ops       17 ops
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from explorer.results.accuracy import AccuracyReport, PassAccuracy
from explorer.results.passes import PassRecord
from explorer.results.trace import Trace
from explorer.views.catalog.passes import accuracy_by_pass, verdict_of
from explorer.views.numbers import (
    format_amount,
    format_bytes,
    format_count,
    format_decibels,
    format_error,
    format_exact,
    format_milliseconds,
    format_ratio,
    format_seconds,
)
from explorer.views.partings import differing_decisions, merged, values_of
from explorer.views.specification import (
    UNKNOWN,
    Cell,
    Column,
    Part,
    Row,
    Section,
    Specification,
    TableSpec,
)
from explorer.views.theme import NOT_RUN

MAX_DECISIONS = 12
Side = tuple[PassRecord, PassAccuracy | None]


def comparison(*traces: Trace) -> Specification:
    """Numbers and passes of two or more compilations, and what was decided otherwise."""
    names = _names(traces)
    sides = tuple(Column(key=str(i), title=name, format="count") for i, name in enumerate(names))
    # The change follows the number of every compilation but the first.
    changes = [Column(key=f"change {i}", title="") for i in range(len(names))]
    numbers = (sides[0], *(c for pair in zip(sides[1:], changes[1:], strict=True) for c in pair))
    parts: list[Part] = [
        TableSpec(
            title="numbers",
            columns=(Column(key="name", title=""), *numbers),
            rows=tuple(_numbers(traces)),
        ),
        TableSpec(
            title="passes",
            columns=(
                Column(key="sign", title="", format="name"),
                Column(key="name", title="pass", format="name"),
                *sides,
            ),
            rows=tuple(_passes(traces)),
            max_rows=10_000,
        ),
    ]
    if decisions := _decisions(traces):
        table = TableSpec(
            title="decisions",
            columns=(
                Column(key="address", title="address", format="name"),
                *(Column(key=str(i), title=n, format="name") for i, n in enumerate(names)),
            ),
            rows=decisions,
            max_rows=MAX_DECISIONS,
            rest="trace.decisions",
            keeps_columns=True,
        )
        title = "Decided otherwise, the first decision first"
        parts.append(Section(title=title, parts=(table,)))
    return Specification(title=_title(traces), parts=tuple(parts))


def _title(traces: Sequence[Trace]) -> str:
    models = dict.fromkeys(trace.model.name for trace in traces)
    targets = dict.fromkeys(trace.target for trace in traces)
    return f"{' / '.join(models)} → {' / '.join(targets)}"


def _names(traces: Sequence[Trace]) -> list[str]:
    """What tells them apart: the forks' labels, else the targets, else their order."""
    labels = [trace.label for trace in traces]
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


def _numbers(traces: Sequence[Trace]) -> list[Row]:
    rows: list[Row] = []

    def add(
        name: str,
        values: Sequence[float | None],
        show: Callable[[float], str],
        change: Callable[[float, float], str] = format_ratio,
    ) -> None:
        if all(value is None for value in values):
            return
        first = values[0]
        cells: dict[str, Cell | str] = {"name": name}
        for i, value in enumerate(values):
            cells[str(i)] = Cell(value=value, text=UNKNOWN if value is None else show(value))
            if first is not None and value is not None:
                cells[f"change {i}"] = change(first, value)
        rows.append(Row(cells=cells))

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
    reports = [trace.accuracy for trace in traces]
    outputs = [None if report is None else report.worst_output for report in reports]
    add("SQNR of outputs", [o and o.sqnr_db for o in outputs], format_decibels, _in_decibels)
    errors = [None if report is None else report.largest_output_error for report in reports]
    add("largest relative error", errors, format_error)
    rows += _in_words("right answers", [_right(report) for report in reports])
    rows += _in_words("integers bit-exact", [_bit_exact(report) for report in reports])
    rows += _in_words("judged on", [_judged_on(report) for report in reports])
    times = [sum(record.seconds for record in trace.passes) for trace in traces]
    add("compile time", times, format_seconds)
    return rows


def _in_words(name: str, values: Sequence[str]) -> list[Row]:
    """A row of words; none where nothing is known."""
    if not any(values):
        return []
    cells: dict[str, Cell | str] = {
        str(i): Cell(value=text, text=text or UNKNOWN) for i, text in enumerate(values)
    }
    return [Row(cells={"name": name, **cells})]


def _in_decibels(before: float, after: float) -> str:
    """`3.1 dB less`; empty where a program is exact."""
    if not (math.isfinite(before) and math.isfinite(after)) or before == after:
        return ""
    return f"{format_decibels(abs(after - before))} {'more' if after > before else 'less'}"


def _right(report: AccuracyReport | None) -> str:
    """`359 of 360`; empty without labels."""
    if report is None or report.task is None:
        return ""
    return f"{report.task.right:,} of {report.task.total:,}"


def _bit_exact(report: AccuracyReport | None) -> str:
    """Whether integers equal those of the quantized program's meaning; empty without integers."""
    if report is None or report.bit_exact is None:
        return ""
    return "yes" if report.bit_exact else "NO"


def _judged_on(report: AccuracyReport | None) -> str:
    return "" if report is None or report.data is None else str(report.data)


def _passes(traces: Sequence[Trace]) -> list[Row]:
    """Passes of all in order, equal names side by side; quiet where nothing differs."""
    tables: list[dict[str, Side]] = [
        {r.name: (r, a) for r, a in zip(t.passes, accuracy_by_pass(t), strict=True)} for t in traces
    ]
    names: list[str] = []
    for table in tables:
        names = merged(names, list(table))
    rows = []
    for name in names:
        own = [table.get(name) for table in tables]
        differs = any(_figures(side) != _figures(own[0]) for side in own)
        cells: dict[str, Cell | str] = {"sign": "≠" if differs else "=", "name": name}
        for i, (side, trace) in enumerate(zip(own, traces, strict=True)):
            cells[str(i)] = _pass_cell(side, trace.accuracy.tolerance if trace.accuracy else 0.0)
        rows.append(Row(cells=cells, is_quiet=not differs))
    return rows


def _figures(side: Side | None) -> tuple[object, ...] | None:
    return side and (side[0].operations_after, side[0].rules, side[0].peak_bytes)


def _pass_cell(side: Side | None, tolerance: float) -> Cell:
    if side is None:
        return Cell(value=None)
    record, accuracy = side
    verdict = verdict_of(accuracy, tolerance)
    return Cell(
        value=record.operations_after,
        text=format_count(record.operations_after),
        look=None if verdict is NOT_RUN else verdict,
    )


def _decisions(traces: Sequence[Trace]) -> tuple[Row, ...]:
    """Decisions that are not the same in all, with the value of each."""
    values = [values_of(trace) for trace in traces]
    passes = [[record.name for record in trace.passes] for trace in traces]
    addresses = dict.fromkeys(
        address
        for other, names in zip(values[1:], passes[1:], strict=True)
        for address, *_ in differing_decisions(values[0], other, passes[0], names)
    )
    return tuple(
        Row(
            cells={
                "address": address,
                **{str(i): own.get(address, UNKNOWN) for i, own in enumerate(values)},
            }
        )
        for address in addresses
    )
