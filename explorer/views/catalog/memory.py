"""A memory plan as a map: steps from left to right, addresses from bottom to top.

    peak 32 KiB, bound 32 KiB (proven optimal), 78 KiB without sharing
      step  launch    live
         0  pack_1    11 KiB  ██████▉
         1  conv_1    24 KiB  ███████████████

Every box is a buffer: as wide as it lives, as high as it is large.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from explorer.results import Trace
from explorer.results.memory import (
    BufferLifetime,
    FitStep,
    MemoryPlan,
    PlacedBuffer,
    RefusedPlacement,
    memories_of,
)
from explorer.views.numbers import format_bytes, format_count, format_percent, format_seconds
from explorer.views.parts import svg
from explorer.views.parts.markup import plain
from explorer.views.parts.plain import bar, columns
from explorer.views.payload.text import Json
from explorer.views.specification import (
    Cell,
    ChartSpec,
    Column,
    Label,
    Line,
    Mark,
    Part,
    Rect,
    Row,
    Section,
    Specification,
    TableSpec,
    Text,
)
from explorer.views.theme import FAMILIES, family
from explorer.views.view import JAVASCRIPT, Pane, View

WIDTH, HEIGHT = 720.0, 260.0
LEFT, RIGHT, TOP, BOTTOM = 64.0, 12.0, 20.0, 40.0
FLOOR = HEIGHT - BOTTOM
MAX_BUFFERS = 1500
"""Of the map."""
MAX_STEPS = 40
MAX_LARGEST = 5
LARGEST = (
    Column(key="buffer", title="buffer", format="name"),
    Column(key="size", title="size", format="bytes", moves="peak_bytes"),
    Column(key="offset", title="at byte", format="count", moves="peak_bytes"),
    Column(key="steps", title="steps"),
)
STRATEGIES = (
    Column(key="chosen", title="", format="name"),
    Column(key="strategy", title="strategy"),
    Column(key="peak", title="peak", format="bytes", moves="peak_bytes"),
)
MEMORIES = (
    Column(key="memory", title="memory", format="name"),
    Column(key="peak", title="peak", format="bytes", moves="peak_bytes"),
    Column(key="buffers", title="buffers", format="count", moves="peak_bytes"),
)
FIT = (
    Column(key="taken", title="", format="name"),
    Column(key="address", title="decision", format="name"),
    Column(key="before", title="before", format="bytes", moves="peak_bytes"),
    Column(key="after", title="after", format="bytes", moves="peak_bytes"),
    Column(key="time", title="adds", format="seconds", moves="seconds"),
    Column(key="reason", title="why"),
)
REFUSED = (
    Column(key="buffer", title="refused", format="name"),
    Column(key="offset", title="at byte", format="count", moves="peak_bytes"),
    Column(key="obstacle", title="in the way", format="name"),
    Column(key="overlap", title="overlap", format="bytes", moves="peak_bytes"),
)


def memory(trace: Trace, index: int = -1) -> Specification:
    """The plan of a trace, with the family of what makes every buffer."""
    assert trace.memory is not None, "the view needs it"
    nodes = trace.snapshots[-1].graph.nodes if trace.snapshots else ()
    return planned(trace.memory, {node.id: node.family for node in nodes})


def planned(plan: MemoryPlan, families: Mapping[str, str] | None = None) -> Specification:
    """The map, the largest buffers, and what was tried. `families`: of operations by identity."""
    return Specification(
        title="Memory", subtitle=_summary(plan), parts=tuple(_parts(plan, families or {}))
    )


def _summary(plan: MemoryPlan) -> str:
    rest = (
        f"{format_bytes(plan.total_bytes)} without sharing, "
        f"{format_count(len(plan.placements), 'buffer')}"
    )
    if memories := memories_of(plan):
        of_each = ", ".join(f"{m.name} {format_bytes(m.size_bytes)}" for m in memories)
        return f"peak {format_bytes(plan.peak_bytes)} ({of_each}), {rest}"
    if plan.optimal:
        proof = "proven optimal"
    elif plan.bound_bytes > 0:
        over = plan.peak_bytes / plan.bound_bytes - 1
        proof = f"at most {format_percent(over)} above the smallest possible"
    else:
        proof = "not proven optimal"
    return (
        f"peak {format_bytes(plan.peak_bytes)}, bound {format_bytes(plan.bound_bytes)} ({proof}), "
        f"{rest}"
    )


def _parts(plan: MemoryPlan, families: Mapping[str, str]) -> Iterator[Part]:
    yield memory_map(plan, families)
    if len(plan.placements) > MAX_BUFFERS:
        yield Text(
            text=f"The map shows the {MAX_BUFFERS} largest of {len(plan.placements)} buffers: "
            "plan.placements holds all."
        )
    largest = sorted(plan.placements, key=lambda p: (-p.buffer.size_bytes, p.buffer.first))
    rows = tuple(map(_buffer, largest[:MAX_LARGEST]))
    yield Section(
        title="Largest buffers", parts=(TableSpec(title="buffers", columns=LARGEST, rows=rows),)
    )
    inside = [(part, p.buffer.id) for p in plan.placements for part in p.buffer.parts]
    if inside:
        part, buffer = inside[0]
        count = format_count(len(inside), "value lies", "values lie")
        yield Text(
            text=f"{count} in some bytes of another one's buffer, and need no copy: {part.value} "
            f"at byte {part.offset_bytes:,} of {buffer}" + (", ..." if len(inside) > 1 else "")
        )
    yield from _explained(plan)
    if plan.refusals:
        yield _refused(plan)


def _explained(plan: MemoryPlan) -> Iterator[Section]:
    """What is known besides the map: memories, levers and strategies with their price."""
    if memories := memories_of(plan):
        rows = tuple(
            Row(cells={"memory": m.name, "peak": m.size_bytes, "buffers": m.buffers})
            for m in memories
        )
        table = TableSpec(title="memories", columns=MEMORIES, rows=rows)
        yield Section(title="Memories", parts=(table,))
    if plan.fit:
        taken = format_count(sum(step.taken for step in plan.fit), "decision")
        yield Section(
            title=f"To fit the budget: {taken} of {len(plan.fit)} tried",
            parts=(TableSpec(title="levers", columns=FIT, rows=tuple(map(_lever, plan.fit))),),
        )
    yield from _tried(plan)


def _lever(step: FitStep) -> Row:
    value = "none" if step.value is None else str(step.value)
    return Row(
        cells={
            "taken": "✓" if step.taken else "",
            "address": Cell(value=step.address, exact=f"{step.lever}: {step.address} = {value}"),
            "before": step.bytes_before,
            "after": step.bytes_after,
            "time": step.microseconds * 1e-6,
            "reason": step.reason or ("taken" if step.taken else ""),
        }
    )


def _tried(plan: MemoryPlan) -> Iterator[Section]:
    """The strategies with the peak of each; nothing where none is known."""
    chosen = plan.chosen_attempt
    if chosen is None:
        return
    most = max(attempt.peak_bytes for attempt in plan.attempts) or 1
    rows = tuple(
        Row(
            cells={
                "chosen": "✓" if index == chosen else "",
                "strategy": attempt.strategy,
                "peak": Cell(
                    value=attempt.peak_bytes,
                    exact=f"{attempt.peak_bytes:,} bytes, in {format_seconds(attempt.seconds)}",
                    share=attempt.peak_bytes / most,
                ),
            }
        )
        for index, attempt in enumerate(plan.attempts)
    )
    count = format_count(len(plan.attempts), "strategy", "strategies")
    parts: tuple[Part, ...] = (TableSpec(title="strategies", columns=STRATEGIES, rows=rows),)
    if plan.optimal:
        words = "The last one reached the least possible, so that no other was tried."
        parts += (Text(text=words),)
    title = f"{count} tried; chosen: {plan.attempts[chosen].strategy}"
    yield Section(title=title, parts=parts)


def _buffer(placed: PlacedBuffer) -> Row:
    first, last = placed.buffer.first, placed.buffer.last - 1
    return Row(
        cells={
            "buffer": _named(placed.buffer),
            "size": placed.buffer.size_bytes,
            "offset": placed.offset_bytes,
            "steps": str(first) if first == last else f"{first} to {last}",
        }
    )


def _named(buffer: BufferLifetime) -> str:
    """Its values; of a state with its name, for all of them are this one object."""
    values = ", ".join(buffer.values) or buffer.id
    return f"state {buffer.state}: {values}" if buffer.state else values


def _refused(plan: MemoryPlan) -> Section:
    """The first refused place of each of the largest buffers."""
    first: dict[str, RefusedPlacement] = {}
    for refused in plan.refusals:
        first.setdefault(refused.buffer, refused)
    rows = tuple(
        Row(
            cells={
                "buffer": r.buffer,
                "offset": r.offset_bytes,
                "obstacle": r.obstacle,
                "overlap": r.overlap_bytes,
            }
        )
        for r in [*first.values()][:MAX_LARGEST]
    )
    parts: tuple[Part, ...] = (TableSpec(title="refused places", columns=REFUSED, rows=rows),)
    if hidden := len(plan.refusals) - len(rows):
        parts += (Text(text=f"and {hidden} more refused places: plan.refusals"),)
    return Section(title="Refused places", parts=parts)


# -- the map ---------------------------------------------------------------------------------------


def memory_map(plan: MemoryPlan, families: Mapping[str, str]) -> ChartSpec:
    """The map; as text the live bytes of every step."""
    present = {families.get(value, "") for p in plan.placements for value in p.buffer.values[:1]}
    return ChartSpec(
        title=f"memory map: {_summary(plan)}",
        width=WIDTH,
        height=HEIGHT,
        marks=tuple(_marks(plan, families)),
        legend=tuple((look, look.title) for look in FAMILIES if look.name in present),
        lines=tuple(_lines(plan)),
    )


def _lines(plan: MemoryPlan) -> Iterator[str]:
    """All steps in order; of a long plan those with most live bytes."""
    live = plan.live_bytes
    highest = max(live, default=0) or 1
    shown = sorted(sorted(range(len(live)), key=lambda step: (-live[step], step))[:MAX_STEPS])
    names = [plan.steps[step] if step < len(plan.steps) else "" for step in shown]
    rows = [
        (str(step), name, format_bytes(live[step]), bar(live[step] / highest))
        for step, name in zip(shown, names, strict=True)
    ]
    yield from columns(rows, ("step", "launch", "live", ""), "rlrl", indent=0)
    if hidden := len(live) - len(shown):
        yield f"and {hidden} steps with fewer live bytes: plan.live_bytes"


def _marks(plan: MemoryPlan, families: Mapping[str, str]) -> Iterator[Mark]:
    steps = max([len(plan.live_bytes), 1, *(p.buffer.last for p in plan.placements)])
    step_width = (WIDTH - LEFT - RIGHT) / steps
    scale = (FLOOR - TOP) / (max(plan.peak_bytes, plan.bound_bytes, 1) * 1.02)
    yield from _axes(steps, step_width)
    largest = sorted(plan.placements, key=lambda p: -p.buffer.size_bytes)[:MAX_BUFFERS]
    for placed in sorted(largest, key=lambda p: (p.buffer.first, p.offset_bytes)):
        buffer = placed.buffer
        width = (buffer.last - buffer.first) * step_width
        height = buffer.size_bytes * scale
        x = LEFT + buffer.first * step_width
        y = FLOOR - placed.offset_bytes * scale - height
        owner = buffer.values[0] if buffer.values else buffer.id
        look = family(families.get(owner, ""))
        gap = min(1.0, width / 4)
        yield Rect(
            x=x + gap / 2,
            y=y + min(0.5, height / 4),
            width=max(width - gap, 0.3),
            height=max(height - min(1.0, height / 2), 0.3),
            role=look.light.fill,
            stroke=look.light.edge,
            stroke_width=min(1.0, height / 4, step_width),
        )
        shown = f"state {buffer.state}" if buffer.state else owner
        if height >= 14 and (label := _label(look.glyph, shown, width - 10)):
            yield Label(x=x + 5, y=y + height / 2 + 4, text=label, role="text", size=11)
    is_tight = plan.bound_bytes == plan.peak_bytes
    yield from _level("peak = bound" if is_tight else "peak", plan.peak_bytes, scale)
    if not is_tight and not memories_of(plan):
        yield from _level("bound", plan.bound_bytes, scale)


def _label(glyph: str, name: str, width: float) -> str:
    """Glyph and name where they fit, else the name; nothing where most of it would be lost."""
    whole = f"{glyph} {name}"
    if svg.fit(whole, width, 11) == plain(whole):
        return whole
    label = svg.fit(name, width, 11)
    is_readable = label == plain(name) or (len(label) >= 6 and 2 * len(label) > len(name))
    return label if is_readable else ""


def _axes(steps: int, step_width: float) -> Iterator[Mark]:
    yield Line(points=((LEFT, FLOOR), (WIDTH - RIGHT, FLOOR)))
    yield Label(x=LEFT - 8, y=FLOOR + 4, text="0 B", anchor="end")
    round_steps = (digit * 10**power for power in range(8) for digit in (1, 2, 5))
    every = next(n for n in round_steps if n * step_width >= 28)
    for step in range(0, steps, every):
        x = LEFT + (step + 0.5) * step_width
        yield Label(x=x, y=FLOOR + 16, text=str(step), anchor="middle")
    middle = (LEFT + WIDTH - RIGHT) / 2
    yield Label(x=middle, y=HEIGHT - 6, text="step (one launch each)", anchor="middle")


def _level(name: str, size_bytes: int, scale: float) -> Iterator[Mark]:
    """A horizontal line with its size at the axis; the peak is named above, the bound below."""
    y = FLOOR - size_bytes * scale
    is_bound = name == "bound"
    shift = 11 if is_bound else -3
    ends = ((LEFT, y), (WIDTH - RIGHT, y))
    yield Line(points=ends, role="text", is_dashed=is_bound)
    size, at = format_bytes(size_bytes), y + shift + (0 if is_bound else 4)
    yield Label(x=LEFT - 8, y=at, text=size, anchor="end", role="text", size=11)
    yield Label(x=WIDTH - RIGHT, y=y + shift, text=name, anchor="end", role="text", size=11)


def _payload(trace: Trace) -> Json:
    from explorer.views.payload.measures import memory_payload
    from explorer.views.renderers.page import parts_of

    plan = trace.memory
    return plan and {**memory_payload(plan), "tried": parts_of(tuple(_explained(plan)))}


VIEW = View(
    name="memory",
    title="where every buffer lies, and when",
    needs=("memory",),
    uses=("program",),  # from which the names of layers are known
    specification=memory,
    json=lambda trace, _: trace.memory,
    payload=_payload,
    pane=Pane(
        moves="peak_bytes",
        module=JAVASCRIPT / "memory" / "memory.js",
        function="memoryView",
        key="m",
        is_drawn_of_payload=True,
    ),
)
