"""A compilation: the pipeline, what every pass did, and everything that follows from it.

c = compile_model(load("digits_cnn.onnx"), target="cpu")
c.passes                      list of PassResult, the import first
c["fuse-activation"].diff     what one pass changed
c.run({"image": x})           outputs of the compiled program on its device
d = c.fork(disable=["fuse-activation"])     shares the passes before the first difference
d = c.insert(MyRule, after="fuse-bias")     a rule of one's own in the pipeline
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from explorer.accuracy.execution import execute_compiled
from explorer.accuracy.oracle import random_inputs
from explorer.compilation.checking import Accuracy, check
from explorer.compilation.collection import paused_collection
from explorer.compilation.comparing import Comparison
from explorer.compilation.frames import CODE_KINDS, to_frame
from explorer.compilation.inserting import (
    Insertable,
    Insertion,
    make_insertion,
    what_happened,
    with_insertions,
)
from explorer.compilation.ladders import Ladder, measure_ladder
from explorer.compilation.rule_sources import text_of
from explorer.compilation.saving import save
from explorer.compilation.settings import (
    Progress,
    Settings,
    check_decisions,
    default_pipeline,
    device_for,
    near_name,
    without_disabled,
)
from explorer.compilation.tracing import ladder, make_trace, with_assembly
from explorer.errors import ExplorerError, InputError, PassError, UnsupportedError
from explorer.importers import SourceModel, to_top
from explorer.importers.model import bind_dimensions
from explorer.ir.passes import Pass, PassResult, RulePass, Working, run_pass
from explorer.ir.printing import parse
from explorer.ir.program import Snapshot
from explorer.ir.rewriting import Fuel, Names, RewriteOptions
from explorer.ir.structure import device_of, functions
from explorer.ir.weights import Weights
from explorer.kernels.passes import KERNELS, ScheduleLoops
from explorer.kernels.program import BuiltProgram, build_program
from explorer.kernels.schedules.schedule import ScheduledKernel
from explorer.memory.planners import GreedyPlanner, Planner
from explorer.memory.planning import MEMORY, plan_as_written, value_offsets
from explorer.results import KernelRecord, MemoryPlan, ProfileRecord, Program, SourceText, Trace
from explorer.runtime.devices import DeviceRecord
from explorer.runtime.executable import Executable
from explorer.runtime.native import NativeProgram
from explorer.runtime.opencl import OpenCLProgram
from explorer.targets import Target, load_target


@paused_collection()
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
        bind_dimensions(model, dimensions or {}),
        planner or GreedyPlanner(),
        budget_bytes,
        None if pipeline is None else tuple(pipeline),
    )
    note, (module, weights) = _import(model, settings.dimensions)
    names = Names.of(module)
    first = Snapshot(module, weights, "top", execute_compiled)
    imported = PassResult(
        "import",
        f"The model as it is in its {model.format} file, in the operations of this compiler{note}.",
        first,
        first,
        (),
        0.0,
        0.0,
        names,
    )
    return _continue(model, settings, [imported], progress)


def _import(
    model: SourceModel, dimensions: Mapping[str, int]
) -> tuple[str, tuple[ModuleOp, Weights]]:
    """The imported program, with symbolic dimensions where the importer can keep them.

    Some models compute ranks and windows from their dimensions: those are imported at the sizes
    that the compilation binds anyway, and the note says so.
    """
    try:
        return "", to_top(model)
    except UnsupportedError:
        if not dimensions:
            raise
        sizes = ", ".join(f"{name} = {size}" for name, size in dimensions.items())
        return f" (imported at {sizes})", to_top(model, dimensions)


@paused_collection()
def _continue(
    model: SourceModel,
    settings: Settings,
    done: list[PassResult],
    progress: Progress | None,
    inserted: tuple[Insertion, ...] = (),
) -> Compilation:
    """Runs the passes of the pipeline that come after those already done."""
    device = device_for(settings.target)
    chosen = without_disabled(_pipeline(settings, device, inserted), settings.disable)
    check_decisions(settings.decisions, chosen)
    working = Working.at(done[-1].after, done[-1].names)
    fuel = Fuel(None if settings.fuel is None else settings.fuel - _spent_fuel(done, chosen))
    results = list(done)
    for number, pass_ in enumerate(chosen[len(done) - 1 :], len(done) - 1):
        if progress is not None:
            progress(pass_.name, number, len(chosen))
        options = RewriteOptions(settings.decisions, Fuel() if pass_.is_required else fuel)
        results.append(run_pass(pass_, working, options))
    return Compilation(model, settings, device, chosen, results, inserted=inserted)


def _pipeline(
    settings: Settings, device: DeviceRecord | None, inserted: Sequence[Insertion]
) -> tuple[Pass, ...]:
    """The given passes or the target's, and what was inserted; disabled ones included."""
    return with_insertions(settings.pipeline or default_pipeline(settings, device), inserted)


