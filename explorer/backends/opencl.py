"""Generated OpenCL C for a device of this machine: a GPU, or a processor through its driver.

pyopencl takes as long to import as a small model to compile: it is, where a program is opened.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from explorer.backends.interface import Backend
from explorer.backends.records import MeasuredOn, Opening
from explorer.errors import InputError
from explorer.runtime.cache.environment import opencl_identity
from explorer.runtime.cache.languages import SavedLanguage
from explorer.runtime.cache.weights import MappedWeights
from explorer.runtime.core_at_hand import core_at_hand

if TYPE_CHECKING:
    from xdsl.dialects.func import FuncOp

    from explorer.ir.program import Snapshot
    from explorer.kernels.program.build import BuiltProgram, SharedBlock
    from explorer.kernels.schedules import Machine
    from explorer.results import MemoryPlan, Program
    from explorer.runtime.assembly.functions import Disassembly
    from explorer.runtime.cache import ProgramKey
    from explorer.runtime.cache.saved_programs import Startable
    from explorer.runtime.devices import DeviceRecord
    from explorer.runtime.executable import Executable
    from explorer.runtime.profiles import Peaks
    from explorer.targets import Target
    from explorer.targets.capabilities import Capabilities

MAX_LANES = 16
"""Of OpenCL C's vector types."""


class OpenCLBackend(Backend):
    name = "opencl"
    title = "OpenCL C"
    suffix = "cl"
    needs_host_program = True
    kept = SavedLanguage(own={"device": opencl_identity}, needs_source=True)

    def capabilities(self, target: Target, lanes: int) -> Capabilities:
        from explorer.targets.capabilities import Capabilities

        return Capabilities(fuses_attention=False, multiplies_blocks=False, widens_operands=False)

    def device(self) -> DeviceRecord | None:
        from explorer.runtime.devices import opencl_device

        return opencl_device()

    def devices(self, time_limit_seconds: float) -> list[DeviceRecord]:
        from explorer.runtime.devices import list_devices

        return list_devices((self.name,), time_limit_seconds)

    def vector_floats(self, device: DeviceRecord | None, target: Target) -> int:
        if device is None:
            return super().vector_floats(device, target)
        core = core_at_hand() if device.processor == "cpu" else None
        return max(4, min(MAX_LANES, device.vector_floats if core is None else core.lanes))

    def threads_on(self, device: DeviceRecord | None, threads: int) -> int | None:
        is_processor = device is None or device.processor == "cpu"
        return threads if is_processor else None

    def peaks(self, device: DeviceRecord | None, threads: int, processor: str = "native") -> Peaks:
        from explorer.runtime.roofline import measure_opencl

        device = device or self.device()
        assert device is not None
        return measure_opencl(device, device.compute_units)

    def machine(self, target: Target, device: DeviceRecord | None, lanes: int) -> Machine:
        """A GPU is scheduled for work-groups, everything else for vectors."""
        from explorer.backends.kernel_path import processor_machine
        from explorer.kernels.schedules import Machine

        kind = target.schedules
        if kind == "auto":
            kind = "gpu" if device is not None and device.processor == "gpu" else "cpu"
        if kind != "gpu":
            return processor_machine(self.name, self.core(target), lanes)
        matrices = _tensor_cores(target, device)
        return Machine(
            vector_floats=lanes,
            language=self.name,
            registers=32,
            processor=kind,
            precision=target.precision,
            tensor_cores=matrices,
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
        """On a processor the cost model says whether its cores share the chain."""
        from explorer.backends.cores import cost_machine_of
        from explorer.kernels.program.sharing import judged_chain

        built = super().build(snapshot, function, plan, target, inputs, outputs, block)
        chain = built.program.chain
        device = self.device() if chain is not None and chain.is_shared else None
        if device is None or device.processor != "cpu" or target.schedules == "gpu":
            return built
        lanes = self.vector_floats(device, target)
        machine = cost_machine_of(self.core(target), target, lanes, device.compute_units)
        chain = judged_chain(built.program, snapshot.kernels, machine)
        return replace(built, program=replace(built.program, chain=chain))

    def open(
        self, built: BuiltProgram, device: DeviceRecord | None, opening: Opening
    ) -> Executable:
        _refuse_affinity(opening)
        from explorer.runtime.opencl.program import OpenCLProgram

        return OpenCLProgram(
            built.program,
            built.weights,
            device,
            compute_units=opening.threads,
            name=opening.name,
            cache=opening.cache,
            arena=opening.arena,
        )

    def load_saved(self, found: Startable, opening: Opening) -> Executable:
        _refuse_affinity(opening)
        from explorer.runtime.opencl.program import OpenCLProgram

        mapped = found.weights
        return OpenCLProgram(
            found.kept.program,
            mapped.array if isinstance(mapped, MappedWeights) else mapped,
            compute_units=opening.threads,
            name=opening.name,
            cache=opening.cache,
        )

    def key(self, program: Program, device: DeviceRecord | None, name: str) -> ProgramKey:
        from explorer.runtime.cache.opencl_programs import program_key
        from explorer.runtime.caller_devices import device_for

        device = device or self.device()
        assert device is not None
        source = "\n".join(program.source.lines) + "\n"
        return program_key(source, (), device_for(program, device), name)

    def measured_on(self, device: DeviceRecord | None, threads: int) -> MeasuredOn | None:
        if device is None:
            return None
        return MeasuredOn(
            device=device.name,
            compiler=f"{device.driver} {device.version}",
            threads=min(threads, device.compute_units),
        )

    def disassemble(
        self, program: Program, functions: Sequence[str], device: DeviceRecord | None
    ) -> Disassembly:
        from explorer.runtime.assembly.functions import Disassembly

        if device is None:
            return Disassembly("assembly", note="there is no device whose driver could be asked")
        from explorer.runtime.assembly.opencl import opencl_functions

        return opencl_functions(program, tuple(functions), device)


def _refuse_affinity(opening: Opening) -> None:
    if opening.affinity:
        raise InputError("affinity: an OpenCL driver has its own threads")


def _tensor_cores(target: Target, device: DeviceRecord | None) -> str:
    """How matrix instructions are written, empty for none; tried only where they may be used."""
    from explorer.runtime.tensor_cores import tensor_core_refusal

    if target.precision != "mixed" or target.tensor_cores == "none":
        return ""
    if target.tensor_cores == "emulated":
        return "emulated"
    return "" if device is None or tensor_core_refusal(device) else "ptx"


BACKEND = OpenCLBackend()
