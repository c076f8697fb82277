"""What limits every hot loop of a program on a core: an analyser's prediction and our own.

kernel      loop           share  cycles  limit         cost model  off   of peak  spills
conv_3x3_2  task > cb > p  62 %      8.1  multiply-add         8.0  −2 %     98 %       –
"""

from __future__ import annotations

from explorer.results import LoopPorts, PortsRecord, Trace
from explorer.results.runs.ports import TOLERANCE
from explorer.views.fixed_numbers import COST_MODEL
from explorer.views.numbers import format_count, format_percent
from explorer.views.specification import (
    Cell,
    Code,
    Column,
    Part,
    Row,
    Specification,
    TableSpec,
    Text,
)
from explorer.views.view import Pane, View

COLUMNS = (
    Column(key="kernel", title="kernel", format="name"),
    Column(key="loop", title="loop"),
    Column(
        key="share",
        title="share",
        format="percent",
        hint="of the cycles that the cost model predicts for the program",
        moves="seconds",
    ),
    Column(
        key="cycles",
        title="cycles",
        format="decimal",
        hint="of one iteration of the source's loop, by the analyser",
        moves="seconds",
    ),
    Column(key="limit", title="limit"),
    Column(key="predicted", title="cost model", format="decimal", moves="seconds"),
    Column(
        key="error",
        title="off",
        format="percent",
        hint="how far the cost model is from the analyser",
        moves=COST_MODEL,
    ),
    Column(
        key="peak",
        title="of peak",
        format="percent",
        hint="the part of the cycles in which all units multiply and add",
        moves="seconds",
    ),
    Column(
        key="spills",
        title="spills",
        format="decimal",
        hint="values that go to the stack or come from it for want of registers",
        moves="seconds",
    ),
)


def ports(trace: Trace, index: int = -1) -> Specification:
    """A row for every hot loop, and what the figures are of."""
    record = trace.ports
    assert record is not None, "the view needs it"
    operations = {kernel.name: kernel.operations for kernel in trace.kernels}
    loops = TableSpec(
        title="hot loops",
        columns=COLUMNS,
        rows=tuple(_row(loop, operations.get(loop.kernel, ())) for loop in record.loops),
    )
    parts: list[Part] = [Text(text=f"{line}.") for line in _about(record)]
    parts.append(loops)
    parts += [Text(text=f"not counted: {name}: {why}") for name, why in record.left_out]
    count = format_count(len(record.loops), "hot loop")
    title = f"{trace.model.name} on {record.core}: {count}"
    return Specification(title=title, parts=tuple(parts))


def _about(record: PortsRecord) -> list[str]:
    spilling = sum(loop.spills > 0 for loop in record.loops)
    kept = sum(loop.should_multiply for loop in record.loops)
    note = f"; {record.note}" if record.note else ""
    return [
        f"{record.analyser} counts the ports of {record.model}; "
        f"compiled by {record.compiler}{note}",
        f"Cycles are of one iteration; caches and branches are not counted. The cost model is "
        f"within {format_percent(TOLERANCE)} in {format_percent(record.within)} of the loops",
        f"{format_count(kept, 'loop')} with multiply-adds limited by something else, "
        f"{spilling} with spills",
    ]


def _row(loop: LoopPorts, operations: tuple[str, ...]) -> Row:
    path = " > ".join(loop.loop)
    return Row(
        operations=operations,
        title=f"{loop.kernel}: {path}",
        details=_details(loop),
        cells={
            "kernel": loop.kernel,
            "loop": path,
            "share": loop.share,
            "cycles": Cell(value=loop.cycles, exact=f"{loop.bound:.1f} if nothing waited"),
            "limit": loop.limit,
            "predicted": Cell(
                value=loop.predicted_cycles, exact=f"limited by {loop.predicted_bound}"
            ),
            "error": Cell(value=abs(loop.error), text=f"{loop.error:+.0%}"),
            "peak": loop.peak_cycles / loop.cycles if loop.peak_cycles and loop.cycles else None,
            "spills": loop.spills or None,
        },
    )


def _details(loop: LoopPorts) -> tuple[Part, ...]:
    """Instructions by kind, cycles by port, and the instructions themselves."""
    counts = ", ".join(f"{count:g} {kind}" for kind, count in loop.counts)
    if loop.merged > 1:
        counts += f"; the compiler wrote {loop.merged} iterations into one"
    busiest = max((used for _, used in loop.ports), default=0.0) or 1.0
    table = TableSpec(
        title="cycles of an iteration by port",
        columns=(
            Column(key="port", title="port", format="name"),
            Column(key="cycles", title="cycles", format="decimal", moves="seconds"),
        ),
        rows=tuple(
            Row(cells={"port": name, "cycles": Cell(value=used, share=used / busiest)})
            for name, used in loop.ports
        ),
    )
    return (Text(text=counts), table, Code(lines=loop.text))


VIEW = View(
    name="ports",
    title="what limits every hot loop on the ports of a core",
    needs=("ports",),
    specification=ports,
    json=lambda trace, _: trace.ports,
    pane=Pane(moves="seconds", key="l", is_optional=True),
)
