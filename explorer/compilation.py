"""A compilation: the pipeline, what every pass did, and everything that follows from it.

c = compile_model(load("digits_cnn.onnx"), target="cpu")
c.passes                      list of PassResult, the import first
c["fuse-activation"].diff     what one pass changed
c.run({"image": x})           outputs of the compiled program on its device
d = c.fork(disable=["fuse-activation"])     shares the passes before the first difference
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from explorer.accuracy.execution import execute_compiled
from explorer.errors import ExplorerError, InputError
from explorer.importers import SourceModel, to_top
from explorer.ir.passes import Pass, PassResult, Working, run_pass, verify_after
from explorer.ir.program import Snapshot
from explorer.ir.rewriting import Fuel, Names, RewriteOptions
from explorer.kernels.passes import KERNELS, LowerToLoops, ScheduleLoops
from explorer.kernels.program import BuiltProgram, build_program, host_ports
from explorer.kernels.schedules import Machine
from explorer.kernels.schedules.schedule import ScheduledKernel
from explorer.memory.planners import GreedyPlanner, Planner
from explorer.memory.planning import MEMORY, PlanMemory, value_offsets
from explorer.passes import top_pipeline
from explorer.passes.layout import AssignLayouts
from explorer.passes.lower import LowerToKernels
from explorer.passes.place import PlaceOnDevice
from explorer.results import MemoryPlan, ProfileRecord, Program, ScheduleStep
from explorer.runtime.devices import DeviceRecord, first_usable, list_devices
from explorer.runtime.executable import Executable
from explorer.runtime.native import NativeProgram
from explorer.runtime.opencl import OpenCLProgram
from explorer.runtime.processor import vector_floats
from explorer.targets import Target, load_target

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


def compile_model(
    model: SourceModel,
    target: str | Path | Target = "cpu",
    *,
    disable: Sequence[str] = (),
    decisions: Mapping[str, object] | None = None,
    fuel: int | None = None,
    dimensions: Mapping[str, int] | None = None,
    planner: Planner | None = None,
    budget_bytes: int | None = None,
    pipeline: Sequence[Pass] | None = None,
    progress: Progress | None = None,
) -> Compilation:
    """Compiles a model for a target; see `Settings` for the options.

    Raises ExplorerError where the model, an option or the target does not allow it.
    """
    settings = Settings(
        target if isinstance(target, Target) else load_target(target),
        tuple(disable),
        dict(decisions or {}),
        fuel,
        dict(dimensions or {}),
        planner or GreedyPlanner(),
        budget_bytes,
        None if pipeline is None else tuple(pipeline),
    )
    module, weights = to_top(model)
    verify_after("import", module)
    names = Names.of(module)
    first = Snapshot(module, weights, "top", execute_compiled)
    imported = PassResult(
        "import",
        f"The model as it is in its {model.format} file, in the operations of this compiler.",
        first,
        first,
        (),
        0.0,
        0.0,
        names,
    )
    return _continue(model, settings, [imported], progress)


def _continue(
    model: SourceModel,
    settings: Settings,
    done: list[PassResult],
    progress: Progress | None,
) -> Compilation:
    """Runs the passes of the pipeline that come after those already done."""
    device = _device_for(settings.target)
    pipeline = settings.pipeline or default_pipeline(settings, device)
    chosen = _without_disabled(pipeline, settings.disable)
    _check_decisions(settings.decisions, chosen)
    working = Working.at(done[-1].after, done[-1].names)
    fuel = Fuel(settings.fuel)
    results = list(done)
    for number, pass_ in enumerate(chosen[len(done) - 1 :], len(done) - 1):
        if progress is not None:
            progress(pass_.name, number, len(chosen))
        options = RewriteOptions(settings.decisions, Fuel() if pass_.is_required else fuel)
        results.append(run_pass(pass_, working, options))
    return Compilation(model, settings, device, chosen, results)


def _device_for(target: Target) -> DeviceRecord | None:
    """The OpenCL device that the program will run on; None for generated C."""
    if "opencl" not in target.languages:
        return None
    return first_usable(list_devices(), "opencl")


def _without_disabled(pipeline: Sequence[Pass], disable: Sequence[str]) -> tuple[Pass, ...]:
    names = [p.name for p in pipeline]
    for name in disable:
        if name not in names:
            raise InputError(f"there is no pass {name!r}", hint=_near(name, names))
        if any(p.name == name and p.is_required for p in pipeline):
            raise InputError(
                f"pass {name!r} cannot be disabled: what follows needs it",
                hint="disable one of " + ", ".join(p.name for p in pipeline if not p.is_required),
            )
    return tuple(p for p in pipeline if p.name not in disable)


def _check_decisions(decisions: Mapping[str, object], pipeline: Sequence[Pass]) -> None:
    names = [p.name for p in pipeline]
    for address in decisions:
        parts = address.split("/", 2)
        if len(parts) != 3 or parts[0] not in names:
            raise InputError(
                f"no decision has the address {address!r}",
                hint="addresses are pass/rule/operation; " + _near(parts[0], names),
            )


def _near(name: str, names: Sequence[str]) -> str:
    found = difflib.get_close_matches(name, names, 1)
    return f"did you mean {found[0]!r}?" if found else f"there are {', '.join(names)}"


class Compilation:
    """A model compiled for a target, pass by pass. Made by `compile_model`, never changed."""

    def __init__(
        self,
        model: SourceModel,
        settings: Settings,
        device: DeviceRecord | None,
        pipeline: tuple[Pass, ...],
        passes: list[PassResult],
        label: str = "",
    ):
        self.model = model
        self.settings = settings
        self.device = device
        self.pipeline = pipeline
        self.passes = passes
        self.label = label
        self._executable: Executable | None = None
        self._accuracy: dict[str, object] = {}

    # -- looking -----------------------------------------------------------------------------
    @property
    def target(self) -> Target:
        return self.settings.target

    @property
    def names(self) -> list[str]:
        """Names of the passes in order."""
        return [p.name for p in self.passes]

    def __getitem__(self, key: str | int) -> PassResult:
        """A pass result by name or index."""
        if isinstance(key, int):
            return self.passes[key]
        for result in self.passes:
            if result.name == key:
                return result
        raise InputError(f"there is no pass {key!r}", hint=_near(key, self.names))

    def __len__(self) -> int:
        return len(self.passes)

    @property
    def final(self) -> Snapshot:
        return self.passes[-1].after

    @cached_property
    def memory(self) -> MemoryPlan:
        """Where every activation lies."""
        plan = self._artifact(MEMORY)
        assert isinstance(plan, MemoryPlan)
        return plan

    @cached_property
    def schedule(self) -> dict[str, dict[str, int | str]]:
        """What was decided for every kernel: tile sizes and the like. Each is a decision."""
        return {name: dict(kernel.choices) for name, kernel in self._scheduled.items()}

    @cached_property
    def kernels(self):
        """Kernel records by name: definition, schedule ladder, source with line map."""
        return {k.name: k for k in self.program.kernels}

    @cached_property
    def program(self) -> Program:
        """What the device runs: source text, launches, ports, offsets."""
        return self.built.program

    @cached_property
    def built(self) -> BuiltProgram:
        inputs, outputs = self.port_names
        language = "opencl" if "opencl" in self.target.languages else "c"
        return build_program(
            self.final,
            value_offsets(self.memory),
            self.memory.peak_bytes,
            self.target.name,
            language,
            inputs,
            outputs,
            {name: ladder(kernel) for name, kernel in self._scheduled.items()},
        )

    @cached_property
    def port_names(self) -> tuple[list[str], list[str]]:
        """True names of the model's inputs and outputs, in the order of the program's ports."""
        return [i.name for i in self.model.inputs], [o.name for o in self.model.outputs]

    @property
    def _scheduled(self) -> dict[str, ScheduledKernel]:
        kernels = self._artifact(KERNELS)
        assert isinstance(kernels, dict)
        return kernels

    def _artifact(self, name: str) -> object:
        for result in reversed(self.passes):
            if name in result.artifacts:
                return result.artifacts[name]
        raise InputError(f"no pass of this pipeline makes {name}", hint="use the default pipeline")

    # -- running -----------------------------------------------------------------------------
    @property
    def executable(self) -> Executable:
        """The program on its device, built when first asked for."""
        if self._executable is None:
            self._executable = self.open()
        return self._executable

    def open(self, threads: int = 1, isolated: bool = True) -> Executable:
        """Builds the program for its device; the caller closes it."""
        if "opencl" in self.target.languages:
            assert self.device is not None
            return OpenCLProgram(self.built.program, self.built.weights, self.device)
        return NativeProgram(self.built.program, self.built.weights, isolated, threads)

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Outputs by name, computed on the device."""
        return self.executable.run(inputs)

    def profile(
        self, inputs: Mapping[str, np.ndarray] | None = None, repeats: int = 20, threads: int = 1
    ) -> ProfileRecord:
        """Median time of every launch and of the whole, on the device."""
        chosen = inputs if inputs is not None else self.example_inputs()
        with self.open(threads) as executable:
            return executable.profile(chosen, repeats)

    def example_inputs(self, seed: int = 0) -> dict[str, np.ndarray]:
        """Seeded random inputs that fit the compiled shapes."""
        from explorer.accuracy.oracle import random_inputs

        return random_inputs(self.model, seed, self.bound_dimensions)

    @cached_property
    def bound_dimensions(self) -> dict[str, int]:
        """The size that every symbolic dimension was given."""
        sizes: dict[str, int] = dict(self.settings.dimensions)
        for port, declared in zip(self.program.inputs, self.model.inputs, strict=True):
            for dim, size in zip(declared.shape, port.shape, strict=True):
                if isinstance(dim, str):
                    sizes.setdefault(dim, size)
        return sizes

    # -- trusting ----------------------------------------------------------------------------
    def accuracy(
        self, inputs: Mapping[str, np.ndarray] | None = None, tolerance: float = 1e-4, **options
    ):
        """Executes the IR after every pass and the binary, and compares with the source model."""
        from explorer.accuracy.comparison import compare_compilation

        return compare_compilation(self, inputs, tolerance, **options)

    # -- changing ----------------------------------------------------------------------------
    def fork(
        self,
        *,
        target: str | Path | Target | None = None,
        disable: Sequence[str] | None = None,
        decisions: Mapping[str, object] | None = None,
        label: str = "",
        progress: Progress | None = None,
        **changes: object,
    ) -> Compilation:
        """Another compilation of the same model in which some settings differ.

        `disable` and `decisions` add to this one's; the other `Settings` replace. Passes before
        the first difference are shared, not run again.
        """
        settings = self.settings
        if target is not None:
            chosen = target if isinstance(target, Target) else load_target(target)
            settings = replace(settings, target=chosen)
        if disable is not None:
            settings = replace(settings, disable=(*settings.disable, *disable))
        if decisions is not None:
            settings = replace(settings, decisions={**settings.decisions, **decisions})
        try:
            settings = replace(settings, **changes)  # pyright: ignore[reportArgumentType]
        except TypeError as error:
            raise InputError(
                f"unknown option: {error}",
                hint="the options are " + ", ".join(f for f in Settings.__dataclass_fields__),
            ) from None
        shared = self._shared_prefix(settings)
        forked = _continue(self.model, settings, self.passes[: shared + 1], progress)
        forked.label = label or _describe_fork(self.settings, settings)
        return forked

    def _shared_prefix(self, settings: Settings) -> int:
        """How many passes of this compilation a fork can keep."""
        if settings.fuel != self.settings.fuel:
            return 0
        device = _device_for(settings.target)
        pipeline = settings.pipeline or default_pipeline(settings, device)
        theirs = _without_disabled(pipeline, settings.disable)
        touched = {
            address.split("/", 1)[0]
            for address in {*settings.decisions, *self.settings.decisions}
            if settings.decisions.get(address) != self.settings.decisions.get(address)
        }
        for number, (mine, other) in enumerate(zip(self.pipeline, theirs, strict=False)):
            if mine != other or mine.name in touched:
                return number
        return min(len(self.pipeline), len(theirs))

    def continue_from(self, result: PassResult | str, text: str) -> Compilation:
        """Compilation continued from edited IR text of the snapshot after a pass."""
        from explorer.ir.printing import parse

        chosen = self[result] if isinstance(result, str) else result
        index = self.passes.index(chosen)
        module = parse(text)
        edited = Snapshot(module, chosen.after.weights, chosen.after.level, execute_compiled)
        done = [
            *self.passes[:index],
            PassResult(
                chosen.name,
                f"{chosen.description} (edited by hand)",
                chosen.before,
                edited,
                (),
                0.0,
                0.0,
                Names.of(module),
            ),
        ]
        return _continue(self.model, self.settings, done, None)

    def decisions(self) -> dict[str, object]:
        """Every decision by its address with its value: giving them back replays this program."""
        made: dict[str, object] = {}
        for result in self.passes:
            for rewrite in result.rewrites:
                made[rewrite.address] = rewrite.applied
        for kernel, choices in self.schedule.items():
            for choice, value in choices.items():
                made[f"{ScheduleLoops.name}/{kernel}/{choice}"] = value
        return made

    # -- keeping -----------------------------------------------------------------------------
    def close(self) -> None:
        """Gives the device's memory and processes back."""
        if self._executable is not None:
            self._executable.close()
            self._executable = None

    def __str__(self) -> str:
        lines = [f"{self.model.name} for {self.target.name}"]
        for result in self.passes:
            changed = len([r for r in result.rewrites if r.applied])
            note = f"{changed} rewrites" if result.changed else "unchanged"
            lines.append(f"  {result.name:36} {result.after.operation_count:5} operations   {note}")
        return "\n".join(lines)


def ladder(kernel: ScheduledKernel) -> tuple[ScheduleStep, ...]:
    """The schedule's steps as records, each with the loop nest after it as text."""
    from explorer.ir.printing import show

    return tuple(
        ScheduleStep(
            step.name,
            step.arguments,
            show(step.function, tags_by_location=True),
            sum(1 for _ in step.function.walk()) - 1,
        )
        for step in kernel.steps
    )


def _describe_fork(old: Settings, new: Settings) -> str:
    parts = [f"without {name}" for name in new.disable if name not in old.disable]
    parts += [
        f"{address} = {json.dumps(value)}"
        for address, value in new.decisions.items()
        if old.decisions.get(address) != value
    ]
    if new.target != old.target:
        parts.append(f"for {new.target.name}")
    if new.budget_bytes != old.budget_bytes:
        parts.append(f"budget {new.budget_bytes} bytes")
    return ", ".join(parts) or "fork"


__all__ = [
    "Compilation",
    "ExplorerError",
    "Settings",
    "compile_model",
    "default_pipeline",
    "host_ports",
    "ladder",
]
