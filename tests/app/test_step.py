"""Every message that a page's state knows, as a pure step: no worker, no file, no thread."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from explorer.app.branches import MAX_ACTIVE_BRANCHES, MAX_BRANCHES
from explorer.app.catalog import Choice, first_request
from explorer.app.protocol import (
    READ,
    STAGES,
    Bisection,
    CompileRequest,
    Died,
    DrawnTrace,
    Failure,
    Progressed,
    SearchProgress,
)
from explorer.app.searches import SearchOrder
from explorer.app.state.dialog import OpenDialog
from explorer.app.state.messages import (
    Begun,
    Bisect,
    Cancel,
    Compile,
    Effect,
    Examine,
    FileRefused,
    Forget,
    KeepResult,
    Message,
    ModelExamined,
    Prepare,
    ReceiveUpload,
    RemoveUpload,
    Reported,
    StartSearch,
    StartTiming,
    UploadArrived,
    UploadGrew,
    WorkerReplaced,
)
from explorer.app.state.page_json import session_json
from explorer.app.state.page_state import PageState
from explorer.app.state.step import PAGE_SAYS, step
from explorer.app.uploads import ASKED, VALUES, Upload

CHOICES = (Choice("0", "a.onnx", "/m/a.onnx"), Choice("1", "b.onnx", "/m/b.onnx"))
A = first_request(CHOICES[0], "cpu")
B = first_request(CHOICES[1], "cpu")
FORKED = CompileRequest.deciding(A.path, "cpu", {"fuse": False})
HEAD = {"label": "", "model": {"name": "upload_1"}, "summary": {"verdict": "not-run"}}
NEW = PageState(CHOICES, ("cpu", "opencl"), "cpu", A)
FORK: Message = {"kind": "fork", "settings": {"target": "cpu", "decisions": {"fuse": False}}}
SEARCH: Message = {
    "kind": "search", "kernel": "conv", "candidates": 4, "seconds": 5, "keep": False,
}  # fmt: skip
TURNS: Message = {"kind": "turns", "branches": ["2", "1"]}
ORDER = SearchOrder("conv", 4, 5.0)
UPLOAD = Upload("net.onnx", Path("/u/upload_1.onnx"), 1, 1, 5)


def drawn(stages: int = len(STAGES)) -> DrawnTrace:
    return DrawnTrace(HEAD, {"index": "{}"}, ("fuse",), STAGES[:stages])


def after(state: PageState, *messages: Message) -> PageState:
    for message in messages:
        state, _ = step(state, message)
    return state


OPENED = after(NEW, Begun(None), Reported(1, drawn(1)))
BOTH = after(OPENED, {"kind": "open", "model": "1"}, Reported(2, drawn(1)))


FORM = {"inputs": [["x", "n f32"]], "sizes": [{"name": "n", "size": 16, "where": "axis 0 of x"}]}
ASKED_ABOUT = after(OPENED, {"kind": "examine", "model": "1"}, ModelExamined(B.path, FORM))
AT_EIGHT = CompileRequest.deciding(B.path, "cpu", {"dimensions/n": 8})
MODEL_UPLOAD = Upload("mine.onnx", Path("/tmp/upload_9.onnx"), 1)
LABELS_UPLOAD = Upload("l.txt", Path("/tmp/upload_8.txt"), 1, purpose=VALUES)


def effects(state: PageState, message: Message) -> list[Effect]:
    return step(state, message)[1]


def test_searches_and_measurements_end_with_a_worker_that_did_not_answer():
    search = after(OPENED, SEARCH, WorkerReplaced()).searches[0]
    turns = after(BOTH, TURNS, WorkerReplaced()).turns[0]
    assert not search.is_running and not turns.is_running
    assert after(OPENED, SEARCH, WorkerReplaced()).asked.keys() == OPENED.asked.keys()


READ_FIRST = DrawnTrace(HEAD, {"index": "{}"}, (), (READ,))


def test_a_large_model_is_shown_as_it_was_read_until_it_is_compiled():
    read = after(NEW, Begun(None), Reported(1, READ_FIRST))
    assert read.is_reading and read.shown is not None and read.branch is None
    assert (read.branches, read.points, read.status) == ((), (), "working")
    compiled = after(read, Reported(1, drawn(1)))
    assert not compiled.is_reading and compiled.shown is compiled.branch
    assert compiled.revision > read.revision > 0
    assert len(compiled.points) == 1


def test_another_model_as_it_was_read_gives_way_to_what_is_looked_at():
    asked = after(OPENED, {"kind": "open", "model": "1"})
    read = after(asked, Reported(2, READ_FIRST))
    assert read.shown is not None and read.shown.request == B
    failure = Failure("none", "", "")
    for message in ({"kind": "cancel"}, {"kind": "show", "branch": "1"}, Reported(2, failure)):
        left = after(read, message)
        assert left.shown is not None and left.shown.request == A, message
        assert left.revision > read.revision
    forked = step(read, {"kind": "fork", "settings": {"target": "opencl", "decisions": {}}})
    assert [effect.request.path for effect in forked[1] if isinstance(effect, Compile)] == [B.path]


def test_what_is_read_of_a_model_that_is_compiled_already_is_not_shown():
    read = after(OPENED, FORK, Reported(2, READ_FIRST))
    assert read.shown is read.branch is not None


def test_the_same_state_and_message_give_the_same_result():
    before = repr(OPENED)
    assert step(OPENED, FORK) == step(OPENED, FORK)
    assert repr(OPENED) == before


TO_DO: list[tuple[PageState, Message, list[Effect]]] = [
    (NEW, Begun(None), [Compile(1, A, may_be_known=True)]),
    (NEW, Begun({"model": "b.onnx"}), [Compile(1, B, may_be_known=True)]),
    (OPENED, Begun({"model": "b.onnx"}), []),
    (OPENED, {"kind": "open", "model": "1"}, [Compile(2, B, may_be_known=True)]),
    (OPENED, {"kind": "open", "model": "9"}, []),
    (BOTH, {"kind": "open", "model": "0"}, [Prepare(A)]),
    (BOTH, {"kind": "close", "model": "0"}, [Forget(1, A)]),
    (OPENED, FORK, [Compile(2, FORKED, may_be_known=True)]),
    (OPENED, {"kind": "fork", "settings": {"target": "moon"}}, []),
    (BOTH, {"kind": "show", "branch": "1"}, [Prepare(A)]),
    (BOTH, {"kind": "show", "branch": "2"}, []),
    (BOTH, {"kind": "forget", "branch": "1"}, [Forget(1, A)]),
    (BOTH, {"kind": "forget", "branch": "2"}, []),
    (OPENED, {"kind": "link", "link": {"model": "b.onnx"}},
     [Compile(2, B, may_be_known=True)]),
    (OPENED, {"kind": "bisect"}, [Bisect(1, A)]),
    (OPENED, SEARCH, [StartSearch(2, A, ORDER)]),
    (after(OPENED, SEARCH), {"kind": "cancel search"}, [Cancel(2, A, is_waited_for=False)]),
    (OPENED, {"kind": "cancel search"}, []),
    (BOTH, TURNS, [StartTiming(3, (B, A))]),
    (BOTH, {"kind": "turns", "branches": ["1", "1"]}, []),
    (BOTH, {"kind": "turns", "branches": ["1", "9"]}, []),
    (BOTH, {"kind": "turns", "branches": "12"}, []),
    (after(BOTH, TURNS), TURNS, []),
    (after(BOTH, TURNS), {"kind": "cancel turns"}, [Cancel(3, B, is_waited_for=False)]),
    (after(OPENED, FORK), {"kind": "cancel"}, [Cancel(2, FORKED, is_waited_for=True)]),
    (OPENED, {"kind": "cancel"}, []),
    (OPENED, {"kind": "upload", "part": 0}, [ReceiveUpload({"kind": "upload", "part": 0})]),
    (OPENED, UploadArrived(UPLOAD), [Compile(2, CompileRequest(str(UPLOAD.path), "cpu"))]),
    (OPENED, WorkerReplaced(), [Compile(1, A), Prepare(A)]),
    (after(OPENED, FORK), WorkerReplaced(),
     [Compile(1, A), Compile(2, FORKED, may_be_known=True), Prepare(A)]),
    (after(OPENED, FORK, {"kind": "cancel"}), WorkerReplaced(), [Compile(1, A), Prepare(A)]),
    (after(OPENED, SEARCH), WorkerReplaced(), [Compile(1, A), Prepare(A)]),
    (OPENED, Reported(1, drawn(2)), [KeepResult(A, drawn(2))]),
    (OPENED, Reported(7, drawn(2)), []),
    (after(OPENED, FORK), {"kind": "retry"}, [Compile(3, FORKED, may_be_known=True)]),
    (OPENED, {"kind": "looks", "looks": {"theme": ["dark"]}}, []),
    (OPENED, {"kind": "place", "place": "x" * 9000}, []),
    (OPENED, {"kind": "wake", "branch": "1"}, []),
    (OPENED, {"kind": "undo"}, []),
    (OPENED, {"kind": "redo"}, []),
    (OPENED, {"kind": "go to", "point": 7}, []),
    (OPENED, {"kind": "go to", "point": "0"}, []),
    (OPENED, {"kind": "rename", "branch": "1", "name": 5}, []),
    (OPENED, {"kind": "note", "branch": "9", "note": "n"}, []),
    (OPENED, {"kind": "examine", "model": "1"}, [Examine(2, B.path, "cpu")]),
    (OPENED, {"kind": "examine", "model": "9"}, []),
    (ASKED_ABOUT, {"kind": "examine", "model": "1"}, []),
    (ASKED_ABOUT, {"kind": "open with", "model": "1", "target": "cpu", "sizes": {"n": 8}},
     [Compile(3, AT_EIGHT, may_be_known=True)]),
    (ASKED_ABOUT, {"kind": "open with", "model": "1", "target": "cpu", "sizes": {"n": "8"}}, []),
    (ASKED_ABOUT, {"kind": "open with", "model": "1", "target": "moon", "sizes": {}}, []),
    (ASKED_ABOUT, UploadArrived(replace(MODEL_UPLOAD, purpose=ASKED)),
     [Examine(3, str(MODEL_UPLOAD.path), "cpu")]),
    (OPENED, {"kind": "drop data"}, []),
    (OPENED, {"kind": "run", "code": "import os"}, []),
    (OPENED, {}, []),
]  # fmt: skip


@pytest.mark.parametrize(("state", "message", "expected"), TO_DO)
def test_what_is_to_be_done_after_a_message(
    state: PageState, message: Message, expected: list[Effect]
):
    assert effects(state, message) == expected


TO_SEE: list[tuple[PageState, Message, dict[str, Any]]] = [
    (NEW, Begun(None), {"status": "working", "current": ""}),
    (OPENED, FORK, {"status": "working", "current": "1", "wanted": FORKED}),
    (OPENED, Reported(1, Progressed("fold", 1, 3)), {"progress": Progressed("fold", 1, 3)}),
    (OPENED, Reported(1, drawn(2)), {"revision": OPENED.revision + 1, "status": "idle"}),
    (OPENED, Reported(1, Failure("no", "a.onnx", "Try: x", "profile")),
     {"status": "failed", "error": Failure("no", "a.onnx", "Try: x", "profile")}),
    (OPENED, {"kind": "looks", "looks": {"theme": "dark", "dock": 300}},
     {"looks": {"theme": "dark", "dock": 300}}),
    (OPENED, {"kind": "place", "place": "pass=3"}, {"place": "pass=3"}),
    (OPENED, UploadGrew(UPLOAD), {"upload": UPLOAD}),
    (OPENED, FileRefused("too old"), {"status": "failed", "refusals": 1, "upload": None}),
    (OPENED, {"kind": "refused", "name": "n.onnx"}, {"status": "failed", "refusals": 1}),
    (OPENED, {"kind": "unreadable", "name": "n"}, {"status": "failed", "refusals": 1}),
    (OPENED, {"kind": "too many files", "most": 9}, {"status": "failed", "refusals": 1}),
    (after(OPENED, FileRefused("too old")), {"kind": "dismiss"},
     {"status": "idle", "error": None}),
    (replace(NEW, pair=(A.path, B.path)), {"kind": "paired"}, {"pair": ()}),
    (ASKED_ABOUT, {"kind": "close dialog"},
     {"dialog": OpenDialog("1", B.path, FORM, is_open=False)}),
    (ASKED_ABOUT, UploadArrived(LABELS_UPLOAD),
     {"dialog": OpenDialog("1", B.path, FORM, files=(("l.txt", "/tmp/upload_8.txt"),))}),
    (after(ASKED_ABOUT, UploadArrived(LABELS_UPLOAD)), {"kind": "drop values", "name": "l.txt"},
     {"dialog": OpenDialog("1", B.path, FORM)}),
    (BOTH, {"kind": "close", "model": "1"}, {"current": "1", "wanted": A}),
    (after(OPENED, {"kind": "bisect"}), Reported(1, None), {"status": "idle"}),
]  # fmt: skip


@pytest.mark.parametrize(("state", "message", "shown"), TO_SEE)
def test_what_is_shown_after_a_message(state: PageState, message: Message, shown: dict[str, Any]):
    now = after(state, message)
    assert {name: getattr(now, name) for name in shown} == shown


def test_every_kind_of_a_page_is_tried_above():
    tried = {
        message.get("kind") for _, message, _ in (*TO_DO, *TO_SEE) if isinstance(message, dict)
    }
    assert set(PAGE_SAYS) <= tried


def test_a_bisection_is_of_its_branch():
    found = Bisection("fuse", "add", "op", "x", "fuse/add/op")
    branch = after(OPENED, {"kind": "bisect"}, Reported(1, found)).branch
    assert branch is not None
    assert (branch.bisection, branch.is_bisecting) == (found, False)


def test_a_search_ends_with_what_it_found():
    (search,) = after(OPENED, SEARCH, Reported(2, SearchProgress("done", result=[1]))).searches
    assert (search.status, search.result) == ("done", [1])


def test_a_measurement_in_turns_says_how_far_it_is_and_what_it_found():
    state = after(BOTH, TURNS, Reported(3, SearchProgress(number=2, most=8)))
    assert [turns.session() for turns in state.turns] == [
        {"branches": ["2", "1"], "status": "running", "number": 2, "most": 8, "error": "",
         "result": None}
    ]  # fmt: skip
    state = after(state, Reported(3, SearchProgress("done", result={"rounds": 8})))
    (turns,) = state.turns
    assert (turns.status, turns.most, turns.result) == ("done", 8, {"rounds": 8})
    assert 3 not in state.asked
    # Once more takes the place of the first.
    assert [turns.key for turns in after(state, TURNS).turns] == [4]
    died = after(after(state, TURNS), Reported(0, Died({4: Failure("it ended", "a", "b")})))
    assert [(turns.status, turns.error) for turns in died.turns] == [("failed", "it ended")]


def test_a_worker_that_dies_fails_what_it_was_at_and_is_followed_by_another():
    state = after(OPENED, FORK)
    failure = Failure("it ended", "a.onnx", "Try again.")
    state, todo = step(state, Reported(0, Died({2: failure})))
    assert (state.status, state.error, 2 in state.asked) == ("failed", failure, False)
    assert todo == [Compile(1, A), Prepare(A)]


def test_a_link_opens_what_it_forks_from_first():
    link = {"model": "a.onnx", "settings": {"target": "cpu", "decisions": {"fuse": False}}}
    state, todo = step(NEW, Begun(link))
    assert todo == [Compile(1, A, may_be_known=True)]
    state, todo = step(state, Reported(1, drawn(1)))
    assert todo == [KeepResult(A, drawn(1)), Compile(2, FORKED, may_be_known=True)]
    assert after(state, Reported(2, drawn(1))).current == "2"


def test_an_uploaded_file_is_closed_with_its_bytes_and_is_no_result_of_others():
    state = after(OPENED, UploadArrived(UPLOAD))
    state, todo = step(state, Reported(2, drawn(1)))
    assert todo == []
    assert state.branch is not None
    assert state.branch.trace.head["model"]["name"] == "net"
    state, todo = step(state, {"kind": "close", "model": "upload upload_1"})
    assert todo == [Forget(2, CompileRequest(str(UPLOAD.path), "cpu"))]
    assert state.choices == CHOICES
    again = after(state, {"kind": "undo"})
    assert [choice.label for choice in again.choices] == ["a.onnx", "b.onnx", "net.onnx"]
    # The next file takes its place, and only then it is gone.
    state, todo = step(state, {"kind": "upload", "part": 0})
    assert RemoveUpload(UPLOAD.path) in todo
    assert "2" not in [branch.key for point in state.points for branch in point.branches]


def forked(state: PageState, name: str) -> PageState:
    settings = {"target": "cpu", "decisions": {name: False}}
    state = after(state, {"kind": "fork", "settings": settings})
    return after(state, Reported(state.count, drawn(1)))


def test_of_many_branches_the_oldest_but_the_first_fall_asleep_and_wake_when_looked_at():
    state = OPENED
    for number in range(MAX_ACTIVE_BRANCHES):
        state = forked(state, f"pass{number}")
    assert [branch.key for branch in state.branches if branch.is_asleep] == ["2"]
    asleep = state.named("2")
    assert asleep is not None
    assert state.label(asleep) == "without pass0"
    state, todo = step(state, {"kind": "show", "branch": "2"})
    assert todo == [Compile(2, asleep.request, may_be_known=True)]
    assert (state.status, state.current) == ("working", str(MAX_ACTIVE_BRANCHES + 1))
    state = after(state, Reported(2, drawn(1)))
    assert (state.status, state.current) == ("idle", "2")
    assert [branch.key for branch in state.branches if branch.is_asleep] == ["3"]


def test_a_page_has_so_many_branches_and_no_more():
    state = OPENED
    for number in range(MAX_BRANCHES):
        state = forked(state, f"pass{number}")
    assert len(state.branches) == MAX_BRANCHES
    assert state.error is not None
    assert "delete some" in state.error.where


def test_one_model_too_many_is_refused():
    more = tuple(Choice(f"m{i}", f"m{i}.onnx", f"/m{i}.onnx") for i in range(9))
    state = replace(OPENED, choices=(*CHOICES, *more))
    for choice in more:
        state = after(state, {"kind": "open", "model": choice.key})
        state = after(state, Reported(state.count, drawn(1)))
    assert len(state.open_paths) == 8
    assert state.error is not None
    assert state.error.what == "too many models are open"


def test_two_models_of_the_start_are_opened_one_after_the_other():
    alone = Begun(None)
    state, effects = step(replace(NEW, pair=(A.path, B.path)), alone)
    assert [effect.request for effect in effects if isinstance(effect, Compile)] == [A]
    state, effects = step(state, Reported(state.count, DrawnTrace(HEAD, {}, (), ())))
    assert state.branch is not None and state.branch.request == A  # shown while the other is made
    assert [effect.request for effect in effects if isinstance(effect, Compile)] == [B]
    state, _ = step(state, Reported(state.count, DrawnTrace(HEAD, {}, (), ())))
    assert state.branch is not None and state.branch.request == B
    assert session_json(state)["pair"] == ["0", "1"]
    state, _ = step(state, {"kind": "paired"})  # once: a page that is loaded again is as it was
    assert session_json(state)["pair"] == []


def test_a_link_and_another_model_come_before_the_second_of_two():
    paired = replace(NEW, pair=(A.path, B.path))
    state, _ = step(paired, Begun({"model": "a.onnx"}))
    assert (state.pair, state.following) == ((), None)
    state, _ = step(paired, Begun(None))
    failed = Failure("no such operator", "", "")
    after, effects = step(state, Reported(state.count, failed))
    assert after.following is None and not any(isinstance(e, Compile) for e in effects)


def test_a_branch_is_pending_while_numbers_of_it_are_on_their_way():
    def pending(state: PageState) -> list[bool]:
        return [branch["isPending"] for branch in session_json(state)["branches"]]

    begun, _ = step(NEW, Begun(None))
    half, _ = step(begun, Reported(1, DrawnTrace(HEAD, {}, (), STAGES[:2])))
    assert pending(half) == [True]
    whole, _ = step(half, Reported(1, DrawnTrace(HEAD, {}, (), STAGES)))
    assert pending(whole) == [False]
    failed = replace(half.branches[0], failed=STAGES[2:])
    assert pending(replace(half, branches=(failed,))) == [False], "nothing comes of it"
    slept = replace(half, branches=(half.branches[0].asleep(),))
    assert pending(slept) == [False], "it waits until somebody looks at it"
