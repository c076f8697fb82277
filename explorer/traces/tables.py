"""Compilations as tables: a row per operator, pass, event, error, knob, layer, buffer or kernel.

    c.to_frame("events")          pandas.DataFrame, where pandas is installed
    c.to_frame("events").query("not applied")

Without pandas the same rows come as a `Table`, which iterates over dicts. All is read from the
trace, so a compilation out of a file gives the same tables.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from explorer.errors import InputError
from explorer.results import AccuracyReport, KernelRecord, PassAccuracy, Trace
from explorer.results.displayed import Displayed
from explorer.results.names import near_name

FORMULA_BEGINS = ("=", "+", "-", "@", "\t", "\r", "\n")
"""With these a cell's text is a formula in spreadsheets (OWASP, "CSV Injection")."""
NUMBER = re.compile(r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|inf|nan)", re.ASCII)
FrameKind = Literal[
    "passes",
    "events",
    "errors",
    "constraints",
    "knobs",
    "operators",
    "layers",
    "buffers",
    "kernels",
]
"""The tables of a compilation."""
Row = Mapping[str, Any]
"""Column -> value. Columns have types of their own, hence Any."""


@dataclass(frozen=True, repr=False)
class Table(Displayed):
    """Rows under named columns: what pandas would make of them, without pandas."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]  # a column's values have its own type

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (dict(zip(self.columns, row, strict=True)) for row in self.rows)

    def __getitem__(self, column: str) -> list[Any]:
        """All values of a column."""
        if column not in self.columns:
            raise InputError(f"there is no column {column!r}", hint=near_name(column, self.columns))
        index = self.columns.index(column)
        return [row[index] for row in self.rows]


def to_frame(trace: Trace, kind: str) -> Any:  # a DataFrame or a Table
    """The table of that kind; `FRAMES` lists them. InputError names the kinds there are."""
    if kind not in FRAMES:
        raise InputError(f"there is no table of {kind!r}", hint=near_name(kind, list(FRAMES)))
    make, columns = FRAMES[kind]
    return as_frame(columns, make(trace))


def as_frame(columns: tuple[str, ...], rows: Iterator[Row]) -> Any:  # a DataFrame or a Table
    """Rows as a pandas.DataFrame where pandas is installed, else as a `Table`."""
    values = [tuple(row[c] for c in columns) for row in rows]
    try:
        import pandas
    except ImportError:
        return Table(columns, tuple(values))
    return pandas.DataFrame(values, columns=list(columns))


def table_of(trace: Trace, kind: str) -> Table:
    """As `to_frame`, always as a `Table`."""
    if kind not in FRAMES:
        raise InputError(f"there is no table of {kind!r}", hint=near_name(kind, list(FRAMES)))
    make, columns = FRAMES[kind]
    return Table(columns, tuple(tuple(row[c] for c in columns) for row in make(trace)))


def csv_text(table: Table) -> str:
    """A line per row, the columns' names first (RFC 4180); lists and mappings are JSON.

    A text that a spreadsheet would run as a formula begins with an apostrophe.
    """
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(map(_harmless, table.columns))
    writer.writerows([_harmless(_plain(value)) for value in row] for row in table.rows)
    return text.getvalue()


def _harmless(value: Any) -> Any:  # a cell's value has a type of its own
    """`'=1+2` for `=1+2`; numbers stay as they are, also those that are texts: `-0.5`."""
    if not isinstance(value, str) or not value.startswith(FORMULA_BEGINS):
        return value
    return value if NUMBER.fullmatch(value) else f"'{value}"


def parquet_bytes(table: Table) -> bytes:
    """The columns with their types; lists and mappings are JSON. InputError without pyarrow."""
    try:
        import pyarrow  # pyright: ignore[reportMissingImports]  (optional)
        from pyarrow import parquet  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise InputError(
            "Parquet files are written with pyarrow, which is not installed",
            hint="pip install pyarrow, or take CSV",
        ) from error
    columns = {name: [_plain(value) for value in table[name]] for name in table.columns}
    for name, values in columns.items():
        if len({type(value) for value in values} - {type(None)}) > 1:  # a knob's value, say
            columns[name] = [None if value is None else str(value) for value in values]
    written = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), written)
    return written.getvalue()


def _plain(value: Any) -> Any:  # a cell's value has a type of its own
    if isinstance(value, tuple | list | Mapping):
        return json.dumps(value, default=str)
    return value


# -- rows ------------------------------------------------------------------------------------------


def operator_rows(trace: Trace) -> Iterator[Row]:
    """One row per operator of the model; `made` counts the operations that the import made."""
    for record in trace.operators:
        yield {
            "family": record.family,
            "operator": record.operator,
            "domain": record.domain or "ai.onnx",
            "version": record.version,
            "nodes": len(record.nodes),
            "made": ", ".join(f"{count} {name}" for name, count in record.made),
            "parameters": record.parameters,
            "problems": "; ".join(dict.fromkeys(reason for _, reason in record.problems)),
        }


def pass_rows(trace: Trace) -> Iterator[Row]:
    """One row per pass; `max_relative` is the worst tensor's error, None where not compared."""
    worst = _worst_after_passes(trace.accuracy)
    for record in trace.passes:
        applied = sum(event.applied for event in record.events)
        yield {
            "name": record.name,
            "level": record.level,
            "changed": record.changed,
            "rewrites": applied,
            "declined": len(record.events) - applied,
            "operations_before": record.operations_before,
            "operations_after": record.operations_after,
            "macs": record.macs,
            "peak_bytes": record.peak_bytes,
            "max_relative": worst.get(record.name),
            "seconds": record.seconds,
        }


