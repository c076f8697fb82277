"""Where the nodes of a graph stand and how its edges run: deterministic, without dependencies.

    layout_graph(["x", "conv", "relu"], [("x", "conv"), ("conv", "relu")])
        -> positions {"x": (72, 26), "conv": (72, 90), "relu": (72, 154)}, straight routes

`layout_union` draws all snapshots of a compilation at once, so that nothing moves from pass to
pass. Nodes that are never alive together may share a place:

    import   conv -> bn -> relu -> add        conv  ┐ one place
    fold-bn  conv' ------> relu -> add        conv' ┘; its edge to relu runs over bn's place

Units are CSS pixels, y grows downwards, positions are centres.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from explorer.results.graph import Graph, GraphNode
from explorer.views.drawing.collapse import collapse
from explorer.views.drawing.layered import HORIZONTAL_GAP, Edge, Placement, place_graph

__all__ = [
    "NODE_HEIGHT",
    "NODE_WIDTH",
    "Drawing",
    "collapse",
    "layout_graph",
    "layout_union",
]

NODE_WIDTH = 140.0
NODE_HEIGHT = 36.0
VERTICAL_GAP = 28.0
MARGIN = 8.0
SLOT_CANDIDATES = 64
"""Most places that are looked at for one new node, so that a source node that became thousands
of operations does not cost their square."""
DETOUR_STEPS = 64
"""Most nodes that are looked at for a way over places that are empty."""

Point = tuple[float, float]
Size = tuple[float, float]
Route = tuple[Point, ...]


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """A drawn graph within `width` by `height`, the corner at (0, 0)."""

    positions: Mapping[str, Point]
    """Centre of every node."""
    routes: Mapping[tuple[str, str], Route]
    """From the source's bottom (its top for a back edge) to the target: at least two points.
    Between two points an edge runs straight or in a curve with vertical ends."""
    width: float
    height: float
    sizes: Mapping[str, Size] = field(default_factory=dict)
    """(width, height) of every node."""
    back_edges: frozenset[tuple[str, str]] = frozenset()
    """Edges that run upwards, for they close a cycle."""


def layout_graph(
    nodes: Sequence[str],
    edges: Sequence[tuple[str, str]],
    order_hint: Sequence[str] | None = None,
    sizes: Mapping[str, Size] | None = None,
) -> Drawing:
    """Places a directed graph in layers from top to bottom.

    `order_hint` lists nodes in the order that breaks ties (program order; default: `nodes`).
    `sizes` holds the (width, height) of nodes that differ from the default. Parallel edges share
    a route, loops have none. Raises ValueError for an edge to a node that isn't there.
    """
    node_sizes = {node: (sizes or {}).get(node, (NODE_WIDTH, NODE_HEIGHT)) for node in nodes}
    _check(nodes, edges, node_sizes)
    ordered = list(dict.fromkeys(n for n in (*(order_hint or ()), *nodes) if n in node_sizes))
    order = {node: index for index, node in enumerate(ordered)}
    distinct = sorted(
        {edge for edge in edges if edge[0] != edge[1]},
        key=lambda edge: (order[edge[0]], order[edge[1]]),
    )
    drawings = [
        _draw(members, inner, node_sizes) for members, inner in _components(ordered, distinct)
    ]
    return _pack(drawings, node_sizes)


def layout_union(snapshots: Sequence[Graph], sizes: Mapping[str, Size] | None = None) -> Drawing:
    """One layout for all snapshots of a compilation: a node has one place in all of them.

    Two nodes that are alive in one snapshot never overlap. Routes are there for all edges of all
    snapshots; see `Drawing.routes`.
    """
    graphs = list({id(graph): graph for graph in snapshots}.values())
    slots = _share_slots(graphs)
    alive = _alive(graphs, slots)
    detours, kept = _find_detours(graphs, slots, alive)
    wanted = {n: (sizes or {}).get(n, (NODE_WIDTH, NODE_HEIGHT)) for n in slots}
    slot_sizes: dict[str, Size] = {}
    for node, slot in slots.items():
        width, height = slot_sizes.get(slot, (0.0, 0.0))
        slot_sizes[slot] = (max(width, wanted[node][0]), max(height, wanted[node][1]))
    drawn = layout_graph(list(slot_sizes), kept, sizes=slot_sizes)
    positions = {node: drawn.positions[slot] for node, slot in slots.items()}
    routes: dict[tuple[str, str], Route] = {}
    back_edges: set[tuple[str, str]] = set()
    for graph in graphs:
        for edge in graph.edges:
            pair = (edge.source, edge.target)
            if pair in routes or edge.source == edge.target:
                continue
            places = (slots[edge.source], slots[edge.target])
            path = detours.get(places, places)
            route = _join([drawn.routes[step] for step in pairwise(path)])
            routes[pair] = _attach(route, positions, wanted, pair)
            if positions[pair[0]][1] >= positions[pair[1]][1]:
                back_edges.add(pair)
    return Drawing(
        positions=positions,
        routes=routes,
        width=drawn.width,
        height=drawn.height,
        sizes=wanted,
        back_edges=frozenset(back_edges),
    )


def _check(
    nodes: Sequence[str], edges: Sequence[tuple[str, str]], sizes: Mapping[str, Size]
) -> None:
    if len(sizes) != len(nodes):
        twice = sorted({node for node in nodes if nodes.count(node) > 1})
        raise ValueError(f"layout: nodes must be distinct, but {twice[0]!r} stands there twice")
    for a, b in edges:
        for node in (a, b):
            if node not in sizes:
                raise ValueError(f"layout: the edge {a!r} -> {b!r} needs {node!r} among the nodes")


def _components(
    nodes: Sequence[str], edges: Sequence[tuple[str, str]]
) -> list[tuple[list[str], list[tuple[str, str]]]]:
    """Nodes and edges of every connected component, by first node."""
    parent = {node: node for node in nodes}

    def root(node: str) -> str:
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    for a, b in edges:
        parent[root(b)] = root(a)
    members: dict[str, tuple[list[str], list[tuple[str, str]]]] = {}
    for node in nodes:
        members.setdefault(root(node), ([], []))[0].append(node)
    for a, b in edges:
        members[root(a)][1].append((a, b))
    return list(members.values())


def _draw(
    members: Sequence[str], edges: Sequence[tuple[str, str]], sizes: Mapping[str, Size]
) -> Drawing:
    """One connected component."""
    index = {node: i for i, node in enumerate(members)}
    numbered = [(index[a], index[b]) for a, b in edges]
    placement = place_graph(numbered, [sizes[node][0] for node in members])
    bands = _bands(placement.ranks, [sizes[node][1] for node in members])
    left = min(x - sizes[n][0] / 2 for n, x in zip(members, placement.x, strict=True))
    left = min([left, *(x for lane in placement.lanes.values() for x, _, _ in lane)])
    positions = {
        node: (round(x - left, 1), (bands[rank][0] + bands[rank][1]) / 2)
        for node, x, rank in zip(members, placement.x, placement.ranks, strict=True)
    }
    routes: dict[tuple[str, str], Route] = {}
    for pair, numbers in zip(edges, numbered, strict=True):
        route = _lane_points(placement, numbers, bands, left)
        route = (positions[pair[0]], *route, positions[pair[1]])
        routes[pair] = _straighten(_attach(route, positions, sizes, pair))
    right = max(positions[node][0] + sizes[node][0] / 2 for node in members)
    right = max([right, *(x for route in routes.values() for x, _ in route)])
    back = frozenset(
        pair
        for pair, numbers in zip(edges, numbered, strict=True)
        if numbers in placement.reversed_edges
    )
    return Drawing(
        positions=positions,
        routes=routes,
        width=right,
        height=bands[-1][1],
        sizes={},
        back_edges=back,
    )


def _bands(ranks: Sequence[int], heights: Sequence[float]) -> list[tuple[float, float]]:
    """(top, bottom) of every rank: as high as its highest node."""
    highest = [0.0] * (max(ranks) + 1)
    for rank, height in zip(ranks, heights, strict=True):
        highest[rank] = max(highest[rank], height)
    bands, top = [], 0.0
    for height in highest:
        bands.append((top, top + height))
        top += height + VERTICAL_GAP
    return bands


def _lane_points(
    placement: Placement, edge: Edge, bands: Sequence[tuple[float, float]], left: float
) -> Route:
    """The way of an edge through the ranks between its ends: straight down through each."""
    is_back = edge in placement.reversed_edges
    lane = placement.lanes.get((edge[1], edge[0]) if is_back else edge, ())
    points = tuple(
        (round(x - left, 1), y)
        for x, first, last in lane
        for y in (bands[first][0], bands[last][1])
    )
    return points[::-1] if is_back else points


def _attach(
    route: Route,
    positions: Mapping[str, Point],
    sizes: Mapping[str, Size],
    pair: tuple[str, str],
) -> Route:
    """The route with its ends on the borders of the two nodes."""
    (from_x, from_y), (to_x, to_y) = positions[pair[0]], positions[pair[1]]
    down = 1 if to_y > from_y else -1
    start = (from_x, from_y + down * sizes[pair[0]][1] / 2)
    end = (to_x, to_y - down * sizes[pair[1]][1] / 2)
    return (start, *route[1:-1], end)


def _straighten(route: Route) -> Route:
    """Without the points in the middle of a vertical run."""
    kept = [route[0]]
    for before, point, after in zip(route, route[1:], route[2:], strict=False):
        if not (before[0] == point[0] == after[0]):
            kept.append(point)
    return (*kept, route[-1])


def _join(routes: Sequence[Route]) -> Route:
    """Routes one after another, straight through the places between them."""
    points = [point for route in routes for point in route]
    return _straighten(tuple(points))


def _pack(drawings: Sequence[Drawing], sizes: Mapping[str, Size]) -> Drawing:
    """Components side by side: the largest first, small ones stacked in columns."""
    area = sum((d.width + HORIZONTAL_GAP) * (d.height + VERTICAL_GAP) for d in drawings)
    limit = max([math.sqrt(area), *(d.height for d in drawings)])
    positions: dict[str, Point] = {}
    routes: dict[tuple[str, str], Route] = {}
    back_edges: set[tuple[str, str]] = set()
    left, top, column_width, width, height = MARGIN, MARGIN, 0.0, 0.0, 0.0
    for drawing in sorted(drawings, key=lambda d: -len(d.positions)):
        if top > MARGIN and top + drawing.height > MARGIN + limit:
            left, top, column_width = left + column_width + 2 * HORIZONTAL_GAP, MARGIN, 0.0
        for node, (x, y) in drawing.positions.items():
            positions[node] = (x + left, y + top)
        for pair, route in drawing.routes.items():
            routes[pair] = tuple((x + left, y + top) for x, y in route)
        back_edges |= drawing.back_edges
        width, height = max(width, left + drawing.width), max(height, top + drawing.height)
        column_width = max(column_width, drawing.width)
        top += drawing.height + VERTICAL_GAP
    return Drawing(
        positions=positions,
        routes=routes,
        width=width + MARGIN,
        height=height + MARGIN,
        sizes=sizes,
        back_edges=frozenset(back_edges),
    )


def _alive(graphs: Sequence[Graph], slots: Mapping[str, str]) -> dict[str, int]:
    """For every place a bit per snapshot in which a node stands there."""
    alive = dict.fromkeys(slots.values(), 0)
    for index, graph in enumerate(graphs):
        for node in graph.nodes:
            alive[slots[node.id]] |= 1 << index
    return alive


def _share_slots(graphs: Sequence[Graph]) -> dict[str, str]:
    """The place of every node, named by the first node that stands there.

    A new node takes the place of one that comes from some of the same source nodes and is never
    alive together with it nor with others of that place: best one of its own family, then the
    one with most sources in common, then the last.
    """
    lives: dict[str, int] = {}
    for index, graph in enumerate(graphs):
        for node in graph.nodes:
            lives[node.id] = lives.get(node.id, 0) | 1 << index
    slots: dict[str, str] = {}
    alive: dict[str, int] = {}
    last: dict[str, GraphNode] = {}
    of_source: dict[str, list[str]] = {}
    for graph in graphs:
        for node in graph.nodes:
            if node.id in slots:
                continue
            slot = _vacant_slot(node, lives[node.id], alive, last, of_source) or node.id
            slots[node.id] = slot
            alive[slot] = alive.get(slot, 0) | lives[node.id]
            last[slot] = node
            for source in dict.fromkeys(node.sources):
                places = of_source.setdefault(source, [])
                if slot not in places[-SLOT_CANDIDATES:]:
                    places.append(slot)
    return slots


def _vacant_slot(
    node: GraphNode,
    life: int,
    alive: Mapping[str, int],
    last: Mapping[str, GraphNode],
    of_source: Mapping[str, list[str]],
) -> str | None:
    shared: dict[str, int] = {}
    for source in dict.fromkeys(node.sources):
        for slot in of_source.get(source, ())[-SLOT_CANDIDATES:]:
            shared[slot] = shared.get(slot, 0) + 1
    best, best_rank = None, (False, 0, 0)
    for index, (slot, sources) in enumerate(shared.items()):
        if alive[slot] & life or _is_end(last[slot]) != _is_end(node):
            continue
        rank = (last[slot].family == node.family, sources, index)
        if best is None or rank > best_rank:
            best, best_rank = slot, rank
    return best


def _is_end(node: GraphNode) -> str:
    """Inputs, outputs and weights share places only among themselves."""
    return node.family if node.family in ("input", "output", "weight") else ""


def _find_detours(
    graphs: Sequence[Graph], slots: Mapping[str, str], alive: Mapping[str, int]
) -> tuple[dict[tuple[str, str], tuple[str, ...]], list[tuple[str, str]]]:
    """Ways of edges over places that are empty whenever the edge is there, and the other edges.

    When `bn` of conv -> bn -> relu goes, the new edge conv -> relu needs no lane around bn's
    place. Only the other edges take part in the layout.
    """
    lives: dict[tuple[str, str], int] = {}
    for index, graph in enumerate(graphs):
        for edge in graph.edges:
            pair = (slots[edge.source], slots[edge.target])
            if pair[0] != pair[1]:
                lives[pair] = lives.get(pair, 0) | 1 << index
    below: dict[str, list[str]] = {}
    for a, b in lives:
        below.setdefault(a, []).append(b)
    detours: dict[tuple[str, str], tuple[str, ...]] = {}
    needed: set[tuple[str, str]] = set()
    for pair, life in lives.items():
        path = None if pair in needed else _empty_path(pair, life, below, alive)
        if path is not None:
            detours[pair] = path
            below[pair[0]].remove(pair[1])
            needed.update(pairwise(path))
    return detours, [pair for pair in lives if pair not in detours]


def _empty_path(
    pair: tuple[str, str], life: int, below: Mapping[str, list[str]], alive: Mapping[str, int]
) -> tuple[str, ...] | None:
    """A path between the two of at least one other place, all of them empty during `life`."""
    start, end = pair
    came_from: dict[str, str] = {}
    stack = [place for place in below.get(start, ()) if place != end and not alive[place] & life]
    came_from.update(dict.fromkeys(stack, start))
    steps = 0
    while stack and steps < DETOUR_STEPS:
        place = stack.pop()
        steps += 1
        for following in below.get(place, ()):
            if following == end:
                path = [end, place]
                while path[-1] != start:
                    path.append(came_from[path[-1]])
                return tuple(reversed(path))
            if following not in came_from and following != start and not alive[following] & life:
                came_from[following] = place
                stack.append(following)
    return None
