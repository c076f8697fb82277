"""Rules that have a pattern."""

from __future__ import annotations

from typing import Any, ClassVar

from xdsl.ir import Operation, SSAValue

from explorer.ir.operation import TopOperation
from explorer.ir.patterns.parts import Pattern, Roots
from explorer.ir.patterns.search import Found, match
from explorer.ir.rewriting import RecordedRewriter, Rule


class PatternRule(Rule):
    """A rule whose `pattern` says what it looks for, and `replacement` what that becomes."""

    pattern: ClassVar[Pattern]
    _roots: ClassVar[Roots]

    def __init_subclass__(cls, **options: Any) -> None:
        # Any: what the class statement gives on.
        super().__init_subclass__(**options)
        if "pattern" in vars(cls):
            cls._roots = cls.pattern.roots()
            cls.matches = tuple(cls._roots)

    def rewrite(self, op: TopOperation, rewriter: RecordedRewriter) -> None:
        kinds = self._roots[type(op)]
        if kinds is not None and op.properties["kind"].data not in kinds:  # pyright: ignore
            return
        found = match(self.pattern, op, rewriter.weights)
        if found is not None:
            self.apply(found, rewriter)

    def apply(self, found: Found, rewriter: RecordedRewriter) -> None:
        """Replaces the root of a match; for rules that do more than that, to be overridden."""
        new = self.replacement(found, rewriter)
        if new is not None:
            rewriter.replace(found.root, new, absorbs=found.steps)

    def replacement(self, found: Found, rewriter: RecordedRewriter) -> Operation | SSAValue | None:
        """What computes the same as the root of the match; None where nothing does.

        It may raise Declined as long as nothing was changed, and insert operations before the
        root. What the match took over (`found.steps`) is removed where nothing else reads it.
        """
        raise NotImplementedError(f"{self.name} says nothing of what replaces its pattern")
