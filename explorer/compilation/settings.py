"""What decides how a model is compiled, and the pipeline that follows from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from explorer.compilation.pipelines import Edit, with_edits
from explorer.compilation.tuned import TunedSchedules, tuned_schedules
from explorer.errors import InputError
from explorer.ir.passes import Pass, RulePass
from explorer.ir.ranges import SizeRange
from explorer.ir.requantization import AS_ONNXRUNTIME
from explorer.kernels.clipping import ClipLoops
from explorer.kernels.cost.machine import cache_levels
from explorer.kernels.passes import LowerToLoops, ScheduleLoops
from explorer.kernels.rows import FindRows
from explorer.kernels.schedules import Machine
from explorer.kernels.schedules.machine import USUAL_CACHES
from explorer.memory.planners import GreedyPlanner, Planner
from explorer.memory.planning import PlanMemory
from explorer.passes import top_pipeline
from explorer.passes.join_in_place import JoinInPlace
from explorer.passes.keep_range import KeepRange
from explorer.passes.layout import LEGAL_BLOCKS, AssignLayouts
from explorer.passes.lower import LowerToKernels
from explorer.passes.place import PlaceOnDevice
from explorer.processor import cache_bytes, has_dot_products, vector_floats
from explorer.results.names import near_name
from explorer.runtime.devices import DeviceRecord, opencl_device
from explorer.runtime.tensor_cores import tensor_core_refusal
from explorer.targets import VECTOR_FLOATS, Target

if TYPE_CHECKING:
    from explorer.compilation.continuing import HandEdit

Progress = Callable[[str, int, int], None]
"""Called before every pass with its name, its number from 0 and how many there are."""


@dataclass(frozen=True)
class Settings:
    """All that decides how a model is compiled: equal settings give equal programs.

    A fork changes some of it.
    """

    target: Target
    disable: tuple[str, ...] = ()
    """Names of passes that are left out; required ones cannot be."""
    decisions: Mapping[str, object] = field(default_factory=dict)
    """Overrides by address, `pass/rule/site`, or `pass/rule` for a whole rule."""
    fuel: int | None = None
    """At most so many rewrites by optional passes; what lowering needs is always done."""
    dimensions: Mapping[str, int] = field(default_factory=dict)
    """Sizes of symbolic dimensions."""
    open_range: SizeRange | None = None
    """A dimension that stays open; `dimensions` has its largest size."""
    planner: Planner = field(default_factory=GreedyPlanner)
    budget_bytes: int | None = None
    """Most bytes that the arena may take."""
    pipeline: tuple[Pass, ...] | None = None
    """Another list of passes instead of the target's."""
    edits: tuple[Edit, ...] = ()
    """Passes inserted and put in another order, as they were one after the other."""
    tuned: bool = True
    """Whether kernels get the schedules that a search has measured to be faster, where some are
    kept; kernels of which something is overridden do not."""
    tuned_threads: int = 1
    """Threads that those were measured with."""
    host: bool = True
    """Whether the host runs what has no compiled form; without, such a model is refused."""
    edited: HandEdit | None = None
    """Text of a person's own in the place of what some pass made."""


WIDE_LANES = 16
"""Processors with vectors of 512 bits mostly have dot products of bytes (VNNI)."""
SPLITTING_LANES = 8
"""AVX2 has absolute values of bytes; others are printed for that multiply 16 bits as fast."""


def default_pipeline(settings: Settings, device: DeviceRecord | None) -> tuple[Pass, ...]:
    """The passes for a target, in order."""
    target = settings.target
    lanes = machine_lanes(target, device)
    open_range = settings.open_range
    sizes = dict(settings.dimensions)
    pairs = "opencl" not in target.languages and lanes < WIDE_LANES and not has_dot_products()
    kept = () if open_range is None else (KeepRange(open_range, sizes),)
    return (
        *kept,
        *top_pipeline(
            dict(settings.dimensions),
            requantization=target.requantization or AS_ONNXRUNTIME,
            fuses_attention="opencl" not in target.languages,
            multiplies_pairs=pairs,
            splits_signs=pairs and lanes == SPLITTING_LANES,
        ),
        # One program for a range of sizes has one function.
        PlaceOnDevice(target.name, settings.host and settings.open_range is None),
        AssignLayouts(channel_block(target, lanes)),
        JoinInPlace(),
        LowerToKernels(),
        LowerToLoops(),
        *(() if settings.open_range is None else (FindRows(),)),
        ScheduleLoops(machine_for(target, device, lanes), _tuned(settings, device)),
        *(() if settings.open_range is None else (ClipLoops(),)),
        PlanMemory(settings.planner, settings.budget_bytes),
    )


