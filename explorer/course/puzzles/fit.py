"""Fit it: buffers are placed by hand, and an exact search knows the smallest arena."""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from explorer.course.puzzles.puzzle import Puzzle, Standing
from explorer.errors import InputError
from explorer.memory.bounds import live_bytes
from explorer.memory.exact import ExactPlanner
from explorer.memory.planners import make_plan, name_steps
from explorer.results import BufferLifetime, MemoryPlan

BUFFERS = 8
STEPS = 8
UNIT_BYTES = 16
MAX_UNITS = 10
"""Sizes are 1 to 10 times 16 bytes."""
MAX_TRIALS = 500
MAX_ADDRESS = 1 << 30


class FitIt(Puzzle):
    """Eight buffers, which differ from student to student; greedy orders do not solve them."""

    name = "fit-it"
    title = "Fit it"
    unit = "bytes"

    @property
    def task(self) -> str:
        return (
            f"Give each of {BUFFERS} buffers an address, so that those that live at the same time "
            "share no byte. The arena ends where the highest buffer ends: make it as small as can "
            "be."
        )

    @property
    def moves(self) -> str:
        return "puzzle.buffers has them; play({'a': 0, 'b': 64, ...})."

    @property
    def proof(self) -> str:
        return "an exact search: no plan with less is left"

    @cached_property
    def buffers(self) -> tuple[BufferLifetime, ...]:
        """Drawn until neither the order of birth nor that of sizes leads to the optimum."""
        chance = random.Random(f"{self.name} {self.student}")
        for _ in range(MAX_TRIALS):
            buffers = _drawn(chance)
            exact = ExactPlanner(max_nodes=20_000)(buffers)
            by_size = sorted(buffers, key=lambda buffer: -buffer.size_bytes)
            greedy = (_in_order(order).peak_bytes for order in (buffers, tuple(by_size)))
            if exact.optimal and min(greedy) > exact.peak_bytes:
                return buffers
        raise AssertionError("one of a few draws has such an instance")

    @cached_property
    def solution(self) -> MemoryPlan:
        return ExactPlanner(max_nodes=20_000)(self.buffers)

    @cached_property
    def optimum(self) -> float:
        return self.solution.peak_bytes

    @property
    def offsets(self) -> Mapping[str, int]:
        """One's own addresses."""
        return self.state or {}

    def judged(self, state: Any) -> Standing:
        offsets = _addresses(state, [buffer.id for buffer in self.buffers])
        for number, one in enumerate(self.buffers):
            for other in self.buffers[:number]:
                if _collide(one, offsets[one.id], other, offsets[other.id]):
                    return Standing(
                        None, f"{other.id} and {one.id} live at the same time and share bytes"
                    )
        steps = name_steps(self.buffers, ())
        places = [offsets[buffer.id] for buffer in self.buffers]
        plan = make_plan(self.buffers, places, steps, live_bytes(self.buffers, len(steps)), [])
        over = plan.peak_bytes - self.solution.peak_bytes
        told = "no plan is smaller" if not over else "a smaller arena is possible"
        return Standing(plan.peak_bytes, told, plan)


def _drawn(chance: random.Random) -> tuple[BufferLifetime, ...]:
    found = []
    for name in "abcdefghijklmnopqrstuvwxyz"[:BUFFERS]:
        first = chance.randrange(STEPS - 1)
        last = chance.randint(first + 1, STEPS)
        size = UNIT_BYTES * chance.randint(1, MAX_UNITS)
        found.append(
            BufferLifetime(
                id=name,
                values=(name,),
                size_bytes=size,
                first=first,
                last=last,
                alignment_bytes=UNIT_BYTES,
            )
        )
    return tuple(sorted(found, key=lambda buffer: (buffer.first, buffer.id)))


def _in_order(buffers: tuple[BufferLifetime, ...]) -> MemoryPlan:
    """Each buffer at the lowest address that is free, in the order of birth."""
    offsets: list[int] = []
    for number, buffer in enumerate(buffers):
        placed = list(zip(buffers[:number], offsets, strict=True))
        ends = (at + other.size_bytes for other, at in placed)
        offsets.append(
            min(
                at
                for at in (0, *ends)
                if not any(_collide(buffer, at, other, start) for other, start in placed)
            )
        )
    steps = name_steps(buffers, ())
    return make_plan(buffers, offsets, steps, live_bytes(buffers, len(steps)), [])


def _collide(one: BufferLifetime, at: int, other: BufferLifetime, start: int) -> bool:
    lives = one.first < other.last and other.first < one.last
    return lives and at < start + other.size_bytes and start < at + one.size_bytes


def _addresses(state: Any, names: list[str]) -> dict[str, int]:
    hint = "play({'a': 0, 'b': 64, ...}): an address in bytes for each buffer"
    if not isinstance(state, Mapping):
        raise InputError("addresses by the names of buffers are asked for", hint=hint)
    missing = [name for name in names if name not in state]
    unknown = [str(name) for name in state if name not in names]
    if missing or unknown:
        told = f"no address for {missing[0]}" if missing else f"there is no buffer {unknown[0]!r}"
        raise InputError(told, hint=hint)
    for name in names:
        at = state[name]
        if not isinstance(at, int) or isinstance(at, bool) or not 0 <= at <= MAX_ADDRESS:
            raise InputError(f"{at!r} is no address for {name}", hint=hint)
        if at % UNIT_BYTES:
            raise InputError(f"{name} at {at}: addresses are multiples of {UNIT_BYTES}", hint=hint)
    return {name: int(state[name]) for name in names}
