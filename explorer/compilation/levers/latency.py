"""Levers of the latency: other choices for the kernels that take longest, by the cost model.

schedule-loops/conv_3x3_2/schedule = winograd2     predicted 12.1 us less of 96 us
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from explorer.compilation.compiled import Compiled
from explorer.compilation.measurements.costs import cost_machine_for
from explorer.compilation.settings.settings import machine_lanes
from explorer.errors import ExplorerError
from explorer.ir.rewriting import Fuel, RewriteOptions
from explorer.kernels.cost import estimate
from explorer.kernels.loops.nest import ScheduleError
from explorer.kernels.passes import ScheduleLoops, overridden_choices
from explorer.kernels.schedules import schedule_kernel
from explorer.kernels.schedules.schedule import Choice
from explorer.results import Knob
from explorer.results.knobs import KnobValue
from explorer.results.levers import LeverOption, LeverRecord

MAX_KERNELS = 5
"""Kernels of which other choices are predicted, those that take longest."""
MAX_PREDICTIONS = 80
SOURCE = "the cost model, for all launches of the kernel"


def latency_levers(compiled: Compiled, threads: int = 1) -> Iterator[LeverRecord]:
    """The levers of `seconds` with predictions; none of GPUs and NPUs, which have no such model."""
    passes = [p for p in compiled.pipeline if isinstance(p, ScheduleLoops)]
    costs = {cost.kernel: cost.microseconds for cost in compiled.costs(threads)} if passes else {}
    if not costs:
        return
    launches = Counter(launch.kernel for launch in compiled.program.launches)
    by_time = sorted(costs, key=lambda name: -costs[name] * launches[name])[:MAX_KERNELS]
    knobs = _by_kernel(compiled)
    predictor = _Predictor(compiled, passes[0], threads)
    for name in by_time:
        for knob in knobs.get(name, ()):
            options = tuple(predictor.options(name, knob, launches[name]))
            if options:
                yield LeverRecord(
                    address=knob.address,
                    group="schedule",
                    of=name,
                    title=knob.address.rsplit("/", 1)[1],
                    value=knob.value,
                    options=options,
                    source=SOURCE,
                    why=knob.why,
                )


def predicted_seconds(compiled: Compiled, threads: int = 1) -> float | None:
    """Of all launches by the cost model; None where it knows nothing."""
    costs = {cost.kernel: cost.microseconds for cost in compiled.costs(threads)}
    if not costs:
        return None
    return sum(costs.get(launch.kernel, 0.0) for launch in compiled.program.launches) / 1e6


def _by_kernel(compiled: Compiled) -> dict[str, list[Knob]]:
    found: dict[str, list[Knob]] = {}
    head = f"{ScheduleLoops.name}/"
    for knob in compiled.knobs:
        if knob.address.startswith(head) and len(knob.choices) > 1:
            kernel = knob.address.removeprefix(head).rsplit("/", 1)[0]
            found.setdefault(kernel, []).append(knob)
    return found


def _with(given: dict[str, Choice], choice: str, value: KnobValue) -> dict[str, Choice]:
    """The choices with one more; those of schedules are numbers and words."""
    return {**given, choice: value} if isinstance(value, int | str) else given


class _Predictor:
    """Schedules kernels otherwise and estimates them, up to a number of times."""

    def __init__(self, compiled: Compiled, schedule: ScheduleLoops, threads: int) -> None:
        lanes = machine_lanes(compiled.target, compiled.device)
        self._costs = cost_machine_for(compiled.target, lanes, threads)
        self._machine = schedule.machine
        self._kernels = compiled._scheduled
        self._decisions = compiled.settings.decisions
        self._left = MAX_PREDICTIONS

    def options(self, name: str, knob: Knob, launches: int) -> Iterator[LeverOption]:
        choice = knob.address.rsplit("/", 1)[1]
        kernel = self._kernels[name]
        given = overridden_choices(
            ScheduleLoops.name, name, RewriteOptions(self._decisions, Fuel())
        )
        present = estimate(kernel.function, self._costs).microseconds
        for value in knob.choices:
            if value == knob.value or self._left <= 0:
                continue
            self._left -= 1
            try:
                other = schedule_kernel(
                    kernel.steps[0].origin,
                    self._machine,
                    kernel.given_packs,
                    _with(given, choice, value),
                )
                found = estimate(other.function, self._costs).microseconds
            except (ScheduleError, ExplorerError):
                continue  # not legal with the other choices
            yield LeverOption(
                value=value,
                decisions=((knob.address, value),),
                change=(found - present) * launches / 1e6,
            )
