"""What decides how a model is compiled, and the pipeline that follows from it."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from explorer.errors import InputError
from explorer.ir.passes import Pass
from explorer.kernels.passes import LowerToLoops, ScheduleLoops
from explorer.kernels.schedules import Machine
from explorer.memory.planners import GreedyPlanner, Planner
from explorer.memory.planning import PlanMemory
from explorer.passes import top_pipeline
from explorer.passes.layout import AssignLayouts
from explorer.passes.lower import LowerToKernels
from explorer.passes.place import PlaceOnDevice
from explorer.runtime.devices import DeviceRecord, first_usable, list_devices
from explorer.runtime.processor import vector_floats
from explorer.targets import Target

Progress = Callable[[str, int, int], None]
"""Called before every pass with its name, its number from 0 and how many there are."""


@dataclass(frozen=True)
class Settings:
    """All that decides how a model is compiled. A fork changes some of it."""

    target: Target
    disable: tuple[str, ...] = ()
    """Names of passes that are left out; required ones cannot be."""
    decisions: Mapping[str, object] = field(default_factory=dict)
    """Overrides by address, `pass/rule/site`."""
    fuel: int | None = None
    """At most so many rewrites by optional passes; what lowering needs is always done."""
    dimensions: Mapping[str, int] = field(default_factory=dict)
    """Sizes of symbolic dimensions."""
    planner: Planner = field(default_factory=GreedyPlanner)
    budget_bytes: int | None = None
    """Most bytes that the arena may take."""
    pipeline: tuple[Pass, ...] | None = None
    """Another list of passes instead of the target's."""


def default_pipeline(settings: Settings, device: DeviceRecord | None) -> tuple[Pass, ...]:
    """The passes for a target, in order."""
    target = settings.target
    lanes = machine_lanes(target, device)
    preferred = target.layout.channel_block
    block = lanes if preferred == "vector" else preferred if preferred > 1 else 0
    language = "opencl" if "opencl" in target.languages else "c"
    return (
        *top_pipeline(dict(settings.dimensions)),
        PlaceOnDevice(target.name),
        AssignLayouts(block),
        LowerToKernels(),
        LowerToLoops(),
        ScheduleLoops(Machine(lanes, language)),
        PlanMemory(settings.planner, settings.budget_bytes),
    )


def machine_lanes(target: Target, device: DeviceRecord | None) -> int:
    """Floats in a vector: the target's, or the device's where the target says auto."""
    if target.vector_floats != "auto":
        return int(target.vector_floats)
    if "opencl" in target.languages and device is not None:
        return max(4, min(16, device.vector_floats))
    return vector_floats()


def device_for(target: Target) -> DeviceRecord | None:
    """The OpenCL device that the program will run on; None for generated C."""
    if "opencl" not in target.languages:
        return None
    return first_usable(list_devices(), "opencl")


def without_disabled(pipeline: Sequence[Pass], disable: Sequence[str]) -> tuple[Pass, ...]:
    names = [p.name for p in pipeline]
    for name in disable:
        if name not in names:
            raise InputError(f"there is no pass {name!r}", hint=near_name(name, names))
        if any(p.name == name and p.is_required for p in pipeline):
            raise InputError(
                f"pass {name!r} cannot be disabled: what follows needs it",
                hint="disable one of " + ", ".join(p.name for p in pipeline if not p.is_required),
            )
    return tuple(p for p in pipeline if p.name not in disable)


def check_decisions(decisions: Mapping[str, object], pipeline: Sequence[Pass]) -> None:
    names = [p.name for p in pipeline]
    for address in decisions:
        parts = address.split("/", 2)
        if len(parts) != 3 or parts[0] not in names:
            raise InputError(
                f"no decision has the address {address!r}",
                hint="addresses are pass/rule/operation; " + near_name(parts[0], names),
            )


def near_name(name: str, names: Sequence[str]) -> str:
    found = difflib.get_close_matches(name, names, 1)
    return f"did you mean {found[0]!r}?" if found else f"there are {', '.join(names)}"
