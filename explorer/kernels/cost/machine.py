"""What the cost model knows of a processor: plain numbers, from a target's file and the machine.

cost_machine(target.core, target.caches, {"l1": 32768, "l2": 1048576}, 16, 3.5e9)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from explorer.targets.schema import Cache, Core

USUAL_CLOCK_HZ = 3e9
USUAL_CACHES = {"l1": 32 << 10, "l2": 1 << 20, "l3": 16 << 20}
"""Sizes where neither the target nor the system says them."""
USUAL_BYTES_PER_CYCLE, USUAL_WAYS = 8, 8


@dataclass(frozen=True)
class CacheLevel:
    name: str
    size_bytes: int
    bytes_per_cycle: float
    """What a core gets from the level behind this one."""
    is_shared: bool = False
    ways: int = 8
    """Lines of the same place in every `size / ways` bytes that it holds at once."""


@dataclass(frozen=True)
class CostMachine:
    """A processor with `threads` cores at work."""

    vector_floats: int
    clock_hz: float = USUAL_CLOCK_HZ
    threads: int = 1
    core: Core = field(default_factory=Core)
    caches: tuple[CacheLevel, ...] = ()
    """The nearest first; data that all of them hold costs nothing but its loads."""

    @property
    def registers(self) -> int:
        return self.core.vector_registers


def cache_levels(caches: Sequence[Cache], sizes: Mapping[str, int]) -> tuple[CacheLevel, ...]:
    """A target's caches, with the machine's own sizes where it says `auto`."""
    levels = []
    for cache in caches:
        size = cache.size_bytes
        if size == "auto":
            size = sizes.get(cache.name) or USUAL_CACHES.get(cache.name, 1 << 20)
        is_shared = cache.scope == "device"
        rate = cache.bytes_per_cycle or USUAL_BYTES_PER_CYCLE
        levels.append(CacheLevel(cache.name, int(size), rate, is_shared, cache.ways or USUAL_WAYS))
    return tuple(levels)


def cost_machine(
    core: Core,
    caches: Sequence[Cache],
    sizes: Mapping[str, int],
    vector_floats: int,
    clock_hz: float = 0.0,
    threads: int = 1,
) -> CostMachine:
    """The numbers of a target, with the machine's own cache sizes where it says `auto`."""
    levels = cache_levels(caches, sizes)
    return CostMachine(vector_floats, clock_hz or USUAL_CLOCK_HZ, threads, core, levels)
