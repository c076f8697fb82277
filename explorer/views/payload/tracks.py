"""What ran when, as tracks of spans: launches, what lies between them, and passes.

    cpu       ▇conv18▇ ▇depthwise22▇▇        ▇conv19▇      launches
    thread 1  ▇▇▇▇▇▇▇  ▇▇▇▇▇▇▇▇▇▇░░░         ▇▇▇▇▇▇▇░      what a thread did of them
                                     ░░░░░░░░              waits for the host
    host                             ▇sort3▇▇▇

A track is a row of spans that do not overlap, whatever it stands for: a queue, a thread, an engine.
What a span is besides its times stands in its `facts`, pairs of words; a track with more spans than
can be looked at is folded, and says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from explorer.results import Graph, TimedEvent, Trace
from explorer.results.runs.events import ProfileRecord, ThreadShare
from explorer.views.model_step import SOURCE_LEVEL
from explorer.views.numbers import format_count, format_exact
from explorer.views.payload.counted_spans import Clock, clock_of, counted_facts, stalls_of
from explorer.views.payload.text import Json
from explorer.views.predicted_parts import (
    PredictedSpan,
    lanes_with_predicted,
    predicted_name,
    predicted_spans,
)

LAUNCH, HOST_WORK, TRANSFER = "launch", "host", "transfer"
OVERHEAD, WAITING, STALL = "overhead", "waiting", "stall"
"""Gaps: nothing runs anywhere; another track runs; an instruction waits for what is known."""
PASS, FOLDED = "pass", "folded"
SHARE = "share"
"""Of a launch what one of several threads did, or a layer whose instructions have spans of their
own: work seen again, which is not added up."""
GAPS = (OVERHEAD, WAITING, STALL)
HOST = "host"
MAX_SPANS = 10_000
"""Of one track: the longest stay as they are, neighbours among the others become one."""


@dataclass(frozen=True, kw_only=True)
class Span:
    """An interval of a track, in nanoseconds from the start of its group."""

    name: str
    """What is done: an operation's identity, a transfer, a pass."""
    kind: str
    """launch, share, host, transfer, overhead, waiting, stall, pass or folded."""
    start_ns: int
    end_ns: int
    label: str = ""
    """What the operation is: `conv 3x3 + clip`."""
    operation: str = ""
    kernel: str = ""
    flops: int = 0
    bytes_moved: int = 0
    predicted_ns: int | None = None
    """What the cost model says; None where it says nothing."""
    count: int = 1
    """How many spans it stands for; gaps among them do not count."""
    busy_ns: int | None = None
    """Of several: what they take together; None: its whole length."""
    facts: tuple[tuple[str, str], ...] = ()
    """(what, value) for people: the cause of a wait, what a prediction rests on, cycles."""
    cause: str = ""
    """Of a stall: fetch, token, room, channel or bank."""

    @property
    def length_ns(self) -> int:
        return self.end_ns - self.start_ns


@dataclass(frozen=True)
class Track:
    name: str
    spans: tuple[Span, ...]
    """In their order."""


@dataclass(frozen=True)
class TrackGroup:
    """Tracks with one clock."""

    name: str
    """inference or compiler."""
    tracks: tuple[Track, ...]
    clock: Clock | None = None
    """Of a machine whose cycles are counted."""


def groups_of(trace: Trace) -> tuple[TrackGroup, ...]:
    """The inference where it was measured, and the passes."""
    groups = []
    if trace.profile is not None:
        clock = clock_of(trace.profile.events)
        groups.append(TrackGroup("inference", _lanes(trace, trace.profile, clock), clock))
    return (*groups, TrackGroup("compiler", (Track("passes", tuple(_passes(trace))),)))


def flows_of(trace: Trace) -> list[tuple[str, str]]:
    """(producer, consumer) of operations with times: who reads what whom made.

    What stands between two of them and takes no time (a view, a change of device) is passed by.
    """
    events = () if trace.profile is None else trace.profile.events
    timed = {event.operation for event in events if event.operation}
    graph = trace.snapshots[-1].graph if trace.snapshots else Graph((), ())
    operands: dict[str, list[str]] = {node.id: [] for node in graph.nodes}
    for edge in graph.edges:
        operands.setdefault(edge.target, []).append(edge.source)
    makers: dict[str, dict[str, None]] = {}
    for node in graph.nodes:  # in program order: what makes a value stands before what reads it
        makers[node.id] = {
            maker: None
            for source in operands[node.id]
            for maker in ((source,) if source in timed else makers.get(source, ()))
        }
    return [(maker, n.id) for n in graph.nodes if n.id in timed for maker in makers[n.id]]


def timeline_payload(trace: Trace) -> Json:
    """Groups of tracks for the page. A span is a list in the order of `Span`'s fields."""
    return {
        "groups": [
            {
                "name": group.name,
                "tracks": [_track_payload(track) for track in group.tracks],
                "clock": None if group.clock is None else asdict(group.clock),
            }
            for group in groups_of(trace)
        ],
        "flows": [list(pair) for pair in flows_of(trace)],
    }


