"""A compilation as one Markdown text, for an issue, a notebook or a colleague.

    # net for cpu
    - branch: `without fuse-bias`
    - verdict: equals the source model (tolerance 1.0e-4, `onnxruntime`)
    ## Passes        a table each: passes, memory, kernels, accuracy

Written as CommonMark with GitHub's tables; names of a model stand as code, so that none of them is
markup.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from explorer.results import KernelRecord, Trace
from explorer.views.numbers import format_bytes, format_error, format_exact, format_seconds

MOST_ROWS = 40
"""Of a table; the rest is counted."""


def report_text(trace: Trace) -> str:
    """Model, decisions, verdict, passes, memory, kernels and accuracy."""
    parts = [
        f"# {_code(trace.model.name)} for {_code(trace.target or 'no target')}",
        _about(trace),
        _passes(trace),
        _memory(trace),
        _kernels(trace),
        _accuracy(trace),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _about(trace: Trace) -> str:
    model = trace.model
    lines = [
        f"- model: {model.nodes:,} nodes, {model.parameters:,} parameters, {model.format}, "
        f"{_code(model.producer or 'unknown producer')}",
        *(f"- input {_code(name)}: {_code(type_)}" for name, type_ in model.inputs),
        *(f"- output {_code(name)}: {_code(type_)}" for name, type_ in model.outputs),
        f"- device: {_code(trace.device or 'unknown')}",
        f"- branch: {_code(trace.label)}" if trace.label else "- branch: as by default",
    ]
    lines.append(f"- verdict: {verdict_of(trace, _code)}")
    if trace.problems:
        lines += [f"- {_code(what)}: {_code(why)}" for what, why in trace.problems]
    return "\n".join(lines)


def verdict_of(trace: Trace, name: Callable[[str], str] = str) -> str:
    """Whether the program equals its model, in words; `name` writes the reference's."""
    report = trace.accuracy
    if report is None:
        return "not compared with the source model"
    passed = "equals the source model" if report.passed else "differs from the source model"
    return f"{passed} (tolerance {format_error(report.tolerance)}, {name(report.oracle)})"


def _passes(trace: Trace) -> str:
    rows = [
        (
            _code(step.name),
            format_exact(step.operations_after),
            str(sum(step.rules.values())),
            format_seconds(step.seconds),
        )
        for step in trace.passes
    ]
    return _table("Passes", ("pass", "operations", "rewrites", "time"), rows, most=len(rows))


def _memory(trace: Trace) -> str:
    plan = trace.memory
    if plan is None:
        return ""
    how = ", proven optimal" if plan.optimal else ""
    head = (
        f"Activations take {format_bytes(plan.peak_bytes)}{how}; less than "
        f"{format_bytes(plan.bound_bytes)} is impossible in this order."
    )
    largest = sorted(plan.placements, key=lambda placed: -placed.buffer.size_bytes)
    rows = [
        (
            _code(placed.buffer.id),
            format_bytes(placed.buffer.size_bytes),
            format_exact(placed.offset_bytes),
            f"{placed.buffer.first} to {placed.buffer.last}",
        )
        for placed in largest
    ]
    return _table("Memory", ("buffer", "size", "offset", "steps"), rows, head, most=10)


def _kernels(trace: Trace) -> str:
    if trace.program is None:
        return ""
    rows = [
        (
            _code(kernel.name),
            _code(", ".join(kernel.operations[:4])),
            format_exact(kernel.flops),
            format_bytes(kernel.bytes_moved),
            "" if seconds is None else format_seconds(seconds),
        )
        for kernel, seconds in kernel_rows(trace)
    ]
    head = f"{len(trace.program.launches)} launches of {len(trace.kernels)} kernels."
    columns = ("kernel", "operations", "FLOPs", "bytes moved", "time")
    return _table("Kernels", columns, rows, head)


def kernel_rows(trace: Trace) -> list[tuple[KernelRecord, float | None]]:
    """Every kernel with the seconds that all its launches take, the longest first; None where
    they were not measured."""
    seconds: dict[str, float] = {}
    if trace.profile is not None and trace.program is not None:
        kernel_of = {launch.operation: launch.kernel for launch in trace.program.launches}
        for event in trace.profile.events:
            name = kernel_of.get(event.operation, "")
            seconds[name] = seconds.get(name, 0.0) + (event.end_ns - event.start_ns) / 1e9
    ordered = sorted(trace.kernels, key=lambda kernel: -seconds.get(kernel.name, 0.0))
    return [(kernel, seconds.get(kernel.name)) for kernel in ordered]


def _accuracy(trace: Trace) -> str:
    report = trace.accuracy
    if report is None:
        return ""
    head = _code(report.problem) if report.problem else ""
    worst = {
        step.name: max(step.tensors, key=lambda error: error.max_relative)
        for step in report.passes
        if step.tensors
    }
    rows = [
        (_code(name), _code(error.tensor), format_error(error.max_relative))
        for name, error in worst.items()
    ]
    return _table("Accuracy", ("pass", "worst tensor", "error"), rows, head, most=len(rows))


def _table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    head: str = "",
    most: int = MOST_ROWS,
) -> str:
    rows = list(rows)
    lines = [f"## {title}", *(["", head] if head else []), ""]
    lines += [_row(columns), _row(["---"] * len(columns))]
    lines += [_row(row) for row in rows[:most]]
    if len(rows) > most:
        lines += ["", f"{len(rows) - most} more are left out."]
    return "\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _code(text: str) -> str:
    """A name that a model may have chosen, as code: no markup, no line, no column of its own."""
    plain = " ".join(text.split()).replace("`", "'").replace("|", "\\|")
    return f"`{plain}`" if plain else ""
