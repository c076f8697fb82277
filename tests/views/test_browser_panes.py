"""What is about the whole program, in a real browser: errors, times, memory, comparison, code."""

import re
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
from playwright.sync_api import expect

from explorer.results import SourceText, Trace
from explorer.results.placement import PART as PLACEMENT
from explorer.results.placement import BandwidthPoint, PlacementRecord
from explorer.results.runs.events import CachePeak

pytestmark = pytest.mark.browser


def at(page: Any, selector: str, x: float, y: float) -> tuple[float, float]:
    """A point of an element by its share of width and its pixels from the top."""
    box = page.locator(selector).bounding_box()
    return box["x"] + box["width"] * x, box["y"] + y


def test_a_cell_of_the_heat_map_tells_its_worst_element(
    opened: Any, trace: Trace, synthetic: ModuleType
):
    watched = opened(
        synthetic.with_fault(trace, "fuse-add", "Relu_7_out"), link="pass=2&dock=accuracy"
    )
    page = watched.page
    page.wait_for_selector(".heat-plot canvas")
    assert (
        "first wrong after fuse-add: Relu_7_out is off by 0.5"
        in page.locator(".fault").inner_text()
    )
    expect(page.get_by_role("button", name="bisect")).to_be_disabled()
    expect(page.locator(".fault")).to_contain_text("A page has no compiler")
    page.get_by_role("button", name="Relu_7_out").click()
    page.wait_for_selector(".cell-mark")
    side = page.locator(".heat-side").inner_text()
    assert re.search(r"worst element\s+\[0, 2, 3, 5\]", side)
    assert re.search(r"value\s+2\.25\s+expected\s+1\.5", side)
    expect(page.locator(".heat-side .curve .point")).to_have_count(12)
    watched.expect_pass("plan-memory")
    page.mouse.click(*at(page, ".heat-plot", 7.5 / 16, 4 * 14 + 7))
    page.locator(".detail-pass", has_text="after fuse-add").wait_for()
    assert watched.is_clean(), watched


