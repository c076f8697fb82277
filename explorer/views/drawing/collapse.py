"""Large graphs in blocks: the operations of one scope become one node that says how many.

    stage1/conv_1, stage1/relu_1, stage1/add_1, head/gemm_9   (limit 2)
        -> "stage1 · 3 ops", "gemm_9"

What is hidden stays readable: a block's `attributes` hold the count and the operations by name,
its `sources` are those of all its members.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from explorer.results.graph import Graph, GraphEdge, GraphNode

LIMIT = 300
"""Most nodes that a person can still follow, and a browser draw without delay."""
NAMED_MEMBERS = 8
"""Members that a block lists by their identity; the rest it counts."""
_ENDS = ("input", "output")


def collapse(graph: Graph, limit: int = LIMIT) -> Graph:
    """The graph with at most about `limit` nodes; the same object when it has no more.

    Scopes are collapsed from the innermost level outwards until the graph is small enough. What
    is then still too much, or has no scope, is cut into runs of consecutive operations. Inputs
    and outputs always stay.
    """
    return collapse_together((graph,), limit)[0]


def collapse_together(graphs: Sequence[Graph], limit: int = LIMIT) -> tuple[Graph, ...]:
    """Collapses all snapshots of a compilation to the same depth, so that blocks keep their
    identity from pass to pass. Graphs come back as they were when none has over `limit` nodes.
    """
    if limit < 1:
        raise ValueError(f"collapse: the limit must be at least 1, found {limit}")
    if all(len(graph.nodes) <= limit for graph in graphs):
        return tuple(graphs)
    deepest = max((_depth(node) for graph in graphs for node in graph.nodes), default=0)
    depth = next(
        (
            depth
            for depth in range(deepest, 0, -1)
            if all(len(set(_by_scope(graph, depth).values())) <= limit for graph in graphs)
        ),
        min(deepest, 1),
    )
    # One object in, one object out: unchanged snapshots stay the same object.
    done: dict[int, Graph] = {}
    for graph in graphs:
        if id(graph) not in done:
            blocks = _by_scope(graph, depth) if depth else {n.id: n.id for n in graph.nodes}
            if len(set(blocks.values())) > limit:
                blocks = _by_runs(graph, blocks, limit)
            done[id(graph)] = _merge(graph, blocks)
    return tuple(done[id(graph)] for graph in graphs)


def hidden_operations(graph: Graph) -> int:
    """How many operations a collapsed graph does not show one by one."""
    return sum(
        int(value)
        for node in graph.nodes
        if node.family == "block"
        for name, value in node.attributes
        if name == "operations"
    )


def _depth(node: GraphNode) -> int:
    return len(_scope_path(node))


def _scope_path(node: GraphNode) -> tuple[str, ...]:
    if node.family in _ENDS:
        return ()
    return tuple(part for part in node.scope.split("/") if part)


def _by_scope(graph: Graph, depth: int) -> dict[str, str]:
    """The block of every node: nodes at least `depth` scopes deep go into the block of their
    first `depth` scopes. A block of one node is that node."""
    blocks = {
        node.id: "block:" + "/".join(path[:depth]) if len(path) >= depth else node.id
        for node in graph.nodes
        for path in (_scope_path(node),)
    }
    return _without_single_blocks(blocks)


def _by_runs(graph: Graph, blocks: Mapping[str, str], limit: int) -> dict[str, str]:
    """Joins consecutive blocks in program order, as many as it takes to stay within the limit.

    Runs of a topological order make no new cycles.
    """
    ends = {node.id for node in graph.nodes if node.family in _ENDS}
    units = list(dict.fromkeys(b for n, b in blocks.items() if n not in ends))
    length = -(-len(units) // max(limit - len(ends), 1))
    run_of: dict[str, str] = {}
    for first in range(0, len(units), length):
        run = units[first : first + length]
        run_of |= dict.fromkeys(run, f"block:{first + 1}–{first + len(run)}")
    return _without_single_blocks(
        {node: node if node in ends else run_of[block] for node, block in blocks.items()}
    )


def _without_single_blocks(blocks: Mapping[str, str]) -> dict[str, str]:
    members: dict[str, int] = {}
    for block in blocks.values():
        members[block] = members.get(block, 0) + 1
    return {node: node if members[block] == 1 else block for node, block in blocks.items()}


def _merge(graph: Graph, blocks: Mapping[str, str]) -> Graph:
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
