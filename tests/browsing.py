"""A real browser for tests and measurements: Chromium without a window, and what its pages do.

    with chromium() as browser, watched(browser) as seen:
        seen.page.goto(address)
        assert seen.is_clean(), seen        # nothing outside of this machine, nothing went wrong

Test modules load this file by its path, for xDSL's wheel installs a top-level package `tests`.
"""

import asyncio
import os
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    Dialog,
    Error,
    Page,
    Request,
    ViewportSize,
    WebSocket,
    expect,
    sync_playwright,
)

CHROMIUM = Path(os.environ.get("EXPLORER_CHROMIUM", "/usr/bin/chromium"))
NOT_NEEDED = (
    "WebUIOmniboxPopup",
    "WebUIOmniboxAimPopup",
    # Playwright's own list, which ours takes the place of, as far as it matters to local pages.
    "AimEnabled",
    "AvoidUnnecessaryBeforeUnloadCheckSync",
    "DestroyProfileOnBrowserClose",
    "HttpsUpgrades",
    "LensOverlay",
    "MediaRouter",
    "NetworkTimeServiceQuerying",
    "OptimizationHints",
    "PaintHolding",
    "PreconnectToSearch",
    "ThirdPartyStoragePartitioning",
)
"""Features of Chromium that are off. Each context has a window, and each window's address bar would
load two pages of Chromium's own for what it might suggest: a second of the processor's time."""
FLAGS = (
    f"--disable-features={','.join(NOT_NEEDED)}",
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # No name but this machine's leads anywhere. Playwright's routes would do so too, but with them
    # every request waits for this process, and no cache is used.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
)
SIZE = ViewportSize(width=1440, height=900)
Motion = Literal["reduce", "no-preference"]
CALM: Motion = "reduce"
"""The motion that pages are asked for: animations take a third of the processor time of a journey.
Tests of motion and benchmarks ask for motion."""
LOCAL = re.compile(r"(file|data|blob|about):|(https?|wss?)://127\.0\.0\.1[:/]")
CURRENT_PASS = '.pass-row[aria-current="step"] .pass-name'
BUSY_SECONDS = 20
"""How long an expectation waits: other work may keep the machine busy."""


