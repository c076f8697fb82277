"""Room for code: panes that fill the screen or move, levels side by side and in step, colours.

All on a compilation of a sample model, for an invented kernel has no loops worth looking at.
"""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

import explorer
from explorer.results import Trace

pytestmark = pytest.mark.browser

SAMPLE = Path(__file__).parents[2] / "sample_models" / "digits_cnn.onnx"
LINE_PIXELS = 18
LAST_CONVOLUTION = "conv9"
VISIBLE_LINES = """() => [...document.querySelectorAll(".inspector .tab-body:not([hidden]) .code")]
  .map((code) => {
    const box = code.getBoundingClientRect();
    return [...code.querySelectorAll(".line")].filter((line) => {
      const {top, bottom} = line.getBoundingClientRect();
      return top >= box.top - 1 && bottom <= Math.min(box.bottom, innerHeight) + 1;
    }).length;
  })"""


@pytest.fixture(scope="module")
def compiled() -> Trace:
    """With assembly, which takes two compilations of the program."""
    return explorer.compile(SAMPLE).trace(with_assembly=True)


@pytest.fixture
def coding(opened: Any, compiled: Trace) -> Any:
    """Opens the convolution with most work in the arrangement for code, at a size."""

    def open_at(width: int, height: int, link: str = "tab=c&panes=source") -> Any:
        watched = opened(compiled, link=f"pass=20&selection={heaviest(compiled)}&{link}")
        watched.page.set_viewport_size({"width": width, "height": height})
        watched.page.wait_for_selector(".inspector .code-host, .inspector .empty")
        return watched

    return open_at


def heaviest(trace: Trace) -> str:
    return max(trace.kernels, key=lambda kernel: kernel.flops).operations[0]


def top_line(page: Any, column: int) -> float:
    return page.locator(".columns .tab-body .code").nth(column).evaluate("e => e.scrollTop") / 18


def columns_have_twenty_lines(page: Any, columns: int) -> None:
    expect(page.locator(".columns .tab-body:visible .code")).to_have_count(columns)
    lines = page.evaluate(VISIBLE_LINES)
    assert len(lines) == columns
    assert min(lines) >= 20, lines


def test_code_is_read_level_by_level(coding: Any):
    watched = coding(1280, 720)
    page = watched.page
    multiply = page.locator(".beside .line", has_text=re.compile(r"v?fm(add|la)"))
    with watched.step("two levels stand side by side"):
        columns_have_twenty_lines(page, 2)
    with watched.step("it opens at the hottest loop"):
        # The multiply-adds of the convolution and their instructions, not the prologue.
        source = page.locator(".tab-body:not(.beside) .line:has-text('+= x_value * ')")
        expect(source).to_be_in_viewport()
        expect(multiply.first).to_be_in_viewport()
        assert top_line(page, 1) > 5
        page.locator(".beside .code").evaluate("e => { e.scrollTop = 0; }")
        page.locator(".beside .hottest").click()
        expect(multiply.first).to_be_in_viewport()
    with watched.step("statements are coloured in both themes"):
        line = page.locator(".tab-body:not(.beside) .line[data-hue]", has_text="[ov] +=").first
        ground = "e => getComputedStyle(e).backgroundColor"
        for _theme in ("light", "dark"):
            tinted = line.evaluate(ground)
            page.locator(".colour-switch").click()
            page.wait_for_selector(".inspector:not(.coloured)")
            assert line.evaluate(ground) != tinted
            page.locator(".colour-switch").click()
            page.wait_for_selector(".inspector.coloured")
            page.get_by_role("button", name="switch between light and dark").click()
    with watched.step("an instruction is explained where the pointer rests"):
        line = multiply.first
        line.hover()
        tip = page.locator(".instruction-tip")
        expect(tip).to_contain_text("fused multiply-add")
        expect(tip).to_contain_text("operands: ")
        known = re.compile(r"cycles? until its result is there|not known here")
        expect(tip).to_contain_text(known)
        line.click()
        expect(page.locator(".instruction-kept")).to_contain_text("fused multiply-add")
        page.get_by_role("button", name="close the explanation").click()
        expect(page.locator(".instruction-kept")).to_be_hidden()
    with watched.step("levels scroll together until that is turned off"):
        source = page.locator(".columns .tab-body .code").nth(0)
        middle = "() => document.querySelectorAll('.columns .code')[1].scrollTop"
        watched.wait_until(f"() => ({middle})() > 0")  # it opens at the hottest loop
        begun = page.evaluate(middle)
        source.hover()
        page.mouse.wheel(0, -6000)
        watched.wait_until(f"before => ({middle})() < before", begun)
        lower = page.evaluate(middle)
        page.mouse.wheel(0, 6000)
        watched.wait_until(f"before => ({middle})() > before", lower)
        page.locator(".step-switch").click()
        page.wait_for_selector('.step-switch[aria-pressed="false"]')
        stays = page.evaluate(middle)
        source.hover()
        page.mouse.wheel(0, -6000)
        watched.wait_until("() => document.querySelector('.columns .code').scrollTop === 0")
        assert page.evaluate(middle) == stays
    with watched.step("a page in a file says where other builds are made"):
        page.keyboard.press("7")
        said = page.locator(".inspector .empty", has_text="In the explorer as an app")
        expect(said).to_be_visible()
    assert watched.is_clean(), watched


