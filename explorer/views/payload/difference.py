"""How programs of several compilations differ after a pass: their graphs, and their IR by line.

    difference_payload([side_of(...), side_of(...)], "fuse-activation")
        -> {"place": ..., "graphs": [{"ids", "nodes", "edges", ...}], "rows": [["=", ...], ...]}

Every other side is compared with the first: one graph each, which holds both, and one table of
lines for all. What is equal is folded, and of large programs only the surroundings of what differs
are drawn; both is said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher

from explorer.results import Graph, GraphEdge, GraphNode
from explorer.views.payload.comparison import Side
from explorer.views.payload.text import Json, expanded_lines

MAX_DRAWN = 300
"""Most operations in one drawing."""
MAX_ROWS = 1500
CONTEXT = 3
"""Equal lines around those that differ."""
MANY_LINES = 2000
"""Of longer texts, lines that stand there very often are no landmarks (difflib's `autojunk`)."""
OTHER = "\u2032"
"""Marks an identity on the right that means something else on the left: a prime."""


def difference_payload(sides: Sequence[Side], place: str) -> Json:
    """After the pass `place`; after the last one where a side has no such pass, or for ""."""
    at = [_position(side, place) for side in sides]
    graphs = [_graph(side, position) for side, position in zip(sides, at, strict=True)]
    rows, hidden = _rows([_lines(side, position) for side, position in zip(sides, at, strict=True)])
    return {
        "place": place,
        "passes": [side.head["passes"][i]["name"] for side, i in zip(sides, at, strict=True)],
        "graphs": [drawing_of_difference(graphs[0], graph) for graph in graphs[1:]],
        "rows": rows,
        "hiddenRows": hidden,
    }


def _position(side: Side, place: str) -> int:
    names = [record["name"] for record in side.head["passes"]]
    return names.index(place) if place in names else len(names) - 1


def _lines(side: Side, position: int) -> list[str]:
    raw = side.chunk(f"text/{side.head['passes'][position]['snapshot']}")
    pages = {place: side.chunk(f"lines/{name}") for place, name in enumerate(raw["pages"])}
    return expanded_lines(raw, pages)


def _graph(side: Side, position: int) -> Graph:
    """The snapshot's graph, out of the tables that snapshots share."""
    raw = side.chunk(f"graph/{side.head['passes'][position]['snapshot']}")
    table = side.chunk("graphs")
    names = table["sources"]
    records = [
        record
        for page in range(table["pages"])
        for record in side.chunk(f"nodes/{page}")["records"]
    ]
    nodes = tuple(_node(records[index], names) for index in raw["nodes"])
    edges = tuple(
        GraphEdge(nodes[s].id, nodes[t].id, value or nodes[s].id, raw["types"][kind])
        for s, t, kind, value in raw["edges"]
    )
    return Graph(nodes, edges)


def _node(record: Json, names: list[str]) -> GraphNode:
    identity, operation, label, family, shape, sources, device, attributes, scope, *_ = record
    return GraphNode(
        id=identity,
        operation=operation,
        label=label,
        family=family,
        shape=shape,
        sources=tuple(names[index] for index in sources),
        device=device,
        attributes=tuple((name, value) for name, value in attributes),
        scope=scope,
    )


# -- graphs ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Marks:
    status: dict[str, str]
    """added, removed, changed, or "" by identity."""
    changes: dict[str, list[list[str]]]
    """[what, value on the left, value on the right] by identity."""


def drawing_of_difference(left: Graph, right: Graph) -> Json:
    """Two graphs as one, with what is only in one of them, or changed; the page places it.

    Names of source nodes are numbers: operations with some in common may share a place.
    """
    right = _told_apart(left, right)
    marks = _marks(left, right)
    counts = {
        name: sum(status == name for status in marks.status.values())
        for name in ("added", "removed", "changed")
    }
    chosen = _chosen(left, right, marks)
    drawn = [_restricted(graph, chosen) for graph in (left, right)]
    nodes = {node.id: node for graph in reversed(drawn) for node in graph.nodes}
    ids = list(dict.fromkeys(node.id for graph in drawn for node in graph.nodes))
    names: dict[str, int] = {}
    number = {identity: index for index, identity in enumerate(ids)}
    pairs = [{(e.source, e.target) for e in graph.edges} for graph in drawn]
    return {
        "ids": ids,
        "nodes": [
            [
                nodes[i].label,
                nodes[i].family,
                nodes[i].shape,
                marks.status[i],
                marks.changes.get(i, []),
                [names.setdefault(name, len(names)) for name in nodes[i].sources],
            ]
            for i in ids
        ],
        "edges": [
            [
                number[source],
                number[target],
                "added"
                if (source, target) not in pairs[0]
                else "removed"
                if (source, target) not in pairs[1]
                else "",
            ]
            for source, target in dict.fromkeys(
                (e.source, e.target) for graph in drawn for e in graph.edges
            )
            if source != target
        ],
        "counts": counts,
        "hidden": len(marks.status) - len(ids),
    }


def _told_apart(left: Graph, right: Graph) -> Graph:
    """The right graph, where an identity that means another operation on the left gets a mark."""
    known = {node.id: node for node in left.nodes}
    names = {
        node.id: node.id + OTHER
        for node in right.nodes
        if node.id in known and known[node.id].operation != node.operation
    }
    if not names:
        return right
    return Graph(
        tuple(replace(n, id=names.get(n.id, n.id)) for n in right.nodes),
        tuple(
            replace(e, source=names.get(e.source, e.source), target=names.get(e.target, e.target))
            for e in right.edges
        ),
    )


def _marks(left: Graph, right: Graph) -> _Marks:
    ours, theirs = ({node.id: node for node in graph.nodes} for graph in (left, right))
    status, changes = {}, {}
    for identity in dict.fromkeys([*ours, *theirs]):
        a, b = ours.get(identity), theirs.get(identity)
        if a is None or b is None:
            status[identity] = "added" if a is None else "removed"
            continue
        found = _changes(a, b)
        status[identity] = "changed" if found else ""
        if found:
            changes[identity] = found
    return _Marks(status, changes)


def _changes(a: GraphNode, b: GraphNode) -> list[list[str]]:
    rows = [("shape", a.shape, b.shape), ("device", a.device, b.device)]
    ours, theirs = dict(a.attributes), dict(b.attributes)
    rows += [(n, ours.get(n, ""), theirs.get(n, "")) for n in dict.fromkeys([*ours, *theirs])]
    return [[name, x, y] for name, x, y in rows if x != y]


def _chosen(left: Graph, right: Graph, marks: _Marks) -> set[str]:
    """All operations of small programs; of large ones what differs, with its neighbours."""
    if len(marks.status) <= MAX_DRAWN:
        return set(marks.status)
    differing = [identity for identity, status in marks.status.items() if status]
    chosen = dict.fromkeys(differing[:MAX_DRAWN])
    for edge in (*left.edges, *right.edges):
        if len(chosen) >= MAX_DRAWN:
            break
        ends = (edge.source, edge.target)
        if any(marks.status.get(end) for end in ends):
            chosen |= dict.fromkeys(ends)
    return set(chosen)


def _restricted(graph: Graph, chosen: set[str]) -> Graph:
    return Graph(
        tuple(node for node in graph.nodes if node.id in chosen),
        tuple(e for e in graph.edges if e.source in chosen and e.target in chosen),
    )


# -- lines -----------------------------------------------------------------------------------------


def _rows(texts: Sequence[list[str]]) -> tuple[list[Json], int]:
    """Lines of all sides in rows, aligned with those of the first.

    A row is ["=", line], ["fold", number of equal lines] or ["≠", line or None per side].
    Returns the first MAX_ROWS and how many more there are.
    """
    base = texts[0]
    beside, before = zip(*(_aligned(base, text) for text in texts[1:]), strict=True)
    rows: list[Json] = []
    for index in range(len(base) + 1):
        # First what other sides have before this line of the first one.
        depth = max(len(inserted.get(index, [])) for inserted in before)
        for number in range(depth):
            others = [_at(inserted.get(index, []), number) for inserted in before]
            rows.append(["≠", None, *others])
        if index < len(base):
            others = [lines[index] for lines in beside]
            is_equal = all(line == base[index] for line in others)
            rows.append(["=", base[index]] if is_equal else ["≠", base[index], *others])
    folded = _folded(rows)
    return folded[:MAX_ROWS], max(0, len(folded) - MAX_ROWS)


def _aligned(base: list[str], text: list[str]) -> tuple[list[str | None], dict[int, list[str]]]:
    """For each line of the base the one beside it or None; and what stands before its lines."""
    beside: list[str | None] = [None] * len(base)
    before: dict[int, list[str]] = {}
    matcher = SequenceMatcher(None, base, text, autojunk=len(base) > MANY_LINES)
    for tag, a, a_end, b, b_end in matcher.get_opcodes():
        shared = min(a_end - a, b_end - b) if tag in ("equal", "replace") else 0
        beside[a : a + shared] = text[b : b + shared]
        if b + shared < b_end:
            before.setdefault(a_end, []).extend(text[b + shared : b_end])
    return beside, before


def _at(lines: Sequence[str], number: int) -> str | None:
    return lines[number] if number < len(lines) else None


def _folded(rows: list[Json]) -> list[Json]:
    """Runs of equal lines become one row, but for those around what differs."""
    differing = [index for index, row in enumerate(rows) if row[0] != "="]
    kept: set[int] = set()
    for index in differing:
        kept.update(range(index - CONTEXT, index + CONTEXT + 1))
    folded: list[Json] = []
    for index, row in enumerate(rows):
        if index in kept:
            folded.append(row)
        elif folded and folded[-1][0] == "fold":
            folded[-1][1] += 1
        else:
            folded.append(["fold", 1])
    return folded
