"""Groups in every scope of a program: what the names leave side by side, divided by structure.

scope "encoder": 24 operations of two layers    ->    "encoder": transformer layer 1, 2
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from explorer.results.graph import Graph, GraphNode
from explorer.views.drawing.rows import READABLE
from explorer.views.drawing.scopes import ENDS, Scope, in_order, stem_of
from explorer.views.drawing.structure import find_structure
from explorer.views.drawing.units import Item, Part, Unit, unit_of, units_in

ROW = "row"
"""The motif of a group that is only a row of equal ones."""
_MAX_SHARE = 0.8


def group_scopes(program: Scope, graph: Graph) -> frozenset[str]:
    """Divides every scope that is too long to be read; returns the operations that only serve
    others: where they stand is said by these."""
    levels = _levels(program, graph)
    nodes = {node.id: node for node in graph.nodes}
    serving: set[str] = set()
    for scope, level in levels:
        if len(level.units) > READABLE:
            serving.update(_group(scope, level, nodes))
    return frozenset(serving)


@dataclass
class _Level:
    """What stands side by side in a scope: operations by identity, parts by `#` and their name."""

    units: dict[str, GraphNode | Scope] = field(default_factory=dict)
    edges: dict[str, dict[str, None]] = field(default_factory=dict)
    outside: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(operation outside, unit that takes from it)"""


def _levels(program: Scope, graph: Graph) -> list[tuple[Scope, _Level]]:
    chains: dict[str, tuple[tuple[Scope, str], ...]] = {}
    levels: dict[int, _Level] = {}
    found: list[tuple[Scope, _Level]] = []

    def walk(scope: Scope, around: tuple[tuple[Scope, str], ...]) -> None:
        level = levels[id(scope)] = _Level()
        found.append((scope, level))
        for node in scope.operations:
            chains[node.id] = (*around, (scope, node.id))
            if node.family not in ENDS:
                level.units[node.id] = node
        for name, part in scope.parts.items():
            level.units[f"#{name}"] = part
            walk(part, (*around, (scope, f"#{name}")))

    walk(program, ())
    ends = {node.id for node in graph.nodes if node.family in ENDS}
    outputs = {node.id for node in graph.nodes if node.family == "output"}
    for edge in graph.edges:
        if edge.target in outputs:
            continue
        above, below = chains[edge.source], chains[edge.target]
        common = 0
        while common < min(len(above), len(below)) and above[common] == below[common]:
            common += 1
        scope, target = below[common]
        if edge.source in ends:
            levels[id(scope)].outside[edge.source, target] += 1
        else:
            levels[id(scope)].edges.setdefault(above[common][1], {})[target] = None
        for inner, unit in below[common + 1 :]:
            levels[id(inner)].outside[edge.source, unit] += 1
    return found


def _group(scope: Scope, level: _Level, nodes: Mapping[str, GraphNode]) -> list[str]:
    first = {name: index for index, name in enumerate(level.units)}
    order = in_order(list(level.units), level.edges, first)
    units = [_unit(level.units[name]) for name in order]
    place = {name: index + 2 for index, name in enumerate(order)}
    source = _source(level, nodes)
    units = [
        Unit(label="", kinds={}, is_source=bool(source), is_auxiliary=not source),
        Unit(label="", kinds={}, is_outside=True),
        *units,
    ]
    edges = [(place[a], place[b]) for a, bs in level.edges.items() for b in bs]
    edges += [
        (0 if outer == source else 1, place[unit])
        for outer, unit in level.outside
        if not unit_of(nodes[outer]).is_auxiliary
    ]
    items = _opened(find_structure(units, edges))
    grouped = set(units_in(items))
    names = dict(enumerate(order, 2))
    left = [name for index, name in names.items() if index not in grouped]
    inside = Scope()
    _fill(inside, items, names, level)
    for name in left:
        _add(inside, name, level)
    scope.operations = [n for n in scope.operations if n.family in ENDS] + inside.operations
    scope.parts = inside.parts
    return [name for name in left if not isinstance(level.units[name], Scope)]


def _source(level: _Level, nodes: Mapping[str, GraphNode]) -> str:
    """The one value from outside that everything starts from; "" where there is none."""
    counts = Counter[str]()
    for (outer, _), times in level.outside.items():
        if not unit_of(nodes[outer]).is_auxiliary:
            counts[outer] += times
    common = counts.most_common(2)
    if not common or (len(common) > 1 and common[0][1] == common[1][1]):
        return ""
    if len(common) > 1 and nodes[common[0][0]].family in ENDS:
        return ""  # of several inputs of a program none is all that it starts from
    return common[0][0]


def _unit(unit: GraphNode | Scope) -> Unit:
    if not isinstance(unit, Scope):
        return unit_of(unit)
    if unit.operator is not None:
        return unit_of(unit.operator)
    kinds: Counter[str] = Counter()
    resolution = ""
    for node in unit.members():
        own = unit_of(node)
        kinds.update(own.kinds)
        resolution = own.resolution or resolution
    name = unit.motif or stem_of(unit.label)
    return Unit(label=unit.label, kinds=kinds, resolution=resolution, name=name)


def _opened(items: list[Item]) -> list[Item]:
    """Where one group holds nearly all, what is in it."""
    while True:
        total = sum(1 for _ in units_in(items))
        large = [item for item in items if isinstance(item, Part) and item.name
                 and sum(1 for _ in units_in(item.items)) > _MAX_SHARE * total]  # fmt: skip
        if not large:
            return items
        at = items.index(large[0])
        items = [*items[:at], *large[0].items, *items[at + 1 :]]


def _fill(scope: Scope, items: Sequence[Item], names: Mapping[int, str], level: _Level) -> None:
    for item in items:
        if isinstance(item, Part):
            part = Scope(motif=item.name or ROW)
            scope.parts[f"\2{len(scope.parts)}"] = part
            _fill(part, item.items, names, level)
        else:
            _add(scope, names[item], level)


def _add(scope: Scope, name: str, level: _Level) -> None:
    unit = level.units[name]
    if isinstance(unit, Scope):
        scope.parts[name[1:]] = unit
    else:
        scope.operations.append(unit)
