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
from explorer.compilation.running import program_of
from explorer.errors import ExplorerError
from explorer.memory.choosing import choose_planner, default_planners
from explorer.passes.lower.stream_rows import StreamRows
from explorer.results import MemoryPlan
from explorer.results.decisions import BUDGET, MEMORY, PLANNER, place_of
from explorer.results.levers import LeverOption, LeverRecord

SHARES = (0.9, 0.8, 0.65, 0.5)
"""Budgets that are offered, as shares of the present peak."""
TRIALS = "the planner, run on the present buffers"
SEARCH = (
    "a search over schedules, layouts, recomputation and bands, when it is tried; it refuses with "
    "the least size that it finds"
)


def memory_levers(compiled: Compiled) -> Iterator[LeverRecord]:
    """The levers of `peak_bytes`. None of a program without a memory plan."""
    plan = compiled.memory
    if plan is None or not plan.peak_bytes:
        return
    can_fit = any(isinstance(p, StreamRows) for p in compiled.pipeline)
    if can_fit:
        yield _budget(compiled, plan)
        yield from _at_fullest_step(compiled, plan)
    yield from _planners(compiled, plan)


def _budget(compiled: Compiled, plan: MemoryPlan) -> LeverRecord:
    offered = [int(plan.peak_bytes * share) // 64 * 64 for share in SHARES]
    return LeverRecord(
        address=BUDGET,
        group="memory",
        of="",
        title="arena, bytes at most",
        value=compiled.settings.budget_bytes,
        options=tuple(
            LeverOption(
                value=size, decisions=((BUDGET, size),), change=float(size - plan.peak_bytes)
            )
            for size in offered
            if 0 < size < plan.peak_bytes
        ),
        source=SEARCH,
        why="no limit" if compiled.settings.budget_bytes is None else "a limit",
    )


def _at_fullest_step(compiled: Compiled, plan: MemoryPlan) -> Iterator[LeverRecord]:
    """What the search of a budget would try at the step with the most live bytes."""
    program = program_of(compiled._run)
    if program.chain_starts:
        return  # bands are chosen by the budget that asked for them
    limit = int(plan.bound_bytes * SHARES[1])
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
