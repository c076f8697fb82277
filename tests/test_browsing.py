"""The browser that all modules of tests share."""

import asyncio
from typing import Any

import pytest

pytestmark = pytest.mark.browser


async def answer() -> int:
    await asyncio.sleep(0)
    return 42


@pytest.fixture
def browser_of_all(browsing: Any, shared_chromium: Any) -> Any:
    if not browsing.CHROMIUM.is_file():
        pytest.skip(f"no Chromium at {browsing.CHROMIUM}")
    return shared_chromium


def test_between_two_modules_nothing_of_a_browser_is_left(browser_of_all: Any):
    with browser_of_all.lent() as first:
        first.new_page().set_content("<p>one</p>")
        assert asyncio.get_running_loop().is_running()
    assert asyncio.run(answer()) == 42
    with browser_of_all.lent() as second:
        assert second is first
        assert second.contexts == []


def test_a_browser_that_ended_is_started_again(browsing: Any, browser_of_all: Any):
    with browser_of_all.lent() as first:
        first.new_browser_cdp_session().send("Browser.close")
        while browsing.answers(first):
            pass
    with browser_of_all.lent() as second:
        assert second is not first
        page = second.new_page()
        page.set_content("<p>two</p>")
        assert page.locator("p").inner_text() == "two"
