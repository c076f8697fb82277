"""What ran when: tracks of launches, gaps and passes, and their form as a Chrome trace."""

import json
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from types import ModuleType
from typing import Any

import pytest

from explorer.results import CostEstimate, ThreadShare, TimedEvent, Trace
from explorer.views.payload.tracks import Span, flows_of, folded, groups_of, timeline_payload
from explorer.views.static.chrome_trace import chrome_trace

PHASES_WITH_FIELDS = {
    "M": {"name", "pid", "tid", "args"},
    "X": {"name", "cat", "ts", "dur", "pid", "tid", "args"},
    "s": {"name", "cat", "id", "ts", "pid", "tid"},
    "f": {"name", "cat", "id", "ts", "pid", "tid", "bp"},
}
"""Of the trace event format: metadata, complete events, begin and end of a flow."""


def with_events(trace: Trace, *events: TimedEvent) -> Trace:
    assert trace.profile is not None
    return replace(trace, profile=replace(trace.profile, events=events))


@pytest.fixture(scope="module")
def parted(trace: Trace) -> Trace:
    """conv_1 on the device, then the host, then conv_3; between the first two 10 ns of nothing."""
    return replace(
        with_events(
            trace,
            TimedEvent("Conv_0", "conv_1", "conv_1", "cpu", 0, 100, 4000, 800),
            TimedEvent("Sort_1", "sort_1", "", "host", 110, 150),
            TimedEvent("Conv_3", "conv_3", "conv_3", "cpu", 150, 250, 4000, 800),
        ),
        costs=(CostEstimate("conv_1", 0.08, ()), CostEstimate("conv_3", 0.3, ())),
    )


def spans_of(trace: Trace, track: str) -> list[tuple[str, str, int, int]]:
    (inference, _) = groups_of(trace)
    (found,) = [t for t in inference.tracks if t.name == track]
    return [(s.name, s.kind, s.start_ns, s.end_ns) for s in found.spans]


def test_a_gap_is_overhead_or_waiting_for_another_track(parted: Trace):
    assert spans_of(parted, "cpu") == [
        ("conv_1", "launch", 0, 100),
        ("overhead", "overhead", 100, 110),
        ("waiting", "waiting", 110, 150),
        ("conv_3", "launch", 150, 250),
    ]
    assert spans_of(parted, "host") == [
        ("waiting", "waiting", 0, 100),
        ("overhead", "overhead", 100, 110),
        ("sort_1", "host", 110, 150),
        ("waiting", "waiting", 150, 250),
    ]


def on_threads(trace: Trace) -> Trace:
    """conv_1 is shared by two threads, the second of which ends first; conv_3 is the first's."""
    assert trace.profile is not None
    shares = (
        ThreadShare(0, "conv_1", "conv_1", 0, 100, 5),
        ThreadShare(0, "conv_3", "conv_3", 150, 250, 1),
        ThreadShare(1, "conv_1", "conv_1", 10, 80, 3),
    )
    return replace(trace, profile=replace(trace.profile, threads=2, shares=shares))


def test_each_thread_has_a_track_below_the_launches(parted: Trace):
    threaded = on_threads(parted)
    (inference, _) = groups_of(threaded)
    assert [track.name for track in inference.tracks] == ["cpu", "thread 1", "thread 2", "host"]
    assert spans_of(threaded, "thread 2") == [
        ("waiting", "waiting", 0, 10),
        ("conv_1", "share", 10, 80),
        ("waiting", "waiting", 80, 100),
        ("overhead", "overhead", 100, 110),
        ("waiting", "waiting", 110, 150),
        ("waiting", "waiting", 150, 250),
    ]
    (_, threads, *_) = inference.tracks
    assert [span.facts for span in threads.spans if span.kind == "share"] == [
        (("tasks", "5"),),
        (("tasks", "1"),),
    ]
    names = [
        event["args"]["name"]
        for event in chrome_trace(threaded)["traceEvents"]
        if event["name"] == "thread_name"
    ]
    assert names[:4] == ["cpu", "cpu, predicted", "thread 1", "thread 2"]


def test_every_track_is_filled_without_overlap(trace: Trace, generated: ModuleType):
    for each in (trace, generated.make_large_trace(300)):
        for group in groups_of(each):
            for track in group.tracks:
                assert track.spans[0].start_ns == 0
                for left, right in pairwise(track.spans):
                    assert left.end_ns == right.start_ns


def test_passes_follow_one_another_with_their_recorded_times(trace: Trace):
    (passes,) = groups_of(trace)[-1].tracks
    assert [s.name for s in passes.spans] == [p.name for p in trace.passes]
    assert [s.length_ns for s in passes.spans] == [round(1e9 * p.seconds) for p in trace.passes]


