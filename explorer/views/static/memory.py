"""A memory plan as a map: steps from left to right, addresses from bottom to top.

    peak 32 KiB, bound 32 KiB (proven optimal), 78 KiB without sharing
      step  launch    live
         0  pack_1    11 KiB  ██████▉
         1  conv_1    24 KiB  ███████████████

Every box is a buffer: as wide as it lives, as high as it is large.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from explorer.results.graph import Graph
from explorer.results.memory import MemoryPlan, PlacedBuffer, RefusedPlacement
from explorer.views.numbers import format_bytes, format_count, format_percent, format_seconds
from explorer.views.parts import plain as text_form
from explorer.views.parts import svg
from explorer.views.parts.markup import (
    card,
    code,
    escape,
    legend_of,
    note,
    picture,
    plain,
    section,
    table,
)
from explorer.views.theme import FAMILIES, LIGHT, family

WIDTH, HEIGHT = 720.0, 260.0
LEFT, RIGHT, TOP, BOTTOM = 64.0, 12.0, 20.0, 40.0
DRAWN_BUFFERS = 1500
LISTED_STEPS = 40
LARGEST = 5


def memory_text(plan: MemoryPlan) -> str:
    """The peak, the bound, and the live bytes of every step."""
    highest = max(plan.live_bytes, default=0) or 1
    shown = _interesting_steps(plan)
    rows = [
        (
            str(step),
            plan.steps[step] if step < len(plan.steps) else "",
            format_bytes(plan.live_bytes[step]),
            text_form.bar(plan.live_bytes[step] / highest),
        )
        for step in shown
    ]
    lines = [_summary(plan), *text_form.columns(rows, ("step", "launch", "live", ""), "rlrl")]
    if len(shown) < len(plan.live_bytes):
        hidden = len(plan.live_bytes) - len(shown)
        lines.append(f"  and {hidden} steps with fewer live bytes: plan.live_bytes")
    lines.append("  largest: " + ", ".join(_named(p) for p in _largest(plan)))
    lines.append(_parts_line(plan, lambda words: f"  {words}"))
    chosen = plan.chosen_attempt
    if chosen is not None:
        count = format_count(len(plan.attempts), "strategy", "strategies")
        lines.append(f"  {count} tried; chosen: {plain(plan.attempts[chosen].strategy)}")
    if plan.refusals:
        lines += text_form.columns(_refusal_rows(plan), _REFUSAL_HEADER, "lrlr")
        lines.append(_more_refusals(plan, lambda words: f"  {words}"))
    return "\n".join(line for line in lines if line)


def memory_html(plan: MemoryPlan, families: Mapping[str, str] | None = None) -> str:
    """A card with the map. `families` (see `families_of`) colours buffers by what makes them."""
    known = families or {}
    words = f"memory map: {_summary(plan)}"
    body = picture(memory_svg(plan, known), WIDTH, words)
    present = {known.get(value, "") for p in plan.placements for value in p.buffer.values[:1]}
    looks = [look for look in FAMILIES if look.name in present]
    if looks:
        body += legend_of([(look, look.title) for look in looks])
    if len(plan.placements) > DRAWN_BUFFERS:
        body += note(
            f"The map shows the {DRAWN_BUFFERS} largest of {len(plan.placements)} buffers: "
            "plan.placements holds all."
        )
    body += section("Largest buffers")
    body += table(
        [
            [
                code(", ".join(p.buffer.values)),
                escape(format_bytes(p.buffer.size_bytes)),
                escape(f"at {p.offset_bytes:,}"),
                escape(_lifetime(p)),
            ]
            for p in _largest(plan)
        ],
        align="lrrn",
    )
    body += _parts_line(plan, note)
    body += section("Strategies tried")
    chosen = plan.chosen_attempt
    body += table(
        [
            [
                "✓" if index == chosen else "",
                escape(a.strategy),
                escape(format_bytes(a.peak_bytes)),
                format_seconds(a.seconds),
            ]
            for index, a in enumerate(plan.attempts)
        ],
        align="nlrr",
    )
    if plan.refusals:
        body += section("Refused places")
        rows = [[escape(cell) for cell in row] for row in _refusal_rows(plan)]
        body += table(rows, _REFUSAL_HEADER, "lrlr")
        body += _more_refusals(plan, note)
    return card("Memory", body, subtitle=_summary(plan))


def memory_svg(plan: MemoryPlan, families: Mapping[str, str]) -> str:
    """The map as an SVG document of `WIDTH` by `HEIGHT`."""
    steps = max([len(plan.live_bytes), 1, *(p.buffer.last for p in plan.placements)])
    ceiling = max(plan.peak_bytes, plan.bound_bytes, 1) * 1.02
    step_width = (WIDTH - LEFT - RIGHT) / steps
    scale = (HEIGHT - TOP - BOTTOM) / ceiling
    floor = HEIGHT - BOTTOM

    largest = sorted(plan.placements, key=lambda p: -p.buffer.size_bytes)[:DRAWN_BUFFERS]
    parts = [_axes(plan, steps, step_width, floor)]
    for placed in sorted(largest, key=lambda p: (p.buffer.first, p.offset_bytes)):
        buffer = placed.buffer
        width = (buffer.last - buffer.first) * step_width
        height = buffer.size_bytes * scale
        x = LEFT + buffer.first * step_width
        y = floor - placed.offset_bytes * scale - height
        owner = buffer.values[0] if buffer.values else buffer.id
        look = family(families.get(owner, ""))
        gap = min(1.0, width / 4)
        parts.append(
            svg.rect(
                x + gap / 2,
                y + min(0.5, height / 4),
                max(width - gap, 0.3),
                max(height - min(1.0, height / 2), 0.3),
                fill=look.light.fill,
                stroke=look.light.edge,
                stroke_width=min(1.0, height / 4, step_width),
            )
        )
        if height >= 14:
            label = _label(look.glyph, owner, width - 10)
            if label:
                parts.append(
                    svg.text(x + 5, y + height / 2 + 4, label, fill=LIGHT.text, font_size=11)
                )
    is_tight = plan.bound_bytes == plan.peak_bytes
    name = "peak = bound" if is_tight else "peak"
    parts.append(_level(name, plan.peak_bytes, floor - plan.peak_bytes * scale, dashes=""))
    if not is_tight:
        parts.append(
            _level("bound", plan.bound_bytes, floor - plan.bound_bytes * scale, dashes="5 4")
        )
    return svg.document(WIDTH, HEIGHT, "".join(parts))


def _label(glyph: str, name: str, width: float) -> str:
    """Glyph and name where they fit, else the name; nothing where most of it would be lost."""
    whole = f"{glyph} {name}"
    if svg.fit(whole, width, 11) == plain(whole):
        return whole
    label = svg.fit(name, width, 11)
    is_readable = label == plain(name) or (len(label) >= 6 and 2 * len(label) > len(name))
    return label if is_readable else ""


def families_of(graph: Graph) -> dict[str, str]:
    """The family of every operation of a snapshot, for colours."""
    return {node.id: node.family for node in graph.nodes}


def _axes(plan: MemoryPlan, steps: int, step_width: float, floor: float) -> str:
    parts = [svg.line(LEFT, floor, WIDTH - RIGHT, floor, stroke=LIGHT.line)]
    parts.append(svg.text(LEFT - 8, floor + 4, "0 B", text_anchor="end", fill=LIGHT.quiet))
    every = next(n for n in _round_steps() if n * step_width >= 28)
    for step in range(0, steps, every):
        x = LEFT + (step + 0.5) * step_width
        parts.append(svg.text(x, floor + 16, step, text_anchor="middle", fill=LIGHT.quiet))
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(
        svg.text(middle, HEIGHT - 6, "step (one launch each)", text_anchor="middle",
                 fill=LIGHT.quiet)
    )  # fmt: skip
    return "".join(parts)


def _round_steps() -> list[int]:
    return [digit * 10**power for power in range(8) for digit in (1, 2, 5)]


def _level(name: str, size_bytes: int, y: float, dashes: str) -> str:
    """A horizontal line with its size at the axis; the peak is named above, the bound below."""
    shift = 11 if name == "bound" else -3
    return (
        svg.line(LEFT, y, WIDTH - RIGHT, y, stroke=LIGHT.text, stroke_dasharray=dashes)
        + svg.text(
            LEFT - 8,
            y + shift + (0 if name == "bound" else 4),
            format_bytes(size_bytes),
            text_anchor="end",
            fill=LIGHT.text,
            font_size=11,
        )
        + svg.text(WIDTH - RIGHT, y + shift, name, text_anchor="end", fill=LIGHT.text, font_size=11)
    )


def _summary(plan: MemoryPlan) -> str:
    if plan.optimal:
        proof = "proven optimal"
    elif plan.bound_bytes > 0:
        over = plan.peak_bytes / plan.bound_bytes - 1
        proof = f"at most {format_percent(over)} above the smallest possible"
    else:
        proof = "not proven optimal"
    return (
        f"peak {format_bytes(plan.peak_bytes)}, bound {format_bytes(plan.bound_bytes)} ({proof}), "
        f"{format_bytes(plan.total_bytes)} without sharing, "
        f"{format_count(len(plan.placements), 'buffer')}"
    )


def _largest(plan: MemoryPlan) -> Sequence[PlacedBuffer]:
    return sorted(plan.placements, key=lambda p: (-p.buffer.size_bytes, p.buffer.first))[:LARGEST]


def _lifetime(placed: PlacedBuffer) -> str:
    first, last = placed.buffer.first, placed.buffer.last - 1
    return f"step {first}" if first == last else f"steps {first} to {last}"


_REFUSAL_HEADER = ("refused", "at byte", "in the way", "overlap")


def _refusal_rows(plan: MemoryPlan) -> list[tuple[str, str, str, str]]:
    """The first refused place of each of the largest buffers."""
    first: dict[str, RefusedPlacement] = {}
    for refused in plan.refusals:
        first.setdefault(refused.buffer, refused)
    return [
        (plain(r.buffer), f"{r.offset_bytes:,}", plain(r.obstacle), format_bytes(r.overlap_bytes))
        for r in [*first.values()][:LARGEST]
    ]


def _more_refusals(plan: MemoryPlan, form: Callable[[str], str]) -> str:
    hidden = len(plan.refusals) - len(_refusal_rows(plan))
    return form(f"and {hidden} more refused places: plan.refusals") if hidden else ""


def _parts_line(plan: MemoryPlan, form: Callable[[str], str]) -> str:
    """How many values lie in buffers of others, and the first of them."""
    parts = [(part, p.buffer.id) for p in plan.placements for part in p.buffer.parts]
    if not parts:
        return ""
    part, buffer = parts[0]
    count = format_count(len(parts), "value lies", "values lie")
    return form(
        f"{count} in some bytes of another one's buffer, and need no copy: {plain(part.value)} at "
        f"byte {part.offset_bytes:,} of {plain(buffer)}" + (", ..." if len(parts) > 1 else "")
    )


def _named(placed: PlacedBuffer) -> str:
    return f"{plain(placed.buffer.id)} {format_bytes(placed.buffer.size_bytes)}"


def _interesting_steps(plan: MemoryPlan) -> list[int]:
    """All steps in order; of a long plan those with most live bytes."""
    every = range(len(plan.live_bytes))
    chosen = sorted(every, key=lambda step: (-plan.live_bytes[step], step))[:LISTED_STEPS]
    return sorted(chosen)
