"""From a compilation to a trace: records only, for views, files and other programs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from explorer.backends.interface import Backend
from explorer.importers import SourceModel, SourceValue
from explorer.ir.printing import show
from explorer.ir.types import ELEMENT_TYPES, format_shape
from explorer.kernels.schedules.listing import as_data
from explorer.kernels.schedules.schedule import ScheduledKernel, replayed
from explorer.results import (
    TRACE_VERSION,
    AccuracyReport,
    KernelRecord,
    ModelRecord,
    ProfileRecord,
    Program,
    ScheduleCall,
    ScheduleStep,
    Trace,
)
from explorer.results.trace import Snapshot as SnapshotRecord
from explorer.runtime.devices import DeviceRecord

if TYPE_CHECKING:
    from explorer.compilation.compilation import Compilation


def make_trace(
    compilation: Compilation,
    accuracy: AccuracyReport | None,
    profile: ProfileRecord | None,
    with_code: bool = True,
) -> Trace:
    """The whole compilation as data. Unchanged snapshots stay the same object."""
    seen: dict[int, SnapshotRecord] = {}
    snapshots = []
    for result in compilation.passes:
        key = id(result.after)
        if key not in seen:
            seen[key] = SnapshotRecord(result.after.text, result.after.graph)
        snapshots.append(seen[key])
    device = compilation.device.name if compilation.device else ""
    return Trace(
        TRACE_VERSION,
        model_record(compilation.model),
        compilation.target.name,
        device,
        compilation.label,
        tuple(r.record for r in compilation.passes),
        tuple(snapshots),
        tuple(r.diff for r in compilation.passes),
        tuple((k, json.dumps(v)) for k, v in compilation.decisions().items()),
        compilation.memory,
        tuple(compilation.kernels.values()) if with_code else (),
        compilation.program if with_code else None,
        accuracy,
        profile,
        compilation.knobs,
        compilation.rule_records,
        SnapshotRecord(compilation.source.text, compilation.source.graph),
        compilation.operators,
        constraints=compilation.constraints,
        lookups=compilation.lookups,
        searches=compilation.searches,
        language=compilation.backend.title,
    )


def model_record(model: SourceModel) -> ModelRecord:
    """What the views say of the model itself."""
    return ModelRecord(
        model.name,
        model.format,
        model.producer,
        model.opset,
        len(model.nodes),
        model.parameters,
        tuple((v.name, _describe(v)) for v in model.inputs),
        tuple((v.name, _describe(v)) for v in model.outputs),
        tuple((n.name, n.operator, n.text) for n in model.nodes),
    )


def _describe(value: SourceValue) -> str:
    """`1x1x8x8 f32`; only what the file says."""
    if value.shape is None or not value.element_type:
        return value.element_type
    element_type = ELEMENT_TYPES.get(value.element_type, value.element_type)
    return f"{format_shape(value.shape)} {element_type}"


def ladder(kernel: ScheduledKernel) -> tuple[ScheduleStep, ...]:
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
