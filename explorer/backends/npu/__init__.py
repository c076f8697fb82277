"""NPUs that instructions drive: quantized layers in tiles, and a simulator that runs them.

planning.py     where tensors lie in global memory
arranging.py    arguments and results that the host writes and reads as they lie
passes.py       layers in tiles, at addresses, as instructions
combining.py    elementwise layers that become the end of a convolution
chosen_tiles.py   tiles by search and by decisions, as knobs
laying_out.py   constants as the machine reads them
network.py      the program of a function, whole and layer by layer
placement.py    what the machine refuses, and who computes that
lowered.py      what was made of operations, so that each is lowered once
streams.py      tiles and instructions that several programs have
reach.py        what the reading of an operation depends on
executing.py    what executes snapshots of its levels
building.py     the record of a program: a launch is a layer
executable.py   a program that is open; timeline.py: its events
counting.py     what a run was counted as, layer by layer
predicting.py   what another choice for one layer changes
roofs.py        what layers take at least; occupancy.py: what lies in the scratchpads
walks.py        the way of each tile through the queues
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from explorer.backends.interface import Backend
from explorer.backends.records import Companion, Lowering, Opening
from explorer.errors import UnsupportedError

if TYPE_CHECKING:
    from pathlib import Path

    from xdsl.dialects.func import FuncOp

    from explorer.backends.npu.predicting import MachineModel
    from explorer.ir.program import Executor, Snapshot
    from explorer.ir.rewriting.passes import Pass, PassResult
    from explorer.kernels.program.build import BuiltProgram, SharedBlock
    from explorer.kernels.schedules import Machine as LoopMachine
    from explorer.passes.lower.partition import Needs, Refuses
    from explorer.results import MemoryPlan, Program
    from explorer.results.decisions import Decisions
    from explorer.results.runs.counted import CountedRun, MachineWork
    from explorer.runtime.cache import ProgramKey
    from explorer.runtime.devices import DeviceRecord
    from explorer.runtime.executable import Executable
    from explorer.targets import Target
    from explorer.targets.capabilities import Capabilities


class NpuBackend(Backend):
    name = "npu"
    title = "instructions"
    suffix = "npu"
    runs_loops = False
    isolates = True

    def devices(self, time_limit_seconds: float) -> list[DeviceRecord]:
        from explorer.backends.npu.devices import simulated_devices

        return simulated_devices()

    def vector_floats(self, device: DeviceRecord | None, target: Target) -> int:
        return 4  # nothing is made of vectors of floats

    def machine(self, target: Target, device: DeviceRecord | None, lanes: int) -> LoopMachine:
        raise UnsupportedError(f"{target.name} runs instructions: there are no loops to schedule")

    def capabilities(self, target: Target, lanes: int) -> Capabilities:
        from explorer.targets.capabilities import Capabilities

        return Capabilities(fuses_attention=False, multiplies_blocks=False, widens_operands=False)

    def executor(self, target: Target) -> Executor | None:
        from explorer.backends.npu.executing import execute
        from explorer.targets.npu.machine import describe

        return partial(execute, describe(target))

    def before_placement(self) -> tuple[Pass, ...]:
        from explorer.passes.lower.reshape_floats import ReshapedFloats
        from explorer.passes.lower.stack_matrices import StackedMatrices

        return (StackedMatrices(), ReshapedFloats())

    def refusals(self, target: Target) -> Refuses | None:
        from explorer.backends.npu.placement import RefusedLayers
        from explorer.targets.npu.machine import describe

        return RefusedLayers(describe(target))

    def needs(self, refuses: Refuses | None) -> Needs | None:
        from explorer.backends.npu.placement import RefusedLayers

        return refuses.needed if isinstance(refuses, RefusedLayers) else None

    def companion(self, target: Target) -> Companion:
        from explorer.backends.npu.placement import processor_companion

        return processor_companion(target)

    def passes(self, lowering: Lowering) -> tuple[Pass, ...]:
        from explorer.backends.npu.arranging import ArrangeInputs
        from explorer.backends.npu.combining import CombineLayers
        from explorer.backends.npu.grouping import GroupLayers
        from explorer.backends.npu.laying_out import LayOutConstants
        from explorer.backends.npu.lowered import LoweredLayers
        from explorer.backends.npu.passes import AssignAddresses, EmitInstructions, TileLayers
        from explorer.backends.npu.placement import RefusedLayers
        from explorer.backends.npu.slicing import SliceLayers
        from explorer.backends.npu.unfolding import UnfoldInputs
        from explorer.targets.npu.machine import describe

        machine, refuses = describe(lowering.target), lowering.refuses
        lowered = LoweredLayers(machine)
        if isinstance(refuses, RefusedLayers) and refuses.machine == machine:
            lowered = refuses.lowered
        return (
            ArrangeInputs(machine, lowered),
            TileLayers(machine, lowered),
            UnfoldInputs(machine, lowered=lowered),
            CombineLayers(machine, lowered=lowered),
            SliceLayers(machine, lowered=lowered),
            GroupLayers(machine, lowered=lowered),
            LayOutConstants(machine, lowered),
            AssignAddresses(machine, lowering.planner, lowering.budget_bytes, lowered=lowered),
            EmitInstructions(machine, lowered),
        )

    def build(
        self,
        snapshot: Snapshot,
        function: FuncOp,
        plan: MemoryPlan,
        target: Target,
        inputs: Sequence[str],
        outputs: Sequence[str],
        block: SharedBlock | None = None,
    ) -> BuiltProgram:
        from explorer.backends.npu.building import build_network
        from explorer.backends.npu.network import network_of
        from explorer.targets.npu.machine import describe

        network = network_of(function, snapshot.weights, describe(target))
        return build_network(network, target, inputs, outputs)

    def predicted_seconds(
        self, results: Sequence[PassResult], target: Target, device: DeviceRecord | None, lanes: int
    ) -> Mapping[str, float] | None:
        cycles = self.predicted_cycles(results, target)
        clock = target.clock_hz
        return None if clock is None else {op: count / clock for op, count in cycles.items()}

    def predicted_cycles(self, results: Sequence[PassResult], target: Target) -> Mapping[str, int]:
        from explorer.backends.npu.counting import predicted_layers
        from explorer.backends.npu.passes import STEPS
        from explorer.targets.npu.machine import describe

        steps = results[-1].artifacts.get(STEPS, {})
        assert isinstance(steps, dict)
        return predicted_layers(steps, describe(target))

    def predicted_work(self, built: BuiltProgram) -> MachineWork | None:
        from explorer.backends.npu.building import BuiltNetwork
        from explorer.backends.npu.roofs import work_of_networks

        parts = [built, *built.parts.values()]
        mine = [part.network for part in parts if isinstance(part, BuiltNetwork)]
        return work_of_networks([network for network in mine if network is not None])

    def model_of_choices(
        self, results: Sequence[PassResult], target: Target, decisions: Decisions
    ) -> MachineModel:
        from explorer.backends.npu.predicting import MachineModel
        from explorer.targets.npu.machine import describe

        return MachineModel(results, describe(target), decisions)

    def emit(
        self, results: Sequence[PassResult], target: Target, folder: Path, base_bytes: int
    ) -> None:
        from explorer.backends.npu.emitting import emit_results

        emit_results(results, target, folder, base_bytes)

    def open(
        self, built: BuiltProgram, device: DeviceRecord | None, opening: Opening
    ) -> Executable:
        from explorer.backends.npu.building import BuiltNetwork
        from explorer.backends.npu.executable import NpuProgram

        assert isinstance(built, BuiltNetwork) and built.network is not None
        return NpuProgram(
            built.program,
            built.network,
            device=f"simulator of {built.program.target}",
            clock_hz=built.clock_hz,
            time_limit_seconds=opening.time_limit_seconds,
        )

    def counted(
        self, executables: Sequence[Executable], artifacts: Mapping[str, object]
    ) -> CountedRun | None:
        from explorer.backends.npu.combining import SEARCHES_COMBINED
        from explorer.backends.npu.counting import counted_run
        from explorer.backends.npu.executable import NpuProgram
        from explorer.backends.npu.passes import SEARCHES_MADE, STEPS
        from explorer.backends.npu.slicing import SEARCHES_SLICED
        from explorer.backends.npu.unfolding import SEARCHES_UNFOLDED

        mine = [program for program in executables if isinstance(program, NpuProgram)]
        steps = artifacts.get(STEPS, {})
        searches = artifacts.get(SEARCHES_MADE, ())
        combined = artifacts.get(SEARCHES_COMBINED, {})
        assert isinstance(steps, dict) and isinstance(searches, tuple)
        sliced = artifacts.get(SEARCHES_SLICED, {})
        unfolded = artifacts.get(SEARCHES_UNFOLDED, {})
        assert isinstance(combined, dict) and isinstance(sliced, dict)
        assert isinstance(unfolded, dict)
        searches = [record for one in searches for record in unfolded.get(one.layer, [one])]
        kept = [combined.get(one.layer, one) for one in searches]
        kept = [sliced.get(one.layer, [one]) for one in kept if one is not None]
        searches = tuple(record for records in kept for record in records)
        return counted_run(mine, steps, searches)

    def key(self, program: Program, device: DeviceRecord | None, name: str) -> ProgramKey:
        from explorer.runtime.cache import ProgramKey

        return ProgramKey(
            language=self.name,
            source="\n".join(program.source.lines),
            options=(),
            compiler="assembler",
            device=f"simulator of {program.target}",
            name=name,
        )


BACKEND = NpuBackend()
