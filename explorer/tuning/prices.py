"""Measured prices of operations: each target runs the program alone, launch by launch.

    c = explorer.compile(model, target=["cpu", "opencl"])
    d = c.fork(decisions=measured_prices(c))      chosen by what was measured, not by the cost model

The launches of a profile are scaled to the time of the whole: launches in a chain take less time
together than one by one.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from explorer.compilation import Compilation
from explorer.errors import InputError

REPEATS = 20


def measured_prices(
    compilation: Compilation,
    inputs: Mapping[str, np.ndarray] | None = None,
    repeats: int = REPEATS,
) -> dict[str, float]:
    """Decisions `price/DEVICE/OPERATION` in seconds, of all operations that were launched.

    `inputs`: seeded random ones without. Takes a build and some runs of every target. InputError
    for a compilation of one target.
    """
    targets = compilation.targets
    if len(targets) < 2:
        raise InputError("prices are for several targets", hint='target=["cpu", "opencl"]')
    legal = {
        (price.device, op.operation)
        for op in compilation.placement.operations
        for price in op.prices
    }
    found: dict[str, float] = {}
    for target in targets:
        alone = compilation.fork(target=target, decisions=dict.fromkeys(_own(compilation)))
        try:
            seconds = _seconds_of(alone, inputs, repeats)
        finally:
            alone.close()
        for device, operation in legal:
            if device == target.name and operation in seconds:
                found[f"price/{device}/{operation}"] = seconds[operation]
    return dict(sorted(found.items()))


def _own(compilation: Compilation) -> list[str]:
    """Decisions about placement, which one target does not have."""
    heads = ("find-devices/", "price/", "cluster/", "assign/")
    return [name for name in compilation.settings.decisions if name.startswith(heads)]


def _seconds_of(
    alone: Compilation, inputs: Mapping[str, np.ndarray] | None, repeats: int
) -> dict[str, float]:
    profile = alone.profile(inputs, repeats)
    launched: dict[str, float] = {}
    known = {launch.operation for launch in alone.program.launches}
    for event in profile.events:
        if event.operation in known:
            took = (event.end_ns - event.start_ns) * 1e-9
            launched[event.operation] = launched.get(event.operation, 0.0) + took
    total = sum(launched.values())
    scale = min(1.0, profile.milliseconds * 1e-3 / total) if total else 1.0
    return {operation: seconds * scale for operation, seconds in launched.items()}
