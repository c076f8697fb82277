"""From one request to another: what `Compilation.fork` is to decide otherwise.

parent    CompileRequest("net.onnx", "cpu", {"fuse-bias": False})
wanted  CompileRequest("net.onnx", "cpu", {"fuse-activation": False})
changes(parent, wanted)   ->   {"fuse-activation": False, "fuse-bias": None}
"""

from __future__ import annotations

from explorer.app.protocol import CompileRequest
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


def is_parent(parent: CompileRequest, request: CompileRequest) -> bool:
    """Whether a fork of another compilation can become what is asked for."""
    if parent.path != request.path or parent.is_trace or parent.target != request.target:
        return False
    if (parent.model_edits, parent.quantize) != (request.model_edits, request.quantize):
        return False
    if parent.edit or request.edit:  # an edit is taken by what it was made of, see the compiler
        return False
    gone = set(parent.values) - set(request.values)
    return not any(address.split("/")[0] in OF_SETTINGS or address == PLANNER for address in gone)


def changes(parent: CompileRequest, request: CompileRequest) -> dict[str, Value]:
    """The decisions that differ; None takes one back."""
    before, after = parent.values, request.values
    found = {a: None for a in before if a not in after}
    found |= {a: v for a, v in after.items() if a not in before or before[a] != v}
    if PINS in found and PLANNER in after:  # the planner that pins had replaced
        found[PLANNER] = after[PLANNER]
    return found


def differing_passes(parent: CompileRequest, request: CompileRequest) -> set[str]:
    """Names of passes that may work otherwise; "" for what differs from the beginning on."""
    pairs = set(parent.decisions) ^ set(request.decisions)
    found = {address.split("/")[0] for address, _ in pairs} - {ORDER}
    if any(address == ORDER for address, _ in pairs):
        found |= {*parent.values.get(ORDER, ()), *request.values.get(ORDER, ())}
    return found
