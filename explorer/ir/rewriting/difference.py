"""What a pass did to a program, as data: each kind of change is found when it is asked for.

    difference = program_difference(before, after)
    difference.removed      identities that are gone: names are compared, and nothing else
    difference.changed      attributes, operands and types, one by one: most of the work

A page shows one pass of thirty at first, and of the others how many operations they fused.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from explorer.ir.operation import IDENTITY, TopOperation, from_attribute
from explorer.ir.program import Snapshot
from explorer.ir.rewriting.events import Rewrite
from explorer.ir.rewriting.succession import heirs, predecessors
from explorer.ir.structure import OperationRecord, record, value_name
from explorer.ir.top.data import WeightOp
from explorer.ir.types import format_type
from explorer.results import GraphDiff, NodeChange
from explorer.results.deferring import Later, deferring
from explorer.results.graph import GRAPHS

DATA = (WeightOp.name, "source.constant")
"""Operations that are no nodes of the graph."""


def program_difference(
    before: Snapshot, after: Snapshot, rewrites: Sequence[Rewrite] = ()
) -> GraphDiff:
    """What appeared, disappeared, changed, and which operation took over whose sources.

    Operations are matched by identity, weights left out. `rewrites`: those that led from one to
    the other, where they are known.
    """
    found = _Difference(before, after, rewrites)
    return deferring(
        GraphDiff,
        added=Later(lambda: found.added),
        removed=Later(lambda: found.removed),
        changed=Later(lambda: found.changed),
        fused=Later(lambda: found.fused),
        **{GRAPHS: Later(lambda: (before.graph, after.graph))},
    )


class _Difference:
    def __init__(self, before: Snapshot, after: Snapshot, rewrites: Sequence[Rewrite]) -> None:
        self.before = before
        self.after = after
        self.rewrites = rewrites

    @cached_property
    def added(self) -> tuple[str, ...]:
        return _missing(self.before, self.after)

    @cached_property
    def removed(self) -> tuple[str, ...]:
        return _missing(self.after, self.before)

    @cached_property
    def changed(self) -> tuple[NodeChange, ...]:
        return tuple(change for name in self._staying() for change in self._changes_of(name))

    @cached_property
    def fused(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """New or changed operations with those that are gone and came from the same sources.

        Of what a rewrite removed only its heirs took it over.
        """
        if not self.removed:
            return ()
        sources = self.before.sources
        place = {identity: index for index, identity in enumerate(self.removed)}
        inherited = predecessors(self.rewrites)
        told = {r.identity for rewrite in self.rewrites if heirs(rewrite) for r in rewrite.removed}
        gone_of: dict[str, list[int]] = {}  # of which no rewrite says what took its place
        for identity, index in place.items():
            for source in () if identity in told else sources[identity]:
                gone_of.setdefault(source, []).append(index)
        found = []
        for identity in (*self.added, *self._staying()):
            if not gone_of and identity not in inherited:
                continue
            own = self.after.sources[identity]
            places = {index for source in own for index in gone_of.get(source, ())}
            for other in inherited.get(identity, ()):
                if other in place and not set(own).isdisjoint(sources[other]):
                    places.add(place[other])
            stays = identity in self.before.operations
            if len(places) + stays < 2 or (stays and not self._is_changed(identity)):
                continue
            found.append((identity, tuple(self.removed[index] for index in sorted(places))))
        return tuple(found)

    def _staying(self) -> list[str]:
        after, before = self.after.operations, self.before.operations
        return [name for name, op in after.items() if name in before and _is_compared(op)]

    def _is_changed(self, identity: str) -> bool:
        """Whether there are changes. What stayed shares the objects of its attributes and types,
        which are the same at a glance; operands are compared by their names, last."""
        old, new = self.before.operations[identity], self.after.operations[identity]
        return (
            old.name != new.name
            or old.properties != new.properties
            or [r.type for r in old.results] != [r.type for r in new.results]
            or [value_name(o) for o in old.operands] != [value_name(o) for o in new.operands]
        )

    def _changes_of(self, identity: str) -> tuple[NodeChange, ...]:
        old = record(self.before.operations[identity])
        new = record(self.after.operations[identity])
        return () if old == new else tuple(_changes(old, new))


def _missing(here: Snapshot, there: Snapshot) -> tuple[str, ...]:
    """What of `there` is not here."""
    known = here.operations
    return tuple(k for k, op in there.operations.items() if k not in known and _is_compared(op))


def _is_compared(op: TopOperation) -> bool:
    return op.name not in DATA and IDENTITY in op.attributes


def _changes(old: OperationRecord, new: OperationRecord) -> list[NodeChange]:
    changes = []
    if old.operands != new.operands:
        changes.append(
            NodeChange(new.identity, "operands", ", ".join(old.operands), ", ".join(new.operands))
        )
    old_types = ", ".join(format_type(t) for t in old.types)
    new_types = ", ".join(format_type(t) for t in new.types)
    if old_types != new_types:
        changes.append(NodeChange(new.identity, "type", old_types, new_types))
    before, after = dict(old.properties), dict(new.properties)
    for name in dict.fromkeys([*before, *after]):
        if before.get(name) != after.get(name):
            changes.append(
                NodeChange(
                    new.identity,
                    name,
                    _text(from_attribute(before[name])) if name in before else "",
                    _text(from_attribute(after[name])) if name in after else "",
                )
            )
    return changes


def _text(value: object) -> str:
    return ", ".join(str(v) for v in value) if isinstance(value, tuple) else str(value)
