"""Graphviz places the nodes of a picture, and says where its long edges pass other nodes.

`dot` draws in ranks (Gansner, Koutsofios, North and Vo, "A technique for drawing directed graphs",
IEEE TSE 19(3), 1993). It gets numbers and sizes, no names. An edge over several ranks is drawn
straight down through each of them, where the curve of `dot` crosses it.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from itertools import pairwise

from explorer.views.drawing.by_ranks import (
    HORIZONTAL_GAP,
    LANE_WIDTH,
    VERTICAL_GAP,
    Edges,
    Placed,
    Point,
    Size,
    depths_of,
    parts_of,
)

MAX_SECONDS = 10.0
MAX_EDGES_PER_NODE = 6
MAX_SPAN = 10_000
"""Most ranks that all edges together may pass: the time of `dot` grows with their square."""
POINTS_PER_INCH = 72.0
SPINE_WEIGHT = 20
"""Weight of the edges that are to run straight, where others have 1."""


def place_by_dot(edges: Edges, sizes: Sequence[Size]) -> Placed | None:
    """Centres of nodes `0 .. len(sizes) - 1`, and the lane of every edge between its ends.

    None where `dot` is not installed, fails, or would take long.
    """
    depths = depths_of(edges, len(sizes))
    span = sum(abs(depths[b] - depths[a]) for a, b in edges)
    if len(edges) > MAX_EDGES_PER_NODE * len(sizes) or span > MAX_SPAN:
        return None
    source = _source(edges, sizes, depths)
    try:
        done = subprocess.run(
            ["dot", "-Tjson0"],
            input=source.encode(),
            capture_output=True,
            timeout=MAX_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    drawn = json.loads(done.stdout)
    at = {node["name"]: _points(node["pos"])[0] for node in drawn["objects"]}
    centres = tuple(at[str(node)] for node in range(len(sizes)))
    curves = {edge["id"]: _points(edge["pos"]) for edge in drawn.get("edges", ())}
    part_of = parts_of(edges, len(sizes))
    members: dict[int, list[int]] = {}
    for node, part in enumerate(part_of):
        members.setdefault(part, []).append(node)
    ranks = {part: _Ranks(centres, sizes, nodes) for part, nodes in members.items()}
    lanes = tuple(
        ranks[part_of[a]].lane(curves[str(index)], (centres[a], centres[b]))
        for index, (a, b) in enumerate(edges)
    )
    return Placed(centres, lanes)


def _source(edges: Edges, sizes: Sequence[Size], depths: Sequence[int]) -> str:
    lines = [
        "digraph {",
        f"graph [nodesep={HORIZONTAL_GAP / POINTS_PER_INCH} "
        f"ranksep={VERTICAL_GAP / POINTS_PER_INCH} pack=true]",
        'node [shape=box fixedsize=true label=""]',
        "edge [arrowhead=none]",
    ]
    for node, (width, height) in enumerate(sizes):
        lines.append(f"{node} [width={width / POINTS_PER_INCH} height={height / POINTS_PER_INCH}]")
    straight = _straight(edges, depths)
    for index, (a, b) in enumerate(edges):
        weight = SPINE_WEIGHT if (a, b) in straight else 1
        lines.append(f"{a} -> {b} [id={index} weight={weight}]")
    return "\n".join([*lines, "}"])


def _straight(edges: Edges, depths: Sequence[int]) -> set[tuple[int, int]]:
    """Edges from the deepest operand to the user that most follows: data flows straight down, and
    constants and shortcuts stand aside."""
    heights = depths_of(tuple((b, a) for a, b in edges), len(depths))
    operand: dict[int, int] = {}
    user: dict[int, int] = {}
    for a, b in edges:
        if depths[a] > depths[operand.setdefault(b, a)]:
            operand[b] = a
        if heights[b] > heights[user.setdefault(a, b)]:
            user[a] = b
    return {(a, b) for a, b in edges if operand[b] == a and user[a] == b}


def _points(text: str) -> tuple[Point, ...]:
    """`1,2 3,4` with y growing downwards."""
    pairs = (pair.split(",") for pair in text.split())
    return tuple((float(x), -float(y)) for x, y in pairs)


class _Ranks:
    """The ranks of one connected part, from top to bottom: middle, height and nodes of each."""

    def __init__(
        self, centres: Sequence[Point], sizes: Sequence[Size], members: Sequence[int]
    ) -> None:
        self.heights: dict[float, float] = {}
        self.taken: dict[float, list[tuple[float, float]]] = {}
        for node in sorted(members, key=lambda node: centres[node][1]):
            (x, y), (width, height) = centres[node], sizes[node]
            self.heights[y] = max(self.heights.get(y, 0.0), height)
            self.taken.setdefault(y, []).append((x - width / 2, x + width / 2))

    def lane(self, curve: Sequence[Point], ends: tuple[Point, Point]) -> tuple[Point, ...]:
        """Down through all ranks between two nodes: at one x where that is free, best that of an
        end, else where the curve crosses each rank."""
        start, end = ends[0][1], ends[1][1]
        between = [y for y in self.heights if min(start, end) < y < max(start, end)]
        if not between:
            return ()
        sampled = _sampled(curve)
        crossed = [_x_at(sampled, y) for y in between]
        middle = (ends[0][0] + ends[1][0]) / 2
        farthest = sorted(crossed, key=lambda x: -abs(x - middle))
        wanted = (ends[1][0], ends[0][0], *farthest)
        free = next((x for x in wanted if all(self._is_free(x, y) for y in between)), None)
        points = [
            (x if free is None else free, y + side * self.heights[y] / 2)
            for x, y in zip(crossed, between, strict=True)
            for side in (-1, 1)
        ]
        return tuple(points if end > start else points[::-1])

    def _is_free(self, x: float, y: float) -> bool:
        return not any(left - LANE_WIDTH < x < right + LANE_WIDTH for left, right in self.taken[y])


def _sampled(curve: Sequence[Point], steps: int = 12) -> list[Point]:
    """Points on cubic Bézier curves: where they begin, then 3 control points of each."""
    points = [curve[0]]
    for first in range(0, len(curve) - 3, 3):
        corners = curve[first : first + 4]
        for step in range(1, steps + 1):
            t = step / steps
            weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3)
            pairs = tuple(zip(weights, corners, strict=True))
            points.append((sum(w * x for w, (x, _) in pairs), sum(w * y for w, (_, y) in pairs)))
    return points


def _x_at(points: Sequence[Point], height: float) -> float:
    """Where a way first comes to a height; its end where it does not."""
    for (x1, y1), (x2, y2) in pairwise(points):
        if min(y1, y2) <= height <= max(y1, y2) and y1 != y2:
            return x1 + (x2 - x1) * (height - y1) / (y2 - y1)
    return points[-1][0]
