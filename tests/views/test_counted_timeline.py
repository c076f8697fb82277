"""The timeline of a machine whose cycles are counted: cycles for time, stalls by cause."""

from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
from playwright.sync_api import expect

from explorer.results import TimedEvent, Trace
from explorer.views.payload.counted_spans import clock_of
from explorer.views.payload.tracks import groups_of, timeline_payload


def counted(lane: str, kind: str, start: int, end: int, waited: int = 0, cause: str = ""):
    """An instruction at 100 MHz, behind 500 ns on the host."""
    return TimedEvent(
        name=f"conv_1: {kind}",
        operation="conv_1",
        kernel="conv_1",
        lane=lane,
        start_ns=500 + 10 * start,
        end_ns=500 + 10 * end,
        cycles=end - start,
        start_cycle=start,
        end_cycle=end,
        waited_cycles=waited,
        cause=cause,
    )


EVENTS = (
    TimedEvent("Quantize_0", "quantize_0", "", "host", 0, 500),
    counted("load", "load", 2, 40, 2, "fetch"),
    counted("load", "load", 60, 100, 20, "bank"),
    counted("compute", "multiply", 40, 90, 40, "token"),
)


@pytest.fixture(scope="module")
def simulated(trace: Trace) -> Trace:
    assert trace.profile is not None
    profile = replace(trace.profile, events=EVENTS, milliseconds=1.5e-3)
    return replace(trace, profile=profile, costs=())


def test_a_stall_lies_before_its_instruction_and_has_its_cause(simulated: Trace):
    (inference, _) = groups_of(simulated)
    spans = {t.name: [(s.kind, s.cause, s.start_ns, s.end_ns) for s in t.spans]
             for t in inference.tracks}  # fmt: skip
    assert spans["load"] == [
        ("waiting", "", 0, 500),
        ("stall", "fetch", 500, 520),
        ("launch", "", 520, 900),
        ("stall", "bank", 900, 1100),
        ("launch", "", 1100, 1500),
    ]
    assert spans["compute"][:3] == [
        ("waiting", "", 0, 500),
        ("stall", "token", 500, 900),
        ("launch", "", 900, 1400),
    ]


def test_a_wait_for_a_token_names_who_made_it(simulated: Trace):
    def names(events: tuple[TimedEvent, ...]) -> list[str]:
        profile = replace(simulated.profile, events=events)  # type: ignore[type-var]
        (inference, _) = groups_of(replace(simulated, profile=profile))
        return [s.name for t in inference.tracks for s in t.spans if s.kind == "stall"]

    assert names(EVENTS) == ["waits for fetch", "waits for bank", "waits for token of load"]
    earlier = replace(EVENTS[1], end_cycle=39, end_ns=890)  # nothing ends with the wait
    assert names((EVENTS[0], earlier, *EVENTS[2:]))[-1] == "waits for token"


def test_layers_stand_above_their_instructions_with_what_was_predicted(
    simulated: Trace, synthetic: ModuleType
):
    (inference, _) = groups_of(synthetic.with_counts(simulated))
    layers = inference.tracks[0]
    assert layers.name == "layers"
    assert [(s.name, s.kind, s.start_ns, s.end_ns, s.predicted_ns) for s in layers.spans] == [
        ("conv_1", "share", 500, 2500, 2000),
        ("conv_3", "share", 2500, 6500, 3500),
    ]
    assert [track.name for track in inference.tracks[1:]] == [
        track.name for track in groups_of(simulated)[0].tracks
    ]


def test_cycles_have_a_clock_of_their_own(simulated: Trace):
    group, compiler = timeline_payload(simulated)["groups"]
    assert group["clock"] == {"cycle_ns": 10.0, "start_ns": 500, "cycles": 100}
    assert compiler["clock"] is None


def test_two_runs_that_each_begin_at_cycle_0_have_no_common_clock():
    later = replace(EVENTS[1], start_ns=5020, end_ns=5400)
    assert clock_of(EVENTS) is not None
    assert clock_of((*EVENTS, later)) is None
    assert clock_of(EVENTS[:1]) is None


@pytest.mark.browser
def test_stalls_have_a_legend_and_the_axis_counts_cycles(opened: Any, simulated: Trace):
    page = (watched := opened(simulated, link="pass=8&dock=timeline")).page
    causes = page.locator(".stall-cause")
    expect(causes).to_have_text(
        [
            "─fetch 2 cycles in all queues",
            "╱token 40 cycles in all queues",
            "┼bank 20 cycles in all queues",
        ]
    )
    expect(page.locator(".aside-note")).to_contain_text("100 cycles · 1.5 µs per inference")
    box = page.locator(".timeline-plot").bounding_box()
    # The second wait of the queue that loads: its row is the second one.
    share = 1000 / 1500
    page.mouse.move(box["x"] + share * (box["width"] - 16), box["y"] + 20 + 30 + 12)
    tip = page.locator(".timeline .tip:not([hidden])")
    expect(tip).to_contain_text("waits for bank")
    expect(tip).to_contain_text("20 cycles from cycle 40")
    page.get_by_role("tab", name="by kernel").click()
    expect(page.locator(".dock tbody tr").first).to_contain_text("980 ns")
    assert watched.is_clean(), watched
