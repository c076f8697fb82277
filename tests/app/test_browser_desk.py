"""From a number that displeases to the decision that changes it, on a person's own data."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from playwright.sync_api import expect

pytestmark = [pytest.mark.browser, pytest.mark.slow]
MODEL = "digits_cnn.onnx"
MEASURED = 180_000


def test_numbers_are_judged_moved_by_levers_and_compared_and_the_model_is_edited(
    visit: Callable[..., Any], sample_models: Path, tmp_path: Path
):
    digits = np.load(sample_models / "digits_test.npz")
    np.savez(tmp_path / "eval.npz", image=digits["images"][:32], labels=digits["labels"][:32])
    seen = visit()
    page = seen.page
    if seen.shown_model() != MODEL:
        seen.open_offered(MODEL)
    # Without data it is said that numbers rest on noise.
    expect(page.locator(".judged-on")).to_contain_text("seeded noise", timeout=MEASURED)
    page.get_by_label("data on which the model is judged").set_input_files(tmp_path / "eval.npz")
    expect(page.locator(".judged-on")).to_contain_text("eval.npz, 32 examples", timeout=MEASURED)
    expect(page.locator(".facts-row")).to_contain_text("of 32 right")
    # A number opens what moves it; a try is a branch, and the prediction is next to the result.
    page.locator('.topbar [data-moves="peak_bytes"]').first.click()
    dialog = page.get_by_role("dialog", name="what moves peak memory")
    planner = dialog.locator('[data-address="plan-memory/planner"]')
    planner.locator("summary").click()
    planner.locator(".lever-option", has_text="no-sharing").locator(".try").click()
    page.locator('[data-tab="tries"]').click()
    row = page.locator(".tries-table tr", has_text="planner no-sharing").first
    expect(row).to_contain_text("predicted", timeout=MEASURED)
    said = row.locator("td").nth(-2).inner_text()
    predicted, measured = said.removeprefix("predicted ").split(": ")
    assert predicted == measured, said
    expect(page.locator(".tries-table tbody tr", has_text="no decision")).to_have_count(1)
    empty = page.locator(".tries-table td.number", has_text="–")
    assert all(cell.get_attribute("title") for cell in empty.all())
    # The look of the table is a part of the link.
    page.get_by_label("tries that contain these words").fill("sharing")
    expect(page.locator(".tries-table tbody tr")).to_have_count(1)
    page.reload()
    expect(page.locator(".tries-table tbody tr")).to_have_count(1, timeout=MEASURED)
    expect(page.locator(".judged-on")).to_contain_text("eval.npz")

    # A target without floats refuses the model, and the banner quantizes it with the data.
    page.locator(".target-select").select_option("tiny-8")
    banner = page.locator(".banner", has_text="nothing in this model is quantized")
    expect(banner).to_be_visible(timeout=MEASURED)
    banner.get_by_role("button", name="quantize by mse").click()
    expect(page.locator('.topbar [data-moves="cycles"]').first).to_be_visible(timeout=MEASURED)
    expect(banner).to_have_count(0)
    page.locator(".branch-select").select_option(index=0)
    expect(page.locator('.topbar [data-moves="cycles"]')).to_have_count(0, timeout=MEASURED)

    # An edit of the model is a branch, and a wrong one is refused.
    page.locator(".node:not(.block)").nth(1).click()
    page.get_by_role("tab", name="fork", exact=True).click()
    line = page.get_by_label("edit of the model")
    line.fill("delete nothing")
    line.press("Enter")
    expect(page.locator(".banner.failed")).to_contain_text("no node is called 'nothing'")
    page.locator(".facts-section .actions").get_by_text("end here").click()
    # What is typed while the branch is made is still there, with the caret, when its panes are.
    line.fill("rename a = ")
    expect(page.locator(".branch-select option")).to_have_count(4, timeout=MEASURED)
    expect(page.locator(".branch-select option").nth(3)).to_contain_text("outputs")
    page.locator(".branch-select option:checked", has_text="outputs").wait_for(state="attached")
    expect(line).to_have_value("rename a = ")
    expect(line).to_be_focused()
    assert seen.is_clean(), seen


FIRST_NUMBER = r"""(area) => {
  const unread = 'pre, code, svg, canvas, .code, th, input, textarea, select, button, summary';
  const walker = document.createTreeWalker(area, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const {textContent, parentElement} = walker.currentNode;
    const found = /(?<![\w.:/[\u2044-])\d[\d,.]*\b(?![\w\]:/]|\.\w)/.exec(textContent);
    if (!found || parentElement.closest(unread) || !parentElement.checkVisibility()) continue;
    parentElement.scrollIntoView({block: 'center'});
    const range = document.createRange();
    range.setStart(walker.currentNode, found.index);
    range.setEnd(walker.currentNode, found.index + 1);
    const {left, top, width, height} = range.getBoundingClientRect();
    return [left + width / 2, top + height / 2];
  }
  return null;
}"""
"""Where the first number is that no button has as its own."""


def test_a_number_in_every_view_opens_its_levers_or_the_reason_why_there_are_none(
    visit: Callable[..., Any],
):
    seen = visit()
    page = seen.page
    if seen.shown_model() != MODEL:
        seen.open_offered(MODEL)
    seen.wait_until_done()
    dialog = page.get_by_role("dialog")
    page.locator(".node:not(.block)").nth(1).click()
    page.locator('.inspector [data-tab="operation"]').click()
    asked = {}
    for kind in ("dock", "inspector"):
        tabs = page.locator(f".{kind} [role=tab][data-tab]").all()
        for name in [tab.get_attribute("data-tab") for tab in tabs]:
            page.locator(f'.{kind} [data-tab="{name}"]').click()
            expect(page.locator(f".{kind}")).not_to_have_attribute("aria-busy", "true")
            page.wait_for_timeout(100)
            panes = page.locator(".dock-body" if kind == "dock" else ".inspector .levels")
            at = panes.evaluate(FIRST_NUMBER)
            for _ in range(50):  # what is drawn later moves it
                page.wait_for_timeout(50)
                before, at = at, panes.evaluate(FIRST_NUMBER)
                if at == before:
                    break
            if at is None:
                continue
            page.mouse.click(*at, button="right")
            expect(dialog, name).to_have_count(1)
            asked[name] = dialog.get_attribute("aria-label")
            page.keyboard.press("Escape")
            expect(dialog).to_have_count(0)
    assert asked["memory"] == "what moves peak memory"
    assert asked["tensors"] == "what moves decibels against the source"
    assert asked["model"] == "why no decision moves this"
    assert {"operation", "weights", "roofline", "program", "loops"} <= asked.keys()

    # In the text of a pane a press is enough, and in a row the menu key, which has no place.
    page.locator('.dock [data-tab="memory"]').click()
    saved = page.locator(".memory-side dd", has_text="saved")
    page.mouse.click(*saved.evaluate(FIRST_NUMBER))
    expect(page.get_by_role("dialog", name="what moves peak memory")).to_be_visible()
    page.keyboard.press("Escape")
    # Cells have no buttons of their own: the keys go from a row to its numbers.
    page.locator('.dock [data-tab="kernels"]').click()
    first = page.locator(".dock tbody tr").first
    expect(first.locator("button")).to_have_count(0)
    first.focus()
    page.keyboard.press("ArrowRight")
    expect(first.locator("td.number").first).to_be_focused()
    page.keyboard.press("Enter")
    kernel = first.get_attribute("data-of")
    expect(page.get_by_role("heading", name=f"What moves latency of {kernel}")).to_be_visible()
    page.keyboard.press("Escape")
    page.locator('.dock [data-tab="roofline"]').click()
    ticks = page.locator(".dock .chart text.has-number")
    assert ticks.count() > 4
    ticks.first.click()
    expect(page.get_by_role("dialog", name="what moves latency")).to_be_visible()
    page.keyboard.press("Escape")
    page.locator('.dock [data-tab="insights"]').click()
    page.locator(".dock tbody tr").first.dispatch_event("contextmenu")
    expect(page.get_by_role("dialog", name="what moves")).to_be_visible()
    assert seen.is_clean(), seen


def test_two_files_that_are_sent_show_where_they_part(
    visit: Callable[..., Any], sample_models: Path, tmp_path: Path
):
    model = onnx.load(sample_models / "digits_mlp.onnx")
    onnx.save(model, tmp_path / "before.onnx")
    weight = next(held for held in model.graph.initializer if held.name == "dense2.weight")
    weight.CopyFrom(numpy_helper.from_array(2 * numpy_helper.to_array(weight), weight.name))
    onnx.save(model, tmp_path / "after.onnx")
    seen = visit()
    page = seen.page
    sent = [tmp_path / "before.onnx", tmp_path / "after.onnx"]
    page.get_by_label("model file").set_input_files(sent)
    dock = page.locator(".dock")
    text = dock.locator(".specification p", has_text="the first difference is")
    expect(text).to_contain_text("/dense2 (Gemm) against /dense2 (Gemm)", timeout=MEASURED)
    expect(dock.locator(".specification p", has_text="largest error: ")).to_be_visible()
    expect(dock.locator("figure.charted")).to_be_visible()
    # A node is selected where it is drawn; totals hold one file against the other.
    dock.locator(".specification tbody tr", has_text="/dense2").first.click()
    expect(page.locator(".subject h2")).not_to_be_empty()
    dock.get_by_role("tab", name="totals", exact=True).click()
    row = page.locator(".side-table tr", has_text="SQNR against the other file")
    expect(row).to_contain_text("dB")
    expect(row).to_contain_text("the reference")
    expect(dock.locator(".partings")).to_contain_text("they differ in weights")
    # Who leaves the comparison is not brought back to it.
    dock.get_by_role("tab", name="memory", exact=True).click()
    page.locator(".document-tab", has_text="before.onnx").click()
    page.locator(".document.current", has_text="before.onnx").wait_for()
    seen.wait_until_drawn()
    expect(dock.get_by_role("tab", name="memory", exact=True)).to_have_attribute(
        "aria-selected", "true"
    )
    assert seen.is_clean(), seen
