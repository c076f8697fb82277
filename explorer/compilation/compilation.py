"""A compilation: the pipeline, what every pass did, and everything that follows from it.

c = compile_model(load("digits_cnn.onnx"), target="cpu")
c.passes                      list of PassResult, the import first
c["fuse-activation"].diff     what one pass changed
c.run({"image": x})           outputs of the compiled program on its device
d = c.fork(disable=["fuse-activation"])     shares the passes before the first difference
d = c.insert(MyRule, after="fuse-bias")     a rule of one's own in the pipeline
c.compare(d)                                where they part, and what it costs
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects.func import FuncOp

from explorer.accuracy.indices import indexing_operations, outside_indices, require_inside
from explorer.accuracy.oracle import random_inputs
from explorer.compilation.at_sizes import is_smaller
from explorer.compilation.checking import Accuracy, check
from explorer.compilation.collection import paused_collection
from explorer.compilation.comparing import Comparison
from explorer.compilation.continuing import edit_by_hand
from explorer.compilation.costs import machine_for
from explorer.compilation.forking import (
    KEEP,
    Changes,
    Keep,
    Layouts,
    Schedules,
    Scope,
    TargetChoice,
    changed,
    describe,
)
from explorer.compilation.frames import CODE_KINDS, to_frame
from explorer.compilation.inserting import Insertable, make_insertion
from explorer.compilation.knobs import knobs_of
from explorer.compilation.ladders import Ladder, measure_ladder
from explorer.compilation.opened import operator_records
from explorer.compilation.pipelines import near_name
from explorer.compilation.programs import keys_of
from explorer.compilation.rule_sources import text_of
from explorer.compilation.running import Run, run
from explorer.compilation.saving import save
from explorer.compilation.settings import (
    Progress,
    Settings,
    default_pipeline,
    device_for,
    machine_lanes,
)
from explorer.compilation.sized import run_for_sizes
from explorer.compilation.sizes import Size, chosen_sizes
from explorer.compilation.tracing import ladder, make_trace, schedule_calls, with_assembly
from explorer.errors import InputError
from explorer.importers import SourceModel, program_inputs
from explorer.ir.calls import device_functions
from explorer.ir.constraints import constraints_of
from explorer.ir.evaluation import entry_function, input_names, output_names
from explorer.ir.host_functions import HostFunction
from explorer.ir.passes import Pass, PassResult, RulePass
from explorer.ir.program import Snapshot
from explorer.ir.rewriting import Rule
from explorer.kernels.cost import estimate
from explorer.kernels.parts import build_parts
from explorer.kernels.passes import KERNELS, ScheduleLoops
from explorer.kernels.program import BuiltProgram, build_program
from explorer.kernels.schedules.schedule import ScheduledKernel
from explorer.memory.planners import Planner
from explorer.memory.planning import MEMORY, plans_of, value_offsets
from explorer.results import (
    ConstraintRecord,
    CostEstimate,
    KernelRecord,
    KernelSearch,
    Knob,
    MemoryPlan,
    OperatorRecord,
    OutsideIndex,
    ProfileRecord,
    Program,
    ProgramLookup,
    RuleRecord,
    SourceText,
    Trace,
)
from explorer.runtime.cache import ProgramCache, default_cache
from explorer.runtime.executable import Executable
from explorer.runtime.native import NativeProgram
from explorer.runtime.parts import open_parts
from explorer.runtime.roofline import with_peaks_of
from explorer.targets import Target, load_target


def compile_model(
    model: SourceModel,
    target: str | Path | Target = "cpu",
    *,
    disable: Sequence[str] = (),
    decisions: Mapping[str, object] | None = None,
    fuel: int | None = None,
    dimensions: Mapping[str, Size] | None = None,
    planner: Planner | str | None = None,
    budget_bytes: int | None = None,
    pipeline: Sequence[Pass] | None = None,
    tuned: bool = True,
    tuned_threads: int = 1,
    host: bool = True,
    progress: Progress | None = None,
) -> Compilation:
    """Compiles a model for a target; see `Settings` for the options, `Changes` for `decisions`.

    Raises ExplorerError where the model, an option or the target does not allow it.
    """
    sizes, open_range = chosen_sizes(model, dimensions or {})
    plain = Settings(
        target if isinstance(target, Target) else load_target(target),
        dimensions=sizes,
        open_range=open_range,
        pipeline=None if pipeline is None else tuple(pipeline),
        tuned=tuned,
        tuned_threads=tuned_threads,
        host=host,
    )
    changes = Changes(
        disable=disable,
        decisions=decisions,
        fuel=fuel,
        planner=planner,
        budget_bytes=budget_bytes,
    )
    scope = Scope(model, plain.pipeline or default_pipeline(plain, device_for(plain.target)))
    compilation = Compilation(model, run(model, changed(plain, changes, scope), None, progress))
    compilation._require_met(plain)
    return compilation


class Compilation:
    """A model compiled for a target, pass by pass. Made by `compile_model`, never changed."""

    def __init__(self, model: SourceModel, run: Run, label: str = ""):
        self.model = model
        self.settings = run.settings
        self.device = run.device
        self.pipeline = run.pipeline
        self.passes = list(run.results)
        self.label = label
        self._run = run
        self._executable: Executable | None = None
        self._accuracy: Accuracy | None = None
        self._profile: ProfileRecord | None = None
        self._assembled: dict[str, KernelRecord] | None = None
        self._caches: list[ProgramCache] = []
        self._searches: dict[str, KernelSearch] = {}

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
    def source(self) -> Snapshot:
        """The model as it is, node by node: the program before the first pass."""
        return self.passes[0].before

    @cached_property
    def operators(self) -> tuple[OperatorRecord, ...]:
        """The model's operators, family by family, with what the import made of them."""
        return operator_records(self.source, self.passes[0].rewrites)

    @property
    def final(self) -> Snapshot:
        return self.passes[-1].after

    @cached_property
    def memory(self) -> MemoryPlan:
        """Where every activation lies; the arenas of several device functions side by side."""
        plan = self._artifact(MEMORY)
        assert isinstance(plan, MemoryPlan)
        return plan

    @cached_property
    def plans(self) -> dict[str, MemoryPlan]:
        """The memory plan of every device function by the function's name."""
        result = next((r for r in reversed(self.passes) if MEMORY in r.artifacts), None)
        return {} if result is None else plans_of(result.artifacts, result.after.program)

    @cached_property
    def knobs(self) -> tuple[Knob, ...]:
        """What may be decided otherwise: address, value, legal values and the reason.

        `fork(decisions={knob.address: value})` takes each. Single rewrites have addresses, too:
        see `decisions()` and the events of the passes.
        """
        return knobs_of(self._run)

    @cached_property
    def constraints(self) -> tuple[ConstraintRecord, ...]:
        """What the model asks of its symbolic dimensions; `to_frame("constraints")` is the table.

        Empty where it has none, or could only be imported at given sizes.
        """
        entry = entry_function(self.passes[0].after.program)
        return tuple(
            ConstraintRecord(c.text, c.kind, c.operation, c.nodes) for c in constraints_of(entry)
        )

    @property
    def unmet(self) -> tuple[str, ...]:
        """Overrides that decided nothing: no operation or kernel of that name was there."""
        return self._run.unmet

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
            k.name: replace(
                k,
                steps=ladder(self._scheduled[k.name]),
                calls=schedule_calls(self._scheduled[k.name]),
            )
            for k in self.program.kernels
        }

    def cost(self, kernel: str, threads: int = 1) -> CostEstimate:
        """The time of one launch that the cost model predicts, with the terms that it is made of.

        A model of a processor: of GPUs it knows nothing.
        """
        scheduled = self._scheduled_kernel(kernel)
        lanes = machine_lanes(self.target, self.device)
        return estimate(scheduled.function, machine_for(self.target, lanes, threads))

    def measure_ladder(self, kernel: str, repeats: int = 5) -> Ladder:
        """Speed of a kernel after every step of its schedule, each step built as C and timed.

        Takes about half a second per step. On this processor, whatever the target is.
        """
        return measure_ladder(self._scheduled_kernel(kernel), repeats)

    def _scheduled_kernel(self, name: str) -> ScheduledKernel:
        if name not in self._scheduled:
            raise InputError(
                f"there is no kernel {name!r}", hint=near_name(name, list(self._scheduled))
            )
        return self._scheduled[name]

    def rule_source(self, rule: str) -> SourceText:
        """The Python text of a rule by its name, also of one that was written in a notebook."""
        if rule not in self._rules:
            raise InputError(f"there is no rule {rule!r}", hint=near_name(rule, list(self._rules)))
        return text_of(self._rules[rule])

    @cached_property
    def rule_records(self) -> tuple[RuleRecord, ...]:
        """The texts of the rules that fired or declined somewhere."""
        used = dict.fromkeys(event.rule for r in self.passes for event in r.record.events)
        return tuple(RuleRecord(n, text_of(self._rules[n])) for n in used if n in self._rules)

    @cached_property
    def _rules(self) -> dict[str, type[Rule]]:
        return {r().name: r for p in self.pipeline if isinstance(p, RulePass) for r in p.rules}

    @cached_property
    def program(self) -> Program:
        """What the device runs: source text, launches, ports, offsets."""
        return self.built.program

    @cached_property
    @paused_collection()
    def built(self) -> BuiltProgram:
        language = "opencl" if "opencl" in self.target.languages else "c"

        def build(function: FuncOp, inputs: Sequence[str], outputs: Sequence[str]) -> BuiltProgram:
            plan = self.plans[function.sym_name.data]
            return build_program(
                self.final,
                value_offsets(plan),
                plan.peak_bytes,
                self.target.name,
                language,
                inputs,
                outputs,
                function=function,
            )

        return build_parts(self.final, self.target.name, build, *self.port_names)

    @cached_property
    def port_names(self) -> tuple[list[str], list[str]]:
        """True names of the model's inputs and outputs, in the order of the program's ports."""
        entry = entry_function(self.passes[0].after.program)
        return list(input_names(entry)), list(output_names(entry))

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

    def open(
        self,
        threads: int | None = None,
        isolated: bool = True,
        *,
        affinity: Sequence[int] = (),
        cache: ProgramCache | None = None,
    ) -> Executable:
        """Builds the program for its device, or takes it from the cache; the caller closes it.

        threads: of the processor, one by default; on an OpenCL device all that it has by default,
        and fewer only where it is a processor. `isolated` runs C in a process of its own.
        affinity: a processor for each thread, the caller's first (docs/threads.md).
        `cache`: of compiled programs, by default the one that EXPLORER_CACHE names.
        """
        cache = default_cache() if cache is None else cache
        if "opencl" in self.target.languages and affinity:
            raise InputError("affinity: an OpenCL driver has its own threads")

        def open_part(built: BuiltProgram) -> Executable:
            if "opencl" not in self.target.languages:
                return NativeProgram(
                    built.program,
                    built.weights,
                    isolated,
                    threads or 1,
                    affinity=affinity,
                    name=self.model.name,
                    cache=cache,
                )
            assert self.device is not None
            # Only here: pyopencl takes as long to import as a small model to compile.
            from explorer.runtime.opencl import OpenCLProgram

            return OpenCLProgram(
                built.program,
                built.weights,
                self.device,
                compute_units=threads,
                name=self.model.name,
                cache=cache,
            )

        def compile_for(host: HostFunction, arguments: Sequence[np.ndarray]) -> Executable:
            sized = Compilation(self.model, run_for_sizes(host, arguments, self._run))
            return sized.open(threads, isolated, affinity=affinity, cache=cache)

        executable = open_parts(self.built, open_part, compile_for)
        if not any(cache is known for known in self._caches):
            self._caches.append(cache)
        return executable

    @property
    def lookups(self) -> tuple[ProgramLookup, ...]:
        """Where the program's binary came from, each time that it was opened, and why."""
        if not self._caches:
            return ()
        digests = {key.digest() for key in keys_of(self)}
        return tuple(
            found for cache in self._caches for found in cache.looked if found.digest in digests
        )

    @property
    def searches(self) -> tuple[KernelSearch, ...]:
        """What searches for schedules tried on this compilation, the last one of each kernel."""
        return tuple(self._searches.values())

    def remember(self, search: KernelSearch) -> None:
        """Keeps what a search found, so that a trace of this compilation shows it."""
        self._searches[search.kernel] = search

    def run(
        self, inputs: Mapping[str, np.ndarray], check_indices: bool = False
    ) -> dict[str, np.ndarray]:
        """Outputs by name, computed on the device.

        check_indices: InputError where an index that data decided lies outside of what it indexes;
        without it, such an index is clamped. The check runs the program once more, on the host.
        """
        if any(array.dtype.kind in "OUS" for array in map(np.asarray, inputs.values())):
            inputs = program_inputs(self.model, inputs, self.settings.dimensions)
        if check_indices:
            require_inside(self.outside_indices(inputs))
        return self.executable.run(inputs)

    def outside_indices(
        self, inputs: Mapping[str, np.ndarray] | None = None
    ) -> tuple[OutsideIndex, ...]:
        """Indices that data decided and that lie outside of what they index, for these inputs.

        Without inputs, seeded random ones.
        """
        chosen = inputs if inputs is not None else self.example_inputs()
        top = next(r.after for r in reversed(self.passes) if r.after.level == "top")
        if not indexing_operations(top):
            return ()
        if is_smaller(self, chosen):  # than the sizes that the snapshots have
            imported = self.passes[0].after
            return outside_indices(imported, imported.run(chosen))
        return outside_indices(top, self.final.run(chosen))

    def profile(
        self,
        inputs: Mapping[str, np.ndarray] | None = None,
        repeats: int = 20,
        threads: int | None = None,
        with_peaks: bool = False,
    ) -> ProfileRecord:
        """Median time of every launch and of the whole, on the device; threads as in `open`.

        With peaks, the device's best multiply-adds and bytes per second are measured too, the
        lines of a roofline, which takes some seconds.
        """
        chosen = inputs if inputs is not None else self.example_inputs()
        with self.open(threads) as executable:
            profile = executable.profile(chosen, repeats)
        self._profile = with_peaks_of(self.device, profile) if with_peaks else profile
        return self._profile

    def example_inputs(
        self, seed: int = 0, dimensions: Mapping[str, int] | None = None
    ) -> dict[str, np.ndarray]:
        """Seeded random inputs that fit the compiled shapes: the largest, unless sizes are given.

        Other sizes fit a program for a range only.
        """
        return random_inputs(self.model, seed, {**self.settings.dimensions, **(dimensions or {})})

    # -- trusting ----------------------------------------------------------------------------
    def accuracy(
        self,
        inputs: Mapping[str, np.ndarray] | None = None,
        tolerance: float = 1e-4,
        progress: Progress | None = None,
        golden: Mapping[str, np.ndarray] | None = None,
    ) -> Accuracy:
        """Executes the IR after every pass and the binary, and compares with the source model.

        Without inputs, seeded random ones. `golden`: tensors by name to compare with instead of
        onnxruntime's; an empty one stands for the imported program's. The result has `.report`,
        `.passed` and `.bisect()`.
        """
        self._accuracy = check(self, inputs, tolerance, progress, golden)
        return self._accuracy

    # -- changing ----------------------------------------------------------------------------
    def fork(
        self,
        *,
        target: TargetChoice | None = None,
        enable: Sequence[str] = (),
        disable: Sequence[str] = (),
        order: Sequence[str] = (),
        pipeline: Sequence[Pass | str] | Keep | None = KEEP,
        decisions: Mapping[str, object] | None = None,
        schedule: Schedules | None = None,
        layout: Layouts | Keep = KEEP,
        planner: Planner | str | None = None,
        budget_bytes: int | Keep | None = KEEP,
        dimensions: Mapping[str, Size] | None = None,
        fuel: int | Keep | None = KEEP,
        host: bool | None = None,
        label: str = "",
        progress: Progress | None = None,
        **unknown: object,
    ) -> Compilation:
        """Another compilation of the same model in which something is decided otherwise.

        Passes before the first difference are shared, not run again. What is not named stays as
        it is here.

        target: a name, a file, a Target, or fields with other values ({"vector_floats": 8}).
        enable, disable: passes, rules ("fuse-activation/fuse-unary") or single rewrites (an
        event's address). order: passes that change places among themselves. pipeline: passes of
        one's own, or the names of those to run, in their order; None for the target's.
        decisions: values by address, of `knobs` and events; None takes one back. schedule: by
        kernel, choices ({"pixels": 7}), or a whole list of steps like `kernels[name].schedule`;
        None takes all of a kernel back. layout: "plain",
        "vector" or channels per block, of everything or by function or value. planner: a planner
        or its name. budget_bytes, fuel: None for no limit. dimensions: sizes by name, or a pair
        (lowest, highest) for a range. host: whether the host runs what has no compiled form.

        Raises InputError for what is unknown or not legal, and says what would be.
        """
        if unknown:
            name = next(iter(unknown))
            options = list(Changes.__dataclass_fields__)
            raise InputError(f"fork has no option {name!r}", hint=near_name(name, options))
        changes = Changes(
            target,
            enable,
            disable,
            order,
            pipeline,
            decisions,
            layout,
            planner,
            budget_bytes,
            dimensions,
            fuel,
            schedule,
            host,
        )
        settings = changed(self.settings, changes, self._scope)
        forked = self.branch(settings, label, progress)
        forked._require_met(self.settings)
        return forked

    def branch(
        self, settings: Settings, label: str = "", progress: Progress | None = None
    ) -> Compilation:
        """The same model under other settings; passes that both have in common are shared."""
        made = run(self.model, settings, self._run, progress)
        return Compilation(self.model, made, label or describe(self.settings, settings))

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
        insertion = make_insertion(what, after, name, self._run.full_pipeline)
        settings = replace(self.settings, edits=(*self.settings.edits, insertion))
        return self.branch(settings, label, progress)

    def continue_from(self, result: PassResult | str, text: str, label: str = "") -> Compilation:
        """Compilation continued from edited IR text of the snapshot after a pass.

        What the pass made besides the IR stays as it was; addresses are those in the text. Forks
        of the result change what comes after the edit.
        """
        chosen = self[result] if isinstance(result, str) else result
        edit = edit_by_hand(self.passes, self.pipeline, self.settings.decisions, chosen, text)
        settings = replace(self.settings, edited=edit)
        return self.branch(settings, label or f"edited after {chosen.name}")

    @property
    def _scope(self) -> Scope:
        """What names in a fork may refer to."""
        names = [f.sym_name.data for f in device_functions(self.final.program)]
        return Scope(self.model, self._run.full_pipeline, names)

    def _require_met(self, before: Settings) -> None:
        """InputError for an override that is new and decided nothing: a misspelt name."""
        if self.settings.fuel is not None:
            return  # what comes after the last rewrite asks for nothing
        for address in self.unmet:
            if address in before.decisions:
                continue
            known = [*self.decisions(), *(knob.address for knob in self.knobs)]
            near = [a for a in known if a.split("/")[0] == address.split("/")[0]]
            raise InputError(
                f"nothing in this program is decided by {address!r}", hint=near_name(address, near)
            )

    def decisions(self) -> dict[str, object]:
        """Every decision by its address with its value: giving them back replays this program."""
        made: dict[str, object] = {}
        for result in self.passes[1:]:
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
        """A table of `operators`, `passes`, `events`, `knobs`, `layers`, `buffers` or `kernels`.

        A pandas.DataFrame where pandas is installed, else a `frames.Table`.
        """
        return to_frame(self.trace(with_code=kind in CODE_KINDS), kind)

    def compare(self, *others: Compilation) -> Comparison:
        """This branch and others side by side; see `Comparison`."""
        if not others:
            raise InputError("compare needs another compilation", hint="c.compare(d)")
        traces = [
            replace(
                branch.trace(with_code=False),
                kernels=branch.program.kernels,
                program=branch.program,
            )
            for branch in (self, *others)
        ]
        return Comparison(traces[0], traces[1], tuple(traces[2:]))

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
        lines += [f"  nothing is decided by {address}" for address in self.unmet]
        for result in self.passes:
            changed = len([r for r in result.rewrites if r.applied])
            note = f"{changed} rewrites" if result.changed else "unchanged"
            lines.append(f"  {result.name:36} {result.after.operation_count:5} operations   {note}")
        return "\n".join(lines)
