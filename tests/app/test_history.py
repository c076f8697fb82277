"""Undo and redo, as pure steps: every action can be taken back, and nothing is lost by that."""

import pytest

from explorer.app.catalog import Choice, first_request
from explorer.app.protocol import STAGES, DrawnTrace
from explorer.app.state.history import MAX_POINTS
from explorer.app.state.messages import Begun, Compile, Message, Reported
from explorer.app.state.page_state import PageState
from explorer.app.state.step import step

CHOICES = (Choice("0", "a.onnx", "/m/a.onnx"), Choice("1", "b.onnx", "/m/b.onnx"))
HEAD = {"label": "", "model": {"name": "a"}, "summary": {"verdict": "not-run"}}


def drawn(stages: int) -> DrawnTrace:
    return DrawnTrace(HEAD, {"index": "{}"}, ("fuse",), STAGES[:stages])


def after(state: PageState, *messages: Message) -> PageState:
    for message in messages:
        state, _ = step(state, message)
    return state


def forked(state: PageState, name: str) -> PageState:
    settings = {"target": "cpu", "decisions": {name: False}}
    state = after(state, {"kind": "fork", "settings": settings})
    return after(state, Reported(state.count, drawn(1)))


NEW = PageState(CHOICES, ("cpu",), "cpu", first_request(CHOICES[0], "cpu"))
OPENED = after(NEW, Begun(None), Reported(1, drawn(1)))
UNDO, REDO = {"kind": "undo"}, {"kind": "redo"}


def words(state: PageState) -> list[str]:
    return [point.words for point in state.points]


def labels(state: PageState) -> list[str]:
    return [state.label(branch) for branch in state.branches]


def test_every_action_leaves_a_point_in_words():
    state = forked(OPENED, "fuse")
    state = after(
        state,
        {"kind": "rename", "branch": "2", "name": "  no   fusion "},
        {"kind": "note", "branch": "2", "note": "slower"},
        {"kind": "show", "branch": "1"},
        {"kind": "forget", "branch": "2"},
        {"kind": "open", "model": "1"},
    )
    state = after(state, Reported(state.count, drawn(1)), {"kind": "close", "model": "1"})
    assert words(state) == [
        "opened a.onnx",
        "forked without fuse",
        "renamed without fuse to no fusion",
        "noted on no fusion",
        "looked at first",
        "deleted no fusion",
        "opened b.onnx",
        "closed b.onnx",
    ]
    assert state.at == 7


def test_a_fork_is_undone_and_redone():
    state = forked(OPENED, "fuse")
    undone, todo = step(state, UNDO)
    assert (labels(undone), undone.current, undone.at) == (["first"], "1", 0)
    redone, todo = step(undone, REDO)
    assert todo == [Compile(2, state.branches[1].request, may_be_known=True)]
    assert redone.status == "working"
    redone = after(redone, Reported(2, drawn(1)))
    assert (labels(redone), redone.current) == (["first", "without fuse"], "2")
    assert words(redone) == words(state)


def test_a_deleted_branch_comes_back_with_its_name_its_note_and_its_place_in_the_tree():
    state = forked(forked(OPENED, "fuse"), "fold")
    state = after(
        state,
        {"kind": "rename", "branch": "2", "name": "mine"},
        {"kind": "note", "branch": "2", "note": "why"},
        {"kind": "forget", "branch": "2"},
    )
    assert [branch.parent for branch in state.branches] == ["", "1"]
    state = after(state, UNDO)
    assert [(b.name, b.note, b.parent) for b in state.branches] == [
        ("", "", ""), ("mine", "why", "1"), ("", "", "2"),
    ]  # fmt: skip
    assert state.branches[1].is_asleep
    assert state.current == "3"


def test_a_closed_model_comes_back_with_its_branches():
    state = forked(OPENED, "fuse")
    state = after(state, {"kind": "close", "model": "0"})
    assert state.branches == ()
    state, todo = step(state, UNDO)
    assert labels(state) == ["first", "without fuse"]
    assert [effect.key for effect in todo if isinstance(effect, Compile)] == [2]
    assert after(state, Reported(2, drawn(1))).current == "2"


def test_an_action_after_an_undo_takes_the_place_of_what_was_undone():
    state = after(forked(OPENED, "fuse"), UNDO)
    state = forked(state, "fold")
    assert words(state) == ["opened a.onnx", "forked without fold"]
    assert after(state, REDO) == state


def test_any_point_is_gone_to_and_the_rest_stays():
    state = forked(forked(OPENED, "fuse"), "fold")
    state = after(state, {"kind": "go to", "point": 0})
    assert (labels(state), len(state.points)) == (["first"], 3)
    state = after(state, {"kind": "go to", "point": 1}, Reported(2, drawn(1)))
    assert (labels(state), state.current) == (["first", "without fuse"], "2")


def test_undo_gives_up_what_is_waited_for():
    settings = {"target": "cpu", "decisions": {"fuse": False}}
    state = after(OPENED, {"kind": "fork", "settings": settings})
    state = after(state, UNDO)
    assert (state.status, state.at) == ("idle", 0)
    assert labels(state) == ["first"]


def test_looks_in_a_row_are_one_point():
    state = forked(OPENED, "fuse")
    for branch in ("1", "2", "1"):
        state = after(state, {"kind": "show", "branch": branch})
    assert words(state)[2:] == ["looked at first"]


def test_more_known_of_a_branch_is_kept_over_an_undo():
    state = after(forked(OPENED, "fuse"), Reported(1, drawn(4)), UNDO)
    assert state.branches[0].trace.stages == drawn(4).stages


@pytest.mark.parametrize("text", ["x" * 1000, " "])
def test_a_name_has_bounds_and_an_empty_one_is_none(text: str):
    state = after(OPENED, {"kind": "rename", "branch": "1", "name": text})
    assert len(state.branches[0].name) in (0, 120)


def test_points_have_a_bound():
    state = OPENED
    for number in range(MAX_POINTS + 5):
        state = after(state, {"kind": "rename", "branch": "1", "name": f"name {number}"})
    assert len(state.points) == MAX_POINTS
    assert state.at == MAX_POINTS - 1


def test_points_hold_no_results():
    state = forked(OPENED, "fuse")
    heads = [branch.trace.head for point in state.points for branch in point.branches]
    assert heads == [{"label": "", "summary": HEAD["summary"], "passes": []}] * 3
