"""Packages of a compilation: targets side by side, the flash by layer, the arena's map.

target      arena     weights  code      self-test
cortex-m4   14.6 kB   127 kB   1.9 kB    passed

The flash is a treemap; areas are bytes: weights of each layer, and code where the package was
compiled (Bruls, Huizing, van Wijk, "Squarified Treemaps", 2000).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from explorer.results import PackageRecord, PackagesRecord, Trace
from explorer.results.package import PART
from explorer.views.fixed_numbers import PASSES
from explorer.views.numbers import format_bytes, format_exact
from explorer.views.specification import (
    ChartSpec,
    Column,
    Label,
    Mark,
    Part,
    Rect,
    Row,
    Section,
    Specification,
    TableSpec,
    Text,
)
from explorer.views.theme import family
from explorer.views.view import Pane, View

WIDTH, HEIGHT = 760.0, 220.0
LETTER = 6.6
"""Width of a letter of a label."""
MAX_TILES = 200
MAX_BUFFERS = 1000

TARGETS = (
    Column(key="name", title="package", format="name"),
    Column(key="target", title="target", format="name"),
    Column(
        key="arena",
        title="arena",
        format="bytes",
        hint="RAM that a run reads and writes",
        moves="peak_bytes",
    ),
    Column(key="weights", title="weights", format="bytes", moves="weights_bytes"),
    Column(
        key="code",
        title="code",
        format="bytes",
        hint="instructions and other constants",
        moves="code_bytes",
    ),
    Column(
        key="instructions", title="instructions", format="count", hint="of a run", moves="seconds"
    ),
    Column(key="selftest", title="self-test"),
    Column(key="note", title="note"),
)
LAYERS = (
    Column(key="layer", title="layer", format="layer"),
    Column(key="kernel", title="kernel", format="name"),
    Column(
        key="weights",
        title="weights",
        format="bytes",
        hint="that no earlier layer reads",
        moves="weights_bytes",
    ),
    Column(
        key="code",
        title="code",
        format="bytes",
        hint="at the first layer of its kernel",
        moves="code_bytes",
    ),
    Column(key="operations", title="operations", format="count", moves=PASSES),
    Column(key="nodes", title="nodes"),
)


def packages(trace: Trace, index: int = -1) -> Specification:
    """A row for each package; layers, flash and arena of each in a section."""
    found = trace.part(PART, PackagesRecord)
    assert found is not None, "the view needs it"
    records = found.packages
    parts: list[Part] = [
        TableSpec(title="packages", columns=TARGETS, rows=tuple(map(_target_row, records)))
    ]
    for record in records:
        title = f"{record.name} for {record.target}"
        drawn: list[Part] = []
        for part in (_flash(record), _arena(record)):
            drawn += [Text(text=f"{part.title}.")] if isinstance(part, ChartSpec) else []
            drawn.append(part)
        parts.append(Section(title=title, parts=(*drawn, _layers(record))))
    count = f"{len(records)} package{'s' if len(records) != 1 else ''}"
    return Specification(title=f"{trace.model.name}: {count} in C", parts=tuple(parts))


def _target_row(record: PackageRecord) -> Row:
    build = record.build
    verdict = {True: "passed", False: "FAILED", None: "not run"}[build.passed]
    return Row(
        cells={
            "name": record.name,
            "target": record.target,
            "arena": record.arena_bytes,
            "weights": record.weights_bytes,
            "code": build.code_bytes,
            "instructions": build.instructions,
            "selftest": verdict,
            "note": build.note or None,
        }
    )


def _layers(record: PackageRecord) -> TableSpec:
    rows = tuple(
        Row(
            operations=(layer.name,),
            cells={
                "layer": layer.name,
                "kernel": layer.kernel,
                "weights": layer.weights_bytes,
                "code": layer.code_bytes,
                "operations": layer.operations,
                "nodes": ", ".join(layer.nodes) or None,
            },
        )
        for layer in record.layers
    )
    return TableSpec(title="layers in the order in which they run", columns=LAYERS, rows=rows)


# -- the flash -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tile:
    """A part of the flash, and its place in the treemap."""

    name: str
    kind: str
    """weights or code."""
    size_bytes: int
    box: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    """Left, top, width, height."""


def _flash(record: PackageRecord) -> Part:
    tiles = [
        Tile(layer.name, kind, size)
        for layer in record.layers
        for kind, size in (("weights", layer.weights_bytes), ("code", layer.code_bytes or 0))
        if size
    ]
    tiles.sort(key=lambda tile: (-tile.size_bytes, tile.name, tile.kind))
    if not tiles:
        return Text(text="No layer has weights, and the package was not compiled.")
    shown = squarified(tiles[:MAX_TILES], (0.0, 0.0, WIDTH, HEIGHT))
    total = sum(tile.size_bytes for tile in tiles)
    looks = {"weights": family("convolution"), "code": family("control")}
    words = f"Flash by layer, areas are bytes: {format_bytes(total)}"
    if len(tiles) > MAX_TILES:
        words += f", the largest {MAX_TILES} of {len(tiles)} parts"
    return ChartSpec(
        title=words,
        width=WIDTH,
        height=HEIGHT,
        marks=tuple(mark for tile in shown for mark in _tile_marks(tile)),
        legend=tuple((look, kind) for kind, look in looks.items()),
        lines=tuple(
            f"{tile.name}: {format_bytes(tile.size_bytes)} of {tile.kind}" for tile in tiles[:10]
        ),
    )


def _tile_marks(tile: Tile) -> Iterator[Mark]:
    look = family("convolution" if tile.kind == "weights" else "control")
    x, y, width, height = tile.box
    yield Rect(
        x=x,
        y=y,
        width=width,
        height=height,
        role=f"{look.name}-fill",
        stroke=f"{look.name}-edge",
        title=f"{tile.name}: {format_exact(tile.size_bytes)} bytes of {tile.kind}",
    )
    named = f"{look.glyph} {tile.name}"
    for words in (f"{named} {format_bytes(tile.size_bytes)}", named):
        room = int((width - 8) / LETTER) - len(words)
        if height >= 16 and room >= 0:
            own = len(tile.name) + room
            yield Label(x=x + 4, y=y + 13, text=words, role="text", size=11, layer_characters=own)
            return


def squarified(tiles: Sequence[Tile], box: tuple[float, float, float, float]) -> list[Tile]:
    """The tiles, largest first, each with a box; its area is its share, as square as it can be.

    Rows are filled along the shorter side of what is left for as long as the worst ratio of sides
    in the row gets better.
    """
    left, top, width, height = box
    total = sum(tile.size_bytes for tile in tiles)
    scale = width * height / total if total else 0.0
    placed: list[Tile] = []
    rest = list(tiles)
    while rest:
        side = min(width, height)
        row = [rest.pop(0)]
        while rest and _worst([*row, rest[0]], side, scale) <= _worst(row, side, scale):
            row.append(rest.pop(0))
        area = scale * sum(tile.size_bytes for tile in row)
        depth = area / side if side else 0.0
        at = 0.0
        for tile in row:
            length = scale * tile.size_bytes / depth if depth else 0.0
            if width >= height:
                own = (left, top + at, depth, length)
            else:
                own = (left + at, top, length, depth)
            placed.append(Tile(tile.name, tile.kind, tile.size_bytes, own))
            at += length
        if width >= height:
            left, width = left + depth, max(width - depth, 0.0)
        else:
            top, height = top + depth, max(height - depth, 0.0)
    return placed


def _worst(row: Sequence[Tile], side: float, scale: float) -> float:
    """The largest ratio of two sides in a row along `side`."""
    areas = [scale * tile.size_bytes for tile in row]
    total = sum(areas)
    if not total or not side:
        return 0.0
    return max(
        max(side * side * area / total**2, total**2 / (side * side * area)) for area in areas
    )


# -- the arena -----------------------------------------------------------------------------------


def _arena(record: PackageRecord) -> Part:
    """Launches from left to right, bytes from top to bottom."""
    buffers = record.buffers[:MAX_BUFFERS]
    steps = max((buffer.last for buffer in buffers), default=0)
    if not buffers or not steps or not record.arena_bytes:
        return Text(text="The arena has no buffer.")
    across, down = WIDTH / steps, HEIGHT / record.arena_bytes
    look = family("elementwise")
    marks: list[Mark] = []
    for buffer in buffers:
        x, width = across * buffer.first, across * (buffer.last - buffer.first)
        y, height = down * buffer.offset_bytes, down * buffer.size_bytes
        marks.append(
            Rect(
                x=x,
                y=y,
                width=width,
                height=height,
                role=f"{look.name}-fill",
                stroke=f"{look.name}-edge",
                title=f"{buffer.name}: {format_exact(buffer.size_bytes)} bytes from "
                f"{format_exact(buffer.offset_bytes)}, launches {buffer.first} to {buffer.last}",
            )
        )
        room = int((width - 8) / LETTER)
        if height >= 14 and 0 < len(buffer.name) <= room:
            name = Label(
                x=x + 4, y=y + 12, text=buffer.name, role="text", size=11, layer_characters=room
            )
            marks.append(name)
    return ChartSpec(
        title=f"Arena: {format_bytes(record.arena_bytes)} downwards, launches to the right",
        width=WIDTH,
        height=HEIGHT,
        marks=tuple(marks),
        lines=tuple(
            f"{b.offset_bytes:>10,} {b.size_bytes:>10,}  {b.first}..{b.last}  {b.name}"
            for b in sorted(buffers, key=lambda b: (b.offset_bytes, b.first))[:40]
        ),
    )


VIEW = View(
    name="packages",
    title="packages in C: what takes flash and RAM on each target",
    needs=("packages",),
    specification=packages,
    pane=Pane(moves="code_bytes", is_optional=True),
)
