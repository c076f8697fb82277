"""Where the nodes of a static picture stand and how its edges run.

    layout_graph(["x", "conv", "relu"], [("x", "conv"), ("conv", "relu")])
        -> positions {"x": (78, 26), "conv": (78, 90), "relu": (78, 154)}, straight routes

Graphviz's `dot` places nodes (`by_dot.py`). Where it is not installed, fails, or would take long, a
plain layout in ranks does (`by_ranks.py`). Units are CSS pixels, y grows downwards, positions are
centres. The same graph gets the same picture from one version of Graphviz.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from explorer.views.drawing.by_dot import place_by_dot
from explorer.views.drawing.by_ranks import (
    HORIZONTAL_GAP,
    VERTICAL_GAP,
    Edges,
    Placed,
    Point,
    Size,
    parts_of,
    place_by_ranks,
)

NODE_WIDTH = 140.0
NODE_HEIGHT = 36.0
MARGIN = 8.0

Route = tuple[Point, ...]


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """A drawn graph within `width` by `height`, the corner at (0, 0)."""

    positions: Mapping[str, Point]
    """Centre of every node."""
    routes: Mapping[tuple[str, str], Route]
    """From the middle of the source's lower border to that of the target's upper one (the other
    way round where an edge closes a cycle and runs upwards): at least two points. Between two
    points an edge runs straight or in a curve with vertical ends."""
    width: float
    height: float
    sizes: Mapping[str, Size]
    """(width, height) of every node."""


def layout_graph(
    nodes: Sequence[str],
    edges: Sequence[tuple[str, str]],
    sizes: Mapping[str, Size] | None = None,
) -> Drawing:
    """Places a directed graph in ranks from top to bottom, ties in the order of `nodes`.

    `sizes` holds the (width, height) of nodes that differ from the default. Parallel edges share
    a route, loops have none. Raises ValueError for an edge to a node that isn't there.
    """
    number = {node: index for index, node in enumerate(nodes)}
    _check(nodes, edges, number)
    pairs = list(dict.fromkeys(edge for edge in edges if edge[0] != edge[1]))
    node_sizes = {node: (sizes or {}).get(node, (NODE_WIDTH, NODE_HEIGHT)) for node in nodes}
    placed = _placed(tuple((number[a], number[b]) for a, b in pairs), tuple(node_sizes.values()))
    positions = dict(zip(nodes, placed.centres, strict=True))
    routes = {
        pair: _route(pair, lane, positions, node_sizes)
        for pair, lane in zip(pairs, placed.lanes, strict=True)
    }
    reach = [point for route in routes.values() for point in route]
    for node, (x, y) in positions.items():
        width, height = node_sizes[node]
        reach.append((x + width / 2, y + height / 2))
    return Drawing(
        positions=positions,
        routes=routes,
        width=round(max((x for x, _ in reach), default=0.0) + MARGIN, 1),
        height=round(max((y for _, y in reach), default=0.0) + MARGIN, 1),
        sizes=node_sizes,
    )


def _check(
    nodes: Sequence[str], edges: Sequence[tuple[str, str]], number: Mapping[str, int]
) -> None:
    if len(number) != len(nodes):
        twice = sorted({node for node in nodes if nodes.count(node) > 1})
        raise ValueError(f"layout: nodes must be distinct, but {twice[0]!r} stands there twice")
    for a, b in edges:
        for node in (a, b):
            if node not in number:
                raise ValueError(f"layout: the edge {a!r} -> {b!r} needs {node!r} among the nodes")


@lru_cache(maxsize=512)
def _placed(edges: Edges, sizes: tuple[Size, ...]) -> Placed:
    if not sizes:
        return Placed((), ())
    return _packed(place_by_dot(edges, sizes) or place_by_ranks(edges, sizes), edges, sizes)


def _packed(placed: Placed, edges: Edges, sizes: Sequence[Size]) -> Placed:
    """Connected parts side by side: the largest first, small ones stacked in columns."""
    part_of = parts_of(edges, len(sizes))
    reach: dict[int, list[Point]] = {}
    for part, (x, y), (width, height) in zip(part_of, placed.centres, sizes, strict=True):
        corners = [(x - width / 2, y - height / 2), (x + width / 2, y + height / 2)]
        reach.setdefault(part, []).extend(corners)
    members = {part: len(corners) for part, corners in reach.items()}
    for (a, _), lane in zip(edges, placed.lanes, strict=True):
        reach[part_of[a]].extend(lane)
    boxes = {part: _box(points) for part, points in reach.items()}
    area = sum((w + HORIZONTAL_GAP) * (h + VERTICAL_GAP) for _, _, w, h in boxes.values())
    limit = max([math.sqrt(area), *(height for _, _, _, height in boxes.values())])
    shifts: dict[int, Point] = {}
    x, y, column = MARGIN, MARGIN, 0.0
    for part in sorted(boxes, key=lambda part: -members[part]):
        left, top, width, height = boxes[part]
        if y > MARGIN and y + height > MARGIN + limit:
            x, y, column = x + column + 2 * HORIZONTAL_GAP, MARGIN, 0.0
        shifts[part] = (x - left, y - top)
        y, column = y + height + VERTICAL_GAP, max(column, width)

    def moved(points: Sequence[Point], part: int) -> tuple[Point, ...]:
        right, down = shifts[part]
        return tuple((round(x + right, 1), round(y + down, 1)) for x, y in points)

    return Placed(
        tuple(moved([at], part)[0] for at, part in zip(placed.centres, part_of, strict=True)),
        tuple(moved(lane, part_of[a]) for (a, _), lane in zip(edges, placed.lanes, strict=True)),
    )


def _box(points: Sequence[Point]) -> tuple[float, float, float, float]:
    """The left upper corner, width and height of what holds the points."""
    left, top = min(x for x, _ in points), min(y for _, y in points)
    width, height = max(x for x, _ in points) - left, max(y for _, y in points) - top
    return left, top, width, height


def _route(
    pair: tuple[str, str],
    lane: Sequence[Point],
    positions: Mapping[str, Point],
    sizes: Mapping[str, Size],
) -> Route:
    """From border to border, without the points in the middle of a vertical run."""
    (from_x, from_y), (to_x, to_y) = positions[pair[0]], positions[pair[1]]
    down = 1 if to_y > from_y else -1
    start = (from_x, round(from_y + down * sizes[pair[0]][1] / 2, 1))
    end = (to_x, round(to_y - down * sizes[pair[1]][1] / 2, 1))
    points = [start, *lane, end]
    kept = [start]
    for before, point, after in zip(points, points[1:], points[2:], strict=False):
        if not (before[0] == point[0] == after[0]):
            kept.append(point)
    return (*kept, end)
