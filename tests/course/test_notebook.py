"""A prediction in a real JupyterLab: locked, noted, and the run stops without it."""

from __future__ import annotations

import json
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import pytest
from playwright.sync_api import Browser, expect

TESTS = Path(__file__).resolve().parents[1]
browsing = SimpleNamespace(**run_path(str(TESTS / "browsing.py")))
jupyterlab = SimpleNamespace(**run_path(str(TESTS / "jupyterlab.py")))

pytestmark = [
    pytest.mark.browser,
    pytest.mark.sweep,  # JupyterLab starts for ten seconds
    pytest.mark.skipif(
        not browsing.CHROMIUM.is_file(), reason=f"no Chromium at {browsing.CHROMIUM}"
    ),
]
CELLS = (
    'from explorer.course import predict\ncount = predict("How many?", ...)',
    'count.check(11, "One each.", tempting={9: "You counted the declined ones."})',
    'step = predict("Which?", ..., choices=["pack", "unroll"])\nstep.check("unroll")',
    'print("reached the end")',
)
SECONDS = 60


@pytest.fixture(scope="module")
def chromium():
    with browsing.chromium() as browser:
        yield browser


def test_a_run_stops_until_a_prediction_is_locked(chromium: Browser, tmp_path: Path):
    with (
        jupyterlab.served(tmp_path, CELLS) as address,
        browsing.watched(chromium, timeout_seconds=SECONDS) as seen,
    ):
        page = seen.page
        page.goto(address)
        jupyterlab.run_all_cells(page)
        stop = page.get_by_text("first your prediction")
        expect(stop).to_have_count(1, timeout=1000 * SECONDS)
        page.get_by_placeholder("your prediction").fill("9")
        page.keyboard.press("Enter")
        page.get_by_role("button", name="lock").click()
        expect(page.get_by_text("locked; run this cell again")).to_be_visible()
        jupyterlab.run_command(page, "notebook:run-all-cells")
        told = "you said 9; the compiler says 11 (off by 2). You counted the declined ones."
        expect(page.get_by_text(told)).to_be_visible()
        page.get_by_text("unroll", exact=True).last.click()
        page.get_by_role("button", name="lock").click()
        jupyterlab.run_command(page, "notebook:run-all-cells")
        expect(page.get_by_text("as you said: unroll")).to_be_visible()
        expect(page.locator(".jp-OutputArea").get_by_text("reached the end")).to_be_visible()
    lines = (tmp_path / "notebooks" / "predictions.jsonl").read_text().splitlines()
    assert [json.loads(line)["answer"] for line in lines] == [9, "unroll"]
