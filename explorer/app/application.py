"""The Panel application: one page that hosts the explorer's module, served on this machine only.

    serve([Path("sample_models/digits_cnn.onnx")], target="cpu")
        -> http://127.0.0.1:5006/<token>

The token is the page's path: whoever doesn't know it gets 404, for the page and for its
websocket. The websocket takes connections from the page's own origin only, so that another site
in the same browser cannot talk to it. Nothing is fetched from the network.
"""

from __future__ import annotations

import re
import secrets
import socket
import tempfile
import webbrowser
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import panel as pn
from panel.custom import JSComponent
from panel.io.server import get_server

from explorer.app.branches import ResultStore
from explorer.app.compiler import ModelCompiler
from explorer.app.session import Compiler
from explorer.app.uploads import Uploads
from explorer.app.workbench import Shown, Workbench
from explorer.views.module import explorer_module
from explorer.views.payload import chunk_messages

TARGETS = ("cpu", "opencl")
LOOPBACK = ("127.0.0.1", "localhost", "::1")
PAGE_STYLE = "html, body { margin: 0; height: 100%; overflow: hidden; }"


class ExplorerPage(JSComponent):
    """Hosts the explorer's module; all that it reads comes in messages (js/host.js)."""

    _esm = explorer_module()

    def __init__(self, **params: Any) -> None:  # Any: Panel's own parameters
        super().__init__(**params)
        self.workbench: Workbench | None = None
        self._shown_revision = -1

    def show_state(self, shown: Shown) -> None:
        """Sends a state; the trace's head only when it is another one."""
        values: dict[str, Any] = {"session": shown.session()}
        if shown.branch is not None and shown.revision != self._shown_revision:
            values |= {
                "head": shown.branch.trace.head,
                "branch": shown.current,
                "revision": shown.revision,
            }
            self._shown_revision = shown.revision
        self._send_msg({"kind": "state", "values": values})

    def _handle_msg(self, data: Any) -> None:  # Any: JSON of a page
        if not isinstance(data, dict) or self.workbench is None:
            return
        if data.get("kind") == "hello":
            self._shown_revision = -1
            self.show_state(self.workbench.shown)
        elif data.get("kind") == "need":
            self._answer(data)
        else:
            self.workbench.handle(data)

    def _answer(self, message: dict[str, Any]) -> None:
        shown = self.workbench.shown if self.workbench else None
        keys = message.get("keys")
        if shown is None or shown.branch is None or not isinstance(keys, list):
            return
        if message.get("revision") != shown.revision:
            return
        for key in map(str, keys):
            text = self._text_of(shown, key)
            if text is None:
                missing = {"kind": "missing", "key": key, "revision": shown.revision}
                self._send_msg({**missing, "reason": f"the trace has no {key}"})
                continue
            for part in chunk_messages(key, text, shown.revision):
                self._send_msg(part)

    def _text_of(self, shown: Shown, key: str) -> str | None:
        """A chunk of the branch that is shown; `compare/2/...` compares it with branch 2."""
        kind, _, rest = key.partition("/")
        if kind == "compare" and self.workbench is not None:
            return self.workbench.comparison(rest.split("/")[0])
        return shown.branch.trace.chunks.get(key) if shown.branch else None


def serve(
    model_paths: Sequence[Path | str],
    target: str = "cpu",
    port: int = 0,
    address: str = "127.0.0.1",
    open_browser: bool = True,
    token: str | None = None,
    targets: Sequence[str] = TARGETS,
    make_compiler: Callable[[], Compiler] = ModelCompiler,
) -> None:
    """Serves the explorer until it is interrupted.

    `model_paths` are offered, the first one is compiled at once; a folder offers the models in
    it. `port` 0 takes a free one. `token` is for tests; a random one by default. `make_compiler`
    is called in every page's worker, so that it must be importable by name.

    Raises:
        ValueError: for no model, an address of another machine, or a token with odd characters.
    """
    if address not in LOOPBACK:
        raise ValueError(
            f"the explorer is served on this machine only, not on {address!r}: "
            f"expected one of {', '.join(LOOPBACK)}; from elsewhere use an SSH tunnel"
        )
    if target not in targets:
        raise ValueError(f"unknown target {target!r}: expected one of {', '.join(targets)}")
    secret = secrets.token_urlsafe(24) if token is None else token
    if not re.fullmatch(r"[\w-]+", secret):
        raise ValueError("a token is made of letters, digits, '-' and '_'")
    models = offered_models(model_paths)
    chosen_port = port or _free_port(address)
    host = f"[{address}]" if ":" in address else address
    results = ResultStore()
    with tempfile.TemporaryDirectory(prefix="explorer-uploads-") as folder:

        def page() -> pn.viewable.Viewable:
            return _page(models, tuple(targets), target, make_compiler, results, Path(folder))

        url = f"http://{host}:{chosen_port}/{secret}"
        server = get_server(
            {secret: page},
            port=chosen_port,
            address=address,
            websocket_origin=[f"{host}:{chosen_port}"],
            show=False,
            start=False,
            title="Compiler Explorer",
            use_index=False,
            redirect_root=False,
        )
        server.start()
        print(f"The explorer is at {url}", flush=True)
        if open_browser:
            server.io_loop.add_callback(webbrowser.open, url)
        try:
            server.io_loop.start()
        except KeyboardInterrupt:
            print("The explorer has ended.")
        finally:
            server.stop()


def offered_models(paths: Sequence[Path | str]) -> list[Path]:
    """The files, and the models in the folders, each once.

    Raises:
        ValueError: when one isn't there, or none is left.
    """
    models: dict[Path, None] = {}
    for path in map(Path, paths):
        if path.is_dir():
            models.update(dict.fromkeys(sorted(path.glob("*.onnx"))))
        elif path.is_file():
            models[path] = None
        else:
            raise ValueError(f"no model file at {path}: give the path of an .onnx file")
    if not models:
        raise ValueError("no model to show: give the path of an .onnx file or of a folder of them")
    return list(models)


def _page(
    models: Sequence[Path],
    targets: Sequence[str],
    target: str,
    make_compiler: Callable[[], Compiler],
    results: ResultStore,
    uploads_folder: Path,
) -> pn.viewable.Viewable:
    """A new page with a workbench of its own."""
    document = pn.state.curdoc
    assert document is not None
    view = ExplorerPage(sizing_mode="stretch_both", margin=0)
    folder = Path(tempfile.mkdtemp(dir=uploads_folder))

    def publish(shown: Shown) -> None:
        # From the listener's thread into the document's own loop; late ones are dropped when a
        # newer state is there already.
        document.add_next_tick_callback(lambda: view.show_state(workbench.shown))

    workbench = Workbench(models, targets, target, make_compiler, results, Uploads(folder), publish)
    view.workbench = workbench
    pn.state.on_session_destroyed(lambda _context: workbench.stop())
    workbench.start()
    pn.config.raw_css = [PAGE_STYLE]
    return pn.Column(view, sizing_mode="stretch_both", margin=0)


def _free_port(address: str) -> int:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])
