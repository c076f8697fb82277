"""Blocks of a program, one tree for all snapshots: name scopes, repeated structure, runs.

    /stage1/conv_1  /stage1/relu_1  /head/gemm_9  /head/softmax_9
        ->  program: block "stage1" (conv_1, relu_1), block "head" (gemm_9, softmax_9)

A person opens and closes blocks one by one, so that every block has a drawing of its own:
`level_graphs` says what stands in each, with two ports for the edges from and to outside.

    inside of "stage1":   #in -> conv_1 -> relu_1 -> #out

An operation with regions (if, loop) is a block of its own, with a block inside for every region;
these are never simplified away, however little stands in them.

    block "if if_3":   #in -> block "then", block "else" -> if_3 -> #out
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from explorer.results.graph import Graph, GraphEdge, GraphNode
from explorer.views.drawing.repeats import find_repeat

ROOT = 0
PORT_IN, PORT_OUT = "#in", "#out"
MOST_UNITS = 96
"""Most operations side by side in a block; more are cut into repetitions or runs."""
MOST_PARTS = 240
"""Most blocks that a repeated structure becomes; beyond that each holds several repetitions."""
_ENDS = ("input", "output")
_REGION = "\0"
"""Before the names of regions, which no name scope can then have."""


@dataclass(frozen=True)
class Block:
    label: str
    parent: int
    is_region: bool = False
    """An operation with regions, or one of its regions."""
    sources: tuple[str, ...] = ()
    """Of the operation with regions, so that its box stays in its place when a pass replaces it."""


@dataclass(frozen=True)
class BlockTree:
    """Block 0 is the program; every other one has a parent before it."""

    blocks: tuple[Block, ...]
    of: Mapping[str, int]
    """The block in which an operation stands, for the operations of all snapshots."""

    def chain(self, operation: str) -> tuple[int, ...]:
        """The blocks around an operation, the program first."""
        chain = [self.of[operation]]
        while chain[-1] != ROOT:
            chain.append(self.blocks[chain[-1]].parent)
        return tuple(reversed(chain))


def unit_name(block: int) -> str:
    """The name that a block has in drawings, where operations have their identities."""
    return f"#{block}"


@dataclass
class _Scope:
    """A block on its way: its operations in program order, its parts by name."""

    operations: list[GraphNode] = field(default_factory=list)
    parts: dict[str, _Scope] = field(default_factory=dict)
    is_region: bool = False
    sources: tuple[str, ...] = ()

    def count(self) -> int:
        return len(self.operations) + sum(part.count() for part in self.parts.values())


def build_blocks(graphs: Sequence[Graph]) -> BlockTree:
    """The tree of all snapshots. An operation stays in the block in which it appears first."""
    program = _Scope()
    seen: set[str] = set()
    places = _places(graphs[0]) if graphs else {}
    for graph in graphs:
        for node in graph.nodes:
            if node.id in seen:
                continue
            seen.add(node.id)
            scope = program
            for part in _path(node):
                scope = scope.parts.setdefault(part, _Scope())
            for part in node.regions:
                scope = scope.parts.setdefault(_REGION + part, _Scope(is_region=True))
            if len(node.regions) % 2:
                scope.sources = node.sources
            scope.operations.append(node)
    _simplify(program)
    program = _without_only_block(program)
    _divide(program, places)
    blocks: list[Block] = []
    of: dict[str, int] = {}
    _number(program, "", ROOT, blocks, of)
    return BlockTree(tuple(blocks), of)


def level_graphs(graph: Graph, tree: BlockTree) -> dict[int, Graph]:
    """What stands in every block of one snapshot: operations, blocks as one node each, ports."""
    chains = {node.id: tree.chain(node.id) for node in graph.nodes}
    units: dict[int, dict[str, GraphNode]] = {}
    for node in graph.nodes:
        chain = chains[node.id]
        for outer, inner in pairwise(chain):
            name = unit_name(inner)
            if name not in units.setdefault(outer, {}):
                block = tree.blocks[inner]
                units[outer][name] = _unit_node(name, block.label, block.sources)
        units.setdefault(chain[-1], {})[node.id] = node
    edges: dict[int, dict[tuple[str, str], None]] = {}

    def connect(block: int, source: str, target: str) -> None:
        if source != target:
            edges.setdefault(block, {})[source, target] = None

    for edge in graph.edges:
        above, below = chains[edge.source], chains[edge.target]
        common = sum(1 for a, b in zip(above, below, strict=False) if a == b)
        connect(above[common - 1], _unit(above, common, edge.source),
                _unit(below, common, edge.target))  # fmt: skip
        for depth in range(common, len(above)):
            connect(above[depth], _unit(above, depth + 1, edge.source), PORT_OUT)
        for depth in range(common, len(below)):
            connect(below[depth], PORT_IN, _unit(below, depth + 1, edge.target))
    graphs = {}
    for block, members in units.items():
        pairs = edges.get(block, {})
        ports = dict.fromkeys(
            name for pair in pairs for name in pair if name in (PORT_IN, PORT_OUT)
        )
        nodes = (*members.values(), *(_unit_node(name, "") for name in ports))
        graphs[block] = Graph(nodes, tuple(GraphEdge(a, b, "", "") for a, b in pairs))
    return graphs


def _unit(chain: tuple[int, ...], depth: int, operation: str) -> str:
    """What stands for an operation in the block at `depth - 1` of its chain."""
    return unit_name(chain[depth]) if depth < len(chain) else operation


def _unit_node(name: str, label: str, sources: tuple[str, ...] = ()) -> GraphNode:
    return GraphNode(
        id=name,
        operation="block",
        label=label,
        family="block",
        shape="",
        sources=sources,
        device="",
    )


def _path(node: GraphNode) -> tuple[str, ...]:
    if node.family in _ENDS:
        return ()
    return tuple(part for part in node.scope.split("/") if part)


def _simplify(scope: _Scope) -> None:
    """A block of one operation is that operation; a block of only one block is that block."""
    for name, part in list(scope.parts.items()):
        _simplify(part)
        if part.is_region:
            continue
        if part.count() == 1:
            del scope.parts[name]
            scope.operations.extend(part.operations)
        elif not part.operations and len(part.parts) == 1:
            ((inner_name, inner),) = part.parts.items()
            if inner.is_region:
                continue
            scope.parts = {
                (f"{name}/{inner_name}" if key == name else key): (inner if key == name else value)
                for key, value in scope.parts.items()
            }


def _without_only_block(program: _Scope) -> _Scope:
    """Where all operations stand in one block, what is in it stands in the program itself."""
    while len(program.parts) == 1 and all(n.family in _ENDS for n in program.operations):
        (part,) = program.parts.values()
        if part.is_region:
            break
        program = _Scope([*program.operations, *part.operations], part.parts)
    return program


def _places(graph: Graph) -> dict[str, tuple[int, int]]:
    """The order in which a program is cut: that of the model, but what depends on no input, such
    as the making of a constant, stands right before its first user.

    A file may begin with all its constants; a block of nothing but those shows no layer.
    """
    users: dict[str, list[str]] = {}
    for edge in graph.edges:
        users.setdefault(edge.source, []).append(edge.target)
    own = {node.id: index for index, node in enumerate(graph.nodes)}
    reached = [node.id for node in graph.nodes if node.family == "input"]
    depends = set(reached)
    while reached:
        following = [user for user in users.get(reached.pop(), ()) if user not in depends]
        depends.update(following)
        reached.extend(following)
    before: dict[str, int] = {}
    for node in reversed(graph.nodes):
        if node.id in depends or node.id not in users:
            before[node.id] = own[node.id]
        else:
            before[node.id] = min(before.get(user, own[user]) for user in users[node.id])
    return {name: (before[name], own[name]) for name in own}


def _divide(scope: _Scope, places: Mapping[str, tuple[int, int]]) -> None:
    """Cuts blocks with too many operations side by side."""
    for part in scope.parts.values():
        _divide(part, places)
    inside = [node for node in scope.operations if node.family not in _ENDS]
    if len(inside) <= MOST_UNITS:
        return
    # The model's own order shows its structure; what passes added follows its source nodes.
    original = [node for node in inside if node.id in places] or inside
    original.sort(key=lambda node: places.get(node.id, (0, 0)))
    groups = _groups(original)
    group_of = {node.id: label for label, nodes in groups for node in nodes}
    of_source = {s: group_of[n.id] for _, nodes in groups for n in nodes for s in n.sources}
    parts = {label: _Scope(list(nodes)) for label, nodes in groups}
    last = groups[-1][0]
    for node in inside:
        if node.id not in group_of:
            label = next((of_source[s] for s in node.sources if s in of_source), last)
            parts[label].operations.append(node)
    scope.operations = [node for node in scope.operations if node.family in _ENDS]
    for label, part in parts.items():
        if part.count() == 1:
            scope.operations.extend(part.operations)
        else:
            scope.parts[label] = part


def _groups(nodes: Sequence[GraphNode]) -> list[tuple[str, Sequence[GraphNode]]]:
    """Repetitions of one structure, and runs of what stands before and behind them."""
    repeat = find_repeat([f"{node.operation} {node.shape}" for node in nodes])
    if repeat is None or 2 * repeat.covered < len(nodes):
        return _runs(nodes, 0)
    # Several repetitions in one block where there are very many.
    together = -(-repeat.count // MOST_PARTS)
    size = repeat.period * together
    end = repeat.start + repeat.covered
    groups = _runs(nodes[: repeat.start], 0)
    for number, start in enumerate(range(repeat.start, end, size)):
        first = number * together + 1
        last = min(first + together - 1, repeat.count)
        label = f"part {first}" if first == last else f"parts {first}–{last}"
        groups.append((f"{label} of {repeat.count}", nodes[start : min(start + size, end)]))
    return [*groups, *_runs(nodes[end:], end)]


def _runs(nodes: Sequence[GraphNode], offset: int) -> list[tuple[str, Sequence[GraphNode]]]:
    """Consecutive operations, as many in each run as there are runs at most."""
    size = max(MOST_UNITS // 2, -(-len(nodes) // MOST_UNITS))
    return [
        (f"ops {offset + start + 1}–{offset + min(start + size, len(nodes))}",
         nodes[start : start + size])
        for start in range(0, len(nodes), size)
    ]  # fmt: skip


def _number(
    scope: _Scope, label: str, parent: int, blocks: list[Block], of: dict[str, int]
) -> None:
    index = len(blocks)
    blocks.append(Block(label.removeprefix(_REGION), parent, scope.is_region, scope.sources))
    of.update(dict.fromkeys((node.id for node in scope.operations), index))
    for name, part in scope.parts.items():
        _number(part, name, index, blocks, of)
