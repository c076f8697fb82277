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
from pathlib import Path

from explorer.app.searches import SearchOrder
from explorer.app.state.asking import (
    close_dialog,
    drop_values,
    examine,
    examined,
    open_with,
)
from explorer.app.state.compiling import (
    Step,
    cancel,
    forget,
    fork,
    look_at,
    note,
    refuse,
    rename,
    retry,
    wake_beside,
)
from explorer.app.state.data import drop_data
from explorer.app.state.history import (
    go_to,
    noted,
    redo,
    undo,
    uploaded_files,
    without_closed_files,
)
from explorer.app.state.messages import (
    Begun,
    FileRefused,
    Message,
    ModelExamined,
    PageMessage,
    ReceiveUpload,
    RemoveUpload,
    Reported,
    UploadArrived,
    UploadGrew,
)
from explorer.app.state.opening import begin, close_choice, follow, open_choice, upload_arrived
from explorer.app.state.page_state import PageState
from explorer.app.state.reports import replaced, reported
from explorer.app.state.saved import MAX_PLACE, are_looks
from explorer.app.state.searching import bisect, cancel_search, search
from explorer.app.state.timing import cancel_timing, start_timing
from explorer.app.uploads import UPLOAD_LIMIT_BYTES, too_large

MAX_NAME = 120


def step(state: PageState, message: Message) -> Step:
    """The state after a message, and what is to be done; what is none of ours has no effect."""
    after, effects = _step(state, message)
    if after.is_reading != state.is_reading and after.revision == state.revision:
        after = replace(after, revision=after.revision + 1)
    if not (isinstance(message, Mapping) and message.get("kind") in TRAVELS):
        after = noted(state, after)
    if after.points is not state.points or after.choices is not state.choices:
        files = uploaded_files(state) - uploaded_files(after)
        effects = [*effects, *(RemoveUpload(Path(file)) for file in sorted(files))]
    return after, effects


def _step(state: PageState, message: Message) -> Step:
    if isinstance(message, Mapping):
        says = PAGE_SAYS.get(str(message.get("kind")))
        return (state, []) if says is None else says(state, message)
    if isinstance(message, Reported):
        return reported(state, message)
    if isinstance(message, ModelExamined):
        return examined(state, message.path, message.form), []
    if isinstance(message, Begun):
        return begin(state, message.link)
    if isinstance(message, UploadGrew):
        return replace(state, upload=message.upload), []
    if isinstance(message, UploadArrived):
        return upload_arrived(state, message.upload)
    if isinstance(message, FileRefused):
        return refuse(state, message.reason), []
    return replaced(state)


def _word(message: PageMessage, name: str) -> str:
    return str(message.get(name))


def _dismiss(state: PageState) -> PageState:
    return replace(state, status="idle", error=None, notice="", missing="")


def _unreadable(state: PageState, message: PageMessage) -> PageState:
    name = str(message.get("name", ""))[:MAX_NAME]
    return refuse(state, f"the browser could not read {name!r}: is it a folder, or was it moved?")


def _too_many(state: PageState, message: PageMessage) -> PageState:
    most = message.get("most")
    return refuse(
        state,
        f"more than {most} files were dropped: drop a folder with a sample of them, or start the "
        "explorer with --input FOLDER",
    )


def _too_large(state: PageState, message: PageMessage) -> PageState:
    return refuse(state, too_large(str(message.get("name", "")), UPLOAD_LIMIT_BYTES))


def _receive(state: PageState, message: PageMessage) -> Step:
    if message.get("part") == 0:
        state = without_closed_files(state)
    return state, [ReceiveUpload(message)]


def _looks(state: PageState, message: PageMessage) -> PageState:
    looks = message.get("looks")
    return replace(state, looks={**looks}) if are_looks(looks) else state


def _place(state: PageState, message: PageMessage) -> PageState:
    place = message.get("place")
    fits = isinstance(place, str) and len(place) <= MAX_PLACE
    return replace(state, place=place) if fits else state


QUIET = ("looks", "place")
"""Kinds of messages after which the page, which says them of itself, need not be told."""
TRAVELS = ("undo", "redo", "go to")
"""Kinds of messages that leave no point of their own."""
PAGE_SAYS: Mapping[str, Callable[[PageState, PageMessage], Step]] = {
    "open": lambda state, message: open_choice(state, _word(message, "model")),
    "close": lambda state, message: close_choice(state, _word(message, "model")),
    "fork": lambda state, message: fork(state, message.get("settings")),
    "show": lambda state, message: look_at(state, _word(message, "branch")),
    "wake": lambda state, message: wake_beside(state, _word(message, "branch")),
    "forget": lambda state, message: forget(state, _word(message, "branch")),
    "examine": examine,
    "open with": open_with,
    "drop values": lambda state, message: (drop_values(state, message), []),
    "drop data": lambda state, _: drop_data(state),
    "paired": lambda state, _: (replace(state, pair=()), []),
    "close dialog": lambda state, _: (close_dialog(state), []),
    "link": lambda state, message: follow(state, message.get("link")),
    "bisect": lambda state, _: bisect(state),
    "search": lambda state, message: search(state, SearchOrder.of_page(message)),
    "cancel search": lambda state, _: cancel_search(state),
    "turns": lambda state, message: start_timing(state, message.get("branches")),
    "cancel turns": lambda state, _: cancel_timing(state),
    "retry": lambda state, _: retry(state),
    "cancel": lambda state, _: cancel(state),
    "dismiss": lambda state, _: (_dismiss(state), []),
    "rename": lambda state, message: (
        rename(state, _word(message, "branch"), message.get("name")),
        [],
    ),
    "note": lambda state, message: (note(state, _word(message, "branch"), message.get("note")), []),
    "undo": lambda state, _: undo(state),
    "redo": lambda state, _: redo(state),
    "go to": lambda state, message: go_to(state, message.get("point")),
    "looks": lambda state, message: (_looks(state, message), []),
    "place": lambda state, message: (_place(state, message), []),
    "upload": _receive,
    "unreadable": lambda state, message: (_unreadable(state, message), []),
    "too many files": lambda state, message: (_too_many(state, message), []),
    "refused": lambda state, message: (_too_large(state, message), []),
}
"""All that a page says, by kind."""
