"""What must hold between the symbolic sizes of a model, and which nodes ask for it.

s <= 512    position (from Add_3)
"""

from __future__ import annotations

from collections.abc import Sequence

from explorer.results import ConstraintRecord
from explorer.views.static.parts.markup import card, code, escape, note, shorten, table

NAME_CHARACTERS = 120


def constraints_text(constraints: Sequence[ConstraintRecord]) -> str:
    """One line per constraint."""
    lines = [
        f"{c.text}    {c.operation}" + (f" (from {', '.join(c.nodes)})" if c.nodes else "")
        for c in constraints
    ]
    return "\n".join(lines or ["no constraints"])


def constraints_html(constraints: Sequence[ConstraintRecord]) -> str:
    """A card with one row per constraint."""
    rows = [
        [
            code(c.text),
            escape(c.kind),
            escape(shorten(c.operation, NAME_CHARACTERS)),
            escape(shorten(", ".join(c.nodes), NAME_CHARACTERS)),
        ]
        for c in constraints
    ]
    if not rows:
        return card("constraints", note("no constraints"))
    return card("constraints", table(rows, ("must hold", "kind", "operation", "nodes"), "nnll"))
