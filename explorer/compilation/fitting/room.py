"""What a budget leaves free: schedules with scratch for kernels of bands, where they are faster.

conv_3x3_9 runs 13 times on two rows each, direct: a launch of its own would be too small for
Winograd's form, all of them together are not.
-> schedule-loops/conv_3x3_9/schedule = winograd2     4.0 -> 2.9 us each, 24 KiB of scratch
   schedule-loops/conv_3x3_9/parts = 2                12 KiB: the budget has room for these
   schedule-loops/conv_3x3_9/pixels = 4               tiles that are as narrow as a part
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from explorer.compilation.fitting.program import Program
from explorer.kernels.passes import ScheduleLoops
from explorer.kernels.schedules import PLAIN
from explorer.results import Knob

MIN_GAIN = 1.25
"""A schedule has to be so much faster, as it rounds otherwise."""
ORDER, IN_BANDS = "order", "bands"
"""The order of Winograd's forms that keeps scratch of one band, and can keep that of a part."""
PARTS, PIXELS = "parts", "pixels"


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


def with_more_parts(program: Program, kernel: str) -> dict[str, str | int]:
    """Decisions for more parts that share scratch than now, of tiles that are half as wide where a
    part is one tile; empty where there are none."""
    parts = program.knobs.get(address_of(kernel, PARTS))
    if parts is None or not isinstance(parts.value, int):
        return {}
    more = [c for c in parts.choices if isinstance(c, int) and c > parts.value]
    if more:
        return {parts.address: min(more)}
    pixels = program.knobs.get(address_of(kernel, PIXELS))
    if pixels is None or not isinstance(pixels.value, int) or pixels.value % 2:
        return {}
    return {pixels.address: pixels.value // 2, parts.address: 2 * parts.value}


def faster_kernels(before: Program, after: Program) -> dict[str, float]:
    """By kernel the factor by which all of its launches are faster, where that is enough."""
    first, second = seconds_of_kernels(before), seconds_of_kernels(after)
    factors = {
        kernel: seconds / second[kernel]
        for kernel, seconds in first.items()
        if second.get(kernel, 0.0) > 0.0
    }
    return {kernel: factor for kernel, factor in factors.items() if factor >= MIN_GAIN}


def slower_kernels(before: Program, after: Program, kernels: Collection[str]) -> set[str]:
    """Those of the kernels that narrow tiles leave no faster than they were."""
    first, second = seconds_of_kernels(before), seconds_of_kernels(after)
    return {k for k in kernels if second.get(k, 0.0) >= first.get(k, 0.0)}


def kernels_above(program: Program, budget_bytes: int, kernels: Collection[str]) -> list[str]:
    """Those of the kernels that run while more bytes live than the budget; the one that runs while
    most bytes live where there is none, since the plan has gaps."""
    live: dict[str, int] = {}
    for step, size in zip(program.plan.steps, program.plan.live_bytes, strict=True):
        kernel = program.kernels.get(step, "")
        live[kernel] = max(live.get(kernel, 0), size)
    launched = sorted(kernels, key=lambda kernel: (-live.get(kernel, 0), kernel))
    return [k for k in launched if live.get(k, 0) > budget_bytes] or launched[:1]


def seconds_of_kernels(program: Program) -> dict[str, float]:
    """Of all launches together."""
    found: dict[str, float] = {}
    for name, seconds in program.seconds.items():
        kernel = program.kernels.get(name, "")
        found[kernel] = found.get(kernel, 0.0) + seconds
    return found
