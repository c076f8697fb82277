"""What every test may ask for: the folders of models, and whether golden files are rewritten."""

import gc
import importlib.util
import os
import resource
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any
from zlib import crc32

import pytest

from explorer.errors import DeviceError, InputError
from explorer.runtime.cache.c_programs import cached_library
from explorer.runtime.core_at_hand import SETTING, core_at_hand
from explorer.runtime.devices import DeviceRecord, opencl_device

REPOSITORY = Path(__file__).resolve().parent.parent
QUICKLY_BUILT = {
    *("accuracy", "backends", "cases", "compilation", "course", "editing", "exporters", "face"),
    *("importers", "ir", "memory", "notebooks", "npu", "onnx_backend", "passes", "placement"),
    *("quantization", "reducing", "references", "tuning", "verification"),
}
"""Folders of tests that build with few optimizations."""
STARTED = pytest.StashKey[float]()
"""Processor time of the process when a test's set-up began."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write what is generated into the golden files instead of comparing with them",
    )


def pytest_configure() -> None:
    gc.disable()  # a million objects of collected tests stay: looking for garbage finds none
    if importlib.util.find_spec("hypothesis"):  # `make quick` runs without it
        from hypothesis import settings

        # No test asserts a time: on a busy machine an example may take any.
        settings.register_profile("untimed", deadline=None)
        settings.load_profile("untimed")
    try:
        core_at_hand()
    except InputError as error:
        raise pytest.UsageError(str(error)) from error


def pytest_report_header() -> str:
    core = core_at_hand()
    return f"core: {core.name}, {core.lanes} float lanes ({SETTING})" if core else ""


def pytest_collection_finish() -> None:
    """Later, garbage is looked for where there is enough to be worth walking over what is alive."""
    gc.freeze()
    gc.unfreeze()  # into the oldest generation, as after a compilation
    gc.set_threshold(50_000, 10, 10)
    gc.enable()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How many tests were skipped for each reason, and how often each of those was run again that
    failed at first: CI repeats these lines at its end."""
    skipped = terminalreporter.stats.get("skipped", [])
    counts = Counter(reason_of(report) for report in skipped)
    for reason, count in sorted(counts.items()):
        terminalreporter.write_line(f"skipped {count}: {reason}")
    again = Counter(report.nodeid for report in terminalreporter.stats.get("rerun", []))
    for name, count in sorted(again.items()):
        terminalreporter.write_line(f"rerun {count}: {name}")


def reason_of(report: pytest.TestReport) -> str:
    """Of a skipped test, without the place that it was skipped at."""
    said = report.longrepr
    text = said[-1] if isinstance(said, tuple) else str(said)
    return " ".join(text.removeprefix("Skipped: ").split())


def processor_seconds() -> float:
    """Processor time of this process and of its children that have ended."""
    return sum(os.times()[:4])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    item.stash[STARTED] = processor_seconds()
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """A test's processor time goes into the record of `--junitxml`: it says more than the seconds
    of a busy machine. A fixture counts in the first test that asks for it."""
    result = yield
    used = processor_seconds() - item.stash[STARTED]
    item.user_properties.append(("processor_seconds", f"{used:.3f}"))
    return result


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Iterator[Any]:
    """The limit of `full_disk` ends with the test's function: pytest's own report, which it writes
    before it undoes fixtures, may be a file that is longer."""
    marker = pyfuncitem.get_closest_marker("full_disk")
    if marker is None:
        return (yield)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "dont_write_bytecode", True)  # a part of a module would be kept
        resource.setrlimit(resource.RLIMIT_FSIZE, (marker.args[0], hard))
        try:
            return (yield)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def pytest_sessionfinish() -> None:
    """pytest looks for garbage five times before it ends, in what all tests have left: seconds."""
    gc.freeze()


