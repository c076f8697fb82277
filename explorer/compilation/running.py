"""Running a pipeline: from the model, or from the results that another compilation shares.

    run(model, settings)                     every pass
    run(model, other_settings, first)        the passes after the first that would differ

Equal settings give equal programs, so that a fork shares everything up to the first pass that is
another one, or is decided otherwise, or for which there is other fuel.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from explorer.accuracy.execution import execute_compiled
from explorer.backends import backend_of
from explorer.compilation.collection import paused_collection
from explorer.compilation.custom_passes.inserting import what_happened
from explorer.compilation.custom_passes.pipelines import IMPORT, Insertion
from explorer.compilation.fitting.program import Program
from explorer.compilation.fitting.search import fit
from explorer.compilation.settings.capacity import with_capacity
from explorer.compilation.settings.settings import (
    Progress,
    Settings,
    check_decisions,
    device_for,
    full_pipeline,
    machine_lanes,
    without_disabled,
)
from explorer.compilation.source_snapshot import source_snapshot
from explorer.errors import ExplorerError, PassError, RangeError, UnsupportedError
from explorer.importers import OpenedProgram, SourceModel, open_program
from explorer.ir.program import Snapshot
from explorer.ir.rewriting import Fuel, Names, RewriteOptions
from explorer.ir.rewriting.passes import Pass, PassResult, Working, run_pass
from explorer.logs import logger
from explorer.memory.budget import refuse
from explorer.memory.planning import MEMORY, PlanMemory
from explorer.passes.lower.stream_rows import StreamRows
from explorer.passes.sizes.bind_dimensions import BindDimensions
from explorer.results import MemoryPlan
from explorer.runtime.devices import DeviceRecord

LOG = logger(__name__)

IMPORTED_AT = "imported at"
"""Artifact of the import: the dimensions without which the model could not be imported."""


@dataclass(frozen=True)
class Run:
    """What came of settings: the passes that ran, and their results behind the import."""

    settings: Settings
    device: DeviceRecord | None
    full_pipeline: tuple[Pass, ...]
    """With the passes that are disabled."""
    pipeline: tuple[Pass, ...]
    results: tuple[PassResult, ...]
    fitted: Mapping[str, object] = field(default_factory=dict)
    """Decisions that were found so that the program fits into its budget."""

    @property
    def decisions(self) -> dict[str, object]:
        """Those that the program was compiled with: a person's go first."""
        return {**self.fitted, **self.settings.decisions}

    @property
    def unmet(self) -> tuple[str, ...]:
        """Overrides of passes that ran, but that nothing asked for: they decided nothing."""
        ran = {p.name for p in self.pipeline}
        met = {address for result in self.results for address in result.met}
        made = {r.address: r.applied for result in self.results for r in result.rewrites}
        return tuple(
            address
            for address, value in self.settings.decisions.items()
            if address.split("/", 1)[0] in ran
            and address not in met
            and (address not in made or made[address] is not value)
        )


@paused_collection()
def run(
    model: SourceModel,
    settings: Settings,
    parent: Run | None = None,
    progress: Progress | None = None,
) -> Run:
    """Compiles; passes that `parent` has in common with the settings are not run again."""
    device = device_for(settings.target)
    full = full_pipeline(settings, device)
    pipeline = without_disabled(full, settings.disable)
    check_decisions(settings.decisions, full)
    wanted = Run(settings, device, full, pipeline, ())
    shared = _shared_results(wanted, parent) or (import_model(model, settings),)
    budget = None if settings.edited is not None else budget_in(pipeline)
    if budget is None:
        return continued(shared, wanted, parent, progress)
    whole = continued(shared, replace(wanted, pipeline=without_budget(pipeline)), parent, progress)
    return replace(fitted(whole, budget), pipeline=pipeline)


def budget_in(pipeline: Sequence[Pass]) -> int | None:
    """Bytes that the arena may take; None for no limit."""
    return next((p.budget_bytes for p in pipeline if isinstance(p, PlanMemory)), None)


def without_budget(pipeline: Sequence[Pass]) -> tuple[Pass, ...]:
    """The same passes, which refuse no plan."""
    return tuple(
        replace(p, budget_bytes=None) if isinstance(p, PlanMemory) else p for p in pipeline
    )


