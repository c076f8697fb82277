"""Branches of a page: compiled, looked at, given up, dropped.

compile_request(state, request)     what is known is looked at; the rest is asked for
    ->  state' (status working), [Compile(2, request)]
"""

from __future__ import annotations

from dataclasses import replace

from explorer.app.branches import MAX_BRANCHES, Branch
from explorer.app.decisions import request_of
from explorer.app.protocol import CompileRequest, Failure
from explorer.app.state.messages import Cancel, Compile, Effect, Forget, Prepare
from explorer.app.state.page_state import PageState

MAX_NAME = 120
MAX_NOTE = 4000
"""Characters of what a person calls a branch and writes on it."""
STAYS = "What was shown before stays usable."

Step = tuple[PageState, list[Effect]]


def compile_request(state: PageState, request: CompileRequest) -> Step:
    """Looks at a branch that is there; else asks for a new one."""
    request = state.judged(request)
    known = next((branch for branch in state.branches if branch.request == request), None)
    state = replace(state, wanted=request)
    if known is not None and known.is_asleep:
        return wake(state, known)
    if known is not None:
        state, effects = look_at(state, known.key)
        return replace(state, status="idle", progress=None, error=None), effects
    if len(state.branches) >= MAX_BRANCHES:
        reason = f"there are {MAX_BRANCHES} branches, which is the most; delete some of them"
        return refuse(state, reason, what="too many branches are open"), []
    key = state.count + 1
    state = replace(state, count=key, status="working", progress=None, error=None)
    state = state.asking(key, request)
    return state, [Compile(key, request, may_be_known=not state.is_private(request))]


def fork(state: PageState, settings: object) -> Step:
    """What is looked at, decided otherwise."""
    path = state.branch.request.path if state.branch else state.wanted.path
    request = request_of(settings, path, state.targets)
    if request is None:
        return state, []
    if state.branch is not None:  # a fork has its edited text, too
        before = state.branch.request
        if request.quantize[:1] == before.quantize[:1]:  # by the table that the branch has
            request = replace(request, quantize=before.quantize)
        request = state.judged(replace(request, edit=before.edit))
        if address := without_effect(state.branch, request):
            reason = (
                f"{address} is decided before the text that was edited, after {request.edit[0]}, "
                "and has no effect on it: fork the branch that the text was made of"
            )
            return refuse(state, reason, what="this would change nothing"), []
    if request.is_trace:
        reason = (
            "A saved trace holds what a compilation was, not its model: open the model's file "
            "and change its decisions there."
        )
        return refuse(state, reason, what="a saved trace cannot be compiled again"), []
    state, effects = compile_request(state, request)
    is_new = any(isinstance(effect, Compile) and effect.key == state.count for effect in effects)
    if is_new and state.branch is not None:
        state = replace(state, forked_from={**state.forked_from, state.count: state.current})
    return state, effects


def without_effect(branch: Branch, request: CompileRequest) -> str:
    """The decision of a fork that an edited text leaves nothing to decide about; "" for none.

    What ran before the text is written in it: deciding that otherwise would change nothing.
    """
    if not request.edit or request.edit[0] not in branch.pass_names:
        return ""
    settled = branch.pass_names[: branch.pass_names.index(request.edit[0]) + 1]
    before, wanted = dict(branch.request.decisions), dict(request.decisions)
    changed = sorted(a for a in before.keys() | wanted if before.get(a) != wanted.get(a))
    return next((address for address in changed if address.split("/")[0] in settled), "")


def look_at(state: PageState, key: str) -> Step:
    """Another branch becomes the one that is looked at, once there is something to see."""
    found = state.named(key)
    if found is not None and state.read is not None:
        state = replace(state, read=None)
    if found is None or key == state.current:
        return state, []
    if found.is_asleep:
        return wake(state, found)
    has_failed = state.status == "failed"
    state = replace(
        state,
        current=key,
        wanted=state.wanted if state.status == "working" else found.request,
        status="idle" if has_failed else state.status,
        error=None if has_failed else state.error,
        # What is told of the background is told of what is looked at.
        progress=state.progress if state.status == "working" else None,
        last={**state.last, found.request.path: key},
        revision=state.revision + 1,
    )
    return state, prepare(found.request)


def wake(state: PageState, branch: Branch) -> Step:
    """Compiles a branch that is asleep; it is looked at when it is there."""
    state = replace(state, wanted=branch.request, status="working", progress=None, error=None)
    return wake_beside(state, branch.key)


