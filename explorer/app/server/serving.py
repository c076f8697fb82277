"""Serving the explorer on this machine: what is checked and started before the toolkit loads.

    serve([Path("sample_models/digits_cnn.onnx"), Path("run.nnx")], target="cpu")
        -> http://127.0.0.1:5006/<token>

Panel takes two seconds to import. The first worker starts before that, so that the first model
is compiled while the page is still being made.
"""

from __future__ import annotations

import re
import secrets
import signal
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from explorer.app.branches import ResultStore
from explorer.app.catalog import Choice, choices_of, first_request, offered_files
from explorer.app.decisions import request_of
from explorer.app.effects import Page
from explorer.app.protocol import Compiler
from explorer.app.server.pages import Pages, Publish
from explorer.app.state.page_state import PageState
from explorer.app.state.saved import SavedWorkspace, absolute
from explorer.app.upload_folder import upload_folder
from explorer.app.uploads import Uploads
from explorer.app.worker.compiler import ModelCompiler
from explorer.app.worker.standby import StandbyWorkers
from explorer.app.workspaces import Workspace, Workspaces, workspace_folder
from explorer.errors import InputError
from explorer.results.decisions import NOTHING, Decisions
from explorer.views.numbers import format_bytes

TARGETS = ("cpu", "opencl")
MAX_PAGES = 16
"""Pages that are open at once: each has a process of its own, which takes 70 MB and more."""
LOOPBACK = ("127.0.0.1", "localhost", "::1")


def serve(
    paths: Sequence[Path | str],
    target: str = "cpu",
    port: int = 0,
    address: str = "127.0.0.1",
    open_browser: bool = True,
    token: str | None = None,
    targets: Sequence[str] = TARGETS,
    decisions: Decisions = NOTHING,
    most_pages: int = MAX_PAGES,
    is_fresh: bool = False,
    forgets: bool = False,
    options: Mapping[str, Any] = NOTHING,
    threads: int | None = None,
    data: Sequence[Path] = (),
    compares: bool = False,
    make_compiler: Callable[[], Compiler] = ModelCompiler,
) -> None:
    """Serves the explorer until it is interrupted.

    `paths` are models and saved traces that are offered, the first one is opened at once; a
    folder offers all in it. `decisions`: what the first model is opened with, by address. `port` 0
    takes a free one. `token` is for tests; a random one by default. The first page goes on with
    what was open when these models were served before, unless `is_fresh`, decisions or options are
    given. `forgets`: what pages left before is removed first, with the files that they sent.
    `options`: what `explorer.compile` takes besides for the first model, which no page can
    say: files of tables, such as `quantization`, and of its `weights`. `threads`: with which times
    are measured. `compares`: two models, where no other file is offered, are opened and compared
    at once. `data`: files and folders on which the first model is judged. Beyond `most_pages`
    a page says that there are too many. `make_compiler` is called in every page's worker, so that
    it must be importable by name.

    Raises InputError for no model, an address of another machine, a port that is taken, or a token
    with odd characters.
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
    chosen_port = usable_port(address, port)
    opening = opening_link(choices[0], target, decisions) if decisions or options else None
    if options or threads is not None:
        of_first = {choices[0].path: options} if options else NOTHING
        make_compiler = partial(ModelCompiler, of_first, threads)
    judged_on = tuple((shown_name(path), str(path.absolute())) for path in data)
    results = ResultStore()
    first = first_request(choices[0], target)
    if opening is not None:  # with sizes, if some are given: nothing is to be compiled twice
        asked = request_of(opening["settings"], choices[0].path, (target,))
        first = first if asked is None else asked.base
    standby = StandbyWorkers(make_compiler, first)

    workspaces = Workspaces(workspace_folder())
    if workspaces.problem:
        print(workspaces.problem, flush=True)

    if forgets:
        count, size_bytes = workspaces.clear()
        what = "workspace" if count == 1 else "workspaces"
        print(f"{count} {what} and {format_bytes(size_bytes)} of sent files removed.", flush=True)

    def make_page(uploads: Uploads, publish: Publish, workspace: Workspace) -> Page:
        state = PageState(
            choices,
            tuple(targets),
            target,
            first_request(choices[0], target),
            data={choices[0].path: judged_on} if judged_on else {},
            pair=pair_of(paths, choices) if compares else (),
        )
        return Page(state, standby.take, results, uploads, publish, workspace, opening)

    offered = {absolute(choice.path) for choice in choices}

    def fits(saved: SavedWorkspace) -> bool:
        """Whether a person who starts the app like this expects what was open then."""
        return (
            not is_fresh
            and not decisions
            and not options
            and not data
            and saved.target == target
            and saved.fits(offered)
        )

    with ending_by_signals(), upload_folder() as folder:
        pages = Pages(make_page, folder, most_pages, workspaces, fits)
        from explorer.app.server.application import run_server  # brings Panel, see above

        try:
            run_server(address, chosen_port, secret, pages, folder if open_browser else None)
        finally:
            standby.close()
            pages.end_all()


@contextmanager
def ending_by_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP end the block as Ctrl-C does, so that what it made is removed.

    They come by KeyboardInterrupt until the server takes them itself.
    """

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = {}
    for number in (signal.SIGTERM, signal.SIGHUP):
        handler = signal.getsignal(number)
        if handler is not signal.SIG_IGN:  # as nohup wants it
            before[number] = handler
            signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def shown_name(path: Path) -> str:
    """`eval.npz`; `images/` for a folder."""
    return f"{path.absolute().name}/" if path.is_dir() else path.name


def pair_of(paths: Sequence[Path | str], choices: Sequence[Choice]) -> tuple[str, ...]:
    """The two models that are compared at once: where these and nothing else were named."""
    are_files = len(paths) == 2 and all(Path(path).is_file() for path in paths)
    models = [choice.path for choice in choices if choice.kind == "model"]
    return tuple(models) if are_files and len(models) == 2 else ()


def opening_link(choice: Choice, target: str, decisions: Decisions) -> dict[str, object]:
    """The link to a model with decisions. InputError where it can have none."""
    if choice.kind == "trace":
        raise InputError("a saved trace is shown as it was decided", hint="name a model first")
    settings = {"target": target, "decisions": dict(decisions)}
    if request_of(settings, choice.path, (target,)) is None:
        raise InputError(f"the page takes no decisions like {dict(decisions)}")
    return {"model": choice.label, "settings": settings}


def usable_port(address: str, port: int) -> int:
    """The port, or one that is free where it is 0. InputError where nobody can listen on it."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family) as probe:
            # As the server does: a port whose last connections are still ending is free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((address, port))
            probe.listen(1)
            return int(probe.getsockname()[1])
    except OSError as error:
        words = error.strerror or str(error)
        raise InputError(
            f"the explorer cannot be served on port {port} of {address}: {words}",
            hint="take another --port, or leave it out for one that is free",
        ) from error
