"""What of a page outlives it: models, branches, history, searches, looks, as records and back.

saved_of(state)                 ->  SavedWorkspace: decisions and words, no results
restored(state, saved)          ->  state' with all branches asleep, and what could not be restored

Branches are compiled again when somebody looks at them. Nothing in here is executed: decisions are
checked as those are that a page sends.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TypeGuard

from explorer.app.branches import MAX_BRANCHES, Branch
from explorer.app.catalog import Choice
from explorer.app.decisions import request_of, settings_of
from explorer.app.protocol import CompileRequest, DrawnTrace
from explorer.app.searches import Search, SearchOrder
from explorer.app.state.history import MAX_POINTS
from explorer.app.state.page_state import PageState
from explorer.app.state.points import Look, Point
from explorer.app.uploads import NAME

NO_FILES: Mapping[str, Path] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class SavedBranch:
    """Decisions of a branch, and what it came to."""

    key: str
    request: CompileRequest
    head: str
    """JSON: the label, the summary and the passes' names of its trace."""
    sent: str = ""
    """What the person calls the file, where they sent it."""


@dataclass(frozen=True, kw_only=True)
class SentFile:
    """A model or trace that the person sent."""

    name: str
    """In the folder of the workspace."""
    label: str
    """What the person calls it."""


@dataclass(frozen=True, kw_only=True)
class SavedPoint:
    """How branches stood; they are named by their keys."""

    words: str
    branches: tuple[tuple[str, str, str, str], ...]
    """(key, name, note, key of the parent)"""
    current: str
    last: tuple[tuple[str, str], ...]
    is_look: bool = False
    files: tuple[str, ...] = ()
    """Names of those that the person had sent, and not closed."""


@dataclass(frozen=True, kw_only=True)
class SavedSearch:
    key: int
    request: CompileRequest
    order: SearchOrder
    status: str
    number: int
    most: int
    error: str
    result: str
    """JSON."""


@dataclass(frozen=True, kw_only=True)
class SavedWorkspace:
    """A page without its results."""

    target: str
    """Which was the default one."""
    count: int
    branches: tuple[SavedBranch, ...]
    """Of the present, and of all points."""
    present: SavedPoint
    points: tuple[SavedPoint, ...] = ()
    at: int = -1
    searches: tuple[SavedSearch, ...] = ()
    looks: tuple[tuple[str, str | int | float], ...] = ()
    place: str = ""
    files: tuple[SentFile, ...] = ()
    """Of the present, and of all points."""
    offered: tuple[str, ...] = ()
    """Paths of what the app was started with."""
    data: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()
    """Of models, by path, the files of data on which they are judged: (name, path)."""

    @property
    def file_names(self) -> set[str]:
        """Of all files that are still needed: models, values and labels, edited IR."""
        requests = (*(b.request for b in self.branches), *(s.request for s in self.searches))
        sent = (
            path
            for request in requests
            for path in (*request.data, *request.quantize[1:], *request.edit[1:])
        )
        data = {Path(path).name for path in sent}
        return {file.name for file in self.files} | data

    def fits(self, offered: set[str]) -> bool:
        """Whether a person who starts the app with these paths expects what was open then."""
        is_open = bool(self.open_paths) and self.open_paths <= offered
        return is_open or (not self.open_paths and offered == set(self.offered))

    @property
    def open_paths(self) -> set[str]:
        """Of the models that were open, without files that were sent."""
        keys = {key for key, *_ in self.present.branches}
        return {b.request.path for b in self.branches if b.key in keys and not b.sent}


def saved_of(state: PageState) -> SavedWorkspace:
    """What is worth keeping of a page."""
    present = Point("", state.choices, state.branches, state.current, state.last)
    every = {branch.key: branch for point in (*state.points, present) for branch in point.branches}
    return SavedWorkspace(
        target=state.default_target,
        count=state.count,
        branches=tuple(_saved_branch(branch, state) for branch in every.values()),
        present=_saved_point(present),
        points=tuple(map(_saved_point, state.points)),
        at=state.at,
        searches=tuple(_saved_search(search) for search in state.searches),
        looks=tuple(sorted(state.looks.items())),
        place=state.place,
        files=tuple(
            SentFile(name=Path(choice.path).name, label=choice.label)
            for choice in dict.fromkeys(
                choice
                for choices in (state.choices, *(point.choices for point in state.points))
                for choice in choices
                if choice.is_upload
            )
        ),
        offered=tuple(absolute(choice.path) for choice in state.choices if not choice.is_upload),
        data=tuple((absolute(path), files) for path, files in sorted(state.data.items())),
    )


