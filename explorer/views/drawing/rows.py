"""A long row of operations and groups, divided: chains, layers, stages, repetitions.

    conv relu, IR IR IR (28x28), IR IR (14x14), pool matmul
        ->  stem, stage: 3 x inverted residual, stage: 2 x inverted residual, head

A stage is a run of one resolution (the term of residual networks); where nothing tells stages
apart, what repeats is one block that counts it. No run is ever known by its place only.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from explorer.views.drawing.motifs import HEAVY, WHOLE_LAYERS, content_name
from explorer.views.drawing.repeats import find_repeat
from explorer.views.drawing.units import Item, Part, Row, units_in

MIN_OPERATIONS = 3
"""Fewer are no block of their own."""
READABLE = 12
"""So many things in a row need no stages."""
MAX_UNITS = 96
"""Most things side by side in a block."""
PLACES = frozenset({"stem", "stage"})
"""Names of where something stands, which are not counted."""
_CHAINS = (
    (("pointwise", "depthwise", "pointwise"), "inverted residual"),
    (("depthwise", "pointwise"), "separable convolution"),
    (("pointwise", "fire module"), "fire module"),
)
"""Groups in a plain chain: inverted residuals that change sizes (Sandler and others, MobileNetV2,
2018), depthwise separable convolutions (Howard and others, MobileNets, 2017)."""


def arranged(items: list[Item], row: Row) -> list[Item]:
    """The row with as few items as a person can take in, where its structure allows."""
    if len(items) > READABLE // 2:
        items = _layers(_chained(items, row), row)
    if len(items) > READABLE:
        items = _counted(_stages(items, row), row)
    return _limited(items, row)


def _chained(items: Sequence[Item], row: Row) -> list[Item]:
    segments = _segments(items, row)
    kinds = tuple(_segment_kind(segment, row) for segment in segments)
    found: list[Item] = []
    at = 0
    while at < len(segments):
        for pattern, name in _CHAINS:
            end = at + len(pattern)
            if kinds[at:end] == pattern:
                found.append(row.part(name, _without(name, segments[at:end])))
                at = end
                break
        else:
            found.extend(segments[at])
            at += 1
    return found


def _without(name: str, segments: Sequence[Sequence[Item]]) -> list[Item]:
    """The items of segments; a group of this name is what is in it."""
    items: list[Item] = []
    for item in (item for segment in segments for item in segment):
        items.extend(item.items if isinstance(item, Part) and item.name == name else [item])
    return items


def _segments(items: Sequence[Item], row: Row) -> list[list[Item]]:
    """Every group alone; every operation that does work with the light ones behind it."""
    segments: list[list[Item]] = []
    for item in items:
        if segments and not row.stops(item) and not row[segments[-1][0]].name:
            segments[-1].append(item)
        else:
            segments.append([item])
    return segments


def _segment_kind(segment: Sequence[Item], row: Row) -> str:
    first = row[segment[0]]
    if first.name:
        return first.name
    kind = next(iter(first.kinds), "")
    return "pointwise" if kind == "conv" and "1x1" in getattr(first, "label", "") else kind


def _layers(items: Sequence[Item], row: Row) -> list[Item]:
    """Attention and the feed-forward block behind it are one layer."""
    found: list[Item] = []
    waiting: list[Item] = []  # attention, and what follows it
    for item in items:
        name = row[item].name
        if name == "feed-forward" and waiting:
            found.append(row.part("transformer layer", [*waiting, item]))
            waiting = []
        elif name == "attention" or (waiting and not row.is_heavy(item)):
            waiting.append(item)
        else:
            found.extend([*waiting, item])
            waiting = []
    return [*found, *waiting]


def _stages(items: Sequence[Item], row: Row) -> list[Item]:
    """Runs of one resolution; what comes before the first group and behind the last one."""
    groups = [index for index, item in enumerate(items) if row[item].name]
    first, last = (groups[0], groups[-1] + 1) if groups else (0, len(items))
    runs: list[list[Item]] = []
    resolution = ""
    for item in items[first:last]:
        own = row[item].resolution
        if not runs or (own and resolution and own != resolution):
            runs.append([])
        resolution = own or resolution
        runs[-1].append(item)
    body: list[Item] = list(items[first:last])
    if len(runs) > 1 and max(map(len, runs)) > 1:
        body = [
            stage for run in runs for stage in _block_of("stage", _counted(run, row, True), row)
        ]
    return [*_block_of("stem", items[:first], row), *body, *_block_of("head", items[last:], row)]


def _block_of(name: str, items: Sequence[Item], row: Row) -> list[Item]:
    """One block, where there is enough for one."""
    part = row.part(name, items)
    return [part] if len(items) > 1 and part.count >= MIN_OPERATIONS else list(items)


def _counted(items: Sequence[Item], row: Row, is_stage: bool = False) -> list[Item]:
    """Three and more groups of one name in a row are one block that counts them."""
    names = {row[item].name for item in items} - {""}
    if len(items) <= READABLE or (is_stage and len(names) == 1):
        return list(items)
    found: list[Item] = []
    for name, same in groupby(items, key=lambda item: row[item].name):
        run = list(same)
        is_row = name and name not in PLACES and 2 < len(run) < len(items)
        found.extend([row.part("", run)] if is_row else run)
    return found


def _limited(items: list[Item], row: Row) -> list[Item]:
    """At most MAX_UNITS things side by side, here and in every group."""
    for item in items:
        if isinstance(item, Part):
            item.items = _limited(item.items, row)
    if len(items) <= MAX_UNITS:
        return items
    labels = [row[item].name or getattr(row[item], "label", "") for item in items]
    repeat = find_repeat(labels) if len(set(labels)) > 1 else None
    if repeat is not None and 2 * repeat.covered > len(items):
        end = repeat.start + repeat.covered
        size = repeat.period * -(-READABLE // repeat.period)
        parts: list[Item] = [
            _section(items[at : min(at + size, end)], row) for at in range(repeat.start, end, size)
        ]
        return _limited([*items[: repeat.start], *parts, *items[end:]], row)
    size = max(MAX_UNITS // 2, -(-len(items) // MAX_UNITS))
    return [_section(items[at : at + size], row) for at in range(0, len(items), size)]


def _section(items: Sequence[Item], row: Row) -> Part:
    """A piece of a row that nothing divides, named by what is in it."""
    names = {row[item].name for item in items}
    if len(names) == 1 and "" not in names:
        return row.part("section", items)
    # Layers that are unrolled name it first, then what does the work, then what is frequent.
    units = [row.units[unit] for unit in units_in(items)]
    whole = content_name([u.label for u in units if not WHOLE_LAYERS.isdisjoint(u.kinds)], 1)
    heavy = [u.label for u in units if u.label != whole and not HEAVY.isdisjoint(u.kinds)]
    light = [u.label for u in units if HEAVY.isdisjoint(u.kinds)]
    names = (whole, content_name(heavy, 1 if whole else 2), content_name(light, 1))
    return row.part(", ".join(filter(None, names)), items)
