"""A trace as data for the explorer: a small head for the first paint, and chunks by key.

    Trace  ->  head    model, passes with their counts, kernels, verdict       (some KB)
               chunks  "nodes/0"    operations, shared by all snapshots
                       "graph/2"    snapshot 2: its operations and edges
                       "text/2"     snapshot 2: its IR as runs of "lines/0", "lines/1"
                       "pass/3"     difference, rewrites and declined candidates of pass 3
                       "picture/2"  its drawing, where blocks of a large graph are collapsed
               "layout"     one position for every operation of every snapshot
                       "kernel/1"   schedule steps, source, assembly
                       "memory", "accuracy", "tensors/0", "profile", "program", "source"

Everything that a model or a pass named is a string in here, and becomes text on the screen, never
markup. Chunks are made when asked for; `chunk_messages` cuts them into messages below 1 MB.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from explorer.results import AccuracyReport, GraphDiff, PassRecord, RewriteEvent, Trace
from explorer.results.trace import Snapshot
from explorer.views.collapse import collapse_together, hidden_operations
from explorer.views.payload_graph import NodeTable, diff_payload, layout_payload
from explorer.views.payload_measures import (
    AccuracyTables,
    kernel_payload,
    memory_payload,
    number,
    profile_payload,
    worst_of,
)
from explorer.views.payload_text import Json, LineTable
from explorer.views.theme import judge

PAYLOAD_VERSION = 1
MESSAGE_CHARACTERS = 400_000
"""Characters of one message; at most 4 bytes each in UTF-8, in practice one."""


PICTURE_NODES = 1000
"""Most operations that are drawn one by one; beyond that, blocks are collapsed."""


class UnknownChunk(KeyError):
    """A chunk was asked for that this payload doesn't have."""

    def __init__(self, key: str, known: list[str]) -> None:
        super().__init__(key)
        self.key, self.known = key, known

    def __str__(self) -> str:
        kinds = ", ".join(sorted({key.split("/")[0] for key in self.known}))
        return f"the trace has no chunk {self.key!r}; there are chunks of {kinds}"


@dataclass(frozen=True)
class TracePayload:
    """The head, and for every key what makes the chunk."""

    head: Json
    makers: Mapping[str, Callable[[], Json]]

    def chunk_keys(self) -> list[str]:
        return list(self.makers)

    def chunk(self, key: str) -> Json:
        """One chunk as JSON-able data.

        Raises:
            UnknownChunk: when there is none of that key.
        """
        if key not in self.makers:
            raise UnknownChunk(key, self.chunk_keys())
        return self.makers[key]()


