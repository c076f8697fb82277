"""The explorer in a notebook's output, without a server or a port.

    explore(compilation.trace())                 # shows the explorer
    explore(lambda: compilation.trace())         # the trace is made when the cell is shown

The widget sends a small head; the page asks for the explorer's module and for chunks as it needs
them, over the kernel's own connection, in messages below 1 MB. Widgets may be saved with a
notebook, and what is saved runs where it is opened: of ours that is `loader.js`, which asks for the
module. Before the widget stands a picture (`saved_picture.py`): what a saved notebook shows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from explorer.results import Trace
from explorer.views import register
from explorer.views.instructions.table import described
from explorer.views.module import explorer_module
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


ASKED = "asked/"
"""How the keys of questions begin that a trace has no answer to."""
ASKS_NOTHING = "this page was made without a compiler: it shows what the trace holds"

Ask = Callable[[str, Callable[[str], Json]], Json]
"""Answers such a question, given the trace's chunks by their keys."""


def explore(
    trace: Trace | Callable[[], Trace],
    against: Trace | None = None,
    height: str = "720px",
    ask: Ask | None = None,
) -> anywidget.AnyWidget:
    """An interactive view of a compilation, `height` (a CSS length) high, for a cell's output.

    `ask` answers what the page wants to know of compilers; without it such questions are refused.
    """
    known = trace() if callable(trace) else trace
    return _widget(trace_payload(known, against), height, ask, partial(saved_picture, known))


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
            value = (
                payload.chunk(key)
                if ask is None or not is_question
                else (described(ask(key, payload.chunk)))
            )
            replies.extend(chunk_messages(key, encode(value), revision))
        except UnknownChunk as unknown:
            replies.append({**missing, "reason": str(unknown)})
    return replies


def _widget(
    payload: TracePayload,
    height: str,
    ask: Ask | None,
    picture: Callable[[], dict[str, str]],
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
            """Two outputs: the picture, hidden where the widget that follows is alive."""
            display(picture(), raw=True)
            bundle = self._repr_mimebundle_()
            data = {} if bundle is None else dict(bundle[0])
            data.pop("text/plain", None)  # the picture has a better one
            display(data, raw=True)

    views = register.VIEWS
    widget = ExplorerWidget(head=payload.head)
    widget.layout.height = height

    def reply(_widget: Any, message: Json, _buffers: Any) -> None:  # ipywidgets types neither
        if isinstance(message, dict) and message.get("kind") == "module":
            widget.send({"kind": "module", "text": explorer_module(views)})
        for answer in answers(payload, message, revision=0, ask=ask):
            widget.send(answer)

    widget.on_msg(reply)
    return widget
