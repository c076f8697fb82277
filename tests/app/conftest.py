"""The app as a person starts it, in a process of its own, and pages that look at it."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace
from typing import Any

import pytest
from playwright.sync_api import Browser

REPOSITORY = Path(__file__).resolve().parents[2]
browsing = SimpleNamespace(**run_path(str(REPOSITORY / "tests" / "browsing.py")))

COMPILE_SECONDS = 90


@pytest.fixture(scope="module")
def app_address(sample_models: Path) -> Iterator[str]:
    """`explorer serve` with one model."""
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "explorer", "serve", "--no-browser"),
            str(sample_models / "digits_cnn.onnx"),
        ],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        found = re.search(r"http://\S+", process.stdout.readline())
        assert found, "the app did not start"
        yield found.group()
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    if not browsing.CHROMIUM.is_file():
        pytest.skip(f"no Chromium at {browsing.CHROMIUM}")
    with browsing.chromium() as browser:
        yield browser


@pytest.fixture
def visit(chromium: Browser, app_address: str) -> Iterator[Callable[[], Any]]:
    """Opens the app as another person would: a browser context of its own, with the first model
    compiled. Gives a `browsing.Watched`."""
    with ExitStack() as visits:

        def opened() -> Any:
            seen = visits.enter_context(browsing.watched(chromium, timeout_seconds=30))
            seen.page.goto(app_address)
            seen.page.wait_for_selector(".node", timeout=1000 * COMPILE_SECONDS)
            return seen

        yield opened
