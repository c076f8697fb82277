"""Layers of a machine with counted cycles: predicted, simulated, and at their roofline.

Layers: 15,606 cycles on simulator of vta-16, predicted exactly; 17 % of the array used
  layer   kind                 predicted  simulated  array used    bytes  of its roof  roof
  conv10  conv 3x3 + requan…       2,351      2,351       1.5 %  1.2 KiB        4.1 %  matrix …
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set

from explorer.results import Trace
from explorer.results.runs.counted import CountedLayer, CountedRun
from explorer.views.fixed_numbers import COST_MODEL, KIND
from explorer.views.numbers import (
    format_bytes,
    format_change,
    format_count,
    format_exact,
    format_percent,
    format_picojoules,
)
from explorer.views.payload.counted_layers import layers_payload
from explorer.views.specification import (
    Cell,
    Column,
    Part,
    Row,
    Section,
    Specification,
    TableSpec,
)
from explorer.views.view import JAVASCRIPT, Pane, View

COLUMNS = (
    Column(key="layer", title="layer", format="layer"),
    Column(key="kind", title="kind", moves=KIND),
    Column(
        key="predicted",
        title="predicted",
        format="count",
        hint="cycles by the layer's tiles, without running",
        moves="cycles",
    ),
    Column(
        key="simulated",
        title="simulated",
        format="count",
        hint="cycles from its first instruction to the end of its last one",
        moves="cycles",
    ),
    Column(
        key="off",
        title="off",
        format="count",
        hint="predicted less simulated cycles",
        is_for_page=True,
        moves=COST_MODEL,
    ),
    Column(
        key="share",
        title="share",
        format="percent",
        hint="of all cycles",
        is_for_page=True,
        moves="cycles",
    ),
    Column(
        key="array",
        title="array used",
        format="percent",
        hint="multiply-accumulates of the model over what the array could have done",
        moves="cycles",
    ),
    Column(
        key="bytes",
        title="bytes",
        format="bytes",
        hint="between global memory and scratchpads",
        moves="traffic_bytes",
    ),
    Column(
        key="energy",
        title="energy",
        format="picojoules",
        hint="of engines, scratchpads and memories, by the target's figures or estimates",
        moves="energy_picojoules",
    ),
    Column(
        key="of_roof",
        title="of its roof",
        format="percent",
        hint="the cycles that its multiply-accumulates or its bytes take at least, over its own",
        moves="cycles",
    ),
    Column(key="roof", title="roof"),
    Column(
        key="of_bound",
        title="of its bound",
        format="percent",
        hint="the cycles that no tiles go below, with weights, inputs and outputs moved once",
        moves="cycles",
    ),
    Column(
        key="group",
        title="group",
        format="count",
        hint="of layers between which tensors stay on the chip: the number of the group",
        is_for_page=True,
        moves="traffic_bytes",
    ),
    Column(
        key="arranged",
        title="arranged",
        hint="its input or result, which the host writes or reads in that form",
        is_for_page=True,
        moves="cycles",
    ),
    Column(
        key="kept",
        title="kept",
        format="bytes",
        hint="of its result, which stays on the chip until its last reader has run",
        is_for_page=True,
        moves="traffic_bytes",
    ),
)
ARRANGING = ("npu.unfold", "npu.permute")
"""Operations that the host does where it writes an input or reads a result."""
MAX_USES = 24
"""Buffers of a layer that text and HTML list: the first ones."""


def layers(trace: Trace, index: int = -1) -> Specification:
    """A row for every layer; then of each what its queues and buffers were predicted to do."""
    run = counted_of(trace)
    groups, arranged = _groups(run), _arranged(trace, run)
    longest = max(run.layers, key=lambda layer: layer.cycles, default=None)
    table = TableSpec(
        title="layers",
        columns=COLUMNS,
        rows=tuple(_row(layer, run, groups, arranged) for layer in run.layers),
        max_rows=10_000,
    )
    sections = (_section(layer, is_folded=layer is not longest) for layer in run.layers)
    parts: tuple[Part, ...] = (table, *(section for section in sections if section.parts))
    return Specification(title="Layers", subtitle=_summary(trace, run), parts=parts)


def counted_of(trace: Trace) -> CountedRun:
    """The counted run of a trace that has one."""
    assert trace.profile is not None and trace.profile.counted is not None, "the view needs it"
    return trace.profile.counted


def _summary(trace: Trace, run: CountedRun) -> str:
    device = trace.profile.device if trace.profile else ""
    predicted = "not predicted, for instructions were edited"
    if run.predicted_cycles is not None:
        is_exact = run.predicted_cycles == run.cycles
        predicted = "predicted exactly" if is_exact else f"{run.predicted_cycles:,} predicted"
    kept = [layer for layer in run.layers if layer.kept_bytes]
    stays = f"; {format_count(len(kept), 'result')} kept on the chip" if kept else ""
    coded, decoded = run.coded_weights
    if coded:
        stays += f"; {format_bytes(coded)} of coded weights for {format_bytes(decoded)}"
    return (
        f"{format_count(run.cycles, 'cycle')} on {device}, {predicted}; "
        f"{format_percent(run.utilization)} of the array used, padding included{stays}"
    )


def _groups(run: CountedRun) -> Mapping[str, Cell]:
    """The group of every layer that has one of several layers, by its operation."""
    found: dict[str, Cell] = {}
    several = [members for members in run.groups if len(members) > 1]
    for number, members in enumerate(several, 1):
        for place, operation in enumerate(members, 1):
            found[operation] = Cell(
                value=number,
                text=f"{number}: {place} of {len(members)}",
                exact=", ".join(members),
            )
    return found


def _arranged(trace: Trace, run: CountedRun) -> Mapping[str, str]:
    """What the host does with inputs and results of layers, by the layer; other views and casts
    may lie between the two."""
    if not trace.snapshots:
        return {}
    graph = trace.snapshots[-1].graph
    layers = {layer.operation for layer in run.layers}
    ends = {node.id for node in graph.nodes if node.family in ("transfer", "input", "output")}
    after: dict[str, list[str]] = {}
    before: dict[str, list[str]] = {}
    for edge in graph.edges:
        after.setdefault(edge.source, []).append(edge.target)
        before.setdefault(edge.target, []).append(edge.source)
    found: dict[str, list[str]] = {}
    for node in graph.nodes:
        if node.operation in ARRANGING:
            for ways in (after, before):
                for operation in _reached(node.id, ways, layers, ends):
                    found.setdefault(operation, []).append(node.label)
    return {operation: "; ".join(dict.fromkeys(names)) for operation, names in found.items()}


def _reached(
    start: str, ways: Mapping[str, Sequence[str]], layers: Set[str], ends: Set[str]
) -> Iterator[str]:
    """The first layers on all ways from an operation, which do not leave the machine."""
    seen, left = {start}, [start]
    while left:
        for there in ways.get(left.pop(), ()):
            if there in layers:
                yield there
            elif there not in seen and there not in ends:
                seen.add(there)
                left.append(there)


def _row(
    layer: CountedLayer,
    run: CountedRun,
    groups: Mapping[str, Cell],
    arranged: Mapping[str, str],
) -> Row:
    cycles = max(layer.cycles, 1)
    possible = run.peak_macs_per_cycle * cycles
    predicted = None if layer.predicted is None else layer.predicted.cycles
    off = None if predicted is None else abs(predicted - layer.cycles)
    return Row(
        operations=(layer.operation,),
        cells={
            "layer": layer.operation,
            "kind": layer.title,
            "predicted": predicted,
            "simulated": layer.cycles,
            "off": Cell(
                value=off,
                text="" if predicted is None else format_change(layer.cycles, predicted),
            ),
            "share": layer.cycles / max(run.cycles, 1),
            "array": Cell(
                value=layer.macs / possible,
                exact=f"{format_count(layer.macs, 'multiply-accumulate')} of the model, "
                f"{format_exact(layer.array_macs)} of the array with its padding, of "
                f"{possible:,.0f} possible",
            ),
            "bytes": Cell(
                value=layer.bytes,
                exact=", ".join(f"{name} {size:,}" for name, size in layer.memory_bytes)
                + (
                    f"; coded weights {layer.coded_bytes:,} for {layer.decoded_bytes:,}"
                    if layer.coded_bytes
                    else ""
                ),
            ),
            "energy": Cell(
                value=layer.energy_picojoules if layer.energy else None,
                exact=", ".join(f"{part} {format_picojoules(pj)}" for part, pj in layer.energy),
            ),
            "group": groups.get(layer.operation),
            "arranged": arranged.get(layer.operation),
            "kept": layer.kept_bytes,
            "of_bound": Cell(
                value=None if layer.bound_cycles is None else layer.bound_cycles / cycles,
                exact=""
                if layer.bound_bytes is None
                else f"{layer.bound_cycles:,.0f} cycles, {layer.bound_bytes:,} bytes at least",
            ),
            "of_roof": Cell(
                value=layer.least_cycles / cycles,
                exact=f"{layer.least_cycles:,.0f} cycles at the target's peaks",
            ),
            "roof": layer.bound,
        },
    )


def _section(layer: CountedLayer, is_folded: bool) -> Section:
    parts: tuple[Part, ...] = ()
    if layer.predicted is not None:
        parts += (_terms(layer),)
    if layer.uses:
        parts += (_uses(layer),)
    title = layer.operation + ("" if is_folded else ", the longest, as predicted")
    return Section(title=title, parts=parts, is_folded=is_folded, is_for_page=False)


def _terms(layer: CountedLayer) -> TableSpec:
    """Of every queue what it does, then what it waits for."""
    assert layer.predicted is not None
    rows = []
    for queue, _ in layer.busy:
        rows += [
            {
                "queue": queue,
                "what": term.name.replace("_", " "),
                "count": term.count,
                "cycles": term.cycles,
                "why": term.why,
            }
            for term in layer.predicted.terms
            if term.queue == queue
        ]
        rows += [
            {"queue": queue, "what": f"waits for {cause}", "cycles": cycles}
            for name, cause, cycles in layer.predicted.waits
            if name == queue
        ]
    return TableSpec(
        title=f"queues of {layer.operation}",
        columns=(
            Column(key="queue", title="queue"),
            Column(key="what", title="what"),
            Column(key="count", title="times", format="count", moves="cycles"),
            Column(key="cycles", title="cycles", format="count", moves="cycles"),
            Column(key="why", title="why"),
        ),
        rows=tuple(Row(cells=row) for row in rows),
    )


def _uses(layer: CountedLayer) -> TableSpec:
    """What lies in scratchpads, in the order in which it begins."""
    rows = (
        {
            "scratchpad": use.scratchpad,
            "content": use.content.replace("_", " "),
            "elements": f"{use.first_element:,} to {use.last_element:,}",
            "offset": use.offset_bytes,
            "size": use.size_bytes,
            "start": use.start_cycle,
            "ready": use.ready_cycle,
            "end": use.end_cycle,
        }
        for use in layer.uses
    )
    return TableSpec(
        title=f"scratchpads during {layer.operation}",
        columns=(
            Column(key="scratchpad", title="scratchpad"),
            Column(key="content", title="content"),
            Column(key="elements", title="elements"),
            Column(key="offset", title="from byte", format="count", moves="cycles"),
            Column(key="size", title="bytes", format="count", moves="cycles"),
            Column(key="start", title="from cycle", format="count", moves="cycles"),
            Column(key="ready", title="ready", format="count", moves="cycles"),
            Column(key="end", title="to", format="count", moves="cycles"),
        ),
        rows=tuple(Row(cells=row) for row in rows),
        max_rows=MAX_USES,
    )


VIEW = View(
    name="layers",
    title="cycles of every layer, predicted and simulated, and how near it is to its roof",
    needs=("profile", "counted"),
    specification=layers,
    json=lambda trace, _: counted_of(trace),
    payload=layers_payload,
    pane=Pane(
        moves="cycles",
        module=JAVASCRIPT / "measures" / "layers.js",
        function="layersView",
        key="v",
        is_optional=True,
    ),
)
