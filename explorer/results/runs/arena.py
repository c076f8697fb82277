"""What a run wrote into its arena, next to what the memory plan says of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class StrayWrite:
    """Bytes [first, end) of no live buffer that a launch has changed."""

    operation: str
    first: int
    end: int


@dataclass(frozen=True, kw_only=True)
class ArenaRecord:
    """One device function. Offsets in bytes from the beginning of its arena."""

    function: str
    planned_bytes: int
    """The plan's peak."""
    written_bytes: int
    """The end of the highest byte that was written; below the peak where the topmost buffer has
    bytes that nobody needs, such as padding."""
    launches: int
    strays: tuple[StrayWrite, ...] = ()
    depends_on_pattern: bool = False
    """The outputs are others where other bytes lay in the arena: something is read that was never
    written, or after its buffer died."""

    @property
    def passed(self) -> bool:
        return (
            not self.strays
            and not self.depends_on_pattern
            and self.written_bytes <= self.planned_bytes
        )
