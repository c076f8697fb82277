"""Undo and redo: every action leaves a point, and a person goes to any of them.

opened net -> forked: without fuse-bias -> renamed -> closed net
                        ^ undo, undo: the branch is there again, under its old name

What is open is compared before and after each message, so that no action has to think of it.
Nothing is compiled for what was undone until somebody looks at it.
"""

from __future__ import annotations

from dataclasses import replace

from explorer.app.branches import Branch
from explorer.app.state.compiling import Step, cancel, drop, look_at
from explorer.app.state.page_state import PageState
from explorer.app.state.points import Point

MAX_POINTS = 100


def noted(before: PageState, after: PageState) -> PageState:
    """The state with a point more, where something was done that can be undone."""
    words = words_of(before, after)
    if not words:
        return after
    is_look = _identities(before) == _identities(after)
    past = after.points[: after.at + 1]
    if is_look and past and past[-1].is_look:
        past = past[:-1]
    branches = tuple(branch.asleep() for branch in after.branches)
    point = Point(
        words=words,
        choices=after.choices,
        branches=branches,
        current=after.current,
        last=after.last,
        is_look=is_look,
    )
    points = (*past, point)[-MAX_POINTS:]
    return replace(after, points=points, at=len(points) - 1)


def words_of(before: PageState, after: PageState) -> str:
    """What was done between two states; empty where it is nothing to undo."""
    old = {branch.key: branch for branch in before.branches}
    new = {branch.key: branch for branch in after.branches}
    gone = [branch for key, branch in old.items() if key not in new]
    if gone:
        path = gone[0].request.path
        choice = before.choice(path)
        if choice is not None and path not in after.open_paths:
            return f"closed {choice.label}"
        return f"deleted {before.full_label(gone[0])}"
    made = [branch for key, branch in new.items() if key not in old]
    if made:
        choice = after.choice(made[0].request.path)
        if choice is not None and choice.path not in before.open_paths:
            return f"opened {choice.label}"
        return f"forked {after.full_label(made[0])}"
    for key, branch in new.items():
        if branch.name != old[key].name:
            return f"renamed {before.full_label(old[key])} to {after.full_label(branch)}"
        if branch.note != old[key].note:
            return f"noted on {after.full_label(branch)}"
    # A branch that had to wake arrives after the step that went to its point.
    is_there = bool(after.points) and after.points[after.at].current == after.current
    if before.branch and after.branch and before.current != after.current and not is_there:
        return f"looked at {after.full_label(after.branch)}"
    return ""


def undo(state: PageState) -> Step:
    """Back before the last action; a branch that is still to come is given up instead."""
    is_new = all(branch.request != state.wanted for branch in state.branches)
    if state.status == "working" and is_new:
        return cancel(state)
    return go_to(state, state.at - 1)


def redo(state: PageState) -> Step:
    return go_to(state, state.at + 1)


def go_to(state: PageState, index: object) -> Step:
    """How things stood after the action of that index."""
    if not isinstance(index, int) or isinstance(index, bool):
        return state, []
    if not 0 <= index < len(state.points) or index == state.at:
        return state, []
    state, effects = cancel(state) if state.status == "working" else (state, [])
    point = state.points[index]
    awake = {branch.key: branch for branch in state.branches}
    branches = tuple(_as_at(awake.get(branch.key), branch) for branch in point.branches)
    keys = {branch.key for branch in branches}
    state, dropped = drop(state, [branch for key, branch in awake.items() if key not in keys])
    is_there = state.current in keys
    state = replace(
        state,
        choices=point.choices,
        branches=branches,
        last=point.last,
        at=index,
        status="idle",
        error=None,
        current=state.current if is_there else "",
        revision=state.revision + (not is_there),
    )
    state, looked = look_at(state, point.current)
    return state, effects + dropped + looked


def _as_at(awake: Branch | None, then: Branch) -> Branch:
    """A branch as it was called then, with what is known of it now."""
    if awake is None:
        return then
    return replace(awake, name=then.name, note=then.note, parent=then.parent)


def _identities(state: PageState) -> list[tuple[str, str, str]]:
    return [(branch.key, branch.name, branch.note) for branch in state.branches]


def without_closed_files(state: PageState) -> PageState:
    """Files that were sent and closed cannot be brought back from here on: room for another one."""
    points = tuple(_with_choices(point, state) for point in state.points)
    return replace(state, points=points)


def _with_choices(point: Point, state: PageState) -> Point:
    choices = tuple(c for c in point.choices if not c.is_upload or c in state.choices)
    if choices == point.choices:
        return point
    paths = {choice.path for choice in choices}
    branches = tuple(branch for branch in point.branches if branch.request.path in paths)
    keys = [branch.key for branch in branches]
    current = point.current if point.current in keys else (keys[-1] if keys else "")
    return replace(point, choices=choices, branches=branches, current=current)


def uploaded_files(state: PageState) -> set[str]:
    """Paths of the files of this page that may still be asked for."""
    lists = (state.choices, *(point.choices for point in state.points))
    return {choice.path for choices in lists for choice in choices if choice.is_upload}
