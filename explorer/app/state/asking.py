"""The dialog before a model is compiled: what it asks for, and what the person gave.

examine(state, {"model": "1"})                              reading, [Examine(path)]
open_with(state, {"model": "1", "target": "cpu", "sizes": {"batch": 4}})
    ->  [Compile(2, CompileRequest("net.onnx", "cpu", {"dimensions/batch": 4}))]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from explorer.app.catalog import Choice
from explorer.app.decisions import request_of
from explorer.app.state.compiling import Step, compile_request, refuse
from explorer.app.state.data import joined, with_data
from explorer.app.state.dialog import OpenDialog
from explorer.app.state.messages import Examine, PageMessage
from explorer.app.state.page_state import PageState
from explorer.app.uploads import Upload
from explorer.results.decisions import DIMENSIONS

MAX_SIZE = 1 << 31


def examine(state: PageState, message: PageMessage) -> Step:
    """Opens the dialog for a model."""
    choice = _choice(state, message.get("model"))
    if choice is None or choice.kind != "model":
        return state, []
    before = state.dialog
    if before is not None and before.model == choice.key:
        return replace(state, dialog=replace(before, is_open=True)), []
    return _opened(state, choice)


def _opened(state: PageState, choice: Choice) -> Step:
    key = state.count + 1
    dialog = OpenDialog(choice.key, choice.path)
    return replace(state, count=key, dialog=dialog), [Examine(key, choice.path, state.target)]


def choose_upload(state: PageState, choice: Choice) -> Step:
    """A model that was sent to the dialog is asked about, and not compiled yet."""
    return _opened(state, choice)


def examined(state: PageState, path: str, form: Mapping[str, Any]) -> PageState:
    """The worker has looked at a model."""
    dialog = state.dialog
    if dialog is None or dialog.path != path:
        return state
    return replace(state, dialog=replace(dialog, form=form))


def take_values(state: PageState, upload: Upload) -> PageState:
    """A file of values or labels, which joins the others of the dialog: see `joined`."""
    dialog = state.dialog
    if dialog is None or not dialog.is_open:
        return refuse(replace(state, upload=None), f"{upload.label!r} holds no model")
    files = joined(dialog.files, (upload.label, str(upload.path)))
    return replace(state, upload=None, dialog=replace(dialog, files=files))


def drop_values(state: PageState, message: PageMessage) -> PageState:
    """The person takes a file back."""
    if state.dialog is None:
        return state
    files = tuple(file for file in state.dialog.files if file[0] != message.get("name"))
    return replace(state, dialog=replace(state.dialog, files=files))


def close_dialog(state: PageState) -> PageState:
    dialog = state.dialog
    return state if dialog is None else replace(state, dialog=replace(dialog, is_open=False))


def open_with(state: PageState, message: PageMessage) -> Step:
    """Compiles a model with what the dialog was given; the dialog stays where that is no size."""
    choice, sizes = _choice(state, message.get("model")), message.get("sizes")
    dialog = state.dialog
    if choice is None or dialog is None or not isinstance(sizes, Mapping):
        return state, []
    if not all(isinstance(name, str) and _is_size(size) for name, size in sizes.items()):
        return state, []
    decisions = {f"{DIMENSIONS}/{name}": size for name, size in sizes.items()}
    settings = {"target": message.get("target"), "decisions": decisions}
    request = request_of(settings, choice.path, state.targets)
    if request is None:
        return state, []
    state = close_dialog(state)
    if dialog.files:
        state, effects = with_data(state, choice.path, dialog.files)
        state, more = compile_request(state, request)
        return state, [*effects, *more]
    return compile_request(state, request)


def _choice(state: PageState, key: object) -> Choice | None:
    return next((choice for choice in state.choices if choice.key == key), None)


def _is_size(size: object) -> bool:
    if isinstance(size, list):
        return len(size) == 2 and all(map(_is_size, size)) and not isinstance(size[0], list)
    return isinstance(size, int) and not isinstance(size, bool) and 0 <= size < MAX_SIZE