def trace_payload(trace: Trace, against: Trace | None = None) -> TracePayload:
    """The payload of a compilation, and of its comparison with another one (a fork) if given."""
    snapshots = _distinct_snapshots(trace)
    table, lines = NodeTable(), LineTable()
    graphs = [table.add(snapshot.graph) for snapshot in snapshots.distinct]
    texts = [lines.add(snapshot.text) for snapshot in snapshots.distinct]
    names = [record.name for record in trace.passes]
    tables = None if trace.accuracy is None else AccuracyTables.of(trace.accuracy, names)
    pictures = collapse_together([s.graph for s in snapshots.distinct], PICTURE_NODES)
    hidden = [hidden_operations(picture) for picture in pictures]
    drawn = [table.add(picture) for picture in pictures] if any(hidden) else graphs

    makers: dict[str, Callable[[], Json]] = {}
    for index in range(table.page_count()):
        makers[f"nodes/{index}"] = partial(table.page, index)
    for index, (graph, text) in enumerate(zip(graphs, texts, strict=True)):
        makers[f"graph/{index}"] = partial(_constant, graph)
        makers[f"text/{index}"] = partial(_constant, text)
    for index in range(len(lines.lines)):
        makers[f"lines/{index}"] = partial(lines.page, index)
    for index, (record, diff) in enumerate(zip(trace.passes, trace.diffs, strict=True)):
        makers[f"pass/{index}"] = partial(_pass_payload, record, diff)
    for index, picture in enumerate(drawn):
        makers[f"picture/{index}"] = partial(_constant, picture)
    makers["layout"] = partial(layout_payload, pictures)
    for index, kernel in enumerate(trace.kernels):
        makers[f"kernel/{index}"] = partial(kernel_payload, kernel)
    if trace.memory is not None:
        makers["memory"] = partial(memory_payload, trace.memory)
    if tables is not None:
        makers["accuracy"] = tables.heat_map
        for index in range(tables.page_count()):
            makers[f"tensors/{index}"] = partial(tables.page, index)
    if trace.profile is not None:
        makers["profile"] = partial(profile_payload, trace.profile)
    if trace.program is not None:
        makers["program"] = partial(_program_payload, trace)
    makers["source"] = partial(_constant, [list(node) for node in trace.model.source_nodes])

    checks = _checks(trace.accuracy, tables)
    head = {
        "version": PAYLOAD_VERSION,
        "model": _model_payload(trace),
        "target": trace.target,
        "device": trace.device,
        "label": trace.label,
        "passes": [
            {
                **_pass_summary(record, diff),
                "snapshot": snapshots.place[index],
                "hidden": hidden[snapshots.place[index]],
                **checks.get(index, {"check": "not-run", "worst": None}),
            }
            for index, (record, diff) in enumerate(zip(trace.passes, trace.diffs, strict=True))
        ],
        "rules": _rules(trace),
        "summary": _summary(trace),
        "pages": {"nodes": table.page_count(), "lines": len(lines.lines)},
        "kernels": [
            {"name": k.name, "kind": k.kind, "operations": list(k.operations), "flops": k.flops,
             "bytes": k.bytes_moved, "steps": len(k.steps), "lines": len(k.source.lines),
             "assembly": k.assembly is not None}
            for k in trace.kernels
        ],
        "launches": []
        if trace.program is None
        else [
            [launch.operation, launch.kernel, [table.source(name) for name in launch.sources]]
            for launch in trace.program.launches
        ],
        "has": {
            "memory": trace.memory is not None,
            "accuracy": trace.accuracy is not None,
            "profile": trace.profile is not None,
            "program": trace.program is not None,
            "compare": against is not None,
        },
        "compare": None if against is None else _comparison(trace, against),
    }  # fmt: skip
    # After everything that may name a source node.
    head["sources"] = list(table.sources)
    return TracePayload(head, makers)


def encode(value: Json) -> str:
    """Compact JSON; refuses NaN and infinities, which `number` turns into strings."""
    return json.dumps(value, allow_nan=False, separators=(",", ":"), ensure_ascii=False)


def chunk_messages(
    key: str, text: str, revision: int, most: int = MESSAGE_CHARACTERS
) -> Iterator[Json]:
    """A chunk's JSON text as messages of at most `most` characters, numbered to be joined."""
    pieces = [text[start : start + most] for start in range(0, max(len(text), 1), most)]
    for part, piece in enumerate(pieces):
        yield {
            "kind": "chunk",
            "key": key,
            "revision": revision,
            "part": part,
            "parts": len(pieces),
            "text": piece,
        }


@dataclass(frozen=True)
class _Snapshots:
    distinct: list[Snapshot]
    place: list[int]
    """For every pass the index of its snapshot in `distinct`."""


def _distinct_snapshots(trace: Trace) -> _Snapshots:
    """Equal neighbours share one entry; a loaded trace may hold equal but separate objects."""
    distinct: list[Snapshot] = []
    place = []
    for snapshot in trace.snapshots:
        if not distinct or (snapshot is not distinct[-1] and snapshot != distinct[-1]):
            distinct.append(snapshot)
        place.append(len(distinct) - 1)
    return _Snapshots(distinct, place)


def _constant(value: Json) -> Json:
    return value


def _model_payload(trace: Trace) -> Json:
    model = trace.model
    return {
        "name": model.name,
        "format": model.format,
        "producer": model.producer,
        "opset": model.opset,
        "nodes": model.nodes,
        "parameters": model.parameters,
        "inputs": [list(pair) for pair in model.inputs],
        "outputs": [list(pair) for pair in model.outputs],
    }


def _pass_summary(record: PassRecord, diff: GraphDiff) -> Json:
    applied = sum(event.applied for event in record.events)
    return {
        "name": record.name,
        "description": record.description,
        "level": record.level,
        "seconds": number(record.seconds),
        "changed": record.changed,
        "before": record.operations_before,
        "after": record.operations_after,
        "macs": record.macs,
        "peak": record.peak_bytes,
        "added": len(diff.added),
        "removed": len(diff.removed),
        "edited": len({change.id for change in diff.changed}),
        "fused": len(diff.fused),
        "rewrites": applied,
        "declined": len(record.events) - applied,
    }


