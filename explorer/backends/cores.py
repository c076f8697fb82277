"""The core that code is made for: the family of the processor, and what a target says otherwise.

    known_core(target, features)
        -> KnownCore(family=zen4, recognized_by="AuthenticAMD, family 25, model 17", ...)

All that schedules know of a processor is in it; `explorer devices` shows it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

from explorer.kernels.cost.machine import CacheLevel, CostMachine, cache_levels, cost_machine
from explorer.processor import (
    cache_bytes,
    clock_hz,
    core_kinds,
    processor_family,
    recognized_by,
)
from explorer.runtime.core_at_hand import SETTING, core_at_hand, features_at_hand
from explorer.runtime.measuring import measured_core_at_hand, saved_measurement
from explorer.targets import Target
from explorer.targets.core_families import KnownCore, core_family, describe_core, family_of


def known_core(target: Target, features: Collection[str] | None = None) -> KnownCore:
    """The core of the processor at hand, or of the family that the target names.

    `features`: what its code may use; None: what the system tells of the processor.
    """
    own = features_at_hand() if features is None else features
    if target.core.family != "auto":
        family = core_family(target.core.family)
        why = f"named by the target {target.name}"
        sizes = None
        own = family.features if features is None else features
        return describe_core(family, why, own, target.core, target.caches, sizes=sizes)
    emulated = core_at_hand()
    if emulated is not None:
        why = f"named by {SETTING}"
        return describe_core(emulated.family, why, own, target.core, target.caches, sizes={})
    family, why, sizes = family_of(processor_family()), recognized_by(), cache_bytes()
    measured = measured_core_at_hand()
    core = describe_core(family, why, own, target.core, target.caches, measured, sizes)
    return dataclasses.replace(core, kinds=core_kinds())


def levels_of(core: KnownCore) -> tuple[CacheLevel, ...]:
    """Its caches, with usual sizes where nothing tells them."""
    return cache_levels(core.caches, {})


def cost_machine_of(
    core: KnownCore, target: Target, vector_floats: int, threads: int = 1
) -> CostMachine:
    """What the cost model counts with; a clock that the target leaves open is this machine's.

    One that was measured goes before the one that the system tells, which may be the least.
    """
    measured = saved_measurement()
    clock = target.clock_hz or (measured.clock_hz if measured else clock_hz())
    return cost_machine(core.core, core.caches, {}, vector_floats, clock, threads)
