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
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, cast

import numpy as np

from explorer.accuracy.drawing import how_drawn
from explorer.accuracy.indices import indexing_operations, outside_indices, require_inside
from explorer.calling import named_arguments, refuse, require_arrays
from explorer.compilation.at_sizes import is_smaller
from explorer.compilation.checking import Accuracy, check
from explorer.compilation.compiled import Compiled
from explorer.compilation.custom_passes.continuing import edit_by_hand
from explorer.compilation.custom_passes.inserting import Insertable, make_insertion
from explorer.compilation.data.attached import GIVEN, AttachedData, fit_data
from explorer.compilation.data.reading import Attachable, attached_data
from explorer.compilation.exporting import onnx_model, write_model
from explorer.compilation.interleaved_timing import ROUNDS, time_interleaved
from explorer.compilation.running import Run, run
from explorer.compilation.settings.capacity import require_capacity, sizes_with_capacity
from explorer.compilation.settings.forking import (
    KEEP,
    Changes,
    Keep,
    Layouts,
    Schedules,
    Scope,
    TargetChoice,
    changed,
    describe,
    own_pipeline,
)
from explorer.compilation.settings.options import CompileOptions
from explorer.compilation.settings.quantizing import chosen_table
from explorer.compilation.settings.settings import (
    Progress,
    Settings,
    default_pipeline,
    device_for,
    machine_lanes,
    present_targets,
)
from explorer.compilation.settings.sizes import Size, chosen_sizes, sizes_with_inputs
from explorer.compilation.tracing import make_trace
from explorer.errors import InputError
from explorer.importers import SourceModel, is_host_value, program_inputs
from explorer.importers.states import with_named_states
from explorer.ir.functions.calls import device_functions
from explorer.ir.rewriting.passes import Pass, PassResult
from explorer.memory.choosing import PlannerName
from explorer.memory.planners import Planner
from explorer.passes.states.growth import GrowingPair
from explorer.results import (
    OutsideIndex,
    PortsRecord,
    ProfileRecord,
    Trace,
)
from explorer.results.data import DataRecord
from explorer.results.levers import LeversRecord, Quantity
from explorer.results.names import near_name
from explorer.results.pass_names import PassName
from explorer.results.runs.interleaved import InterleavedTiming
from explorer.targets.together import TargetsChoice, load_targets
from explorer.traces.comparing import Comparison
from explorer.traces.exploring import Explorable
from explorer.traces.saving import save
from explorer.traces.tables import CODE_KINDS, FrameKind, to_frame

if TYPE_CHECKING:
    from onnx import ModelProto

    from explorer.exporters.onnx import WeightType
    from explorer.importers import InputValue

    Inputs = Mapping[str, InputValue]


def compile_model(
    model: SourceModel,
    target: TargetsChoice = "cpu",
    *,
    dimensions: Mapping[str, Size] | None = None,
    inputs: Mapping[str, InputValue] | None = None,
    **options: Unpack[CompileOptions],
) -> Compilation:
    """Compiles a loaded model; `explorer.compilation.compiling.compile` describes the options."""
    progress = options.pop("progress", None)
    if states := options.pop("states", ()):
        model = with_named_states(model, states)
        require_capacity(model, options.get("capacity"))
    plain, settings = settings_for(model, target, dimensions=dimensions, inputs=inputs, **options)
    compilation = Compilation(model, run(model, settings, None, progress))
    compilation._require_met(plain)
    compilation.require_flash()
    return compilation


