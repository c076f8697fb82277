"""What outlives a page and its app, and what damage to its file does: it is said, no more."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from explorer.app import workspaces as module
from explorer.app.catalog import Choice, first_request
from explorer.app.protocol import STAGES, DrawnTrace, SearchProgress
from explorer.app.state.messages import Begun, Compile, Message, Reported, UploadArrived
from explorer.app.state.page_state import PageState
from explorer.app.state.saved import SavedWorkspace, restored, saved_of
from explorer.app.state.step import step
from explorer.app.uploads import Upload
from explorer.app.workspaces import (
    MAGIC,
    MAX_WORKSPACES,
    Workspaces,
    to_bytes,
    workspace_folder,
)
from explorer.files import sealed

CHOICES = (Choice("0", "a.onnx", "/m/a.onnx"), Choice("1", "b.onnx", "/m/b.onnx"))
HEAD = {"label": "", "model": {"name": "a"}, "summary": {"verdict": "equal", "peak": 12}}
NEW = PageState(CHOICES, ("cpu", "opencl"), "cpu", first_request(CHOICES[0], "cpu"))
DRAWN = DrawnTrace(HEAD, {"index": "{}"}, ("fuse",), STAGES)


def after(state: PageState, *messages: Message) -> PageState:
    for message in messages:
        state, _ = step(state, message)
    return state


LEFT = after(
    NEW,
    Begun(None),
    Reported(1, DRAWN),
    {"kind": "fork", "settings": {"target": "opencl", "decisions": {"fuse": False, "k/n": 4}}},
    Reported(2, DRAWN),
    {"kind": "rename", "branch": "2", "name": "no fusion"},
    {"kind": "note", "branch": "2", "note": "two\nlines"},
    {"kind": "search", "kernel": "conv", "candidates": 4, "seconds": 5, "keep": True},
    Reported(3, SearchProgress("done", 4, 4, result={"kernel": "conv", "best": 0.5})),
    {"kind": "open", "model": "1"},
    Reported(4, DRAWN),
    {"kind": "show", "branch": "2"},
    {"kind": "looks", "looks": {"theme": "dark", "dock": 312}},
    {"kind": "place", "place": "pass=4&selection=conv1"},
)


@pytest.fixture
def kept(tmp_path: Path) -> Workspaces:
    return Workspaces(tmp_path / "workspaces")


def written(kept: Workspaces, state: PageState = LEFT) -> Path:
    """The file of a page that was closed."""
    workspace = kept.new()
    workspace.write_soon(state)
    workspace.close()
    (path,) = (kept._folder or Path()).glob("*.workspace")
    return path


def test_a_page_comes_back_with_all_that_was_done_in_it(kept: Workspaces):
    workspace = kept.claim(written(kept).stem)
    assert workspace is not None
    assert workspace.saved is not None
    state, regret = restored(NEW, workspace.saved)
    assert regret == ""
    assert [state.label(b) for b in state.branches] == ["first", "no fusion", "first"]
    assert [b.note for b in state.branches] == ["", "two\nlines", ""]
    assert [b.request for b in state.branches] == [b.request for b in LEFT.branches]
    assert all(branch.is_asleep for branch in state.branches)
    assert state.branches[1].trace.head["summary"] == HEAD["summary"]
    assert [point.words for point in state.points] == [point.words for point in LEFT.points]
    assert (state.looks, state.place) == (LEFT.looks, LEFT.place)
    assert [(s.status, s.result) for s in state.searches] == [("done", LEFT.searches[0].result)]
    # What was looked at is compiled first, and nothing else before somebody looks at it.
    state, todo = step(state, Begun(None))
    assert [effect.key for effect in todo if isinstance(effect, Compile)] == [2]
    state = after(state, Reported(2, DRAWN))
    assert (state.current, state.status) == ("2", "idle")
    undone = after(state, {"kind": "undo"}, {"kind": "undo"})
    assert undone.at == LEFT.at - 2
    assert after(state, {"kind": "open", "model": "1"}).wanted == LEFT.branches[2].request


def test_a_link_is_followed_and_the_branches_are_there(kept: Workspaces):
    state, _ = restored(NEW, saved_of(LEFT))
    state, todo = step(state, Begun({"model": "b.onnx"}))
    assert [effect.key for effect in todo if isinstance(effect, Compile)] == [4]
    assert len(state.branches) == 3


def test_a_model_that_is_not_offered_any_more_is_named():
    only_b = replace(NEW, choices=CHOICES[1:], wanted=first_request(CHOICES[1], "cpu"))
    state, regret = restored(only_b, saved_of(LEFT))
    assert regret == "Not offered any more, and so not open again: a.onnx."
    assert [branch.key for branch in state.branches] == ["4"]
    assert after(state, Begun(None)).wanted.path == "/m/b.onnx"


SENT = Path("/u/upload_1.onnx")


def with_sent(state: PageState) -> PageState:
    """A file was sent and is open."""
    state = after(state, UploadArrived(Upload("mine.onnx", SENT, 1, 1, 5)))
    return after(state, Reported(state.count, DRAWN))


def test_a_file_that_was_sent_comes_back_from_its_folder():
    moved = Path("/elsewhere/upload_1.onnx")
    saved = saved_of(with_sent(LEFT))
    assert saved.file_names == {SENT.name}
    state, regret = restored(NEW, saved, {SENT.name: moved})
    assert regret == ""
    assert [(c.label, c.path) for c in state.choices if c.is_upload] == [("mine.onnx", str(moved))]
    assert [state.full_label(branch) for branch in state.branches][-1] == "mine.onnx: first"
    assert after(state, Begun(None)).wanted.path == str(moved)


def test_a_file_that_was_closed_comes_back_by_undoing_only():
    state = with_sent(LEFT)
    state = after(state, {"kind": "close", "model": state.choices[-1].key})
    state, _ = restored(NEW, saved_of(state), {SENT.name: SENT})
    assert [choice.label for choice in state.choices] == ["a.onnx", "b.onnx"]
    undone = after(state, {"kind": "undo"})
    assert [choice.label for choice in undone.choices] == ["a.onnx", "b.onnx", "mine.onnx"]


def test_values_that_were_given_come_back_with_the_model():
    state = after(LEFT, {"kind": "show", "branch": "1"})
    given = replace(state.branches[0].request, data=("/u/upload_2.npz",))
    state = replace(state, branches=(replace(state.branches[0], request=given),), points=())
    saved = saved_of(state)
    assert saved.file_names == {"upload_2.npz"}
    again, regret = restored(NEW, saved, {"upload_2.npz": Path("/v/upload_2.npz")})
    assert again.branches[0].request.data == ("/v/upload_2.npz",)
    assert regret == ""
    again, regret = restored(NEW, saved)  # other data would be another result
    assert again.branches == ()
    assert "a.onnx" in regret


def test_what_is_served_decides_whether_to_go_on():
    offered = {"/m/a.onnx", "/m/b.onnx"}
    assert saved_of(LEFT).fits(offered)
    assert not saved_of(LEFT).fits({"/m/a.onnx"})
    alone = after(with_sent(LEFT), *({"kind": "close", "model": key} for key in "01"))
    assert saved_of(alone).open_paths == set()
    assert saved_of(alone).fits(offered)
    assert not saved_of(alone).fits({"/m/c.onnx"})


def test_a_file_that_was_sent_is_named_and_does_not_keep_the_rest_from_coming_back():
    saved = saved_of(with_sent(LEFT))
    assert saved.open_paths == {"/m/a.onnx", "/m/b.onnx"}
    state, regret = restored(NEW, saved)
    assert [branch.key for branch in state.branches] == ["1", "2", "4"]
    assert regret == "Not offered any more, and so not open again: mine.onnx."


def test_a_target_that_is_not_served_any_more_drops_its_branches():
    state, regret = restored(replace(NEW, targets=("cpu",)), saved_of(LEFT))
    assert [branch.key for branch in state.branches] == ["1"]
    assert "a.onnx" in regret


def damaged_text(path: Path) -> bytes:
    saved = json.loads(path.read_bytes().split(b"\n", 2)[2])
    saved["branches"][0]["head"] = "[]"
    return sealed(MAGIC, json.dumps(saved).encode())


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda path: path.read_bytes()[:-7], "bytes are changed or missing"),
        (lambda path: path.read_bytes().replace(b"no fusion", b"no fusi\xff"), "changed"),
        (lambda path: b"", "does not begin as a workspace does"),
        (lambda path: b"\x80\x04pickle", "does not begin as a workspace does"),
        (lambda path: MAGIC, "cut off"),
        (lambda path: sealed(MAGIC, b"[]"), "SavedWorkspace"),
        (lambda path: sealed(MAGIC, b"[" * 100_000), "nested too deep"),
        (lambda path: sealed(MAGIC, b'{"target": 3}'), "missing fields"),
    ],
)
def test_a_damaged_file_is_said_and_set_aside(kept: Workspaces, damage, told: str):
    path = written(kept)
    path.write_bytes(damage(path))
    workspace = kept.newest(lambda _: True)
    assert workspace is not None
    assert workspace.saved is None
    assert told in workspace.problem
    aside = path.with_suffix(".workspace.damaged")
    assert str(aside) in workspace.problem
    assert aside.is_file()
    workspace.write_soon(LEFT)
    workspace.close()
    assert module.read_workspace(path) == saved_of(LEFT)


def test_a_file_that_contradicts_itself_restores_nothing(kept: Workspaces):
    path = written(kept)
    path.write_bytes(damaged_text(path))
    with pytest.raises(ValueError, match="has no summary"):
        restored(NEW, module.read_workspace(path))


def test_decisions_that_no_page_would_send_are_not_restored():
    saved = saved_of(LEFT)
    request = replace(saved.branches[1].request, decisions=(("x" * 1000, "1"),))
    branches = (saved.branches[0], replace(saved.branches[1], request=request))
    state, _ = restored(NEW, replace(saved, branches=branches))
    assert [branch.key for branch in state.branches] == ["1"]


def test_a_workspace_has_one_owner_at_a_time(kept: Workspaces):
    name = written(kept).stem
    mine = kept.claim(name)
    assert mine is not None
    assert kept.claim(name) is None
    assert kept.newest(lambda _: True) is None
    assert Workspaces(kept._folder).claim(name) is None
    mine.close()
    assert kept.claim(name) is not None


def test_two_pages_do_not_write_into_one_file(kept: Workspaces):
    one, other = kept.new(), kept.new()
    one.write_soon(LEFT)
    other.write_soon(after(NEW, Begun(None), Reported(1, DRAWN)))
    one.close()
    other.close()
    found = [kept.claim(workspace.name) for workspace in (one, other)]
    counts = [len(w.saved.branches) for w in found if w is not None and w.saved is not None]
    assert counts == [3, 1]


def test_the_newest_that_fits_is_taken(kept: Workspaces):
    old = written(kept)
    os.utime(old, (1, 1))
    workspace = kept.new()
    workspace.write_soon(replace(LEFT, default_target="opencl"))
    workspace.close()

    def is_for_cpu(saved: SavedWorkspace) -> bool:
        return saved.target == "cpu"

    found = kept.newest(is_for_cpu)
    assert found is not None
    assert found.name == old.stem
    assert kept.newest(is_for_cpu) is None


def test_only_so_many_are_kept(kept: Workspaces):
    for _ in range(MAX_WORKSPACES + 3):
        workspace = kept.new()
        workspace.write_soon(LEFT)
        workspace.close()
    assert len(kept._paths()) == MAX_WORKSPACES


def with_files(kept: Workspaces, size_bytes: int, written_at: int) -> Path:
    """The folder with the file of a page that has ended."""
    workspace = kept.new()
    files = workspace.files
    assert files is not None
    files.mkdir()
    (files / "upload_1.onnx").write_bytes(bytes(size_bytes))
    workspace.write_soon(LEFT)
    workspace.close()
    os.utime(files.with_suffix(".workspace"), (written_at, written_at))
    return files


def test_sent_files_stay_within_their_bound_and_the_oldest_go(
    kept: Workspaces, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "MAX_FILES_BYTES", 2500)
    old, newer, newest = (with_files(kept, 1000, at) for at in (1, 2, 3))
    kept.tidy()
    assert not old.exists()
    assert old.with_suffix(".workspace").exists()
    assert newer.exists()
    assert newest.exists()


def test_files_go_with_their_workspace_and_stay_while_it_is_open(kept: Workspaces):
    lost, mine = with_files(kept, 10, 1), with_files(kept, 10, 2)
    workspace = kept.claim(mine.stem)
    assert workspace is not None
    assert workspace.files == mine
    lost.with_suffix(".workspace").unlink()
    kept.tidy()
    assert not lost.exists()
    other = with_files(kept, 10, 3)
    assert kept.clear() == (1, 10)
    assert not other.exists()
    assert mine.exists()


def test_a_name_of_elsewhere_is_no_path(kept: Workspaces, tmp_path: Path):
    (tmp_path / "other.workspace").write_bytes(to_bytes(saved_of(LEFT)))
    assert kept.claim("../other") is None
    assert kept.claim(7) is None


def test_a_folder_that_others_may_write_is_not_used(tmp_path: Path):
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    kept = Workspaces(folder)
    assert "others may write to it" in kept.problem
    workspace = kept.new()
    workspace.write_soon(LEFT)
    workspace.close()
    assert list(folder.iterdir()) == []


def test_the_folder_follows_the_environment():
    assert workspace_folder({"EXPLORER_WORKSPACES": "off"}) is None
    assert workspace_folder({"EXPLORER_WORKSPACES": "/w"}) == Path("/w")
    assert workspace_folder({"XDG_STATE_HOME": "/s"}) == Path("/s/explorer/workspaces")
