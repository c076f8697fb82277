"""Contradictions between the fields of a target that is driven by instructions."""

from __future__ import annotations

from collections.abc import Iterator

from explorer.targets.npu.formats import formats_of
from explorer.targets.npu.machine import Contradiction, Described, describe
from explorer.targets.reading import Problem


def machine_problems(target: Described) -> Iterator[Problem]:
    """Contradictions, the worst one first; nothing of a target without queues."""
    if not target.queues:
        return
    try:
        formats_of(describe(target))
    except Contradiction as found:
        yield found.problem
        return
    for memory in target.memories:
        if memory.kind == "arena":
            yield Problem(
                f"memories.{memory.name}.kind",
                "is 'arena', which programs in C have, expected 'dram' or 'scratchpad': "
                "instructions address those alone",
            )
