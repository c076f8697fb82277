"""Levers of the peak: what could be decided otherwise where memory is fullest.

schedule-loops/conv_3x3_2/schedule = direct       scratch of winograd4 is not needed
plan-memory/planner = exact                       the same buffers at other places
plan-memory/budget_bytes = 805,000                the search of a budget tries all of these
"""

from __future__ import annotations

from collections.abc import Iterator

from explorer.compilation.compiled import Compiled
from explorer.compilation.fitting.levers import Lever, levers_of
from explorer.compilation.fitting.program import Program
from explorer.compilation.levers.trials import IN_WORK, Fork, few_trials, has_trials
from explorer.compilation.running import program_of
from explorer.errors import ExplorerError, MemoryBudgetError
from explorer.memory.choosing import choose_planner, default_planners
from explorer.passes.lower.stream_rows import StreamRows
from explorer.results import MemoryPlan
from explorer.results.decisions import BUDGET, MEMORY, PLANNER, place_of
from explorer.results.levers import LeverOption, LeverRecord

SHARES = (0.5, 0.8)
"""Budgets that are tried, as shares of the present peak."""
GRANULE = 64
"""Bytes of which an offered budget is a multiple."""
TRIALS = "the planner, run on the present buffers"
SEARCH = (
    "the search over schedules, layouts, recomputation and bands, which was run for these budgets"
)


def memory_levers(compiled: Compiled, fork: Fork | None = None) -> Iterator[LeverRecord]:
    """The levers of `peak_bytes`. None of a program without a memory plan.

    fork: tries budgets, of which those that can be met are offered; None: nothing is tried yet.
    """
    plan = compiled.memory
    if plan is None or not plan.peak_bytes:
        return
    can_fit = any(isinstance(p, StreamRows) for p in compiled.pipeline)
    if can_fit:
        yield _budget(compiled, plan, fork)
        yield from _at_fullest_step(compiled, plan)
    yield from _planners(compiled, plan)


def _budget(compiled: Compiled, plan: MemoryPlan, fork: Fork | None) -> LeverRecord:
    is_tried = fork is not None and has_trials(compiled)
    options = tuple(_met_budgets(plan, fork)) if fork is not None and is_tried else ()
    why = "no limit" if compiled.settings.budget_bytes is None else "a limit"
    if is_tried and not options:
        why = f"{why}; the search finds no program with fewer bytes"
    return LeverRecord(
        address=BUDGET,
        group="memory",
        of="",
        title="arena, bytes at most",
        value=compiled.settings.budget_bytes,
        options=options,
        source=SEARCH if options else "",
        why=why,
        unpredicted="" if is_tried else IN_WORK if has_trials(compiled) else few_trials(0),
    )


def _met_budgets(plan: MemoryPlan, fork: Fork) -> Iterator[LeverOption]:
    """Budgets that the search was seen to meet, the smallest first."""
    least = 0
    for share in SHARES:
        size = int(plan.peak_bytes * share) // GRANULE * GRANULE
        if size <= least or not size:
            continue
        size, peak = _met_budget(size, fork)
        if peak is None or not least < peak < plan.peak_bytes:
            continue
        least = peak
        change = float(peak - plan.peak_bytes)
        yield LeverOption(value=size, decisions=((BUDGET, size),), change=change)


def _met_budget(size: int, fork: Fork) -> tuple[int, int | None]:
    """The budget, or else the least that the search ends with; and the peak under it, None where
    neither can be met."""
    for _ in range(2):
        try:
            return size, fork({BUDGET: size}).memory.peak_bytes
        except MemoryBudgetError as refused:
            size = refused.needed_bytes
        except ExplorerError:
            break
    return size, None


def _at_fullest_step(compiled: Compiled, plan: MemoryPlan) -> Iterator[LeverRecord]:
    """What the search of a budget would try at the step with the most live bytes."""
    program = program_of(compiled._run)
    if program.chain_starts:
        return  # bands are chosen by the budget that asked for them
    limit = int(plan.bound_bytes * SHARES[-1])
    step = plan.steps[program.fullest_step]
    source = f"bytes that live at the fullest step, {step}; other steps may be as full"
    grouped: dict[str, list[Lever]] = {}
    for lever in levers_of(program, program, compiled.settings.decisions, limit):
        grouped.setdefault(lever.address, []).append(lever)
    for address, found in grouped.items():
        knob = program.knobs.get(address)
        place = place_of(address)
        yield LeverRecord(
            address=address,
            group=place.group if place.group != "rewrite" else found[0].kind,
            of=place.of,
            title=place.title,
            value=None if knob is None else knob.value,
            options=tuple(_option(lever, program) for lever in found),
            source=source,
            why="" if knob is None else knob.why,
            layers=(step,),
        )


def _option(lever: Lever, program: Program) -> LeverOption:
    others = [b for i, b in enumerate(program.plan.live_bytes) if i != program.fullest_step]
    # A buffer that goes may live at other steps, too: no step gets fuller than it is.
    left = max([lever.size_bytes, *others]) if lever.kind == "schedule" else lever.size_bytes
    more = lever.microseconds
    return LeverOption(
        value=lever.value,
        decisions=lever.decisions,
        change=float(min(0, left - program.bound_bytes)),
        also=f"{more:.3g} µs more" if more >= 0.05 else "no time",
    )


def _planners(compiled: Compiled, plan: MemoryPlan) -> Iterator[LeverRecord]:
    knob = next((k for k in compiled.knobs if k.address == PLANNER), None)
    if knob is None or len(compiled.plans) != 1:
        return
    buffers = [placed.buffer for placed in plan.placements]
    options = []
    for name in knob.choices:
        if name == knob.value or not isinstance(name, str):
            continue
        try:
            size = choose_planner(name, default_planners())(buffers).peak_bytes
        except ExplorerError:
            continue  # it cannot place these buffers
        change = float(size - plan.peak_bytes)
        options.append(LeverOption(value=name, decisions=((PLANNER, name),), change=change))
    why = "the plan is proven to be the smallest" if plan.optimal else knob.why
    yield LeverRecord(
        address=PLANNER,
        group=MEMORY.removeprefix("plan-"),
        of="",
        title="memory planner",
        value=knob.value,
        options=tuple(options),
        source=TRIALS,
        why=why,
    )
