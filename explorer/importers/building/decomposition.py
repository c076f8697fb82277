"""The import as rewrites: for every node of the model one event, with what was made of it.

    node_gelu = source.node(%x) {operator = "Gelu"}
 =>  %mul1, %erf1, %add1, %gelu1                event import/Gelu/node_gelu

An operation belongs to the first node that it comes from. A node of which nothing was made
(Identity, Dropout) is stood for by what was there before. The rules are the importer's
converters: their docstrings and places in the source explain them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from explorer.ir.dialects.source import ConstantOp, NodeOp
from explorer.ir.operation import IDENTITY, TopOperation, identity_of
from explorer.ir.origins import sources_of
from explorer.ir.rewriting import Rewrite
from explorer.ir.structure import OperationRecord, operations, record

CONSTANTS = "constants"
"""The rule of constants that no node took with it: what the model returns as it is."""

NOT_EXPLAINED = "Becomes the operations of this compiler that compute the same."
"""What is said of a node whose converter says nothing of itself."""


IMPORT = "import"
"""Name of the pass that the import is."""

Explain = Callable[[NodeOp], tuple[str, str]]
"""`path:line` of what converts a node, and what it says that it does."""


def decomposition(
    source: ModuleOp, program: ModuleOp, microseconds: Mapping[str, float], explain: Explain
) -> tuple[Rewrite, ...]:
    """The events in the order of the nodes; replayed on `source` they give `program`."""
    gone, nodes = _by_node_of_source(source)
    made = _by_node_of_program(program, nodes)
    events = [
        _event(node, gone.get(name, {}), made.get(name, {}), microseconds.get(name, 0.0), explain)
        for name, node in nodes.items()
    ]
    left, others = gone.get("", {}), made.get("", {})
    if left or others:
        site = next(iter({**left, **others}))
        removed, added, changed = _delta(left, others)
        events.append(
            Rewrite(
                address=f"{IMPORT}/{CONSTANTS}/{site}",
                rule=CONSTANTS,
                applied=True,
                site=site,
                reason="",
                made_by="",
                explanation="Constants that no node takes.",
                microseconds=0.0,
                removed=removed,
                added=added,
                changed=changed,
            )
        )
    return tuple(events)


Records = dict[str, OperationRecord]
"""By identity, in program order."""


def _by_node_of_source(source: ModuleOp) -> tuple[dict[str, Records], dict[str, NodeOp]]:
    """Nodes by name, and what stands for each: itself and the constants that it takes first."""
    gone: dict[str, Records] = {}
    nodes: dict[str, NodeOp] = {}
    for op in operations(source):
        if isinstance(op, NodeOp):
            name = _name(op)
            nodes[name] = op
            gone.setdefault(name, {})[identity_of(op)] = record(op)
        elif isinstance(op, ConstantOp):
            gone.setdefault(_first_user(op), {})[identity_of(op)] = record(op)
    return gone, nodes


def _by_node_of_program(program: ModuleOp, nodes: Mapping[str, NodeOp]) -> dict[str, Records]:
    made: dict[str, Records] = {}
    for op in operations(program):
        if IDENTITY not in op.attributes:
            continue
        name = next((s for s in sources_of(op) if s in nodes), None)
        if name is None:
            name = next((s for s in _sources_of_users(op) if s in nodes), "")
        made.setdefault(name, {})[identity_of(op)] = record(op)
    return made


def _name(node: NodeOp) -> str:
    return sources_of(node)[0]


def _first_user(op: ConstantOp) -> str:
    users = (use.operation for use in op.output.uses)
    return next((_name(user) for user in users if isinstance(user, NodeOp)), "")


def _sources_of_users(op: TopOperation) -> Iterator[str]:
    for result in op.results:
        for use in result.uses:
            yield from sources_of(use.operation)


def _event(
    node: NodeOp, gone: Records, made: Records, microseconds: float, explain: Explain
) -> Rewrite:
    rule = node.qualified_operator
    place, explanation = explain(node)
    removed, added, changed = _delta(gone, made)
    identity = identity_of(node)
    return Rewrite(
        address=f"{IMPORT}/{rule}/{identity}",
        rule=rule,
        applied=True,
        site=identity,
        reason="",
        made_by=place,
        explanation=explanation,
        microseconds=microseconds,
        removed=removed,
        added=added,
        changed=changed,
    )


Changes = tuple[tuple[OperationRecord, OperationRecord], ...]


def _delta(
    gone: Records, made: Records
) -> tuple[tuple[OperationRecord, ...], tuple[OperationRecord, ...], Changes]:
    """Removed, added, and what became something else under the same identity (constants)."""
    return (
        tuple(r for identity, r in gone.items() if identity not in made),
        tuple(r for identity, r in made.items() if identity not in gone),
        tuple((gone[identity], r) for identity, r in made.items() if identity in gone),
    )


def explanations(source: ModuleOp, explain: Explain) -> dict[str, str]:
    """What is said of the nodes by what converts them, by identity; nothing of those that cannot
    be imported and that no function of ours converts."""
    found: dict[str, str] = {}
    for op in operations(source):
        if isinstance(op, NodeOp):
            place, words = explain(op)
            if words and (place or op.problem is None):
                found[identity_of(op)] = words
    return found


def explained(convert: Callable[..., object]) -> tuple[str, str]:
    """(`path:line`, first paragraph of the docstring) of a function that converts nodes."""
    convert = inspect.unwrap(convert)
    code = getattr(convert, "__code__", None)
    if code is None:
        return "", NOT_EXPLAINED
    package = Path(__file__).parents[3]
    path = Path(code.co_filename)
    shown = path.relative_to(package) if path.is_relative_to(package) else Path(path.name)
    words = inspect.cleandoc(convert.__doc__ or "").split("\n\n")[0]
    return f"{shown}:{code.co_firstlineno}", words or NOT_EXPLAINED
