"""Serving the explorer on this machine: what is checked and started before the toolkit loads.

    serve([Path("sample_models/digits_cnn.onnx"), Path("run.nnx")], target="cpu")
        -> http://127.0.0.1:5006/<token>

Panel takes two seconds to import. The first worker starts before that, so that the first model
is compiled while the page is still being made.
"""

from __future__ import annotations

import re
import secrets
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

from explorer.app.branches import ResultStore
from explorer.app.compiler import ModelCompiler
from explorer.app.offers import choices_of, offered_files
from explorer.app.session import Compiler
from explorer.app.shown import Shown
from explorer.app.spare import SpareWorkers
from explorer.app.upload_folder import page_folder, upload_folder
from explorer.app.uploads import Quota, Uploads
from explorer.app.workbench import Workbench, first_request
from explorer.errors import InputError

TARGETS = ("cpu", "opencl")
LOOPBACK = ("127.0.0.1", "localhost", "::1")


def serve(
    paths: Sequence[Path | str],
    target: str = "cpu",
    port: int = 0,
    address: str = "127.0.0.1",
    open_browser: bool = True,
    token: str | None = None,
    targets: Sequence[str] = TARGETS,
    make_compiler: Callable[[], Compiler] = ModelCompiler,
) -> None:
    """Serves the explorer until it is interrupted.

    `paths` are models and saved traces that are offered, the first one is opened at once; a
    folder offers all in it. `port` 0 takes a free one. `token` is for tests; a random one by
    default. `make_compiler` is called in every page's worker, so that it must be importable by
    name.

    Raises InputError for no model, an address of another machine, or a token with odd characters.
    """
    if address not in LOOPBACK:
        raise InputError(
            f"the explorer is served on this machine only, not on {address!r}",
            hint=f"one of {', '.join(LOOPBACK)}; from elsewhere use an SSH tunnel",
        )
    if target not in targets:
        raise InputError(f"unknown target {target!r}", hint=f"one of {', '.join(targets)}")
    secret = secrets.token_urlsafe(24) if token is None else token
    if not re.fullmatch(r"[\w-]+", secret):
        raise InputError("a token is made of letters, digits, '-' and '_'")
    choices = choices_of(offered_files(paths))
    chosen_port = port or _free_port(address)
    results, quota = ResultStore(), Quota()
    spares = SpareWorkers(make_compiler, first_request(choices[0], target))
    uploads_of: dict[Workbench, Uploads] = {}
    with upload_folder() as folder:

        def new_workbench(publish: Callable[[Shown], None]) -> Workbench:
            uploads = Uploads(page_folder(folder), quota)
            workbench = Workbench(choices, targets, target, spares.take, results, uploads, publish)
            uploads_of[workbench] = uploads
            return workbench

        def end_page(workbench: Workbench) -> None:
            workbench.stop()
            uploads = uploads_of.pop(workbench, None)
            if uploads is not None:
                uploads.remove_all()

        from explorer.app.application import run_server  # brings Panel, see above

        try:
            run_server(address, chosen_port, secret, new_workbench, end_page, open_browser)
        finally:
            spares.close()
            for workbench in list(uploads_of):
                end_page(workbench)


def _free_port(address: str) -> int:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])
