"""Blocks of a program, one tree for all snapshots: name scopes, and structure that is found.

    conv_1 relu_1 [conv add relu] x 4 pool gemm_9
        ->  program: block "stem", block "stage 1", 2 × residual block (block "residual block 1",
            ...), block "head"

A person opens and closes blocks one by one, so that every block has a drawing of its own:
`level_graphs` says what stands in each, with two ports for the edges from and to outside.

    inside of "stem":   #in -> conv_1 -> relu_1 -> #out

An operation with regions (if, loop) is a block of its own, with a block inside for every region;
these are never simplified away, however little stands in them.

    block "if if_3":   #in -> block "then", block "else" -> if_3 -> #out

The tree is made from one program, that of the import, and holds for all: an operation that a pass
makes stands where the source nodes stand that it comes from, and what comes from none (a copy, a
transfer) with the operations that it serves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from explorer.results.graph import Graph, GraphEdge, GraphNode
from explorer.views.drawing.grouping import ROW, group_scopes
from explorer.views.drawing.scopes import ENDS, Scope, scopes_of, stem_of

ROOT = 0
PORT_IN, PORT_OUT = "#in", "#out"
_ROWS = frozenset({"stage", "section", ROW})
"""Motifs of blocks that are only a row of others."""
_FILE = "source."
"""Operations of the model file as it is, before anything is imported."""


@dataclass(frozen=True)
class Block:
    label: str
    parent: int
    is_region: bool = False
    """An operation with regions, or one of its regions."""
    sources: tuple[str, ...] = ()
    """Of the operation with regions, so that its box stays in its place when a pass replaces it."""
    holds: str = ""
    """What it is a row of, counted: `4 × residual block`; "" for other blocks."""
    alike: int = ROOT
    """The first block that is built like this one: itself where there is none before it, and for
    rows of others, which one opens to look at, and not for what they are."""


@dataclass(frozen=True)
class BlockTree:
    """Block 0 is the program; every other one has a parent before it."""

    blocks: tuple[Block, ...]
    of: Mapping[str, int]
    """The block in which an operation stands, for the operations of all snapshots."""
    imported: int = 1
    """So many blocks are those of the import; behind them stand regions that passes made."""

    def chain(self, operation: str) -> tuple[int, ...]:
        """The blocks around an operation, the program first."""
        chain = [self.of[operation]]
        while chain[-1] != ROOT:
            chain.append(self.blocks[chain[-1]].parent)
        return tuple(reversed(chain))


def unit_name(block: int) -> str:
    """The name that a block has in drawings, where operations have their identities."""
    return f"#{block}"


def build_blocks(graphs: Sequence[Graph]) -> BlockTree:
    """The tree of all snapshots. An operation stays in the block in which it appears first."""
    if not graphs:
        return BlockTree((Block("", ROOT),), {})
    reference = next((g for g in graphs if not _is_file(g)), graphs[0])
    program = scopes_of(reference, graphs[0] if _is_file(graphs[0]) else None)
    serving = group_scopes(program, reference)
    builder = _Builder()
    builder.number(program, ROOT)
    builder.name()
    builder.place(reference, serving)
    imported = len(builder.blocks)
    for graph in graphs:
        builder.place(graph, frozenset())
    return BlockTree(tuple(builder.blocks), builder.of, imported)


def _is_file(graph: Graph) -> bool:
    return any(node.operation.startswith(_FILE) for node in graph.nodes)


@dataclass
class _Builder:
    blocks: list[Block] = field(default_factory=list)
    of: dict[str, int] = field(default_factory=dict)
    of_source: dict[str, int] = field(default_factory=dict)
    depth: list[int] = field(default_factory=list)
    motifs: list[str] = field(default_factory=list)
    regions: dict[tuple[int, str], int] = field(default_factory=dict)
    """The block of a region by the one around it and the name of the region."""
    shapes: dict[object, int] = field(default_factory=dict)
    """The first block of every structure."""

    # -- the tree ---------------------------------------------------------------------------------

    def number(self, scope: Scope, parent: int) -> object:
        """Adds a block with all in it; returns its structure."""
        index = self._add(Block(scope.label, parent, scope.is_region, scope.sources), scope.motif)
        if scope.is_region:
            self.regions[parent, scope.label] = index
        self.of.update(dict.fromkeys((node.id for node in scope.operations), index))
        inside = tuple(self.number(part, index) for part in scope.parts.values())
        what = scope.motif or stem_of(scope.label) or scope.label
        shape = hash((what, tuple(node.label for node in scope.operations), inside))
        first = self.shapes.setdefault(shape, index)
        self.blocks[index] = replace(self.blocks[index], alike=first)
        return shape

    def _add(self, block: Block, motif: str = "") -> int:
        index = len(self.blocks)
        self.blocks.append(replace(block, alike=index))
        self.motifs.append(motif)
        self.depth.append(self.depth[block.parent] + 1 if index else 0)
        return index

    def name(self) -> None:
        """Names for what was found: by what it is, numbered where there are several."""
        inside: dict[int, list[int]] = {}
        for index, block in enumerate(self.blocks[1:], 1):
            inside.setdefault(block.parent, []).append(index)
        occupied = set(self.of.values())
        total = Counter(self._key(index) for index in range(len(self.blocks)))
        seen: Counter[tuple[int, str]] = Counter()
        numbers: dict[int, str] = {}
        for index, block in enumerate(self.blocks[1:], 1):
            key = self._key(index)
            label, holds, alike = block.label, "", block.alike
            if self.motifs[index]:
                seen[key] += 1
                outer = numbers[key[0]] + "." if self.motifs[key[0]] == key[1] else ""
                numbers[index] = f"{outer}{seen[key]}"
                label = f"{key[1]} {numbers[index]}" if total[key] > 1 or outer else key[1]
            members = self._members(index, inside)
            what = {self._what(i) for i in members}
            count = len(members)
            if not block.is_region and count > 1 and len(what) == 1 and what != {""} and \
                    (index not in occupied or self.motifs[index] in _ROWS):  # fmt: skip
                holds = f"{count} × {what.pop()}"
                alike = index
            if self.motifs[index] == ROW:
                label, holds = holds, ""
            self.blocks[index] = replace(block, label=label, holds=holds, alike=alike)

    def _key(self, index: int) -> tuple[int, str]:
        """Within what, and under which name, blocks that were found are numbered: a stage within
        stage 2 is stage 2.1, so that those that stand side by side have numbers in a row."""
        motif = self.motifs[index]
        if motif == "branch":
            return self.blocks[index].parent, motif
        around = self.blocks[index].parent
        while around != ROOT and self.motifs[around] != motif:
            around = self.blocks[around].parent
        return around, motif

    def _members(self, index: int, inside: Mapping[int, list[int]]) -> list[int]:
        """The blocks in a block; those in its sections instead of these."""
        members: list[int] = []
        for inner in inside.get(index, ()):
            is_section = self.motifs[inner] == "section"
            members.extend(self._members(inner, inside) if is_section else [inner])
        return members

    def _what(self, index: int) -> str:
        return self.motifs[index] or stem_of(self.blocks[index].label)

    # -- operations -------------------------------------------------------------------------------

    def place(self, graph: Graph, serving: frozenset[str]) -> None:
        """Gives every operation of a snapshot its block; `serving`: which go where they serve."""
        for name in serving:
            self.of.pop(name, None)
        loose: list[GraphNode] = []
        unplaced = [node for node in graph.nodes if node.id not in self.of]
        holders = {node.id: node for node in unplaced if len(node.regions) % 2}
        for node in sorted(holders.values(), key=lambda node: len(node.regions)):
            self.of[node.id] = self._in_regions(node, holders)
        for node in unplaced:
            known = None if node.id in serving else self._of_sources(node)
            if node.family in ENDS:
                self.of[node.id] = ROOT
            elif node.regions:
                self.of[node.id] = self._in_regions(node, holders)
            elif known is not None:
                self.of[node.id] = known
            else:
                loose.append(node)
        self._serve(loose, graph)
        for node in graph.nodes:
            for source in node.sources:
                if node.family not in ENDS:
                    self.of_source.setdefault(source, self.of[node.id])

    def _of_sources(self, node: GraphNode) -> int | None:
        known = [self.of_source[s] for s in node.sources if s in self.of_source]
        if not known:
            return None
        common = self._around(known)
        return known[0] if common == ROOT else common

    def _in_regions(self, node: GraphNode, holders: Mapping[str, GraphNode]) -> int:
        """The innermost region around an operation, where the outermost one's operation stands."""
        outermost = holders.get(node.regions[0], node)
        around = self._of_sources(outermost) or ROOT
        while self.blocks[around].is_region:
            around = self.blocks[around].parent
        for name in node.regions:
            if (around, name) not in self.regions:
                sources = holders[name].sources if name in holders else ()
                self.regions[around, name] = self._add(Block(name, around, True, sources))
            around = self.regions[around, name]
        return around

    def _serve(self, loose: Sequence[GraphNode], graph: Graph) -> None:
        """Operations of their own stand with those that use them, else with those they use."""
        if not loose:
            return
        waiting = {node.id for node in loose}
        families = {node.id: node.family for node in graph.nodes}
        users: dict[str, list[str]] = {}
        used: dict[str, list[str]] = {}
        for edge in graph.edges:
            if families[edge.target] not in ENDS:
                users.setdefault(edge.source, []).append(edge.target)
            if families[edge.source] not in ENDS:
                used.setdefault(edge.target, []).append(edge.source)
        for node in reversed(loose):
            known = [self.of[u] for u in users.get(node.id, ()) if u in self.of]
            around = self._around(known) if known else ROOT
            if around == ROOT and not known and not used.get(node.id):
                self.of[node.id] = ROOT
            elif around != ROOT or not used.get(node.id):
                self.of[node.id] = around
        for node in loose:
            if node.id in self.of:
                continue
            known = [self.of[u] for u in used.get(node.id, ()) if u in self.of]
            self.of[node.id] = self._around(known) if known else ROOT
        for name in waiting:
            self.of.setdefault(name, ROOT)

    def _around(self, blocks: Iterable[int]) -> int:
        """The innermost block around all of them."""
        common, *others = dict.fromkeys(blocks)
        for other in others:
            while common != other:
                if self.depth[common] >= self.depth[other]:
                    common = self.blocks[common].parent
                else:
                    other = self.blocks[other].parent
        return common


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
