"""Which device runs every operation, at what price, and why not elsewhere.

operation  device   cpu       opencl      cluster
conv7      cpu      2.1 µs    1.9 µs      price:conv7
sort1      cpu      4.0 µs    – refused
"""

from __future__ import annotations

from explorer.results import Trace
from explorer.results.placement import PART, OperationPlacement, PlacementRecord
from explorer.views.numbers import format_bytes, format_seconds
from explorer.views.parts_by_device import device_chart
from explorer.views.specification import (
    Cell,
    Column,
    Facts,
    Own,
    Part,
    Row,
    Specification,
    TableSpec,
    Text,
    Value,
)
from explorer.views.view import JAVASCRIPT, Pane, View


def placement(trace: Trace, index: int = -1) -> Specification:
    """The sum, the matrix of operations and devices, parts, transfers, and other bandwidths."""
    record = trace.part(PART, PlacementRecord)
    assert record is not None  # it needs the part
    parts: list[Part] = [_facts(record), matrix(record)]
    if record.parts:
        if trace.program is not None:
            parts.append(device_chart(record.parts, trace.program.transfers))
        parts += [_functions(record), _transfers(record)]
    if record.bandwidths:
        parts.append(_bandwidth_slider(record))
    if record.edges:
        parts.append(_edges(record))
    return Specification(title="placement", parts=tuple(parts))


def _facts(record: PlacementRecord) -> Part:
    chosen = record.assignment
    if chosen is None:
        return Text(text="one target was given: nothing was chosen")
    unit = "J" if chosen.objective == "energy" else ""
    text = (lambda n: f"{n:.3g} J") if unit else format_seconds
    rows = [
        ("predicted", text(chosen.seconds)),
        ("bound", "proven the least" if chosen.optimal else f"at least {text(chosen.bound)}"),
        *((f"{device} alone", text(seconds)) for device, seconds in chosen.single),
    ]
    if chosen.greedy is not None:
        rows.append(("best greedy rule", text(chosen.greedy)))
    rows += [
        (
            f"{link.source} to {link.target}",
            "the same memory"
            if link.bytes_per_second is None and not link.latency_seconds
            else f"{format_seconds(link.latency_seconds)}"
            + (
                f" and {format_bytes(int(link.bytes_per_second))} per second"
                if link.bytes_per_second
                else ""
            )
            + f" ({link.price})",
        )
        for link in record.links
    ]
    return Facts(rows=tuple(rows))


def matrix(record: PlacementRecord) -> TableSpec:
    """A row per operation, a column per device: the price, its source, or the refusal."""
    columns = (
        Column(key="operation", title="operation", format="layer"),
        Column(key="device", title="device", format="name", hint="where it runs"),
        *(
            Column(
                key=f"on {device}",
                title=device,
                format="seconds",
                hint="predicted",
                moves="seconds",
            )
            for device in record.targets
        ),
        Column(key="cluster", title="cluster", format="name", hint="runs on one device"),
    )
    rows = tuple(
        Row(
            cells={
                "operation": op.operation,
                "device": op.device,
                **{f"on {device}": _price(op, device) for device in record.targets},
                "cluster": op.cluster,
            },
            operations=(op.operation,),
        )
        for op in record.operations
    )
    return TableSpec(title="operations and devices", columns=columns, rows=rows)


def _price(op: OperationPlacement, device: str) -> Value | Cell:
    for price in op.prices:
        if price.device == device:
            return Cell(value=price.seconds, exact=price.source)
    reason = next((text for name, text in op.refusals if name in (device, "host")), "")
    return Cell(value=None, text="refused", exact=reason)


def _functions(record: PlacementRecord) -> TableSpec:
    rows = tuple(
        Row(
            cells={
                "function": part.function,
                "device": part.device,
                "operations": len(part.operations),
                "predicted": None if part.predicted_us is None else part.predicted_us * 1e-6,
                "arena": part.arena_bytes,
                "reason": part.reason,
            },
            operations=part.operations,
        )
        for part in record.parts
    )
    columns = (
        Column(key="function", title="function", format="name"),
        Column(key="device", title="device", format="name"),
        Column(key="operations", title="operations", format="count", moves="seconds"),
        Column(key="predicted", title="predicted", format="seconds", moves="seconds"),
        Column(key="arena", title="memory", format="bytes", moves="peak_bytes"),
        Column(key="reason", title="reason"),
    )
    return TableSpec(title="functions in the order in which they run", columns=columns, rows=rows)