def test_errors_times_memory_and_the_roof_are_shown(opened: Any, trace: Trace):
    assert trace.profile is not None
    caches = (CachePeak("l1", 1, 400.0), CachePeak("l2", 1 << 40, 1.0))
    measured = replace(trace, profile=replace(trace.profile, caches=caches))
    watched = opened(measured, link="pass=8&dock=memory")
    page = watched.page
    subject = page.locator(".subject h2")
    with watched.step("memory lists what lives in the fullest step"):
        page.wait_for_selector(".at-peak .worst")
        # Layers have the names that the file gives their nodes.
        watched.expect_names(".at-peak .worst-name", ["Conv_0", "Conv_4"])
        worst = page.locator(".at-peak .worst").first
        expect(worst).to_have_attribute("title", re.compile("^conv_1, "))
        page.mouse.click(*at(page, ".memory-plot", 0.2, 120))
        page.wait_for_selector('.buffer.marked[data-buffer="conv_1"]')
        expect(page.locator(".pin")).to_have_count(0)
    with watched.step("the metric and the mode of the heat map are chosen"):
        page.keyboard.press("a")
        page.get_by_role("tab", name="SQNR").click()
        page.locator(".heat-side h3", has_text="SQNR").wait_for()
        assert watched.names(".heat-side .worst .mono")[0].endswith(" dB")
        page.get_by_role("tab", name="isolated").click()
        page.locator('[aria-selected="true"]', has_text="isolated").wait_for()
        page.get_by_role("tab", name="cosine").click()
        page.locator(".heat-side h3", has_text="cosine").wait_for()
        expect(page).to_have_url(re.compile(re.escape("mode=isolated&metric=cosine")))
        assert set(watched.names(".heat-side .worst .mono")) == {"0"}
    with watched.step("times are added up by kernel and by source node"):
        page.keyboard.press("t")
        page.get_by_role("tab", name="by source").click()
        rows = page.locator(".dock table tbody tr")
        expect(rows.first).to_contain_text("Conv_0, BatchNormalization_1")
        shares = [float(s.split()[0]) for s in watched.names(".dock td:nth-child(3)")]
        assert 98 < sum(shares) < 102
        rows.first.click()
        page.wait_for_selector(".dock tr.marked")
        expect(subject).to_have_text("conv_1")
        page.get_by_role("tab", name="by kernel").click()
        expect(rows.first).to_contain_text("conv_1")
        expect(rows).to_have_count(7)
    with watched.step("kernels stand under the roofs of all caches, and of what holds their data"):
        page.locator('.dock .tab[data-tab="roofline"]').click()
        chart = page.locator(".dock .chart")
        expect(chart.locator("circle")).to_have_count(7)
        lines = "multiply-adds 92 GFLOP/s", "L1 400 GB/s", "L2 1 GB/s", "memory 21 GB/s"
        for label in lines:
            expect(chart.locator("text", has_text=label)).to_have_count(1)
        about = chart.locator("[data-operation='conv_3'] title")
        expect(about).to_contain_text("% of its roof, bound by L2 cache")
        chart.locator("[data-operation='conv_3']").click()
        page.wait_for_selector(".dock .chart .marked[data-operation='conv_3']")
        expect(page.locator(".dock tr.marked")).to_contain_text("conv_3")
        expect(subject).to_have_text("conv_3")
    with watched.step("a wide pane stretches the chart sideways, and no letter or point with it"):
        dot = chart.locator("circle").first
        before, size = dot.bounding_box(), chart.bounding_box()
        page.set_viewport_size({"width": 2200, "height": 900})
        page.wait_for_function(
            "width => document.querySelector('.dock .chart').clientWidth > 1.2 * width",
            arg=size["width"],
        )
        after = dot.bounding_box()
        assert chart.bounding_box()["height"] == size["height"]
        sides = [after["width"], after["height"]]
        assert sides == pytest.approx([before["width"], before["height"]], abs=0.01)  # pixels
        assert after["x"] > before["x"]
    assert watched.is_clean(), watched


def test_the_time_line_zooms_and_selects(opened: Any, generated: ModuleType):
    watched = opened(generated.make_large_trace(700), link="pass=5&dock=timeline")
    page = watched.page
    page.wait_for_selector(".timeline-plot canvas")
    x, y = at(page, ".timeline-plot", 0.5, 36)
    page.mouse.move(x, y)
    page.wait_for_selector(".timeline .tip:not([hidden])")
    page.keyboard.down("Control")
    for _ in range(8):
        page.mouse.wheel(0, -200)
    page.keyboard.up("Control")
    page.mouse.click(x, y)
    page.wait_for_selector(".bar.marked")
    selected = page.locator(".bar.marked").first.get_attribute("data-operation")
    expect(page.locator(".subject h2")).to_have_text(selected)
    assert page.locator(".bar.marked").first.bounding_box()["width"] > 40
    assert watched.is_clean(), watched


def with_assembly(trace: Trace) -> Trace:
    """conv_1 with six instructions, two of which come from line 7 of its source."""
    lines = ("conv_1:", "  pushq %rbp", "  vfmadd231ps %zmm0, %zmm1, %zmm2", "  jne .L4",
             "  vmaxps %zmm2, %zmm3, %zmm2", "  ret")  # fmt: skip
    main, relu = ("conv_1/main",), ("conv_1/activation",)
    text = SourceText("assembly", lines, ((), (), main, main, relu, ()))
    kernels = [
        replace(kernel, assembly=text, assembly_lines=((), (), (6,), (6,), (7,), ()))
        if kernel.name == "conv_1"
        else replace(kernel, assembly_note="the driver keeps its instructions to itself")
        for kernel in trace.kernels
    ]
    return replace(trace, kernels=tuple(kernels))


