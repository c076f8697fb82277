"""The search for decisions with which a program fits into a budget.

    program of 512,576 bytes, budget 150,000
      schedule-loops/conv_3x3_2/schedule = direct     512,576 -> 291,392   +12 us   taken
      schedule-loops/conv_3x3_5/schedule = direct     291,392 -> 217,664   + 3 us   taken
      stream-rows/chain/conv8 = conv4:4:roll          217,664 -> 148,480   + 4 us   taken

At each step the levers of the fullest step are compiled in their order until one makes the program
smaller. What turns out not to be needed is taken back, the most expensive first. What room is left
goes to faster schedules of bands. Nothing depends on time, so that equal settings give equal
programs. Where nothing fits, the same search for the least bytes says what would: a budget of so
many bytes is reached by the same steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from explorer.compilation.fitting.levers import SCHEDULE, Lever, levers_of
from explorer.compilation.fitting.program import Program
from explorer.compilation.fitting.room import (
    faster_kernels,
    kernels_above,
    knobs_of_bands,
    other_schedules,
    seconds_of_kernels,
    slower_kernels,
    with_little_scratch,
    with_more_parts,
)
from explorer.errors import ExplorerError
from explorer.kernels.passes import ScheduleLoops
from explorer.memory.budget import refuse_fit
from explorer.passes.lower.stream_rows import StreamRows
from explorer.results.memory import FitStep

Decisions = Mapping[str, object]
Compile = Callable[[Decisions], Program]
"""The program under decisions of the fit; raises ExplorerError where they are not legal."""

MAX_PROGRAMS = 40
"""Programs that are compiled for one budget on one way."""
MAX_TRIES = 4
"""Levers that are compiled at one step until one helps."""
MAX_COSTLY_TRIES = 2
"""And of those that compute much again, which come last."""


@dataclass(frozen=True)
class Fitted:
    """The program that fits, the decisions that make it so, and all that was tried."""

    program: Program
    decisions: Decisions
    steps: tuple[FitStep, ...]


@dataclass
class _Way:
    """One sequence of levers, from the program without any."""

    program: Program
    decisions: dict[str, object] = field(default_factory=dict)
    steps: list[FitStep] = field(default_factory=list)
    is_directed: bool = False
    """Whether a lever was preferred because it reaches the budget."""


def fit(compile_with: Compile, first: Program, fixed: Decisions, budget_bytes: int) -> Fitted:
    """Decisions with which the program takes at most the budget.

    fixed: decisions of a person, which stay. Raises MemoryBudgetError with the least budget for
    which decisions were found.
    """
    search = _Search(compile_with, fixed)
    way = search.walk(first, budget_bytes)
    if way.program.plan.peak_bytes > budget_bytes and way.is_directed:
        earlier, way = way, search.walk(first, budget_bytes, towards=0)
        way.steps = [*earlier.steps, *way.steps]
    if way.program.plan.peak_bytes > budget_bytes:
        raise refuse_fit(way.program.plan, budget_bytes)
    search.take_back(way, budget_bytes)
    search.use_room(way, budget_bytes)
    return Fitted(way.program, way.decisions, tuple(way.steps))


class _Search:
    def __init__(self, compile_with: Compile, fixed: Decisions) -> None:
        self.compile_with = compile_with
        self.fixed = fixed
        self.known: dict[tuple[tuple[str, object], ...], Program | str] = {}

    def walk(self, first: Program, budget_bytes: int, towards: int | None = None) -> _Way:
        """Levers until the program fits, or none makes it smaller.

        towards: bytes that a lever should reach at its place, the budget by default. With 0 those
        that save most come first, whatever the budget.
        """
        limit = budget_bytes if towards is None else towards
        way = _Way(first)
        compiled = 0
        while way.program.plan.peak_bytes > budget_bytes:
            whole = self._without_bands(way)
            levers = levers_of(way.program, whole, self.fixed, limit)
            cheap = [lever for lever in levers if not lever.is_costly][:MAX_TRIES]
            costly = [lever for lever in levers if lever.is_costly][:MAX_COSTLY_TRIES]
            for lever in (*cheap, *costly):
                compiled += 1
                if compiled > MAX_PROGRAMS:
                    return way
                way.is_directed |= lever.size_bytes <= limit
                if self._try(way, lever):
                    break
            else:
                return way
        return way

    def _try(self, way: _Way, lever: Lever) -> bool:
        """Whether a lever makes the program smaller; it is taken then."""
        before, reason, best = way.program, "", way.program
        for kept in _ways_to_keep(way.decisions, lever):
            decisions = dict(kept)
            for address, value in lever.decisions:
                decisions.pop(address, None)
                if value is not None:
                    decisions[address] = value
            found = self._program(decisions)
            if isinstance(found, str):
                reason = reason or found
                continue
            if found.rank < before.rank:
                way.steps.append(_step(lever, before, found, True, ""))
                way.program, way.decisions = found, decisions
                return True
            best = found
            reason = f"the program would take {found.plan.peak_bytes} bytes"
        way.steps.append(_step(lever, before, best, False, reason))
        return False

    def take_back(self, way: _Way, budget_bytes: int) -> None:
        """Drops levers without which the program fits as well, the most expensive first."""
        costs = {step.address: step.microseconds for step in way.steps if step.taken}
        for address in sorted(way.decisions, key=lambda a: (-costs.get(a, 0.0), a)):
            decisions = {a: v for a, v in way.decisions.items() if a != address}
            if len(way.decisions) == 1:
                return
            found = self._program(decisions)
            if isinstance(found, str) or found.plan.peak_bytes > budget_bytes:
                continue
            if found.microseconds > way.program.microseconds:
                continue
            way.program, way.decisions = found, decisions
            way.steps = [
                _not_needed(step) if step.taken and step.address == address else step
                for step in way.steps
            ]

    def use_room(self, way: _Way, budget_bytes: int) -> None:
        """Faster schedules for kernels of bands, as far as their scratch fits."""
        before = way.program
        chosen = self._faster_schedules(way)
        found: Program | str = before
        while chosen:
            found = self._program(way.decisions | _merged(chosen))
            if isinstance(found, str):
                break
            if found.plan.peak_bytes <= budget_bytes:
                slower = slower_kernels(before, found, chosen)
                if not slower:
                    break
                chosen = {k: own for k, own in chosen.items() if k not in slower}
                continue
            for kernel in kernels_above(found, budget_bytes, chosen):
                parts = with_more_parts(found, kernel)
                if parts:
                    chosen[kernel] |= parts
                else:
                    del chosen[kernel]
        is_faster = not isinstance(found, str) and found.microseconds < before.microseconds
        if not chosen or isinstance(found, str) or not is_faster:
            return
        first, second = seconds_of_kernels(before), seconds_of_kernels(found)
        for kernel, decisions in sorted(chosen.items()):
            address, value = next(iter(decisions.items()))
            way.steps.append(
                FitStep(
                    lever=SCHEDULE,
                    address=address,
                    value=value,
                    bytes_before=before.plan.peak_bytes,
                    bytes_after=found.plan.peak_bytes,
                    microseconds=1e6 * (second[kernel] - first[kernel]),
                    taken=True,
                    reason="",
                )
            )
        way.program, way.decisions = found, way.decisions | _merged(chosen)

    def _faster_schedules(self, way: _Way) -> dict[str, dict[str, str | int]]:
        """By kernel of a band the decisions for the schedule that is faster by most."""
        before = way.program
        knobs = knobs_of_bands(before, {**way.decisions, **self.fixed})
        best: dict[str, tuple[float, str]] = {}
        for choice in other_schedules(knobs):
            tried = [kernel for kernel, knob in knobs.items() if choice in knob.choices]
            decisions = {kernel: with_little_scratch(kernel, choice) for kernel in tried}
            found = self._program(way.decisions | _merged(decisions))
            if isinstance(found, str):
                continue
            factors = faster_kernels(before, found)
            for kernel in factors.keys() & decisions.keys():
                best[kernel] = max(best.get(kernel, (0.0, "")), (factors[kernel], choice))
        return {kernel: with_little_scratch(kernel, best[kernel][1]) for kernel in sorted(best)}

    def _without_bands(self, way: _Way) -> Program:
        head = f"{StreamRows.name}/"
        decisions = {a: v for a, v in way.decisions.items() if not a.startswith(head)}
        if decisions == way.decisions:
            return way.program
        found = self._program(decisions)
        return way.program if isinstance(found, str) else found

    def _program(self, decisions: Decisions) -> Program | str:
        """The program, or why there is none."""
        key = tuple(sorted(decisions.items()))
        if key not in self.known:
            try:
                self.known[key] = self.compile_with(decisions)
            except ExplorerError as error:
                self.known[key] = error.message
        return self.known[key]


def _ways_to_keep(decisions: Decisions, lever: Lever) -> list[Decisions]:
    """Earlier decisions that stay. Bands have kernels of their own, so that those of the other
    kernels may get other names: schedules are decided anew where they do not fit any more."""
    head = f"{ScheduleLoops.name}/"
    others = {a: v for a, v in decisions.items() if not a.startswith(head)}
    if lever.kind == SCHEDULE or others == decisions:
        return [decisions]
    return [decisions, others]


def _merged(chosen: Mapping[str, Mapping[str, str | int]]) -> dict[str, object]:
    """The decisions of all kernels."""
    return {address: value for own in chosen.values() for address, value in own.items()}


def _step(lever: Lever, before: Program, after: Program, taken: bool, reason: str) -> FitStep:
    return FitStep(
        lever=lever.kind,
        address=lever.address,
        value=lever.value,
        bytes_before=before.plan.peak_bytes,
        bytes_after=after.plan.peak_bytes,
        microseconds=after.microseconds - before.microseconds,
        taken=taken,
        reason=reason,
    )


def _not_needed(step: FitStep) -> FitStep:
    return replace(step, taken=False, reason="the program fits without it, too")
