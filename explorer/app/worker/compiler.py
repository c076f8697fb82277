"""The compiler in the worker's process: what was compiled stays, and forks share its passes.

compiler = ModelCompiler()
compiler.stage(CompileRequest("digits_cnn.onnx", "cpu"), "passes", progress)      all passes run
compiler.stage(CompileRequest(..., decisions=(("schedule-loops/conv_1/pixels", "4"),)), "passes")
    only the passes from schedule-loops on run: the rest is shared with the first
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from explorer.app.forks import changes, differing_passes, is_parent
from explorer.app.protocol import (
    BUDGETS,
    ONE_LEVER,
    TRIALS,
    Bisection,
    CompileRequest,
    Progress,
    SavedFile,
    SaveOrder,
    SearchReport,
)
from explorer.app.worker.calibrating import named_inputs, with_calibration
from explorer.app.worker.editing import read_edit
from explorer.app.worker.examining import opening_form
from explorer.app.worker.refused import refused_trace
from explorer.app.worker.sampling import samples_text
from explorer.app.worker.values import read_values, sizes_told
from explorer.errors import ExplorerError, InputError
from explorer.files import ModelFiles, ModelPath
from explorer.results import ProfileRecord, Trace
from explorer.results.decisions import NOTHING
from explorer.results.sweep import PART

if TYPE_CHECKING:
    from explorer.backends.interface import ModelOfChoices
    from explorer.backends.peaks import PeakMeter
    from explorer.compilation import Accuracy, Compilation
    from explorer.compilation.data.attached import AttachedData
    from explorer.compilation.levers.trials import Fork
    from explorer.importers import SourceModel
    from explorer.quantization.table import ThresholdTable
    from explorer.results.sweep import MachineSweep
    from explorer.runtime.profiles import Peaks

WEIGHTS = "weights"
"""Among the options: the file of the weights."""
CALIBRATED = 64
"""Examples that a calibration looks at."""
LARGE_NODES = 400
"""From so many on, a model is shown as its file has it while passes run."""
FILES = "files"
"""Among the options: the folder in which paths of a table of cases start."""
FRONT = "front"
"""Among the options: a sweep of machines, which its view opens."""
COMPILING, CALIBRATING = "compiling", "calibrating"
"""What is done, before the names of its steps."""


def no_progress(name: str, index: int, total: int) -> None:
    """For work that nobody waits for."""


class ModelCompiler:
    """One per worker. Heavy imports happen here, in the worker, before it is asked for anything."""

    def __init__(
        self, options: Mapping[str, Mapping[str, Any]] = NOTHING, threads: int | None = None
    ) -> None:
        """options: what `explorer.compile` takes besides target and sizes, by the model's path, and
        `weights`, the file of these where it has not the model's name.
        threads: with which times are measured; None: as many as a program has by default."""
        import_module("explorer.compilation")
        self._options = options
        self._threads = threads
        self._compilations: dict[CompileRequest, Compilation] = {}
        self._accuracies: dict[CompileRequest, Accuracy] = {}
        self._profiles: dict[CompileRequest, ProfileRecord] = {}
        self._refused: dict[CompileRequest, Trace] = {}
        """Of models that cannot be imported: how they are, and why."""
        self._loading: dict[CompileRequest, SourceModel] = {}
        """What was read and is compiled next."""
        self._tried: dict[CompileRequest, dict[str, int]] = {}
        """Sizes that were chosen where none were given."""
        self._meter: PeakMeter | None = None
        self._forks: tuple[CompileRequest, dict[str, Compilation]] | None = None
        self._model: tuple[CompileRequest, ModelOfChoices | None] | None = None
        self._sweeps: dict[str, MachineSweep] = {}
        """That the page sent, by the model's path."""
        self._tables: dict[object, ThresholdTable] = {}
        """Of calibrations that a page asked for."""
        self._read: dict[tuple[str, tuple[str, ...], str], AttachedData | None] = {}
        """What files of data hold."""

    def stage(self, request: CompileRequest, name: str, progress: Progress) -> Trace:
        trace = self._staged(request, name, progress)
        given = self._options.get(request.path, NOTHING).get(FRONT)
        front = self._sweeps.get(request.path, given)
        return trace if front is None else trace.with_part(PART, front)

    def take_sweep(self, request: CompileRequest, file: str) -> None:
        """What was read from this file before, without a fault."""
        from explorer.tuning.fronts import read_sweep

        with suppress(InputError):  # it is no more
            self._sweeps[request.path] = read_sweep(Path(file))

    def _staged(self, request: CompileRequest, name: str, progress: Progress) -> Trace:
        from explorer.compilation.collection import paused_collection

        if request.is_trace:
            return self._opened(request, progress)
        if request in self._refused:
            return self._refused[request]
        if name == "passes":
            with paused_collection():
                try:
                    return self._compiled(request, progress).trace(with_code=False)
                except MemoryError:
                    raise  # there is none for another look at it
                except Exception as error:  # whatever keeps a model from being compiled
                    return self._inspected(request, error)
        compilation = self._compiled(request, progress)
        if name == "program":
            bare = compilation.trace(with_code=False)
            program = compilation.program
            return replace(bare, kernels=program.kernels, program=program)
        if name == "accuracy":
            self._accuracies[request] = self._compared(request, compilation, progress)
        elif name == "profile":
            self._profiles[request] = self._measured(request, compilation, progress)
        elif name == "assembly":
            compilation.assembly()
        return replace(compilation.trace(), profile=self._profiles.get(request))

    def read(self, request: CompileRequest, progress: Progress) -> Trace | None:
        """The model as its file has it; None where the passes are there within about a second, or
        where something keeps it from being read: then the stage of the passes says what."""
        from explorer.compilation.collection import paused_collection
        from explorer.compilation.inspecting import read_trace

        is_first = request == request.base and not request.is_trace
        if not is_first or request in self._compilations or request in self._refused:
            return None
        with paused_collection(), suppress(Exception):  # the passes say what it is
            model = self._loaded(request, progress)
            if len(model.nodes) < LARGE_NODES:
                return None
            self._loading[request] = model
            return read_trace(model)
        return None

    def _loaded(self, request: CompileRequest, progress: Progress) -> SourceModel:
        """The file's model, with the edits of the request."""
        import explorer as ex

        if request in self._loading:
            return self._loading.pop(request)
        progress("reading the file", 0, 0)
        model = ex.load(self._files(request.path))
        if request.model_edits:
            progress("editing the model", 0, 0)
            model = ex.edit(model, request.model_edits)
        return model

    def levers(self, request: CompileRequest, asked: str) -> dict[str, Any]:
        """asked: a quantity, with `/budgets` the budgets, too, that can be met, with `/trials` all
        that is predicted by compiling, with `/one/ADDRESS` one lever; `?LAYER`
        follows. In ADDRESS, `%` and `?` are escaped as in a URL."""
        from explorer.compilation.levers.finding import find_lever, find_levers, quantity_named
        from explorer.compilation.levers.modelled import OF_MODEL
        from explorer.views.payload.levers import lever_payload, levers_payload

        if request.is_trace or request in self._refused:
            raise InputError("a saved trace holds no compiler", hint="open the model itself")
        accuracy = self._accuracies.get(request)
        asked, _, of = asked.partition("?")
        quantity, _, rest = asked.partition("/")
        quantity = quantity_named(quantity)
        compilation = self._compiled(request, no_progress)
        model = self._model_of(request, compilation) if quantity in OF_MODEL else None
        if rest.startswith(f"{ONE_LEVER}/"):
            address = unquote(rest.removeprefix(f"{ONE_LEVER}/"))
            forks = self._forks_of(request, compilation)
            return lever_payload(find_lever(compilation, quantity, address, forks, of, model))
        found = find_levers(
            compilation,
            quantity,
            None if accuracy is None else accuracy.report,
            self._profiles.get(request),
            self._forks_of(request, compilation) if rest in (BUDGETS, TRIALS) else None,
            only_budgets=rest == BUDGETS,
            of=of,
            model=model,
        )
        return levers_payload(with_calibration(found) if request.data else found)

    def two_files(self, pair: Sequence[CompileRequest], files: Sequence[str]) -> dict[str, Any]:
        from explorer.app.worker.two_files import two_files_json
        from explorer.compilation.data.attached import fit_data

        models, inputs, sizes = [], [], {}
        for side in pair:
            if side.is_trace:
                raise InputError("a saved trace holds no model", hint="open the model itself")
            compiled = None if side in self._refused else self._compiled(side, no_progress)
            model = self._loaded(side, no_progress) if compiled is None else compiled.model
            data = None if compiled is None else self._data(side, model)
            fitted = None if data is None or compiled is None else fit_data(data, compiled)
            inputs.append(None if fitted is None else fitted.at(0))
            tried = {**self._tried.get(side.base, {}), **side.sizes}
            sizes |= {n: size if isinstance(size, int) else size[-1] for n, size in tried.items()}
            models.append(model)
        return two_files_json(models, files, inputs, [side.data_name for side in pair], sizes)

    def _model_of(self, request: CompileRequest, compilation: Compilation) -> ModelOfChoices | None:
        """Predicts choices of layers; that of the request that was asked about last is kept."""
        from explorer.compilation.levers.modelled import model_of

        if self._model is None or self._model[0] != request:
            self._model = (request, model_of(compilation))
        return self._model[1]

    def _forks_of(self, request: CompileRequest, compilation: Compilation) -> Fork:
        """Forks that predict levers; those of the request that was asked about last are kept."""
        if self._forks is None or self._forks[0] != request:
            self._forks = (request, {})
        _, kept = self._forks

        def fork(decisions: dict[str, object]) -> Compilation:
            key = json.dumps(decisions, sort_keys=True)
            if key not in kept:
                kept[key] = compilation.fork(decisions=decisions)
            return kept[key]

        return fork

    def optional(self, request: CompileRequest) -> tuple[str, ...]:
        if request.is_trace or request in self._refused:
            return ()
        return tuple(p.name for p in self._compilations[request].pipeline if not p.is_required)

    def bisect(self, request: CompileRequest) -> Bisection | None:
        compilation = self._compiled(request, no_progress)
        if request not in self._accuracies:
            self._accuracies[request] = self._compared(request, compilation, no_progress)
        fault = self._accuracies[request].bisect()
        if fault is None:
            return None
        return Bisection(fault.pass_name, fault.rule, fault.operation, fault.tensor, fault.address)

    def search(
        self,
        request: CompileRequest,
        order: Mapping[str, Any],
        progress: Progress,
        report: SearchReport,
    ) -> dict[str, Any]:
        """Compiles candidates in threads: this process may have no children but compilers."""
        from explorer.tuning.search import Budget, tune
        from explorer.views.catalog.search import search_payload

        compilation = self._compiled(request, no_progress)
        found = tune(
            compilation,
            Budget(order["candidates"], order["seconds"]),
            kernels=[order["kernel"]],
            backend="threading",
            keep=order["keep"],
            progress=progress,
            told=lambda search: report(search_payload(search)),
        )
        return search_payload(found[order["kernel"]])

    def saved(self, request: CompileRequest, order: SaveOrder, progress: Progress) -> SavedFile:
        """A file with what the page knows: what this worker has not measured yet is measured."""
        from explorer.app.worker.saving import (
            IR,
            MODEL,
            PACKAGE,
            SAMPLES,
            model_file,
            package_file,
            saved_file,
            text_file,
        )
        from explorer.traces.saving import save

        if request.is_trace or request in self._refused:
            return saved_file(order, self.stage(request, "passes", progress), None)
        compilation = self._compiled(request, progress)
        if order.what == IR:
            return text_file(f"{order.after}.mlir", compilation[order.after].after.dump())
        if order.what == SAMPLES:
            return text_file("samples.json", samples_text(compilation))
        if order.what == PACKAGE:
            return package_file(order, compilation)
        if order.what == MODEL:
            return model_file(order, Path(request.path), request.model_edits)
        if "accuracy" in order.stages and request not in self._accuracies:
            self._accuracies[request] = self._compared(request, compilation, progress)
        if "profile" in order.stages and request not in self._profiles:
            self._profiles[request] = self._measured(request, compilation, progress)
        trace = replace(compilation.trace(), profile=self._profiles.get(request), label=order.label)
        if order.name:
            trace = replace(trace, model=replace(trace.model, name=order.name))
        snapshots = [result.after for result in compilation.passes]
        return saved_file(
            order, trace, lambda trace, path: save(trace, snapshots, compilation.source, path)
        )

    def turns(
        self, request: CompileRequest, others: Sequence[CompileRequest], progress: Progress
    ) -> dict[str, Any]:
        from explorer.compilation.interleaved_timing import time_interleaved
        from explorer.views.payload.interleaved import turns_payload

        requests = [request, *others]
        compilations = [self._compiled(r, no_progress) for r in requests]
        labels = [r.label or "first" for r in requests]
        return turns_payload(time_interleaved(compilations, labels, progress=progress))

    def forget(self, request: CompileRequest) -> None:
        for results in (self._compilations, self._accuracies, self._profiles, self._refused):
            results.pop(request, None)
            for other in [known for known in results if known.without_data == request.without_data]:
                if other.data != request.data:  # the same, as it was measured on other data
                    results.pop(other, None)

    def _opened(self, request: CompileRequest, progress: Progress) -> Trace:
        """A saved compilation; nothing of it is run, and it is not kept here."""
        from explorer.compilation import open_trace

        progress("reading the trace", 0, 1)
        return open_trace(request.path).trace()

    def _inspected(self, request: CompileRequest, error: Exception) -> Trace:
        """The model as it is, with what cannot be imported or compiled; a fork just fails."""
        if request != request.base or request.model_edits or request.quantize:
            raise error
        sizes = {**self._tried.get(request, {}), **request.sizes}
        largest = {
            name: size if isinstance(size, int) else size[-1] for name, size in sizes.items()
        }
        self._refused[request] = refused_trace(self._files(request.path), largest, error)
        return self._refused[request]

    def _compiled(self, request: CompileRequest, progress: Progress) -> Compilation:
        """Compiled now or before; as a fork of the compilation with most passes in common."""
        if request in self._compilations:
            return self._compilations[request]
        if request.edit:
            after, file = request.edit
            made_of = self._compiled(replace(request, edit=()), progress)
            self._compilations[request] = made_of.continue_from(
                after, read_edit(file), label=request.label, progress=_named(COMPILING, progress)
            )
            return self._compilations[request]
        parents = [parent for parent in self._compilations if is_parent(parent, request)]
        if not parents:
            self._compilations[request.base] = self._first(request.base, progress)
            if request == request.base:
                return self._compilations[request]
            parents = [request.base]
        parent = max(
            parents,
            key=lambda parent: self._shared(parent, request),
        )
        self._compilations[request] = self._compilations[parent].fork(
            decisions=changes(parent, request),
            label=request.label,
            progress=_named(COMPILING, progress),
        )
        return self._compilations[request]

    def _shared(self, parent: CompileRequest, request: CompileRequest) -> int:
        """How many passes the request has in common with a compilation, at least."""
        pipeline = [p.name for p in self._compilations[parent].pipeline]
        places = [
            pipeline.index(name) if name in pipeline else 0
            for name in differing_passes(parent, request)
        ]
        return min(places, default=len(pipeline))

    def _first(self, request: CompileRequest, progress: Progress) -> Compilation:
        import explorer as ex
        from explorer.compilation.settings.sizes import suggested_sizes

        model = self._loaded(request, progress)
        progress("importing", 0, 0)
        # Sizes that the file does not say are knobs of the page; something has to be shown first.
        given = {
            name: size if isinstance(size, int) else (size[0], size[-1])
            for name, size in request.sizes.items()
        }
        largest = {n: size if isinstance(size, int) else size[-1] for n, size in given.items()}
        options = dict(self._options.get(request.path, NOTHING))
        # A capacity says the sizes that grow.
        if "capacity" not in options:
            largest = {**self._told_sizes(model, request), **largest}
            largest = {**largest, **suggested_sizes(model, largest)}
        self._tried[request] = largest
        sizes = {**largest, **given}
        for name in (WEIGHTS, FILES, FRONT):
            options.pop(name, None)
        if request.quantize:
            options["quantization"] = self._table(request, model, progress)
            options.pop("modes", None)
        return ex.compile(
            model,
            target=request.target,
            dimensions=sizes,
            progress=_named(COMPILING, progress),
            **options,
        )

    def _table(
        self, request: CompileRequest, model: SourceModel, progress: Progress
    ) -> ThresholdTable:
        """Thresholds from the person's data, found once. InputError where there are none."""
        import explorer as ex
        from explorer.targets.together import load_targets
        from explorer.tuning.examples import Chosen

        arithmetic = load_targets(request.target)[0].arithmetic
        key = (request.path, request.model_edits, request.quantize, arithmetic)
        if key not in self._tables:
            method, *files = request.quantize
            data = read_values(files, model, request.data_name)
            if data is None:
                raise InputError(
                    "a calibration takes data", hint="drop arrays or images on the page first"
                )
            count = min(len(array) for array in data.inputs.values())
            chosen = Chosen(CALIBRATED) if count > CALIBRATED else None
            self._tables[key] = ex.calibrate(
                model,
                named_inputs(data.inputs, model),
                method=method,  # pyright: ignore[reportArgumentType]  (one of `decisions.METHODS`)
                arithmetic=arithmetic,
                chosen=chosen,
                progress=_named(CALIBRATING, progress),
            )
        return self._tables[key]

    def _told_sizes(self, model: SourceModel, request: CompileRequest) -> dict[str, int]:
        """Sizes that the person's data have, without that of a batch."""
        try:
            return sizes_told(self._data(request, model), model)
        except ExplorerError:
            return {}  # the comparison with the source says what is wrong with them

    def examine(self, path: str) -> dict[str, Any]:
        return opening_form(self._files(path))

    def _files(self, path: str) -> ModelPath:
        weights = self._options.get(path, NOTHING).get(WEIGHTS)
        return path if weights is None else ModelFiles(Path(path), Path(weights))

    def _compared(
        self, request: CompileRequest, compilation: Compilation, progress: Progress
    ) -> Accuracy:
        """Errors of every tensor and of the outputs, on the person's data where there are some."""
        compilation.attach(self._data(request, compilation.model))
        return compilation.accuracy(progress=progress)

    def _data(self, request: CompileRequest, model: SourceModel) -> AttachedData | None:
        """The person's data, read once; None where inputs are drawn."""
        key = (request.path, request.data, request.data_name)
        if key not in self._read:
            folder = self._options.get(request.path, NOTHING).get(FILES)
            self._read[key] = read_values(request.data, model, request.data_name, folder)
        return self._read[key]

    def _measured(
        self, request: CompileRequest, compilation: Compilation, progress: Progress
    ) -> ProfileRecord:
        """Times of all launches, and what the device can do at best."""
        progress("measuring times", 0, 2)
        with suppress(ExplorerError):  # of data that do not fit the comparison tells
            if compilation.data is None and request.data:
                compilation.attach(self._data(request, compilation.model))
        profile = compilation.profile(threads=self._threads)
        progress("measuring the device's peaks", 1, 2)
        peaks = self._peaks(compilation, profile.threads)
        return profile if peaks is None else peaks.on(profile)

    def _peaks(self, compilation: Compilation, threads: int) -> Peaks | None:
        from explorer.backends.peaks import PeakMeter

        if self._meter is None:
            self._meter = PeakMeter()
        processor = compilation.target.processor
        return self._meter.peaks(compilation.backend, compilation.device, threads, processor)


def _named(work: str, progress: Progress) -> Progress:
    """Reports the steps of one kind of work: `calibrating: example`."""
    return lambda name, index, total: progress(f"{work}: {name}", index, total)
