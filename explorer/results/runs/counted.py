"""What a machine whose cycles are counted did in a run, beside what was predicted."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class CountedLayer:
    """One layer of a run."""

    operation: str
    title: str
    macs: int
    """Of the model: without those with padding up to whole blocks."""
    first_cycle: int
    last_cycle: int
    """From when its first instruction began until its last one ended."""
    instructions: int

    @property
    def cycles(self) -> int:
        return self.last_cycle - self.first_cycle


@dataclass(frozen=True, kw_only=True)
class CountedRun:
    """Sums over all parts of a program that run on the machine."""

    cycles: int
    predicted_cycles: int | None
    """From the tiles, without running; None where the instructions were edited."""
    macs: int
    """Multiply-accumulates of the matrix engine, those on padding included."""
    peak_macs_per_cycle: int
    loaded_bytes: tuple[tuple[str, int], ...]
    """From global memory, by content."""
    stored_bytes: tuple[tuple[str, int], ...]
    busy_cycles: tuple[tuple[str, int], ...]
    """By queue."""
    stalls: tuple[tuple[str, str, int], ...]
    """Cycles that a queue waited, by queue and cause."""
    layers: tuple[CountedLayer, ...]
    energy_picojoules: float | None = None

    @property
    def bytes(self) -> int:
        """Between global memory and scratchpads."""
        return sum(size for _, size in (*self.loaded_bytes, *self.stored_bytes))

    @property
    def utilization(self) -> float:
        """Multiply-accumulates over what the matrix engine could have done in as many cycles."""
        most = self.peak_macs_per_cycle * self.cycles
        return self.macs / most if most else 0.0