def settings_for(
    model: SourceModel,
    target: TargetsChoice = "cpu",
    *,
    dimensions: Mapping[str, Size] | None = None,
    inputs: Mapping[str, InputValue] | None = None,
    **options: Unpack[CompileOptions],
) -> tuple[Settings, Settings]:
    """What `compile_model` compiles with, before and after decisions; nothing is compiled."""
    arrays = cast(Mapping[str, np.ndarray], inputs or {})
    if any(is_host_value(value) for value in arrays.values()):
        given = (dimensions or {}).items()
        arrays = program_inputs(model, arrays, {n: s for n, s in given if isinstance(s, int)})
    asked = sizes_with_inputs(model, dimensions or {}, arrays)
    pasts: tuple[GrowingPair, ...] = ()
    capacity, pipeline = options.get("capacity"), options.get("pipeline")
    if capacity is not None:
        pasts, asked = sizes_with_capacity(model, asked, capacity)
    sizes, open_ranges = chosen_sizes(model, asked)
    targets, absent = load_targets(target), ()
    if options.get("fallback", False):
        targets, absent = present_targets(targets)
    first, *others = targets
    plain = Settings(
        first,
        others=tuple(others),
        absent=absent,
        dimensions=sizes,
        open_ranges=open_ranges,
        capacity=capacity,
        pasts=pasts,
        pipeline=None if pipeline is None else own_pipeline(pipeline),
        tuned=options.get("tuned", True),
        tuned_threads=options.get("tuned_threads", 1),
        host=options.get("host", True),
        quantization=chosen_table(options.get("quantization"), model, options.get("modes")),
        clusters=chosen_clusters(options.get("clusters"), (*others, *absent)),
    )
    changes = Changes(
        disable=options.get("disable", ()),
        decisions=options.get("decisions"),
        fuel=options.get("fuel"),
        planner=options.get("planner"),
        budget_bytes=options.get("budget_bytes"),
        flash_bytes=options.get("flash_bytes"),
    )
    scope = Scope(model, plain.pipeline or default_pipeline(plain, device_for(plain.target)))
    return plain, changed(plain, changes, scope)


def chosen_clusters(
    clusters: Mapping[str, str] | None, others: Sequence[object]
) -> tuple[tuple[str, str], ...]:
    """Names and patterns; InputError where they are none, or one target has nothing to choose."""
    if not clusters:
        return ()
    if not others:
        raise InputError("clusters belong to several targets", hint='target=["cpu", "opencl"]')
    for name, pattern in clusters.items():
        if not isinstance(name, str) or not isinstance(pattern, str):
            raise InputError(f"cluster {name!r}: {pattern!r} is no pattern of names")
    return tuple(clusters.items())