def _track_payload(track: Track) -> Json:
    spans = folded(track.spans)
    return {
        "name": track.name,
        "total": len(track.spans),
        "spans": [
            [s.name, s.kind, s.start_ns, s.end_ns, s.label, s.operation, s.kernel, s.flops,
             s.bytes_moved, s.predicted_ns, s.count, s.busy_ns, [list(fact) for fact in s.facts],
             s.cause]
            for s in spans
        ],
    }  # fmt: skip


# -- the inference ---------------------------------------------------------------------------------


def _lanes(trace: Trace, profile: ProfileRecord, clock: Clock | None) -> tuple[Track, ...]:
    labels = {n.id: n.label for n in trace.snapshots[-1].graph.nodes} if trace.snapshots else {}
    costs = {cost.kernel: cost for cost in trace.costs}
    names = list(dict.fromkeys(event.lane for event in profile.events))
    lanes = {
        name: sorted((e for e in profile.events if e.lane == name), key=lambda e: e.start_ns)
        for name in names
    }

    def span(event: TimedEvent) -> Span:
        cost = costs.get(event.kernel)
        facts = [("from", event.name)] if event.name not in ("", event.operation) else []
        if cost is not None:
            facts.append(("predicted bound", cost.bound))
        if event.end_cycle:
            facts = counted_facts(event)
        return Span(
            name=event.name if event.end_cycle else event.operation or event.name,
            kind=_kind(event),
            start_ns=event.start_ns,
            end_ns=event.end_ns,
            label=labels.get(event.operation, ""),
            operation=event.operation,
            kernel=event.kernel,
            flops=event.flops,
            bytes_moved=event.bytes_moved,
            predicted_ns=None if cost is None else round(1e3 * cost.microseconds),
            facts=tuple(facts),
        )

    end = max((event.end_ns for event in profile.events), default=0)
    tracks = []
    for name, events in lanes.items():
        stalls = _stalls(events, clock, [e for e in profile.events if e.lane != name])
        known = sorted([*events, *stalls], key=lambda e: e.start_ns)
        spans = [*map(span, events), *stalls, *_gaps(name, {**lanes, name: known}, end)]
        tracks.append(Track(name, tuple(sorted(spans, key=lambda s: (s.start_ns, s.end_ns)))))
    layers = _layer_tracks(profile, labels, clock)
    found = (*layers, *tracks[:1], *_thread_tracks(profile, labels, end), *tracks[1:])
    return found if clock is not None else _with_predicted(found, predicted_spans(trace))


def _with_predicted(
    tracks: tuple[Track, ...], predicted: Sequence[PredictedSpan]
) -> tuple[Track, ...]:
    """What a placement predicted of each device, above what was measured of it."""
    known = {track.name: track for track in tracks}
    devices = dict.fromkeys(span.device for span in predicted)
    known |= {predicted_name(device): _predicted_track(device, predicted) for device in devices}
    return tuple(known[name] for name in lanes_with_predicted([t.name for t in tracks], predicted))


def _predicted_track(device: str, predicted: Sequence[PredictedSpan]) -> Track:
    spans = tuple(
        Span(
            name=span.name,
            kind=SHARE,
            start_ns=span.start_ns,
            end_ns=span.end_ns,
            facts=(("predicted", "transfer" if span.is_transfer else "part of the program"),),
        )
        for span in predicted
        if span.device == device
    )
    return Track(predicted_name(device), spans)


def _layer_tracks(
    profile: ProfileRecord, labels: Mapping[str, str], clock: Clock | None
) -> Iterator[Track]:
    """Whole layers above their instructions, each with the cycles that its tiles predicted."""
    if clock is None or profile.counted is None:
        return
    spans = []
    for layer in profile.counted.layers:
        facts = [
            ("cycles", f"{format_exact(layer.first_cycle)} to {format_exact(layer.last_cycle)}")
        ]
        predicted = None
        if layer.predicted is not None:
            predicted = round(layer.predicted.cycles * clock.cycle_ns)
            facts.append(("predicted", format_count(layer.predicted.cycles, "cycle")))
        spans.append(
            Span(
                name=layer.operation,
                kind=SHARE,
                start_ns=round(clock.start_ns + layer.first_cycle * clock.cycle_ns),
                end_ns=round(clock.start_ns + layer.last_cycle * clock.cycle_ns),
                label=labels.get(layer.operation, layer.title),
                operation=layer.operation,
                kernel=layer.operation,
                predicted_ns=predicted,
                facts=tuple(facts),
            )
        )
    yield Track("layers", tuple(spans))


