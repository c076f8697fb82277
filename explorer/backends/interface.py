"""What a backend answers; the rest of the compiler asks, and compares no names.

Whoever derives from `Backend` writes `machine`, `open` and `key`, and `text` where it is not
printed in C or OpenCL C; everything else has an answer that says that there is no such thing.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from explorer.backends.records import Companion, Lowering, MeasuredOn, Opening
from explorer.errors import DeviceError, InputError
from explorer.renamed import warn_renamed

if TYPE_CHECKING:
    from pathlib import Path

    from xdsl.dialects.func import FuncOp

    from explorer.ir.program import Executor, Snapshot
    from explorer.ir.rewriting.passes import Pass, PassResult
    from explorer.kernels.program.build import BuiltProgram, ProgramText, SharedBlock
    from explorer.kernels.schedules import Machine
    from explorer.passes.lower.partition import Needs, Refuses
    from explorer.results import Launch, MemoryPlan, Program
    from explorer.results.decisions import Decisions
    from explorer.results.runs.counted import CountedRun, Effect, MachineWork
    from explorer.runtime.assembly import KernelAssembly
    from explorer.runtime.assembly.functions import Disassembly
    from explorer.runtime.cache import ProgramKey
    from explorer.runtime.cache.languages import SavedLanguage
    from explorer.runtime.cache.saved_programs import Startable
    from explorer.runtime.devices import DeviceRecord
    from explorer.runtime.executable import Executable
    from explorer.runtime.profiles import Peaks
    from explorer.targets import Target
    from explorer.targets.capabilities import Capabilities
    from explorer.targets.core_families import KnownCore


class ModelOfChoices(Protocol):
    """What other choices for single layers of a compiled program change, without compiling."""

    def has(self, address: str) -> bool:
        """Whether it predicts a decision."""
        ...

    def effect(self, address: str, value: object) -> Effect:
        """ExplorerError for a value that is not legal, or that needs more than one layer to
        change."""
        ...


FORMER_METHODS = {"beside": "companion", "open_kept": "load_saved"}


class Backend(Protocol):
    """One way from loops to something that runs."""

    name: str
    """What targets call it, by `backend` or as one of their `languages`."""
    title: str
    """What views call its source text: OpenCL C."""
    suffix: str
    """Of a file with its source, without the dot."""
    owns_threads: bool = False
    """Whether a program has as many threads as it is told. Otherwise they are its driver's, who
    takes all that the device has unless it is told to take fewer."""
    runs_snapshots: bool = False
    """Whether its programs are what snapshots below `top` are executed with, so that the program
    itself shows what is wrong with a memory plan."""
    builds_libraries: bool = False
    """Whether a kernel that is to be measured is a library that can be built somewhere else; it
    comes as `Opening.library`."""
    isolates: bool = False
    """Whether what `open` gives runs in a process of its own (`Opening.isolated`), so that it
    crashes and hangs alone. Others are measured in a child process that opens them."""
    runs_loops: bool = True
    """Whether what it compiles are kernels of loops, with schedules, in blocks of channels."""

    shares_memory: bool = False
    """Whether its programs run on this processor in the host's memory: nothing is sent to them."""

    shares_weights: bool = False
    """Whether its programs read weights where those of other programs lie (`build`)."""

    needs_host_program: bool = False
    """Whether a package has a program of the host that starts the kernels through a driver."""

    kept: SavedLanguage | None = None
    """How finished programs are kept; None where they are not."""

    # -- devices -----------------------------------------------------------------------------
    def device(self) -> DeviceRecord | None:
        """Where programs run; None for this processor. DeviceError where there is none."""
        return None

    def devices(self, time_limit_seconds: float) -> list[DeviceRecord]:
        """Those of this machine, tried out; `time_limit_seconds` for each trial."""
        return []

    def vector_floats(self, device: DeviceRecord | None, target: Target) -> int:
        """float32 in a vector of the device, where the target leaves it to the device."""
        from explorer.runtime.core_at_hand import lanes_at_hand

        return lanes_at_hand()

    def threads_on(self, device: DeviceRecord | None, threads: int) -> int | None:
        """How many threads a program is told to take, of those wanted; None where it takes all."""
        return threads

    def peaks(
        self, device: DeviceRecord | None, threads: int, processor: str = "native"
    ) -> Peaks | None:
        """What the device can do at best, measured; None where that is not known.

        `processor`: for which one the code is compiled that is to be compared with them.
        """
        return None

    @property
    def vector_widths(self) -> tuple[int, ...]:
        """Legal numbers of float32 in a vector."""
        from explorer.targets import VECTOR_FLOATS

        return tuple(width for width in VECTOR_FLOATS if width > 1)

    # -- compiling ---------------------------------------------------------------------------
    def before_placement(self) -> tuple[Pass, ...]:
        """Passes over `top` that bring programs into forms that its devices have more of."""
        return ()

    def capabilities(self, target: Target, lanes: int) -> Capabilities:
        """What rules of passes may use of the device, in vectors of so many float32."""
        from explorer.targets.capabilities import ORDINARY

        return ORDINARY

    def core(self, target: Target) -> KnownCore:
        """The core of a processor that its programs run on, and where each number is from."""
        from explorer.backends.cores import known_core

        return known_core(target)

    def executor(self, target: Target) -> Executor | None:
        """What executes snapshots below `top`; None: generated C, as befits kernels of loops."""
        return None

    def refusals(self, target: Target) -> Refuses | None:
        """What its device cannot do of what has a compiled form elsewhere; None: all of that can.

        Of an operation, with the weights of its program, why the host has to run it; empty where
        the device does. Equal targets give equal ones.
        """
        return None

    def needs(self, refuses: Refuses | None) -> Needs | None:
        """What its device has to run, too, where it runs an operation; None: nothing.

        `refuses` is what `refusals` gave, which may know what this depends on.
        """
        return None

    def companion(self, target: Target) -> Companion:
        """The target whose functions compute what `refusals` gives reasons for."""
        return Companion()

    def __init_subclass__(cls) -> None:
        """Backends of other packages may still define methods by their former names."""
        super().__init_subclass__()
        for former in FORMER_METHODS.keys() & vars(cls).keys():
            warn_renamed(f"{cls.__name__}.{former}", FORMER_METHODS[former])
            setattr(cls, FORMER_METHODS[former], vars(cls)[former])

    @abstractmethod
    def machine(self, target: Target, device: DeviceRecord | None, lanes: int) -> Machine:
        """What schedules ask for."""
        ...

    def passes(self, lowering: Lowering) -> tuple[Pass, ...]:
        """The passes behind placement, down to the memory plan: by default those of kernels."""
        from explorer.backends.kernel_path import kernel_passes

        machine = self.machine(lowering.target, lowering.device, lowering.lanes)
        return kernel_passes(lowering, machine)

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
        """A device function of the planned program, with its weights; names are its ports'.

        `block`: of weights of earlier programs, where the backend `shares_weights`.
        """
        from explorer.backends.kernel_path import build_planned

        named = (target.name, self.text, inputs, outputs)
        return build_planned(snapshot, function, plan, *named, block=block)

    def text(
        self,
        kernels: Mapping[str, FuncOp],
        launches: Sequence[Launch],
        size_offset: int | None = None,
        is_chained: bool = True,
    ) -> ProgramText:
        """What the device is given of kernels of loops, in order, and of their launches.

        By default they are printed in the language that has the backend's name. `size_offset`:
        where in the arena the size of an open dimension lies. `is_chained`: whether launches may
        be joined into one; not where a kernel is measured alone.
        """
        from explorer.kernels.program.build import printed_in

        return printed_in(self.name, is_chained)(kernels, launches, size_offset)

    def predicted_seconds(
        self, results: Sequence[PassResult], target: Target, device: DeviceRecord | None, lanes: int
    ) -> Mapping[str, float] | None:
        """Seconds of a run by operation, predicted of a compiled program; what is missing launches
        nothing. None where nothing is known of the device."""
        from explorer.backends.kernel_path import predicted_launches

        if not self.runs_loops or (device is not None and device.processor != "cpu"):
            return None
        return predicted_launches(results, self.core(target), target, device, lanes)

    def predicted_cycles(
        self, results: Sequence[PassResult], target: Target
    ) -> Mapping[str, int] | None:
        """Cycles of a run by operation, predicted of a compiled program; None where cycles are not
        counted."""
        return None

    def predicted_work(self, built: BuiltProgram) -> MachineWork | None:
        """What the parts of a program do on a machine of instructions; None elsewhere."""
        return None

    def model_of_choices(
        self, results: Sequence[PassResult], target: Target, decisions: Decisions
    ) -> ModelOfChoices | None:
        """What other choices for single layers change, known without compiling; None where nothing
        models that."""
        return None

    def emit(
        self, results: Sequence[PassResult], target: Target, folder: Path, base_bytes: int
    ) -> None:
        """Writes the program for who has the device, its memory from an address on."""
        raise InputError(
            f"{target.name} is not driven by instructions: there is nothing to emit",
            hint="`explorer package` writes C without Python; --dump-dir writes the source",
        )

    # -- running -----------------------------------------------------------------------------
    @abstractmethod
    def open(
        self, built: BuiltProgram, device: DeviceRecord | None, opening: Opening
    ) -> Executable:
        """The program on its device; the caller closes it."""
        ...

    def libraries_of(self, opened: Executable) -> Sequence[Path]:
        """Files with the machine code of what `open` gave; none where code is not on this side."""
        return ()

    def load_saved(self, found: Startable, opening: Opening) -> Executable:
        """The same of a finished program that was kept; only for what the cache keeps."""
        raise DeviceError(f"programs of the backend {self.name} are not kept")

    @abstractmethod
    def key(self, program: Program, device: DeviceRecord | None, name: str) -> ProgramKey:
        """What the program's binary depends on; raises BuildError where none can be built."""
        ...

    def counted(
        self, executables: Sequence[Executable], artifacts: Mapping[str, object]
    ) -> CountedRun | None:
        """What the machine counted in the last run of the parts that it runs; None elsewhere.

        `artifacts`: of the last pass.
        """
        return None

    def measured_on(self, device: DeviceRecord | None, threads: int) -> MeasuredOn | None:
        """What times of kernels hold for; None where there is nothing to measure with."""
        return None

    def disassemble(
        self, program: Program, functions: Sequence[str], device: DeviceRecord | None
    ) -> Disassembly:
        """What the device's compiler makes of the functions, or why that cannot be seen."""
        from explorer.runtime.assembly.functions import Disassembly

        return Disassembly("assembly", note=f"the backend {self.name} has no assembly")

    def assembly(
        self, program: Program, device: DeviceRecord | None = None
    ) -> dict[str, KernelAssembly]:
        """Every kernel's assembly by the kernel's name, linked to its source; or why there is none.

        Takes two compilations of the program.
        """
        from explorer.runtime.assembly import assemble

        return assemble(program, lambda names: self.disassemble(program, names, device))
