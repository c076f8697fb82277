"""The Panel application: one page that hosts the explorer's module, and the server around it.

    run_server(address, port, token, pages, folder)            until it is interrupted

The token is the page's path, below which all lies that is served: whoever doesn't know it gets 404.
The websocket takes connections from the page's own origin only, so that another site in the same
browser cannot talk to it (guard.py). Nothing is fetched from the network.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import secrets
import signal
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import panel as pn
from bokeh.document import Document
from bokeh.server.contexts import BokehSessionContext
from panel.custom import JSComponent
from panel.io.resources import LOCAL_DIST
from panel.io.server import get_server

from explorer.app.branches import Branch
from explorer.app.effects import Page
from explorer.app.protocol import TWO_FILES, MadeChunk, SavedFile
from explorer.app.server.closing import call_in_its_loop, quiet_about_closed_pages
from explorer.app.server.guard import guard
from explorer.app.server.pages import Pages
from explorer.app.server.redirect import open_page
from explorer.app.state.page_json import searches_json, session_json
from explorer.app.state.page_state import PageState
from explorer.runtime.assembly.queries import PREFIX as ASKED
from explorer.runtime.assembly.queries import answer
from explorer.views.instructions.table import described
from explorer.views.module import explorer_module
from explorer.views.trace_payload import chunk_messages, encode

TITLE = "Compiler Explorer"
ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
HTTP_PORT = 80
"""A browser leaves it out of addresses and origins."""
PAGE_GONE_MILLISECONDS = 5000
"""How long after its connection ended a page, its worker and its uploads are kept."""
MAX_NAMES = 4
"""Of workspaces that a browser may ask for."""
FILE_PIECE = 600_000
"""Characters of a file in one message."""
COMPARISONS = ("compare/", "difference/")
"""Chunks that are made of several branches."""
MAX_ANSWERS = 100
"""That are kept: each is as long as a kernel's assembly."""
OTHERS = "of/"
"""How keys of chunks begin that are another branch's than the one that is looked at."""
ASKS_NOTHING = (
    "a saved trace is read and not compiled: open the model itself to see what other compilers "
    "make of it"
)
PAGE_STYLE = "html, body { margin: 0; height: 100%; overflow: hidden; }"


