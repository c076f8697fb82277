"""What a worker says: more is known of a compilation, or it failed, or the worker is no more.

reported(state, Reported(2, DrawnTrace(head, chunks, stages=("passes",))))
    ->  state' with one more branch, [KeepResult(request, trace)]
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from explorer.app.branches import MAX_ACTIVE_BRANCHES, Branch
from explorer.app.protocol import (
    STAGES,
    CompileRequest,
    Died,
    DrawnTrace,
    Failure,
    Progressed,
    SearchProgress,
)
from explorer.app.state.compiling import Step, compile_request, lull, take_over
from explorer.app.state.messages import Effect, KeepResult, Reported
from explorer.app.state.page_state import PageState
from explorer.app.state.searching import bisected, searched
from explorer.app.state.timing import timed


def reported(state: PageState, message: Reported) -> Step:
    """What follows from a worker's word; nothing from one that nobody waits for any more."""
    key, report = message.key, message.report
    if isinstance(report, Died):
        return _died(state, report)
    request = state.asked.get(key)
    if request is None:
        return state, []  # forgotten, or asked of a worker that was ended
    if isinstance(report, Progressed):
        is_waited_for = state.status == "working" and request == state.wanted
        is_shown = str(key) == state.current or is_waited_for
        return (replace(state, progress=report) if is_shown else state), []
    if isinstance(report, DrawnTrace):
        return _drawn(state, key, request, report)
    if isinstance(report, SearchProgress):
        return timed(searched(state, key, report), key, report), []
    if isinstance(report, Failure):
        return _failed(state, key, request, _as_named(state, report, request)), []
    return bisected(state, key, report), []


def _drawn(state: PageState, key: int, request: CompileRequest, trace: DrawnTrace) -> Step:
    """More is known of a compilation: a new branch, or a further stage of one."""
    if trace.is_read_only:
        read = Branch(str(key), request, _with_given_name(state, trace, request))
        return replace(state, read=read), []
    if state.read is not None and state.read.key == str(key):
        state = replace(state, read=None)
    effects: list[Effect] = []
    if state.is_private(request):
        trace = _with_given_name(state, trace, request)
    else:
        effects.append(KeepResult(request, trace))
    known = state.named(str(key))
    if known is not None and not known.is_asleep:
        # A worker that took over from one that was ended begins with what is there already.
        # A stage may come again, measured on other data.
        is_more = len(trace.stages) > len(known.trace.stages)
        if is_more or not set(trace.stages) <= set(known.trace.stages):
            state = state.with_branch(replace(known, trace=trace), is_news=True)
        return state, effects
    if known is not None:
        state = state.with_branch(replace(known, trace=trace))
    else:
        parent = state.forked_from.get(key, "")
        parent = parent if state.named(parent) else ""
        branch = Branch(str(key), request, trace, parent=parent)
        state = replace(state, branches=(*state.branches, branch))
    state, more = _with_few_awake(state, str(key))
    effects += more
    following = state.following
    state = replace(state, following=None)
    if following is not None and following.base == request:
        state, more = compile_request(state, following)
        return state, effects + more
    is_wanted = request == state.wanted
    if is_wanted or state.branch is None:
        state = replace(
            state,
            current=str(key),
            last={**state.last, request.path: str(key)},
            revision=state.revision + 1,
        )
    if is_wanted:
        state = replace(state, status="idle", progress=None, error=None)
    if is_wanted and following is not None and following.path in state.pair:
        state, more = compile_request(state, following)  # next to the first one, which is shown
        effects += more
    return state, effects


def _with_few_awake(state: PageState, key: str) -> Step:
    """The oldest branches of a model but the first fall asleep where too many are awake."""
    branch = state.named(key)
    assert branch is not None
    others = [other for other in state.of_path(branch.request.path) if not other.is_asleep]
    if len(others) <= MAX_ACTIVE_BRANCHES:
        return state, []
    tired = (other for other in others[1:] if other.key not in (key, state.current))
    return lull(state, next(tired))


def _failed(state: PageState, key: int, request: CompileRequest, failure: Failure) -> PageState:
    """A stage of a branch cannot be made; or there will be no such branch."""
    branch = state.named(str(key))
    if branch is None or branch.is_asleep:
        return _refused(state, key, request, failure)
    failed = (*branch.failed, *([failure.stage] if failure.stage in STAGES else []))
    return _with_failed(state, branch, failed, failure)


def _with_failed(
    state: PageState, branch: Branch, failed: tuple[str, ...], failure: Failure
) -> PageState:
    state = state.with_branch(replace(branch, failed=failed, is_bisecting=False))
    if branch.key != state.current:
        return state
    return replace(state, status="failed", progress=None, error=failure)


def _refused(state: PageState, key: int, request: CompileRequest, failure: Failure) -> PageState:
    """There will be no such branch."""
    state = replace(state.without_asked(key), following=None, read=None)
    if request != state.wanted:
        return state
    awake = [branch for branch in state.branches if not branch.is_asleep]
    if state.branch is None and awake:
        # What a link forks from is there, and nothing is looked at yet.
        first = awake[-1]
        state = replace(state, current=first.key, revision=state.revision + 1)
    return replace(state, status="failed", progress=None, error=failure)


def _died(state: PageState, report: Died) -> Step:
    """What the worker was at is lost: it may be what it died of. The branches stay."""
    for key, failure in report.failures.items():
        request = state.asked.get(key)
        if request is None:
            continue
        failure = _as_named(state, failure, request)
        branch = state.named(str(key))
        if any(order.key == key for order in (*state.searches, *state.turns)):
            state = _with_ended(state, key, failure.what)
        elif branch is None or branch.is_asleep:
            state = _refused(state, key, request, failure)
        else:
            state = _with_failed(state, branch, (*branch.failed, *branch.pending), failure)
    return take_over(state) if state.branch is not None else (state, [])


def _with_given_name(state: PageState, trace: DrawnTrace, request: CompileRequest) -> DrawnTrace:
    """Under the name that the person's file has, not the one under which it lies here."""
    choice = state.choice(request.path)
    if choice is None or request.is_trace:
        return trace
    model = {**trace.head["model"], "name": Path(choice.label).stem}
    return replace(trace, head={**trace.head, "model": model})


def _as_named(state: PageState, failure: Failure, request: CompileRequest) -> Failure:
    """The failure with the person's name of the file in place of the path that it has here."""
    choice = state.choice(request.path)
    names = {path: name for name, path in state.data.get(request.path, ())}
    if choice is not None:
        names[request.path] = choice.label
    texts = {field: getattr(failure, field) for field in ("what", "where", "advice")}
    for path, name in names.items():
        for field, text in texts.items():
            texts[field] = text.replace(path, name).replace(Path(path).name, Path(name).name)
    return replace(failure, **texts)


def replaced(state: PageState) -> Step:
    """A worker that did not answer was ended, and its searches and measurements with it."""
    for order in (*state.searches, *state.turns):
        if order.is_running:
            state = _with_ended(state, order.key, "its process was ended: it did not answer")
    return take_over(state)


def _with_ended(state: PageState, key: int, why: str) -> PageState:
    ended = SearchProgress("failed", error=why)
    return timed(searched(state, key, ended), key, ended)
