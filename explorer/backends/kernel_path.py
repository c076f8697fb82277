"""What backends that run kernels of loops have in common: passes, machine, building.

placed tensors  ->  layouts, kernels, loops, schedules, memory  ->  a printed program
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.func import FuncOp

from explorer.backends.cores import cost_machine_of, levels_of
from explorer.backends.records import Lowering
from explorer.ir.dialects.kernel import LaunchOp
from explorer.ir.operation import identity_of
from explorer.ir.program import Snapshot
from explorer.ir.rewriting.passes import Pass, PassResult
from explorer.ir.structure import own_functions
from explorer.kernels.cost import estimate
from explorer.kernels.cost.gathering import GatheringCosts
from explorer.kernels.in_place import FORMS, WriteInPlace
from explorer.kernels.loops.clipping import ClipLoops
from explorer.kernels.loops.find_extents import FindExtents
from explorer.kernels.loops.row_wise import FindRows
from explorer.kernels.order_operations import OrderOperations
from explorer.kernels.passes import KERNELS, LowerToLoops, ScheduleLoops
from explorer.kernels.program.build import BuiltProgram, MakeText, SharedBlock, build_program
from explorer.kernels.schedules import Machine
from explorer.memory.moving import MoveBuffers
from explorer.memory.planning import DEFAULT_ALIGNMENT_BYTES, PlanMemory, value_offsets
from explorer.memory.several import UNKNOWN_BANDWIDTH, Space
from explorer.passes.lower.assign_layouts import AssignLayouts
from explorer.passes.lower.gather_pixels import GatherPixels
from explorer.passes.lower.join_in_place import JoinInPlace
from explorer.passes.lower.lower_to_kernels import LowerToKernels
from explorer.passes.lower.recompute import Recompute
from explorer.passes.lower.stream_rows import StreamRows
from explorer.results import MemoryPlan
from explorer.results.memory import memories_of
from explorer.results.program import ProgramMemory
from explorer.runtime.devices import DeviceRecord
from explorer.targets import Target
from explorer.targets.core_families import KnownCore


def kernel_passes(lowering: Lowering, machine: Machine) -> tuple[Pass, ...]:
    """From placed tensors to planned memory; with sizes that are left open, three passes more."""
    is_processor = machine.processor == "cpu"
    alignment = arena_alignment(lowering.target, machine.language)
    spaces = spaces_of(lowering.target, machine.language)
    return (
        AssignLayouts(lowering.channel_block),
        *((GatherPixels(GatheringCosts(machine.costs)),) if is_processor else ()),
        JoinInPlace(),
        Recompute(),
        StreamRows(1 if is_processor else DEFAULT_ALIGNMENT_BYTES),
        *((MoveBuffers(spaces, lowering.planner, alignment),) if spaces else ()),
        LowerToKernels(),
        LowerToLoops(),
        *((FindRows(), FindExtents()) if lowering.is_open else ()),
        ScheduleLoops(machine, lowering.tuned),
        *((ClipLoops(),) if lowering.is_open else ()),
        WriteInPlace(),
        OrderOperations(alignment),
        PlanMemory(
            lowering.planner,
            budget_of(lowering),
            alignment,
            spaces,
        ),
    )


def predicted_launches(
    results: Sequence[PassResult],
    core: KnownCore,
    target: Target,
    device: DeviceRecord | None,
    lanes: int,
) -> dict[str, float]:
    """Seconds of every launch by the cost model, on one thread, or on all units of a device."""
    threads = 1 if device is None else device.compute_units
    machine = cost_machine_of(core, target, lanes, threads)
    kernels = next(r.artifacts[KERNELS] for r in reversed(results) if KERNELS in r.artifacts)
    forms = next((r.artifacts[FORMS] for r in reversed(results) if FORMS in r.artifacts), {})
    assert isinstance(kernels, dict) and isinstance(forms, dict)
    known: dict[str, float] = {}
    seconds: dict[str, float] = {}
    for function in own_functions(results[-1].after.program):
        for op in function.body.block.ops:
            if isinstance(op, LaunchOp):
                name = op.kernel.data
                if name not in known:
                    made_of = forms[name].scheduled if name in forms else name
                    known[name] = estimate(kernels[made_of].function, machine).microseconds * 1e-6
                seconds[identity_of(op)] = known[name] + target.costs.launch_seconds
    return seconds


def budget_of(lowering: Lowering) -> int | None:
    """The smaller of what is asked for and the size of the target's arena; None: no limit.

    Several memories are limits of their own.
    """
    arenas = lowering.target.arenas
    sizes = [memory.size_bytes for memory in arenas] if len(arenas) == 1 else []
    limits = [size for size in (lowering.budget_bytes, *sizes) if size is not None]
    return min(limits, default=None)


def arena_alignment(target: Target, language: str) -> int:
    """Buffers of the target's arena begin at multiples of so many bytes. Generated C loads vectors
    from any address that suits their elements, so that there this is about speed alone."""
    if language != "c":
        return DEFAULT_ALIGNMENT_BYTES
    found = [memory.alignment_bytes for memory in target.arenas]
    return max(found, default=DEFAULT_ALIGNMENT_BYTES)


def spaces_of(target: Target, language: str) -> tuple[Space, ...]:
    """The memories that activations are divided among; none where there is one. Programs in C
    alone reach several, which lie one after the other in the arena of the host."""
    if language != "c" or len(target.arenas) < 2:
        return ()
    return tuple(
        Space(m.name, m.size_bytes, m.bytes_per_second or UNKNOWN_BANDWIDTH) for m in target.arenas
    )


def processor_machine(language: str, core: KnownCore, lanes: int) -> Machine:
    """A processor: its vectors, its registers, what it does in a cycle, and its caches."""
    return Machine(
        vector_floats=lanes,
        language=language,
        registers=core.core.vector_registers,
        core=core.core,
        caches=levels_of(core),
    )


def build_planned(
    snapshot: Snapshot,
    function: FuncOp,
    plan: MemoryPlan,
    target: str,
    language: str | MakeText,
    inputs: Sequence[str],
    outputs: Sequence[str],
    block: SharedBlock | None = None,
) -> BuiltProgram:
    """A device function, every value where the plan has it; `language`, `block` as in
    `build_program`."""
    return build_program(
        snapshot,
        value_offsets(plan),
        plan.peak_bytes,
        target,
        language,
        inputs,
        outputs,
        function=function,
        memories=program_memories(plan),
        spaces=value_memories(plan),
        block=block,
    )


def program_memories(plan: MemoryPlan) -> tuple[ProgramMemory, ...]:
    """The bytes of the arena that every memory has, where there are several, in their order."""
    return tuple(ProgramMemory(m.name, m.first_byte, m.size_bytes) for m in memories_of(plan))


def value_memories(plan: MemoryPlan) -> dict[str, str]:
    """The memory of every value and scratch buffer by its name, where there are several."""
    found: dict[str, str] = {}
    for placed in plan.placements:
        buffer = placed.buffer
        # A scratch buffer names the operation that it belongs to, as the value of that.
        names = () if "/scratch_" in buffer.id else buffer.values
        if placed.memory:
            found |= dict.fromkeys((buffer.id, *names), placed.memory)
    return found
