"""What a rewrite did, as an event that can be replayed forwards and backwards.

    after = replay(before, rewrite)                     operations by identity, before and after
    before = replay(after, rewrite, backwards=True)

The rewriter notes in a log what it changes; from the log of one rewrite its event is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from xdsl.ir import Operation

from explorer.ir.operation import TopOperation
from explorer.ir.structure import OperationRecord, record
from explorer.results import Delta, RewriteEvent
from explorer.results.deferring import Later, deferring


class Sourced(Protocol):
    """What can say where it is written, and takes a while to find out."""

    @property
    def source(self) -> str: ...


@dataclass(frozen=True, kw_only=True)
class Rewrite:
    """A rule fired or was declined: the replayable form of `results.RewriteEvent`."""

    address: str
    rule: str
    applied: bool
    site: str
    reason: str
    made_by: str | Sourced = field(compare=False)
    """The rule, or where what stands for one is written."""
    explanation: str
    microseconds: float
    removed: tuple[OperationRecord, ...]
    added: tuple[OperationRecord, ...]
    changed: tuple[tuple[OperationRecord, OperationRecord], ...]
    """(before, after)."""

    @property
    def rule_source(self) -> str:
        """`path:line` of the rule; looked up when somebody asks."""
        return self.made_by if isinstance(self.made_by, str) else self.made_by.source

    @property
    def matched(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([self.site, *(r.identity for r in self.removed)]))

    @property
    def produced(self) -> tuple[str, ...]:
        """What is new; where nothing is, what was changed in place."""
        return tuple(r.identity for r in self.added) or tuple(b.identity for _, b in self.changed)

    def to_record(self) -> RewriteEvent:
        """The event as text, for traces and views; its operations are printed when looked at."""
        return deferring(
            RewriteEvent,
            address=self.address,
            rule=self.rule,
            applied=self.applied,
            site=self.site,
            matched=self.matched,
            produced=self.produced,
            reason=self.reason,
            rule_source=Later(lambda: self.rule_source),
            explanation=self.explanation,
            microseconds=self.microseconds,
            delta=Later(self._delta),
        )

    def _delta(self) -> Delta:
        return Delta(
            tuple((r.identity, r.text()) for r in self.removed),
            tuple((r.identity, r.text()) for r in self.added),
            tuple((a.identity, a.text(), b.text()) for a, b in self.changed),
        )


@dataclass
class Log:
    """What one application of a rule did."""

    removed: list[OperationRecord] = field(default_factory=list)
    added: dict[Operation, None] = field(default_factory=dict)
    """In order; looked up for every change, so no list."""
    before: dict[int, tuple[Operation, OperationRecord]] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        return not (self.removed or self.added or self.before)


def make_event(
    address: str,
    rule: str,
    site: str,
    log: Log,
    reason: str,
    made_by: str | Sourced,
    explanation: str,
    microseconds: float,
) -> Rewrite:
    added = [op for op in log.added if op.parent is not None]
    # A `top.return` has no identity of its own: what it returns shows in the graph.
    changed = [
        (op, old)
        for op, old in log.before.values()
        if op.parent is not None and not (isinstance(op, TopOperation) and not op.results)
    ]
    return Rewrite(
        address=address,
        rule=rule,
        applied=not reason,
        site=site,
        reason=reason,
        made_by=made_by,
        explanation=explanation,
        microseconds=microseconds,
        removed=tuple(log.removed),
        added=tuple(record(op) for op in added),
        changed=tuple((old, record(op)) for op, old in changed),
    )


def replay(
    before: Mapping[str, OperationRecord], rewrite: Rewrite, backwards: bool = False
) -> dict[str, OperationRecord]:
    """The operations after a rewrite, from those before it (or the other way round)."""
    removed, added, changed = rewrite.removed, rewrite.added, rewrite.changed
    if backwards:
        removed, added = added, removed
        changed = tuple((b, a) for a, b in changed)
    gone = {r.identity for r in removed}
    result = {k: v for k, v in before.items() if k not in gone}
    result.update({r.identity: r for r in added})
    result.update({new.identity: new for _, new in changed})
    return result