def test_a_launch_says_what_it_is_and_what_was_predicted(parted: Trace):
    track = timeline_payload(parted)["groups"][0]["tracks"][0]
    name, kind, _, _, label, operation, kernel, _, _, predicted, *_, facts, _ = track["spans"][0]
    assert (name, kind, operation, kernel, predicted) == (
        "conv_1",
        "launch",
        "conv_1",
        "conv_1",
        80,
    )
    assert label.startswith("conv")
    assert ["from", "Conv_0"] in facts


def test_flows_pass_by_what_takes_no_time(trace: Trace):
    """The reshape between pooling and matrix product takes none; nor does what was not timed."""
    assert trace.profile is not None
    assert flows_of(trace) == [
        ("pack_1", "conv_1"),
        ("conv_1", "fused_1"),
        ("fused_1", "conv_3"),
        ("conv_3", "pool_1"),
        ("pool_1", "matmul_1"),
        ("matmul_1", "softmax_1"),
    ]
    some = [e for e in trace.profile.events if e.operation != "fused_1"]
    assert ("conv_1", "conv_3") in flows_of(with_events(trace, *some))


def test_of_too_many_spans_the_longest_stay_and_neighbours_become_one():
    spans = [
        Span(
            name=f"n{i}",
            kind="launch",
            start_ns=10 * i,
            end_ns=10 * i + 10 + (i % 100 == 7),
            flops=2,
        )
        for i in range(25_000)
    ]
    few = folded(spans, 1000)
    assert len(few) <= 1001
    assert (few[0].start_ns, few[-1].end_ns) == (0, 250_000)
    assert sum(s.flops for s in few) == 50_000
    assert sum(s.count for s in few) == 25_000
    kept = {s.name for s in few if s.kind == "launch"}
    assert {f"n{i}" for i in range(7, 25_000, 100)} <= kept
    assert Counter(s.kind for s in few)["folded"] > 0
    assert folded(spans[:1000], 1000) == tuple(spans[:1000])


# -- Chrome's trace event format -------------------------------------------------------------------


def events_of(trace: Trace, phase: str) -> list[dict[str, Any]]:
    return [e for e in chrome_trace(trace)["traceEvents"] if e["ph"] == phase]


def test_events_have_the_fields_that_the_format_asks_for(trace: Trace, parted: Trace):
    for each in (trace, parted):
        made = json.loads(json.dumps(chrome_trace(each), allow_nan=False))
        assert made["displayTimeUnit"] == "ns"
        for event in made["traceEvents"]:
            assert set(event) == {"ph"} | PHASES_WITH_FIELDS[event["ph"]]
            assert isinstance(event["pid"], int)
            assert isinstance(event["tid"], int)
            assert all(event.get(key, 0) >= 0 for key in ("ts", "dur"))


def test_complete_events_of_a_thread_do_not_overlap(parted: Trace):
    threads: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for event in events_of(parted, "X"):
        place = (event["pid"], event["tid"])
        threads.setdefault(place, []).append((event["ts"], event["ts"] + event["dur"]))
    assert len(threads) == 4  # cpu, its prediction, host; passes
    for intervals in threads.values():
        for (_, end), (start, _) in pairwise(sorted(intervals)):
            assert start >= end - 1e-9


def test_times_are_microseconds_and_predictions_have_a_thread_of_their_own(parted: Trace):
    names = {e["args"]["name"]: e["tid"] for e in events_of(parted, "M") if e["pid"] == 1}
    conv, other, *_ = [e for e in events_of(parted, "X") if e["tid"] == names["cpu"]]
    assert (conv["ts"], conv["dur"], other["ts"]) == (0.0, 0.1, 0.15)
    assert conv["args"]["predicted_us"] == 0.08
    predicted = [
        (e["ts"], e["dur"]) for e in events_of(parted, "X") if e["tid"] == names["cpu, predicted"]
    ]
    assert predicted == [(0.0, 0.08), (0.08, 0.3)]


def test_arrows_begin_and_end_within_slices_of_their_operations(trace: Trace):
    begins, ends = events_of(trace, "s"), events_of(trace, "f")
    assert [e["id"] for e in begins] == [e["id"] for e in ends] == list(range(1, len(ends) + 1))
    slices = events_of(trace, "X")
    pairs = [
        tuple(
            next(
                s["args"]["operation"]
                for s in slices
                if (s["pid"], s["tid"]) == (e["pid"], e["tid"])
                and s["ts"] <= e["ts"] < s["ts"] + s["dur"]
            )
            for e in pair
        )
        for pair in zip(begins, ends, strict=True)
    ]
    assert pairs == flows_of(trace)
    assert pairs


def test_a_trace_that_was_not_measured_has_its_passes_alone(trace: Trace):
    bare = replace(trace, profile=None)
    assert [group.name for group in groups_of(bare)] == ["compiler"]
    assert flows_of(bare) == []
