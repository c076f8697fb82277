"""From a compilation to a trace: records only, for views, files and other programs."""

from __future__ import annotations

import json

from explorer.compilation.compiled import Compiled
from explorer.importers import SourceModel, SourceValue
from explorer.ir.types import ELEMENT_TYPES, format_shape
from explorer.results import (
    TRACE_VERSION,
    AccuracyReport,
    ModelRecord,
    ProfileRecord,
    Trace,
)
from explorer.results.trace import Snapshot as SnapshotRecord


def make_trace(
    compiled: Compiled,
    accuracy: AccuracyReport | None,
    profile: ProfileRecord | None,
    with_code: bool = True,
) -> Trace:
    """The whole compilation as data. Unchanged snapshots stay the same object."""
    seen: dict[int, SnapshotRecord] = {}
    snapshots = []
    for result in compiled.passes:
        key = id(result.after)
        if key not in seen:
            seen[key] = SnapshotRecord(result.after.text, result.after.graph)
        snapshots.append(seen[key])
    device = compiled.device.name if compiled.device else ""
    return Trace(
        TRACE_VERSION,
        model_record(compiled.model),
        compiled.target.name,
        device,
        compiled.label,
        tuple(r.record for r in compiled.passes),
        tuple(snapshots),
        tuple(r.diff for r in compiled.passes),
        tuple((k, json.dumps(v)) for k, v in compiled.decisions().items()),
        compiled.memory,
        tuple(compiled.kernels.values()) if with_code else (),
        compiled.program if with_code else None,
        accuracy,
        profile,
        compiled.knobs,
        compiled.rule_records,
        SnapshotRecord(compiled.source.text, compiled.source.graph),
        compiled.operators,
        constraints=compiled.constraints,
        lookups=compiled.lookups,
        searches=compiled.searches,
        language=compiled.backend.title,
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