def event_rows(trace: Trace) -> Iterator[Row]:
    """One row per rewrite or declined candidate, in order."""
    for record in trace.passes:
        for event in record.events:
            yield {
                "pass": record.name,
                "rule": event.rule,
                "site": event.site,
                "applied": event.applied,
                "reason": event.reason,
                "matched": event.matched,
                "produced": event.produced,
                "rule_source": event.rule_source,
                "microseconds": event.microseconds,
                "address": event.address,
            }


def knob_rows(trace: Trace) -> Iterator[Row]:
    """One row per decision that may be taken otherwise."""
    for knob in trace.knobs:
        yield {
            "address": knob.address,
            "value": knob.value,
            "choices": knob.choices,
            "why": knob.why,
        }


def error_rows(trace: Trace) -> Iterator[Row]:
    """One row per pass, mode and tensor that was compared with the source model."""
    if trace.accuracy is None:
        return
    for step in (*trace.accuracy.passes, *trace.accuracy.isolated):
        for error in step.tensors:
            yield {
                "pass": step.name,
                "mode": step.mode,
                "tensor": error.tensor,
                "operation": error.operation,
                "max_relative": error.max_relative,
                "max_absolute": error.max_absolute,
                "cosine": error.cosine,
                "sqnr_db": error.sqnr_db,
            }


def layer_rows(trace: Trace) -> Iterator[Row]:
    """One row per launch, in order.

    `max_relative` is the error of the binary's tensor when the layer is fed the reference's
    inputs; `microseconds` and `gflops` come from the last profile. None where not measured.
    """
    if trace.program is None:
        return
    kernels = {k.name: k for k in trace.kernels}
    errors = _errors_of_binary(trace.accuracy)
    times: dict[str, float] = {}
    if trace.profile is not None:
        times = {e.operation: (e.end_ns - e.start_ns) / 1e3 for e in trace.profile.launches}
    for step, launch in enumerate(trace.program.launches):
        kernel = kernels[launch.kernel]
        output = next((a for a in launch.arguments if a.role == "output"), None)
        microseconds = times.get(launch.operation)
        yield {
            "step": step,
            "operation": launch.operation,
            "kernel": launch.kernel,
            "kind": kernel.kind,
            "sources": launch.sources,
            "flops": kernel.flops,
            "bytes_moved": kernel.bytes_moved,
            "output_bytes": output.size_bytes if output else 0,
            "offset_bytes": output.offset_bytes if output else None,
            "max_relative": errors.get(launch.operation),
            "microseconds": microseconds,
            "gflops": kernel.flops / microseconds / 1e3 if microseconds else None,
        }


