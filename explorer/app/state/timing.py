"""Measurements of branches in turns."""

from __future__ import annotations

from dataclasses import replace

from explorer.app.branches import MAX_COMPARED
from explorer.app.interleaved_timing import TimingOrder, with_timing
from explorer.app.protocol import SearchProgress
from explorer.app.state.compiling import Step
from explorer.app.state.messages import Cancel, StartTiming
from explorer.app.state.page_state import PageState


def start_timing(state: PageState, keys: object) -> Step:
    """Times branches of one page in turns, the base of the others first; one at a time."""
    if not isinstance(keys, list) or any(turns.is_running for turns in state.turns):
        return state, []
    branches = [state.named(str(key)) for key in dict.fromkeys(map(str, keys))]
    known = [b for b in branches if b is not None and not b.request.is_trace and not b.is_asleep]
    if len(known) != len(branches) or not 2 <= len(known) <= MAX_COMPARED:
        return state, []
    names = tuple(branch.key for branch in known)
    begun = TimingOrder(state.count + 1, names, known[0].request)
    state = replace(state, count=begun.key, turns=with_timing(state.turns, begun))
    state = state.asking(begun.key, begun.request)
    return state, [StartTiming(begun.key, tuple(branch.request for branch in known))]


def cancel_timing(state: PageState) -> Step:
    running = [turns for turns in state.turns if turns.is_running]
    return state, [Cancel(t.key, t.request, is_waited_for=False) for t in running]


def timed(state: PageState, key: int, found: SearchProgress) -> PageState:
    """More is known of a measurement in turns; nothing where the key is not one's."""
    turns = next((turns for turns in state.turns if turns.key == key), None)
    if turns is None:
        return state
    if found.status != "running":
        state = state.without_asked(key)
    return replace(state, turns=with_timing(state.turns, turns.after(found)))
