"""What is different between two compilations, from their traces alone.

decision_differences(left, right)   [DecisionDifference("fuse-activation", true, false, ...)]
first_line(left.lines, right.lines) FirstLine(12, "%conv7 = ...", "%conv4 = ...")
graph_difference(left, right)       GraphDiff: what the right one has more, less, otherwise
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from explorer.results import Graph, GraphDiff, GraphNode, NodeChange, Trace

ORDER = "order"
"""Address of the order of passes that both have."""


@dataclass(frozen=True)
class DecisionDifference:
    """A decision with another value, or that only one of the two had to take."""

    address: str
    left: str
    """Its value as JSON; "" where it was not decided."""
    right: str
    left_reason: str
    right_reason: str

    def __str__(self) -> str:
        sides = ((self.left, self.left_reason), (self.right, self.right_reason))
        shown = [f"{v or 'not decided'}" + (f" ({why})" if why else "") for v, why in sides]
        return f"{self.address}: {shown[0]} / {shown[1]}"


@dataclass(frozen=True)
class FirstLine:
    """The first line in which two texts differ, from 1; "" where one text is at its end."""

    number: int
    left: str
    right: str


@dataclass(frozen=True)
class _Decision:
    value: str
    reason: str


def decision_differences(left: Trace, right: Trace) -> tuple[DecisionDifference, ...]:
    """All decisions that differ, in the order in which they were taken.

    First the settings (target, dimensions), then pass after pass: whether it runs, its rules,
    its rewrites, and what else it decided.
    """
    ours, theirs = _decisions(left), _decisions(right)
    order = {name: i for i, name in enumerate(_pass_order(left, right))}

    def rank(address: str) -> tuple[int, int]:
        head, *rest = address.split("/")
        return order.get(head, -1), 0 if not rest else 1

    nothing = _Decision("", "")
    found = [
        DecisionDifference(
            address,
            ours.get(address, nothing).value,
            theirs.get(address, nothing).value,
            ours.get(address, nothing).reason,
            theirs.get(address, nothing).reason,
        )
        for address in sorted(dict.fromkeys([*ours, *theirs]), key=rank)
        if ours.get(address, nothing).value != theirs.get(address, nothing).value
    ]
    moved = _order_difference(left, right)
    if moved is None:
        return tuple(found)
    difference, position = moved
    before = [d for d in found if rank(d.address)[0] < position]
    return (*before, difference, *found[len(before) :])


def _decisions(trace: Trace) -> dict[str, _Decision]:
    """Knobs and rewrites by address, with their reasons."""
    reasons = {
        event.address: event.reason or event.explanation
        for record in trace.passes
        for event in record.events
    }
    made = {knob.address: _Decision(json.dumps(knob.value), knob.why) for knob in trace.knobs}
    for record in trace.passes[1:]:
        made.setdefault(record.name, _Decision("true", record.description))
    for address, value in trace.decisions:
        if address not in made or address.startswith("schedule-loops/"):
            why = made[address].reason if address in made else reasons.get(address, "")
            made[address] = _Decision(value, why)
    return made


def _pass_order(left: Trace, right: Trace) -> list[str]:
    """Names of all passes in the order of the left one, the right one's own where they stand."""
    order = [p.name for p in left.passes]
    previous = -1
    for name in (p.name for p in right.passes):
        if name in order:
            previous = order.index(name)
        else:
            previous += 1
            order.insert(previous, name)
    return order


def _order_difference(left: Trace, right: Trace) -> tuple[DecisionDifference, int] | None:
    """The passes of both in their orders, and where in the left order they part."""
    ours, theirs = [p.name for p in left.passes], [p.name for p in right.passes]
    mine = [name for name in ours if name in theirs]
    other = [name for name in theirs if name in ours]
    if mine == other:
        return None
    moved = [i for i, (a, b) in enumerate(zip(mine, other, strict=True)) if a != b]
    first, last = moved[0], moved[-1] + 1
    values = [json.dumps(names[first:last]) for names in (mine, other)]
    difference = DecisionDifference(ORDER, values[0], values[1], "", "")
    return difference, _pass_order(left, right).index(mine[first])


