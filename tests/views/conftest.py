"""Invented traces and their offline pages as fixtures.

`synthetic.py` and `generated.py` are made of what `inventing.py` holds, which lies beside them.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from explorer.results import Trace
from explorer.views.page import export_page


@pytest.fixture(scope="session")
def synthetic(module_of_tests: Callable[[str], ModuleType]) -> ModuleType:
    """The module itself: `make_trace(label, mark, fused)` and `HOSTILE`."""
    return module_of_tests("views/synthetic.py")


@pytest.fixture(scope="session")
def generated(module_of_tests: Callable[[str], ModuleType]) -> ModuleType:
    """Traces of any size: `make_large_trace(operations, scoped)`."""
    return module_of_tests("views/generated.py")


@pytest.fixture(scope="session")
def trace(synthetic: ModuleType) -> Trace:
    """A compilation of a small residual network by twelve passes."""
    return synthetic.make_trace()


@pytest.fixture(scope="session")
def fork(synthetic: ModuleType) -> Trace:
    """The same without fusion."""
    return synthetic.make_trace(label="no fusion", fused=False)


@pytest.fixture(scope="session")
def hostile_trace(synthetic: ModuleType) -> Trace:
    """The same from a model whose names are markup."""
    return synthetic.make_trace(mark=synthetic.HOSTILE)


class Explorer:
    """A page with the explorer in it, and what went wrong there (`browsing.Watched`)."""

    def __init__(self, seen: Any) -> None:
        self.page = seen.page
        self.names = seen.names
        self.is_clean = seen.is_clean
        self.wait_until = seen.wait_until
        self._seen = seen

    def __repr__(self) -> str:
        return repr(self._seen)

    def current_pass(self) -> str:
        return self.page.locator('.pass-row[aria-current="step"] .pass-name').inner_text()

    def texts(self, selector: str) -> list[str]:
        """Texts of SVG elements, which have no layout of their own."""
        return self.page.locator(selector).all_text_contents()


@pytest.fixture
def watched(browsing: ModuleType, chromium: Any) -> Iterator[Explorer]:
    with browsing.watched(chromium) as seen:
        yield Explorer(seen)


@pytest.fixture(scope="session")
def page_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """The offline page of a trace, written once: that of 5,000 operations takes seconds."""
    written: dict[tuple[int, int], tuple[Path, Trace, Trace | None]] = {}
    folder = tmp_path_factory.mktemp("pages")

    def write(trace: Trace, against: Trace | None) -> Path:
        key = (id(trace), id(against))  # traces are kept, so that no other gets their identities
        if key not in written:
            path = folder / f"trace_{len(written)}.html"
            path.write_text(export_page(trace, against), encoding="utf-8")
            written[key] = (path, trace, against)
        return written[key][0]

    return write


@pytest.fixture
def opened(watched: Explorer, page_of: Callable[..., Path]) -> Callable[..., Explorer]:
    """Opens a trace as an offline page; `link` is what stands behind `#` in its address."""

    def open_trace(
        trace: Trace, against: Trace | None = None, start: int | None = 2, link: str = ""
    ) -> Explorer:
        path = page_of(trace, against)
        link = link or ("" if start is None else f"pass={start}")
        watched.page.goto("about:blank")  # or else a second page at the same address isn't loaded
        watched.page.goto(f"{path.as_uri()}#{link}" if link else path.as_uri())
        watched.page.wait_for_selector(".node")
        return watched

    return open_trace
