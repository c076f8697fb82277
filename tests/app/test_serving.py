"""Starting the app and ending it: what is refused at once, and what is left behind."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from multiprocessing.forkserver import ensure_running
from pathlib import Path
from queue import SimpleQueue

import pytest

from explorer.app.protocol import Bisection, CompileRequest, Failure, Progress
from explorer.app.server.redirect import open_page
from explorer.app.server.serving import ending_by_signals, serve
from explorer.app.upload_folder import upload_folder
from explorer.app.worker.process import CompilerProcess, start_context
from explorer.app.worker.standby import StandbyWorkers
from explorer.errors import InputError
from explorer.results import Trace
from explorer.runtime.scratch import own_folder

WAIT_SECONDS = 60
NET = CompileRequest("net.onnx", "cpu")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"address": "0.0.0.0"}, "served on this machine only"),
        ({"target": "quantum"}, "unknown target 'quantum'"),
        ({"token": "a/b"}, "a token is made of letters"),
        ({"paths": []}, "no model to show"),
        ({"paths": ["nothing.onnx"]}, "no such file"),
    ],
)
def test_what_cannot_be_served_is_refused_at_once(sample_models: Path, options: dict, message: str):
    paths = options.pop("paths", [sample_models / "digits_mlp.onnx"])
    with pytest.raises(InputError, match=message):
        serve(paths, **options)


@pytest.mark.sampled(1)
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_nothing_is_left_when_the_app_is_ended(
    sample_models: Path, tmp_path: Path, number: signal.Signals
):
    model = str(sample_models / "digits_mlp.onnx")
    process = subprocess.Popen(
        [sys.executable, "-m", "explorer", "serve", "--no-browser", model],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith("The explorer is at http://127.0.0.1:")
    assert list(tmp_path.glob("explorer-uploads-*"))
    process.send_signal(number)
    assert process.wait(WAIT_SECONDS) == 0
    assert process.stdout.read().endswith("The explorer has ended.\n")
    assert not list(tmp_path.glob("explorer-uploads-*"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_before_the_server_listens_leaves_nothing(tmp_path: Path, number: signal.Signals):
    def serve_for_a_moment() -> None:
        with ending_by_signals(), upload_folder(tmp_path):
            os.kill(os.getpid(), number)
            time.sleep(60)

    before = signal.signal(number, signal.SIG_DFL)  # it is ignored where tests run under nohup
    try:
        with pytest.raises(KeyboardInterrupt):
            serve_for_a_moment()
        assert not list(tmp_path.iterdir())
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, before)


def test_a_signal_that_is_ignored_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup leaves it
    try:
        with ending_by_signals():
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_the_browser_is_opened_without_the_token_on_its_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    open_page("http://127.0.0.1:5006/secret-token/", tmp_path)
    open_page("http://127.0.0.1:5006/secret-token/", tmp_path)
    assert len(opened) == 2
    assert "secret" not in opened[0]
    path = Path(opened[0].removeprefix("file://"))
    assert path.stat().st_mode & 0o777 == 0o600
    assert 'content="0; url=http://127.0.0.1:5006/secret-token/"' in path.read_text()


class QuickCompiler:
    """Knows nothing and fails at once."""

    def stage(self, request: CompileRequest, name: str, progress: Progress) -> Trace:
        raise ValueError(f"asked for {name}")

    def read(self, request: CompileRequest, progress: Progress) -> Trace | None:
        return None

    def optional(self, request: CompileRequest) -> tuple[str, ...]:
        return ()

    def bisect(self, request: CompileRequest) -> Bisection | None:
        return None

    def forget(self, request: CompileRequest) -> None: ...


class MessyCompiler(QuickCompiler):
    """Leaves a folder among the temporary files, as a worker with a program does."""

    def __init__(self) -> None:
        (own_folder() / "made").touch()


def test_what_a_worker_left_is_removed_when_its_page_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    start_context()
    ensure_running()  # what workers are forked from began with another folder
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    told: SimpleQueue[object] = SimpleQueue()
    worker = CompilerProcess(MessyCompiler, lambda _, report: told.put(report))
    worker.compile(1, NET)
    told.get(timeout=WAIT_SECONDS)  # the compiler is there
    assert list(tmp_path.glob("*/made"))
    worker.end()
    assert list(tmp_path.iterdir()) == []


def test_a_worker_waits_for_the_next_page_and_serves_one_only():
    standby = StandbyWorkers(QuickCompiler, rest_seconds=0.1)
    try:
        first, second = standby.take(NET), standby.take(NET)
        assert first is not second
        time.sleep(0.5)
        third = standby.take(NET)
        assert third not in (first, second)
        assert all(worker.is_alive for worker in (first, second, third))
        for worker in (first, second, third):
            worker.end()
    finally:
        standby.close()
    late = standby.take(NET)
    late.end()
    assert standby._timer is None


class EndlessCompiler(QuickCompiler):
    """Hangs at one model without a word, as a reader of a damaged file may."""

    def stage(self, request: CompileRequest, name: str, progress: Progress) -> Trace:
        while request.path == "endless.onnx":
            time.sleep(0.05)
        return super().stage(request, name, progress)


def test_a_first_model_that_hangs_keeps_no_page_from_another_one():
    endless = CompileRequest("endless.onnx", "cpu")
    standby = StandbyWorkers(EndlessCompiler, endless)
    try:
        busy = standby._standby
        assert busy is not None
        assert busy.is_busy_for(NET)
        assert not busy.is_busy_for(endless)
        told: SimpleQueue[tuple[int, object]] = SimpleQueue()
        worker = standby.take(NET)
        worker.adopt(lambda key, report: told.put((key, report)))
        worker.compile(1, NET)
        key, failure = told.get(timeout=WAIT_SECONDS)
        assert key == 1
        assert isinstance(failure, Failure)
        assert failure.what == "asked for passes"
        assert not busy.is_alive
        worker.end()
    finally:
        standby.close()


def test_what_was_prepared_lets_nobody_wait():
    standby = StandbyWorkers(QuickCompiler, NET)
    try:
        ready = standby._standby
        assert ready is not None
        deadline = time.monotonic() + WAIT_SECONDS
        while (
            ready.is_busy_for(CompileRequest("other.onnx", "cpu")) and time.monotonic() < deadline
        ):
            time.sleep(0.02)
        assert standby.take(CompileRequest("other.onnx", "cpu")) is ready
        ready.end()
    finally:
        standby.close()


def test_what_a_page_is_made_of_comes_from_this_machine(monkeypatch: pytest.MonkeyPatch):
    """Before the page is drawn, too: a message may bring the models earlier."""
    from bokeh.document import Document
    from panel.io.state import set_curdoc

    from explorer.app.server import application

    document = Document()
    with set_curdoc(document):
        root = application._page(None).get_root(document)  # pyright: ignore
    addresses = {
        str(sheet.url)
        for model in root.select({})
        for sheet in getattr(model, "stylesheets", [])
        if hasattr(sheet, "url")
    }
    assert addresses
    assert [address for address in addresses if "://" in address] == []