def first_line(left: Sequence[str], right: Sequence[str]) -> FirstLine | None:
    """None where the texts are equal."""
    for number, (a, b) in enumerate(zip(left, right, strict=False), 1):
        if a != b:
            return FirstLine(number, a.strip(), b.strip())
    if len(left) == len(right):
        return None
    shorter = min(len(left), len(right))
    rest = [lines[shorter].strip() if len(lines) > shorter else "" for lines in (left, right)]
    return FirstLine(shorter + 1, rest[0], rest[1])


# -- graphs ----------------------------------------------------------------------------------------


def graph_difference(left: Graph, right: Graph) -> GraphDiff:
    """From the left graph to the right one; weights are no nodes of their own here.

    Two branches name operations by counting, so that equal names may mean different operations:
    nodes are the same where name, kind and sources agree, or else kind, sources and shape do and
    no other node has these. Removed and changed operations go by their names on the left, added
    ones by those on the right.
    """
    ours = {n.id: n for n in left.nodes if n.family != "weight"}
    theirs = {n.id: n for n in right.nodes if n.family != "weight"}
    pairs = _matched(ours, theirs)
    partner = dict(pairs)
    found = set(partner.values())
    added = tuple(name for name in theirs if name not in found)
    removed = tuple(name for name in ours if name not in partner)
    reads_left, reads_right = _operands(left), _operands(right)
    changed: list[NodeChange] = []
    for mine, other in pairs:
        renamed = [partner.get(name, name) for name in reads_left.get(mine, [])]
        changed += _node_changes(ours[mine], theirs[other], renamed, reads_right.get(other, []))
    fused = []
    for name in added:
        own = set(theirs[name].sources)
        parents = tuple(r for r in removed if own & set(ours[r].sources))
        if len(parents) > 1:
            fused.append((name, parents))
    return GraphDiff(added, removed, tuple(changed), tuple(fused))


def _matched(
    ours: Mapping[str, GraphNode], theirs: Mapping[str, GraphNode]
) -> list[tuple[str, str]]:
    def kind(node: GraphNode) -> tuple[str, tuple[str, ...]]:
        return node.operation, node.sources

    pairs = [(n, n) for n in ours if n in theirs and kind(ours[n]) == kind(theirs[n])]
    taken = {name for name, _ in pairs}
    left = [n for name, n in ours.items() if name not in taken]
    right = [n for name, n in theirs.items() if name not in taken]

    def key(node: GraphNode) -> tuple[str, tuple[str, ...], str]:
        return node.operation, node.sources, node.shape

    counts = (Counter(map(key, left)), Counter(map(key, right)))
    unique = {key(n): n.id for n in right if counts[1][key(n)] == 1}
    pairs += [(n.id, unique[key(n)]) for n in left if counts[0][key(n)] == 1 and key(n) in unique]
    return pairs


def _operands(graph: Graph) -> dict[str, list[str]]:
    weights = {n.id for n in graph.nodes if n.family == "weight"}
    found: dict[str, list[str]] = {}
    for edge in graph.edges:
        if edge.source not in weights:
            found.setdefault(edge.target, []).append(edge.source)
    return found


def _node_changes(
    mine: GraphNode, other: GraphNode, reads: Sequence[str], reads_there: Sequence[str]
) -> list[NodeChange]:
    changes = []
    if list(reads) != list(reads_there):
        changes.append(NodeChange(mine.id, "operands", ", ".join(reads), ", ".join(reads_there)))
    if mine.shape != other.shape:
        changes.append(NodeChange(mine.id, "type", mine.shape, other.shape))
    before, after = dict(mine.attributes), dict(other.attributes)
    for name in dict.fromkeys([*before, *after]):
        if before.get(name) != after.get(name):
            changes.append(NodeChange(mine.id, name, before.get(name, ""), after.get(name, "")))
    return changes
