"""From a compilation to a trace: records only, for views, files and other programs."""

from __future__ import annotations

import json
from collections.abc import Callable

from explorer.compilation.compiled import Compiled
from explorer.errors import ModelError
from explorer.importers import SourceModel, SourceValue
from explorer.importers.format import format_named
from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.program import Snapshot
from explorer.ir.structure import walk_inside
from explorer.ir.top.data import WeightOp
from explorer.ir.types import ELEMENT_TYPES, format_shape
from explorer.processor import processor_family
from explorer.references.interface import reference_of
from explorer.results import (
    TRACE_VERSION,
    AccuracyReport,
    MemoryPlan,
    ModelRecord,
    PackagesRecord,
    PortsRecord,
    ProfileRecord,
    Trace,
    placement,
    weights,
)
from explorer.results.deferring import Later, deferring
from explorer.results.package import PART as PACKAGES
from explorer.results.source import source_lines
from explorer.results.trace import MadeParts, SnapshotRecord
from explorer.targets.together import joined


def make_trace(
    compiled: Compiled,
    accuracy: AccuracyReport | None,
    profile: ProfileRecord | None,
    with_code: bool = True,
    ports: PortsRecord | None = None,
) -> Trace:
    """The whole compilation as data. Unchanged snapshots stay the same object.

    Texts and graphs are made when they are first looked at, and so are the measures of passes.
    """
    seen: dict[int, SnapshotRecord] = {}
    snapshots = []
    for result in compiled.passes:
        key = id(result.after)
        if key not in seen:
            seen[key] = snapshot_record(result.after)
        snapshots.append(seen[key])
    device = compiled.device.name if compiled.device else ""
    return Trace(
        version=TRACE_VERSION,
        model=model_record(compiled.model),
        target=joined(compiled.targets),
        device=device,
        processor=processor_family(),
        label=compiled.label,
        passes=tuple(r.record for r in compiled.passes),
        snapshots=tuple(snapshots),
        diffs=tuple(r.diff for r in compiled.passes),
        decisions=tuple((k, json.dumps(v)) for k, v in compiled.decisions().items()),
        memory=_memory_of(compiled),
        kernels=tuple(compiled.kernels.values()) if with_code else (),
        program=compiled.program if with_code else None,
        accuracy=accuracy,
        profile=profile,
        knobs=tuple(compiled.knobs),
        rules=compiled.rule_records,
        source=snapshot_record(compiled.source),
        operators=compiled.operators,
        constraints=compiled.constraints,
        lookups=compiled.lookups,
        searches=compiled.searches,
        language=compiled.backend.title,
        costs=compiled.costs(profile.threads) if profile and with_code else (),
        quantization=compiled.quantization,
        ports=ports,
        parts=MadeParts(_parts(compiled)),
    )


def _parts(compiled: Compiled) -> dict[str, Callable[[], object]]:
    """What few look at is made when it is asked for."""
    made: dict[str, Callable[[], object]] = {
        weights.PART: lambda: _weights(compiled.passes[0].after)
    }
    if compiled.settings.others:
        made[placement.PART] = lambda: compiled.placement
    if compiled.packages:
        packages = PackagesRecord(tuple(compiled.packages))
        made[PACKAGES] = lambda: packages
    return made


def _weights(imported: Snapshot) -> weights.WeightsRecord:
    """Every weight that an operation reads, once."""
    readers: dict[str, str] = {}
    for op in walk_inside(imported.program):
        if isinstance(op, WeightOp) and (reader := _reader(op)) is not None:
            readers.setdefault(op.weight.data, identity_of(reader))
    return weights.WeightsRecord.of(
        (name, reader, imported.weights[name]) for name, reader in readers.items()
    )


def _reader(op: TopOperation) -> TopOperation | None:
    """The first operation that computes with a result: those that only move it are passed."""
    use = next(iter(op.results[0].uses), None)
    if use is None or not isinstance(use.operation, TopOperation):
        return None
    reader = use.operation
    return (_reader(reader) or reader) if reader.FAMILY == "movement" else reader


def snapshot_record(snapshot: Snapshot) -> SnapshotRecord:
    """A program's text and graph, each made when it is first looked at."""
    return deferring(
        SnapshotRecord, text=Later(lambda: snapshot.text), graph=Later(lambda: snapshot.graph)
    )


def model_record(model: SourceModel) -> ModelRecord:
    """What the views say of the model itself."""
    return ModelRecord(
        name=model.name,
        format=model.format,
        producer=model.producer,
        opset=model.opset,
        nodes=len(model.nodes),
        parameters=model.parameters,
        inputs=tuple((v.name, _describe(v)) for v in model.inputs),
        outputs=tuple((v.name, _describe(v)) for v in model.outputs),
        source_nodes=tuple((n.name, n.operator, n.text) for n in model.nodes),
        source_lines=source_lines((n.name, n.places) for n in model.nodes if n.places),
        judge=_judge(model),
        differences=format_named(model.format).differences,
    )


def _judge(model: SourceModel) -> str:
    try:
        return reference_of(model).title_of(model)
    except ModelError:  # nobody else runs models of the format
        return ""


def _describe(value: SourceValue) -> str:
    """`1x1x8x8 f32`; only what the file says."""
    if value.shape is None or not value.element_type:
        return value.element_type
    element_type = ELEMENT_TYPES.get(value.element_type, value.element_type)
    return f"{format_shape(value.shape)} {element_type}"


def _memory_of(compiled: Compiled) -> MemoryPlan:
    """That of the first target; where nothing runs there, that of what runs instead."""
    if compiled.plans or compiled.companion is None:
        return compiled.memory
    return compiled.companion.memory
