"""One step of a page: its state, and a message, to another state and what is to be done.

    page: {"kind": "fork", "settings": {"target": "cpu", "decisions": {"fuse-activation": false}}}
        ->  status working, [Compile(2, request)]
    worker: Reported(2, Progressed("fold", 3, 20)), Reported(2, DrawnTrace(...)) ...
        ->  a new branch: its passes, then its kernels, errors and times as they arrive, each with
            a new revision

`step` reads no file, starts nothing and keeps nothing: the same state and message give the same
result, so that whatever a page can come to can be tested without a worker or a page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from explorer.app.searches import SearchOrder
from explorer.app.state.compiling import (
    Step,
    cancel,
    forget,
    fork,
    look_at,
    refuse,
    retry,
    take_over,
)
from explorer.app.state.messages import (
    Begun,
    FileRefused,
    Message,
    PageMessage,
    ReceiveUpload,
    Reported,
    UploadArrived,
    UploadGrew,
)
from explorer.app.state.opening import begin, close_choice, follow, open_choice, upload_arrived
from explorer.app.state.page_state import PageState
from explorer.app.state.reports import reported
from explorer.app.state.searching import bisect, cancel_search, search
from explorer.app.uploads import UPLOAD_LIMIT_BYTES, too_large

MOST_NAME = 120


def step(state: PageState, message: Message) -> Step:
    """The state after a message, and what is to be done; what is none of ours has no effect."""
    if isinstance(message, Mapping):
        says = PAGE_SAYS.get(str(message.get("kind")))
        return (state, []) if says is None else says(state, message)
    if isinstance(message, Reported):
        return reported(state, message)
    if isinstance(message, Begun):
        return begin(state, message.link)
    if isinstance(message, UploadGrew):
        return replace(state, upload=message.upload), []
    if isinstance(message, UploadArrived):
        return upload_arrived(state, message.upload)
    if isinstance(message, FileRefused):
        return refuse(state, message.reason), []
    return take_over(state)  # the worker was replaced


def _word(message: PageMessage, name: str) -> str:
    return str(message.get(name))


def _dismiss(state: PageState) -> PageState:
    return replace(state, status="idle", error=None, notice="")


def _unreadable(state: PageState, message: PageMessage) -> PageState:
    name = str(message.get("name", ""))[:MOST_NAME]
    return refuse(state, f"the browser could not read {name!r}: is it a folder, or was it moved?")


def _too_large(state: PageState, message: PageMessage) -> PageState:
    return refuse(state, too_large(str(message.get("name", "")), UPLOAD_LIMIT_BYTES))


PAGE_SAYS: Mapping[str, Callable[[PageState, PageMessage], Step]] = {
    "open": lambda state, message: open_choice(state, _word(message, "model")),
    "close": lambda state, message: close_choice(state, _word(message, "model")),
    "fork": lambda state, message: fork(state, message.get("settings")),
    "show": lambda state, message: look_at(state, _word(message, "branch")),
    "forget": lambda state, message: forget(state, _word(message, "branch")),
    "link": lambda state, message: follow(state, message.get("link")),
    "bisect": lambda state, _: bisect(state),
    "search": lambda state, message: search(state, SearchOrder.of_page(message)),
    "cancel search": lambda state, _: cancel_search(state),
    "retry": lambda state, _: retry(state),
    "cancel": lambda state, _: cancel(state),
    "dismiss": lambda state, _: (_dismiss(state), []),
    "upload": lambda state, message: (state, [ReceiveUpload(message)]),
    "unreadable": lambda state, message: (_unreadable(state, message), []),
    "refused": lambda state, message: (_too_large(state, message), []),
}
"""All that a page says, by kind."""
