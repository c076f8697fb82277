"""Recorded rewriting: rules, the driver that applies them, and the events that it logs.

What rules and passes need stands here; `events` has what one rewrite did, `passes` what runs them.
"""

from explorer.ir.rewriting.driver import (
    OVERRIDDEN,
    Declined,
    Fuel,
    Names,
    RecordedRewriter,
    RewriteOptions,
    Rule,
    apply_rules,
)
from explorer.ir.rewriting.events import Rewrite, make_event, replay

__all__ = [
    "Declined",
    "Fuel",
    "Names",
    "OVERRIDDEN",
    "RecordedRewriter",
    "Rewrite",
    "RewriteOptions",
    "Rule",
    "apply_rules",
    "make_event",
    "replay",
]