def restored(
    state: PageState, saved: SavedWorkspace, found: Mapping[str, Path] = NO_FILES
) -> tuple[PageState, str]:
    """The page as it was left, all branches asleep; and what could not be restored (or "").

    `found`: paths of files that the person had sent and that are still there, by name.
    """
    state = replace(state, choices=(*state.choices, *_sent_choices(saved, found)))
    paths = {absolute(choice.path): choice.path for choice in state.choices}
    for branch in saved.branches:  # the folder may be another one now
        sent = found.get(Path(branch.request.path).name) if branch.sent else None
        paths |= {} if sent is None else {branch.request.path: str(sent)}
    branches: dict[str, Branch] = {}
    lost: list[str] = []
    for branch in saved.branches:
        request = _checked(branch.request, paths, state.targets, found)
        if request is None or not branch.key.isdecimal() or len(branches) >= 10 * MAX_BRANCHES:
            lost.append(branch.key)
        else:
            branches[branch.key] = Branch(branch.key, request, DrawnTrace(_head(branch), {}))
    present = _point(saved.present, branches, state.choices)
    points = tuple(_point(point, branches, state.choices) for point in saved.points[-MAX_POINTS:])
    keys = [branch.key for branch in present.branches]
    current = next((branch for branch in present.branches if branch.key == present.current), None)
    current = current or (present.branches[-1] if present.branches else None)
    searches = (_search(search, paths, state.targets, found) for search in saved.searches)
    last_key = max([saved.count, *map(int, branches), *(search.key for search in saved.searches)])
    state = replace(
        state,
        choices=present.choices,
        branches=present.branches,
        wanted=current.request if current else state.wanted,
        last={paths[path]: key for path, key in saved.present.last if path in paths},
        count=last_key,
        points=points,
        at=saved.at if 0 <= saved.at < len(points) else len(points) - 1,
        searches=tuple(search for search in searches if search is not None),
        looks=dict(saved.looks),
        place=saved.place,
        data={**state.data, **dict(_data(saved, paths, found))},
    )
    gone = [key for key, *_ in saved.present.branches if key in lost and key not in keys]
    return state, _regret(gone, saved) if gone else ""


def _data(
    saved: SavedWorkspace, paths: Mapping[str, str], found: Mapping[str, Path]
) -> Iterator[tuple[str, tuple[tuple[str, str], ...]]]:
    """Of models that are still offered, the files of data that are still there."""
    for path, files in saved.data:
        kept = [(name, _data_file(file, found)) for name, file in files]
        there = tuple((name, str(file)) for name, file in kept if file is not None)
        if path in paths and there:
            yield paths[path], there


def absolute(path: str) -> str:
    """The same for each way to write it."""
    return str(Path(path).absolute())


def _saved_branch(branch: Branch, state: PageState) -> SavedBranch:
    path = branch.request.path
    sent = {c.path: c.label for point in state.points for c in point.choices if c.is_upload}
    request = replace(branch.request, path=absolute(branch.request.path))
    head = branch.asleep().trace.head
    return SavedBranch(
        key=branch.key, request=request, head=json.dumps(head), sent=sent.get(path, "")
    )


def _saved_point(point: Point) -> SavedPoint:
    return SavedPoint(
        words=point.words,
        branches=tuple((b.key, b.name, b.note, b.parent) for b in point.branches),
        current=point.current,
        last=tuple((absolute(path), key) for path, key in sorted(point.last.items())),
        is_look=point.is_look,
        files=tuple(Path(choice.path).name for choice in point.choices if choice.is_upload),
    )


def _sent_choices(saved: SavedWorkspace, found: Mapping[str, Path]) -> list[Choice]:
    return [
        Choice(f"upload {path.stem}", file.label, str(path), is_upload=True)
        for file in saved.files
        if (path := found.get(file.name)) is not None
    ]


