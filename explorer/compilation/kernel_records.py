"""Kernels as records: the steps of their schedules, and what a device's compiler makes of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from explorer.backends.interface import Backend
from explorer.ir.inspection.printing import show
from explorer.kernels.schedules.listing import as_data
from explorer.kernels.schedules.schedule import ScheduledKernel, replayed
from explorer.results import (
    KernelRecord,
    Program,
    ScheduleCall,
    ScheduleStep,
)
from explorer.runtime.devices import DeviceRecord


def schedule_steps(kernel: ScheduledKernel) -> tuple[ScheduleStep, ...]:
    """The schedule's steps as records, each with the loop nest after it as text."""
    return tuple(
        ScheduleStep(
            step.name,
            step.arguments,
            show(function, tags_by_location=True),
            sum(1 for _ in function.walk()) - 1,
        )
        for step, function in replayed(kernel.steps)
    )


def schedule_calls(kernel: ScheduledKernel) -> tuple[ScheduleCall, ...]:
    """The schedule's steps with all their arguments, as `KernelRecord.schedule` shows them."""
    return tuple(
        ScheduleCall(
            str(row["step"]),
            tuple((key, json.dumps(value)) for key, value in row.items() if key != "step"),
        )
        for row in as_data(kernel.steps[-1].calls)
    )


def with_schedule(record: KernelRecord, kernel: ScheduledKernel) -> KernelRecord:
    """The record with its schedule, and with a note where a better one could not be applied."""
    refused = [f"not {name}: {reason}" for name, reason in kernel.refused.items()]
    note = f"scheduled {kernel.choices['schedule']}, {'; '.join(refused)}" if refused else ""
    return replace(record, steps=schedule_steps(kernel), calls=schedule_calls(kernel), note=note)


def with_assembly(
    kernels: Mapping[str, KernelRecord],
    program: Program,
    backend: Backend,
    device: DeviceRecord | None,
) -> dict[str, KernelRecord]:
    """The records with their assembly, its links to the source, or why there is none."""
    programs = [p.program for p in program.parts if p.program is not None and p.program.kernels]
    found = {
        name: assembly
        for each in programs or [program]
        for name, assembly in backend.assembly(each, device).items()
    }
    return {
        name: replace(
            kernel,
            assembly=found[name].text,
            assembly_lines=found[name].source_lines,
            assembly_note=found[name].note,
        )
        for name, kernel in kernels.items()
    }
