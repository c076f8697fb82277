"""Schedules: which steps a kernel gets, by the family that it belongs to.

    schedule_kernel(function, Machine(16, "c"), {"x": blocked_pack(16), "y": blocked_pack(16)})
        -> ScheduledKernel(steps=(lower, split, reorder, accumulate, fuse, pack, ...), choices=
           {"schedule": "direct", "vectors": 2, "pixels": 14, "rows": 1, "channel_unroll": 1})

convolution.py, matmul.py and plain.py hold the schedules, tiles.py chooses register tiles,
choices.py lets a caller decide otherwise, schedule.py remembers the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from xdsl.dialects import func
from xdsl.dialects.builtin import StringAttr

from explorer.kernels.nest import LoopNest
from explorer.kernels.schedules.choices import CHOOSE, Choices
from explorer.kernels.schedules.convolution import (
    is_blocked_convolution,
    schedule_convolution,
    schedule_depthwise,
)
from explorer.kernels.schedules.integers import is_integer_product, schedule_integers
from explorer.kernels.schedules.machine import Machine
from explorer.kernels.schedules.matmul import matrix_operands, schedule_matmul
from explorer.kernels.schedules.plain import schedule_plain
from explorer.kernels.schedules.schedule import Choice, Schedule, ScheduledKernel, Step
from explorer.kernels.steps.pack import Pack

PLAIN = "plain"
"""The schedule that every kernel can have."""

PRODUCTS = ("convolution", "depthwise", "grouped_convolution", "matmul")

Scheduler = Callable[[Schedule, Machine, Mapping[str, Pack], Choices], None]


WHY: Mapping[str, str] = {
    "direct": "blocked channels: sums of whole vectors stay in registers",
    "depthwise": "blocked channels: every vector of channels is filtered by itself",
    "tiled": "a product of matrices: a tile of sums stays in registers",
    "rows": "sums of integers: rows of them stay in registers",
    PLAIN: "no schedule of its own kind fits this kernel",
}
"""Why a schedule is the first that is offered."""


def schedule_kernel(
    function: func.FuncOp,
    machine: Machine,
    packs: Mapping[str, Pack],
    choices: Mapping[str, Choice] | None = None,
    refused: Mapping[str, str] | None = None,
) -> ScheduledKernel:
    """Schedules a kernel made by `KernelBuilder`; the function itself is not changed.

    `packs` are the layouts of arguments that aren't row-major; the schedule adds those of weights.
    `choices` override what the schedule would choose (the result lists all of them); `refused`
    are schedules that are not offered, with the reason. Raises ScheduleError for choices that are
    illegal (its step is `CHOOSE`) and for layouts that the kernel cannot have.
    """
    schedule = Schedule(function)
    asked = Choices(schedule.nest.kernel, choices)
    fitting = _schedulers(schedule.nest, packs)
    offered = {name: use for name, use in fitting.items() if name not in (refused or {})}
    best = next(iter(offered))
    reasons = [f"not {other}: {reason}" for other, reason in (refused or {}).items()]
    name = asked.word("schedule", best, offered, "; ".join(reasons) or WHY[best])
    offered[name](schedule, machine, packs, asked)
    schedule.choices = asked.finish()
    schedule.knobs = tuple(asked.knobs)
    return replace(
        schedule.finish(packs),
        given=dict(choices or {}),
        given_packs=dict(packs),
        is_fallback=bool(refused),
    )


def preferred_schedule(function: func.FuncOp, packs: Mapping[str, Pack]) -> str:
    """The schedule that a kernel gets where nothing is overridden or refused."""
    return next(iter(_schedulers(Schedule(function).nest, packs)))


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
    if family in PRODUCTS and is_integer_product(nest, packs):
        offered["rows"] = schedule_integers
    offered[PLAIN] = schedule_plain
    return offered


__all__ = [
    "CHOOSE",
    "PLAIN",
    "Choice",
    "Machine",
    "Pack",
    "Schedule",
    "ScheduledKernel",
    "Step",
    "preferred_schedule",
    "schedule_kernel",
]
