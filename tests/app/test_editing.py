"""IR that is edited in the page: compiled from there on, kept, and refused with its line."""

from dataclasses import replace
from pathlib import Path

import pytest

from explorer.app.catalog import Choice, first_request
from explorer.app.protocol import STAGES, CompileRequest, DrawnTrace, SaveOrder, failure_of
from explorer.app.state.messages import (
    Begun,
    Compile,
    Message,
    RemoveUpload,
    Reported,
    UploadArrived,
)
from explorer.app.state.page_state import PageState
from explorer.app.state.saved import restored, saved_of
from explorer.app.state.saving import save_order
from explorer.app.state.step import step
from explorer.app.uploads import EDIT, Upload
from explorer.app.worker.compiler import ModelCompiler
from explorer.errors import TextError

PASSES = ("import", "fuse-bias", "fuse-activation", "plan-memory")
HEAD = {
    "label": "",
    "model": {"name": "a"},
    "summary": {"verdict": "equal"},
    "passes": [{"name": name} for name in PASSES],
}
DRAWN = DrawnTrace(HEAD, {}, ("fuse-bias", "fuse-activation"), STAGES)
CHOICES = (Choice("0", "a.onnx", "/m/a.onnx"),)
NEW = PageState(CHOICES, ("cpu",), "cpu", first_request(CHOICES[0], "cpu"))
FILE = Path("/u/upload_1.mlir")
EDITED = replace(NEW.wanted, edit=("fuse-bias", str(FILE)))


def after(state: PageState, *messages: Message) -> PageState:
    for message in messages:
        state, _ = step(state, message)
    return state


def sent(name: str) -> UploadArrived:
    return UploadArrived(Upload(name, FILE, 1, 1, 5, EDIT))


OPENED = after(NEW, Begun(None), Reported(1, DRAWN))


def test_edited_text_becomes_a_branch_of_what_is_looked_at():
    state, effects = step(OPENED, sent("fuse-bias.mlir"))
    assert effects == [Compile(2, EDITED, may_be_known=False)]
    state = after(state, Reported(2, DRAWN))
    assert [state.label(branch) for branch in state.branches] == ["first", "edited after fuse-bias"]
    assert state.branches[1].parent == "1"


@pytest.mark.parametrize("name", ["fuse-bais.mlir", "../x.mlir", ".mlir"])
def test_text_of_a_pass_that_there_is_not_is_removed(name: str):
    state, effects = step(OPENED, sent(name))
    assert effects == [RemoveUpload(FILE)]
    assert state.error is not None
    assert "is no pass of this branch" in state.error.where


def test_a_fork_of_an_edited_branch_decides_what_comes_behind_it():
    edited = after(OPENED, sent("fuse-bias.mlir"), Reported(2, DRAWN))
    fork = {"kind": "fork", "settings": {"target": "cpu", "decisions": {"fuse-activation": False}}}
    _, effects = step(edited, fork)
    (effect,) = [effect for effect in effects if isinstance(effect, Compile)]
    assert effect.request.edit == EDITED.edit
    fork["settings"] = {"target": "cpu", "decisions": {"fuse-bias/rule/conv1": False}}
    state, effects = step(edited, fork)
    assert effects == []
    assert state.error is not None
    assert "fuse-bias/rule/conv1 is decided before the text that was edited" in state.error.where


def test_an_edited_branch_comes_back_with_its_file_only():
    edited = after(OPENED, sent("fuse-bias.mlir"), Reported(2, DRAWN))
    saved = saved_of(edited)
    assert saved.file_names == {FILE.name}
    state, regret = restored(NEW, saved, {FILE.name: FILE})
    assert [branch.request for branch in state.branches] == [NEW.wanted, EDITED]
    assert regret == ""
    state, _ = restored(NEW, saved)
    assert [branch.request for branch in state.branches] == [NEW.wanted]


def test_a_page_that_is_loaded_again_stays_with_the_edited_branch():
    state, _ = restored(NEW, saved_of(after(OPENED, sent("fuse-bias.mlir"), Reported(2, DRAWN))),
                        {FILE.name: FILE})  # fmt: skip
    link = {"model": "a.onnx", "settings": {"target": "cpu", "decisions": {}}}
    assert after(state, Begun(link)).wanted == EDITED


def test_only_text_of_a_pass_is_given_out():
    ordered = save_order(OPENED, {"what": "ir", "after": "fuse-bias"})
    assert ordered is not None
    assert ordered[1].after == "fuse-bias"
    assert save_order(OPENED, {"what": "ir", "after": "/etc/passwd"}) is None
    assert save_order(OPENED, {"what": "ir"}) is None


MODEL = "sample_models/digits_mlp.onnx"


def quiet(name: str, index: int, total: int) -> None:
    pass


def text_after(compiler: ModelCompiler, name: str) -> str:
    import base64

    order = SaveOrder(what="ir", form="csv", stages=(), name="", after=name)
    saved = compiler.saved(CompileRequest(MODEL, "cpu"), order, quiet)
    assert saved.name == f"{name}.mlir"
    return base64.b64decode(saved.content).decode()


@pytest.fixture(scope="module")
def compiler() -> ModelCompiler:
    return ModelCompiler()


def test_the_passes_behind_run_on_the_text(compiler: ModelCompiler, tmp_path: Path):
    text = text_after(compiler, "fuse-activation")
    file = tmp_path / "upload_1.mlir"
    file.write_text(text.replace('"relu"', '"tanh"'), encoding="utf-8")
    request = CompileRequest(MODEL, "cpu", edit=("fuse-activation", str(file)))
    trace = compiler.stage(request, "passes", quiet)
    lines = "\n".join(trace.snapshots[-1].text.lines)
    assert "tanh" in lines
    assert trace.label == "edited after fuse-activation"
    decided = replace(request, decisions=(("schedule-loops/matmul_1/epilogue", '"separate"'),))
    assert compiler.stage(decided, "passes", quiet).label.endswith("edited after fuse-activation")


def test_a_mistake_is_told_with_its_line(compiler: ModelCompiler, tmp_path: Path):
    lines = text_after(compiler, "fuse-activation").splitlines()
    wrong = next(index for index, line in enumerate(lines) if "top.matmul" in line)
    lines[wrong] = lines[wrong].replace("top.matmul", "top.matmull")
    file = tmp_path / "upload_1.mlir"
    file.write_text("\n".join(lines), encoding="utf-8")
    request = CompileRequest(MODEL, "cpu", edit=("fuse-activation", str(file)))
    with pytest.raises(TextError) as raised:
        compiler.stage(request, "passes", quiet)
    failure = failure_of(raised.value, request)
    assert failure.line == wrong + 1
    assert failure.what == "not valid IR: Operation top.matmull is not registered"
    assert failure.where.startswith(f"line {wrong + 1}, column ")


def test_what_is_no_text_is_refused(compiler: ModelCompiler, tmp_path: Path):
    file = tmp_path / "upload_1.mlir"
    file.write_bytes(b"\xff\xfe")
    request = CompileRequest(MODEL, "cpu", edit=("fuse-activation", str(file)))
    with pytest.raises(Exception, match="no UTF-8"):
        compiler.stage(request, "passes", quiet)
