"""A plain layout of a directed graph in ranks, for machines without Graphviz.

    a -> b -> d,  a -> d,  w -> d        a            rank 0
                                         b  |  w      rank 1: a lane for a -> d; w above its user
                                         d            rank 2

The rank is the longest path from the sources. One pass from top to bottom brings every node of a
rank to the mean of those above it, at least a gap from the one before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

HORIZONTAL_GAP = 24.0
VERTICAL_GAP = 28.0
LANE_WIDTH = 8.0
MAX_LANE = 40
"""Most ranks that an edge passes in a lane of its own; longer ones run straight."""

Point = tuple[float, float]
Size = tuple[float, float]
Edges = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class Placed:
    """Where nodes `0 .. n - 1` stand, up to a shift of all; and the points of every edge between
    its ends."""

    centres: tuple[Point, ...]
    lanes: tuple[tuple[Point, ...], ...]


def place_by_ranks(edges: Edges, sizes: Sequence[Size]) -> Placed:
    """Places the nodes of those (width, height), at least one, and the lanes of the edges."""
    ranks = depths_of(edges, len(sizes))
    inner = {b for _, b in edges}
    users: dict[int, list[int]] = {}
    for a, b in edges:
        if a not in inner:
            users.setdefault(a, []).append(ranks[b])
    for node, below in users.items():  # a source is right above its first user
        ranks[node] = min(below) - 1
    widths = [width for width, _ in sizes]
    above: list[list[int]] = [[] for _ in sizes]
    lanes: list[list[int]] = []
    for a, b in edges:
        span = ranks[b] - ranks[a]
        lane = [a]
        for step in range(1, span if span <= MAX_LANE else 1):
            above.append([lane[-1]])
            widths.append(LANE_WIDTH)
            lane.append(len(ranks))
            ranks.append(ranks[a] + step)
        above[b] += [lane[-1]] if span > 0 else []
        lanes.append(lane[1:])
    rows: list[list[int]] = [[] for _ in range(max(ranks) + 1)]
    for node, rank in enumerate(ranks):
        rows[rank].append(node)
    x, bands, top = [0.0] * len(ranks), [(0.0, 0.0)] * len(rows), 0.0
    for rank, row in enumerate(rows):
        _place_row(row, above, widths, x)
        height = max((sizes[node][1] for node in row if node < len(sizes)), default=0.0)
        bands[rank] = (top, top + height)
        top += height + VERTICAL_GAP
    centres = tuple((x[node], sum(bands[ranks[node]]) / 2) for node in range(len(sizes)))
    points = (tuple((x[node], y) for node in lane for y in bands[ranks[node]]) for lane in lanes)
    return Placed(centres, tuple(points))


def _place_row(
    row: Sequence[int], above: Sequence[list[int]], widths: Sequence[float], x: list[float]
) -> None:
    wanted = {
        node: sum(x[other] for other in above[node]) / len(above[node])
        for node in row
        if above[node]
    }
    right = -math.inf if wanted else 0.0
    for node in sorted(row, key=lambda node: wanted.get(node, math.inf)):
        least = right + HORIZONTAL_GAP + widths[node] / 2
        x[node] = max(least, wanted.get(node, least))
        right = x[node] + widths[node] / 2


def depths_of(edges: Edges, count: int) -> list[int]:
    """The longest path to every node; an edge that closes a cycle does not count."""
    below: list[list[int]] = [[] for _ in range(count)]
    missing = [0] * count
    for a, b in edges:
        below[a].append(b)
        missing[b] += 1
    depths, is_done = [0] * count, [False] * count
    ready = [node for node in range(count) if not missing[node]][::-1]
    rest = iter(range(count))
    for _ in range(count):
        node = ready.pop() if ready else next(other for other in rest if not is_done[other])
        is_done[node] = True
        for target in below[node]:
            if is_done[target]:
                continue
            depths[target] = max(depths[target], depths[node] + 1)
            missing[target] -= 1
            if not missing[target]:
                ready.append(target)
    return depths


def parts_of(edges: Edges, count: int) -> list[int]:
    """For every node the representative of the connected part it is in."""
    parent = list(range(count))

    def root(node: int) -> int:
        while parent[node] != node:
            parent[node] = node = parent[parent[node]]
        return node

    for a, b in edges:
        parent[root(b)] = root(a)
    return [root(node) for node in range(count)]