def test_panes_fill_the_screen_and_move(opened: Any, trace: Trace):
    watched = opened(trace, link="pass=8&selection=conv_3&dock=memory")
    page = watched.page
    with watched.step("a pane fills the screen and goes back"):
        page.locator(".dock").hover()
        page.keyboard.press("z")
        expect(page.locator(".graph")).to_be_hidden()
        box = page.locator(".dock").bounding_box()
        head = page.locator(".topbar").bounding_box()
        assert (box["width"], box["height"]) == (1440, 900 - head["height"])
        expect(page).to_have_url(re.compile("panes=graph_large-dock"))
        page.keyboard.press("Escape")
        expect(page.locator(".graph")).to_be_visible()
        page.get_by_role("button", name="let the graph fill the screen").click()
        expect(page.locator(".dock")).to_be_hidden()
        assert page.locator(".graph").bounding_box()["width"] == 1440
        page.keyboard.press("m")
        expect(page.locator(".dock")).to_be_visible()
    with watched.step("arrangements have keys"):
        for key, name, large in (
            ("M", "memory", ".dock"),
            ("A", "accuracy", ".dock"),
            ("T", "time", ".dock"),
            ("S", "source", ".inspector"),
            ("G", "graph", ".graph"),
        ):
            page.keyboard.press(key)
            expect(page.locator(".preset-select")).to_have_value(name)
            expect(page.locator(large)).to_have_attribute("data-place", "centre")
            if name != "graph":
                expect(page).to_have_url(re.compile(f"panes={name}"))
        expect(page.locator('.dock [data-tab="timeline"]')).to_have_attribute(
            "aria-selected", "true"
        )
    with watched.step("the link has the arrangement"):
        page = opened(trace, link="pass=8&selection=conv_3&panes=memory&dock=memory").page
        expect(page.locator(".dock")).to_have_attribute("data-place", "centre")
        expect(page.locator(".passes-pane")).to_be_hidden()
    with watched.step("a pane is docked elsewhere"):
        page.keyboard.press("G")
        expect(page.locator(".passes-pane")).to_be_visible()
        page.get_by_label("place of the inspector").select_option("bottom")
        expect(page.locator(".inspector")).to_have_attribute("data-place", "bottom")
        expect(page.locator(".dock")).to_have_attribute("data-place", "right")
        page.get_by_label("place of the passes").select_option("hidden")
        expect(page.locator(".passes-pane")).to_be_hidden()
        assert page.locator(".graph").bounding_box()["x"] == 0
        page.get_by_role("separator", name="height of the inspector").press("ArrowUp")
        page.wait_for_url("**panes=graph_at-none-graph-dock-inspector**")
        link = page.url.split("#")[1]
        page = opened(trace, link=link).page
        expect(page.locator(".dock")).to_have_attribute("data-place", "right")
    assert watched.is_clean(), watched


def test_a_level_is_taken_away_and_put_back(coding: Any):
    page = coding(1440, 900).page
    columns_have_twenty_lines(page, 3)
    expect(page.locator(".columns .tab-body:visible")).to_have_count(3)
    page.get_by_role("button", name="take loops away").click()
    expect(page.locator(".columns .tab-body:visible")).to_have_count(2)
    page.keyboard.press("2")
    expect(page.locator(".columns .beside-title:visible").first).to_have_text("IR")
    expect(page.locator(".columns .tab-body:visible")).to_have_count(3)
    page.keyboard.press("B")
    expect(page.locator(".tab-body:visible")).to_have_count(1)


def test_no_column_is_kept_for_a_level_that_is_not_there(opened: Any, compiled: Trace):
    kernels = tuple(replace(kernel, assembly=None) for kernel in compiled.kernels)
    link = f"pass=20&selection={heaviest(compiled)}&tab=c&panes=source"
    page = opened(replace(compiled, kernels=kernels), link=link).page
    page.set_viewport_size({"width": 1440, "height": 900})
    titles = page.locator(".columns .beside-title:visible")
    expect(titles).to_have_text(["IR", "loops", "C"])
    page.keyboard.press("5")  # who asks for it is told how to get it
    expect(page.locator(".inspector")).to_contain_text("No assembly in this trace")


def test_a_click_on_a_line_of_ir_leaves_it_where_it_is(opened: Any, compiled: Trace):
    watched = opened(compiled, link="pass=20&tab=ir&view=after")
    page = watched.page
    page.set_viewport_size({"width": 1280, "height": 720})
    line = page.locator(".inspector .line", has_text="%matmul1 =")
    line.scroll_into_view_if_needed()
    before = line.bounding_box()["y"]
    line.click()
    page.wait_for_selector(".line.marked")
    pane = page.locator(".inspector .code").bounding_box()
    after = line.bounding_box()["y"]
    inside = pane["y"] <= after <= pane["y"] + pane["height"] - LINE_PIXELS
    assert abs(after - before) <= 1 or inside
    assert page.locator(".inspector .code").evaluate("e => e.scrollTop") > 0
    assert inside
