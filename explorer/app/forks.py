"""From one request to another: what `Compilation.fork` is to do otherwise.

kept    Request("net.onnx", "cpu", disable=("fuse-bias",))
wanted  Request("net.onnx", "cpu", disable=("fuse-activation",))
changes(kept, wanted)   ->   {"disable": ["fuse-activation"], "enable": ["fuse-bias"]}
"""

from __future__ import annotations

from typing import Any

from explorer.app.session import Request

PLAN_MEMORY = "plan-memory"
PLANNER = f"{PLAN_MEMORY}/planner"
OF_SETTINGS = ("target", "fuel", "dimensions", PLAN_MEMORY)
"""Addresses of knobs that have no default to go back to."""


def is_parent(kept: Request, request: Request) -> bool:
    """Whether a fork of what was kept can become what is asked for."""
    if kept.path != request.path or kept.is_trace:
        return False
    if kept.order not in ((), request.order):
        return False
    if kept.target != request.target:
        return False
    gone = set(kept.values) - set(request.values)
    return not any(address.split("/")[0] in OF_SETTINGS for address in gone)


def changes(kept: Request, request: Request) -> dict[str, Any]:
    """Arguments of `fork`; only those that change something."""
    before, after = kept.values, request.values
    decisions = {a: v for a, v in after.items() if a not in before or before[a] != v}
    decisions |= {address: None for address in before if address not in after}
    found: dict[str, Any] = {
        "disable": [name for name in request.disable if name not in kept.disable],
        "enable": [name for name in kept.disable if name not in request.disable],
        "decisions": decisions,
    }
    if request.order != kept.order:
        found["order"] = list(request.order)
    found = {name: value for name, value in found.items() if value}
    if request.budget_bytes != kept.budget_bytes:
        found["budget_bytes"] = request.budget_bytes
    if request.pins != kept.pins:
        found["planner"] = planner_of(request)
        decisions.pop(PLANNER, None)
    return found


def planner_of(request: Request) -> Any:  # a Planner; the memory layer is imported when needed
    from explorer.memory.pinned import PinnedPlanner
    from explorer.memory.planners import choose_planner, default_planners

    if request.pins:
        return PinnedPlanner(request.pins)
    return choose_planner(request.values.get(PLANNER, "greedy"), default_planners())


def differing_passes(kept: Request, request: Request) -> set[str]:
    """Names of passes that may work otherwise; "" for what differs from the beginning on."""
    found = set(kept.disable) ^ set(request.disable)
    pairs = set(kept.decisions) ^ set(request.decisions)
    found |= {address.split("/")[0] for address, _ in pairs}
    if kept.order != request.order:
        found |= set(kept.order) | set(request.order)
    if kept.pins != request.pins or kept.budget_bytes != request.budget_bytes:
        found.add(PLAN_MEMORY)
    return found
