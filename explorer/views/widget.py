"""The explorer in a notebook's output, without a server or a port.

    explore(compilation.trace())                 # shows the explorer
    explore(lambda: compilation.trace())         # the trace is made when the cell is shown

The widget sends a small head; the page asks for the explorer's module and for chunks as it needs
them, over the kernel's own connection, in messages below 1 MB. Widgets may be saved with a
notebook, and what is saved runs where it is opened: of ours that is `loader.js`, which asks for the
module. Before the widget stands a picture (`saved_picture.py`): what a saved notebook shows.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from functools import partial
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from explorer.results import Trace
from explorer.results.overlays import Overlay
from explorer.views import register
from explorer.views.instructions.table import described
from explorer.views.module import explorer_module
from explorer.views.page import export_page
from explorer.views.payload.text import Json
from explorer.views.saved_picture import saved_picture
from explorer.views.trace_payload import (
    TracePayload,
    UnknownChunk,
    chunk_messages,
    encode,
    trace_payload,
)

if TYPE_CHECKING:
    import anywidget

LOADER = Path(__file__).with_name("loader.js")


PAGES = "EXPLORER_PAGES"
"""Environment variable: a folder of offline pages. A cell then shows a frame with one of them,
which works without a kernel; its address begins with the folder's name, so the folder lies next to
what is made from the notebook."""
ASKED = "asked/"
"""How the keys of questions begin that a trace has no answer to."""
ASKS_NOTHING = "this page was made without a compiler: it shows what the trace holds"

Ask = Callable[[str, Callable[[str], Json]], Json]
"""Answers such a question, given the trace's chunks by their keys."""


class Changing(Protocol):
    """What makes other compilations of the one that is shown; see `Branches`."""

    template: str

    @property
    def labels(self) -> list[str]: ...
    @property
    def place(self) -> int: ...
    def trace(self) -> Trace: ...
    def first_trace(self) -> Trace | None: ...
    def text_after(self, pass_name: str) -> str: ...
    def show(self, place: int) -> None: ...
    def change(self, asked: Mapping[str, object]) -> None: ...


def explore(
    trace: Trace | Callable[[], Trace],
    against: Trace | None = None,
    height: str = "720px",
    ask: Ask | None = None,
    overlay: Overlay | None = None,
    branches: Changing | None = None,
    at: Mapping[str, str] | None = None,
) -> anywidget.AnyWidget:
    """An interactive view of a compilation, `height` (a CSS length) high, for a cell's output.

    `at` says where it opens: names of a `pass`, of an `operation`, of tabs as `dock` and `tab`.

    `ask` answers what the page wants to know of compilers; without it such questions are refused.
    `branches` makes what the page wants otherwise; the widget has them as `.branches`.
    overlay: own numbers by which the graph is coloured at first.
    """
    known = trace() if callable(trace) else trace
    payload = trace_payload(known, against, overlay=overlay)
    payload.head["at"] = dict(at or {})
    picture = partial(saved_picture, known, (at or {}).get("pass", ""))
    page = partial(export_page, known, against, overlay, at=at)
    widget = _widget(payload, height, ask, branches, picture, page)
    widget.branches = branches  # pyright: ignore[reportAttributeAccessIssue]
    return widget


def answers(
    payload: TracePayload, message: Json, revision: int, ask: Ask | None = None
) -> list[Json]:
    """The messages that answer a request of the page: chunks in parts, or why there is none.

    What comes from a page is checked like any input: whatever is no request gets no answer.
    """
    if not isinstance(message, dict) or message.get("kind") != "need":
        return []
    if message.get("revision") != revision or not isinstance(message.get("keys"), list):
        return []
    replies: list[Json] = []
    for key in map(str, message["keys"]):
        missing = {"kind": "missing", "key": key, "revision": revision}
        is_question = key.startswith(ASKED)
        if is_question and ask is None:
            replies.append({**missing, "reason": ASKS_NOTHING})
            continue
        try:
            if ask is not None and key.startswith(ASKED):
                value = described(ask(key, payload.chunk))
            else:
                value = payload.chunk(key)
            replies.extend(chunk_messages(key, encode(value), revision))
        except UnknownChunk as unknown:
            replies.append({**missing, "reason": str(unknown)})
    return replies


