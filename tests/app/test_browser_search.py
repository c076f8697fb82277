"""Searching a schedule in the app, on a real model: candidates appear, and one becomes a branch."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser
COMPILED = 120_000
"""Milliseconds that a compilation may take on a machine with other work."""


def test_a_search_is_cancelled_and_begun_again_and_a_candidate_becomes_a_branch(
    visit: Callable[..., Any],
):
    seen = visit()
    page = seen.page
    page.get_by_role("button", name="Follow a convolution").first.click()
    page.keyboard.press("3")
    page.locator(".schedule-search summary").click()
    pane = page.locator(".schedule-search")
    start = pane.get_by_role("button", name="search", exact=True)
    with seen.step("it is cancelled"):
        start.click()
        pane.get_by_role("button", name="cancel").click()
        expect(pane).to_contain_text("cancelled", timeout=COMPILED)
        expect(start).to_be_enabled()
    with seen.step("candidates appear as they are measured"):
        field = page.get_by_label("most candidates")
        field.fill("4")
        field.press("Tab")
        start.click()
        expect(pane.get_by_role("button", name="cancel")).to_be_visible()
        expect(start).to_be_visible(timeout=COMPILED)
        dots = pane.locator(".chart [data-operation^=candidate]")
        expect(dots).not_to_have_count(0)
        assert dots.count() >= 2
        expect(dots.last.locator("title")).to_contain_text("measured")
    with seen.step("one becomes a branch"):
        # The others come first, then the default and what was chosen.
        other = dots.first if dots.count() > 2 else dots.last
        other.focus()
        other.press("Enter")
        expect(page.locator(".branch-select option")).to_have_count(2, timeout=COMPILED)
        # The fork has the same kernel: what was measured is shown there, too.
        again = page.locator(".schedule-search .chart [data-operation^=candidate]")
        expect(again).to_have_count(dots.count(), timeout=COMPILED)
    assert seen.is_clean(), seen
