"""What a budget leaves free: schedules with scratch for kernels of bands, where they are faster.

conv_3x3_9 runs 13 times on two rows each, direct: a launch of its own would be too small for
Winograd's form, all of them together are not.
-> schedule-loops/conv_3x3_9/schedule = winograd2     4.0 -> 2.9 us each, 24 KiB of scratch
   schedule-loops/conv_3x3_9/parts = 2                12 KiB: the budget has room for these
"""

from __future__ import annotations

from collections.abc import Mapping

from explorer.compilation.fitting.program import Program
from explorer.kernels.passes import ScheduleLoops
from explorer.kernels.schedules import PLAIN
from explorer.results import Knob

MIN_GAIN = 1.25
"""A schedule has to be so much faster, as it rounds otherwise."""
ORDER, IN_BANDS = "order", "bands"
"""The order of Winograd's forms that keeps scratch of one band, and can keep that of a part."""
PARTS = "parts"


def address_of(kernel: str, choice: str) -> str:
    return f"{ScheduleLoops.name}/{kernel}/{choice}"


def knobs_of_bands(program: Program, decided: Mapping[str, object]) -> dict[str, Knob]:
    """By kernel that bands launch the knob of its schedule, where nothing of it is decided."""
    launched = sorted({name for names in program.chains.values() for name in names})
    found: dict[str, Knob] = {}
    for name in launched:
        kernel = program.kernels.get(name, "")
        knob = program.knobs.get(address_of(kernel, "schedule"))
        if knob is None or any(address.startswith(address_of(kernel, "")) for address in decided):
            continue
        found[kernel] = knob
    return found


def other_schedules(knobs: Mapping[str, Knob]) -> list[str]:
    """Names of schedules that some of the kernels may have and have not."""
    return sorted(
        {
            choice
            for knob in knobs.values()
            for choice in knob.choices
            if isinstance(choice, str) and choice not in (knob.value, PLAIN)
        }
    )


def with_little_scratch(kernel: str, schedule: str) -> dict[str, str | int]:
    """The decisions for a schedule; a kernel of a band is no work for several threads anyway."""
    decisions: dict[str, str | int] = {address_of(kernel, "schedule"): schedule}
    if schedule.startswith("winograd"):
        decisions[address_of(kernel, ORDER)] = IN_BANDS
    return decisions


def next_parts(program: Program, kernel: str) -> int | None:
    """More parts that share scratch than now, or None."""
    knob = program.knobs.get(address_of(kernel, PARTS))
    if knob is None or not isinstance(knob.value, int):
        return None
    now = knob.value
    return min((c for c in knob.choices if isinstance(c, int) and c > now), default=None)


def faster_kernels(before: Program, after: Program) -> dict[str, float]:
    """By kernel the factor by which all of its launches are faster, where that is enough."""
    first, second = seconds_of_kernels(before), seconds_of_kernels(after)
    factors = {
        kernel: seconds / second[kernel]
        for kernel, seconds in first.items()
        if second.get(kernel, 0.0) > 0.0
    }
    return {kernel: factor for kernel, factor in factors.items() if factor >= MIN_GAIN}


def kernels_above(program: Program, budget_bytes: int) -> set[str]:
    """The kernels at whose steps more lives than the budget."""
    plan = program.plan
    return {
        program.kernels.get(step, "")
        for step, live in zip(plan.steps, plan.live_bytes, strict=True)
        if live > budget_bytes
    }


def seconds_of_kernels(program: Program) -> dict[str, float]:
    """Of all launches together."""
    found: dict[str, float] = {}
    for name, seconds in program.seconds.items():
        kernel = program.kernels.get(name, "")
        found[kernel] = found.get(kernel, 0.0) + seconds
    return found
