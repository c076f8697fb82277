"""The program after every single rewrite of a pass, out of the trace alone.

    replay = Replay(trace, index)
    replay[k].rows          lines before and after rewrite k, with those around them
    replay[k].before        operations that it touched and their neighbours, as they were
    replay[k].after         and as they are then

A trace holds the program before and after a pass, and of every rewrite which operations went, came
and changed, with their text. Replayed on the program before, that gives each state between. Lines
of what a rewrite touched are as the rewriter records them; those around it as they are printed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import overload

from explorer.results import Graph, GraphEdge, GraphNode, RewriteEvent, Trace
from explorer.results.trace import SnapshotRecord
from explorer.views.replay.lines import (
    CONTEXT,
    Row,
    function_lines,
    line_difference,
    paired,
)

MAX_CENTRES = 24
"""Most operations of one rewrite that its picture shows; neighbours come on top."""
MAX_NEIGHBOURS = 24
_FUNCTION = "func.func("
_DATA = ("top.weight(", "source.constant(")
"""Operations that are no nodes of a graph."""
_LINE = re.compile(r"\s*%([\w.$-]+)(?::\d+)? = ")
_OPERANDS = re.compile(r"^[\w.]+\(([^)]*)\)")
_KERNEL = re.compile(r"\bkernel = ([\w.$-]+)")


@dataclass(frozen=True, kw_only=True)
class Frame:
    """One rewrite: what it was before and what it is after, with what stands around it."""

    event: RewriteEvent
    rows: tuple[Row, ...]
    before: Graph
    after: Graph
    left_out: int
    """Operations that it touched and that are not in the graphs."""


class Replay(Sequence[Frame]):
    """A frame for every event of the pass at `index`, in their order, made as far as asked for.

    What was declined changed nothing: its frame shows where it stands.
    """

    def __init__(self, trace: Trace, index: int) -> None:
        before = trace.snapshots[index - 1] if index else trace.source
        if before is None:
            nothing = replace(trace.snapshots[index].text, lines=(), owners=())
            before = SnapshotRecord(nothing, Graph((), ()))
        self.before, self.after = before, trace.snapshots[index]
        self._events = trace.passes[index].events
        self._state = _State(before, self.after)
        self._made: list[Frame] = []

    def __len__(self) -> int:
        return len(self._events)

    @overload
    def __getitem__(self, at: int) -> Frame: ...
    @overload
    def __getitem__(self, at: slice) -> list[Frame]: ...
    def __getitem__(self, at: int | slice) -> Frame | list[Frame]:
        wanted = range(len(self))[at]
        last = wanted if isinstance(wanted, int) else max(wanted, default=-1)
        for event in self._events[len(self._made) : last + 1]:
            self._made.append(self._state.step(event))
        return self._made[at]

    @cached_property
    def whole(self) -> tuple[Row, ...]:
        """All that the pass changed, as the lines of the program before and after it."""
        return tuple(line_difference(self.before.text.lines, self.after.text.lines))

    @property
    def lines(self) -> dict[str, str]:
        """The program after the last frame that was made: its lines by identity, in order."""
        return self._state.lines


class _State:
    """The program between two rewrites; `step` makes the next one happen."""

    def __init__(self, before: SnapshotRecord, after: SnapshotRecord) -> None:
        self._before, self._after = before, after
        self._order: list[str] = []
        self._lines: dict[str, str] = {}
        for line, owners in zip(before.text.lines, before.text.owners, strict=True):
            found = _LINE.match(line)
            if found and found[1] in owners and found[1] not in self._lines:
                self._order.append(found[1])
                self._lines[found[1]] = line.strip()
        self._nodes = {node.id: node for node in before.graph.nodes}
        self._final = {node.id: node for node in after.graph.nodes}
        edges = (*before.graph.edges, *after.graph.edges)
        self._maker = {edge.value: edge.source for edge in edges}
        self._operands: dict[str, list[str]] = {}
        self._users: dict[str, dict[str, None]] = {}
        for edge in before.graph.edges:
            self._operands.setdefault(edge.target, []).append(edge.source)
            self._users.setdefault(edge.source, {})[edge.target] = None
        self._shown_kernels: set[str] = set()

    @property
    def lines(self) -> dict[str, str]:
        return {identity: self._lines[identity] for identity in self._order}

    def step(self, event: RewriteEvent) -> Frame:
        touched = _touched(event)
        centres = list(touched)[:MAX_CENTRES]
        place = {identity: i for i, identity in enumerate(self._order)}
        before = self._around(centres)
        rows = [*self._rows(event, place), *self._function_rows(event)]
        self._apply(event, place)
        return Frame(
            event=event,
            rows=tuple(rows),
            before=before,
            after=self._around(centres),
            left_out=len(touched) - len(centres),
        )

    # -- lines -------------------------------------------------------------------------------------

    def _rows(self, event: RewriteEvent, place: Mapping[str, int]) -> Iterator[Row]:
        """What the rewrite touched, in the order of the program, among the lines around it."""
        at: dict[int, list[Row]] = {}
        anchor = self._anchor(event, place)
        for was, now in paired(_lines(event.delta.removed), _lines(event.delta.added)):
            name = None if was is None else was[0]
            where = anchor if name is None or now is not None else place.get(name, anchor)
            kind = "added" if was is None else "removed" if now is None else "changed"
            row = Row(kind, None if was is None else was[1], None if now is None else now[1])
            at.setdefault(where, []).append(row)
        for identity, was, now in event.delta.changed:
            if not was.startswith(_FUNCTION):
                # What only its operands' types tell apart is the same line.
                kind = "changed" if was != now else ""
                row = Row(kind, f"%{identity} = {was}", f"%{identity} = {now}")
                at.setdefault(place.get(identity, anchor), []).append(row)
        gone = {i for i, _ in event.delta.removed} | {i for i, *_ in event.delta.changed}
        if not event.applied and event.site in place:
            at.setdefault(place[event.site], [])
        yield from self._with_context(at, gone)

    def _with_context(self, at: dict[int, list[Row]], gone: set[str]) -> Iterator[Row]:
        near = {i for place in at for i in range(place - CONTEXT, place + CONTEXT + 1)}
        last = -1
        for i in sorted(near):
            if i in at:
                yield from at[i]
            if not 0 <= i < len(self._order):
                continue
            if i > last + 1:
                yield Row("fold", count=i - last - 1)
            last = i
            if self._order[i] not in gone:
                yield Row("", self._lines[self._order[i]], self._lines[self._order[i]])
        if at and last + 1 < len(self._order):
            yield Row("fold", count=len(self._order) - last - 1)

    def _anchor(self, event: RewriteEvent, place: Mapping[str, int]) -> int:
        """Where what is new stands: before what it replaces, as the rewriter puts it."""
        sites = [i for i, _ in event.delta.removed if i in place]
        if event.site in sites:
            return place[event.site]
        known = sites or [
            i for i in (event.site, *(c[0] for c in event.delta.changed)) if i in place
        ]
        return min((place[i] for i in known), default=len(self._order))

    def _function_rows(self, event: RewriteEvent) -> Iterator[Row]:
        """Kernels that the rewrite changed, or made; a pass changes each of them once."""
        names = [i for i, was, _ in event.delta.changed if was.startswith(_FUNCTION)]
        for _, text in event.delta.added:
            found = _KERNEL.search(text)
            if found and found[1] not in self._shown_kernels:
                names.append(found[1])
        for name in names:
            self._shown_kernels.add(name)
            sides = [function_lines(side.text.lines, name) for side in (self._before, self._after)]
            if sides[0] != sides[1]:
                yield from line_difference(*sides)

    # -- what it looks like ------------------------------------------------------------------------

    def _around(self, centres: Sequence[str]) -> Graph:
        """Those of the operations that are there, what they read and what reads them."""
        there = [identity for identity in centres if identity in self._nodes]
        edges = [(s, t) for t in there for s in self._operands.get(t, ()) if s in self._nodes]
        edges += [(s, t) for s in there for t in self._users.get(s, ()) if t in self._nodes]
        neighbours = dict.fromkeys(end for edge in edges for end in edge if end not in there)
        shown = {*there, *list(neighbours)[:MAX_NEIGHBOURS]}
        return Graph(
            tuple(self._nodes[identity] for identity in dict.fromkeys((*there, *neighbours))
                  if identity in shown),
            tuple(GraphEdge(s, t, s, self._nodes[s].shape) for s, t in dict.fromkeys(edges)
                  if s in shown and t in shown),
        )  # fmt: skip

    def _apply(self, event: RewriteEvent, place: Mapping[str, int]) -> None:
        anchor = self._anchor(event, place)
        removed = {identity for identity, _ in event.delta.removed}
        added = [identity for identity, text in event.delta.added if not _is_function(text)]
        if removed or added:
            head = [i for i in self._order[:anchor] if i not in removed]
            tail = [i for i in self._order[anchor:] if i not in removed]
            self._order = [*head, *added, *tail]
        for identity in removed:
            self._lines.pop(identity, None)
            self._nodes.pop(identity, None)
            self._reads(identity, [])
        now = [*event.delta.added, *((i, text) for i, _, text in event.delta.changed)]
        for identity, text in now:
            if _is_function(text):
                continue
            self._lines[identity] = f"%{identity} = {text}"
            if not text.startswith(_DATA):
                self._nodes[identity] = self._node(identity, text)
        for identity, text in now:
            if identity in self._nodes:
                self._reads(identity, [self._source(value) for value in _values(text)])

    def _reads(self, identity: str, sources: list[str]) -> None:
        for source in self._operands.get(identity, ()):
            self._users.get(source, {}).pop(identity, None)
        self._operands[identity] = sources
        for source in sources:
            self._users.setdefault(source, {})[identity] = None

    def _source(self, value: str) -> str:
        """The operation that makes a value, or the argument that it is."""
        if value in self._nodes:
            return value
        return self._maker.get(value, value.rpartition(".")[0] or value)

    def _node(self, identity: str, text: str) -> GraphNode:
        """How an operation looks in this state: as it does somewhere else in the trace."""
        operation = text.split("(", 1)[0]
        shape = text.rpartition(" : ")[2].split(", ")[0]
        properties = text.partition("{")[2].rpartition("} : ")[0]
        known = (self._nodes.get(identity), self._final.get(identity))
        like = next((node for node in known if node and node.operation == operation), None)
        like = like or self._alike.get(operation)
        return GraphNode(
            id=identity,
            operation=operation,
            label=like.label if like else operation.rpartition(".")[2],
            family=like.family if like else "other",
            shape=shape,
            sources=like.sources if like and like.id == identity else (),
            device=like.device if like else "",
            attributes=(("properties", properties),) if properties else (),
        )

    @cached_property
    def _alike(self) -> dict[str, GraphNode]:
        """Some operation of every kind, before the pass or after it."""
        found: dict[str, GraphNode] = {}
        for snapshot in (self._before, self._after):
            for node in snapshot.graph.nodes:
                found.setdefault(node.operation, node)
        return found


def _touched(event: RewriteEvent) -> list[str]:
    """Operations that a graph shows, the one that was matched first."""
    texts = (*event.delta.removed, *event.delta.added, *((c[0], c[1]) for c in event.delta.changed))
    names = [i for i, text in texts if not text.startswith((*_DATA, _FUNCTION))]
    return list(dict.fromkeys((event.site, *names)))


def _is_function(text: str) -> bool:
    return text.startswith(_FUNCTION)


def _lines(operations: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(i, f"%{i} = {text}") for i, text in operations if not _is_function(text)]


def _values(text: str) -> list[str]:
    found = _OPERANDS.match(text)
    return [] if not found else [v.strip().removeprefix("%") for v in found[1].split(",") if v]