def _widget(
    payload: TracePayload,
    height: str,
    ask: Ask | None,
    branches: Changing | None,
    picture: Callable[[], dict[str, str]],
    page: Callable[[], str],
) -> anywidget.AnyWidget:
    # Imported here: anywidget takes 0.4 s, and only notebooks need it.
    import anywidget
    import traitlets
    from IPython.display import display

    class ExplorerWidget(anywidget.AnyWidget):
        """Hosts the explorer's module; the synced traits are what the module reads."""

        _esm = LOADER.read_text(encoding="utf-8")
        mode = traitlets.Unicode("notebook").tag(sync=True)
        revision = traitlets.Int(0).tag(sync=True)
        head = traitlets.Dict().tag(sync=True)

        def _ipython_display_(self) -> None:
            """Two outputs: the picture, hidden where the widget that follows is alive.

            With the variable EXPLORER_PAGES one output: a frame with an offline page.
            """
            if folder := os.environ.get(PAGES):
                display(_frame(Path(folder), page(), height), raw=True)
                return
            display(picture(), raw=True)
            bundle = self._repr_mimebundle_()
            data = {} if bundle is None else dict(bundle[0])
            data.pop("text/plain", None)  # the picture has a better one
            display(data, raw=True)

    views = register.VIEWS
    shown = payload
    widget = ExplorerWidget(head=_head(payload, branches))
    widget.layout.height = height

    def reply(_widget: Any, message: Json, _buffers: Any) -> None:  # ipywidgets types neither
        nonlocal shown
        kind = message.get("kind") if isinstance(message, dict) else None
        if kind == "module":
            widget.send({"kind": "module", "text": explorer_module(views)})
        if branches is not None and kind in ("change", "show", "text"):
            answer = _changed(branches, message)
            if not answer.get("error") and kind != "text":
                shown = trace_payload(branches.trace(), branches.first_trace())
                with widget.hold_sync():
                    widget.head = _head(shown, branches)
                    widget.revision += 1
            widget.send(answer)
        for answer in answers(shown, message, widget.revision, ask):
            widget.send(answer)

    widget.on_msg(reply)
    return widget


def _frame(folder: Path, page: str, height: str) -> dict[str, str]:
    """Writes the page into the folder, named by its content, and shows it from there."""
    name = hashlib.sha256(page.encode()).hexdigest()[:16] + ".html"
    (folder / name).write_text(page, encoding="utf-8")
    address = escape(f"{folder.name}/{name}")
    style = f"width: 100%; height: {escape(height)}; border: 1px solid #ccc"
    return {
        "text/plain": f"the explorer: {address}",
        "text/html": f'<iframe src="{address}" title="the explorer" loading="lazy" '
        f'style="{style}"></iframe>',
    }


def _head(payload: TracePayload, branches: Changing | None) -> Json:
    """With what the page shows of the branches, where the kernel makes some."""
    if branches is None:
        return payload.head
    made = {"labels": branches.labels, "place": branches.place, "template": branches.template}
    has = {**payload.head["has"], "kernel": True}
    return {**payload.head, "has": has, "branches": made}


def _changed(branches: Changing, message: Json) -> Json:
    """Does what a page asks for; the answer says what was wrong, which is nobody's fault here."""
    answer: Json = {"kind": "changed", "of": message["kind"], "error": "", "line": 0, "text": ""}
    try:
        if message["kind"] == "change":
            branches.change(message)
        elif message["kind"] == "show":
            branches.show(int(message.get("place", -1)))
        else:
            answer["text"] = branches.text_after(str(message.get("after")))
    except Exception as error:  # a person's rule may raise anything; the page shows it
        answer["error"] = str(error) or type(error).__name__
        answer["line"] = getattr(error, "line", 0)  # of edited IR (errors.TextError)
    return answer