def _pass_payload(record: PassRecord, diff: GraphDiff) -> Json:
    return {
        "diff": diff_payload(diff),
        "events": [_event_payload(event) for event in record.events],
    }


def _event_payload(event: RewriteEvent) -> Json:
    delta = event.delta
    return [
        event.address,
        event.rule,
        event.applied,
        event.site,
        list(event.matched),
        list(event.produced),
        event.reason,
        number(event.microseconds),
        [list(pair) for pair in delta.removed],
        [list(pair) for pair in delta.added],
        [list(triple) for triple in delta.changed],
    ]


def _rules(trace: Trace) -> Json:
    """What every rule does and where its source stands; the same at each of its sites."""
    rules: dict[str, list[str]] = {}
    for record in trace.passes:
        for event in record.events:
            rules.setdefault(event.rule, [event.explanation, event.rule_source])
    return [[name, *about] for name, about in rules.items()]


def _checks(report: AccuracyReport | None, tables: AccuracyTables | None) -> dict[int, Json]:
    """Verdict and worst error by index of the pass."""
    if report is None or tables is None:
        return {}
    checks = {}
    for place, accuracy in zip(tables.places(report.passes), report.passes, strict=True):
        worst = worst_of(accuracy.tensors)
        error = None if worst is None else worst.max_relative
        checks[place] = {
            "check": judge(error, report.tolerance).name,
            "worst": None if error is None else number(error),
        }
    return checks


def _summary(trace: Trace) -> Json:
    report = trace.accuracy
    errors = [] if report is None else [e for p in report.passes for e in p.tensors]
    # The program that runs is the last one: its worst layer is what the verdict is about.
    final = [] if report is None or not report.passes else report.passes[-1].tensors
    worst = worst_of([*final, *report.outputs]) if report is not None else None
    tolerance = 0.0 if report is None else report.tolerance
    verdict = judge(None if worst is None else worst.max_relative, tolerance).name
    if report is not None and not report.passed:
        verdict = "wrong"
    memory, profile = trace.memory, trace.profile
    return {
        "verdict": verdict,
        "worst": None if worst is None else number(worst.max_relative),
        "worstTensor": "" if worst is None else worst.tensor,
        "worstOperation": "" if worst is None else worst.operation,
        "compared": len(errors),
        "tolerance": number(tolerance),
        "oracle": "" if report is None else report.oracle,
        "peak": None if memory is None else memory.peak_bytes,
        "bound": None if memory is None else memory.bound_bytes,
        "optimal": memory is not None and memory.optimal,
        "milliseconds": None if profile is None else number(profile.milliseconds),
        "threads": 0 if profile is None else profile.threads,
        "seconds": number(sum(record.seconds for record in trace.passes)),
    }


def _program_payload(trace: Trace) -> Json:
    """Launches with their arguments, weights, ports and the whole translation unit."""
    program = trace.program
    assert program is not None
    table = LineTable(page_characters=1 << 60)
    return {
        "launches": [
            [
                launch.operation,
                launch.kernel,
                [[a.name, a.space, a.offset_bytes, a.size_bytes, a.role] for a in launch.arguments],
            ]
            for launch in program.launches
        ],
        "arena": program.arena_bytes,
        "weights": program.weights_bytes,
        "source": table.add(program.source),
        "page": table.page(0),
    }


def _comparison(trace: Trace, against: Trace) -> Json:
    """Two compilations side by side: passes in the order of both, and the totals."""
    ours = {record.name: record for record in trace.passes}
    theirs = {record.name: record for record in against.passes}
    names = [*ours, *(name for name in theirs if name not in ours)]
    rows = []
    for name in names:
        left, right = ours.get(name), theirs.get(name)
        rows.append(
            [
                name,
                None if left is None else left.operations_after,
                None if right is None else right.operations_after,
                None if left is None else sum(e.applied for e in left.events),
                None if right is None else sum(e.applied for e in right.events),
            ]
        )
    return {
        "labels": [trace.label or "this", against.label or "other"],
        "passes": rows,
        "summaries": [_summary(trace), _summary(against)],
        "kernels": [len(trace.kernels), len(against.kernels)],
    }
