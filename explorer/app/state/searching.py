"""Bisections, and searches for schedules, of the branch that is looked at."""

from __future__ import annotations

from dataclasses import replace

from explorer.app.protocol import Bisection, SearchProgress
from explorer.app.searches import Search, SearchOrder, with_search
from explorer.app.state.compiling import Step
from explorer.app.state.messages import Bisect, Cancel, StartSearch
from explorer.app.state.page_state import PageState


def bisect(state: PageState) -> Step:
    """Looks for the first rewrite that is wrong; once at a time."""
    branch = state.branch
    if branch is None or branch.is_bisecting or branch.request.is_trace:
        return state, []
    key = int(branch.key)
    state = state.with_branch(replace(branch, is_bisecting=True)).asking(key, branch.request)
    return state, [Bisect(key, branch.request)]


def bisected(state: PageState, key: int, found: Bisection | None) -> PageState:
    branch = state.named(str(key))
    if branch is None:
        return state
    return state.with_branch(replace(branch, bisection=found, is_bisecting=False))


def search(state: PageState, order: SearchOrder | None) -> Step:
    """Searches the schedule of a kernel of the branch that is looked at; one at a time."""
    branch = state.branch
    if order is None or branch is None or branch.request.is_trace:
        return state, []
    if any(other.is_running for other in state.searches):
        return state, []
    begun = Search(state.count + 1, branch.request, order)
    state = replace(state, count=begun.key, searches=with_search(state.searches, begun))
    state = state.asking(begun.key, branch.request)
    return state, [StartSearch(begun.key, branch.request, order)]


def cancel_search(state: PageState) -> Step:
    running = [search for search in state.searches if search.is_running]
    return state, [Cancel(s.key, s.request, is_waited_for=False) for s in running]


def searched(state: PageState, key: int, found: SearchProgress) -> PageState:
    """More is known of a search."""
    search = next((search for search in state.searches if search.key == key), None)
    if search is None:
        return state
    if found.status != "running":
        state = state.without_asked(key)
    return replace(state, searches=with_search(state.searches, search.after(found)))