def _thread_tracks(profile: ProfileRecord, labels: Mapping[str, str], end: int) -> Iterator[Track]:
    """One for each thread, below the launches that they share."""
    on_host = [event for event in profile.events if event.lane == HOST]
    for thread in range(profile.threads if profile.shares else 0):
        own = [share for share in profile.shares if share.thread == thread]
        others = [share for share in profile.shares if share.thread != thread]
        spans = [
            Span(
                name=share.operation,
                kind=SHARE,
                start_ns=share.start_ns,
                end_ns=share.end_ns,
                label=labels.get(share.operation, ""),
                operation=share.operation,
                kernel=share.kernel,
                facts=(("tasks", format_exact(share.tasks)),),
            )
            for share in own
        ]
        name = f"thread {thread + 1}"
        gaps = _gaps(name, {name: own, "another thread": others, HOST: on_host}, end)
        yield Track(name, tuple(sorted([*spans, *gaps], key=lambda s: (s.start_ns, s.end_ns))))


def _kind(event: TimedEvent) -> str:
    if event.lane == HOST:
        return HOST_WORK
    return LAUNCH if event.kernel else TRANSFER


def _stalls(
    events: Sequence[TimedEvent], clock: Clock | None, others: Sequence[TimedEvent]
) -> list[Span]:
    return [
        Span(
            name=f"waits for {stall.cause}" + (f" of {stall.maker.lane}" if stall.maker else ""),
            kind=STALL,
            start_ns=stall.start_ns,
            end_ns=stall.end_ns,
            facts=(
                ("waited", format_count(stall.cycles, "cycle")),
                *((("made by", stall.maker.name),) if stall.maker else ()),
            ),
            cause=stall.cause,
        )
        for stall in ([] if clock is None else stalls_of(events, clock, others))
    ]


def _gaps(
    name: str, lanes: Mapping[str, Sequence[TimedEvent | ThreadShare | Span]], end: int
) -> Iterator[Span]:
    """What lies between the events of a lane: waiting while another lane runs, else overhead."""
    others = sorted(
        (e.start_ns, e.end_ns, lane)
        for lane, events in lanes.items()
        if lane != name
        for e in events
    )
    now, place = 0, 0
    for event in [*lanes[name], None]:
        until = end if event is None else event.start_ns
        while place < len(others) and others[place][1] <= now:
            place += 1
        ahead = place
        while now < until:
            while ahead < len(others) and others[ahead][1] <= now:
                ahead += 1
            begin, stop, lane = others[ahead] if ahead < len(others) else (until, until, "")
            if begin > now:
                yield _gap(OVERHEAD, now, min(begin, until), "between launches, nothing runs")
                now = min(begin, until)
            else:
                yield _gap(WAITING, now, min(stop, until), f"{lane} runs")
                now = min(stop, until)
        if event is not None:
            now = max(now, event.end_ns)


def _gap(kind: str, start_ns: int, end_ns: int, cause: str) -> Span:
    return Span(name=kind, kind=kind, start_ns=start_ns, end_ns=end_ns, facts=(("cause", cause),))


# -- the compiler ----------------------------------------------------------------------------------


def _passes(trace: Trace) -> Iterator[Span]:
    """One after the other, as they ran; what lies between them was not recorded."""
    now = 0
    for record in trace.passes:
        if record.level == SOURCE_LEVEL:
            continue  # the model as it is: no pass made it
        length = round(1e9 * record.seconds)
        applied = sum(event.applied for event in record.events)
        before, after = map(format_exact, (record.operations_before, record.operations_after))
        yield Span(
            name=record.name,
            kind=PASS,
            start_ns=now,
            end_ns=now + length,
            facts=(("operations", f"{before} → {after}"), ("rewrites", format_exact(applied))),
        )
        now += length


# -- many spans ------------------------------------------------------------------------------------


def folded(spans: Sequence[Span], most: int = MAX_SPANS) -> tuple[Span, ...]:
    """At most about `most` spans: the longest quarter of these as they are, between them one span
    for several neighbours, from where the first begins to where the last one ends."""
    if len(spans) <= most:
        return tuple(spans)
    longest = sorted(range(len(spans)), key=lambda i: (-spans[i].length_ns, i))[: most // 4]
    kept = set(longest)
    together = -(-(len(spans) - len(kept)) // (most // 2))
    made: list[Span] = []
    run: list[Span] = []
    for index, span in enumerate(spans):
        if index in kept or len(run) == together:
            made += _joined(run)
            run = []
        if index in kept:
            made.append(span)
        else:
            run.append(span)
    return (*made, *_joined(run))


def _joined(run: Sequence[Span]) -> list[Span]:
    if len(run) < 2:
        return list(run)
    working = [span for span in run if span.kind not in GAPS]
    count = format_count(len(working), "span")
    predicted = [s.predicted_ns for s in working if s.predicted_ns is not None]
    return [
        Span(
            name=count,
            kind=FOLDED,
            start_ns=run[0].start_ns,
            end_ns=run[-1].end_ns,
            flops=sum(span.flops for span in working),
            bytes_moved=sum(span.bytes_moved for span in working),
            predicted_ns=sum(predicted) if predicted and len(predicted) == len(working) else None,
            count=len(working),
            busy_ns=sum(span.length_ns for span in working),
        )
    ]
