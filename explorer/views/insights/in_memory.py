"""Insights about memory: what is kept for long, and what is only there to fill up blocks."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from explorer.results import BufferLifetime, MemoryPlan, Trace
from explorer.views.insights.insight import Insight
from explorer.views.numbers import format_bytes, format_count, format_percent
from explorer.views.specification import Link

LONG = 0.5
"""A buffer that lives in more than this share of the steps lives long."""
NOTABLE = 0.05
"""Of the peak, or of all activations: less is not worth a word."""
MOST = 5


def kept_through_the_peak(trace: Trace) -> Iterator[Insight]:
    """Buffers that live in most steps, and at the fullest one. What is made from nothing could be
    made later."""
    plan = trace.memory
    if plan is None or not plan.live_bytes or not plan.peak_bytes:
        return
    peak = plan.live_bytes.index(max(plan.live_bytes))
    ports = _ports(trace)
    fed = {edge.target for edge in trace.snapshots[-1].graph.edges} if trace.snapshots else set()
    long = [
        placed.buffer
        for placed in plan.placements
        if placed.buffer.first <= peak < placed.buffer.last
        and placed.buffer.last - placed.buffer.first > max(LONG * len(plan.steps), 2)
        and placed.buffer.size_bytes > NOTABLE * plan.peak_bytes
        and ports.isdisjoint(placed.buffer.values)
    ]
    for buffer in sorted(long, key=lambda b: -b.size_bytes)[:MOST]:
        maker = buffer.values[0]
        is_constant = maker in set(plan.steps) and maker not in fed
        yield Insight(
            name="kept-through-the-peak",
            text=_kept(trace, plan, buffer, is_constant),
            effect=f"{format_bytes(buffer.size_bytes)} of {format_bytes(plan.peak_bytes)}",
            share=buffer.size_bytes / plan.peak_bytes * (1.0 if is_constant else 0.5),
            place=Link(dock="memory", selection=maker, pass_name=trace.passes[-1].name),
            layers=(maker,),
        )


def _kept(trace: Trace, plan: MemoryPlan, buffer: BufferLifetime, is_constant: bool) -> str:
    lived = f"{buffer.last - buffer.first} of {format_count(len(plan.steps), 'step')}"
    text = f"{buffer.values[0]} lives in {lived}, the fullest one among them"
    read = _first_read(trace, buffer)
    if read is not None and read > buffer.first + 1:
        text += f", and is first read in step {read}"
    if is_constant:
        return f"{text}. It is made from nothing: what is made later is kept for less long."
    return f"{text}. Whatever is placed meanwhile lies beside it."


def _first_read(trace: Trace, buffer: BufferLifetime) -> int | None:
    """The step in which something else first reads a buffer; None where nobody says."""
    launches = () if trace.program is None else trace.program.launches
    edges = trace.snapshots[-1].graph.edges if trace.snapshots else ()
    readers = {edge.target for edge in edges if edge.source in buffer.values}
    found = [i for i, launch in enumerate(launches) if launch.operation in readers]
    return min(found, default=None)


def _ports(trace: Trace) -> set[str]:
    """Values that the caller gives or gets: they have no choice."""
    nodes = trace.snapshots[-1].graph.nodes if trace.snapshots else ()
    edges = trace.snapshots[-1].graph.edges if trace.snapshots else ()
    ends = {node.id for node in nodes if node.family in ("input", "output", "transfer")}
    return ends | {edge.source for edge in edges if edge.target in ends}


def padding(trace: Trace) -> Iterator[Insight]:
    """Values whose layout takes far more bytes than their elements."""
    program = trace.program
    if program is None or not program.taps:
        return
    waste: dict[str, tuple[int, int]] = {}
    for tap in program.taps:
        stored, logical = prod(tap.shape), prod(tap.logical_shape)
        if tap.block and stored > logical > 0:
            waste[tap.operation] = (tap.size_bytes * (stored - logical) // stored, tap.size_bytes)
    total = sum(tap.size_bytes for tap in program.taps)
    lost = sum(empty for empty, _ in waste.values())
    if not total or lost < NOTABLE * total:
        return
    worst = max(waste, key=lambda name: waste[name][0])
    empty, size = waste[worst]
    yield Insight(
        name="padding",
        text=f"Padding to whole blocks of channels, or for halos, takes bytes of "
        f"{format_count(len(waste), 'value')}; the most in {worst}: "
        f"{format_percent(empty / size)} of {format_bytes(size)}.",
        effect=f"{format_bytes(lost)} of {format_bytes(total)} of all activations",
        share=lost / total * 0.5,
        place=Link(dock="memory", selection=worst),
        layers=(worst,),
    )
