"""Schedules: which steps a kernel gets, by the family that it belongs to.

    schedule_kernel(function, Machine(16, "c"), {"x": blocked_pack(16), "y": blocked_pack(16)})
        -> ScheduledKernel(steps=(lower, split, reorder, accumulate, fuse, pack, ...), choices=
           {"schedule": "direct", "vectors": 2, "pixels": 14, "rows": 1, "channel_unroll": 1})

convolution.py, matmul.py and plain.py hold the schedules, tiles.py chooses register tiles,
choices.py lets a caller decide otherwise, schedule.py remembers the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from xdsl.dialects import func
from xdsl.dialects.builtin import StringAttr

from explorer.kernels.nest import LoopNest
from explorer.kernels.schedules.choices import Choices
from explorer.kernels.schedules.convolution import (
    is_blocked_convolution,
    schedule_convolution,
    schedule_depthwise,
)
from explorer.kernels.schedules.machine import Machine
from explorer.kernels.schedules.matmul import matrix_operands, schedule_matmul
from explorer.kernels.schedules.plain import schedule_plain
from explorer.kernels.schedules.schedule import Choice, Schedule, ScheduledKernel, Step
from explorer.kernels.steps.pack import Pack

Scheduler = Callable[[Schedule, Machine, Mapping[str, Pack], Choices], None]


def schedule_kernel(
    function: func.FuncOp,
    machine: Machine,
    packs: Mapping[str, Pack],
    choices: Mapping[str, Choice] | None = None,
) -> ScheduledKernel:
    """Schedules a kernel made by `KernelBuilder`; the function itself is not changed.

    `packs` are the layouts of arguments that aren't row-major; the schedule adds those of weights.
    `choices` override what the schedule would choose (the result lists all of them). Raises
    ScheduleError for choices that are illegal and layouts that the kernel cannot have.
    """
    schedule = Schedule(function)
    asked = Choices(schedule.nest.kernel, choices)
    offered = _schedulers(schedule.nest, packs)
    name = asked.word("schedule", next(iter(offered)), offered)
    offered[name](schedule, machine, packs, asked)
    schedule.choices = asked.finish()
    return schedule.finish(packs)


def _schedulers(nest: LoopNest, packs: Mapping[str, Pack]) -> dict[str, Scheduler]:
    """The schedules that fit a kernel, the best first; the plain one always does."""
    kind = nest.function.attributes.get("kernel.kind")
    family = kind.data if isinstance(kind, StringAttr) else "plain"
    offered: dict[str, Scheduler] = {}
    if family == "convolution" and is_blocked_convolution(nest, packs, "n o i j c p q"):
        offered["direct"] = schedule_convolution
    if family == "depthwise" and is_blocked_convolution(nest, packs, "n o i j p q"):
        offered["depthwise"] = schedule_depthwise
    if family == "matmul" and matrix_operands(nest, packs) is not None:
        offered["tiled"] = schedule_matmul
    offered["plain"] = schedule_plain
    return offered


__all__ = [
    "Choice",
    "Machine",
    "Pack",
    "Schedule",
    "ScheduledKernel",
    "Step",
    "schedule_kernel",
]