def _transfers(record: PlacementRecord) -> Part:
    largest = max((sent.size_bytes or 0 for sent in record.transfers), default=0)
    if not record.transfers:
        return Text(text="nothing is transferred")
    rows = tuple(
        Row(
            cells={
                "value": sent.value,
                "from": sent.source,
                "to": sent.target,
                "bytes": Cell(
                    value=sent.size_bytes,
                    share=None if not largest else (sent.size_bytes or 0) / largest,
                ),
                "predicted": None if sent.predicted_us is None else sent.predicted_us * 1e-6,
                "price": sent.price,
            },
            operations=(sent.value,),
        )
        for sent in record.transfers
    )
    columns = (
        Column(key="value", title="value", format="layer"),
        Column(key="from", title="from", format="name"),
        Column(key="to", title="to", format="name"),
        Column(key="bytes", title="bytes", format="bytes", moves="seconds"),
        Column(key="predicted", title="predicted", format="seconds", moves="seconds"),
        Column(key="price", title="price", hint="where the number is from"),
    )
    return TableSpec(title="transfers", columns=columns, rows=rows)


def _bandwidth_slider(record: PlacementRecord) -> Own:
    """The page has a slider; the table elsewhere has a row for each of its places."""
    points = record.bandwidths
    largest = max(point.seconds for point in points) or 1.0
    data = {
        "points": [
            {
                "factor": f"×{point.factor:.2g}",
                "share": point.seconds / largest,
                "time": format_seconds(point.seconds),
                "words": ", ".join(
                    [
                        format_seconds(point.seconds),
                        *(f"{count} on {device}" for device, count in point.counts),
                        f"{format_bytes(point.transferred_bytes)} transferred",
                    ]
                ),
            }
            for point in points
        ],
        "start": min(range(len(points)), key=lambda number: abs(points[number].factor - 1)),
    }
    return Own(name="bandwidths", data=data, parts=(_bandwidths(record),))


def _bandwidths(record: PlacementRecord) -> TableSpec:
    rows = tuple(
        Row(
            cells={
                "factor": f"×{point.factor:g}",
                "predicted": point.seconds,
                **{f"on {device}": dict(point.counts).get(device, 0) for device in record.targets},
                "bytes": point.transferred_bytes,
            }
        )
        for point in record.bandwidths
    )
    columns = (
        Column(key="factor", title="bandwidth", hint="of all transfers, compared with the prices"),
        Column(key="predicted", title="predicted", format="seconds", moves="seconds"),
        *(
            Column(
                key=f"on {device}", title=device, format="count", hint="operations", moves="seconds"
            )
            for device in record.targets
        ),
        Column(key="bytes", title="transferred", format="bytes", moves="seconds"),
    )
    return TableSpec(title="where the cut moves with the bandwidth", columns=columns, rows=rows)


def _edges(record: PlacementRecord) -> TableSpec:
    rows = tuple(
        Row(
            cells={"maker": edge.maker, "reader": edge.reader, "reason": edge.reason},
            operations=(edge.maker, edge.reader),
        )
        for edge in record.edges
    )
    columns = (
        Column(key="maker", title="from", format="layer"),
        Column(key="reader", title="to", format="layer"),
        Column(key="reason", title="not joined, because of"),
    )
    return TableSpec(title="edges between clusters", columns=columns, rows=rows)


VIEW = View(
    name="placement",
    title="which device runs what, at what price",
    specification=placement,
    needs=("placement",),
    json=lambda trace, _: trace.part(PART, PlacementRecord),
    pane=Pane(
        moves="seconds",
        module=JAVASCRIPT / "measures" / "bandwidth_slider.js",
        function="placementPane",
        key="D",
        is_optional=True,
    ),
)
