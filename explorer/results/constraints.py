"""What a model asks of its symbolic dimensions, as it is shown."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ConstraintRecord:
    text: str
    """`s <= 512`, `h % 4 == 0`."""
    kind: str
    """equal, fixed, at least, at most, multiple, broadcast or named."""
    operation: str
    """Identity of the operation that asks for it, or the result that the file names."""
    nodes: tuple[str, ...]
    """Nodes of the source model."""
