"""The passes of the kernel path: compute definitions -> textbook loops -> scheduled loops.

linalg.generic          lower-to-loops     affine.for nests, one per statement
affine.for nests        schedule-loops     tiled, packed, vectorized; weights packed to match
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from xdsl.dialects import func
from xdsl.ir import SSAValue

from explorer.errors import InputError, PassError
from explorer.ir.deferred import ArrayForm
from explorer.ir.dialects.kernel import KernelArgument, LaunchOp, kernel_arguments
from explorer.ir.rewriting import RecordedRewriter, Rewrite, RewriteOptions
from explorer.ir.rewriting.passes import KNOBS, EventLog, Pass
from explorer.ir.structure import kernel_functions, operations
from explorer.ir.top.data import WeightOp
from explorer.ir.types import layout_of
from explorer.kernels.loops.lowering import lower_to_loops
from explorer.kernels.loops.nest import ScheduleError
from explorer.kernels.program.packing import pack_weight, packed_weight_shape
from explorer.kernels.schedules import (
    CHOOSE,
    PLAIN,
    Machine,
    preferred_schedule,
    schedule_once,
)
from explorer.kernels.schedules.listing import GIVEN
from explorer.kernels.schedules.schedule import Choice, ScheduledKernel
from explorer.kernels.schedules.workload import workload_digest
from explorer.kernels.steps.narrow import narrowed_weights
from explorer.kernels.steps.pack import Pack, blocked_pack, is_identity
from explorer.kernels.steps.winograd.step import winograd_weights

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


class Tuned(Protocol):
    """Where schedules are kept that a search has measured to be faster."""

    def find(self, workload: str) -> tuple[Mapping[str, Choice], str] | None:
        """The choices for a workload's digest, and what was measured; None where none is kept."""
        ...


@dataclass(frozen=True)
class ScheduleLoops(Pass):
    """Loop nests are tiled for registers, packed, vectorized and divided into parallel tasks.

    Decisions are addressed `schedule-loops/KERNEL/CHOICE`, e.g. `schedule-loops/conv_1/pixels`. A
    kernel of which nothing is overridden gets its tuned schedule, if there is one.
    """

    machine: Machine
    tuned: Tuned | None = None

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
            choices = overridden_choices(self.name, name, options)
            measured = self._find_tuned(present, packs) if not choices else None
            kernel = None
            if measured is not None:
                kernel = self._schedule_tuned(present, packs, measured, events)
            if kernel is None:
                kernel = self._schedule(present, packs, choices, events)
            with events.rewrite("schedule", present, f"schedule {kernel.choices['schedule']}"):
                scheduled[name] = kernel
                rewriter.replace_function(present, kernel.function)
                for launch in users:
                    pack_weights(launch, present, kernel, rewriter)
        rewriter.artifacts[KERNELS] = scheduled
        rewriter.artifacts[KNOBS] = tuple(
            replace(knob, address=f"{self.name}/{name}/{knob.address}")
            for name, kernel in scheduled.items()
            for knob in kernel.knobs
        )
        return events.rewrites

    def _schedule(
        self,
        kernel: func.FuncOp,
        packs: Mapping[str, Pack],
        choices: Mapping[str, Choice],
        events: EventLog,
    ) -> ScheduledKernel:
        """The first schedule that fits, the plain one at last; the events say why not others.

        Raises InputError for an override that is not legal, naming what is.
        """
        refused: dict[str, str] = {}
        while True:
            try:
                return schedule_once(kernel, self.machine, packs, choices, refused)
            except ScheduleError as error:
                if error.step == CHOOSE or "schedule" in choices or GIVEN in choices:
                    raise self._refused(error, kernel) from error
                preferred = preferred_schedule(kernel, packs, self.machine, refused)
                if preferred == PLAIN:
                    raise self._failed(error, kernel) from error
                events.decline("schedule", kernel, str(error), TILED)
                refused[preferred] = error.reason

    def _find_tuned(
        self, kernel: func.FuncOp, packs: Mapping[str, Pack]
    ) -> tuple[Mapping[str, Choice], str] | None:
        if self.tuned is None:
            return None
        return self.tuned.find(workload_digest(kernel, packs, self.machine))

    def _schedule_tuned(
        self,
        kernel: func.FuncOp,
        packs: Mapping[str, Pack],
        measured: tuple[Mapping[str, Choice], str],
        events: EventLog,
    ) -> ScheduledKernel | None:
        """None where the choices are not legal (any more); an event says why."""
        choices, why = measured
        try:
            return schedule_once(kernel, self.machine, packs, choices, tuned=why)
        except ScheduleError as error:
            events.decline("tuned", kernel, str(error), why)
            return None

    def _failed(self, error: ScheduleError, kernel: func.FuncOp) -> PassError:
        return PassError(str(error), pass_name=self.name, operation=kernel.sym_name.data)

    def _refused(self, error: ScheduleError, kernel: func.FuncOp) -> InputError:
        name = kernel.sym_name.data
        hint = f"decisions of this kernel are addressed {self.name}/{name}/CHOICE"
        if error.step == GIVEN:
            hint = (
                "change that step, leave it out, or go back to the steps as they were; in Python "
                f"kernels[{name!r}].schedule of the compilation before has them"
            )
        return InputError(f"kernel {name} cannot be scheduled as asked: {error.reason}", hint=hint)


