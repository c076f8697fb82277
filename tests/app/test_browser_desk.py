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
    # The look of the table is a part of the link.
    page.get_by_label("tries that contain these words").fill("sharing")
    expect(page.locator(".tries-table tbody tr")).to_have_count(1)
    page.reload()
    expect(page.locator(".tries-table tbody tr")).to_have_count(1, timeout=MEASURED)
    expect(page.locator(".judged-on")).to_contain_text("eval.npz")

    # An edit of the model is a branch, and a wrong one is refused.
    page.locator(".node:not(.block)").nth(1).click()
    page.get_by_role("tab", name="fork", exact=True).click()
    line = page.get_by_label("edit of the model")
    line.fill("delete nothing")
    line.press("Enter")
    expect(page.locator(".banner.failed")).to_contain_text("no node is called 'nothing'")
    page.locator(".facts-section .actions").get_by_text("end here").click()
    expect(page.locator(".branch-select option")).to_have_count(3, timeout=MEASURED)
    expect(page.locator(".branch-select option").nth(2)).to_contain_text("outputs")
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
    # Who leaves the comparison is not brought back to it.
    dock.get_by_role("tab", name="memory", exact=True).click()
    page.locator(".document-tab", has_text="before.onnx").click()
    page.locator(".document.current", has_text="before.onnx").wait_for()
    seen.wait_until_drawn()
    expect(dock.get_by_role("tab", name="memory", exact=True)).to_have_attribute(
        "aria-selected", "true"
    )
    assert seen.is_clean(), seen
