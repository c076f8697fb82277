"""All kernels with their costs; outside of the page their sources."""

from __future__ import annotations

from collections.abc import Iterator

from explorer.results import KernelRecord, Trace
from explorer.views.fixed_numbers import KIND
from explorer.views.launched_times import two_times
from explorer.views.numbers import format_count, format_percent
from explorer.views.specification import Cell, Column, Row, Specification, TableSpec, Text
from explorer.views.view import JAVASCRIPT, Faces, Pane, View

MAX_NAMES = 3
"""Launches of a kernel that its cell names."""


def kernels(trace: Trace, index: int = -1) -> Specification:
    """A row for every kernel: its share of the measured time, and how near it is to the peak."""
    profile = trace.profile
    spent: dict[str, tuple[int, int]] = {}
    flops = {kernel.name: kernel.flops for kernel in trace.kernels}
    for event in () if profile is None else profile.launches:
        time, done = spent.get(event.kernel, (0, 0))
        work = event.flops or flops.get(event.kernel, 0)
        spent[event.kernel] = (time + event.end_ns - event.start_ns, done + work)
    total = sum(time for time, _ in spent.values())
    peak = 0.0 if profile is None else profile.peak_gflops
    table = TableSpec(
        title="kernels",
        columns=_columns(peak),
        rows=tuple(_row(kernel, spent.get(kernel.name), total, peak) for kernel in trace.kernels),
        sort_by="time" if spent else "",
    )
    chain = None if trace.program is None else trace.program.chain
    return Specification(
        title="Kernels",
        subtitle="" if chain is None else chain.reason,
        parts=(table, *map(Text.of, two_times(trace))),
    )


def _columns(peak: float) -> tuple[Column, ...]:
    return (
        Column(key="kernel", title="kernel", format="layer"),
        Column(key="kind", title="kind", moves=KIND),
        Column(key="operations", title="used by", format="layer"),
        Column(key="time", title="time", format="nanoseconds", moves="seconds"),
        Column(key="share", title="share", format="percent", moves="seconds"),
        Column(
            key="speed",
            title="GFLOP/s",
            format="decimal",
            hint=f"the device reaches {peak:,.0f} GFLOP/s" if peak else "operations per second",
            moves="seconds",
        ),
        Column(
            key="flops",
            title="FLOPs",
            format="amount",
            hint="of all launches, as the time is",
            moves="macs",
        ),
        Column(
            key="bytes",
            title="bytes",
            format="bytes",
            hint="sizes of all arguments: the least traffic",
            moves="traffic_bytes",
        ),
        Column(
            key="intensity",
            title="FLOP/byte",
            format="decimal",
            hint="arithmetic intensity: low means bound by memory",
            moves="seconds",
        ),
        Column(key="steps", title="steps", format="count", hint="schedule steps", moves="seconds"),
        Column(
            key="lines", title="lines", format="count", hint="lines of source", moves="code_bytes"
        ),
    )


def _row(kernel: KernelRecord, spent: tuple[int, int] | None, total: int, peak: float) -> Row:
    time, done = spent or (None, 0)
    speed = done / time if time else None
    names = kernel.operations
    launches = max(1, len(names))
    more = f" +{len(names) - MAX_NAMES}" if len(names) > MAX_NAMES else ""
    return Row(
        operations=names,
        cells={
            "kernel": kernel.name,
            "kind": kernel.kind,
            "operations": Cell(
                value=", ".join(names),
                text=", ".join(names[:MAX_NAMES]) + more,
                exact=", ".join(names),
            ),
            "time": Cell(value=time, exact="" if time is None else f"{time:,} ns"),
            "share": time / total if time and total else None,
            "speed": Cell(
                value=speed,
                exact=f"{format_percent(speed / peak)} of the measured peak"
                if speed is not None and peak
                else "",
            ),
            "flops": Cell(
                value=launches * kernel.flops, exact=_times(launches, kernel.flops, "FLOP")
            ),
            "bytes": Cell(
                value=launches * kernel.bytes_moved,
                exact=_times(launches, kernel.bytes_moved, "byte"),
            ),
            "intensity": kernel.flops / kernel.bytes_moved if kernel.bytes_moved else None,
            "steps": len(kernel.steps) or None,
            "lines": len(kernel.source.lines),
        },
    )


def _times(launches: int, amount: int, unit: str) -> str:
    """`442,368 FLOPs`; of several launches `4 x 442,368 FLOPs`."""
    words = format_count(amount, unit)
    return words if launches == 1 else f"{launches} x {words}"


def _faces() -> Faces:
    from explorer.views.parts.markup import paragraph, plain, quiet
    from explorer.views.static.kernels import kernel_html

    def lines(kernel: KernelRecord) -> Iterator[str]:
        """The source, below a comment that says what it is for."""
        cost = f"{kernel.flops:,} FLOP, {kernel.bytes_moved:,} bytes"
        yield f"// {kernel.name}: {kernel.kind}, {cost}"
        yield f"// launched by {', '.join(plain(name) for name in kernel.operations)}"
        yield from kernel.source.lines
        yield ""

    def sharing(trace: Trace) -> str:
        """How many work-items run the chain of an OpenCL program, and why."""
        chain = None if trace.program is None else trace.program.chain
        return "" if chain is None else chain.reason

    def html(trace: Trace) -> Iterator[str]:
        if sharing(trace):
            yield paragraph(quiet(sharing(trace)))
        yield from (kernel_html(kernel) for kernel in trace.kernels)

    def text(trace: Trace) -> Iterator[str]:
        if sharing(trace):
            yield f"// {sharing(trace)}"
        for kernel in trace.kernels:
            yield from lines(kernel)

    return Faces(
        text=lambda trace, _, width: "\n".join(text(trace)),
        html=lambda trace, _: "\n".join(html(trace)),
        json=lambda trace, _: trace.kernels,
    )


VIEW = View(
    name="kernels",
    title="all kernels with their costs",
    uses=("program", "steps", "profile"),
    specification=kernels,
    faces=_faces,
    pane=Pane(
        moves="seconds",
        module=JAVASCRIPT / "measures" / "kernels.js",
        function="kernelsView",
        key="n",
        count=lambda trace: len(trace.kernels),
    ),
)
