"""Files that a page sends: bounded, checked, and written where we say."""

import base64
from pathlib import Path
from typing import Any

import pytest

from explorer.app.uploads import PIECE_LIMIT_BYTES, UploadRefused, Uploads


def piece(part: int, parts: int, data: bytes = b"model", name: str = "net.onnx") -> dict[str, Any]:
    return {
        "kind": "upload",
        "name": name,
        "part": part,
        "parts": parts,
        "bytes": base64.b64encode(data).decode(),
    }


def test_pieces_become_a_file(tmp_path: Path):
    uploads = Uploads(tmp_path)
    assert uploads.receive(piece(0, 2, b"first, ")) is None
    upload = uploads.receive(piece(1, 2, b"second"))
    assert upload is not None
    assert upload.path.read_bytes() == b"first, second"
    assert upload.label == "net.onnx"


def test_what_arrives_is_counted_and_not_what_is_claimed(tmp_path: Path):
    uploads = Uploads(tmp_path, limit_bytes=2**20)
    uploads.receive({**piece(0, 3, bytes(500_000)), "size": 3})
    uploads.receive({**piece(1, 3, bytes(500_000)), "size": 3})
    with pytest.raises(UploadRefused, match=r"'net\.onnx' is larger than 1 MiB.* with its path"):
        uploads.receive({**piece(2, 3, bytes(500_000)), "size": 3})
    assert list(tmp_path.iterdir()) == []


def test_a_piece_larger_than_a_page_sends_is_refused(tmp_path: Path):
    with pytest.raises(UploadRefused, match="a piece of the upload is too large"):
        Uploads(tmp_path).receive(piece(0, 1, bytes(2 * PIECE_LIMIT_BYTES)))


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("../../etc/passwd.onnx", "passwd.onnx"),
        ("C:\\models\\net.onnx", "net.onnx"),
        ("/root/.bashrc/x.ONNX", "x.ONNX"),
        ("a\0b.onnx", "a\0b.onnx"),
    ],
)
def test_a_name_never_becomes_a_path(tmp_path: Path, name: str, label: str):
    folder = tmp_path / "uploads"
    folder.mkdir()
    upload = Uploads(folder).receive(piece(0, 1, name=name))
    assert upload is not None
    assert upload.label == label
    assert upload.path == folder / "upload_1.onnx"
    assert [p.name for p in tmp_path.iterdir()] == ["uploads"]


def test_a_long_name_is_shortened_and_keeps_its_kind(tmp_path: Path):
    upload = Uploads(tmp_path).receive(piece(0, 1, name="n" * 250 + ".onnx"))
    assert upload is not None
    assert upload.label == "n" * 120


@pytest.mark.parametrize("name", ["net.pickle", "trace.nnx", "net", "", "net.onnx.exe", ".onnx"])
def test_other_kinds_of_files_are_refused(tmp_path: Path, name: str):
    with pytest.raises(UploadRefused, match=r"is no model file that can be read here"):
        Uploads(tmp_path).receive(piece(0, 1, name=name))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "second",
    [
        piece(2, 3),
        piece(1, 2),
        piece(1, 3) | {"part": -1},
        piece(1, 3) | {"part": "1"},
        piece(1, 3) | {"parts": None},
        piece(1, 3) | {"bytes": "not base64!"},
        piece(1, 3) | {"bytes": None},
    ],
)
def test_pieces_that_do_not_fit_end_the_upload(tmp_path: Path, second: dict[str, Any]):
    uploads = Uploads(tmp_path)
    uploads.receive(piece(0, 3))
    with pytest.raises(UploadRefused):
        uploads.receive(second)


def test_a_further_piece_after_a_refusal_is_refused_too(tmp_path: Path):
    uploads = Uploads(tmp_path)
    uploads.receive(piece(0, 3))
    with pytest.raises(UploadRefused):
        uploads.receive(piece(2, 3))
    with pytest.raises(UploadRefused, match="a piece of the upload is missing: try again"):
        uploads.receive(piece(1, 3))
