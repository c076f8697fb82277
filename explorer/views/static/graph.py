"""A snapshot's graph as text, as a picture, and as DOT for Graphviz.

    images        input 1x3x16x16 f32
    conv_1        conv 3x3 <- images, weight_1 : 1x16x16x16 f32

`GraphMarks` says what to point out: what a pass added, removed, changed or fused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import graphviz

from explorer.results.graph import Graph, GraphDiff, GraphNode
from explorer.views.drawing.collapse import collapse, hidden_operations
from explorer.views.drawing.layout import Drawing, Route, layout_graph
from explorer.views.numbers import format_count
from explorer.views.parts import svg
from explorer.views.parts.markup import card, legend_of, note, picture, plain
from explorer.views.parts.plain import columns
from explorer.views.theme import (
    ADDED,
    CHANGED,
    DIFFERENCES,
    FAMILIES,
    FUSED,
    LIGHT,
    REMOVED,
    Look,
    family,
    text_on,
)

NODE_SIZE = (176.0, 38.0)
PICTURE_NODES = 40
"""Most nodes of a picture inside a notebook's cell."""
TEXT_NODES = 200


@dataclass(frozen=True)
class GraphMarks:
    """What to point out: a look per node, and a second line that says more than its shape."""

    looks: Mapping[str, Look] = field(default_factory=dict)
    remarks: Mapping[str, str] = field(default_factory=dict)
    grounds: Mapping[str, str] = field(default_factory=dict)
    """Colours as `#rrggbb` that nodes are filled with instead of that of their family."""


def graph_marks(diff: GraphDiff) -> GraphMarks:
    """The marks of a pass. An operation that took over others counts as fused, even when new."""
    looks: dict[str, Look] = {}
    remarks: dict[str, str] = {}
    for change in diff.changed:
        looks[change.id] = CHANGED
        value = f"{change.field} {change.after}"
        remarks[change.id] = f"{remarks[change.id]}, {value}" if change.id in remarks else value
    looks |= dict.fromkeys(diff.added, ADDED) | dict.fromkeys(diff.removed, REMOVED)
    for operation, parents in diff.fused:
        looks[operation] = FUSED
        remarks[operation] = f"{FUSED.glyph} {', '.join(parents)}"
    return GraphMarks(looks, remarks)


def graph_text(graph: Graph, limit: int = TEXT_NODES) -> str:
    """One line per operation in program order: identity, what it is, operands, type."""
    shown = graph.nodes[:limit]
    operands: dict[str, list[str]] = {}
    for edge in graph.edges:
        operands.setdefault(edge.target, []).append(edge.source)
    rows = []
    for node in shown:
        inputs = ", ".join(plain(name) for name in operands.get(node.id, ()))
        rows.append((node.id, node.label, f"<- {inputs}" if inputs else "", node.shape))
    lines = [format_count(len(graph.nodes), "operation"), *columns(rows)]
    if len(graph.nodes) > limit:
        lines.append(f"  and {len(graph.nodes) - limit} more: graph_text(graph, limit=...)")
    return "\n".join(lines)


def graph_html(graph: Graph, limit: int = PICTURE_NODES) -> str:
    """The whole graph as a picture; above `limit` nodes in blocks, with a line that says so."""
    shown = collapse(graph, limit)
    drawing = placed(shown)
    hidden = hidden_operations(shown)
    body = picture(graph_svg(shown, layout=drawing), drawing.width, f"graph: {_summary(graph)}")
    body += legend(shown)
    if hidden:
        body += note(
            f"{hidden} of {len(graph.nodes)} operations stand in "
            f"{sum(n.family == 'block' for n in shown.nodes)} blocks: "
            f"graph_html(graph, limit={len(graph.nodes)}) shows each."
        )
    return card("Graph", body, subtitle=_summary(graph))


def graph_svg(
    graph: Graph,
    layout: Drawing | None = None,
    marks: GraphMarks | None = None,
) -> str:
    """The graph as an SVG document on a light ground; `marks` points out what a pass did."""
    drawing = layout or placed(graph)
    marked = marks or GraphMarks()
    pairs = dict.fromkeys((edge.source, edge.target) for edge in graph.edges)
    drawn = [_edge(drawing.routes[pair], pair, marked) for pair in pairs if pair in drawing.routes]
    drawn += [_node(node, drawing, marked) for node in graph.nodes]
    return svg.document(drawing.width, drawing.height, "".join(drawn))


