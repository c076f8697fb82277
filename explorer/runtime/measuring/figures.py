"""What was measured of a core, and what of it replaces what the core's family is known for.

    Measurement(multiply_adds=1.98, latency_cycles=4.02, ...)
    -> MeasuredCore(core=CoreOverrides(arithmetic_units=2, multiply_add_latency_cycles=4, ...))

Units and latencies are whole numbers. What is measured on a busy machine is at times too slow, and
then it is near none: such a figure is not believed, and the family's stays.
"""

from __future__ import annotations

from dataclasses import dataclass

from explorer.targets.core_families import MeasuredCore
from explorer.targets.schema import Cache, CoreOverrides

NEAR = 0.15
"""How far from a whole number a figure may be."""
FIGURES = (
    "clock_hz", "multiply_adds", "multiply_adds_of_half", "latency_cycles", "loads",
    "loads_of_half", "stores", "l1_bytes", "l2_bytes", "l3_bytes", "memory_bytes",
    "launch_seconds", "claim_seconds", "handover_seconds", "wake_seconds",
)  # fmt: skip
"""In the order in which the program writes them."""


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """The best of many rounds; rates are per cycle, of one thread."""

    vector_floats: int
    """float32 in a full vector."""
    clock_hz: float
    """By a chain of additions, one in a cycle."""
    multiply_adds: float
    """Of full vectors, begun in a cycle."""
    multiply_adds_of_half: float
    """Of vectors half as long (never less than 16 bytes)."""
    latency_cycles: float
    """Of a multiply-add, to the next one of the same sum."""
    loads: float
    loads_of_half: float
    stores: float
    l1_bytes: float
    """Read in a cycle from an array that the level holds."""
    l2_bytes: float
    l3_bytes: float
    memory_bytes: float
    launch_seconds: float
    """Of a call through the table of launches."""
    claim_seconds: float
    """Of a task that a thread claims for itself, while no other does."""
    handover_seconds: float
    """From a thread that writes a number to another one that waits for it; 0: one processor."""
    wake_seconds: float
    """From a thread that wakes another one to that; 0 where there is one processor."""
    steal: float | None = None
    """Of the time, the part in which the machine was taken away; None: the system doesn't tell."""
    others: float | None = None
    """Of all processors' time, what other processes used."""

    @property
    def gflops(self) -> float:
        """The peak of one thread."""
        return 2 * self.vector_floats * self.multiply_adds * self.clock_hz * 1e-9


def measured_core(measurement: Measurement) -> MeasuredCore:
    """The figures that are clear, as what goes before the family's."""
    full = 4 * measurement.vector_floats
    half = max(full // 2, 16)
    units, unit_bytes = _units(
        measurement.multiply_adds, measurement.multiply_adds_of_half, full, half
    )
    loads, load_bytes = _units(measurement.loads, measurement.loads_of_half, full, half)
    # Threads take tasks from one another: what a thread takes alone is never all of it. A barrier
    # waits for the slowest one, which two threads that do nothing else do not tell.
    claim = max(measurement.claim_seconds, measurement.handover_seconds)
    core = CoreOverrides(
        arithmetic_units=units,
        unit_bytes=unit_bytes,
        load_units=loads,
        load_bytes=load_bytes,
        multiply_add_latency_cycles=_whole(measurement.latency_cycles),
        store_units=_whole(measurement.stores),
        task_seconds=claim or None,
    )
    behind = (measurement.l2_bytes, measurement.l3_bytes, measurement.memory_bytes)
    caches = tuple(
        Cache(name, max(1, round(rate)))
        for name, rate in zip(("l1", "l2", "l3"), behind, strict=True)
        if rate > 0
    )
    return MeasuredCore(core=core, caches=caches)


def _units(full: float, half: float, full_bytes: int, half_bytes: int) -> tuple[int | None, ...]:
    """Units and the bytes that one of them takes at once; (None, None) where it is not clear."""
    of_full, of_half = _whole(full), _whole(half)
    if of_half is None or half_bytes == full_bytes:
        return (of_full, full_bytes) if of_full is not None else (None, None)
    if of_full is not None and of_full >= of_half:
        return of_full, full_bytes
    # A long vector takes a unit for two cycles.
    return (of_half, half_bytes) if abs(2 * full - of_half) <= NEAR else (None, None)


def _whole(figure: float) -> int | None:
    """The whole number that it is near; None where it is near none."""
    nearest = round(figure)
    return nearest if nearest and abs(figure - nearest) <= NEAR else None
