"""One operation: where it comes from, what it is now, who made it.

conv_1  after plan-memory
  from     Conv_0, BatchNormalization_1, Relu_2
  made by  fold-batch-norm (fold-into-conv), fuse-activation (activation-into-producer)
  is       %conv_1 = top.conv(%images, %weight_1) {...} : 1x16x16x16 f32
  takes    images 1x3x16x16 f32, weight_1 16x3x3x3 f32
  gives    1x16x16x16 f32 to conv_2, add_1
"""

from __future__ import annotations

from dataclasses import dataclass

from explorer.results.graph import GraphNode
from explorer.results.names import nearest
from explorer.results.passes import RewriteEvent
from explorer.results.trace import Trace
from explorer.views.parts.markup import card, chip, code, escape, note, plain, quiet, table
from explorer.views.parts.plain import columns
from explorer.views.replay.descent import lines_of_makers
from explorer.views.theme import family

NAMED = 12
"""Most sources, operands or users that are listed by name."""


@dataclass(frozen=True)
class _Operation:
    node: GraphNode
    pass_name: str
    lines: tuple[str, ...]
    operands: tuple[str, ...]
    users: tuple[str, ...]
    makers: tuple[tuple[str, RewriteEvent], ...]
    """(name of the pass, event) of every rewrite that led to it."""


def operation_text(trace: Trace, identity: str, index: int = -1) -> str:
    """The operation `identity` in the snapshot after pass `index`.

    Raises KeyError, with near names, when that snapshot holds no such operation.
    """
    found = _find(trace, identity, index)
    rows = [
        ("from", _listed([plain(s) for s in found.node.sources]) or "nothing of the source model"),
        ("made by", _listed([f"{name} ({e.rule})" for name, e in found.makers]) or "the import"),
        *(("is" if i == 0 else "", line.strip()) for i, line in enumerate(found.lines)),
        ("takes", _listed(found.operands) or "nothing"),
        ("gives", f"{found.node.shape} to {_listed(found.users) or 'nobody'}"),
    ]
    return "\n".join([f"{plain(identity)}  after {found.pass_name}", *columns(rows)])


def operation_html(trace: Trace, identity: str, index: int = -1) -> str:
    """A card of the same; raises as `operation_text` does."""
    found = _find(trace, identity, index)
    look = family(found.node.family)
    operators = {name: operator for name, operator, _ in trace.model.source_nodes}
    chips = "".join(
        chip(look, f"{source} · {operators[source]}" if source in operators else source)
        for source in found.node.sources[:NAMED]
    )
    rest = len(found.node.sources) - NAMED
    origin = chips + (quiet(f"and {rest} more") if rest > 0 else "")
    makers = "<br>".join(
        f"{escape(name)} {quiet(f'by rule {event.rule}, {event.rule_source}')}"
        for name, event in found.makers[:NAMED]
    )
    rows = [
        [quiet("from"), origin or quiet("nothing of the source model")],
        [quiet("made by"), makers or quiet("the import")],
        [quiet("is"), "<br>".join(code(line.strip()) for line in found.lines)],
        [quiet("takes"), escape(_listed(found.operands)) or quiet("nothing")],
        [
            quiet("gives"),
            f"{escape(found.node.shape)} {quiet('to ' + (_listed(found.users) or 'nobody'))}",
        ],
    ]
    body = table(rows, align="nl")
    if len(found.makers) > NAMED:
        body += note(f"{len(found.makers) - NAMED} more rewrites: trace.passes[i].events")
    subtitle = f"{look.glyph} {found.node.label}, after {found.pass_name}"
    return card(identity, body, subtitle=subtitle)


def _find(trace: Trace, identity: str, index: int) -> _Operation:
    snapshot = trace.snapshots[index]
    nodes = {node.id: node for node in snapshot.graph.nodes}
    if identity not in nodes:
        near = nearest(identity, nodes, 3)
        hint = f"did you mean {', '.join(near)}?" if near else f"it holds {_listed(list(nodes))}"
        raise KeyError(
            f"no operation {identity!r} after pass {trace.passes[index].name!r}; {plain(hint)}"
        )
    text = snapshot.text
    last = len(trace.passes) + index if index < 0 else index
    return _Operation(
        node=nodes[identity],
        pass_name=trace.passes[index].name,
        lines=tuple(
            line for line, owners in zip(text.lines, text.owners, strict=True) if identity in owners
        )[:NAMED],
        operands=tuple(
            f"{plain(e.source)} {plain(e.type)}"
            for e in snapshot.graph.edges
            if e.target == identity
        ),
        users=tuple(plain(e.target) for e in snapshot.graph.edges if e.source == identity),
        makers=tuple(
            (trace.passes[step.index].name, trace.passes[step.index].events[step.event])
            for step in lines_of_makers(trace).get(identity, ())
            if step.index <= last
        ),
    )


def _listed(names: list[str] | tuple[str, ...]) -> str:
    text = ", ".join(names[:NAMED])
    return text + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")