def _saved_search(search: Search) -> SavedSearch:
    return SavedSearch(
        key=search.key,
        request=replace(search.request, path=absolute(search.request.path)),
        order=search.order,
        status="cancelled" if search.is_running else search.status,
        number=search.number,
        most=search.most,
        error=search.error,
        result=json.dumps(search.result),
    )


def _search(
    saved: SavedSearch,
    paths: Mapping[str, str],
    targets: Iterable[str],
    found: Mapping[str, Path],
) -> Search | None:
    request = _checked(saved.request, paths, targets, found)
    if request is None or saved.status not in ("done", "cancelled", "failed"):
        return None
    return Search(
        key=saved.key,
        request=request,
        order=saved.order,
        status=saved.status,
        number=saved.number,
        most=saved.most,
        error=saved.error,
        result=json.loads(saved.result),
    )


def _checked(
    request: CompileRequest,
    paths: Mapping[str, str],
    targets: Iterable[str],
    found: Mapping[str, Path],
) -> CompileRequest | None:
    """The request with the path under which its file is offered now; None where there is none."""
    path = paths.get(request.path)
    if path is None:
        return None
    if request.is_trace:
        return CompileRequest(path, "")
    checked = request_of(settings_of(request), path, list(targets))
    data = [_data_file(file, found) for file in request.data]
    seen = [_data_file(file, found) for file in request.quantize[1:]]
    edit = [found.get(Path(file).name) for file in request.edit[1:]]
    if checked is None or None in (*data, *seen, *edit) or len(request.edit) not in (0, 2):
        return None
    edited = (*request.edit[:1], *map(str, edit))
    name = request.data_name
    quantize = (*request.quantize[:1], *map(str, seen))
    data_files = tuple(map(str, data))
    return replace(checked, data=data_files, data_name=name, quantize=quantize, edit=edited)


def _data_file(file: str, found: Mapping[str, Path]) -> Path | None:
    """Where data lie now: what was sent lies in the folder of the workspace, and what the app was
    started with stays where it is."""
    return found.get(Path(file).name, None if NAME.fullmatch(Path(file).name) else Path(file))


def _head(branch: SavedBranch) -> dict[str, object]:
    head = json.loads(branch.head)
    if not isinstance(head, dict) or not isinstance(head.get("summary"), dict):
        raise ValueError(f"branch {branch.key} has no summary")
    if not isinstance(head["summary"].get("verdict"), str) or not isinstance(head["label"], str):
        raise ValueError(f"branch {branch.key} has no verdict")
    passes = head.get("passes", [])
    names = [step.get("name") for step in passes if isinstance(step, dict)]
    if not isinstance(passes, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"branch {branch.key} has no passes")
    head["passes"] = [{"name": name} for name in names]
    return head


def _point(saved: SavedPoint, branches: Mapping[str, Branch], choices: tuple[Choice, ...]) -> Point:
    found = tuple(
        replace(branches[key], name=name, note=note, parent=parent)
        for key, name, note, parent in saved.branches
        if key in branches
    )
    paths = {absolute(branch.request.path): branch.request.path for branch in found}
    last = {paths[path]: key for path, key in saved.last if path in paths}
    return Point(
        words=saved.words,
        choices=tuple(c for c in choices if not c.is_upload or Path(c.path).name in saved.files),
        branches=found,
        current=saved.current,
        last=last,
        is_look=saved.is_look,
    )


def _regret(keys: list[str], saved: SavedWorkspace) -> str:
    """Which of the models that were open are not there any more."""
    gone = {branch.key: branch.sent or Path(branch.request.path).name for branch in saved.branches}
    names = sorted({gone[key] for key in keys if key in gone})
    return f"Not offered any more, and so not open again: {', '.join(names)}."


def are_looks(value: object) -> TypeGuard[Mapping[str, Look]]:
    """Whether a page sends looks: a few short names with short values."""
    return (
        isinstance(value, Mapping)
        and len(value) <= MAX_LOOKS
        and all(isinstance(name, str) and len(name) <= MAX_LOOK for name in value)
        and all(_is_look(look) for look in value.values())
    )


def _is_look(value: Look | object) -> bool:
    return isinstance(value, str | int | float) and len(str(value)) <= MAX_LOOK


MAX_LOOKS = 60
MAX_LOOK = 60
MAX_PLACE = 8000