def buffer_rows(trace: Trace) -> Iterator[Row]:
    """One row per buffer of the arena, live in steps [first, last)."""
    for placed in trace.memory.placements if trace.memory else ():
        buffer = placed.buffer
        yield {
            "id": buffer.id,
            "values": buffer.values,
            "offset_bytes": placed.offset_bytes,
            "size_bytes": buffer.size_bytes,
            "first": buffer.first,
            "last": buffer.last,
            "alignment_bytes": buffer.alignment_bytes,
        }


def constraint_rows(trace: Trace) -> Iterator[Row]:
    """One row per constraint of the symbolic dimensions."""
    for constraint in trace.constraints:
        yield {
            "text": constraint.text,
            "kind": constraint.kind,
            "operation": constraint.operation,
            "nodes": constraint.nodes,
        }


def kernel_rows(trace: Trace) -> Iterator[Row]:
    """One row per kernel; `choices` are the decisions of its schedule."""
    for kernel in trace.kernels:
        yield {
            "name": kernel.name,
            "kind": kernel.kind,
            "operations": kernel.operations,
            "flops": kernel.flops,
            "bytes_moved": kernel.bytes_moved,
            "tasks": sum(phase.tasks for phase in kernel.phases),
            "steps": tuple(step.name for step in kernel.steps),
            "choices": _choices(trace, kernel),
            "lines": len(kernel.source.lines),
        }


def _choices(trace: Trace, kernel: KernelRecord) -> str:
    """`pixels=8 vectors=2`, from the decisions addressed `schedule-loops/KERNEL/CHOICE`."""
    chosen = []
    for address, value in trace.decisions:
        parts = address.split("/")
        if len(parts) == 3 and parts[:2] == ["schedule-loops", kernel.name]:
            chosen.append(f"{parts[2]}={json.loads(value)}")
    return " ".join(chosen)


def _worst_after_passes(accuracy: AccuracyReport | None) -> dict[str, float]:
    if accuracy is None:
        return {}
    return {p.name: p.worst.max_relative for p in accuracy.passes if p.worst is not None}


def _errors_of_binary(accuracy: AccuracyReport | None) -> dict[str, float]:
    if accuracy is None or not accuracy.isolated:
        return {}
    binary: PassAccuracy = accuracy.isolated[-1]
    return {t.operation: t.max_relative for t in binary.tensors}


def _columns(names: str) -> tuple[str, ...]:
    return tuple(names.split())


FRAMES: Mapping[str, tuple[Callable[[Trace], Iterator[Row]], tuple[str, ...]]] = {
    "passes": (
        pass_rows,
        _columns(
            "name level changed rewrites declined operations_before operations_after macs "
            "peak_bytes max_relative seconds"
        ),
    ),
    "events": (
        event_rows,
        _columns("pass rule site applied reason matched produced rule_source microseconds address"),
    ),
    "errors": (
        error_rows,
        _columns("pass mode tensor operation max_relative max_absolute cosine sqnr_db"),
    ),
    "constraints": (constraint_rows, _columns("text kind operation nodes")),
    "knobs": (knob_rows, _columns("address value choices why")),
    "operators": (
        operator_rows,
        _columns("family operator domain version nodes made parameters problems"),
    ),
    "layers": (
        layer_rows,
        _columns(
            "step operation kernel kind sources flops bytes_moved output_bytes offset_bytes "
            "max_relative microseconds gflops"
        ),
    ),
    "buffers": (
        buffer_rows,
        _columns("id values offset_bytes size_bytes first last alignment_bytes"),
    ),
    "kernels": (
        kernel_rows,
        _columns("name kind operations flops bytes_moved tasks steps choices lines"),
    ),
}
"""By kind: what makes its rows, and its columns, which an empty table has, too."""

CODE_KINDS = ("layers", "kernels")
"""Kinds whose rows need the kernels and the program, which take longer to make."""
