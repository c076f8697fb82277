"""Tracks in Chrome's trace event format, which ui.perfetto.dev and chrome://tracing open.

    {"traceEvents": [
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "inference of net on cpu"}},
        {"ph": "X", "name": "conv18", "cat": "launch", "ts": 8.0, "dur": 67.6, "pid": 1, "tid": 1,
         "args": {"kernel": "conv_3x3_1", "predicted_us": 55.2}},
        {"ph": "s", "id": 1, ...}, {"ph": "f", "id": 1, "bp": "e", ...}
    ]}

Inference and compiler are two processes, each of which begins at 0; a track is a thread. What the
cost model predicts stands in a track of its own below the measured one, its launches one after the
other: complete events of one thread must not overlap. Times in microseconds.
Source: "Trace Event Format", Google, sections on duration, metadata and flow events.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from explorer.results import Trace
from explorer.views.numbers import format_count
from explorer.views.parts.markup import card, note
from explorer.views.payload.text import Json
from explorer.views.payload.tracks import GAPS, Span, Track, TrackGroup, flows_of, groups_of

CATEGORY_OF_FLOWS = "value"
PREDICTED = "predicted"


def chrome_trace(trace: Trace) -> Json:
    """Measured launches, what was predicted of them, passes, and arrows from maker to reader."""
    events: list[Json] = []
    place: dict[str, tuple[int, int, Span]] = {}  # operation -> process, thread, its first span
    for process, group in enumerate(groups_of(trace), 1):
        events.append(_named("process", process, 0, _title(trace, group)))
        tracks = [made for track in group.tracks for made in _with_prediction(track)]
        for thread, track in enumerate(tracks, 1):
            events.append(_named("thread", process, thread, track.name))
            for span in track.spans:
                if span.kind in GAPS:
                    continue
                events.append(_complete(span, process, thread))
                if span.operation and span.kind != PREDICTED:
                    place.setdefault(span.operation, (process, thread, span))
    events += _arrows(flows_of(trace), place)
    return {
        "traceEvents": events,
        "displayTimeUnit": "ns",
        "otherData": {
            "model": trace.model.name,
            "target": trace.target,
            "device": trace.device,
            "label": trace.label,
        },
    }


def chrome_trace_html(trace: Trace) -> str:
    """A card that says what is in it, and how it becomes a file."""
    events = chrome_trace(trace)["traceEvents"]
    counts = [
        format_count(sum(event["ph"] == phase for event in events), noun)
        for phase, noun in (("X", "interval"), ("s", "arrow"))
    ]
    words = f"{' and '.join(counts)}. As text this is JSON that ui.perfetto.dev opens: "
    return card("Chrome trace", note(words + "explorer show FILE --what chrome-trace -o FILE.json"))


def _title(trace: Trace, group: TrackGroup) -> str:
    if group.name == "compiler":
        return f"compiler of {trace.model.name}"
    profile = trace.profile
    where = trace.target if profile is None else profile.device
    return f"{group.name} of {trace.model.name} on {where}"


def _named(what: str, process: int, thread: int, name: str) -> Json:
    return {
        "ph": "M",
        "name": f"{what}_name",
        "pid": process,
        "tid": thread,
        "args": {"name": name},
    }


def _with_prediction(track: Track) -> Sequence[Track]:
    known = [span for span in track.spans if span.predicted_ns is not None]
    if not known:
        return [track]
    spans, now = [], 0
    for span in known:
        assert span.predicted_ns is not None
        end = now + span.predicted_ns
        spans.append(
            Span(
                name=span.name,
                kind=PREDICTED,
                start_ns=now,
                end_ns=end,
                label=span.label,
                operation=span.operation,
                kernel=span.kernel,
                facts=span.facts,
            )
        )
        now = end
    return [track, Track(f"{track.name}, predicted", tuple(spans))]


def _complete(span: Span, process: int, thread: int) -> Json:
    """The arguments are what the format's readers show beside a slice."""
    arguments: dict[str, Json] = {
        name: value
        for name, value in (
            ("operation", span.operation),
            ("kind", span.label),
            ("kernel", span.kernel),
            ("flops", span.flops),
            ("bytes", span.bytes_moved),
        )
        if value
    }
    if span.predicted_ns is not None:
        arguments["predicted_us"] = span.predicted_ns / 1e3
    return {
        "ph": "X",
        "name": f"{span.name}  {span.label}".strip(),
        "cat": span.kind,
        "pid": process,
        "tid": thread,
        "ts": span.start_ns / 1e3,
        "dur": span.length_ns / 1e3,
        "args": {**arguments, **dict(span.facts)},
    }


def _arrows(
    flows: Sequence[tuple[str, str]], place: Mapping[str, tuple[int, int, Span]]
) -> Iterator[Json]:
    """A flow begins and ends within the slices that it binds to: in the middle of each."""
    for number, (maker, reader) in enumerate(flows, 1):
        for phase, operation in (("s", maker), ("f", reader)):
            process, thread, span = place[operation]
            yield {
                "ph": phase,
                "name": maker,
                "cat": CATEGORY_OF_FLOWS,
                "id": number,
                "pid": process,
                "tid": thread,
                "ts": (span.start_ns + span.length_ns // 2) / 1e3,
                **({"bp": "e"} if phase == "f" else {}),
            }
