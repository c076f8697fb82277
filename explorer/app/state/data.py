"""Data on which the branches of a model are judged: attached by a file that was sent, taken back.

take_data(state, upload)        all branches of the model that is looked at have the data
take_sweep(state, upload)       all branches of that model have the sweep
drop_data(state)                their inputs are drawn again

What was measured on other data stays on the screen, under the name of those data, until the same
is measured on the new ones.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from explorer.app.branches import Branch
from explorer.app.protocol import COMPLETE, JUDGED
from explorer.app.state.compiling import Step, lull, refuse
from explorer.app.state.messages import Effect, Judge, RemoveUpload, ShowSweep
from explorer.app.state.page_state import PageState
from explorer.app.uploads import IMAGE_SUFFIXES, Upload

NO_LABELS = (".npz", *IMAGE_SUFFIXES)
"""Files that hold values of inputs."""

Files = tuple[tuple[str, str], ...]
"""(name that the person's file has, path)."""


def joined(files: Files, file: tuple[str, str]) -> Files:
    """The files with one more: arrays take the place of other arrays and of images, images join
    other images, labels take the place of labels."""
    suffix = Path(file[1]).suffix

    def stays(other: str) -> bool:
        if suffix in IMAGE_SUFFIXES and other in IMAGE_SUFFIXES:
            return True
        return (other in NO_LABELS) != (suffix in NO_LABELS)

    return (*(known for known in files if stays(Path(known[1]).suffix)), file)


def take_data(state: PageState, upload: Upload) -> Step:
    """A file of values or labels, for the model that is looked at."""
    state = replace(state, upload=None)
    branch = state.branch
    if branch is None or branch.request.is_trace:
        reason = f"{upload.label!r} holds data: open the model that is judged on them first"
        return refuse(state, reason), [RemoveUpload(upload.path)]
    path = branch.request.path
    # Images that are sent together take the place of those that were there before.
    is_first = not state.arriving
    files = joined(state.arriving, (upload.label, str(upload.path)))
    if upload.more:
        return replace(state, arriving=files), []
    known = state.data.get(path, ())
    suffixes = {Path(file).suffix for _, file in files}
    if suffixes <= set(IMAGE_SUFFIXES):
        known = tuple(file for file in known if Path(file[1]).suffix not in NO_LABELS)
    elif not is_first:
        known = ()
    for file in files:
        known = joined(known, file)
    return with_data(replace(state, arriving=()), path, known)


def take_sweep(state: PageState, upload: Upload) -> Step:
    """A sweep of machines, which all branches of the model that is looked at have."""
    state = replace(state, upload=None)
    branch = state.branch
    if branch is None or branch.request.is_trace:
        reason = f"{upload.label!r} may be a sweep of machines: open one of its models first"
        return refuse(state, reason), [RemoveUpload(upload.path)]
    path = branch.request.path
    effects: list[Effect] = []
    if path in state.sweeps:
        effects.append(RemoveUpload(Path(state.sweeps[path])))
    state = replace(state, sweeps={**state.sweeps, path: str(upload.path)})
    for own in state.of_path(path):
        if own.is_asleep:
            continue
        stages = tuple(stage for stage in own.trace.stages if stage != COMPLETE)
        state = state.with_branch(replace(own, trace=replace(own.trace, stages=stages)))
        effects.append(ShowSweep(int(own.key), own.request, str(upload.path)))
    return state, effects


def drop_data(state: PageState) -> Step:
    """The inputs of the model that is looked at are drawn again."""
    branch = state.branch
    return (state, []) if branch is None else with_data(state, branch.request.path, ())


def with_data(state: PageState, path: str, files: Files) -> Step:
    """All branches of a model judged on the files; only labels wait for values."""
    before = state.data.get(path, ())
    if files == before:
        return state, []
    data = {known: own for known, own in state.data.items() if known != path}
    state = _without_error_of_data(state, path)
    state = replace(state, data={**data, path: files} if files else data)
    used = {path for branch in state.of_path(path) for path in branch.request.quantize[1:]}
    gone = [file for file in before if file not in files and file[1] not in used]
    effects: list[Effect] = [RemoveUpload(Path(file)) for _, file in gone]
    for branch in state.of_path(path):
        state, more = _judged_anew(state, branch)
        effects += more
    wanted = state.judged(state.wanted) if state.wanted.path == path else state.wanted
    points = tuple(
        replace(point, branches=tuple(_with_request(state, b, path) for b in point.branches))
        for point in state.points
    )
    return replace(state, wanted=wanted, points=points), effects


def _without_error_of_data(state: PageState, path: str) -> PageState:
    """What failed on the data that were there before is not said of other ones."""
    error, branch = state.error, state.branch
    is_shown = state.status == "failed" and error is not None and error.stage in JUDGED
    if not is_shown or branch is None or branch.request.path != path:
        return state
    return replace(state, status="idle", error=None)


def _with_request(state: PageState, branch: Branch, path: str) -> Branch:
    if branch.request.path != path:
        return branch
    return replace(branch, request=state.judged(branch.request))


def _judged_anew(state: PageState, branch: Branch) -> Step:
    """A branch with the data: the one that is looked at is measured, others fall asleep."""
    request = state.judged(branch.request)
    effects: list[Effect] = []
    if branch.key != state.current and not branch.is_asleep:
        state, effects = lull(state, branch)
        branch = branch.asleep()
    branch = replace(branch, request=request)
    if branch.is_asleep:
        return state.with_branch(branch), effects
    stages = tuple(stage for stage in branch.trace.stages if stage not in JUDGED)
    branch = replace(branch, trace=replace(branch.trace, stages=stages), failed=())
    state = state.asking(int(branch.key), request).with_branch(branch)
    return state, [*effects, Judge(int(branch.key), request)]