def wake_beside(state: PageState, key: str) -> Step:
    """Compiles a branch that is asleep, beside what is looked at."""
    branch = state.named(key)
    if branch is None or not branch.is_asleep or int(key) in state.asked:
        return state, []
    state = state.asking(int(key), branch.request)
    may_be_known = not state.is_private(branch.request)
    return state, [Compile(int(key), branch.request, may_be_known)]


def forget(state: PageState, key: str) -> Step:
    """Drops a branch, but not the one that is looked at. Its forks are then those of its parent."""
    branch = state.named(key)
    if branch is None or key == state.current:
        return state, []
    others = tuple(
        replace(other, parent=branch.parent) if other.parent == key else other
        for other in state.branches
        if other.key != key
    )
    return drop(replace(state, branches=others), [branch])


def lull(state: PageState, branch: Branch) -> Step:
    """The results of a branch are given back; it stays."""
    asleep = branch.asleep()
    branches = tuple(asleep if other is branch else other for other in state.branches)
    return drop(replace(state, branches=branches), [branch])


def rename(state: PageState, key: str, name: object) -> PageState:
    """What the person calls a branch; an empty name takes that back."""
    branch = state.named(key)
    if branch is None or not isinstance(name, str):
        return state
    return state.with_branch(replace(branch, name=" ".join(name.split())[:MAX_NAME]))


def note(state: PageState, key: str, text: object) -> PageState:
    """What the person writes on a branch."""
    branch = state.named(key)
    if branch is None or not isinstance(text, str):
        return state
    return state.with_branch(replace(branch, note=text.strip()[:MAX_NOTE]))


def drop(state: PageState, branches: list[Branch]) -> Step:
    """Nobody waits for these branches any more."""
    state = state.without_asked(*(int(branch.key) for branch in branches))
    return state, [Forget(int(branch.key), branch.request) for branch in branches]


def retry(state: PageState) -> Step:
    """Once more what failed: the compilation, or the stages of it that are missing."""
    branch = state.branch
    if branch is None or not branch.failed or state.wanted != branch.request:
        return compile_request(state, state.wanted)
    state = state.with_branch(replace(branch, failed=()))
    return ask(replace(state, status="idle", error=None), branch)


def cancel(state: PageState) -> Step:
    """Gives up what is waited for; everything that is there already stays."""
    effects: list[Effect] = []
    state = replace(state, read=None)
    key = next((key for key, request in state.asked.items() if request == state.wanted), None)
    if state.status == "working" and key is not None and _is_to_come(state, key):
        effects.append(Cancel(key, state.asked[key], is_waited_for=True))
        state = state.without_asked(key)
    wanted = state.branch.request if state.branch else state.wanted
    state = replace(state, status="idle", progress=None, following=None, wanted=wanted)
    return state, effects


def _is_to_come(state: PageState, key: int) -> bool:
    branch = state.named(str(key))
    return branch is None or branch.is_asleep


def take_over(state: PageState) -> Step:
    """A new worker makes what branches still lack, the branches that are to come, and what forks
    of the current one need."""
    effects: list[Effect] = []
    current = state.branch
    others = [branch for branch in state.branches if branch is not current]
    for branch in [*others, *([current] if current else [])]:
        if branch.is_bisecting:
            branch = replace(branch, is_bisecting=False)
            state = state.with_branch(branch)
        if branch.pending and not branch.is_asleep:
            state, more = ask(state, branch)
            effects += more
    orders = {order.key for order in (*state.searches, *state.turns)}
    effects += [
        Compile(key, request, may_be_known=not state.is_private(request))
        for key, request in state.asked.items()
        if key not in orders and _is_to_come(state, key)
    ]
    return state, effects + (prepare(current.request) if current else [])


def ask(state: PageState, branch: Branch) -> Step:
    """What a branch lacks is made."""
    key = int(branch.key)
    return state.asking(key, branch.request), [Compile(key, branch.request)]


def prepare(request: CompileRequest) -> list[Effect]:
    """So that forks of a branch begin from what is compiled already."""
    return [] if request.is_trace else [Prepare(request)]


def refuse(state: PageState, reason: str, what: str = "the file was not taken") -> PageState:
    """Says what is not done."""
    return replace(
        state,
        status="failed",
        error=Failure(what, reason, STAYS),
        upload=None,
        refusals=state.refusals + 1,
    )