def activation_packs(definition: func.FuncOp, launch: LaunchOp) -> dict[str, Pack]:
    """The layouts in which activations come and go, by argument name; plain ones left out."""
    packs: dict[str, Pack] = {}
    operands, results = iter(launch.operands), iter(launch.results)
    for argument in kernel_arguments(definition):
        if argument.role == "scratch":
            continue
        value: SSAValue = next(results if argument.role == "output" else operands)
        block = layout_of(value).block
        if block and argument.role != "weight":
            packs[argument.name] = tuple(blocked_pack(block))
    return packs


def overridden_choices(pass_name: str, kernel: str, options: RewriteOptions) -> dict[str, Choice]:
    """Overrides of a kernel's choices, by the choices' names."""
    prefix = f"{pass_name}/{kernel}/"
    found = {a: v for a, v in options.decisions.items() if a.startswith(prefix)}
    for address, value in found.items():
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise InputError(f"{address} cannot be {value!r}: a number or a word is expected")
    options.met.update(found)
    return {a.removeprefix(prefix): v for a, v in found.items() if isinstance(v, int | str)}


def pack_weights(
    launch: LaunchOp,
    definition: func.FuncOp,
    kernel: ScheduledKernel,
    rewriter: RecordedRewriter,
) -> None:
    """The launch's weights in the form and layout that the scheduled kernel reads."""
    index = -1
    for argument in kernel_arguments(definition):
        if argument.role in ("output", "scratch"):
            continue
        index += 1
        pack = kernel.packs.get(argument.name)
        if argument.role != "weight" or pack is None:
            continue
        changed = {*winograd_weights(kernel.function), *narrowed_weights(kernel.function)}
        if is_identity(pack) and argument.name not in changed:
            continue
        owner = launch.operands[index].owner
        assert isinstance(owner, WeightOp)
        stored = _packed_weight(launch, owner, argument, kernel, pack, rewriter)
        rewriter.set_operand(launch, index, stored)
        if not owner.output.uses:
            rewriter.erase(owner)


def _packed_weight(
    launch: LaunchOp,
    weight: WeightOp,
    argument: KernelArgument,
    kernel: ScheduledKernel,
    pack: Pack,
    rewriter: RecordedRewriter,
) -> SSAValue:
    """The weight in the kernel's layout, in front of the launch. Its numbers are packed later."""
    weights, name = rewriter.weights, weight.weight.data
    kernel_shape = argument.type.get_shape()  # pyright: ignore[reportAttributeAccessIssue]
    outputs = winograd_weights(kernel.function).get(argument.name)
    shape = packed_weight_shape(kernel_shape, outputs, pack)
    is_narrow = argument.name in narrowed_weights(kernel.function)
    dtype = np.dtype(np.float16) if is_narrow else weights.form(name).dtype
    return rewriter.add_weight_later(
        launch,
        f"{name}.packed",
        ArrayForm(tuple(shape), dtype),
        lambda: pack_weight(weights[name].reshape(kernel_shape), outputs, pack, is_narrow),
        recipe=("packed", name, kernel_shape, outputs, tuple(pack), is_narrow),
        like=weight,
    )
