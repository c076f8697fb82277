"""Memory in the served app: a buffer that is dropped elsewhere is planned again there."""

from typing import Any

import pytest

pytestmark = pytest.mark.browser


def test_a_dragged_buffer_becomes_a_fork_with_a_pin(opened_app: Any):
    page = opened_app().page
    page.locator('.node[data-id="conv_1"]').click()
    page.wait_for_selector('.buffer.marked[data-buffer="conv_1"]')
    box = page.locator('.buffer.marked[data-buffer="conv_1"]').bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x, y - 60, steps=4)
    offset = int(page.locator(".ghost").get_attribute("data-offset"))
    assert offset > 0
    page.mouse.up()
    page.locator(".branch-select option", has_text=f"conv_1 at byte {offset}").wait_for(
        state="attached"
    )
    page.locator(".pin", has_text="pinned").wait_for()
    page.wait_for_selector(".pinned-mark")


def test_a_buffer_is_moved_with_the_keys_and_planned_again(opened_app: Any):
    page = opened_app().page
    page.locator('.node[data-id="conv_1"]').click()
    page.wait_for_selector('.buffer.marked[data-buffer="conv_1"]')
    page.locator(".memory-plot").focus()
    page.keyboard.press("Shift+ArrowUp")
    offset = page.locator(".ghost").get_attribute("data-offset")
    page.keyboard.press("Enter")
    page.locator(".branch-select option", has_text=f"conv_1 at byte {offset}").wait_for(
        state="attached"
    )