def fitted(whole: Run, budget_bytes: int) -> Run:
    """The program within a budget: as it is, or with other decisions where it is too large.

    Raises MemoryBudgetError, with the least budget that would do.
    """
    plan = whole.results[-1].artifacts.get(MEMORY)
    if not isinstance(plan, MemoryPlan) or plan.peak_bytes <= budget_bytes:
        return whole
    runs: dict[int, Run] = {}

    def compiled(decisions: Mapping[str, object]) -> Program:
        wanted = replace(whole, results=(), fitted=decisions)
        made = continued(_shared_results(wanted, whole), wanted, whole)
        program = program_of(made)
        runs[id(program)] = made
        return program

    if not any(isinstance(p, StreamRows) for p in whole.pipeline):
        refuse(plan, budget_bytes)
    found = fit(compiled, program_of(whole), whole.settings.decisions, budget_bytes)
    made = runs[id(found.program)]
    *others, last = made.results
    plan = replace(found.program.plan, fit=found.steps)
    last = replace(last, artifacts={**last.artifacts, MEMORY: plan})
    return replace(made, results=(*others, last))


def program_of(made: Run) -> Program:
    """The results as the search for a fit sees them."""
    settings = made.settings
    backend = backend_of(settings.target)
    lanes = machine_lanes(settings.target, made.device)
    seconds = backend.predicted_seconds(made.results, settings.target, made.device, lanes)
    launch_seconds = settings.target.costs.launch_seconds
    return Program(made.results, made.decisions, seconds or {}, launch_seconds)


def continued(
    shared: Sequence[PassResult],
    wanted: Run,
    parent: Run | None = None,
    progress: Progress | None = None,
) -> Run:
    """The run that is wanted, of which the first results are there: the import at least."""
    settings, pipeline, results = wanted.settings, wanted.pipeline, list(shared)
    begin = time.perf_counter()
    working = Working.at(results[-1].after, results[-1].names)
    own = backend_of(settings.target).executor(settings.target)
    working.execute_compiled = own or execute_compiled
    spent = _spent_fuel(results, pipeline)
    fuel = Fuel(None if settings.fuel is None else max(0, settings.fuel - spent))
    for number, pass_ in enumerate(pipeline[len(results) - 1 :], len(results) - 1):
        if progress is not None:
            progress(pass_.name, number, len(pipeline))
        options = RewriteOptions(wanted.decisions, Fuel() if pass_.is_required else fuel)
        if isinstance(pass_, BindDimensions) and IMPORTED_AT in results[0].artifacts:
            pass_ = replace(pass_, sizes={})  # they were bound while importing
        results.append(_run_guarded(pass_, working, options, settings))
        found = results[-1]
        count = len(found.rewrites)
        LOG.debug("%s: %d events, %.1f ms", found.name, count, found.seconds * 1e3)
    seconds = time.perf_counter() - begin
    done = len(results) - len(shared)
    LOG.info("compiled for %s: %d passes in %.2f s", settings.target.name, done, seconds)
    return replace(wanted, results=tuple(results))


def _run_guarded(
    pass_: Pass, working: Working, options: RewriteOptions, settings: Settings
) -> PassResult:
    """The pass; what it raises in a pipeline of a person's own is that pipeline's fault."""
    try:
        return run_pass(pass_, working, options)
    except ExplorerError:
        raise
    except Exception as error:
        if not settings.edits and settings.pipeline is None:
            raise
        inserted = [e.pass_.name for e in settings.edits if isinstance(e, Insertion)]
        if inserted:  # it is guarded, so that one of the others failed on what it made
            raise PassError(
                what_happened(f"{pass_.name}, which follows,", error),
                pass_name=inserted[-1],
                hint="look at what it makes; without it that pass works",
            ) from error
        raise PassError(
            what_happened("the pass", error),
            pass_name=pass_.name,
            hint="in the pipeline as it was it works: take the new order back",
        ) from error


def import_model(model: SourceModel, settings: Settings) -> PassResult:
    """The imported program as the result of the pass `import`; before it stands the model."""
    begin = time.perf_counter()
    note, opened = _import(with_capacity(model, settings.capacity), settings)
    before = source_snapshot(model, opened.source, opened.weights)
    after = Snapshot(opened.module, opened.weights, "top", execute_compiled)
    return PassResult(
        name=IMPORT,
        description=f"Every node of the {model.format} file becomes operations of this "
        f"compiler{note}.",
        before=before,
        after=after,
        rewrites=opened.rewrites,
        seconds=time.perf_counter() - begin,
        recording_seconds=0.0,
        names=Names.of(opened.module),
        artifacts={IMPORTED_AT: dict(settings.dimensions)} if note else {},
    )


