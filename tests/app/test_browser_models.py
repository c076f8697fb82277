"""Several models and traces in the served app: switching, comparing, linking. What depends on
compiled numbers or code is compiled for real, the rest by the invented compiler."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def select(seen: Any, operation: str) -> None:
    seen.page.locator(f'.node[data-id="{operation}"]').click()
    seen.page.wait_for_selector(f'.node.selected[data-id="{operation}"]')


def compare(seen: Any, view: str) -> None:
    seen.page.locator(".dock").get_by_role("tab", name="compare", exact=True).click()
    seen.page.locator(".dock").get_by_role("tab", name=view, exact=True).click()


def without_fusion(seen: Any) -> None:
    seen.page.get_by_role("checkbox", name="run fuse-activation").first.uncheck()
    seen.wait_for_branch("without fuse-activation")


def test_every_model_is_shown_as_it_was_left(opened_app: Callable[..., Any]):
    seen = opened_app()
    page = seen.page
    page.keyboard.press("j")
    place = seen.current_pass()
    first = page.locator(".node").first.get_attribute("data-id")
    select(seen, first)
    seen.open_offered("hostile.onnx")
    expect(page.locator(".node.selected")).to_have_count(0)
    page.keyboard.press("k")
    other = seen.current_pass()
    page.get_by_role("tab", name="good.onnx").click()
    page.wait_for_selector(f'.node.selected[data-id="{first}"]')
    seen.expect_pass(place)
    page.get_by_role("tab", name="good.onnx").press("ArrowRight")
    page.locator(".document.current", has_text="hostile.onnx").wait_for()
    page.locator(".pass-row[aria-current] .pass-name", has_text=other).wait_for()
    page.get_by_role("button", name="close hostile.onnx").click()
    page.locator(".document", has_text="hostile").wait_for(state="detached")
    assert seen.open_models() == ["good.onnx"]
    page.get_by_role("button", name="close good.onnx").click()
    page.locator(".empty", has_text="Nothing is open").wait_for()
    seen.open_offered("hostile.onnx")
    assert seen.is_clean(), seen


def test_branches_models_and_traces_are_compared(
    visit: Callable[..., Any], saved_trace: Path, tmp_path: Path
):
    seen = visit()
    page = seen.page
    seen.wait_until_done()
    without_fusion(seen)
    seen.wait_until_done()
    with seen.step("two branches in every respect"):
        compare(seen, "totals")
        page.locator(".first-difference").wait_for()
        expect(page.locator(".first-difference")).to_have_text("fuse-activation")
        expect(page.locator(".partings")).to_contain_text("A on → B off")
        rows = {row.split("\t")[0]: row for row in seen.names(".side-table tbody tr")}
        assert re.search(r"operations\s+\d+\s+\d+ \d+% more", rows["operations"])
        assert re.search(r"peak memory\s+[\d.]+ KiB\s+[\d.]+ KiB", rows["peak memory"])
        # A loaded machine takes milliseconds.
        assert re.search(r"latency\s+[\d.]+ [µm]s\s+[\d.]+ [µm]s", rows["latency"])
        assert rows["compared with the source"].count("equal to source") == 2
        compare(seen, "graph")
        page.get_by_role("slider", name="pass", exact=True).fill("1")
        page.get_by_role("button", name="they part at").click()
        page.locator(".difference-picture .node.removed").first.wait_for()
        page.locator(".difference-picture .node.added").first.wait_for(state="attached")
        compare(seen, "IR")
        page.locator(".line-difference td.added").first.wait_for()
        expect(page.locator(".line-difference th")).to_have_count(2)
        compare(seen, "kernels")
        page.locator(".dock-body td", has_text="not in A").first.wait_for()
        compare(seen, "passes")
        page.locator(".dock-body tr.marked", has_text="assign-layouts").wait_for()
    with seen.step("branches of several models side by side"):
        seen.open_offered("digits_mlp.onnx")
        seen.open_offered("mlp run.nnx (trace)")
        compare(seen, "totals")
        boxes = page.locator(".compare-choice input")
        expect(boxes).to_have_count(3)
        for number in range(3):
            boxes.nth(number).check()
        page.locator(".side-table th", has_text=re.compile("^D ")).wait_for()
        expect(page.locator(".partings section")).to_have_count(3)
        expect(page.locator(".compare-list")).to_contain_text("up to 4 side by side")
        labels = seen.names(".side-table thead th")
        assert labels[1] == "A mlp run.nnx: as saved"
        assert sorted(label[2:] for label in labels[2:]) == [
            "digits_cnn.onnx: first",
            "digits_cnn.onnx: without fuse-activ…",
            "digits_mlp.onnx: first",
        ]
        # A saved compilation and a new one of the same model: the same graph.
        mlp = page.locator(".compare-choice", has_text="digits_mlp.onnx")
        for number in range(3):
            boxes.nth(number).uncheck()
        mlp.locator("input").check()
        compare(seen, "graph")
        page.locator(".difference-title", has_text="the same operations").wait_for()
    with seen.step("a trace opens without compiling and is read-only"):
        page.locator(".read-only", has_text="saved trace, read-only").wait_for()
        page.locator(".verdict", has_text="equal to source").wait_for()
        expect(page.locator(".background")).to_have_text("")
        expect(page.locator(".pass-line input")).to_have_count(0)
        expect(page.get_by_role("button", name="fork +")).to_have_count(0)
        page.keyboard.press("f")
        page.locator(".inspector .empty", has_text="open the model's own file").wait_for()
        mine = tmp_path / "mine.nnx"
        shutil.copy(saved_trace, mine)
        page.get_by_role("button", name="side by side", exact=True).click()
        expect(page.locator(".twin")).to_have_count(2)
        page.get_by_label("model file").set_input_files(str(mine))
        page.locator(".document.current", has_text="mine.nnx").wait_for()
        expect(page.get_by_role("dialog")).to_have_count(0)
        page.wait_for_selector(".node")
        assert seen.names(".document .note")[-2:] == ["trace", "trace"]
    assert seen.is_clean(), seen


def test_a_link_brings_another_page_to_the_same_place(opened_app: Callable[..., Any]):
    seen = opened_app()
    page = seen.page
    seen.open_offered("hostile.onnx")
    page.wait_for_url("**model=hostile.onnx**")  # before anything is touched
    without_fusion(seen)
    page.get_by_role("slider", name="pass", exact=True).fill("9")
    place = seen.current_pass()
    selected = page.locator(".node:not(.block)").nth(1).get_attribute("data-id")
    select(seen, selected)
    page.keyboard.press("2")
    page.keyboard.press("n")
    page.wait_for_url("**dock=kernels**")  # it is written after the frame
    link = page.url.split("#")[1]
    later = opened_app(link)
    later.wait_for_branch("without fuse-activation")
    assert later.shown_model() == "hostile.onnx"
    later.expect_pass(place)
    later.page.wait_for_selector(f'.node.selected[data-id="{selected}"]')
    for name in ("IR", "kernels"):
        tab = later.page.locator(f'[role=tab][aria-selected="true"]:has-text("{name}")')
        expect(tab).to_have_count(1)
    expect(later.page.get_by_role("alert")).to_have_count(0)
    assert later.is_clean(), later
    with seen.step("what a link cannot bring back is said"):
        seen = opened_app("model=good.onnx&pass=99&selection=conv_77&tab=magic&colour=red")
        notice = seen.page.get_by_role("alert")
        notice.wait_for()
        text = notice.inner_text()
        for part in ("pass 99", "operation conv_77", "tab “magic”", "“colour”"):
            assert part in text
        notice.get_by_role("button", name="dismiss").click()
        notice.wait_for(state="detached")
        expect(seen.page.locator(".node.selected")).to_have_count(0)
        assert seen.is_clean(), seen


def test_an_edited_schedule_becomes_a_branch_and_an_illegal_one_says_why(visit: Callable[..., Any]):
    seen = visit()
    page = seen.page
    page.get_by_role("button", name="Follow a convolution").first.click()
    page.keyboard.press("3")
    page.locator(".schedule-editor summary").click()
    compile_button = page.get_by_role("button", name="compile these steps")
    expect(compile_button).to_be_disabled()
    loop = page.get_by_label("loop of step 1, split")
    factors = page.get_by_label("factors of step 1, split")
    first = loop.input_value()
    numbers = factors.input_value()
    factors.fill("two")
    expect(factors).to_have_attribute("aria-invalid", "true")
    expect(page.locator(".schedule-editor")).to_contain_text(
        "step 1: factors is whole numbers with blanks between them"
    )
    expect(compile_button).to_be_disabled()
    factors.fill(numbers)
    loop.fill("nowhere")
    compile_button.click()
    banner = page.locator(".banner.failed")
    expect(banner).to_contain_text("step 1, split")
    expect(banner).to_contain_text("change that step, leave it out")
    refused = page.locator(".edited-steps li.refused")
    expect(refused).to_have_count(1)
    expect(refused).to_contain_text("press reset for the steps as they were")
    expect(refused.locator("label").first).to_have_attribute("title", re.compile("a name"))
    banner.get_by_role("button", name="dismiss").click()
    expect(refused).to_have_count(0)
    loop.fill(first)
    unrolled = page.locator(".edited-steps li", has_text="unroll")
    expect(unrolled).to_have_count(1)
    unrolled.get_by_role("button", name="leave out").click()
    compile_button.click()
    seen.wait_for_branch("by a list of steps")
    expect(page.locator(".ladder")).not_to_contain_text("unroll")
    with seen.step("knobs of a schedule are lists of legal values"):
        page.get_by_label("branch", exact=True).select_option(index=0)
        seen.wait_for_branch("first")
        page.keyboard.press("/")
        page.locator(".search").fill("conv")
        page.locator(".hit").first.wait_for()
        page.keyboard.press("Enter")
        page.keyboard.press("f")
        knob = page.get_by_label(re.compile("^pixels of"))
        knob.wait_for(timeout=60_000)
        before = knob.locator("option:checked").inner_text()
        choices = knob.locator("option").all_inner_texts()
        other = next(choice for choice in choices if choice != before)
        knob.select_option(label=other)
        seen.wait_for_branch(f"pixels = {other}")
        expect(page.locator(".knob-row.changed", has_text="pixels")).to_have_count(1)
        page.locator(".inspector").get_by_label("most bytes of the arena").fill("64")
        page.keyboard.press("Tab")
        banner = page.get_by_role("alert")
        banner.wait_for()
        expect(banner).to_contain_text("64")
        refused = page.locator(".memory-budget .budget-asked")
        expect(refused).to_contain_text("refused: ")
        banner.get_by_role("button", name="dismiss").click()
        expect(refused).to_be_empty()
        expect(page.locator(".branch-select option")).to_have_count(3)
    assert seen.is_clean(), seen