class ExplorerPage(JSComponent):
    """Hosts the explorer's module; all that it reads comes in messages (js/state/host.js)."""

    _esm = explorer_module()
    _hash = hashlib.sha256(_esm.encode()).hexdigest()

    def __init__(self, **params: Any) -> None:  # Any: Panel's own parameters
        super().__init__(**params)
        self.enter: Callable[[Sequence[object]], Page | None] = lambda _: None
        """Called when the page says hello; None where there is no room for it."""
        self.page: Page | None = None
        self.document: Document | None = None
        self._asking = threading.Lock()
        self._answers: dict[tuple[str, str], str] = {}
        """By branch and question."""
        self._sent_revision = -1
        self._sent_searches: list[dict[str, Any]] = []

    def _get_properties(self, doc: Document | None) -> dict[str, Any]:
        """Panel's own, which also say that the module is ready to run: otherwise each page would
        look for TypeScript in all of its text, for half a second."""
        return {**super()._get_properties(doc), "bundle": self._hash}

    def show_latest(self) -> None:
        """What the page shows now: states that came and went meanwhile are left out."""
        if self.page is not None:
            self.show_state(self.page.state)

    def show_state(self, state: PageState) -> None:
        """Sends a state; the trace's head only when it is another one."""
        values: dict[str, Any] = {"session": session_json(state)}
        if state.revision != self._sent_revision:
            shown = state.shown
            values |= {
                "head": shown.trace.head if shown else None,
                "branch": state.shown_name,
                "revision": state.revision,
            }
            self._sent_revision = state.revision
        searches = searches_json(state)
        if searches != self._sent_searches:
            values["searches"] = searches
            self._sent_searches = searches
        self._send_msg({"kind": "state", "values": values})

    def _handle_msg(self, data: Any) -> None:  # Any: JSON of a page
        if not isinstance(data, dict):
            return
        if data.get("kind") == "hello" and self.page is None:
            names = data.get("workspaces")
            self.page = self.enter(names[:MAX_NAMES] if isinstance(names, list) else [])
        if self.page is None:
            return
        if data.get("kind") == "hello":
            self._sent_revision, self._sent_searches = -1, []
            self.page.begin(data.get("link"))
            self.show_state(self.page.state)
        elif data.get("kind") == "save":
            self._save(data)
        elif data.get("kind") == "need":
            self._answer(data)
        else:
            self.page.handle(data)

    def _save(self, message: dict[str, Any]) -> None:
        """A file of the branch that is looked at, in pieces, under the page's number for it."""
        number, document = message.get("number"), self.document

        def send(file: SavedFile) -> None:
            answer = {"kind": "saved", "number": number, "name": file.name, "type": file.kind}
            if file.error:
                self._send_msg({**answer, "error": file.error})
                return
            pieces = range(0, max(1, len(file.content)), FILE_PIECE)
            for part, start in enumerate(pieces):
                text = file.content[start : start + FILE_PIECE]
                self._send_msg({**answer, "part": part, "parts": len(pieces), "text": text})

        def take(file: SavedFile) -> None:
            assert document is not None
            call_in_its_loop(document, partial(send, file))

        if self.page is not None:
            self.page.save(message, take)

    def _answer(self, message: dict[str, Any]) -> None:
        state = self.page.state if self.page else None
        keys = message.get("keys")
        branch = state.shown if state else None
        if state is None or branch is None or not isinstance(keys, list):
            return
        if message.get("revision") != state.revision:
            return
        for key in map(str, keys):
            if key.startswith(COMPARISONS):
                self._compare(key, state.revision)
            elif key.startswith(TWO_FILES):
                self._send_files(key, state)
            elif key.startswith(OTHERS):
                self._send_of(key, state)
            elif key.startswith(ASKED):
                self._ask(key, branch, state.revision)
            else:
                self._send_later(key, branch, state.revision)

    def _send_of(self, key: str, state: PageState) -> None:
        """`of/2/text/7` is that chunk of branch 2, `of/2/head` the head of its trace."""
        _, name, chunk = [*key.split("/", 2), "", ""][:3]
        branch = state.named(name)
        if branch is None or branch.is_asleep:
            self._send_chunk(key, None, state.revision, "that branch is not there any more")
        elif chunk == "head":
            self._send_chunk(key, encode(branch.trace.head), state.revision)
        else:
            self._send_later(chunk, branch, state.revision, key)

    def _send_files(self, key: str, state: PageState) -> None:
        """`files/2.5/...` compares the models of branches 2 and 5, tensor by tensor."""
        assert self.page is not None
        names = key.split("/")[1].split(".")
        try:
            branch, chunk = self.page.two_files(names)
        except ValueError as error:
            self._send_chunk(key, None, state.revision, str(error))
        else:
            self._send_later(chunk, branch, state.revision, key)

    def _send_later(self, key: str, branch: Branch, revision: int, name: str = "") -> None:
        """Sends a chunk when it is there: some are made when a page asks for them.

        `name`: how the page calls it, where that is not its key.
        """
        assert self.page is not None
        document = self.document
        asked = threading.get_ident()

        def take(made: MadeChunk) -> None:
            send = partial(self._send_chunk, name or key, made.text, revision, made.reason)
            if threading.get_ident() == asked:
                send()
                return
            assert document is not None
            call_in_its_loop(document, send)

        self.page.later.want(branch, key, take)

    def _compare(self, key: str, revision: int) -> None:
        """`compare/2.5/...` compares branch 5 with branch 2, which is its base,
        `difference/2.5/fuse-add/...` says how their programs differ after a pass.

        Large programs take a while: in a thread, so that other pages are answered meanwhile.
        """
        document, page = self.document, self.page
        kind, others, place, *_ = [*key.split("/"), "", ""]

        def work() -> None:
            assert page is not None
            try:
                text = page.comparison(others.split("."), place if kind == "difference" else None)
            except (KeyError, ValueError) as error:  # a branch that lacks what is compared
                text, reason = None, f"there is nothing to compare: {error}"
            else:
                reason = "the branches are not there any more"
            answer = partial(self._send_chunk, key, text, revision, reason)
            assert document is not None
            call_in_its_loop(document, answer)

        threading.Thread(target=work, name="explorer-comparison", daemon=True).start()

    def _ask(self, key: str, branch: Branch, revision: int) -> None:
        """What compilers and analysers say of a kernel: in a thread, one question at a time.

        A saved trace may be a stranger's, and its source is for reading.
        """
        if branch.request.is_trace:
            self._send_chunk(key, None, revision, ASKS_NOTHING)
            return
        document = self.document

        def chunk(name: str) -> Any:  # Any: JSON
            return json.loads(branch.trace.chunks[name])

        def work() -> None:
            place = (branch.key, key)
            with self._asking:
                # More becomes known of a branch meanwhile, and the page asks again.
                text = self._answers.get(place)
                if text is None:
                    found = described(answer(key, chunk))
                    text = encode(found)
                    if "error" not in found and len(self._answers) < MAX_ANSWERS:
                        self._answers[place] = text
            assert document is not None
            call_in_its_loop(document, partial(self._send_chunk, key, text, revision))

        threading.Thread(target=work, name="explorer-asked", daemon=True).start()

    def _send_chunk(self, key: str, text: str | None, revision: int, reason: str = "") -> None:
        if text is None:
            missing = {"kind": "missing", "key": key, "revision": revision}
            self._send_msg({**missing, "reason": reason or f"the trace has no {key}"})
            return
        for part in chunk_messages(key, text, revision):
            self._send_msg(part)