def _import(model: SourceModel, settings: Settings) -> tuple[str, OpenedProgram]:
    """The imported program, with symbolic dimensions where the importer can keep them.

    Some models compute ranks and windows from their dimensions: those are imported at the sizes
    that the compilation binds anyway, and the note says so. So are all models where a size is 0
    (a language model's past, at first): what is said with names holds for sizes from 1 on.
    """
    try:
        return _import_whole(model, settings)
    except UnsupportedError:
        if not settings.host or settings.open_ranges:
            raise
    # What only a run decides is left to the host; sizes that are known decide more beforehand.
    sizes = ", ".join(f"{name} = {size}" for name, size in settings.dimensions.items())
    found = open_program(model, settings.dimensions, has_deferred_nodes=True)
    return (f" (imported at {sizes})" if sizes else ""), found


def _import_whole(model: SourceModel, settings: Settings) -> tuple[str, OpenedProgram]:
    """As `_import`, without nodes that a run imports."""
    dimensions = settings.dimensions
    sizes = ", ".join(f"{name} = {size}" for name, size in dimensions.items())
    if 0 in dimensions.values():
        return f" (imported at {sizes})", open_program(model, dimensions)
    try:
        return "", open_program(model)
    except UnsupportedError as error:
        if not dimensions:
            raise
        if settings.open_ranges:
            return _import_with_ranges(model, settings, error)
        return f" (imported at {sizes})", open_program(model, dimensions)


def _import_with_ranges(
    model: SourceModel, settings: Settings, error: UnsupportedError
) -> tuple[str, OpenedProgram]:
    """As `_import_whole`, at the sizes of all dimensions that have one; RangeError where open
    ones are what the importer cannot keep."""
    ranges = settings.open_ranges
    names = [found.name for found in ranges]
    fixed = {n: size for n, size in settings.dimensions.items() if n not in names}
    if fixed:
        try:
            sizes = ", ".join(f"{name} = {size}" for name, size in fixed.items())
            return f" (imported at {sizes})", open_program(model, fixed)
        except UnsupportedError as other:
            error = other
    single = " ".join(f"--dim {found.name}={found.highest}" for found in ranges)
    raise RangeError(
        f"one program for a range of {' and '.join(map(repr, names))} is not possible: "
        f"{error.problems[0]}",
        hint=f"give one size: {single}; a session compiles for each size that comes",
    ) from error


# -- what is shared --------------------------------------------------------------------------------


def _shared_results(wanted: Run, parent: Run | None) -> tuple[PassResult, ...]:
    """Results that need not be made again, the import first; none without a parent."""
    settings, pipeline = wanted.settings, wanted.pipeline
    edit = settings.edited
    if edit is not None:
        edit.require_kept(pipeline, settings.decisions)
    if parent is None or parent.settings.edited is not edit:
        return () if edit is None else edit.results
    if parent.settings.host != settings.host:  # it may have nodes that a run imports
        return ()
    if (parent.settings.capacity is None) != (settings.capacity is None):  # it takes masks as full
        return ()
    first = parent.results[0]
    imported_at = first.artifacts.get(IMPORTED_AT)
    if imported_at is None and 0 in settings.dimensions.values():
        return ()
    if imported_at is not None and imported_at != settings.dimensions:
        return ()
    pinned = 0 if edit is None else len(edit.pipeline)
    return parent.results[: 1 + max(shared_passes(wanted, parent), pinned)]


def shared_passes(wanted: Run, parent: Run) -> int:
    """How many passes of the parent a run has in common with it, from the first on."""
    settings, theirs, pipeline = wanted.settings, parent.settings, wanted.pipeline
    mine, others = wanted.decisions, parent.decisions
    touched = {
        address.split("/", 1)[0]
        for address in {*mine, *others}
        if mine.get(address) != others.get(address)
    }
    limits = [s.fuel for s in (settings, theirs) if s.fuel is not None]
    fuel = min(limits) if limits and settings.fuel != theirs.fuel else None
    spent = 0
    pairs = zip(parent.pipeline, pipeline, parent.results[1:], strict=False)
    for number, (before, own, result) in enumerate(pairs):
        if before != own or own.name in touched:
            return number
        if fuel is not None and not own.is_required:
            spent += _applied(result)
            if spent >= fuel:  # it may have come to its end for want of fuel
                return number
    return min(len(parent.pipeline), len(pipeline))


def _spent_fuel(results: Sequence[PassResult], pipeline: Sequence[Pass]) -> int:
    """Rewrites that optional passes have done already: a fork goes on with what is left."""
    done = zip(results[1:], pipeline, strict=False)
    return sum(_applied(result) for result, pass_ in done if not pass_.is_required)


def _applied(result: PassResult) -> int:
    return sum(rewrite.applied for rewrite in result.rewrites)