@pytest.fixture(scope="session")
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be rewritten (`--update-golden`)."""
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture(scope="session", autouse=True)
def program_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of the program cache: of this run of the tests alone, not the person's own. What
    one of its processes (pytest-xdist) has compiled the others need not compile again. No page
    finds what another test left open."""
    run = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        run = run.parent
    folder = run / "program-cache"
    folder.mkdir(mode=0o700, exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EXPLORER_CACHE", str(folder))
        patch.setenv("EXPLORER_WORKSPACES", "off")
        yield folder


@pytest.fixture(scope="session")
def sample_models() -> Path:
    """The folder of the small models that are part of this repository."""
    return REPOSITORY / "sample_models"


@pytest.fixture(scope="session")
def models_folder() -> Path:
    """The folder of the many models of others that are not part of this repository.

    `EXPLORER_MODELS` names it; a relative path counts from the repository's root.
    """
    folder = (REPOSITORY / os.environ.get("EXPLORER_MODELS", "../shared/models")).resolve()
    if not folder.is_dir():
        pytest.skip(f"no folder of models at {folder}: name one with EXPLORER_MODELS")
    return folder


@pytest.fixture(scope="session")
def opencl_device_or_reason() -> DeviceRecord | str:
    try:
        return opencl_device()
    except DeviceError as error:
        return str(error)


@pytest.fixture
def opencl_device_record(opencl_device_or_reason: DeviceRecord | str) -> DeviceRecord:
    if isinstance(opencl_device_or_reason, str):
        pytest.skip(opencl_device_or_reason)
    return opencl_device_or_reason


def optimize_less(patch: pytest.MonkeyPatch) -> None:
    """gcc and the OpenCL driver take half of their time."""
    build = partial(cached_library, flags=("-Og",))
    patch.setattr("explorer.runtime.native.program.cached_library", build)
    patch.setenv("PYOPENCL_BUILD_OPTIONS", "-cl-opt-disable")


@pytest.fixture(scope="module", autouse=True)
def builds_of_folder(request: pytest.FixtureRequest) -> Iterator[None]:
    """In some folders programs run once or twice, and builds take most of the time. The tests of
    kernels, runtime, sessions, commands and app build as users do."""
    with pytest.MonkeyPatch.context() as patch:
        folder = request.path.relative_to(REPOSITORY / "tests").parts[0]
        if folder in QUICKLY_BUILT and not request.node.get_closest_marker("usual_builds"):
            optimize_less(patch)
        yield


@pytest.fixture
def quick_builds(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests elsewhere whose programs run once."""
    optimize_less(monkeypatch)


def load_module(path: Path) -> ModuleType:
    """A module of the tests by its path: xDSL's wheel installs a top-level package `tests`."""
    spec = importlib.util.spec_from_file_location(f"{path.stem}_of_tests", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up here
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))  # for what it imports from beside itself
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def module_of_tests() -> Callable[[str], ModuleType]:
    """Loads a file beside the tests by its path below `tests`: `"views/synthetic.py"`."""
    return lambda path: load_module(REPOSITORY / "tests" / path)


@pytest.fixture(scope="session")
def browsing() -> ModuleType:
    """`browsing.py`: `chromium()`, `watched(browser)`."""
    return load_module(REPOSITORY / "tests" / "browsing.py")


@pytest.fixture(scope="session")
def shared_chromium(browsing: ModuleType) -> Iterator[Any]:
    """One browser for all modules (`browsing.SharedChromium`)."""
    shared = browsing.SharedChromium()
    yield shared
    shared.close()


@pytest.fixture(scope="module")
def chromium(browsing: ModuleType, shared_chromium: Any) -> Iterator[Any]:
    """A browser without a window."""
    if not browsing.CHROMIUM.is_file():
        pytest.skip(f"no Chromium at {browsing.CHROMIUM}")
    with shared_chromium.lent() as browser:
        yield browser


@pytest.fixture(scope="module")
def reused_page(browsing: ModuleType, chromium: Any) -> Any:
    """One page for the tests of a module (`browsing.ReusedPage`)."""
    return browsing.ReusedPage(chromium)


@pytest.hookimpl(tryfirst=True)  # before pytest looks at `-m "not sweep"`
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Cases that are not in the sample of their function become sweeps (`sampling.py`).

    `EXPLORER_SWEEPS=1/4` leaves one of four shares of the sweeps, counted from 0.

    A browser test gets a second chance: on a busy machine Chromium may answer too late.
    `-p no:rerunfailures` shows every failure.
    """
    load_module(REPOSITORY / "tests" / "sampling.py").mark_what_is_left_out(items)
    if share := os.environ.get("EXPLORER_SWEEPS", ""):
        sweeps = {item for item in items if item.get_closest_marker("sweep")}
        others = [item for item in sweeps if not is_in(share, item.nodeid)]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in sweeps or is_in(share, item.nodeid)]
    if not config.pluginmanager.hasplugin("rerunfailures"):
        return
    for item in items:
        if item.get_closest_marker("browser"):
            item.add_marker(pytest.mark.flaky(reruns=2))


def is_in(share: str, name: str) -> bool:
    """Whether a test belongs to the share `1/4`: its name alone decides."""
    number, _, count = share.partition("/")
    if not number.isdigit() or not count.isdigit() or int(number) >= int(count):
        raise pytest.UsageError(f"EXPLORER_SWEEPS={share}: a number below that behind the slash")
    return crc32(name.encode()) % int(count) == int(number)
