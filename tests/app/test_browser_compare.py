"""Branches compared in the served app: from base to fork, timed in turns, what is no difference."""

from typing import Any

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


def compare(page: Any, view: str) -> None:
    dock = page.locator(".dock")
    dock.get_by_role("tab", name="compare", exact=True).click()
    dock.get_by_role("tab", name=view, exact=True).click()


def heads(watched: Any) -> list[str]:
    return [head.strip() for head in watched.names(".side-table thead th")[1:]]


def row_of(page: Any, name: str) -> Any:
    return page.locator(".side-table tbody tr", has=page.locator("th", has_text=name))


def test_a_fork_is_compared_with_its_base_in_numbers_in_turns_and_side_by_side(opened_app: Any):
    watched = opened_app()
    page = watched.page
    watched.wait_until_done()
    page.get_by_role("checkbox", name="run fuse-activation").first.uncheck()
    watched.wait_for_branch("without fuse-activation")
    watched.wait_until_done()

    # Times that were not taken in turns are doubtful.
    compare(page, "totals")
    expect(row_of(page, "latency")).to_contain_text("more ?")

    # Runs in turns show a difference that is larger than the spread.
    page.get_by_role("button", name="measure in turns").click()
    page.locator(".turns-state", has_text="4 rounds in turns on Invented CPU").wait_for()
    latency = row_of(page, "latency")
    expect(latency).to_contain_text("100 µs (90 µs to 110 µs)")
    expect(latency).to_contain_text("20% less")
    assert "four of five rounds" in latency.locator("td").nth(1).get_attribute("title")
    compare(page, "kernels")
    row = page.locator(".dock-body tbody tr", has=page.get_by_text("conv_3", exact=True))
    expect(row).to_contain_text("no difference")

    compare(page, "totals")
    page.get_by_role("button", name="side by side", exact=True).click()
    columns = page.locator(".twin")
    expect(columns).to_have_count(2)
    base, fork = columns.nth(0), columns.nth(1)
    expect(base.locator(".twin-name")).to_have_text("A first")
    expect(fork.locator(".twin-name")).to_have_text("B without fuse-activation")
    base.locator(".node").first.wait_for()
    fork.locator(".node").first.wait_for()
    # Selecting one selects its counterpart, which comes from the same nodes of the model.
    base.locator('.node[data-id="conv_1"]').click()
    expect(base.locator(".subject h2")).to_have_text("conv_1")
    expect(fork.locator(".subject h2")).to_have_text("conv_1")
    fork.locator('.node[data-id="conv_3"]').first.click()
    expect(base.locator(".subject h2")).to_have_text("conv_3")
    # The same level of code on both sides.
    base.get_by_role("tab", name="C", exact=True).click()
    base.locator(".inspector .code .line").first.wait_for()
    fork.locator(".inspector .code .line").first.wait_for()
    # Both have the same text of this kernel, and say so.
    said = page.locator(".twins-same")
    expect(said).to_have_text("no difference: C")
    base.get_by_role("tab", name="IR", exact=True).click()
    expect(said).to_have_text("no difference: IR")
    # A pass that the fork lacks leads to the last one before it.
    names = page.locator(".twins-pass")
    page.locator(".twins-head").get_by_title("pass before (k)").click()
    expect(names).to_contain_text("after")
    page.keyboard.press("Escape")
    expect(columns).to_have_count(0)
    # What was found stays.
    expect(page.locator(".subject h2")).to_have_text("conv_3")

    # The base is on the left, whichever is looked at.
    compare(page, "totals")
    page.wait_for_selector(".side-table")
    assert heads(watched) == ["A first", "B without fuse-activation"]
    expect(page.locator(".compare-current")).to_contain_text("B without fuse-activation")
    expect(row_of(page, "operations")).to_contain_text("more")
    page.get_by_label("branch", exact=True).select_option(index=0)
    watched.wait_for_branch("first")
    page.wait_for_selector(".side-table")
    assert heads(watched) == ["A first", "B without fuse-activation"]
    page.get_by_role("button", name="swap").click()
    page.locator(".side-table th", has_text="A without fuse-activation").wait_for()
    expect(row_of(page, "operations")).to_contain_text("less")
    assert watched.is_clean(), watched


def test_what_is_no_difference_and_a_selection_that_is_carried_into_the_branch(opened_app: Any):
    """A decision that changes nothing in the code: whatever was measured is chance. fused_1 took
    over conv_2 and the addition: without fusion there is no such operation."""
    watched = opened_app()
    page = watched.page
    watched.wait_until_done()
    page.locator('.node[data-id="conv_1"]').click()
    page.get_by_role("button", name="fork +").click()
    page.get_by_label("pixels of conv_1").select_option(label="4")
    watched.wait_for_branch("conv_1 pixels = 4")
    watched.wait_until_done()
    compare(page, "totals")
    expect(row_of(page, "latency")).to_contain_text("no difference")
    compare(page, "kernels")
    rows = page.locator(".dock-body tbody tr")
    expect(rows.first).to_contain_text("no difference")
    assert all("no difference" in row for row in watched.names(".dock-body tbody tr"))

    page.get_by_label("branch", exact=True).select_option(index=0)
    watched.wait_for_branch("first")
    page.get_by_role("slider", name="pass", exact=True).fill("8")
    page.locator('.node[data-id="conv_1"]').click()
    page.keyboard.press("4")
    page.get_by_role("checkbox", name="run fuse-activation").first.uncheck()
    watched.wait_for_branch("without fuse-activation")
    watched.wait_until_done()
    expect(page.locator(".subject h2")).not_to_be_empty()
    expect(page.locator(".inspector")).not_to_contain_text("Nothing of this operation is left")
    page.wait_for_selector(".inspector .code .line")
    assert watched.is_clean(), watched
