"""What a pass did: numbers, and one replayable event per rewrite or declined candidate."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.results.source import SourceText


@dataclass(frozen=True)
class RuleRecord:
    """A rule as it is written, so that a trace can be read without the compiler."""

    name: str
    text: SourceText
    """Python."""


@dataclass(frozen=True)
class Delta:
    """Operations by identity with their textual form before or after a rewrite."""

    removed: tuple[tuple[str, str], ...]
    added: tuple[tuple[str, str], ...]
    changed: tuple[tuple[str, str, str], ...]
    """(identity, text before, text after); operands that were renamed count as changed."""


@dataclass(frozen=True, kw_only=True)
class RewriteEvent:
    """A rule fired, or was declined, at one operation.

    `address` is `pass/rule/site`: the decision's name in overrides and forks. A fork that holds
    `{address: False}` declines this rewrite.
    """

    address: str
    rule: str
    applied: bool
    site: str
    """Identity of the operation that was matched."""
    matched: tuple[str, ...]
    produced: tuple[str, ...]
    reason: str
    """Why it was declined; empty when applied."""
    rule_source: str
    """`path:line` of the rule inside the package."""
    explanation: str
    """First paragraph of the rule's docstring."""
    microseconds: float
    delta: Delta


@dataclass(frozen=True, kw_only=True)
class PassRecord:
    name: str
    description: str
    level: str
    """top, kernels, loops or memory: what kind of IR stands after the pass."""
    seconds: float
    changed: bool
    operations_before: int
    operations_after: int
    macs: int
    """Multiply-accumulates of one inference after the pass; 0 where shapes are not static."""
    peak_bytes: int
    """Most bytes of activations live at once, in program order, after the pass; what the arena
    takes after the pass that planned it, with alignment, layouts and scratch memory."""
    events: tuple[RewriteEvent, ...]

    @property
    def rules(self) -> dict[str, int]:
        """How often each rule fired."""
        counts: dict[str, int] = {}
        for event in self.events:
            if event.applied:
                counts[event.rule] = counts.get(event.rule, 0) + 1
        return counts
