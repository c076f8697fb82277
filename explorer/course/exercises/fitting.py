"""Judges of programs that were made to fit into less memory, one decision after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from explorer.compilation.compilation import Compilation
from explorer.course.predictions import Judge

LEVERS = ("layout", "roll", "recompute", "in place")
"""What a level may allow: decisions about layouts, bands of rows of both kinds, `IN_PLACE`."""
IN_PLACE = "write-in-place"


def meets_budget(start: Compilation, budget_bytes: int, levers: Sequence[str]) -> Judge:
    """A fork of `start` that takes at most so many bytes, by decisions of these levers alone.

    `levers` are of `LEVERS`. A budget of the compiler's is refused: it would decide by itself.
    """

    def judge(mine: object) -> bool | str:
        if not isinstance(mine, Compilation):
            return (
                "a compilation, such as start.fork(...) gives, is asked for; "
                f"this is of type {type(mine).__name__}"
            )
        if mine.settings.budget_bytes is not None:
            return "with a budget the compiler decides; here you do"
        if mine.model != start.model:
            return f"this is {mine.model.name}; {start.model.name} is asked for"
        kept = replace(
            mine.settings, decisions=start.settings.decisions, disable=start.settings.disable
        )
        if kept != start.settings:
            return "something else than passes and decisions is not as in `start`"
        if other := next((name for name in _pulled(start, mine) if name not in levers), ""):
            return f"this level is met without {other!r}; it allows {', '.join(levers)}"
        taken = mine.memory.peak_bytes
        return taken <= budget_bytes or f"it takes {taken:,} bytes; at most {budget_bytes:,} fit"

    return judge


def _pulled(start: Compilation, mine: Compilation) -> list[str]:
    """The levers by which a fork differs; passes and addresses that are no lever by their names."""
    passes = sorted(set(start.settings.disable) ^ set(mine.settings.disable))
    found = ["in place" if name == IN_PLACE else name for name in passes]
    before, after = start.settings.decisions, mine.settings.decisions
    for address in sorted({*before, *after}):
        value = after.get(address)
        if before.get(address) == value:
            continue
        head = address.partition("/")[0]
        if head == "assign-layouts":
            found.append("layout")
        elif head == IN_PLACE:
            found.append("in place")
        elif head == "stream-rows" and isinstance(value, str):
            found.append(value.rpartition(":")[2])
        else:
            found.append(address)
    return found