def run_server(
    address: str,
    port: int,
    token: str,
    pages: Pages,
    browser_folder: Path | None,
) -> None:
    """Serves one page per visit, each with a workbench of its own, until a signal of `ENDS`.

    `browser_folder`: where the file lies that a browser is opened with; None opens none.
    """
    run_pages(address, port, token, lambda: _page(pages), browser_folder)


def run_pages(
    address: str,
    port: int,
    token: str,
    page: Callable[[], pn.viewable.Viewable],
    browser_folder: Path | None,
    title: str = TITLE,
) -> None:
    """Serves what `page` makes at every visit, until a signal of `ENDS`."""
    host = f"[{address}]" if ":" in address else address
    place = host if port == HTTP_PORT else f"{host}:{port}"
    url = f"http://{place}/{token}/"
    server = get_server(
        {"/": page},
        port=port,
        address=address,
        prefix=token,
        websocket_origin=[f"{host}:{port}"],
        # A page's session is known by what this process signed: nobody else makes one up.
        sign_sessions=True,
        secret_key=secrets.token_bytes(32),
        show=False,
        start=False,
        title=title,
        use_index=False,
        redirect_root=False,
        location=False,  # Panel would add to the browser's history what Back has left
        unused_session_lifetime_milliseconds=PAGE_GONE_MILLISECONDS,
        check_unused_sessions_milliseconds=PAGE_GONE_MILLISECONDS // 5,
    )
    guard(server._tornado, token, f"http://{place}")
    server.start()
    loop = server.io_loop
    quiet_about_closed_pages(loop.asyncio_loop)  # pyright: ignore[reportAttributeAccessIssue]

    def stop(_number: int, _frame: object) -> None:
        loop.add_callback_from_signal(loop.stop)

    for number in ENDS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup wants it
            signal.signal(number, stop)
    print(f"The page is at {url}" if title != TITLE else f"The explorer is at {url}", flush=True)
    if browser_folder is not None:
        loop.add_callback(open_page, url, browser_folder)
    try:
        loop.start()
    finally:
        server.stop()
    with contextlib.suppress(OSError):  # the terminal may be gone
        print("The explorer has ended.", flush=True)


def _page(pages: Pages) -> pn.viewable.Viewable:
    document = pn.state.curdoc
    assert document is not None
    document.template_variables["app_favicon"] = "data:,"  # none, and none is asked for
    # Where Panel finds its styles. It sets that itself when the page is drawn; what is made before
    # that would ask another server for them.
    document.template_variables["dist_url"] = LOCAL_DIST
    pn.config.raw_css = [PAGE_STYLE]
    view = ExplorerPage(sizing_mode="stretch_both", margin=0)
    column = pn.Column(view, sizing_mode="stretch_both", margin=0)

    def publish(_state: PageState) -> None:
        # From the listener's thread into the document's own loop.
        call_in_its_loop(document, view.show_latest)

    def is_connected() -> bool:
        context = document.session_context
        # A session that is gone has no context any more.
        session = context.session if isinstance(context, BokehSessionContext) else None
        return session is not None and session.connection_count > 0

    def enter(names: Sequence[object]) -> Page | None:
        found = pages.open(publish, is_connected, names)
        if isinstance(found, Page):
            return found
        column[:] = [pn.pane.Str(found, styles={"white-space": "normal"}, margin=24)]
        return None

    def leave(_context: object) -> None:
        if view.page is not None:
            pages.leave(view.page, is_connected)

    view.enter, view.document = enter, document
    pn.state.on_session_destroyed(leave)
    return column
