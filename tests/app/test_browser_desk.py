"""From a number that displeases to the decision that changes it, on a person's own data."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import expect

pytestmark = [pytest.mark.browser, pytest.mark.slow]
MODEL = "digits_cnn.onnx"
MEASURED = 60_000


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
