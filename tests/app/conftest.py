"""The app as a person starts it, in a process of its own, and pages that look at it."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import explorer as ex
from explorer.results import Trace

FOLDER = Path(__file__).parent
REPOSITORY = FOLDER.parents[1]

COMPILE_SECONDS = 90


@pytest.fixture(scope="session")
def synthetic(module_of_tests: Callable[[str], ModuleType]) -> ModuleType:
    """`make_trace(label, mark, fused)` and `HOSTILE`."""
    return module_of_tests("views/synthetic.py")


@pytest.fixture(scope="session")
def trace(synthetic: ModuleType) -> Trace:
    """A compilation of a small residual network by twelve passes."""
    return synthetic.make_trace()


@contextmanager
def served(*command: str) -> Iterator[tuple[str, subprocess.Popen]]:
    """The app's address and process, once it answers; ended as a person ends it."""
    path = os.pathsep.join(map(str, (REPOSITORY, FOLDER, REPOSITORY / "tests" / "views")))
    process = subprocess.Popen(
        [sys.executable, *command],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        found = re.search(r"http://\S+", process.stdout.readline())
        assert found, "the app did not start"
        yield found.group(), process
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture(scope="session")
def serve_apart() -> Callable[..., Any]:
    """`served`, for an app of a test's own."""
    return served


@pytest.fixture(scope="session")
def saved_trace(sample_models: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A compilation as a file, compared with its source."""
    compilation = ex.compile(sample_models / "digits_mlp.onnx")
    compilation.accuracy()
    return compilation.save(tmp_path_factory.mktemp("traces") / "mlp run.nnx")


@pytest.fixture(scope="package")
def app_address(sample_models: Path, saved_trace: Path) -> Iterator[str]:
    """`explorer serve` with two models and a trace."""
    files = (sample_models / "digits_cnn.onnx", sample_models / "digits_mlp.onnx", saved_trace)
    with served("-m", "explorer", "serve", "--no-browser", *map(str, files)) as (address, _):
        yield address


@pytest.fixture(scope="package")
def invented_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The app on an invented compiler, offering a good and a hostile model."""
    models = tmp_path_factory.mktemp("models")
    for name in ("good.onnx", "hostile.onnx"):
        (models / name).write_bytes(b"")
    with served(str(FOLDER / "served.py"), "a-test-token", str(models)) as (address, _):
        yield address


class Visit:
    """A page with the app in it, and what went wrong there (`browsing.Watched`)."""

    def __init__(self, seen: Any) -> None:
        self.page = seen.page
        self.names = seen.names
        self.is_clean = seen.is_clean
        self.step = seen.step
        self.current_pass = seen.current_pass
        self.expect_pass = seen.expect_pass
        self.expect_names = seen.expect_names
        self._seen = seen

    def __repr__(self) -> str:
        return repr(self._seen)

    def shown_model(self) -> str:
        return self.page.locator(".document.current .document-label").inner_text()

    def open_models(self) -> list[str]:
        return self.names(".document-label")

    def open_offered(self, label: str) -> None:
        """Another model of the list; waits until it is looked at."""
        self.page.get_by_label("open a model or a saved trace").select_option(label=label)
        name = label.removesuffix(" (trace)")
        self.page.locator(".document.current .document-label", has_text=name).wait_for()
        self.wait_until_drawn()

    def wait_until_drawn(self) -> None:
        """Until the panes show the current model: its tab is current before they are drawn."""
        model = self.page.locator(".document.current .document-tab").get_attribute("data-model")
        self.page.locator(f'.frame[data-model="{model}"]').wait_for()
        self.page.wait_for_selector(".node")

    def branch(self) -> str:
        return self.page.locator(".branch-select option:checked").inner_text()

    def wait_for_branch(self, label: str) -> None:
        """Until the panes show this branch: it is chosen before they are drawn, and what is
        clicked in the panes of another one is lost."""
        chosen = self.page.locator(f'.branch-select option:checked[title*="{label}"]')
        chosen.wait_for(state="attached")
        key = chosen.get_attribute("value")
        self.page.locator(f'.frame[data-branch="{key}"]').wait_for()

    def wait_until_done(self) -> None:
        """Until nothing is made in the background any more."""
        self.page.locator(".background:empty").wait_for(state="attached", timeout=120_000)


@pytest.fixture
def new_page(
    browsing: ModuleType, chromium: Any, reused_page: Any
) -> Iterator[Callable[[float], Any]]:
    """A page that shares nothing with another one (`browsing.Watched`), by its time limit in
    seconds. The first one of each test is the module's, emptied (`browsing.ReusedPage`)."""
    with ExitStack() as pages:
        made: list[Any] = []

        def make(seconds: float) -> Any:
            page = (
                browsing.watched(chromium, timeout_seconds=seconds)
                if made
                else reused_page.lent(timeout_seconds=seconds)
            )
            made.append(pages.enter_context(page))
            return made[-1]

        yield make


@pytest.fixture
def visit(new_page: Callable[[float], Any], app_address: str) -> Callable[..., Visit]:
    """Opens the app as another person would: a browser context of its own, with the first model
    compiled. `link` is what stands behind `#` in the address."""

    def opened(link: str = "") -> Visit:
        seen = new_page(60)
        seen.page.goto(f"{app_address}#{link}" if link else app_address)
        seen.page.wait_for_selector(".node", timeout=1000 * COMPILE_SECONDS)
        return Visit(seen)

    return opened


@pytest.fixture
def opened_app(new_page: Callable[[float], Any], invented_address: str) -> Callable[..., Visit]:
    """Opens the app on the invented compiler; the first model's passes are shown. `link` as of
    `visit`."""

    def opened(link: str = "") -> Visit:
        seen = new_page(30)
        seen.page.goto(f"{invented_address}#{link}" if link else invented_address)
        seen.page.wait_for_selector(".node")
        return Visit(seen)

    return opened
