"""Data that are attached to the models of a page, as pure steps."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from explorer import load, sample
from explorer.app.branches import Branch
from explorer.app.catalog import Choice, first_request
from explorer.app.decisions import request_of, settings_of
from explorer.app.forks import is_parent
from explorer.app.protocol import (
    COMPLETE,
    JUDGED,
    STAGES,
    CompileRequest,
    DrawnTrace,
    Failure,
    failure_of,
)
from explorer.app.state.compiling import compile_request
from explorer.app.state.data import joined
from explorer.app.state.messages import (
    Compile,
    Forget,
    Judge,
    Message,
    RemoveUpload,
    Reported,
    ShowSweep,
    UploadArrived,
)
from explorer.app.state.page_json import session_json
from explorer.app.state.page_state import PageState, name_of_data
from explorer.app.state.saved import restored, saved_of
from explorer.app.state.step import step
from explorer.app.uploads import SWEEP, VALUES, Upload
from explorer.app.worker.calibrating import named_inputs, with_calibration
from explorer.app.worker.compiler import ModelCompiler
from explorer.errors import NotQuantizedError
from explorer.results.levers import LeverRecord, LeversRecord
from explorer.views.payload.model import problems_payload

A = Choice("0", "a.onnx", "/m/a.onnx")
REQUEST = first_request(A, "cpu")
HEAD = {"label": "", "model": {"name": "a"}, "summary": {"verdict": "equal"}, "passes": []}
DRAWN = DrawnTrace(HEAD, {}, stages=STAGES)
FORKED = CompileRequest.deciding(A.path, "cpu", {"fuse": False})
BRANCHES = (Branch("1", REQUEST, DRAWN), Branch("2", FORKED, DRAWN, parent="1"))
OPENED = PageState((A,), ("cpu",), "cpu", REQUEST, branches=BRANCHES, current="1", count=2)
ON_EVAL = replace(REQUEST, data=("/u/upload_1.npz",), data_name="eval.npz")


def sent(name: str, number: int, more: bool = False) -> Upload:
    path = Path(f"/u/upload_{number}{Path(name).suffix}")
    return Upload(name, path, parts=1, received=1, purpose=VALUES, more=more)


def after(state: PageState, *messages: Message) -> PageState:
    for message in messages:
        state, _ = step(state, message)
    return state


def test_data_are_those_of_all_branches_and_only_the_one_on_the_screen_is_measured_again():
    now, effects = step(OPENED, UploadArrived(sent("eval.npz", 1)))
    assert effects == [Judge(1, ON_EVAL), Forget(2, FORKED)]
    assert [branch.request.data_name for branch in now.branches] == ["eval.npz"] * 2
    assert [branch.is_asleep for branch in now.branches] == [False, True]
    assert set(now.branches[0].pending) == set(JUDGED)


def test_what_was_measured_stays_until_the_same_is_measured_on_the_data():
    now = after(OPENED, UploadArrived(sent("eval.npz", 1)))
    assert now.branches[0].trace.head is HEAD
    # Passes of a worker that begins again are no news, the comparison is.
    early = DrawnTrace({**HEAD, "label": "early"}, {}, stages=STAGES[:2])
    assert after(now, Reported(1, early)).branches[0].trace.head is HEAD
    measured = DrawnTrace({**HEAD, "label": "new"}, {}, stages=STAGES)
    assert after(now, Reported(1, measured)).branches[0].trace.head["label"] == "new"


def test_a_fork_has_the_data_and_no_other_model_has_them():
    now = after(OPENED, UploadArrived(sent("eval.npz", 1)))
    _, effects = compile_request(now, CompileRequest.deciding(A.path, "cpu", {"fold": False}))
    assert [e.request.data for e in effects if isinstance(e, Compile)] == [("/u/upload_1.npz",)]
    _, effects = compile_request(now, CompileRequest("/m/b.onnx", "cpu"))
    assert [e.request.data for e in effects if isinstance(e, Compile)] == [()]


def test_data_are_taken_back():
    now = after(OPENED, UploadArrived(sent("eval.npz", 1)))
    back, effects = step(now, {"kind": "drop data"})
    assert effects == [RemoveUpload(Path("/u/upload_1.npz")), Judge(1, REQUEST)]
    assert back.data == {}
    assert step(back, {"kind": "drop data"}) == (back, [])


@pytest.mark.parametrize(("stage", "stays"), [("accuracy", False), ("passes", True)])
def test_what_failed_on_other_data_is_said_no_longer(stage: str, stays: bool):
    refused = Failure("20 labels for 32 examples", "a.onnx", "one for each", stage)
    now = after(OPENED, UploadArrived(sent("few.npz", 1)), Reported(1, refused))
    assert now.status == "failed"
    now = after(now, UploadArrived(sent("eval.npz", 2)))
    assert (now.error == refused, now.status) == (stays, "failed" if stays else "idle")


def test_labels_wait_for_what_they_are_of():
    now, effects = step(OPENED, UploadArrived(sent("labels.txt", 1)))
    assert now.branches[0].request.data == ()
    now, effects = step(now, UploadArrived(sent("eval.npz", 2)))
    assert effects[0] == Judge(1, now.branches[0].request)
    assert now.branches[0].request.data_name == "labels.txt and eval.npz"


def test_files_that_are_sent_together_are_measured_once():
    images = [sent("a.png", 1, more=True), sent("b.png", 2, more=True), sent("c.png", 3)]
    now = after(OPENED, *map(UploadArrived, images[:2]))
    assert not now.data
    now, effects = step(now, UploadArrived(images[2]))
    assert [type(effect) for effect in effects] == [Judge, Forget]
    assert now.branches[0].request.data_name == "3 files, the first a.png"
    # Other images take their place.
    again = after(now, UploadArrived(sent("d.png", 4)))
    assert again.branches[0].request.data_name == "d.png"


@pytest.mark.parametrize(
    ("files", "name", "expected"),
    [
        ((), "x.npz", ("x.npz",)),
        (("a.npz",), "x.npz", ("x.npz",)),
        (("a.npz", "l.txt"), "x.npz", ("l.txt", "x.npz")),
        (("a.npz", "l.txt"), "m.csv", ("a.npz", "m.csv")),
        (("a.png",), "b.jpg", ("a.png", "b.jpg")),
        (("a.png", "l.txt"), "x.npz", ("l.txt", "x.npz")),
    ],
)
def test_which_files_stay_beside_another(
    files: tuple[str, ...], name: str, expected: tuple[str, ...]
):
    pairs = tuple((file, f"/u/{file}") for file in files)
    assert tuple(file for file, _ in joined(pairs, (name, f"/u/{name}"))) == expected


def test_data_without_a_model_are_refused():
    bare = PageState((A,), ("cpu",), "cpu", REQUEST)
    now, effects = step(bare, UploadArrived(sent("eval.npz", 1)))
    assert now.error is not None
    assert "open the model" in now.error.where
    assert effects == [RemoveUpload(Path("/u/upload_1.npz"))]


def test_more_files_than_are_taken_are_refused_as_a_whole():
    now = after(OPENED, {"kind": "too many files", "most": 500})
    assert now.error is not None
    assert "500" in now.error.where
    assert now.branches == OPENED.branches


def test_data_are_kept_with_the_workspace():
    now = after(OPENED, UploadArrived(sent("eval.npz", 1)))
    saved = saved_of(now)
    assert "upload_1.npz" in saved.file_names
    again, regret = restored(
        replace(OPENED, branches=()), saved, {"upload_1.npz": Path("/n/1.npz")}
    )
    assert regret == ""
    assert again.data == {A.path: (("eval.npz", "/n/1.npz"),)}
    assert again.judged(REQUEST).data == ("/n/1.npz",)
    assert [branch.request.data for branch in again.branches] == [("/n/1.npz",)] * 2


def test_data_have_the_names_of_the_person():
    assert name_of_data([]) == ""
    assert name_of_data(["x.npz", "y.txt"]) == "x.npz and y.txt"
    assert name_of_data(["1.png", "2.png", "3.png"]) == "3 files, the first 1.png"


def test_edits_of_the_model_are_a_part_of_the_request_and_of_its_settings():
    request = replace(FORKED, model_edits=("delete drop",))
    assert request_of(settings_of(request), A.path, ("cpu",)) == request
    assert request.label == "delete drop, without fuse"
    assert request.base == replace(REQUEST, model_edits=("delete drop",))
    assert not is_parent(REQUEST, request)  # another model
    assert is_parent(request.base, request)
    for edits in ("delete a", [7], ["x"] * 51, ["x" * 4001]):
        assert request_of({**settings_of(REQUEST), "edits": edits}, A.path, ("cpu",)) is None


def test_a_branch_says_what_it_decides_otherwise_than_its_parent():
    edited = replace(FORKED, model_edits=("delete drop",), target="opencl")
    state = replace(OPENED, branches=(*BRANCHES, Branch("3", edited, DRAWN, parent="2")))
    differs = [branch["differs"] for branch in session_json(state)["branches"]]
    assert differs == ["", "without fuse", "for opencl, delete drop"]
    back = replace(state, branches=(*state.branches, Branch("4", FORKED, DRAWN, parent="3")))
    assert session_json(back)["branches"][-1]["differs"] == "for cpu, without delete drop"


def test_a_calibration_keeps_the_data_that_it_was_made_with():
    quantized = {**settings_of(REQUEST), "quantize": "mse"}
    now = after(OPENED, UploadArrived(sent("eval.npz", 1)))
    now, effects = step(now, {"kind": "fork", "settings": quantized})
    (asked,) = [effect.request for effect in effects if isinstance(effect, Compile)]
    assert asked.quantize == ("mse", "/u/upload_1.npz")
    assert settings_of(asked)["quantize"] == "mse"
    assert asked.label == "quantized by mse"
    assert not is_parent(ON_EVAL, asked)  # other passes from the quantization on
    now = after(now, Reported(3, DRAWN), UploadArrived(sent("other.npz", 2)))
    branch = now.named("3")
    assert branch is not None
    assert branch.request.quantize == ("mse", "/u/upload_1.npz")
    assert branch.request.data == ("/u/upload_2.npz",)
    assert "upload_1.npz" in saved_of(now).file_names
    # A fork of it has the same table, and its file is not removed.
    forked = {**settings_of(branch.request), "decisions": {"fuse": False}}
    _, effects = step(
        after(now, {"kind": "show", "branch": "3"}), {"kind": "fork", "settings": forked}
    )
    (again,) = [effect.request for effect in effects if isinstance(effect, Compile)]
    assert again.quantize == branch.request.quantize


def test_methods_that_the_page_does_not_offer_are_no_request():
    for method in ("moon", 7, ["mse"]):
        settings = {**settings_of(REQUEST), "quantize": method}
        assert request_of(settings, A.path, ("cpu",)) is None
    plain = {**settings_of(REQUEST), "quantize": ""}
    assert request_of(plain, A.path, ("cpu",)) == REQUEST


def test_calibration_is_offered_where_there_are_data():
    lever = LeverRecord(
        address="", group="calibration", of="", title="quantize this model", value=None
    )
    record = LeversRecord(
        quantity="sqnr_db",
        value=None,
        value_source="",
        levers=(lever, replace(lever, group="pass")),
    )
    offered, other = with_calibration(record).levers
    assert [option.decisions for option in offered.options] == [
        (("quantize", "mse"),), (("quantize", "best"),),
    ]  # fmt: skip
    assert other.options == ()


def test_the_only_array_is_calibrated_under_the_name_of_the_only_input():
    model = load(sample("digits_mlp"))
    array = np.zeros((2, 1, 8, 8), np.float32)
    assert list(named_inputs({"images": array}, model)) == ["image"]
    assert list(named_inputs({"image": array}, model)) == ["image"]
    assert list(named_inputs({"images": array, "more": array}, model)) == ["images", "more"]
    assert named_inputs({}, model) == {}


@pytest.mark.parametrize("name", ["digits_mlp", "digits_cnn"])
def test_a_target_without_floats_says_that_the_model_needs_quantization(name: str):
    request = CompileRequest(str(sample(name)), "tiny-8")
    trace = ModelCompiler().stage(request, "passes", lambda name, index, total: None)
    assert trace.needs_quantization and not trace.passes
    assert problems_payload(trace)["quantize"]
    other = request.deciding(request.path, "tiny-8", {"fold-constants": False})
    with pytest.raises(NotQuantizedError) as caught:
        ModelCompiler().stage(other, "passes", lambda name, index, total: None)
    assert failure_of(caught.value, other).remedy == ("quantize", "")


def test_steps_of_a_calibration_are_not_those_of_compiling(tmp_path):
    np.savez(tmp_path / "few.npz", image=np.load(sample("digits_test"))["images"][:2])
    request = CompileRequest(
        str(sample("digits_mlp")), "cpu", quantize=("mse", str(tmp_path / "few.npz"))
    )
    ran: list[str] = []
    ModelCompiler().stage(request, "passes", lambda name, index, total: ran.append(name))
    first = next(name for name in ran if name.startswith("compiling: "))
    assert any(name.startswith("calibrating: ") for name in ran[: ran.index(first)])


def test_a_failure_names_the_file_as_the_person_does():
    state = after(OPENED, UploadArrived(sent("broken.png", 7)))
    failure = Failure("it is no image", "file /u/upload_7.png", "Try: leave upload_7.png out")
    now = after(state, Reported(1, failure))
    assert now.error is not None
    assert now.error.where == "file broken.png"
    assert now.error.advice == "Try: leave broken.png out"


def test_all_branches_have_the_sweep_that_was_sent_last_and_no_trace_has_one():
    first, second = (
        Upload("front.json", Path(f"/u/upload_{number}.json"), parts=1, purpose=SWEEP)
        for number in (1, 2)
    )
    state, effects = step(OPENED, UploadArrived(first))
    assert effects == [
        ShowSweep(1, REQUEST, "/u/upload_1.json"),
        ShowSweep(2, FORKED, "/u/upload_1.json"),
    ]
    assert [COMPLETE in branch.trace.stages for branch in state.branches] == [False, False]
    assert state.is_private(REQUEST) and not OPENED.is_private(REQUEST)
    state, effects = step(state, UploadArrived(second))
    assert effects[0] == RemoveUpload(first.path) and len(effects) == 3
    trace = Choice("9", "run.nnx", "/m/run.nnx")
    saved = Branch("3", first_request(trace, "cpu"), DRAWN)
    other = replace(OPENED, choices=(A, trace), branches=(saved,), current="3")
    refused, effects = step(other, UploadArrived(first))
    assert effects == [RemoveUpload(first.path)] and "open one of its models" in str(refused.error)
