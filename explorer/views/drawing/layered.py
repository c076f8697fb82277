"""A layered drawing of one connected directed graph: ranks, order within ranks, coordinates.

    a -> b -> d,  a -> c -> d,  w -> d             a            rank 0
                                                  / \\
                                                 b   c   w      rank 1: w stands next to its user
                                                  \\ / __/
                                                   d            rank 2

The phases are those of Sugiyama, Tagawa and Toda ("Methods for visual understanding of
hierarchical system structures", IEEE SMC 11(2), 1981):

1. `find_back_edges`: edges that close a cycle are turned round for the time of the drawing.
2. `assign_ranks`: longest path from the sources; constants come down to their first user.
3. `Lanes`: an edge over several ranks gets a lane, one dummy per rank; all long edges of one
   node share theirs.
4. `order_ranks`: barycentre sweeps, down and up, against crossings.
5. `place_ranks`: x by alternating least squares within the order (isotonic regression); the
   spine, the longest path through the graph, is pinned to one vertical line.

Nodes are integers from 0 here, in the order that breaks ties; nothing depends on hashes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

HORIZONTAL_GAP = 24.0
LANE_WIDTH = 8.0
ORDER_SWEEPS = 8
PLACE_SWEEPS = 5
SPINE_WEIGHT = 1e7
LANE_WEIGHT = 6.0
LOOSE_WEIGHT = 0.05
"""Of weights, and of nodes without neighbours on the side that is looked at: they yield to the
others, so that data flows straight."""

Edge = tuple[int, int]
Run = tuple[float, int, int]
Neighbours = list[list[int]]


@dataclass(frozen=True)
class Placement:
    """Where nodes stand. `lanes[edge]` lists the vertical runs of an edge between its ends from
    top to bottom: (x, first rank, last rank)."""

    x: tuple[float, ...]
    ranks: tuple[int, ...]
    lanes: dict[Edge, tuple[Run, ...]]
    """Keys are the edges as they run in the drawing: from the upper to the lower node."""
    reversed_edges: frozenset[Edge]
    """Edges, as they were given, that run upwards."""


def place_graph(edges: Sequence[Edge], widths: Sequence[float]) -> Placement:
    """Places nodes `0 .. len(widths) - 1`; `edges` are distinct and hold no loop."""
    count = len(widths)
    reversed_edges = find_back_edges(count, edges)
    downward = list(dict.fromkeys((b, a) if (a, b) in reversed_edges else (a, b) for a, b in edges))
    ranks, depths, is_loose = assign_ranks(count, downward)
    lanes = Lanes.of(downward, ranks)
    spine = find_spine(downward, ranks, depths)
    order = order_ranks(lanes)
    weights = [LOOSE_WEIGHT if loose else 1.0 for loose in is_loose]
    x = place_ranks(
        order,
        lanes,
        [*widths, *[LANE_WIDTH] * lanes.dummies],
        [*weights, *[LANE_WEIGHT] * lanes.dummies],
        spine,
    )
    x = [round(value, 1) for value in x]
    runs = {edge: _runs(dummies, x, lanes.ranks) for edge, dummies in lanes.dummies_of.items()}
    return Placement(tuple(x[:count]), tuple(ranks), runs, reversed_edges)


def _runs(dummies: Sequence[int], x: Sequence[float], ranks: Sequence[int]) -> tuple[Run, ...]:
    """Dummies of the same x below one another as one run."""
    runs: list[Run] = []
    first = dummies[0]
    for upper, lower in pairwise(dummies):
        if x[upper] != x[lower]:
            runs.append((x[first], ranks[first], ranks[upper]))
            first = lower
    runs.append((x[first], ranks[first], ranks[dummies[-1]]))
    return tuple(runs)


def find_back_edges(count: int, edges: Sequence[Edge]) -> frozenset[Edge]:
    """Edges that lead back to a node on the current depth-first path; turned round, no cycle is
    left. Searches from the nodes without predecessors first, in order.
    """
    below, above = _neighbours(count, edges)
    roots = sorted(range(count), key=lambda node: bool(above[node]))
    on_path, is_done = [False] * count, [False] * count
    found: set[Edge] = set()
    for root in roots:
        if is_done[root]:
            continue
        on_path[root] = True
        path = [(root, iter(below[root]))]
        while path:
            node, targets = path[-1]
            for target in targets:
                if on_path[target]:
                    found.add((node, target))
                elif not is_done[target]:
                    on_path[target] = True
                    path.append((target, iter(below[target])))
                    break
            else:
                on_path[node], is_done[node] = False, True
                path.pop()
    return frozenset(found)


def assign_ranks(count: int, edges: Sequence[Edge]) -> tuple[list[int], list[int], list[bool]]:
    """The rank of every node of an acyclic graph, its depth (edges on the longest path to it),
    and whether it is loose.

    A loose node is a source, or has loose predecessors only that nobody else uses: a weight, or
    what is computed from it for one user. It stands right above its first user. So does a chain
    that begins at a node with other users, such as a shape taken from the input: the lane above
    the chain is shared with them, the one below it would be its own.
    """
    below, above = _neighbours(count, edges)
    missing = [len(predecessors) for predecessors in above]
    ready = deque(node for node in range(count) if not missing[node])
    topological: list[int] = []
    ranks = [0] * count
    while ready:
        node = ready.popleft()
        topological.append(node)
        for target in below[node]:
            ranks[target] = max(ranks[target], ranks[node] + 1)
            missing[target] -= 1
            if not missing[target]:
                ready.append(target)
    depths = list(ranks)
    is_loose = [False] * count
    may_sink = [False] * count
    for node in topological:
        is_loose[node] = all(is_loose[other] and len(below[other]) == 1 for other in above[node])
        may_sink[node] = is_loose[node]
        if len(above[node]) == 1:
            other = above[node][0]
            may_sink[node] |= len(below[other]) > 1 or may_sink[other]
    for node in reversed(topological):
        if below[node] and may_sink[node]:
            ranks[node] = min(ranks[target] for target in below[node]) - 1
    return ranks, depths, is_loose


def find_spine(edges: Sequence[Edge], ranks: Sequence[int], depths: Sequence[int]) -> list[int]:
    """The longest path, from the bottom up: one node of every rank from its first to the last.

    Among the candidates of a rank the deepest one wins, so that it follows data and not weights.
    """
    _, above = _neighbours(len(ranks), edges)
    node = max(range(len(ranks)), key=lambda n: (ranks[n], -n))
    spine = [node]
    while True:
        candidates = [n for n in above[node] if ranks[n] == ranks[node] - 1]
        if not candidates:
            return spine
        node = min(candidates, key=lambda n: (-depths[n], n))
        spine.append(node)


@dataclass(frozen=True)
class Lanes:
    """The graph with dummies, so that every edge joins neighbouring ranks."""

    ranks: list[int]
    """Of the nodes, then of the dummies."""
    above: Neighbours
    below: Neighbours
    nodes: int
    dummies_of: dict[Edge, tuple[int, ...]]

    @property
    def dummies(self) -> int:
        return len(self.ranks) - self.nodes

    @staticmethod
    def of(edges: Sequence[Edge], node_ranks: Sequence[int]) -> Lanes:
        """Long edges of one node share a lane down to the lowest target."""
        nodes = len(node_ranks)
        ranks = list(node_ranks)
        below, above = _neighbours(nodes, ())
        longest = _longest_span(edges, ranks, limit=10 * nodes + 1000)
        lanes: list[list[int]] = [[] for _ in range(nodes)]
        dummies_of: dict[Edge, tuple[int, ...]] = {}
        for a, b in edges:
            span = ranks[b] - ranks[a]
            if span > longest:
                continue
            lane = lanes[a]
            while len(lane) < span - 1:
                upper = lane[-1] if lane else a
                dummy = len(ranks)
                ranks.append(ranks[upper] + 1)
                lane.append(dummy)
                above.append([upper])
                below.append([])
                below[upper].append(dummy)
            upper = lane[span - 2] if span > 1 else a
            below[upper].append(b)
            above[b].append(upper)
            if span > 1:
                dummies_of[a, b] = tuple(lane[: span - 1])
        return Lanes(ranks, above, below, nodes, dummies_of)


def _longest_span(edges: Sequence[Edge], ranks: Sequence[int], limit: int) -> int:
    """The longest span that still gets a lane, so that at most `limit` dummies are made.

    Longer edges run straight. This bounds the work on graphs where thousands of nodes each have
    an edge across the whole graph; those of real networks stay far below.
    """
    spans = sorted({ranks[b] - ranks[a] for a, b in edges})
    low, high = 0, len(spans)
    while low < high:
        middle = (low + high) // 2
        lane: dict[int, int] = {}
        for a, b in edges:
            span = ranks[b] - ranks[a]
            if span <= spans[middle]:
                lane[a] = max(lane.get(a, 0), span - 1)
        if sum(lane.values()) <= limit:
            low = middle + 1
        else:
            high = middle
    return spans[low - 1] if low else 1


def order_ranks(lanes: Lanes) -> list[list[int]]:
    """Nodes and dummies of every rank from left to right, with few crossings."""
    order = _depth_first_order(lanes)
    place = [0.0] * len(lanes.ranks)
    for row in order:
        for index, node in enumerate(row):
            place[node] = float(index)
    unchanged = 0
    for sweep in range(ORDER_SWEEPS):
        neighbours = lanes.below if sweep % 2 else lanes.above
        changed = False
        for row in reversed(order) if sweep % 2 else order:
            if len(row) > 1:
                changed |= _sort_by_barycentre(row, neighbours, place)
        unchanged = 0 if changed else unchanged + 1
        if unchanged == 2:
            break
    return order


def _depth_first_order(lanes: Lanes) -> list[list[int]]:
    """A first order in which what belongs together stands together."""
    order: list[list[int]] = [[] for _ in range(max(lanes.ranks) + 1)]
    is_seen = [False] * len(lanes.ranks)
    for source in range(lanes.nodes):
        if lanes.above[source]:
            continue
        stack = [source]
        while stack:
            node = stack.pop()
            if is_seen[node]:
                continue
            is_seen[node] = True
            order[lanes.ranks[node]].append(node)
            stack.extend(reversed(lanes.below[node]))
    for node in range(lanes.nodes):
        if not is_seen[node]:  # all its edges are too long for lanes
            order[lanes.ranks[node]].append(node)
    return order


def _sort_by_barycentre(row: list[int], neighbours: Neighbours, place: list[float]) -> bool:
    """Sorts a rank by the mean place of the neighbours; says whether anything moved.

    A node without neighbours on that side keeps its own place as the key.
    """
    keys: dict[int, tuple[float, float]] = {}
    for node in row:
        near = neighbours[node]
        mean = sum(place[other] for other in near) / len(near) if near else place[node]
        keys[node] = (mean, place[node])
    before = list(row)
    row.sort(key=keys.__getitem__)
    for index, node in enumerate(row):
        place[node] = float(index)
    return row != before


def place_ranks(
    order: list[list[int]],
    lanes: Lanes,
    widths: Sequence[float],
    weights: Sequence[float],
    spine: Sequence[int],
) -> list[float]:
    """The x of every node and dummy: near its neighbours, in order, at least a gap apart."""
    on_spine = [False] * len(lanes.ranks)
    for node in spine:
        on_spine[node] = True
    offsets = [_offsets(row, widths) for row in order]
    x = [0.0] * len(lanes.ranks)
    for row, offset in zip(order, offsets, strict=True):
        middle = next((o for n, o in zip(row, offset, strict=True) if on_spine[n]), offset[-1] / 2)
        for node, distance in zip(row, offset, strict=True):
            x[node] = distance - middle
    for sweep in range(2 * PLACE_SWEEPS):
        neighbours = lanes.below if sweep % 2 else lanes.above
        rows = list(zip(order, offsets, strict=True))
        for row, offset in reversed(rows) if sweep % 2 else rows:
            _place_row(row, offset, neighbours, weights, on_spine, x)
    return x


def _offsets(row: Sequence[int], widths: Sequence[float]) -> list[float]:
    """The least distance of every node of a rank from its first."""
    offsets = [0.0]
    for left, right in pairwise(row):
        offsets.append(offsets[-1] + (widths[left] + widths[right]) / 2 + HORIZONTAL_GAP)
    return offsets


def _place_row(
    row: Sequence[int],
    offsets: Sequence[float],
    neighbours: Neighbours,
    weights: Sequence[float],
    on_spine: Sequence[bool],
    x: list[float],
) -> None:
    """Minimizes the weighted squared distance to where the nodes of a rank want to be.

    With z = x - offset the least distances become z[0] <= z[1] <= ..., an isotonic regression:
    neighbours that violate the order are pooled at their weighted mean.
    """
    pools: list[tuple[float, float, int]] = []  # (sum of weight * z, weight, nodes)
    for node, offset in zip(row, offsets, strict=True):
        near = neighbours[node]
        if on_spine[node]:
            wanted = 0.0
        elif near:
            wanted = _weighted_mean(near, x, weights)
        else:
            wanted = x[node]
        weight = weights[node] if near else LOOSE_WEIGHT
        if on_spine[node]:
            weight = SPINE_WEIGHT
        pool = ((wanted - offset) * weight, weight, 1)
        while pools and pools[-1][0] * pool[1] > pool[0] * pools[-1][1]:
            total, pooled_weight, nodes = pools.pop()
            pool = (total + pool[0], pooled_weight + pool[1], nodes + pool[2])
        pools.append(pool)
    index = 0
    for total, weight, nodes in pools:
        for _ in range(nodes):
            x[row[index]] = total / weight + offsets[index]
            index += 1


def _weighted_mean(nodes: Sequence[int], x: Sequence[float], weights: Sequence[float]) -> float:
    if len(nodes) == 1:
        return x[nodes[0]]
    total = sum(weights[node] for node in nodes)
    return sum(x[node] * weights[node] for node in nodes) / total


def _neighbours(count: int, edges: Sequence[Edge]) -> tuple[Neighbours, Neighbours]:
    below: Neighbours = [[] for _ in range(count)]
    above: Neighbours = [[] for _ in range(count)]
    for a, b in edges:
        below[a].append(b)
        above[b].append(a)
    return below, above
