"""The passes of the kernel path: compute definitions -> textbook loops -> scheduled loops.

linalg.generic          lower-to-loops     affine.for nests, one per statement
affine.for nests        schedule-loops     tiled, packed, vectorized; weights packed to match
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.dialects import func
from xdsl.ir import SSAValue

from explorer.errors import PassError
from explorer.ir.kernel_dialect import LaunchOp, kernel_arguments
from explorer.ir.operation import identity_of
from explorer.ir.passes import EventLog, Pass
from explorer.ir.rewriting import RecordedRewriter, Rewrite, RewriteOptions
from explorer.ir.structure import kernel_functions, operations
from explorer.ir.top.data import WeightOp
from explorer.ir.types import layout_of
from explorer.kernels.lowering import lower_to_loops
from explorer.kernels.nest import ScheduleError
from explorer.kernels.schedules import Machine, schedule_kernel
from explorer.kernels.schedules.schedule import Choice, ScheduledKernel
from explorer.kernels.steps.pack import Pack, blocked_pack, is_identity, packed_shape

TILED = "a schedule of its own kind: tiles in registers, packed weights"
KERNELS = "kernels"
"""Name of the artifact that holds the scheduled kernels."""


@dataclass(frozen=True)
class LowerToLoops(Pass):
    """Every statement of a kernel becomes the loop nest that a textbook would write."""

    name = "lower-to-loops"
    level = "loops"
    is_required = True

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        events = EventLog(self.name, rewriter)
        for kernel in kernel_functions(rewriter.module).values():
            with events.rewrite("lower", kernel, "statements become loop nests"):
                rewriter.replace_function(kernel, lower_to_loops(kernel))
        return events.rewrites


@dataclass(frozen=True)
class ScheduleLoops(Pass):
    """Loop nests are tiled for registers, packed, vectorized and divided into parallel tasks.

    Decisions are addressed `schedule-loops/KERNEL/CHOICE`, e.g. `schedule-loops/conv_1/pixels`.
    """

    machine: Machine

    name = "schedule-loops"
    level = "scheduled"
    is_required = True

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        events = EventLog(self.name, rewriter)
        launches = [op for op in operations(rewriter.module) if isinstance(op, LaunchOp)]
        by_kernel: dict[str, list[LaunchOp]] = {}
        for launch in launches:
            by_kernel.setdefault(launch.kernel.data, []).append(launch)
        scheduled: dict[str, ScheduledKernel] = {}
        for name, present in kernel_functions(rewriter.module).items():
            users = by_kernel[name]
            packs = activation_packs(present, users[0])
            choices = overridden_choices(self.name, name, options.decisions)
            try:
                kernel = schedule_kernel(present, self.machine, packs, choices)
            except ScheduleError as error:
                if choices:
                    raise PassError(
                        str(error), pass_name=self.name, operation=identity_of(users[0])
                    ) from error
                events.decline("schedule", present, str(error), TILED)
                kernel = schedule_kernel(present, self.machine, packs, {"schedule": "plain"})
            with events.rewrite("schedule", present, f"schedule {kernel.choices['schedule']}"):
                scheduled[name] = kernel
                rewriter.replace_function(present, kernel.function)
                for launch in users:
                    pack_weights(launch, present, kernel.packs, rewriter)
        rewriter.artifacts[KERNELS] = scheduled
        return events.rewrites


def activation_packs(definition: func.FuncOp, launch: LaunchOp) -> dict[str, Pack]:
    """The layouts in which activations come and go, by argument name; plain ones left out."""
    packs: dict[str, Pack] = {}
    operands = iter(launch.operands)
    for argument in kernel_arguments(definition):
        if argument.role == "scratch":
            continue
        value: SSAValue = launch.output if argument.role == "output" else next(operands)
        block = layout_of(value).block
        if block and argument.role != "weight":
            packs[argument.name] = tuple(blocked_pack(block))
    return packs


def overridden_choices(
    pass_name: str, kernel: str, decisions: Mapping[str, object]
) -> dict[str, Choice]:
    prefix = f"{pass_name}/{kernel}/"
    return {
        address.removeprefix(prefix): value
        for address, value in decisions.items()
        if address.startswith(prefix) and isinstance(value, int | str)
    }


def pack_weights(
    launch: LaunchOp,
    definition: func.FuncOp,
    packs: Mapping[str, Pack],
    rewriter: RecordedRewriter,
) -> None:
    """The launch's weights in the layout that the scheduled kernel reads."""
    index = -1
    for argument in kernel_arguments(definition):
        if argument.role in ("output", "scratch"):
            continue
        index += 1
        pack = packs.get(argument.name)
        if argument.role != "weight" or pack is None or is_identity(pack):
            continue
        owner = launch.operands[index].owner
        assert isinstance(owner, WeightOp)
        kernel_shape = argument.type.get_shape()  # pyright: ignore[reportAttributeAccessIssue]
        array = rewriter.weights[owner.weight.data].reshape(kernel_shape)
        packed = pack_array(array, pack)
        stored = rewriter.add_weight(launch, f"{owner.weight.data}.packed", packed, like=owner)
        rewriter.set_operand(launch, index, stored)
        if not owner.output.uses:
            rewriter.erase(owner)


def pack_array(array: np.ndarray, pack: Pack) -> np.ndarray:
    """The array in a packed layout; what fills up the last blocks is zero.

    Each old dimension is cut into the digits that the layout asks for, then the digits are put
    in the layout's order: (dimension, divisor, modulus) is one digit.
    """
    digits: list[list[tuple[int, int]]] = []
    for dimension in range(array.ndim):
        entries = [(i, e) for i, e in enumerate(pack) if e[0] == dimension]
        entries.sort(key=lambda item: -item[1][1])
        shape = packed_shape(array.shape, pack)
        digits.append([(i, shape[i]) for i, _ in entries])
    padded = [max(prod(s for _, s in parts), 1) for parts in digits]
    widths = [(0, new - old) for old, new in zip(array.shape, padded, strict=True)]
    if any(new for _, new in widths):
        array = np.pad(array, widths)
    split = array.reshape([s for parts in digits for _, s in parts])
    order = [i for parts in digits for i, _ in parts]
    return np.ascontiguousarray(np.transpose(split, np.argsort(order)))