def test_a_zoomed_page_stays_usable(opened: Any, watched: Any, trace: Trace, fork: Trace):
    """1440 by 900 at 150 %."""
    page = watched.page
    page.set_viewport_size({"width": 960, "height": 600})
    opened(trace, against=fork, link="pass=8&selection=conv_1&dock=memory")
    for dock in ("memory", "accuracy", "timeline", "roofline", "compare"):
        with watched.step(dock):
            page.locator(f'.dock .tab[data-tab="{dock}"]').click()
            page.wait_for_selector(f'.dock .tab[data-tab="{dock}"][aria-selected="true"]')
            page.wait_for_selector(".dock-body > *")
            overflowing = page.evaluate(
                "[...document.querySelectorAll('.topbar, .pane, .pane-head, .tab-bar')]"
                ".filter(e => e.scrollWidth > e.clientWidth + 1"
                " || e.getBoundingClientRect().right > innerWidth + 1)"
                ".map(e => e.className)"
            )
            assert overflowing == []
            assert page.locator(".graph-body").bounding_box()["width"] > 240


def test_assembly_bandwidths_and_a_roofline_without_peaks_say_what_they_know(
    opened: Any, trace: Trace
):
    assert trace.profile is not None
    points = tuple(
        BandwidthPoint(
            factor=factor,
            seconds=seconds,
            counts=(("cpu", 8 - there), ("gpu", there)),
            transferred_bytes=256 * there,
        )
        for factor, seconds, there in ((0.25, 4e-6, 0), (1.0, 3e-6, 2), (4.0, 1e-6, 8))
    )
    record = PlacementRecord(
        targets=("cpu", "gpu"), host="cpu", parts=(), transfers=(), bandwidths=points
    )
    profile = replace(trace.profile, peak_gflops=0.0, peak_gbytes_per_second=0.0)
    parts = {**trace.parts, PLACEMENT: record}
    placed = replace(with_assembly(trace), parts=parts, profile=profile)
    link = "pass=8&selection=conv_1&tab=assembly&beside=true&dock=placement"
    watched = opened(placed, link=link)
    page = watched.page
    with watched.step("a slider shows what another bandwidth costs"):
        slider = page.get_by_label("bandwidth between devices")
        said = page.locator(".bandwidth-said")
        expect(said).to_contain_text("×1: 3 µs, 6 on cpu, 2 on gpu")
        slider.press("ArrowRight")
        expect(said).to_contain_text("×4: 1 µs, 0 on cpu, 8 on gpu")
        expect(page.locator(".bandwidth-column").nth(2)).to_have_class(re.compile("chosen"))
        slider.press("Home")
        expect(said).to_contain_text("×0.25: 4 µs, 8 on cpu, 0 on gpu, 0 B transferred")
    with watched.step("an instruction leads to its lines of source"):
        page.wait_for_selector(".beside .line")
        page.locator(".tab-body:not(.beside) .line", has_text="vfmadd231ps").hover()
        page.wait_for_selector(".beside .line.hovered")
        assert [line.strip() for line in watched.names(".beside .line.hovered")] == [
            "sum += in[c * 324 + y * 18 + k] * load8(w + (o * 27 + c * 9 + k) * 8);"
        ]
    with watched.step("why there is no assembly is said"):
        page.locator('.node[data-id="conv_3"]').click()
        said = page.locator(".tab-body:not(.beside) .empty")
        expect(said).to_contain_text("the driver keeps its instructions to itself")
    with watched.step("the roofline reports missing peaks"):
        page.locator('.dock .tab[data-tab="roofline"]').click()
        expect(page.locator(".dock .chart circle")).to_have_count(7)
        expect(page.locator(".dock .chart text", has_text="/s")).to_have_text(["GFLOP/s ↑"])
        expect(page.locator(".dock")).to_contain_text("peaks of this device were not measured")
    assert watched.is_clean(), watched