def graph_dot(graph: Graph, name: str = "snapshot") -> str:
    """The graph in the DOT language; drawing it takes Graphviz's `dot`, writing it does not.

    Nodes are numbered, for a colon in a name would mean a port.
    """
    dot = graphviz.Digraph(name=graphviz.escape(plain(name)))
    dot.attr("node", shape="box", style="rounded,filled", fontname="sans-serif", fontsize="11")
    number = {node.id: f"n{index}" for index, node in enumerate(graph.nodes)}
    for node in graph.nodes:
        tone = family(node.family).light
        dot.node(
            number[node.id],
            # escape() keeps a name of the form <...> from being read as HTML
            label=graphviz.escape(f"{plain(node.label)} | {plain(node.id)} | {plain(node.shape)}"),
            fillcolor=tone.fill,
            color=tone.edge,
            fontcolor=LIGHT.text,
        )
    for edge in graph.edges:
        dot.edge(
            number[edge.source], number[edge.target], tooltip=graphviz.escape(plain(edge.type))
        )
    return dot.source


def legend(graph: Graph, marks: GraphMarks | None = None) -> str:
    """The families and differences that a picture holds, as HTML."""
    present = {node.family for node in graph.nodes}
    looks = [look for look in FAMILIES if look.name in present]
    drawn = {look.name for look in marks.looks.values()} if marks else set()
    entries = [(look, look.title) for look in looks]
    return legend_of(entries + [(look, look.name) for look in DIFFERENCES if look.name in drawn])


def _summary(graph: Graph) -> str:
    return (
        f"{format_count(len(graph.nodes), 'operation')}, {format_count(len(graph.edges), 'edge')}"
    )


def placed(graph: Graph) -> Drawing:
    """Where everything stands in a picture."""
    ids = [node.id for node in graph.nodes]
    return layout_graph(
        ids, [(e.source, e.target) for e in graph.edges], sizes=dict.fromkeys(ids, NODE_SIZE)
    )


def _edge(route: Route, pair: tuple[str, str], marks: GraphMarks) -> str:
    ends = [marks.looks.get(node) for node in pair]
    look = next((end for end in ends if end is REMOVED), None)
    colour = REMOVED.light.edge if look else LIGHT.line
    (x, y), before = route[-1], route[-2]
    up = -1 if y >= before[1] else 1
    head = svg.polygon([(x, y), (x - 3.5, y + 7 * up), (x + 3.5, y + 7 * up)], fill=colour)
    shaft = (*route[:-1], (x, y + 5 * up))
    data = svg.route_data(shaft)
    dashes = REMOVED.dashes if look else ""
    return svg.path(data, fill="none", stroke=colour, stroke_dasharray=dashes) + head


def _node(node: GraphNode, drawing: Drawing, marks: GraphMarks) -> str:
    """A rounded box: glyph and identity, below it what it is or what the pass did to it."""
    (x, y), (width, height) = drawing.positions[node.id], drawing.sizes[node.id]
    left, top = x - width / 2, y - height / 2
    kind = family(node.family)
    look = marks.looks.get(node.id)
    edge = look.light.edge if look else kind.light.edge
    ground = marks.grounds.get(node.id)
    parts = svg.rect(
        left + 0.5,
        top + 0.5,
        width - 1,
        height - 1,
        rx=5,
        fill=ground or (LIGHT.background if look is REMOVED else kind.light.fill),
        stroke=edge,
        stroke_width=2 if look else 1,
        stroke_dasharray=look.dashes if look else "",
    )
    ink = text_on(ground) if ground else LIGHT.quiet if look is REMOVED else LIGHT.text
    glyph = ink if ground else kind.light.ink
    parts += svg.text(left + 9, top + 16, kind.glyph, fill=glyph, font_size=13)
    name_width = width - 30 - (18 if look else 0)
    labelled = node.family in ("block", "input", "output")  # their identity says no more
    title = node.label if labelled else node.id
    parts += svg.text(
        left + 26,
        top + 16,
        svg.fit(title, name_width),
        fill=ink,
        text_decoration="line-through" if look is REMOVED else "",
    )
    usual = node.shape if labelled else f"{node.label} · {node.shape}"
    detail = marks.remarks.get(node.id) or usual
    parts += svg.text(
        left + 9,
        top + 31,
        svg.fit(detail, width - 16, 10),
        fill=ink if ground else LIGHT.quiet,
        font_size=10,
    )
    if look:
        parts += svg.text(
            left + width - 9,
            top + 16,
            look.glyph,
            fill=look.light.ink,
            font_weight=700,
            text_anchor="end",
        )
    return parts
