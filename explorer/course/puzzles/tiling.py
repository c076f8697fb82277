"""Four steps to the peak: from the textbook's tile to the best one that the cost model knows."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, cached_property
from itertools import product
from typing import Any

from explorer.course.puzzles.networks import compiled
from explorer.course.puzzles.puzzle import Puzzle, Standing
from explorer.errors import InputError
from explorer.kernels.loops.nest import ScheduleError
from explorer.kernels.schedules.schedule import Choice
from explorer.results import CostEstimate
from explorer.tuning.workloads import Workload, workloads_of

NETWORK = "digits_cnn"
KERNELS = ("conv_3x3_2", "conv_3x3_3")
START: dict[str, Choice] = {
    "vectors": 1,
    "pixels": 1,
    "channel_unroll": 1,
    "order": "channels",
    "epilogue": "separate",
}
MAX_STEPS = 4
TOLERANCE = 1.05
"""The aim is within 5% of the optimum."""


class FourSteps(Puzzle):
    """Choices of one kernel; the cost model judges, for one core and one thread."""

    name = "four-steps-to-the-peak"
    title = "Four steps to the peak"
    unit = "µs predicted"

    @property
    def kernel(self) -> str:
        return KERNELS[self.student % len(KERNELS)]

    @property
    def task(self) -> str:
        start = ", ".join(f"{name} {value}" for name, value in self.start.items())
        return (
            f"The tile of {self.kernel} in {NETWORK} is the textbook's: {start}. Change at most "
            f"{MAX_STEPS} of these choices, so that the cost model predicts the least time."
        )

    @property
    def moves(self) -> str:
        return (
            "puzzle.choices has the legal values, puzzle.cost({...}) explains a prediction; "
            "play({'pixels': 2, ...})."
        )

    @property
    def proof(self) -> str:
        return f"the cost model was asked about all tiles with at most {MAX_STEPS} changes"

    @property
    def aim(self) -> float:
        return self.optimum * TOLERANCE

    @cached_property
    def _workload(self) -> Workload:
        return _workloads()[self.kernel]

    @cached_property
    def choices(self) -> Mapping[str, tuple[Choice, ...]]:
        """Legal values by choice."""
        knobs = self._workload.schedule({"schedule": "direct"}).knobs
        return {
            knob.address: tuple(v for v in knob.choices if isinstance(v, int | str))
            for knob in knobs
            if knob.address in START
        }

    @property
    def start(self) -> Mapping[str, Choice]:
        """The textbook's tile."""
        return {name: value for name, value in START.items() if name in self.choices}

    def cost(self, changes: Mapping[str, Choice]) -> CostEstimate:
        """What the model predicts for the tile with these changes. InputError: it is illegal."""
        found = _predicted(self.kernel, tuple({**self.start, **changes}.items()))
        if found is None:
            raise InputError(f"no schedule has the choices {dict(changes)}")
        return found

    @cached_property
    def optimum(self) -> float:
        times = []
        for values in product(*self.choices.values()):
            tile = dict(zip(self.choices, values, strict=True))
            if sum(tile[name] != value for name, value in self.start.items()) <= MAX_STEPS:
                found = _predicted(self.kernel, tuple(tile.items()))
                times.append(found.microseconds if found else float("inf"))
        return min(times)

    def judged(self, state: Any) -> Standing:
        hint = "play({'pixels': 2, ...})"
        if not isinstance(state, Mapping):
            raise InputError("choices by their names are asked for", hint=hint)
        for name, value in state.items():
            if name not in self.choices:
                raise InputError(
                    f"there is no choice {name!r}", hint=f"one of {', '.join(self.choices)}"
                )
            if isinstance(value, bool) or value not in self.choices[name]:
                legal = ", ".join(map(str, self.choices[name]))
                raise InputError(f"{name} cannot be {value!r}", hint=f"one of {legal}")
        changed = [name for name, value in state.items() if value != self.start[name]]
        if len(changed) > MAX_STEPS:
            return Standing(None, f"{len(changed)} changes, and {MAX_STEPS} are allowed")
        found = _predicted(self.kernel, tuple({**self.start, **state}.items()))
        if found is None:
            return Standing(None, "no schedule has these choices together")
        told = f"{len(changed)} changes; {found.bound} decides"
        return Standing(found.microseconds, told, found)


@cache
def _workloads() -> Mapping[str, Workload]:
    return {workload.kernel: workload for workload in workloads_of(compiled(NETWORK))}


@cache
def _predicted(kernel: str, tile: tuple[tuple[str, Choice], ...]) -> CostEstimate | None:
    """What the cost model says of a tile; None where no schedule has it."""
    workload = _workloads()[kernel]
    try:
        made = workload.schedule({"schedule": "direct", "prefetch": "none", **dict(tile)})
    except ScheduleError:
        return None
    return workload.predict(made)
