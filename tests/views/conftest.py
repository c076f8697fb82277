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


@pytest.fixture
def watched(reused_page: Any) -> Iterator[Any]:
    """A page for the explorer (`browsing.Watched`)."""
    with reused_page.lent() as seen:
        yield seen


@pytest.fixture
def scripted(browsing: ModuleType, chromium: Any) -> Iterator[Any]:
    """The same for what `add_init_script` is called with: no other test has that script."""
    with browsing.watched(chromium) as seen:
        yield seen


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
def opened(watched: Any, page_of: Callable[..., Path]) -> Callable[..., Any]:
    """Opens a trace as an offline page; `link` is what stands behind `#` in its address."""

    def open_trace(
        trace: Trace, against: Trace | None = None, start: int | None = 2, link: str = ""
    ) -> Any:
        path = page_of(trace, against)
        link = link or ("" if start is None else f"pass={start}")
        if watched.page.url != "about:blank":  # or else a second one at its address isn't loaded
            watched.page.goto("about:blank")
        watched.page.goto(f"{path.as_uri()}#{link}" if link else path.as_uri())
        watched.page.wait_for_selector(".node")
        return watched

    return open_trace