def _spent_fuel(done: Sequence[PassResult], pipeline: Sequence[Pass]) -> int:
    """Rewrites that optional passes have done already: a fork goes on with what is left."""
    return sum(
        rewrite.applied
        for result, pass_ in zip(done[1:], pipeline, strict=False)
        if not pass_.is_required
        for rewrite in result.rewrites
    )


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
        inserted: tuple[Insertion, ...] = (),
    ):
        self.model = model
        self.settings = settings
        self.device = device
        self.inserted = inserted
        self.pipeline = pipeline
        self.passes = passes
        self.label = label
        self._executable: Executable | None = None
        self._accuracy: Accuracy | None = None
        self._profile: ProfileRecord | None = None
        self._assembled: dict[str, KernelRecord] | None = None

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
        raise InputError(f"there is no pass {key!r}", hint=near_name(key, self.names))

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

    @property
    def kernels(self) -> dict[str, KernelRecord]:
        """Kernel records by name: the schedule's ladder, source with line map, phases.

        Their assembly is there once `assembly()` was called.
        """
        return self._printed if self._assembled is None else self._assembled

    def assembly(self) -> dict[str, KernelRecord]:
        """The kernels with what the device's compiler makes of them, line by line.

        Takes two compilations of the program. Where there is no assembly to be had, a record's
        `assembly_note` says why.
        """
        if self._assembled is None:
            self._assembled = with_assembly(self._printed, self.program, self.device)
        return self._assembled

    @cached_property
    def _printed(self) -> dict[str, KernelRecord]:
        return {
            k.name: replace(k, steps=ladder(self._scheduled[k.name])) for k in self.program.kernels
        }

    def measure_ladder(self, kernel: str, repeats: int = 5) -> Ladder:
        """Speed of a kernel after every step of its schedule, each step built as C and timed.

        Takes about half a second per step. On this processor, whatever the target is.
        """
        if kernel not in self._scheduled:
            raise InputError(
                f"there is no kernel {kernel!r}", hint=near_name(kernel, list(self._scheduled))
            )
        return measure_ladder(self._scheduled[kernel], repeats)

    def rule_source(self, rule: str) -> SourceText:
        """The Python text of a rule by its name, also of one that was written in a notebook."""
        rules = {r().name: r for p in self.pipeline if isinstance(p, RulePass) for r in p.rules}
        if rule not in rules:
            raise InputError(f"there is no rule {rule!r}", hint=near_name(rule, list(rules)))
        return text_of(rules[rule])

    @cached_property
    def program(self) -> Program:
        """What the device runs: source text, launches, ports, offsets."""
        return self.built.program

    @cached_property
    @paused_collection()
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
            self._profile = executable.profile(chosen, repeats)
        return self._profile

    def example_inputs(self, seed: int = 0) -> dict[str, np.ndarray]:
        """Seeded random inputs that fit the compiled shapes."""
        return random_inputs(self.model, seed, self.settings.dimensions)

    # -- trusting ----------------------------------------------------------------------------
    def accuracy(
        self,
        inputs: Mapping[str, np.ndarray] | None = None,
        tolerance: float = 1e-4,
        progress: Progress | None = None,
    ) -> Accuracy:
        """Executes the IR after every pass and the binary, and compares with the source model.

        Without inputs, seeded random ones. The result has `.report`, `.passed` and `.bisect()`.
        """
        self._accuracy = check(self, inputs, tolerance, progress)
        return self._accuracy

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
        description = label or _describe_fork(self.settings, settings)
        return self._branch(settings, self.inserted, description, progress)

    def insert(
        self,
        what: Insertable,
        after: str,
        *,
        name: str = "",
        label: str = "",
        progress: Progress | None = None,
    ) -> Compilation:
        """A fork with a pass of one's own behind the pass `after` ("import" for the first place).

        `what` is a class derived from Rule (or several), which becomes a pass called after it
        (`MergeRelus` -> `merge-relus`), or a pass. Raises PassError, naming pass and operation,
        where it fails or leaves an invalid program behind; this compilation stays as it is.
        Whether the numbers are still right is for `accuracy()` to say.
        """
        pipeline = _pipeline(self.settings, self.device, self.inserted)
        insertion = make_insertion(what, after, name, pipeline)
        inserted, added = (*self.inserted, insertion), insertion.pass_.name
        try:
            return self._branch(
                self.settings, inserted, label or f"with {added} after {after}", progress
            )
        except ExplorerError:
            raise
        except Exception as error:  # the inserted pass is guarded: a later one fails on its result
            raise PassError(
                what_happened("a pass that follows", error),
                pass_name=added,
                hint="look at what it makes; without it that pass works",
            ) from error

    def _branch(
        self,
        settings: Settings,
        inserted: tuple[Insertion, ...],
        label: str,
        progress: Progress | None,
    ) -> Compilation:
        shared = self._shared_prefix(settings, inserted)
        forked = _continue(self.model, settings, self.passes[: shared + 1], progress, inserted)
        forked.label = label
        return forked

    def _shared_prefix(self, settings: Settings, inserted: tuple[Insertion, ...]) -> int:
        """How many passes of this compilation a fork can keep."""
        if settings.fuel != self.settings.fuel:
            return 0
        device = device_for(settings.target)
        theirs = without_disabled(_pipeline(settings, device, inserted), settings.disable)
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
        """Compilation continued from edited IR text of the snapshot after a pass.

        What the pass made besides the IR stays as it was; addresses are those in the text.
        """
        chosen = self[result] if isinstance(result, str) else result
        index = self.passes.index(chosen)
        module = parse(text)
        edited = Snapshot(module, chosen.after.weights, chosen.after.level, execute_compiled)
        artifacts = dict(chosen.artifacts)
        plan = artifacts.get(MEMORY)
        if isinstance(plan, MemoryPlan):
            (function,) = [f for f in functions(module) if device_of(f) != "host"]
            artifacts[MEMORY] = plan_as_written(function, edited.kernels, plan)
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
                chosen.names.including(module),
                artifacts,
            ),
        ]
        return _continue(self.model, self.settings, done, None, self.inserted)

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
    def trace(self, with_code: bool = True, with_assembly: bool = False) -> Trace:
        """Everything that is known, as plain data; what was not measured is None.

        Without code, kernels and program are left out: enough for tables, and quick. With
        assembly, that is made first if it wasn't yet.
        """
        if with_assembly:
            self.assembly()
        report = self._accuracy.report if self._accuracy else None
        return make_trace(self, report, self._profile, with_code)

    def to_frame(self, kind: str) -> Any:  # a pandas.DataFrame or a frames.Table
        """A table of `passes`, `events`, `layers`, `buffers` or `kernels`.

        A pandas.DataFrame where pandas is installed, else a `frames.Table`.
        """
        return to_frame(self.trace(with_code=kind in CODE_KINDS), kind)

    def compare(self, other: Compilation) -> Comparison:
        """This branch and another side by side."""
        left, right = (
            replace(branch.trace(with_code=False), kernels=branch.program.kernels)
            for branch in (self, other)
        )
        return Comparison(left, right)

    def save(self, path: str | Path) -> Path:
        """Writes one `.nnx` file that `explorer.open` reads without a compiler or a device."""
        return save(self, path)

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
