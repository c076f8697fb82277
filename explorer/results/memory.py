"""Where every activation lives: lifetimes in, offsets out, with the bound and the attempts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class BufferLifetime:
    """A buffer to be placed: live in steps [first, last), `size_bytes` at `alignment_bytes`.

    A step is the index of a launch. Buffers whose value is only another view of one (reshape,
    in-place results) share it: `values` lists all of them, the owner first.
    """

    id: str
    values: tuple[str, ...]
    """Identities of the operations whose results it holds."""
    size_bytes: int
    first: int
    last: int
    alignment_bytes: int = 64


@dataclass(frozen=True)
class PlacedBuffer:
    buffer: BufferLifetime
    offset_bytes: int


@dataclass(frozen=True)
class PlanAttempt:
    """One strategy that was tried, and the peak that it reached."""

    strategy: str
    peak_bytes: int
    seconds: float


@dataclass(frozen=True)
class MemoryPlan:
    placements: tuple[PlacedBuffer, ...]
    peak_bytes: int
    bound_bytes: int
    """Most bytes live at once: no plan can be smaller."""
    optimal: bool
    """True when the peak is proven the smallest possible."""
    attempts: tuple[PlanAttempt, ...]
    live_bytes: tuple[int, ...]
    """Bytes live in every step."""
    steps: tuple[str, ...]
    """Identity of the launch at every step."""
    total_bytes: int
    """Sum of all buffers: what it would take without sharing."""

    @property
    def offsets(self) -> dict[str, int]:
        """Offset in bytes of every buffer by its identity."""
        return {p.buffer.id: p.offset_bytes for p in self.placements}
