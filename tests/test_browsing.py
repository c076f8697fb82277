"""The browser that all modules of tests share."""

import asyncio
from pathlib import Path
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


def test_a_browser_is_shared_by_modules_and_started_again_where_it_ended(
    browsing: Any, browser_of_all: Any
):
    with browser_of_all.lent() as first:
        first.new_page().set_content("<p>one</p>")
        assert asyncio.get_running_loop().is_running()
    assert asyncio.run(answer()) == 42
    with browser_of_all.lent() as second:
        assert second is first
        assert second.contexts == []
    with browser_of_all.lent() as ended:
        ended.new_browser_cdp_session().send("Browser.close")
        while browsing.answers(ended):
            pass
    with browser_of_all.lent() as third:
        assert third is not ended
        page = third.new_page()
        page.set_content("<p>two</p>")
        assert page.locator("p").inner_text() == "two"


def test_a_reused_page_is_as_a_new_one(browsing: Any, chromium: Any, tmp_path: Path):
    file = tmp_path / "page.html"
    file.write_text("<script>localStorage.setItem('left', 1)</script>")
    reused = browsing.ReusedPage(chromium)
    with reused.lent() as first:
        first.page.goto(file.as_uri())
        first.page.set_viewport_size({"width": 300, "height": 200})
        first.page.emulate_media(color_scheme="dark", reduced_motion="no-preference")
        page = first.page
    with reused.lent() as second:
        assert second.page is page
        assert second.page.url == "about:blank"
        file.write_text("<p>two</p>")
        second.page.goto(file.as_uri())
        assert second.page.evaluate("[localStorage.length, innerWidth]") == [0, 1440]
        assert not second.page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
        assert second.page.evaluate("matchMedia('(prefers-reduced-motion)').matches")
        assert second.is_clean() and first.requests == second.requests == [file.as_uri()]


def test_no_address_but_this_machines_leads_anywhere(browsing: Any, chromium: Any):
    said = "address => fetch(address, {mode: 'no-cors'}).then(() => 'there', () => 'nowhere')"
    with browsing.watched(chromium) as seen:
        seen.page.set_content("<p>here</p>")
        for number, address in enumerate(("http://example.com/", "http://192.0.2.1/")):
            assert seen.page.evaluate(said, address) == "nowhere"
            assert seen.outside[number:] == [address]
            assert "ERR_NAME_NOT_RESOLVED" in seen.problems[number]
        assert not seen.is_clean()