def _tuned(settings: Settings, device: DeviceRecord | None) -> TunedSchedules | None:
    if not settings.tuned:
        return None
    return tuned_schedules(settings.target, device, settings.tuned_threads)


def machine_for(target: Target, device: DeviceRecord | None, lanes: int) -> Machine:
    """What schedules ask for: a GPU is scheduled for work-groups, everything else for vectors."""
    language = "opencl" if "opencl" in target.languages else "c"
    kind = target.schedules
    if kind == "auto":
        kind = "gpu" if device is not None and device.processor == "gpu" else "cpu"
    if language != "opencl" or kind != "gpu":
        caches = cache_levels(target.caches, cache_bytes())
        return Machine(lanes, language, core=target.core, caches=caches or USUAL_CACHES)
    matrices = _tensor_cores(target, device)
    return Machine(lanes, language, 32, kind, target.precision, matrices)


def _tensor_cores(target: Target, device: DeviceRecord | None) -> str:
    """How matrix instructions are written, empty for none; tried only where they may be used."""
    if target.precision != "mixed" or target.tensor_cores == "none":
        return ""
    if target.tensor_cores == "emulated":
        return "emulated"
    return "" if device is None or tensor_core_refusal(device) else "ptx"


def full_pipeline(settings: Settings, device: DeviceRecord | None) -> tuple[Pass, ...]:
    """The given passes or the target's, edited; disabled ones included."""
    return with_edits(settings.pipeline or default_pipeline(settings, device), settings.edits)


def machine_lanes(target: Target, device: DeviceRecord | None) -> int:
    """Floats in a vector: the target's, or the device's where the target says auto."""
    if target.vector_floats == "auto":
        if "opencl" in target.languages and device is not None:
            return max(4, min(16, device.vector_floats))
        return vector_floats()
    if target.vector_floats not in VECTOR_FLOATS:
        raise InputError(
            f"target {target.name}: vector_floats is {target.vector_floats}",
            hint="auto or one of " + ", ".join(map(str, VECTOR_FLOATS)),
        )
    return int(target.vector_floats)


def channel_block(target: Target, lanes: int) -> int:
    """Channels per block that the target asks for; 0 where it wants plain tensors."""
    preferred = target.layout.channel_block
    block = lanes if preferred == "vector" else preferred if preferred > 1 else 0
    if block not in LEGAL_BLOCKS:
        raise InputError(
            f"target {target.name}: layout.channel_block is {preferred}",
            hint="vector, 1 or one of " + ", ".join(str(b) for b in LEGAL_BLOCKS if b),
        )
    return block


def device_for(target: Target) -> DeviceRecord | None:
    """The OpenCL device that the program will run on; None for generated C."""
    if "opencl" not in target.languages:
        return None
    return opencl_device()


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
    """InputError for an address of no pass, of a rule that the pass has not, or that is no bool.

    `pipeline` with what is disabled. Sites are known only when the pass has run.
    """
    passes = {p.name: p for p in pipeline}
    for address, value in decisions.items():
        name, *rest = address.split("/", 2)
        if not rest or name not in passes:
            raise InputError(
                f"no decision has the address {address!r}",
                hint="addresses are pass/rule/operation; " + near_name(name, list(passes)),
            )
        rules = rule_names(passes[name])
        if rules and rest[0] in passes[name].choices:  # pyright: ignore[reportAttributeAccessIssue]
            continue
        if rules and rest[0] not in rules:
            raise InputError(
                f"no decision has the address {address!r}: {name} has no rule {rest[0]!r}",
                hint=near_name(rest[0], rules),
            )
        if rules and not isinstance(value, bool):
            raise InputError(
                f"{address} cannot be {value!r}: a rule is used, or not", hint="a bool"
            )


def rule_names(pass_: Pass) -> list[str]:
    """Names of the rules of a pass; empty for passes that are not made of rules."""
    return [rule().name for rule in pass_.rules] if isinstance(pass_, RulePass) else []