class Compilation(Compiled, Explorable):
    """A model compiled for a target. Made by `compile_model`, never changed: forks are others."""

    def __init__(self, model: SourceModel, run: Run, label: str = ""):
        super().__init__(model, run, label)
        self._accuracy: Accuracy | None = None
        self._profile: ProfileRecord | None = None
        self._ports: PortsRecord | None = None
        self._data: AttachedData | None = None

    # -- data --------------------------------------------------------------------------------
    @named_arguments
    def attach(
        self,
        inputs: Attachable | None,
        labels: Sequence[int] | np.ndarray | None = None,
        name: str = "",
    ) -> Compilation:
        """Judges this compilation and later forks of it on these data; returns this compilation.

        inputs: arrays by input, N examples along the first axis (one array where the model has
        one input), or a file or folder as `explorer serve --input` takes it; None: inputs are drawn
        again. labels: one class number for each example. name: what reports call the data.

        Raises InputError where they do not fit the model; what was attached before stays then.
        """
        data = None if inputs is None else attached_data(self.model, inputs, labels, name)
        if data is not None:
            fit_data(data, self)
        self._data, self._accuracy, self._profile = data, None, None
        return self

    @property
    def data(self) -> AttachedData | None:
        """What was attached; None: inputs are drawn."""
        return self._data

    def judged_inputs(self) -> dict[str, np.ndarray]:
        """Inputs of one run: the first of the attached data, else drawn ones."""
        return self.example_inputs() if self._data is None else fit_data(self._data, self).at(0)

    # -- running -----------------------------------------------------------------------------
    @named_arguments
    def run(self, inputs: Inputs, check_indices: bool = False) -> dict[str, np.ndarray]:
        """Outputs by name, computed on the device.

        check_indices: InputError where an index that data decided lies outside of what it indexes;
        without it, such an index is clamped. The check runs the program once more, on the host.
        """
        arrays = self._arrays(inputs)
        if check_indices:
            require_inside(self.outside_indices(arrays))
        return self.executable.run(arrays)

    def _arrays(self, inputs: Inputs) -> Mapping[str, np.ndarray]:
        """The inputs as the program takes them. InputError for what is no mapping."""
        require_arrays(inputs, (value.name for value in self.model.inputs), "c.run")
        given = cast(Mapping[str, np.ndarray], inputs)
        if any(is_host_value(value) for value in given.values()):
            return program_inputs(self.model, given, self.settings.dimensions)
        return given

    def outside_indices(
        self, inputs: Mapping[str, np.ndarray] | None = None
    ) -> tuple[OutsideIndex, ...]:
        """Indices that data decided and that lie outside of what they index, for these inputs.

        Without inputs, those of the attached data, or drawn ones.
        """
        chosen = inputs if inputs is not None else self.judged_inputs()
        top = next(r.after for r in reversed(self.passes) if r.after.level == "top")
        if not indexing_operations(top):
            return ()
        if is_smaller(self, chosen):  # than the sizes that the snapshots have
            imported = self.passes[0].after
            return outside_indices(imported, imported.run(chosen))
        return outside_indices(top, self.final.run(chosen))

    @named_arguments
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
        chosen = inputs if inputs is not None else self.judged_inputs()
        with self.open(threads) as executable:
            profile = executable.profile(chosen, repeats)
            profile = replace(profile, counted=self._counted_of(executable))
        peaks = None
        if with_peaks:
            peaks = self.backend.peaks(self.device, profile.threads, self.target.processor)
        profile = replace(profile, data=self._data_record(inputs is None))
        self._profile = profile if peaks is None else peaks.on(profile)
        return self._profile

    def _data_record(self, is_of_session: bool) -> DataRecord:
        """Which data a run has: those of the session, or those that the call was given."""
        if not is_of_session:
            return DataRecord(name=GIVEN, examples=1)
        if self._data is None:
            return DataRecord(drawn=how_drawn(self.model, self.known))
        fitted = fit_data(self._data, self)
        return replace(fitted.record, examples=fitted.examples_per_run, left_out=0)

    @named_arguments
    def ports(self, core: str = "") -> PortsRecord:
        """What limits every hot loop, by llvm-mca, beside what the cost model says of it.

        core: a family of cores (`sapphire_rapids`), for which the model is compiled then, with its
        vectors and registers; by default the target's own. Nothing of it runs, so that it may be
        another core than this machine's.

        Raises BuildError where there is no compiler for it, or no llvm-mca.
        """
        from explorer.compilation.measurements.ports import ports_of, target_for_core

        compiled = self.fork(target=target_for_core(self.target, core)) if core else self
        self._ports = ports_of(
            compiled.program,
            {name: kernel.function for name, kernel in compiled._scheduled.items()},
            compiled.target,
            compiled.backend.core(compiled.target),
            machine_lanes(compiled.target, compiled.device),
        )
        return self._ports

    # -- trusting ----------------------------------------------------------------------------
    @named_arguments
    def accuracy(
        self,
        inputs: Mapping[str, np.ndarray] | None = None,
        tolerance: float = 1e-4,
        progress: Progress | None = None,
        golden: Mapping[str, np.ndarray] | None = None,
    ) -> Accuracy:
        """Executes the IR after every pass and the binary, and compares with the source model.

        Without inputs, those of the attached data, or drawn ones. `golden`: tensors by name to
        compare with instead of onnxruntime's; an empty one stands for the imported program's. The
        result has `.report`, `.passed` and `.bisect()`.
        """
        data = None if self._data is None or inputs is not None else fit_data(self._data, self)
        self._accuracy = check(self, inputs, tolerance, progress, golden, data)
        return self._accuracy

    # -- changing ----------------------------------------------------------------------------
    @named_arguments
    def fork(
        self,
        *,
        target: TargetChoice | None = None,
        enable: Sequence[PassName | str] = (),
        disable: Sequence[PassName | str] = (),
        order: Sequence[str] = (),
        pipeline: Sequence[Pass | str] | Keep | None = KEEP,
        decisions: Mapping[str, object] | None = None,
        schedule: Schedules | None = None,
        layout: Layouts | Keep = KEEP,
        planner: Planner | PlannerName | str | None = None,
        budget_bytes: int | Keep | None = KEEP,
        flash_bytes: int | Keep | None = KEEP,
        dimensions: Mapping[str, Size] | None = None,
        fuel: int | Keep | None = KEEP,
        host: bool | None = None,
        label: str = "",
        progress: Progress | None = None,
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
        or its name. budget_bytes, flash_bytes, fuel: None for no limit. dimensions: sizes by name,
        or a pair (lowest, highest) for a range. host: whether the host runs what has no compiled
        form.

        Raises InputError for what is unknown or not legal, and says what would be.
        """
        changes = Changes(
            target=target,
            enable=enable,
            disable=disable,
            order=order,
            pipeline=pipeline,
            decisions=decisions,
            layout=layout,
            planner=planner,
            budget_bytes=budget_bytes,
            flash_bytes=flash_bytes,
            dimensions=dimensions,
            fuel=fuel,
            schedule=schedule,
            host=host,
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
        branch = Compilation(self.model, made, label or describe(self.settings, settings))
        branch.require_flash()
        branch._data = self._data
        return branch

    @named_arguments
    def insert(
        self,
        what: Insertable,
        after: PassName | str,
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

    @named_arguments
    def continue_from(
        self,
        result: PassResult | PassName | str,
        text: str,
        label: str = "",
        progress: Progress | None = None,
    ) -> Compilation:
        """Compilation continued from edited IR text of the snapshot after a pass.

        What the pass made besides the IR stays as it was; addresses are those in the text. Forks
        of the result change what comes after the edit.
        """
        chosen = self[result] if isinstance(result, str) else result
        edit = edit_by_hand(self.passes, self.pipeline, self.settings.decisions, chosen, text)
        settings = replace(self.settings, edited=edit)
        return self.branch(settings, label or f"edited after {chosen.name}", progress)

    @property
    def _scope(self) -> Scope:
        """What names in a fork may refer to."""
        names = [f.sym_name.data for f in device_functions(self.final.program)]
        return Scope(self.model, self._run.full_pipeline, names)

    def _require_met(self, before: Settings) -> None:
        """InputError for an override that is new and decided nothing: a misspelt name.

        A knob may decide nothing: a switch of a rule that meets no operation.
        """
        if self.settings.fuel is not None:
            return  # what comes after the last rewrite asks for nothing
        unmet = [address for address in self.unmet if address not in before.decisions]
        knobs = [knob.address for knob in self.knobs] if unmet else []
        for address in unmet:
            if address in knobs:
                continue
            known = [*self.decisions(), *knobs]
            near = [a for a in known if a.split("/")[0] == address.split("/")[0]]
            raise InputError(
                f"nothing in this program is decided by {address!r}", hint=near_name(address, near)
            )

    # -- keeping -----------------------------------------------------------------------------
    @named_arguments
    def trace(self, with_code: bool = True, with_assembly: bool = False) -> Trace:
        """Everything that is known, as plain data; what was not measured is None.

        Without code, kernels and program are left out: enough for tables, and quick. With
        assembly, that is made first if it wasn't yet.
        """
        if with_assembly:
            self.assembly()
        report = self._accuracy.report if self._accuracy else None
        return make_trace(self, report, self._profile, with_code, self._ports)

    @named_arguments
    def levers(self, quantity: Quantity | str) -> LeversRecord:
        """Decisions that move a number, each with its legal values and what they would change.

        quantity: peak_bytes, seconds, weights_bytes, code_bytes, sqnr_db or cycles; or peak,
        latency, weights, code, dB. What was measured before (`profile`, `accuracy`) is used.
        `c.fork(decisions=dict(option.decisions))` tries one.
        """
        from explorer.compilation.levers.finding import find_levers, quantity_named

        report = None if self._accuracy is None else self._accuracy.report
        return find_levers(
            self,
            quantity_named(quantity),
            report,
            self._profile,
            lambda decisions: self.fork(decisions=decisions),
        )

    @named_arguments
    def to_frame(self, kind: FrameKind) -> Any:  # a pandas.DataFrame or a frames.Table
        """A table of `operators`, `passes`, `events`, `errors`, `knobs`, `layers`, `buffers` or
        `kernels`.

        A pandas.DataFrame where pandas is installed, else a `frames.Table`.
        """
        return to_frame(self.trace(with_code=kind in CODE_KINDS), kind)

    @named_arguments
    def compare(self, *others: Compilation) -> Comparison:
        """This branch and others side by side; see `Comparison`."""
        if not others:
            raise InputError("compare needs another compilation", hint="c.compare(d)")
        _require_compilations(others)
        traces = [
            replace(
                branch.trace(with_code=False),
                kernels=branch.program.kernels,
                program=branch.program,
            )
            for branch in (self, *others)
        ]
        return Comparison(traces[0], traces[1], tuple(traces[2:]))

    @named_arguments
    def time_against(
        self, *others: Compilation, rounds: int = ROUNDS, threads: int | None = None
    ) -> InterleavedTiming:
        """Latency and kernels of this branch and others, timed in turns; this one is the base."""
        _require_compilations(others)
        return time_interleaved((self, *others), rounds=rounds, threads=threads)

    @named_arguments
    def save(self, path: str | Path) -> Path:
        """Writes one `.nnx` file that `explorer.open` reads without a compiler or a device."""
        snapshots = [result.after for result in self.passes]
        return save(self.trace(), snapshots, self.source, path)

    @named_arguments
    def package(
        self,
        folder: str | Path,
        *,
        name: str | None = None,
        weights: str = "array",
        strip: bool = False,
        force: bool = False,
        flash_bytes: int | None = None,
        threads: int = 1,
        build: bool = False,
    ) -> Path:
        """Writes the program as C99 with its weights, an interface and a test of itself.

        folder: new; with `force` it may be a package, which is replaced. name: begins all names
        of the C interface, by default made of the model's. weights: constant `array`s, or a
        `file` to read or map. strip: without names and comments of the model. flash_bytes: most
        bytes of weights and code, by default those of the target. threads: that share a run, with
        pthreads. build: compiles it for the target and runs its self-test, where the tools are
        installed; `packages` has what came of it, and the view `packages` shows it.

        Raises InputError for what cannot be written, and for a target that is not programmed in
        C; UnsupportedError for operations that only the host runs. See docs/packages.md.
        """
        from explorer.compilation.packaging import package_source
        from explorer.packaging.inspecting import inspect_package
        from explorer.packaging.writing import (
            check_package_folder,
            package_files,
            write_package,
        )

        check_package_folder(Path(folder), force)
        source = package_source(self, name, weights, strip, threads)
        write_package(package_files(source, flash_bytes), Path(folder), force)
        self.packages.append(
            inspect_package(Path(folder), builds=build, runs=True, target=source.target)
        )
        return Path(folder)

    @named_arguments
    def to_onnx(
        self, path: str | Path | None = None, at: str = "", weights: WeightType = "uint8"
    ) -> ModelProto:
        """The program as ONNX, opset 21, written where there is a path.

        at: the pass after which; by default as it is before anything is computed in integers:
        with a table of thresholds, pairs of QuantizeLinear and DequantizeLinear around floats.
        weights: of quantized products, uint8 (which onnxruntime multiplies exactly on every
        processor) or int8 (which accelerators want).
        UnsupportedError names operations that ONNX does not have.
        """
        if path is None:
            return onnx_model(self, at, weights)
        return write_model(self, Path(path), at, weights)


def _require_compilations(others: Sequence[object]) -> None:
    for other in others:
        if not isinstance(other, Compilation):
            refuse("another branch", other, "a compilation", "c.fork(...) makes one")
