"""The blocks of one program before they are numbered: name scopes, regions, groups that were found.

    /model/stage1/conv_1  /model/stage1/relu_1  /model/head/gemm_9 ...
        ->  program: "stage1" (conv_1, relu_1, ...), "head" (gemm_9, ...)

A scope that holds nearly all of what stands around it says nothing: what is in it takes its place.
An operator of the file that became very many operations is a block, too.
"""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from explorer.results.graph import Graph, GraphNode
from explorer.views.drawing.rows import MIN_OPERATIONS

ENDS = ("input", "output")
REGION = "\0"
"""Before the names of regions, which no name scope can then have."""
_OPERATOR = "\1"
"""Before the names of source nodes whose operations are a block."""
_MANY = 24
"""So many operations of one operator are a block."""
_NEARLY_ALL = 0.8
_NUMBER = re.compile(r"[\s._-]*\d+$")


@dataclass(eq=False)
class Scope:
    """A block on its way: its operations in program order, its parts by name."""

    label: str = ""
    """As it is shown; "" takes the name under which it stands."""
    motif: str = ""
    """What it is where it was found: `residual block`; "" for scopes and regions."""
    operations: list[GraphNode] = field(default_factory=list)
    parts: dict[str, Scope] = field(default_factory=dict)
    is_region: bool = False
    sources: tuple[str, ...] = ()
    operator: GraphNode | None = None
    """The node of the file that all of it was made of."""

    def count(self) -> int:
        return len(self.operations) + sum(part.count() for part in self.parts.values())

    def members(self) -> Iterator[GraphNode]:
        yield from self.operations
        for part in self.parts.values():
            yield from part.members()


def scopes_of(graph: Graph, model: Graph | None) -> Scope:
    """What the names say. `model`: the file's own nodes, which know what an operator is called."""
    of_source: Counter[tuple[tuple[str, ...], tuple[str, ...]]] = Counter(
        (node.sources, node.regions) for node in graph.nodes if len(node.sources) == 1
    )
    operators = {node.sources: node for node in model.nodes} if model else {}
    program = Scope()
    for node in graph.nodes:
        scope = program
        for name in _path(node):
            scope = scope.parts.setdefault(name, Scope(label=name))
        if of_source[node.sources, node.regions] >= _MANY and not node.regions:
            name = _OPERATOR + node.sources[0]
            operator = operators.get(node.sources)
            label = operator.label if operator else _last(node.sources[0])
            scope = scope.parts.setdefault(name, Scope(motif=label, operator=operator))
        for name in node.regions:
            scope = scope.parts.setdefault(REGION + name, Scope(label=name, is_region=True))
        if len(node.regions) % 2:
            scope.sources = node.sources
        scope.operations.append(node)
    _simplify(program)
    _name_numbers(program, "")
    return program


def stem_of(label: str) -> str:
    """`layer_._3` -> `layer`: what things that are counted have in common; "" for other names."""
    stem = _NUMBER.sub("", label)
    return stem if stem != label else ""


def _last(name: str) -> str:
    return name.strip("/").rsplit("/", 1)[-1]


def _path(node: GraphNode) -> tuple[str, ...]:
    if node.family in ENDS:
        return ()
    return tuple(part for part in node.scope.split("/") if part)


def _simplify(scope: Scope) -> None:
    """Scopes of very few operations are these; what holds nearly all is taken out of its scope."""
    for name, part in list(scope.parts.items()):
        _simplify(part)
        if part.is_region:
            continue
        if part.count() < MIN_OPERATIONS and not _holds_region(part):
            del scope.parts[name]
            scope.operations.extend(part.members())
    all_of_it = sum(node.family not in ENDS for node in scope.members())
    for name, part in list(scope.parts.items()):
        if not part.is_region and not part.motif and part.count() > _NEARLY_ALL * all_of_it:
            _lift(scope, name, part)


def _holds_region(scope: Scope) -> bool:
    return scope.is_region or any(_holds_region(part) for part in scope.parts.values())


def _lift(scope: Scope, name: str, part: Scope) -> None:
    """What is in a part stands in the scope itself, in the part's place."""
    parts: dict[str, Scope] = {}
    for key, value in scope.parts.items():
        if key != name:
            parts.setdefault(key, value)
            continue
        for inner, held in part.parts.items():
            parts[inner if inner not in scope.parts or inner == name else f"{name}/{inner}"] = held
    scope.operations.extend(part.operations)
    scope.parts = parts


def _name_numbers(scope: Scope, outer: str) -> None:
    """A scope that is only numbered is called like the one around it: `layers`, 0 -> `layers 0`."""
    for part in scope.parts.values():
        if part.label and not part.is_region and not re.search(r"[^\W\d_]", part.label):
            around = stem_of(outer) or outer
            part.label = f"{around or 'scope'} {part.label.strip('._- ') or part.label}"
        _name_numbers(part, part.label)


def in_order(
    units: Sequence[str], edges: Mapping[str, Iterable[str]], first: Mapping[str, int]
) -> list[str]:
    """Units so that each comes after those that it takes from, else as the program has them.

    Scopes may take from one another in turn; then the first of them in the program comes first.
    """
    waiting = dict.fromkeys(units, 0)
    for source in units:
        for target in edges.get(source, ()):
            waiting[target] += 1
    ready = [(first[unit], unit) for unit in units if not waiting[unit]]
    heapq.heapify(ready)
    left = sorted(units, key=lambda unit: first[unit])
    done: dict[str, None] = {}
    at = 0
    while len(done) < len(units):
        if ready:
            _, unit = heapq.heappop(ready)
        else:
            while left[at] in done:
                at += 1
            unit = left[at]
        if unit in done:
            continue
        done[unit] = None
        for target in edges.get(unit, ()):
            waiting[target] -= 1
            if waiting[target] == 0 and target not in done:
                heapq.heappush(ready, (first[target], target))
    return list(done)
