"""From one request to another: what `Compilation.fork` is to decide otherwise.

kept    CompileRequest("net.onnx", "cpu", {"fuse-bias": False})
wanted  CompileRequest("net.onnx", "cpu", {"fuse-activation": False})
changes(kept, wanted)   ->   {"fuse-activation": False, "fuse-bias": None}
"""

from __future__ import annotations

from explorer.app.session import CompileRequest
from explorer.results.decisions import (
    DIMENSIONS,
    FUEL,
    ORDER,
    PINS,
    PLANNER,
    TARGET,
    Value,
)

OF_SETTINGS = (TARGET, FUEL, DIMENSIONS)
"""Beginnings of addresses that have no default to go back to."""


def is_parent(kept: CompileRequest, request: CompileRequest) -> bool:
    """Whether a fork of what was kept can become what is asked for."""
    if kept.path != request.path or kept.is_trace or kept.target != request.target:
        return False
    gone = set(kept.values) - set(request.values)
    return not any(address.split("/")[0] in OF_SETTINGS or address == PLANNER for address in gone)


def changes(kept: CompileRequest, request: CompileRequest) -> dict[str, Value]:
    """The decisions that differ; None takes one back."""
    before, after = kept.values, request.values
    found = {a: None for a in before if a not in after}
    found |= {a: v for a, v in after.items() if a not in before or before[a] != v}
    if PINS in found and PLANNER in after:  # the planner that pins had replaced
        found[PLANNER] = after[PLANNER]
    return found


def differing_passes(kept: CompileRequest, request: CompileRequest) -> set[str]:
    """Names of passes that may work otherwise; "" for what differs from the beginning on."""
    pairs = set(kept.decisions) ^ set(request.decisions)
    found = {address.split("/")[0] for address, _ in pairs} - {ORDER}
    if any(address == ORDER for address, _ in pairs):
        found |= {*kept.values.get(ORDER, ()), *request.values.get(ORDER, ())}
    return found
