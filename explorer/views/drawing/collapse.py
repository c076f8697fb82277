"""A large graph with its blocks closed, for pictures in which nothing can be opened.

    stage1/conv_1, stage1/relu_1, stage1/add_1, head/gemm_9   (limit 2)
        -> "stage1 · 3 ops", "gemm_9"

What is hidden stays readable: a block's `attributes` hold the count and the operations by name,
its `sources` are those of all its members.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from explorer.results.graph import Graph, GraphEdge, GraphNode
from explorer.views.drawing.blocks import (
    PORT_IN,
    PORT_OUT,
    ROOT,
    BlockTree,
    build_blocks,
    level_graphs,
)

LIMIT = 300
"""Most nodes that a person can still follow, and a browser draw without delay."""
NAMED_MEMBERS = 8
"""Members that a block lists by their identity; the rest it counts."""


def collapse(graph: Graph, limit: int = LIMIT) -> Graph:
    """The graph with at most `limit` nodes, or with all its blocks closed where these are more;
    the same object when it has no more.

    Blocks (`blocks.py`) are opened, the largest first, as long as there is room for what is inside.
    """
    return merged(graph, closed_units(graph, limit))


def closed_units(graph: Graph, limit: int = LIMIT) -> dict[str, str]:
    """For every operation the closed block that it stands in, or itself."""
    if limit < 1:
        raise ValueError(f"collapse: the limit must be at least 1, found {limit}")
    if len(graph.nodes) <= limit:
        return {node.id: node.id for node in graph.nodes}
    tree = build_blocks([graph])
    opened = _opened(graph, tree, limit)
    units = {}
    for node in graph.nodes:
        closed = next((block for block in tree.chain(node.id) if block not in opened), None)
        units[node.id] = node.id if closed is None else _identity(tree, closed)
    return units


def hidden_operations(graph: Graph) -> int:
    """How many operations a collapsed graph does not show one by one."""
    return sum(
        int(value)
        for node in graph.nodes
        if node.family == "block"
        for name, value in node.attributes
        if name == "operations"
    )


def _opened(graph: Graph, tree: BlockTree, limit: int) -> set[int]:
    held = {
        block: sum(node.id not in (PORT_IN, PORT_OUT) for node in level.nodes)
        for block, level in level_graphs(graph, tree).items()
    }
    total = dict.fromkeys(range(len(tree.blocks)), 0)
    for node in graph.nodes:
        for block in tree.chain(node.id):
            total[block] += 1
    opened = {ROOT}
    seen = held.get(ROOT, 0)
    # The program first, then the largest; a block is looked at when the one around it is open.
    for block in sorted(held, key=lambda block: (-total[block], block)):
        is_in_sight = tree.blocks[block].parent in opened
        if block != ROOT and is_in_sight and seen - 1 + held[block] <= limit:
            opened.add(block)
            seen += held[block] - 1
    return opened


def _identity(tree: BlockTree, block: int) -> str:
    """`block:stage 1/residual block 2`: unlike the number the same in a similar program."""
    labels = []
    while block != ROOT:
        labels.append(tree.blocks[block].label)
        block = tree.blocks[block].parent
    return "block:" + "/".join(reversed(labels))


def merged(graph: Graph, blocks: Mapping[str, str]) -> Graph:
    """The graph of the blocks; the same object where every operation stands for itself."""
    if all(block == node for node, block in blocks.items()):
        return graph
    members: dict[str, list[GraphNode]] = {}
    for node in graph.nodes:
        members.setdefault(blocks[node.id], []).append(node)
    nodes = tuple(
        inside[0] if block == inside[0].id else _block_node(block, inside)
        for block, inside in members.items()
    )
    edges = dict.fromkeys(
        GraphEdge(blocks[edge.source], blocks[edge.target], edge.value, edge.type)
        for edge in graph.edges
        if blocks[edge.source] != blocks[edge.target]
    )
    return Graph(nodes, tuple(edges))


def _block_node(block: str, inside: Sequence[GraphNode]) -> GraphNode:
    scope = block.removeprefix("block:").split("/")
    names = ", ".join(node.id for node in inside[:NAMED_MEMBERS])
    more = len(inside) - NAMED_MEMBERS
    devices = dict.fromkeys(node.device for node in inside)
    return GraphNode(
        id=block,
        operation="block",
        label=f"{scope[-1]} · {len(inside)} ops",
        family="block",
        shape=inside[-1].shape,
        sources=tuple(dict.fromkeys(source for node in inside for source in node.sources)),
        device=next(iter(devices)) if len(devices) == 1 else "",
        attributes=(
            ("operations", str(len(inside))),
            ("hidden", names + (f" and {more} more" if more > 0 else "")),
        ),
        scope="/".join(scope[:-1]),
    )
