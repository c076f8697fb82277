"""What was compiled: the results of all passes, and everything that follows from them.

compiled.passes                      list of PassResult, the import first
compiled["fuse-activation"].diff     what one pass changed
compiled.memory, compiled.program    artifacts of the last passes, made when first asked for
compiled.open()                      the program on its device
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Literal, NoReturn, overload

import numpy as np
from xdsl.dialects.func import FuncOp

from explorer.accuracy.drawing import KnownValues, draw_inputs
from explorer.accuracy.known_values import known_values
from explorer.backends import backend_of
from explorer.backends.interface import Backend
from explorer.backends.records import Opening
from explorer.calling import named_arguments
from explorer.compilation.collection import paused_collection
from explorer.compilation.companion import run_companion
from explorer.compilation.custom_passes.rule_sources import text_of
from explorer.compilation.flash import code_of, require_code, require_weights
from explorer.compilation.kernel_records import schedule_calls, with_assembly, with_schedule
from explorer.compilation.knobs import knobs_of
from explorer.compilation.measurements.costs import cost_machine_for
from explorer.compilation.measurements.schedule_steps import Ladder, measure_ladder
from explorer.compilation.placements import assigned_devices, placement_of
from explorer.compilation.running import Run
from explorer.compilation.settings.settings import Settings, machine_lanes, other_targets
from explorer.compilation.settings.sizes import sizes_with_implied
from explorer.compilation.sized import run_for_sizes
from explorer.compilation.source_snapshot import operator_records
from explorer.errors import InputError, MemoryBudgetError
from explorer.importers import SourceModel
from explorer.importers.model import State
from explorer.ir.evaluation import (
    entry_function,
    entry_return,
    full_masks,
    input_names,
    output_names,
)
from explorer.ir.functions.calls import functions_on
from explorer.ir.functions.host_functions import HostFunction
from explorer.ir.open_sizes import sizes_of_function
from explorer.ir.operation import identity_of
from explorer.ir.program import Snapshot
from explorer.ir.rewriting import Rule
from explorer.ir.rewriting.passes import Pass, PassResult, RulePass
from explorer.ir.sizes.constraints import constraints_of
from explorer.ir.states import states_of
from explorer.ir.structure import device_of, functions, host_reason_of, walk_inside
from explorer.ir.types import shape_of
from explorer.ir.valid_length import length_of
from explorer.kernels.cost import estimate
from explorer.kernels.in_place import FORMS, KernelForm
from explorer.kernels.passes import KERNELS, ScheduleLoops
from explorer.kernels.program.build import BuiltProgram
from explorer.kernels.program.parts import build_parts, is_one_program
from explorer.kernels.schedules.schedule import ScheduledKernel
from explorer.memory.planning import MEMORIES, MEMORY, plans_of
from explorer.passes.lower.stream_rows import CHAIN, StreamRows
from explorer.passes.quantize.compute_without_floats import STAYS_FLOAT, ComputeWithoutFloats
from explorer.quantization.block_records import weights_record
from explorer.quantization.quantize_tensors import QuantizeTensors
from explorer.quantization.quantize_weights import QuantizeWeights
from explorer.quantization.records import quantization_record
from explorer.renamed import warn_renamed
from explorer.results import (
    ConstraintRecord,
    CostEstimate,
    KernelRecord,
    KernelSearch,
    MemoryPlan,
    OperatorRecord,
    PackageRecord,
    Program,
    ProgramLookup,
    QuantizationRecord,
    RuleRecord,
    ScheduleCall,
    SourceText,
)
from explorer.results.names import near_name
from explorer.results.pass_names import PassName
from explorer.results.placement import PlacementRecord
from explorer.results.runs.counted import CountedRun
from explorer.runtime.cache import ProgramCache, ProgramKey, default_cache
from explorer.runtime.devices import DeviceRecord
from explorer.runtime.executable import Executable
from explorer.runtime.growing import with_length
from explorer.runtime.native.shared_arena import shared_arenas
from explorer.runtime.native.weight_block import WeightBlock
from explorer.runtime.parts import open_parts
from explorer.runtime.stateful import StatefulProgram
from explorer.targets import Target
from explorer.traces.collections import Kernels, Knobs, Passes, pass_of


class Compiled:
    """A model compiled for a target, pass by pass: all that follows from it, and its program.

    What asks more of it (`Compilation`) stands above; whatever checks, traces or keeps a
    compilation takes one of these.
    """

    model: SourceModel
    settings: Settings
    """All that decided how the model was compiled."""
    device: DeviceRecord | None
    """What runs the program; None where this machine has no such device."""
    pipeline: tuple[Pass, ...]
    """The passes that ran, without the import."""
    passes: Passes[PassResult]
    """What every pass did, the import first."""
    label: str
    """What a fork does otherwise, in words."""

    def __init__(self, model: SourceModel, run: Run, label: str = ""):
        self.model = model
        self.settings = run.settings
        self.device = run.device
        self.pipeline = run.pipeline
        self.passes = Passes(run.results)
        self.label = label
        self._run = run
        self._executable: Executable | None = None
        self._assembled: dict[str, KernelRecord] | None = None
        self._caches: list[ProgramCache] = []
        self._searches: dict[str, KernelSearch] = {}
        self.weight_block: WeightBlock | None = None
        """Where weights of other programs of the model lie that are loaded, too; set before the
        program is built (`takes_weight_block`)."""
        self.code_bytes: int | None = None
        """Of the machine code, once the program was opened; None where there is none to read."""
        self.packages: list[PackageRecord] = []
        """Packages that were made of this compilation, in order."""
        self._costs: dict[int, tuple[CostEstimate, ...]] = {}
        """Predicted times of all kernels, by the number of threads."""

    @property
    def target(self) -> Target:
        return self.settings.target

    @property
    def targets(self) -> tuple[Target, ...]:
        """All targets that were given, the first one first."""
        return self.settings.target, *self.settings.others

    @property
    def backend(self) -> Backend:
        """Who makes the target's code and runs it."""
        return backend_of(self.target)

    @property
    def names(self) -> list[str]:
        """Names of the passes in order."""
        return [p.name for p in self.passes]

    def __getitem__(self, key: PassName | str | int) -> PassResult:
        """A pass result by name or index."""
        return pass_of(self.passes, key)

    def _ipython_key_completions_(self) -> list[str]:
        return self.names

    def __iter__(self) -> Iterator[PassResult]:
        return iter(self.passes)

    def __len__(self) -> int:
        return len(self.passes)

    def __reduce__(self) -> NoReturn:
        raise InputError(
            "a compilation holds what a process owns, and cannot be pickled or copied",
            hint="c.save(path) and explorer.open(path) keep everything but running it",
        )

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
        """Where every activation lies; several device functions share an arena."""
        plan = self._artifact(MEMORY)
        assert isinstance(plan, MemoryPlan)
        return plan

    @cached_property
    def plans(self) -> dict[str, MemoryPlan]:
        """The memory plan of every device function by the function's name."""
        result = next((r for r in reversed(self.passes) if MEMORY in r.artifacts), self.passes[-1])
        self._artifact(MEMORY)  # InputError where there is none
        return plans_of(result.artifacts, result.after.program)

    @cached_property
    def memories(self) -> dict[str, MemoryPlan]:
        """The plan of every memory by its name, offsets from its beginning; of a target with one,
        `memory` under the name of that."""
        result = next((r for r in reversed(self.passes) if MEMORY in r.artifacts), self.passes[-1])
        found = result.artifacts.get(MEMORIES)
        if isinstance(found, dict) and len(found) > 1:
            return found
        names = [memory.name for memory in self.target.arenas] or ["arena"]
        return {names[0]: self.memory}

    @cached_property
    def quantization(self) -> QuantizationRecord | None:
        """How a float model was quantized, with what calibration saw where the table holds it."""
        for result, pass_ in zip(self.passes[1:], self.pipeline, strict=False):
            if isinstance(pass_, QuantizeTensors):
                return quantization_record(
                    result.before, result.after, pass_.table, pass_.integers_only
                )
            if isinstance(pass_, QuantizeWeights):
                return weights_record(result.before, result.after, pass_.table)
        return None

    @cached_property
    def knobs(self) -> Knobs:
        """What may be decided otherwise: address, value, legal values and the reason.

        `fork(decisions={knob.address: value})` takes each. Single rewrites have addresses, too:
        see `decisions()` and the events of the passes.
        """
        return Knobs(knobs_of(self._run))

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

    def decisions(self) -> dict[str, object]:
        """Every decision by its address with its value: giving them back replays this program."""
        made: dict[str, object] = {}
        for result in self.passes[1:]:
            for rewrite in result.rewrites:
                made[rewrite.address] = rewrite.applied
            made |= assigned_devices(result)
        for kernel, choices in self.schedule.items():
            for choice, value in choices.items():
                made[f"{ScheduleLoops.name}/{kernel}/{choice}"] = value
        chains = f"{StreamRows.name}/{CHAIN}/"
        made |= {a: v for a, v in self._run.decisions.items() if a.startswith(chains)}
        return made | dict(self._run.fitted)

    @cached_property
    def schedule(self) -> dict[str, dict[str, int | str]]:
        """What was decided for every kernel: tile sizes and the like. Each is a decision.

        A kernel that writes over an operand has the schedule of the one that it is made of.
        """
        forms = self._forms.items()
        made = {name for name, form in forms if form.scheduled != name}
        return {n: dict(k.choices) for n, k in self._scheduled.items() if n not in made}

    @property
    def kernels(self) -> Kernels:
        """Kernel records by name: the steps of the schedule, source with line map, phases.

        Their assembly is there once `assembly()` was called.
        """
        return Kernels(self._printed if self._assembled is None else self._assembled)

    def calls_of(self, kernel: str) -> tuple[ScheduleCall, ...]:
        """The schedule of a kernel without the loop nests between its steps, which takes far less
        than its record; empty of a kernel without one."""
        scheduled = self._scheduled.get(kernel)
        return () if scheduled is None else schedule_calls(scheduled)

    def assembly(self) -> dict[str, KernelRecord]:
        """The kernels with what the device's compiler makes of them, line by line.

        Takes two compilations of the program. Where there is no assembly to be had, a record's
        `assembly_note` says why.
        """
        if self._assembled is None:
            self._assembled = with_assembly(self._printed, self.program, self.backend, self.device)
        return self._assembled

    @cached_property
    def _printed(self) -> dict[str, KernelRecord]:
        known = dict(self._scheduled)
        for companion in self.companions.values():
            known |= companion._scheduled
        return {
            k.name: with_schedule(k, scheduled) if (scheduled := known.get(k.name)) else k
            for k in self.program.kernels
        }

    @named_arguments
    def cost(self, kernel: str, threads: int = 1) -> CostEstimate:
        """The time of one launch that the cost model predicts, with the terms that it is made of.

        A model of a processor: of GPUs it knows nothing.
        """
        function = self._scheduled_kernel(kernel).function
        if kernel in self._forms:
            function = self._forms[kernel].function
        lanes = machine_lanes(self.target, self.device)
        return estimate(function, cost_machine_for(self.target, lanes, threads))

    @named_arguments
    def costs(self, threads: int = 1) -> tuple[CostEstimate, ...]:
        """`cost` of every kernel that has a schedule; none on a GPU, of which it knows nothing."""
        if self.device is not None and self.device.processor != "cpu":
            return ()
        if threads not in self._costs:
            names = [k.name for k in self.program.kernels if k.name in self._scheduled]
            self._costs[threads] = tuple(self.cost(name, threads) for name in names)
        return self._costs[threads]

    @named_arguments
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

    def require_flash(self) -> None:
        """MemoryBudgetError where the weights alone exceed the flash that the settings allow, or
        the memories of the target that hold weights."""
        limits = (self.settings.flash_bytes, self.target.weights_bytes)
        known = [limit for limit in limits if limit is not None]
        if known and MEMORY in self.passes[-1].artifacts:
            require_weights(self.program, min(known))

    @cached_property
    def companions(self) -> Mapping[str, Compiled]:
        """By the target's name: the functions of other targets, each compiled by its own passes."""
        made: dict[str, Compiled] = {}
        last: Compiled = self
        names = last.passes[-1].names.copy()
        for target in other_targets(self.settings):
            found = functions_on(self.final.program, target.name)
            if not found:
                continue
            names.kernels |= set(last.final.kernels)
            run = run_companion(found, self.final.weights, target, self._run, names)
            made[target.name] = last = Compiled(self.model, run)
            last.require_flash()
            names = last.passes[-1].names.copy()
        return made

    @property
    def companion(self) -> Compiled | None:
        """The first of `companions`; None where the target runs all itself."""
        return next(iter(self.companions.values()), None)

    @property
    def beside(self) -> Compiled | None:
        """The former name of `companion`."""
        warn_renamed("beside", "companion")
        return self.companion

    @cached_property
    def placement(self) -> PlacementRecord:
        """Which device runs what: parts, transfers, and of several targets prices and refusals."""
        decisions = self.settings.decisions
        found = placement_of(self.passes, self.program, self.targets, decisions)
        return replace(found, absent=self.settings.absent)

    def compiled_of(self, program: Program) -> Compiled:
        """Which compilation gave the program of a part: this one, or one of its companions."""
        return self.companions.get(program.target, self)

    @cached_property
    @paused_collection()
    def built(self) -> BuiltProgram:
        def build(function: FuncOp, inputs: Sequence[str], outputs: Sequence[str]) -> BuiltProgram:
            companion = self.companions.get(device_of(function))
            if companion is not None:
                return companion.built.parts.get(function.sym_name.data, companion.built)
            plan, target = self.plans[function.sym_name.data], self.target
            given = (self.final, function, plan, target, inputs, outputs)
            built = (
                self.backend.build(*given, block=self.weight_block)
                if self.weight_block is not None and self.takes_weight_block
                else self.backend.build(*given)
            )
            return replace(built, program=replace(built.program, processor=self.target.processor))

        made = build_parts(self.final, self.target.name, build, *self.port_names)
        entry = entry_function(self.final.program)
        length, sizes = length_of(entry), sizes_of_function(entry)
        return replace(made, program=replace(made.program, length=length, sizes=sizes))

    @property
    def takes_weight_block(self) -> bool:
        """Whether the program is one of functions that can read their weights from one block."""
        return self.backend.shares_weights and is_one_program(self.final.program, self.target.name)

    @cached_property
    def port_names(self) -> tuple[list[str], list[str]]:
        """True names of the model's inputs and outputs, in the order of the program's ports."""
        entry = entry_function(self.passes[0].after.program)
        final = entry_function(self.final.program)
        if length_of(final) is not None or sizes_of_function(final) is not None:
            entry = final
        return list(input_names(entry)), list(output_names(entry))

    @property
    def _scheduled(self) -> dict[str, ScheduledKernel]:
        if not self.backend.runs_loops:
            return {}
        kernels = self._artifact(KERNELS)
        assert isinstance(kernels, dict)
        found = dict(kernels)
        for name, form in self._forms.items():
            found[name] = replace(kernels[form.scheduled], name=name)
        return found

    @property
    def _forms(self) -> dict[str, KernelForm]:
        """Kernels that write over an operand, by name."""
        forms = next((r.artifacts[FORMS] for r in self.passes if FORMS in r.artifacts), {})
        assert isinstance(forms, dict)
        return forms

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

    @overload
    def open(
        self,
        threads: int | None = ...,
        isolated: bool = ...,
        *,
        affinity: Sequence[int] = ...,
        cache: ProgramCache | None = ...,
        remembers: Literal[True],
    ) -> StatefulProgram: ...

    @overload
    def open(
        self,
        threads: int | None = ...,
        isolated: bool = ...,
        *,
        affinity: Sequence[int] = ...,
        cache: ProgramCache | None = ...,
        remembers: Literal[False] = ...,
    ) -> Executable: ...

    def open(
        self,
        threads: int | None = None,
        isolated: bool = True,
        *,
        affinity: Sequence[int] = (),
        cache: ProgramCache | None = None,
        remembers: bool = False,
    ) -> Executable:
        """Builds the program for its device, or takes it from the cache; the caller closes it.

        threads: of the processor, one by default; on an OpenCL device all that it has by default,
        and fewer only where it is a processor. `isolated` runs C in a process of its own.
        affinity: a processor for each thread, the caller's first (docs/threads.md).
        `cache`: of compiled programs, by default the one that EXPLORER_CACHE names. `remembers`:
        the model's states go from each run to the next by themselves (`StatefulProgram`).
        """
        cache = default_cache() if cache is None else cache
        opening = Opening(
            name=self.model.name,
            cache=cache,
            threads=threads,
            isolated=isolated,
            affinity=affinity,
        )

        libraries: list[Path] = []
        arenas = shared_arenas({f: part.program for f, part in self.built.parts.items()})

        def open_part(part: BuiltProgram) -> Executable:
            maker = self.compiled_of(part.program)
            shared = replace(opening, arena=arenas.get(part.program.target))
            if self.weight_block is not None and self.takes_weight_block:
                weights = self.weight_block.mapped(part.program.weights_bytes)
                shared = replace(shared, weights=weights)
            opened = maker.backend.open(part, maker.device, shared)
            libraries.extend(maker.backend.libraries_of(opened))
            return opened

        def compile_for(host: HostFunction, arguments: Sequence[np.ndarray]) -> Executable:
            sized = Compiled(self.model, run_for_sizes(host, arguments, self._run))
            return sized.open(threads, isolated, affinity=affinity, cache=cache)

        executable = open_parts(self.built, open_part, compile_for)
        if libraries and self.code_bytes is None:
            self.code_bytes = code_of(libraries)
        if self.settings.flash_bytes is not None:
            try:
                require_code(self.program, libraries, self.settings.flash_bytes)
            except MemoryBudgetError:
                executable.close()
                raise
        if not any(cache is known for known in self._caches):
            self._caches.append(cache)
        if remembers:
            try:
                return StatefulProgram(executable, self._model_states)
            except InputError:
                executable.close()
                raise
        return with_length(executable)

    @property
    def _model_states(self) -> list[State]:
        """The model's states that the program has, too. What was found by its names only is none
        where the sizes that are known by now differ."""
        entry = entry_function(self.final.program)
        kept = {state.input for state in states_of(entry)}
        shapes = {
            n: shape_of(v) for n, v in zip(input_names(entry), entry.body.block.args, strict=True)
        }
        made = {
            n: shape_of(v)
            for n, v in zip(output_names(entry), entry_return(entry).operands, strict=True)
        }
        return [
            state
            for state in self.model.states
            if state.input in kept
            and not (state.is_guessed and shapes[state.input] != made[state.output])
        ]

    @property
    def counted(self) -> CountedRun | None:
        """Cycles, bytes and stalls of the last whole run, beside what was predicted; None of
        targets whose cycles nobody counts, and before a run."""
        return None if self._executable is None else self._counted_of(self._executable)

    def _counted_of(self, executable: Executable) -> CountedRun | None:
        """Of what an open program ran last."""
        parts = getattr(executable, "executables", None)
        executables = list(parts.values()) if parts else [executable]
        artifacts = {name: a for one in self.passes for name, a in one.artifacts.items()}
        return self.backend.counted(executables, artifacts)

    @property
    def host_operations(self) -> tuple[tuple[str, str], ...]:
        """Operations that the device does not run, each with the reason: in program order those of
        the host, and those of companion functions. `placed_elsewhere` says which."""
        return tuple((operation, reason) for operation, _, reason in self.placed_elsewhere)

    @property
    def placed_elsewhere(self) -> tuple[tuple[str, str, str], ...]:
        """The same with the device in the middle: `host` is NumPy, `cpu` a C function."""
        causes = self._causes_of_floats
        return tuple(
            (identity_of(op), device_of(function), reason + causes.get(identity_of(op), ""))
            for function in functions(self.final.program)
            for op in walk_inside(function)
            if (reason := host_reason_of(op))
        )

    @property
    def _causes_of_floats(self) -> dict[str, str]:
        """By quantization: why what it reads was not computed in integers, where a rule says it."""
        return {
            event.site: f" ({event.reason})"
            for result in self.passes
            if result.name == ComputeWithoutFloats.name
            for event in result.rewrites
            if not event.applied and event.rule != STAYS_FLOAT
        }

    @property
    def is_all_elsewhere(self) -> bool:
        """Whether the target runs no function: the host, or a companion target, runs them all."""
        return not functions_on(self.final.program, self.target.name)

    @property
    def program_keys(self) -> list[ProgramKey]:
        """What the binaries of all parts that run on a device depend on, without building any.

        Raises BuildError where there is no compiler.
        """
        return list(self.keys_by_function.values())

    @property
    def keys_by_function(self) -> dict[str, ProgramKey]:
        """The same by the part's function; of a program without parts under no name."""
        return {
            name: maker.backend.key(part.program, maker.device, self.model.name)
            for name, part in (self.built.parts or {"": self.built}).items()
            if part.host is None and (maker := self.compiled_of(part.program))
        }

    @property
    def lookups(self) -> tuple[ProgramLookup, ...]:
        """Where the program's binary came from, each time that it was opened, and why."""
        if not self._caches:
            return ()
        digests = {key.digest() for key in self.program_keys}
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

    @named_arguments
    def example_inputs(
        self,
        seed: int = 0,
        dimensions: Mapping[str, int] | None = None,
        known: Mapping[str, KnownValues] | None = None,
    ) -> dict[str, np.ndarray]:
        """Seeded random inputs that fit the compiled shapes: the largest, unless sizes are given.

        Floats are drawn from what is known of them (`self.known` by default). Other sizes fit a
        program for a range only.
        """
        settings, imported = self.settings, self.passes[0].after.program
        largest = settings.dimensions
        sizes = sizes_with_implied(imported, settings.open_ranges, largest, dimensions or {})
        drawn = draw_inputs(self.model, seed, sizes, self.known if known is None else known)
        masks = full_masks(entry_function(imported))
        return {**drawn, **{name: np.ones_like(drawn[name]) for name in masks}}

    def judged_inputs(self) -> dict[str, np.ndarray]:
        """Inputs of one run, with which it is measured."""
        return self.example_inputs()

    @cached_property
    def known(self) -> dict[str, KnownValues]:
        """Ranges of inputs that calibration or the model's own quantization tells, by name."""
        return known_values(self.passes[0].after, self.settings.quantization)

    def close(self) -> None:
        """Gives the device's memory and processes back."""
        if self._executable is not None:
            self._executable.close()
            self._executable = None
