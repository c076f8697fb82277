"""Numbers on the graph in a real browser: colours, the legend, the worst ten, own files."""

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from explorer.results import Trace
from explorer.traces.overlays import read_overlay
from explorer.views.page import export_page

pytestmark = pytest.mark.browser


def fill_of(page: Any, operation: str) -> str:
    card = page.locator(f'.node[data-id="{operation}"] > .card:not(.back)')
    return card.evaluate("node => getComputedStyle(node).fill")


def worst(page: Any) -> list[str]:
    return page.locator(".overlay-worst .worst").evaluate_all(
        "(buttons) => buttons.map((button) => button.dataset.operation)"
    )


def choose(page: Any, value: str) -> None:
    page.get_by_label("colour of operations").select_option(value)


def test_operations_are_coloured_by_numbers(opened: Any, trace: Trace, tmp_path: Path):
    last = len(trace.passes) - 1
    watched = opened(trace, start=last)
    page = watched.page
    with watched.step("by their time"):
        assert trace.profile is not None
        slowest = max(trace.profile.events, key=lambda event: event.end_ns - event.start_ns)
        before = fill_of(page, slowest.operation)
        choose(page, "time")
        page.wait_for_selector(f'.node[data-id="{slowest.operation}"][data-measured]')
        assert fill_of(page, slowest.operation) == "rgb(255, 233, 69)"  # the end of cividis
        assert worst(page)[0] == slowest.operation
        assert page.locator(".overlay-scale").inner_text().split()[0] == "0"
        bar = page.locator(f'.node[data-id="{slowest.operation}"] .measure-bar')
        assert float(bar.get_attribute("width")) > 130
        expect(page).to_have_url(re.compile("overlay=time"))
        page.locator(".overlay-worst button").first.click()
        page.wait_for_selector(f'.node.selected[data-id="{slowest.operation}"]')
        page.get_by_role("button", name="close numbers").click()
        expect(page.locator(".measure-bar")).to_have_count(0)
        assert fill_of(page, slowest.operation) == before
    with watched.step("by own numbers, which are read in the page"):
        own = tmp_path / "power.csv"
        rows = "name,power,heat", "conv_1,3.5,10", "Relu_2,1.5,20", "conv_l,9,9", ""
        own.write_text("\n".join(rows), encoding="utf-8")
        page.get_by_role("slider", name="pass", exact=True).fill("1")
        choose(page, "own")
        page.get_by_label("file with own numbers").set_input_files(own)
        page.wait_for_selector('.node[data-id="conv_1"][data-measured="3.5"]')
        page.wait_for_selector('.node[data-id="relu_1"][data-measured="1.5"]')
        assert worst(page) == ["conv_1", "relu_1"]
        overlay = page.locator(".overlay")
        expect(overlay).to_contain_text("1 name in no pass of this model: “conv_l”")
        expect(overlay).to_contain_text("did you mean “conv_")
        page.get_by_label("column").select_option(label="heat")
        page.wait_for_selector('.node[data-id="relu_1"][data-measured="20"]')
    with watched.step("by the errors of the pass; blocks show the worst"):
        page.get_by_role("slider", name="pass", exact=True).fill("2")
        page.locator(".blocks-switch").click()
        choose(page, "error")
        page.wait_for_selector(".node.block[data-measured]")
        expect(overlay).to_contain_text("closed blocks: worst of their operations")
        page.locator(".node.block[data-measured]").first.hover()
        expect(page.locator(".graph .tip")).to_contain_text("(worst of their operations)")
        choose(page, "macs")
        expect(overlay).to_contain_text("closed blocks: sum of their operations")
    assert watched.is_clean(), watched


def test_what_was_not_measured_says_what_to_do(opened: Any, generated: Any, trace: Trace):
    watched = opened(generated.replace(trace, profile=None), link="pass=2&overlay=roof")
    expect(watched.page.locator(".overlay")).to_contain_text("c.profile(with_peaks=True)")
    assert watched.is_clean(), watched


@pytest.mark.sweep  # tests/javascript/own_numbers.test.mjs
def test_a_file_without_numbers_says_what_is_expected(opened: Any, trace: Trace, tmp_path: Path):
    own = tmp_path / "none.json"
    own.write_text("{", encoding="utf-8")
    page = opened(trace, link="pass=1&overlay=own").page
    page.get_by_label("file with own numbers").set_input_files(own)
    expect(page.locator(".overlay [role=alert]")).to_contain_text("none.json is no JSON")


def test_a_page_with_own_numbers_opens_with_them(watched: Any, trace: Trace, tmp_path: Path):
    path = tmp_path / "page.html"
    path.write_text(
        export_page(trace, overlay=read_overlay({"conv_1": 2}, trace)), encoding="utf-8"
    )
    watched.page.goto(f"{path.as_uri()}#pass=1")
    watched.page.wait_for_selector('.node[data-id="conv_1"][data-measured="2"]')
    assert worst(watched.page) == ["conv_1"]
    assert watched.is_clean(), watched
