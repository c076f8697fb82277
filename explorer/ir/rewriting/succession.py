"""What became of the operations that a pass removed, as its own rewrites say it.

    %add = binary(%a, %b)                   matmul_2 takes the place of matmul_1 and add:
    matmul_1, add -> matmul_2               {"matmul_2": ("matmul_1", "add")}

Copies of one operation (a loop's body, unrolled) come from the same nodes of the model: by these
alone each copy that a pass made would have taken the place of every copy that it removed.
"""

from __future__ import annotations

from collections.abc import Sequence

from explorer.ir.rewriting.events import Rewrite
from explorer.ir.structure import OperationRecord


def predecessors(rewrites: Sequence[Rewrite]) -> dict[str, tuple[str, ...]]:
    """By identity what rewrites removed for an operation, directly and through others."""
    found: dict[str, tuple[str, ...]] = {}
    for rewrite in rewrites:
        gone = tuple(
            identity
            for record in rewrite.removed
            for identity in (*found.get(record.identity, ()), record.identity)
        )
        for heir in heirs(rewrite):
            found[heir] = tuple(dict.fromkeys((*found.get(heir, ()), *gone)))
    return found


def heirs(rewrite: Rewrite) -> list[str]:
    """Identities of what took the place of what a rewrite removed: what it made, else what it
    changed, but for operations that now read another value and are otherwise the same."""
    if not rewrite.applied or not rewrite.removed:
        return []
    return [record.identity for record in rewrite.added] or [
        new.identity for old, new in rewrite.changed if not _only_reads_another(old, new)
    ]


def _only_reads_another(old: OperationRecord, new: OperationRecord) -> bool:
    return (
        old.name == new.name
        and old.properties == new.properties
        and old.types == new.types
        and len(old.operands) == len(new.operands)
    )
