"""Models and traces of a page: opened, closed, sent as files, asked for by a link.

open_choice(state, "1")     as it was left, or compiled by default
    ->  state', [Compile(3, CompileRequest("b.onnx", "cpu"))]
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from explorer.app.catalog import Choice, first_request
from explorer.app.protocol import CompileRequest
from explorer.app.state.asking import choose_upload, take_values
from explorer.app.state.compiling import Step, cancel, compile_request, drop, look_at, refuse
from explorer.app.state.data import take_data, take_sweep
from explorer.app.state.editing import take_edit
from explorer.app.state.links import followed
from explorer.app.state.messages import Effect, RemoveUpload
from explorer.app.state.page_state import PageState
from explorer.app.state.pairing import (
    is_bare,
    is_of_weights,
    lacking,
    net_for,
    paired,
    weights_for,
    weights_wait,
    without_waiting,
)
from explorer.app.uploads import ASKED, EDIT, SWEEP, VALUES, Upload
from explorer.importers.format import weights_suffix_for

MAX_OPEN = 8
"""Models and traces that are open at once."""


def begin(state: PageState, link: object) -> Step:
    """Opens what a link says, or what was looked at before, or the first model.

    A page that says hello again begins nothing.

    link: {"model": label, "settings": decisions}, both as the page found them in its address
    """
    if state.has_begun:
        return state, []
    state = replace(state, has_begun=True)
    if state.branches or link is not None:
        state = replace(state, pair=())
    if state.branches and link is None:
        return compile_request(state, state.wanted)  # as it was left
    if state.pair:
        other = next(choice for choice in state.choices if choice.path == state.pair[1])
        state = replace(state, following=first_request(other, state.target))
    regret = state.notice
    state, effects = follow(state, link)
    return replace(state, notice=state.notice or regret), effects


def follow(state: PageState, link: object) -> Step:
    """Opens what a link says; a fork after what it forks from."""
    request, notice = followed(link, state, state.target)
    request = state.judged(request)
    state = replace(state, notice=notice)
    has_base = any(branch.request == request.base for branch in state.branches)
    if request != request.base and not has_base:
        state, effects = compile_request(state, request.base)
        return replace(state, following=request), effects
    return compile_request(state, request)


def open_choice(state: PageState, key: str) -> Step:
    """Looks at a model or trace as it was left; opens it if it isn't open yet."""
    choice = next((choice for choice in state.choices if choice.key == key), None)
    if choice is None:
        return state, []
    branches = state.of_path(choice.path)
    if branches:
        last = state.last.get(choice.path, "")
        return look_at(state, last if state.named(last) else branches[0].key)
    if not has_room(state):
        return without_room(state, choice), []
    return compile_request(state, first_request(choice, state.target))


def close_choice(state: PageState, key: str) -> Step:
    """Drops a model with its branches; a file that was sent is not offered any more."""
    choice = next((choice for choice in state.choices if choice.key == key), None)
    if choice is None:
        return state, []
    effects: list[Effect] = []
    if state.status == "working" and state.wanted.path == choice.path:
        state, effects = cancel(state)
    state, dropped = drop(state, list(state.of_path(choice.path)))
    effects += dropped
    left = tuple(b for b in state.branches if b.request.path != choice.path)
    last = {path: key for path, key in state.last.items() if path != choice.path}
    state = replace(state, branches=left, last=last)
    if choice.is_upload:
        state = replace(state, choices=tuple(c for c in state.choices if c != choice))
    if state.branch is not None:
        return state, effects
    awake = [branch for branch in left if not branch.is_asleep]
    state = replace(
        state,
        current=awake[-1].key if awake else "",
        wanted=awake[-1].request if awake else _first_wanted(state),
        revision=state.revision + 1,
    )
    if left and not awake:
        state, more = look_at(state, left[-1].key)
        effects += more
    return state, effects


def _first_wanted(state: PageState) -> CompileRequest:
    """What is asked for where nothing is open."""
    if not state.choices:
        return state.wanted
    return first_request(state.choices[0], state.default_target)


def upload_arrived(state: PageState, upload: Upload) -> Step:
    """A file becomes one more choice, and is opened; or it goes to the dialog."""
    if upload.purpose == VALUES:
        is_asked = state.dialog is not None and state.dialog.is_open
        return (take_values(state, upload), []) if is_asked else take_data(state, upload)
    if upload.purpose == SWEEP:
        return take_sweep(state, upload)
    if upload.purpose == EDIT:
        return take_edit(state, upload)
    state = replace(state, upload=None)
    if is_of_weights(upload):
        return _weights_arrived(state, upload)
    choice = Choice(f"upload {upload.path.stem}", upload.label, str(upload.path), is_upload=True)
    effects: list[Effect] = []
    if (weights := weights_for(state, upload)) is not None:
        state = without_waiting(state, weights)
        choice, effects = paired(upload.path, upload.label, weights)
        effects.append(RemoveUpload(upload.path))
    state, opened = _open_upload(replace(state, missing=""), choice, upload.purpose)
    suffix = weights_suffix_for(upload.path)
    if suffix and weights is None:
        state = lacking(state, upload, "came without its weights", f"the file with them ({suffix})")
    return state, [*effects, *opened]


def _weights_arrived(state: PageState, weights: Upload) -> Step:
    """With the net that they are for they become a model; until it is there they wait."""
    net = net_for(state, weights)
    if net is None:
        return weights_wait(state, weights)
    choice, effects = paired(Path(net.path), net.label, weights)
    if is_bare(state, net):
        state, closed = close_choice(state, net.key)
        effects += closed
    state, opened = _open_upload(replace(state, missing=""), choice, weights.purpose)
    return state, [*effects, *opened]


def _open_upload(state: PageState, choice: Choice, purpose: str) -> Step:
    if not has_room(state):
        return without_room(state, choice), [RemoveUpload(Path(choice.path))]
    labels = [known.label for known in state.choices]
    label, number = choice.label, 1
    while label in labels:
        number += 1
        label = f"{choice.label} ({number})"
    choice = replace(choice, label=label)
    state = replace(state, choices=(*state.choices, choice))
    if purpose == ASKED and choice.kind == "model":
        return choose_upload(state, choice)
    return compile_request(state, first_request(choice, state.target))


def has_room(state: PageState) -> bool:
    """Whether one more may be open."""
    return len(state.open_paths) < MAX_OPEN


def without_room(state: PageState, choice: Choice) -> PageState:
    """Says that too many are open for another one."""
    return refuse(
        state,
        f"{choice.label!r} is not opened: {MAX_OPEN} are open, which is the most; close one",
        what="too many models are open",
    )
