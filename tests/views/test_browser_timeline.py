"""The timeline in a real browser: tracks, gaps, predictions, marked areas, keys, arrows, export."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from explorer.results import CostEstimate, TimedEvent, Trace
from explorer.results.runs.events import CachePeak
from explorer.views.static.chrome_trace import chrome_trace

pytestmark = pytest.mark.browser

INFERENCE, PASSES = ".timeline-plot", ".passes-plot"
AXIS, BAR = 20, 24


def place_of(page: Any, plot: str, share: float, y: float = AXIS + BAR / 2) -> tuple[float, float]:
    """A point of a plot: a share of the time that it shows (16 pixels stay free at the right)."""
    box = page.locator(plot).bounding_box()
    return box["x"] + share * (box["width"] - 16), box["y"] + y


def drag(page: Any, plot: str, start: float, end: float) -> None:
    page.mouse.move(*place_of(page, plot, start))
    page.mouse.down()
    page.mouse.move(*place_of(page, plot, end), steps=4)
    page.mouse.up()


def with_events(trace: Trace, events: tuple[TimedEvent, ...]) -> Trace:
    assert trace.profile is not None
    return replace(trace, profile=replace(trace.profile, events=events, milliseconds=1e-4))


@pytest.fixture(scope="module")
def parted(trace: Trace) -> Trace:
    """400 ns on the device, 100 of nothing, 100 on the host, 400 on the device."""
    return replace(
        with_events(
            trace,
            (
                TimedEvent("Conv_0", "conv_1", "conv_1", "cpu", 0, 400, 4000, 800),
                TimedEvent("Sort_1", "fused_1", "", "host", 500, 600),
                TimedEvent("Conv_3", "conv_3", "conv_3", "cpu", 600, 1000, 4000, 800),
            ),
        ),
        costs=(CostEstimate("conv_1", 0.2, ()), CostEstimate("conv_3", 0.5, ())),
    )


def test_of_ten_thousand_bars_all_that_are_selected_are_marked(opened: Any, trace: Trace):
    assert trace.profile is not None
    events = []
    now = 0
    for index in range(10_000):
        event = trace.profile.events[index % len(trace.profile.events)]
        time = event.end_ns - event.start_ns
        events.append(replace(event, start_ns=now, end_ns=now + time))
        now += time
    many = with_events(trace, tuple(events))
    watched = opened(many, link="pass=8&dock=timeline&selection=conv_1")
    page = watched.page
    page.wait_for_selector(".bar.marked")
    expect(page.locator(".track-plot canvas")).to_have_count(2)
    marks = page.locator(".bar.marked").evaluate_all(
        "bars => bars.map((bar) => Number(bar.dataset.spans))"
    )
    assert sum(marks) == sum(event.operation == "conv_1" for event in events)
    assert len(marks) < 1500  # neighbours that touch on the screen share a mark
    for _ in range(12):
        page.get_by_title("longer bars (w, or Ctrl and wheel)").click()
    page.mouse.click(*place_of(page, INFERENCE, 0.5))
    page.wait_for_selector(".bar.marked")
    assert page.locator(".bar.marked").first.bounding_box()["width"] > 20
    assert watched.is_clean(), watched


def test_more_spans_than_can_be_looked_at_are_folded_and_said(opened: Any, trace: Trace):
    events = tuple(
        TimedEvent("Conv_0", "conv_1", "conv_1", "cpu", 10 * i, 10 * i + 10) for i in range(12_000)
    )
    page = opened(with_events(trace, events), link="pass=8&dock=timeline").page
    expect(page.locator(".track-group .cap")).to_contain_text("cpu: 12,000 spans stand as")


WIDTH = "Math.round(document.querySelector('.bar.marked').getBoundingClientRect().width)"
LEFT = "Math.round(document.querySelector('.bar.marked').getBoundingClientRect().left)"


def test_the_time_line_is_walked_through_with_the_keys(opened: Any, trace: Trace):
    assert trace.profile is not None
    first, second = trace.profile.events[:2]
    watched = opened(trace, link="pass=8&dock=timeline")
    page = watched.page
    with watched.step("arrows lead to makers and readers of the selection"):
        page.wait_for_selector('.timeline-plot[data-arrows="0"]')
        page.locator(INFERENCE).focus()
        page.keyboard.press("ArrowRight")  # the first has no maker
        page.wait_for_selector(f'.bar.marked[data-operation="{first.operation}"]')
        page.wait_for_selector('.timeline-plot[data-arrows="1"]')
        page.keyboard.press("ArrowRight")
        page.wait_for_selector(f'.bar.marked[data-operation="{second.operation}"]')
        page.wait_for_selector('.timeline-plot[data-arrows="2"]')
    with watched.step("+ makes bars longer"):
        before = page.locator(".bar.marked").bounding_box()["width"]
        page.keyboard.press("+")
        watched.wait_until(
            "least => document.querySelector('.bar.marked').getBoundingClientRect().width > least",
            arg=1.5 * before,
        )
        page.keyboard.press("0")
        watched.wait_until(f"before => Math.abs({WIDTH} - before) < 3", arg=before)
    with watched.step("finding leads from span to span"):
        field = page.get_by_label("find in the timeline")
        field.fill("conv")
        field.press("Enter")
        expect(page.locator(".span-count")).to_contain_text("1 of")
        marked = page.locator(".bar.marked").get_attribute("data-operation")
        field.press("Enter")
        expect(page.locator(".span-count")).to_contain_text("2 of")
        page.locator(f'.bar.marked:not([data-operation="{marked}"])').wait_for()
    with watched.step("passes are a track of their own"):
        total = sum(p.seconds for p in trace.passes)
        name, start, end = "", 0.0, 0.0
        for record in trace.passes:
            start, end = end, end + record.seconds / total
            if end - start > 0.05:
                name = record.name
                break
        page.mouse.click(*place_of(page, PASSES, (start + end) / 2))
        watched.expect_pass(name)
    with watched.step("Perfetto's keys are the pane's while it has the focus"):
        page.locator('.pass-row[data-pass="8"]').click()
        page.locator('.node[data-id="fused_1"]').click()
        page.wait_for_selector('.bar.marked[data-operation="fused_1"]')
        page.wait_for_selector(".bar.marked")
        page.locator(INFERENCE).focus()
        width, left = page.evaluate(WIDTH), page.evaluate(LEFT)
        page.keyboard.press("w")
        watched.wait_until(f"before => {WIDTH} > 1.5 * before", arg=width)
        page.keyboard.press("s")
        watched.wait_until(f"before => Math.abs({WIDTH} - before) < 3", arg=width)
        page.keyboard.press("f")  # with nothing marked it fits the selection, and starts no fork
        plot = page.locator(INFERENCE).bounding_box()["width"]
        watched.wait_until(f"wide => {WIDTH} > wide", arg=0.7 * plot)
        page.keyboard.press("d")
        watched.wait_until(f"before => {LEFT} < before - 100", arg=left + 200)
        page.keyboard.press("0")
        watched.wait_until(f"before => Math.abs({WIDTH} - before) < 3", arg=width)
        page.keyboard.press("a")
        expect(page.locator('.dock .tab[aria-selected="true"]').first).to_have_text("timeline")
        expect(page.get_by_role("tab", name="diff")).to_have_attribute("aria-selected", "true")
        page.keyboard.press("/")
        expect(page.locator(".find-span")).to_be_focused()
        page.locator(".subject h2").click()
        page.keyboard.press("a")
        expect(page.locator('.dock .tab[aria-selected="true"]').first).to_have_text("accuracy")
    assert watched.is_clean(), watched


def test_spans_gaps_and_areas_say_what_they_are_and_are_saved(
    opened: Any, parted: Trace, tmp_path: Path
):
    watched = opened(parted, link="pass=8&dock=timeline")
    page = watched.page
    page.wait_for_selector(".timeline-plot canvas")
    expect(page.locator(".lane-name")).to_have_text(["cpu", "host", "predicted", "passes"])
    tip = page.locator(".timeline .tip:not([hidden])")
    with watched.step("gaps say what they are"):
        page.mouse.move(*place_of(page, INFERENCE, 0.45))
        expect(tip).to_contain_text("overhead")
        expect(tip).to_contain_text("nothing runs")
        page.mouse.move(*place_of(page, INFERENCE, 0.55))
        expect(tip).to_contain_text("waiting")
        expect(tip).to_contain_text("host runs")
    with watched.step("a bar says its operation and the predicted time"):
        page.mouse.move(*place_of(page, INFERENCE, 0.2))
        expect(tip.locator("strong")).to_have_text("Conv_0 conv 3x3")
        expect(tip).to_contain_text("predicted 200 ns: measured is 2.0 times as long")
        expect(tip).to_contain_text("from Conv_0")
        note = page.locator(".dock-aside .aside-note")
        expect(note).to_contain_text("700 ns predicted of 2 launches")
    with watched.step("a marked area is added up"):
        drag(page, INFERENCE, 0.2, 1.01)
        sums = page.locator(".area-sums")
        expect(sums.locator(".area-total")).to_contain_text("3 spans, 700 ns of work")
        track = sums.locator(".area-track").first
        expect(track).to_contain_text("waits 100 ns, overhead 100 ns")
        rows = [row.split("\t") for row in sums.locator("tbody tr").all_inner_texts()]
        assert [row[0] for row in rows] == ["conv_3", "conv_1", "conv 3x3 + add"]
        assert [row[1] for row in rows] == ["1", "1", "1"]
        assert rows[0][3] == "57 %"
        expect(page.locator(".area-mark")).to_have_count(1)
        page.locator(INFERENCE).focus()
        page.keyboard.press("Escape")
        expect(page.locator(".area-mark")).to_have_count(0)
        expect(sums).to_be_hidden()
    with watched.step("what is saved is the Chrome trace"):
        with page.expect_download() as waiting:
            page.get_by_role("button", name="save trace").click()
        assert waiting.value.suggested_filename == f"{parted.model.name}.trace.json"
        waiting.value.save_as(tmp_path / "made.json")
        made = json.loads((tmp_path / "made.json").read_text(encoding="utf-8"))
        assert made == json.loads(json.dumps(chrome_trace(parted)))
    assert watched.is_clean(), watched


# -- the roofline and the memory map ---------------------------------------------------------------


def test_names_stand_at_their_lines_and_points_and_all_buffers_are_marked(
    opened: Any, trace: Trace
):
    assert trace.profile is not None and trace.memory is not None
    (placed, *_) = [p for p in trace.memory.placements if p.buffer.id == "conv_1"]
    many = tuple(
        replace(placed, buffer=replace(placed.buffer, id=f"part_{i}", size_bytes=64),
                offset_bytes=64 * i)
        for i in range(450)
    )  # fmt: skip
    caches = (CachePeak("l1", 1 << 15, 400.0), CachePeak("l2", 1 << 20, 90.0))
    measured = replace(trace, profile=replace(trace.profile, caches=caches))
    planned = replace(measured, memory=replace(trace.memory, placements=many))
    page = (watched := opened(planned, link="pass=8&dock=memory&selection=conv_1")).page
    with watched.step("all buffers of the selection are marked"):
        expect(page.locator(".buffer.marked")).to_have_count(450)
    page.locator('.dock .tab[data-tab="roofline"]').click()
    expect(page.locator(".dock .chart circle")).to_have_count(7)
    lines = page.locator(".dock .chart text").filter(has_text=re.compile("[0-9] G(B|FLOP)/s"))
    expect(lines).to_have_count(4)
    names = page.locator(".dock .chart text").filter(has_text=re.compile("_"))
    assert names.count() >= 3
    boxes = [label.bounding_box() for label in (*lines.all(), *names.all())]
    for i, a in enumerate(boxes):
        for b in boxes[i + 1 :]:
            overlap = min(a["x"] + a["width"], b["x"] + b["width"]) - max(a["x"], b["x"])
            height = min(a["y"] + a["height"], b["y"] + b["height"]) - max(a["y"], b["y"])
            # Boxes have the halo and the gap between lines: 19 pixels for letters of 11.
            assert overlap <= 4 or height <= 8, (a, b)
