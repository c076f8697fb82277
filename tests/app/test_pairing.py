"""Models of two files: whichever comes first, both become one model, and none is lost."""

from dataclasses import replace
from pathlib import Path

import pytest

from explorer.app.catalog import Choice, first_request, offered_files
from explorer.app.protocol import CompileRequest, DrawnTrace
from explorer.app.state.messages import (
    Begun,
    Compile,
    Effect,
    Examine,
    PairUploads,
    RemoveUpload,
    Reported,
    UploadArrived,
)
from explorer.app.state.page_state import PageState
from explorer.app.state.pairing import MAX_WAITING
from explorer.app.state.step import step
from explorer.app.uploads import ASKED, Quota, Upload, UploadRefused, Uploads

SERVED = Choice("0", "a.onnx", "/m/a.onnx")
HEAD = {"label": "", "model": {"name": "net"}, "summary": {"verdict": "not-run"}}
REFUSED = {**HEAD, "problems": {"reasons": [["conv1", "its weights are missing (blob 0)"]]}}
NET = Upload("deploy.prototxt", Path("/u/upload_1.prototxt"), 1)
WEIGHTS = Upload("iter_10.caffemodel", Path("/u/upload_2.caffemodel"), 1)
BOTH = Path("/u/upload_2.prototxt")
LABEL = "deploy.prototxt + iter_10.caffemodel"
NEW, _ = step(PageState((SERVED,), ("cpu",), "cpu", first_request(SERVED, "cpu")), Begun(None))


def drawn(head: dict) -> DrawnTrace:
    return DrawnTrace(head, {"index": "{}"}, (), ())


def after(state: PageState, *uploads: Upload) -> tuple[PageState, list[Effect]]:
    """All effects of files that arrive one after the other."""
    effects: list[Effect] = []
    for upload in uploads:
        state, more = step(state, UploadArrived(upload))
        effects += more
    return state, effects


def test_weights_wait_for_their_layers():
    state, effects = after(NEW, WEIGHTS)
    assert effects == []
    assert "drop the file with its layers (.prototxt) on this page, too" in state.missing

    state, effects = after(state, NET)
    assert effects[:2] == [PairUploads(NET.path, WEIGHTS.path), RemoveUpload(NET.path)]
    assert [e.request.path for e in effects if isinstance(e, Compile)] == [str(BOTH)]
    assert [choice.label for choice in state.choices] == ["a.onnx", LABEL]
    assert (state.waiting, state.missing) == ((), "")


def test_a_net_without_weights_is_opened_and_takes_them_when_they_come():
    bare, effects = after(NEW, NET)
    (compiled,) = effects
    assert isinstance(compiled, Compile) and compiled.request.path == str(NET.path)
    assert "came without its weights: drop the file with them (.caffemodel)" in bare.missing
    bare, _ = step(bare, Reported(compiled.key, drawn(REFUSED)))

    state, effects = after(bare, WEIGHTS)
    assert PairUploads(NET.path, WEIGHTS.path) in effects
    assert [choice.label for choice in state.choices] == ["a.onnx", LABEL]
    assert (state.wanted, state.missing) == (CompileRequest(str(BOTH), "cpu"), "")


def test_other_weights_make_another_model_of_a_net():
    other = Upload("iter_20.caffemodel", Path("/u/upload_3.caffemodel"), 1)
    state, effects = after(NEW, WEIGHTS, NET)
    key = next(effect.key for effect in effects if isinstance(effect, Compile))
    state, _ = step(state, Reported(key, drawn(HEAD)))
    state, effects = after(state, other)

    assert PairUploads(BOTH, other.path) in effects
    labels = [choice.label for choice in state.choices]
    assert labels == ["a.onnx", LABEL, "deploy.prototxt + iter_20.caffemodel"]


def test_weights_that_come_with_their_layers_are_for_no_other_net():
    bare, _ = after(NEW, Upload("other.prototxt", Path("/u/upload_7.prototxt"), 1))
    state, effects = after(bare, replace(WEIGHTS, partner="deploy.prototxt"))

    assert effects == []
    assert "iter_10" not in state.missing
    _, effects = after(state, NET)
    assert PairUploads(NET.path, WEIGHTS.path) in effects


def test_of_several_weights_those_of_the_name_are_taken():
    alike = Upload("deploy.caffemodel", Path("/u/upload_3.caffemodel"), 1)
    state, effects = after(NEW, alike, WEIGHTS, NET)

    assert PairUploads(NET.path, alike.path) in effects
    assert state.choices[-1].label == "deploy.prototxt"
    assert state.waiting == (WEIGHTS,)


def test_only_so_many_wait():
    many = [replace(WEIGHTS, label=f"{n}.caffemodel", path=Path(f"/u/upload_{n}.caffemodel"))
            for n in range(MAX_WAITING + 1)]  # fmt: skip
    state, effects = after(NEW, *many)

    assert state.waiting == tuple(many[1:])
    assert effects == [RemoveUpload(many[0].path)]


def test_a_pair_may_be_asked_about_first():
    asked = replace(NET, purpose=ASKED)
    _, effects = after(NEW, replace(WEIGHTS, purpose=ASKED), asked)

    assert [e.path for e in effects if isinstance(e, Examine)] == [str(BOTH)]


def uploads_with_a_pair(folder: Path, quota: Quota) -> tuple[Uploads, Path, Path]:
    uploads = Uploads(folder, quota)
    paths = []
    for name in ("deploy.prototxt", "iter_10.caffemodel"):
        piece = {"name": name, "part": 0, "parts": 1, "bytes": "bmV0"}
        upload = uploads.receive({**piece, "partner": "../a/deploy.prototxt"})
        assert upload is not None
        assert upload.partner == "deploy.prototxt"
        paths.append(upload.path)
    return uploads, *paths


def test_a_pair_lies_under_one_name_and_goes_together(tmp_path: Path):
    quota = Quota(20)
    uploads, layers, weights = uploads_with_a_pair(tmp_path / "u", quota)
    uploads.pair(layers, weights)
    uploads.remove(layers)
    both = weights.with_suffix(".prototxt")
    assert both.read_bytes() == b"net" and weights.exists() and not layers.exists()

    uploads.close({both})
    again = Uploads(tmp_path / "u", quota)
    assert set(again.take_over({both.name})) == {both.name, weights.name}
    again.remove(both)
    assert list((tmp_path / "u").iterdir()) == []
    assert quota.take(20)


def test_there_must_be_room_for_both(tmp_path: Path):
    uploads, layers, weights = uploads_with_a_pair(tmp_path / "u", Quota(7))
    with pytest.raises(UploadRefused, match="does not fit"):
        uploads.pair(layers, weights)
    assert sorted((tmp_path / "u").iterdir()) == [layers, weights]


def test_a_folder_offers_a_pair_once(tmp_path: Path):
    for name in ("a.prototxt", "a.caffemodel", "b.onnx", "c.caffemodel", "notes.zip"):
        (tmp_path / name).write_bytes(b"")

    assert [path.name for path in offered_files([tmp_path])] == [
        "a.prototxt", "b.onnx", "c.caffemodel"]  # fmt: skip
