"""A trace as data for the explorer: a small head for the first paint, and chunks by key.

    Trace  ->  head    model, passes with their counts, verdict       (some KB)
               chunks  "index"      kernels, launches, rules
                       "start/12"   of a large program: all that a picture of pass 12 needs
                       "graphs"     pages of operations, names of source nodes
                       "nodes/0"    operations, shared by all snapshots
                       "graph/2"    snapshot 2: its operations and edges
                       "text/2"     snapshot 2: its IR as runs of the "lines/..." that it names
                       "pass/3"     difference, rewrites and declined candidates of pass 3
                       "measures"   multiply-accumulates and most live bytes after every pass
                       "makers"     which rewrites made or changed an operation
                       "rewrites"   all events of all passes; "film/3/0": what each of them changed
                       "blocks"     the tree of blocks
                       "kernel/1"   schedule steps, source, assembly, what a search tried
               "rules"      the Python text of the rules
               "instructions"   what the instructions of all kernels mean and cost
               "prelude"    what of the program's source stands before the kernels
               "links"      share of linked lines, by level, for the program and every kernel
                       "memory", "accuracy", "accuracy/sqnr", "tensors/0", "details/0", "profile",
                       "source", "decisions", "knobs", "comparison", "difference", "overlay",
                       and of every view with data of its own (register.py) its name

Everything that a model or a pass named is a string in here, and becomes text on the screen, never
markup. Chunks are made when asked for; `chunk_messages` cuts them into messages below 1 MB.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial

from explorer.results import KernelRecord, KernelSearch, Knob, ProfileRecord, Trace
from explorer.results.accuracy import AccuracyReport
from explorer.results.decisions import DIMENSIONS, place_of
from explorer.results.overlays import Overlay
from explorer.views import register
from explorer.views.catalog.search import search_payload
from explorer.views.instructions.table import instructions_payload
from explorer.views.model_step import SOURCE_LEVEL, with_model_step
from explorer.views.needs import parts_of
from explorer.views.payload.comparison import comparison_payload, side_of
from explorer.views.payload.difference import difference_payload
from explorer.views.payload.links import links_payload
from explorer.views.payload.measures import (
    METRICS,
    AccuracyTables,
    judged_payload,
    kernel_payload,
    lookups_payload,
    number,
    profile_payload,
)
from explorer.views.payload.model import problems_payload, source_lines_payload
from explorer.views.payload.passes import (
    checks_of_passes,
    makers_payload,
    measures_payload,
    pass_payload,
    pass_summary,
    rule_texts_payload,
    rules_payload,
)
from explorer.views.payload.replay import replay_makers, saved_keys
from explorer.views.payload.snapshots import NODES, START, SnapshotParts
from explorer.views.payload.text import Json
from explorer.views.theme import REFERENCE, judge, judged_error
from explorer.views.verdicts import worst_judged

PAYLOAD_VERSION = 2
MESSAGE_CHARACTERS = 400_000
"""Characters of one message; at most 4 bytes each in UTF-8, in practice one."""
AT_ONCE = ("memory",)
"""Kinds of settled chunks that are small, or needed by every page."""
GRAPHS = ("graphs", NODES, "blocks", "graph")
"""Those that are as well where the program is so small that a page begins with all passes."""
NOT_AT_FIRST = ("links", "insights")
"""Chunks for which whole programs are gone through, and which the first picture does without."""


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
    settled: frozenset[str]
    """Chunks that stay as they are when kernels, errors and times arrive later."""
    parts: SnapshotParts
    """With the pages of lines and of nodes, which are there once something needs them."""

    @property
    def first(self) -> tuple[str, ...]:
        """Later chunks that the first picture needs."""
        first = self.parts.first
        excerpt = (f"{START}/{first}",) if self.parts.has_excerpts else ()
        return (*excerpt, f"pass/{first}") if f"pass/{first}" in self.makers else excerpt

    def is_later(self, key: str) -> bool:
        """Whether a page needs a chunk only when it shows what that holds: made when asked for."""
        kind = key.split("/")[0]
        at_once = AT_ONCE if self.parts.has_excerpts else (*AT_ONCE, *GRAPHS)
        return (key in self.settled or kind == NODES) and kind not in at_once

    def at_once(self, is_first: bool) -> list[str]:
        """Chunks that a page gets without asking. is_first: before its first picture."""
        missing = NOT_AT_FIRST if is_first else ()
        return [k for k in self.chunk_keys() if not self.is_later(k) and k not in missing]

    def chunk_keys(self) -> list[str]:
        """All that can be asked for by now: each `text/` adds the pages that it needs, and the
        first of all graphs those of the nodes."""
        lines = (f"lines/{name}" for name in self.parts.lines.names())
        return [*self.makers, *self.parts.drawn_makers(is_needed=False), *lines]

    def saved_chunks(self) -> dict[str, Json]:
        """What a saved page holds, made now: all but some frames (`payload/replay.py`), and but
        excerpts, for it holds the whole."""
        keys = [key for key in saved_keys(self.makers) if not key.startswith(f"{START}/")]
        made = {key: self.makers[key]() for key in keys}
        pages = [key for key in self.chunk_keys() if key not in self.makers]
        return {**made, **{key: self.chunk(key) for key in pages}}

    def chunk(self, key: str) -> Json:
        """One chunk as JSON-able data.

        Raises:
            UnknownChunk: when there is none of that key.
        """
        if key in self.makers:
            return self.makers[key]()
        kind, _, name = key.partition("/")
        drawn = self.parts.drawn_makers(is_needed=kind == NODES)
        if key in drawn:
            return drawn[key]()
        page = self.parts.lines.named_page(name) if kind == "lines" else None
        if page is None:
            raise UnknownChunk(key, self.chunk_keys())
        return page


def trace_payload(
    trace: Trace,
    against: Trace | None = None,
    parts: SnapshotParts | None = None,
    overlay: Overlay | None = None,
) -> TracePayload:
    """The payload of a compilation, and of its comparison with another one (a fork) if given.

    `parts` are those of an earlier, less complete trace of the same compilation. `overlay`: a
    person's own numbers, by which the graph is coloured at first.
    """
    trace = with_model_step(trace)
    parts = parts or SnapshotParts.of(trace)
    names = [record.name for record in trace.passes]
    tables = None if trace.accuracy is None else AccuracyTables.of(trace.accuracy, names)
    makers = dict(parts.makers)
    for index, (record, diff) in enumerate(zip(trace.passes, trace.diffs, strict=True)):
        makers[f"pass/{index}"] = partial(pass_payload, record, diff)
    makers |= replay_makers(trace)
    makers["measures"] = partial(measures_payload, trace)
    makers["makers"] = partial(makers_payload, trace)
    makers["source"] = partial(_constant, [list(node) for node in trace.model.source_nodes])
    makers["source_lines"] = partial(source_lines_payload, trace)
    late = {}
    for view in register.VIEWS:
        if view.has_chunk and not view.missing(trace):
            (makers if view.is_settled else late)[view.name] = partial(view.chunk, trace)
    settled = frozenset(makers)
    makers |= late
    makers["index"] = partial(_index_payload, trace)
    if any(kernel.assembly for kernel in trace.kernels):
        makers["instructions"] = partial(instructions_payload, trace.kernels, trace.processor)
    if trace.program is not None:
        makers["prelude"] = partial(_constant, list(trace.program.prelude))
    makers["links"] = partial(links_payload, trace)
    makers["rules"] = partial(rule_texts_payload, trace)
    makers["knobs"] = partial(_constant, [_knob(knob) for knob in trace.knobs])
    makers["decisions"] = partial(_constant, [list(pair) for pair in trace.decisions])
    searches = {search.kernel: search for search in trace.searches}
    for index, kernel in enumerate(trace.kernels):
        makers[f"kernel/{index}"] = partial(_kernel, kernel, searches.get(kernel.name))
    if tables is not None:
        makers["accuracy"] = tables.heat_map
        for metric in METRICS:
            makers[f"accuracy/{metric}"] = partial(tables.metric, metric)
        for index in range(tables.page_count()):
            makers[f"tensors/{index}"] = partial(tables.page, index)
        for index in range(tables.details.page_count()):
            makers[f"details/{index}"] = partial(tables.details.page, index)
    if trace.profile is not None:
        makers["profile"] = partial(profile_payload, trace.profile)
    head = _head(trace, parts, tables, against is not None)
    if overlay is not None:
        head["overlay"] = True
        makers["overlay"] = partial(_constant, asdict(overlay))
    payload = TracePayload(head=head, makers=makers, settled=settled, parts=parts)
    if against is not None:
        sides = [side_of(p.head, p.chunk) for p in (payload, trace_payload(against))]
        makers["comparison"] = partial(comparison_payload, sides)
        makers["difference"] = partial(difference_payload, sides, "")
    return payload


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


def _head(
    trace: Trace, parts: SnapshotParts, tables: AccuracyTables | None, is_compared: bool
) -> Json:
    checks = checks_of_passes(trace.accuracy, tables)
    if trace.passes and trace.passes[0].level == SOURCE_LEVEL:
        checks[0] = {"check": REFERENCE.name, **judged_payload(None, 0.0)}
    return {
        "version": PAYLOAD_VERSION,
        "model": _model_payload(trace),
        "target": trace.target,
        "language": trace.source_language,
        "device": trace.device,
        "label": trace.label,
        "passes": [
            {
                **pass_summary(record),
                "snapshot": parts.place[index],
                **checks.get(index, {"check": "not-run", **judged_payload(None, 0.0)}),
            }
            for index, record in enumerate(trace.passes)
        ],
        "first": parts.first,
        "constraints": [
            {"text": c.text, "node": ", ".join(c.nodes), "kind": c.kind} for c in trace.constraints
        ],
        "sizes": [
            [place_of(knob.address).title, knob.value]
            for knob in trace.knobs
            if knob.address.startswith(f"{DIMENSIONS}/")
        ],
        "summary": _summary(trace, tables),
        "problems": problems_payload(trace),
        "lookups": lookups_payload(trace.lookups),
        "excerpts": parts.has_excerpts,
        "blocks": {
            "count": parts.block_count,
            "flat": parts.is_flat_possible,
            "opens": parts.opens_with_blocks,
            "initially": list(parts.open_at_first),
        },
        "kernelCount": len(trace.kernels),
        "has": {**parts_of(trace), "compare": is_compared},
        "tabs": register.tabs_payload(trace, register.VIEWS),
    }


def _index_payload(trace: Trace) -> Json:
    """Tables by which panes find one another; too large for the head of a large model."""
    launches = () if trace.program is None else trace.program.launches
    sources: dict[str, int] = {}
    return {
        "rules": rules_payload(trace),
        "kernels": [
            {"name": k.name, "kind": k.kind, "operations": list(k.operations), "flops": k.flops,
             "bytes": k.bytes_moved, "steps": len(k.steps), "lines": len(k.source.lines),
             "assembly": k.assembly is not None}
            for k in trace.kernels
        ],
        "launches": [
            [it.operation, it.kernel, [sources.setdefault(n, len(sources)) for n in it.sources]]
            for it in launches
        ],
        "sources": list(sources),  # after the launches, which name them
    }  # fmt: skip


def _knob(knob: Knob) -> Json:
    return {
        "address": knob.address,
        "value": knob.value,
        "choices": list(knob.choices),
        "why": knob.why,
        **asdict(place_of(knob.address)),
    }


def _kernel(kernel: KernelRecord, search: KernelSearch | None) -> Json:
    found = None if search is None else search_payload(search)
    return {**kernel_payload(kernel), "search": found}


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
        "judge": model.judge,
        "differences": list(model.differences),
    }


def _summary(trace: Trace, tables: AccuracyTables | None) -> Json:
    report = trace.accuracy
    errors = [] if report is None else [e for p in report.passes for e in p.tensors]
    # The program that runs is the last one: its worst layer is what the verdict is about.
    final = [] if report is None or not report.passes else report.passes[-1].tensors
    tolerance = 0.0 if report is None else report.tolerance
    worst = None if report is None else worst_judged([*final, *report.outputs], tolerance)
    verdict = judge(None if worst is None else judged_error(worst, tolerance), tolerance).name
    if report is not None and not report.passed:
        verdict = "wrong"
    memory, profile = trace.memory, trace.profile
    return {
        "verdict": verdict,
        **judged_payload(worst, tolerance),
        "fromOracle": None if worst is None else number(worst.max_relative),
        "fault": None if tables is None else tables.culprit(),
        "worstTensor": "" if worst is None else worst.tensor,
        "worstOperation": "" if worst is None else worst.operation,
        "rightAnswers": None
        if report is None or report.task is None
        else [report.task.right, report.task.total],
        "compared": len(errors),
        "tolerance": number(tolerance),
        "task": None
        if report is None or report.task is None
        else [report.task.right, report.task.source_right, report.task.total],
        "againstFloat": _worst_against_float(report),
        "bitExact": None if report is None else report.bit_exact,
        "data": _data_payload(trace),
        "oracle": "" if report is None else report.oracle,
        "peak": None if memory is None else memory.peak_bytes,
        "bound": None if memory is None else memory.bound_bytes,
        "optimal": memory is not None and memory.optimal,
        "weights": None if trace.program is None else trace.program.weights_bytes,
        "counted": _counted_payload(profile),
        "milliseconds": None if profile is None else number(profile.milliseconds),
        "launched": None if profile is None else profile.launched_milliseconds,
        "threads": 0 if profile is None else profile.threads,
        "seconds": number(sum(record.seconds for record in trace.passes)),
    }


def _worst_against_float(report: AccuracyReport | None) -> Json:
    """[output, its SQNR in dB, largest relative error of any output]: the output that is farthest
    from the float source model's. No verdict is about it."""
    worst = None if report is None else report.worst_output
    if report is None or worst is None:
        return None
    largest = report.largest_output_error
    return [worst.tensor, number(worst.sqnr_db), None if largest is None else number(largest)]


def _counted_payload(profile: ProfileRecord | None) -> Json:
    """[cycles, bytes of traffic, picojoules or None] of a machine that counts; None elsewhere."""
    counted = None if profile is None else profile.counted
    if counted is None:
        return None
    energy = counted.energy_picojoules
    return [counted.cycles, counted.bytes, None if energy is None else number(energy)]


def _data_payload(trace: Trace) -> Json:
    """What the numbers of the head were measured on; None where nothing was, and in older
    traces."""
    report, profile = trace.accuracy, trace.profile
    data = report.data if report is not None else None
    data = data or (profile.data if profile is not None else None)
    if data is None:
        return None
    return {
        "words": str(data),
        "isDrawn": data.is_drawn,
        "isNoise": data.is_drawn and data.is_noise,
        "examples": data.examples,
        "leftOut": data.left_out,
        "notes": list(data.notes),
    }