@dataclass
class Watched:
    """A page, with every address that it asked for and what went wrong in it."""

    page: Page
    requests: list[str] = field(default_factory=list)
    """All addresses, websockets too."""
    outside: list[str] = field(default_factory=list)
    """Those that are not on this machine; they lead nowhere (FLAGS)."""
    problems: list[str] = field(default_factory=list)
    """Errors on the console, and exceptions that nobody caught."""
    dialogs: list[str] = field(default_factory=list)

    def names(self, selector: str) -> list[str]:
        """The text of every element."""
        return self.page.locator(selector).all_inner_texts()

    def texts(self, selector: str) -> list[str]:
        """Texts of SVG elements, which have no layout of their own."""
        return self.page.locator(selector).all_text_contents()

    def expect_names(self, selector: str, texts: list[str]) -> None:
        """Waits until these are the texts of all elements."""
        expect(self.page.locator(selector)).to_have_text(texts, use_inner_text=True)

    def current_pass(self) -> str:
        return self.page.locator(CURRENT_PASS).inner_text()

    def expect_pass(self, name: str) -> None:
        """Waits until a pass is the current one."""
        self.expect_names(CURRENT_PASS, [name])

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """A step of a journey: a failure within it names it."""
        try:
            yield
        except Exception as error:
            error.add_note(f"in the step: {name}")
            raise

    def wait_until(self, condition: str, arg: Any = None, seconds: float = 20) -> None:
        """Waits for a JavaScript condition; Playwright's own waiting is refused by the page's
        content security policy, because it makes code out of text there."""
        deadline = time.monotonic() + seconds
        while not self.page.evaluate(condition, arg):
            if time.monotonic() > deadline:
                raise TimeoutError(f"not within {seconds:g} s: {condition}")
            self.page.wait_for_timeout(30)

    def is_clean(self) -> bool:
        return not (self.outside or self.problems or self.dialogs)


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser with a fresh profile."""
    expect.set_options(timeout=1000 * BUSY_SECONDS)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=str(CHROMIUM), args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


class SharedChromium:
    """One browser for many modules of tests, one after the other: to start it takes longer than
    most tests.

    Playwright's loop counts as the running one of this thread as long as its browser is open, and
    `asyncio.run` refuses to start another one. Between two loans nothing runs in it, and it does
    not count.
    """

    def __init__(self) -> None:
        self._open = ExitStack()
        self._browser: Browser | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @contextmanager
    def lent(self) -> Iterator[Browser]:
        """The browser, without a context; one that ended meanwhile is started again."""
        with self._running():
            if self._browser is None or not answers(self._browser):
                self._open.close()
                self._browser = self._open.enter_context(chromium())
            yield self._browser
            if answers(self._browser):
                for context in self._browser.contexts:
                    context.close()

    def close(self) -> None:
        with self._running():
            self._open.close()
            self._browser = None

    @contextmanager
    def _running(self) -> Iterator[None]:
        asyncio._set_running_loop(self._loop)
        try:
            yield
        finally:
            self._loop = asyncio._get_running_loop()
            asyncio._set_running_loop(None)


def answers(browser: Browser) -> bool:
    try:
        browser.new_browser_cdp_session().detach()
    except Error:
        return False
    return True


@contextmanager
def watched(
    browser: Browser,
    *,
    width: int = 1440,
    height: int = 900,
    timeout_seconds: float = 15,
    motion: Motion = CALM,
) -> Iterator[Watched]:
    """A new page in a context of its own: no cookies and no storage are shared."""
    size = ViewportSize(width=width, height=height)
    context = browser.new_context(viewport=size, reduced_motion=motion)
    page = context.new_page()
    page.set_default_timeout(1000 * timeout_seconds)
    try:
        with watching(page) as seen:
            yield seen
    finally:
        context.close()


@contextmanager
def watching(page: Page) -> Iterator[Watched]:
    """Notes what a page does, until the end of the block."""
    seen = Watched(page)

    def on_request(request: Request) -> None:
        note(request.url)

    def on_socket(socket: WebSocket) -> None:
        note(socket.url)

    def note(address: str) -> None:
        seen.requests.append(address)
        if not LOCAL.match(address):
            seen.outside.append(address)

    def on_console(message: ConsoleMessage) -> None:
        if message.type == "error":
            seen.problems.append(message.text)

    def on_error(error: Error) -> None:
        seen.problems.append(f"{error}\n{error.stack}")

    def on_dialog(dialog: Dialog) -> None:
        seen.dialogs.append(dialog.message)
        dialog.dismiss()

    listeners = {
        "request": on_request,
        "websocket": on_socket,
        "console": on_console,
        "pageerror": on_error,
        "dialog": on_dialog,
    }
    for event, listener in listeners.items():
        page.on(event, listener)  # type: ignore[call-overload]
    try:
        yield seen
    finally:
        for event, listener in listeners.items():
            page.remove_listener(event, listener)


class ReusedPage:
    """One page for the tests of a module, one after the other: a context of its own takes longer
    than to load what most tests look at.

    Between two tests the page is empty, what it stored is gone, and its size, its media and its
    time limits are those of a new one. Scripts of `add_init_script` would stay: a test with one
    asks for a context of its own (`watched`).
    """

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._page: Page | None = None

    @contextmanager
    def lent(self, timeout_seconds: float = 15) -> Iterator[Watched]:
        page = self._page or self._new_page()
        self._page = None  # a test that leaves it in another state than here is not the last one
        page.set_default_timeout(1000 * timeout_seconds)
        with watching(page) as seen:
            yield seen
        page.goto("about:blank")
        page.mouse.up()
        page.set_viewport_size(SIZE)
        page.emulate_media(color_scheme="null", reduced_motion=CALM)
        session = page.context.new_cdp_session(page)
        for origin in {origin_of(address) for address in seen.requests} - {""}:
            session.send("Storage.clearDataForOrigin", {"origin": origin, "storageTypes": "all"})
        session.detach()
        page.context.clear_cookies()
        self._page = page

    def _new_page(self) -> Page:
        return self._browser.new_context(viewport=SIZE, reduced_motion=CALM).new_page()


def origin_of(address: str) -> str:
    """`http://127.0.0.1:8000` or `file://`; empty for what has no storage."""
    found = re.match(r"https?://[^/]+|file://", address)
    return found.group() if found else ""
