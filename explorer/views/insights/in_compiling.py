"""Insights about what the compiler did not do: what was not fused, copies made twice, the host."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from explorer.results import GraphNode, Trace
from explorer.views.insights.insight import Insight
from explorer.views.numbers import (
    format_bytes,
    format_count,
    format_nanoseconds,
    format_percent,
)
from explorer.views.specification import Link

FUSING = "fuse-"
"""What passes are called that make one operation of several."""
MOST = 5
NOTABLE = 0.01


def not_fused(trace: Trace) -> Iterator[Insight]:
    """Candidates that a fusing pass declined and that run as kernels of their own."""
    launched = {} if trace.program is None else {o.operation: o for o in trace.program.launches}
    total, times = _times(trace)
    sizes = _sizes(trace)
    refused: dict[tuple[str, str], list[tuple[str, int, str]]] = defaultdict(list)
    for record in trace.passes:
        if not record.name.startswith(FUSING):
            continue
        for number, event in enumerate(record.events):
            if not event.applied and event.site in launched:
                refused[record.name, event.reason].append((event.site, number, event.rule))
    found = []
    for (pass_name, reason), sites in refused.items():
        names = dict.fromkeys(site for site, _, _ in sites)
        time = sum(times.get(name, 0) for name in names)
        traffic = 2 * sum(sizes.get(name, 0) for name in names)  # written, and read again
        share = time / total if total else traffic / max(2 * sum(sizes.values()), 1)
        if share < NOTABLE:
            continue
        site, number, _ = max(sites, key=lambda s: (times.get(s[0], 0), sizes.get(s[0], 0)))
        others = f" and {format_count(len(names) - 1, 'other')}" if len(names) > 1 else ""
        effect = (
            f"{format_nanoseconds(time)} of {format_nanoseconds(total)}"
            if total
            else f"{format_bytes(traffic)} written and read again"
        )
        verb = "run" if len(names) > 1 else "runs"
        found.append(
            Insight(
                name="not-fused",
                text=f"{site}{others} {verb} as a kernel of its own: {pass_name} declined, for "
                f"{reason}.",
                effect=effect,
                share=share,
                place=Link(pass_name=pass_name, selection=site, event=number, dock="rewrites"),
                layers=(site,),
            )
        )
    yield from sorted(found, key=lambda insight: -insight.share)[:MOST]


def copied_twice(trace: Trace) -> Iterator[Insight]:
    """Values that are copied into one layout more than once, or into one and on into another."""
    if not trace.snapshots:
        return
    graph = trace.snapshots[-1].graph
    nodes = {node.id: node for node in graph.nodes}
    inputs = {edge.target: edge.value for edge in graph.edges if _is_conversion(nodes[edge.target])}
    sizes = _sizes(trace)
    everything = sum(sizes.values())
    alike: dict[tuple[str, str], list[str]] = defaultdict(list)
    for copy, value in inputs.items():
        alike[value, nodes[copy].shape].append(copy)
    for (value, shape), made in alike.items():
        if len(made) > 1:
            text = f"{value} is copied into {shape} {len(made)} times"
            yield _again(made, text, value, sizes, everything)
    for copy, value in inputs.items():
        if value in inputs:
            source = inputs[value]
            text = f"{source} is copied into {nodes[value].shape} as {value}"
            text = f"{text}, and that into {nodes[copy].shape}"
            yield _again([value, copy], text, source, sizes, everything)


def _again(
    made: list[str], text: str, source: str, sizes: dict[str, int], everything: int
) -> Insight:
    repeated = sum(sizes.get(copy, 0) for copy in made[1:])
    return Insight(
        name="copied-twice",
        text=f"{text}: {', '.join(made[:4])}. One copy would do.",
        effect=f"{format_bytes(repeated)} written and read again",
        share=repeated / everything if everything else 0.0,
        place=Link(pass_name="", selection=made[-1], dock="memory"),
        layers=(source, *made),
    )


def on_the_host(trace: Trace) -> Iterator[Insight]:
    """Parts of the program that no device runs, and why."""
    program = trace.program
    if program is None or not trace.snapshots:
        return
    reasons = {
        node.id: dict(node.attributes).get("on the host", "")
        for node in trace.snapshots[-1].graph.nodes
    }
    named: dict[str, list[str]] = defaultdict(list)
    for identity, reason in reasons.items():
        if reason:
            named[reason].append(identity)
    moved = sum(t.size_bytes for t in program.transfers if t.source and t.destination)
    count = len(trace.snapshots[-1].graph.nodes)
    for reason, operations in sorted(named.items(), key=lambda item: -len(item[1]))[:MOST]:
        others = f" and {len(operations) - 1} more" if len(operations) > 1 else ""
        share = len(operations) / count
        yield Insight(
            name="on-the-host",
            text=f"{operations[0]}{others} {'run' if others else 'runs'} on the host, "
            f"{format_percent(share)} of all operations: {reason}.",
            effect=f"{format_bytes(moved)} go between parts"
            if moved
            else format_count(len(operations), "operation"),
            share=max(share, 0.2),
            place=Link(selection=operations[0], tab="operation"),
            layers=(operations[0],),
        )


def _is_conversion(node: GraphNode) -> bool:
    """A copy into another layout, before or after kernels are made of operations."""
    return node.operation == "top.convert_layout" or (
        "top.convert_layout" in dict(node.attributes).values()
    )


def _times(trace: Trace) -> tuple[int, dict[str, int]]:
    """Nanoseconds of all launches, and of each operation."""
    times: dict[str, int] = defaultdict(int)
    for event in () if trace.profile is None else trace.profile.launches:
        if event.operation:
            times[event.operation] += event.end_ns - event.start_ns
    return sum(times.values()), times


def _sizes(trace: Trace) -> dict[str, int]:
    """Bytes of the buffer of every operation's result."""
    placements = () if trace.memory is None else trace.memory.placements
    return {placed.buffer.values[0]: placed.buffer.size_bytes for placed in placements}
