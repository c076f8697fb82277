"""Passes whose rules look far: they are applied until a walk over the whole program finds nothing.

The driver (`explorer/ir/rewriting/`) puts back on its list what a rewrite touched. A rule that
looks at more than an operation's neighbours, or counts uses, may find its pattern only after a
rewrite elsewhere; whether it does must not depend on the order of the rules. So the walk is
repeated until it changes nothing, and what nobody reads any more is erased on the way.
"""

from __future__ import annotations

from dataclasses import dataclass

from explorer.ir.rewriting import RecordedRewriter, Rewrite, RewriteOptions, apply_rules
from explorer.ir.rewriting.passes import RulePass


@dataclass(frozen=True)
class FixpointPass(RulePass):
    """Rules are applied in whole walks, until one of them changes nothing.

    Rules that one walk after the other declines for the same reason are reported once.
    """

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        events: list[Rewrite] = []
        known: set[tuple[str, str, str]] = set()
        while True:
            found = apply_rules(self.name, [rule() for rule in self.rules], rewriter, options)
            for event in found:
                key = (event.rule, event.site, event.reason)
                if event.applied or key not in known:
                    events.append(event)
                known.add(key)
            if options.fuel.is_empty or not any(event.applied for event in found):
                return events
