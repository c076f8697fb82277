"""Files that a page sends: bounded, checked, and written where we say."""

import base64
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from explorer.app.upload_folder import page_folder, upload_folder
from explorer.app.uploads import PIECE_LIMIT_BYTES, Quota, UploadRefused, Uploads
from explorer.runtime.scratch import remove_stale_folders


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


@pytest.mark.parametrize("name", ["net.pickle", "trace.nnx.gz", "net", "", "net.onnx.exe", ".onnx"])
def test_other_kinds_of_files_are_refused(tmp_path: Path, name: str):
    with pytest.raises(UploadRefused, match=r"is nothing that can be read here"):
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


def test_a_trace_may_be_sent_as_well(tmp_path: Path):
    upload = Uploads(tmp_path).receive(piece(0, 1, name="run.nnx"))
    assert upload is not None
    assert upload.path.suffix == ".nnx"


def test_one_page_may_hold_only_so_much(tmp_path: Path):
    uploads = Uploads(tmp_path, page_limit_bytes=2**20)
    first = uploads.receive(piece(0, 1, bytes(400_000)))
    uploads.receive(piece(0, 1, bytes(400_000)))
    with pytest.raises(UploadRefused, match="files of one page may take 1 MiB; close one"):
        uploads.receive(piece(0, 1, bytes(400_000)))
    assert first is not None
    uploads.remove(first.path)
    assert not first.path.exists()
    assert uploads.receive(piece(0, 1, bytes(400_000))) is not None


def test_all_pages_together_may_hold_only_so_much(tmp_path: Path):
    quota = Quota(2**20)
    pages = []
    for name in ("mine", "other"):
        (tmp_path / name).mkdir()
        pages.append(Uploads(tmp_path / name, quota))
    mine, other = pages
    for _ in range(2):
        mine.receive(piece(0, 1, bytes(400_000)))
    with pytest.raises(UploadRefused, match="files of all pages may take 1 MiB"):
        other.receive(piece(0, 1, bytes(400_000)))
    mine.close()
    assert not (tmp_path / "mine").exists()
    assert other.receive(piece(0, 1, bytes(400_000))) is not None


def test_what_did_not_arrive_whole_takes_no_room(tmp_path: Path):
    quota = Quota(2**20)
    uploads = Uploads(tmp_path, quota)
    for _ in range(5):
        uploads.receive(piece(0, 2, bytes(400_000)))
    with pytest.raises(UploadRefused, match="damaged"):
        uploads.receive({**piece(1, 2), "bytes": "?"})
    assert list(tmp_path.iterdir()) == []
    assert quota.take(2**20)


def test_a_file_that_is_kept_is_there_for_the_next_page(tmp_path: Path):
    folder, quota = tmp_path / "files", Quota(2**20)
    uploads = Uploads(folder, quota)
    first, second = uploads.receive(piece(0, 1, b"one")), uploads.receive(piece(0, 1, b"two"))
    assert first is not None
    assert second is not None
    assert folder.stat().st_mode & 0o777 == 0o700
    uploads.receive(piece(0, 2, b"half"))
    uploads.close({second.path})
    assert [path.name for path in folder.iterdir()] == ["upload_2.onnx"]
    assert quota.take(2**20)  # nothing is taken any more
    quota.give_back(2**20)
    (folder / "upload_9.onnx.part").write_bytes(b"cut off")
    (folder / "upload_3.onnx").write_bytes(b"closed")
    again = Uploads(folder, quota)
    assert again.take_over({"upload_2.onnx"}) == {"upload_2.onnx": second.path}
    assert [path.name for path in folder.iterdir()] == ["upload_2.onnx"]
    assert not quota.take(2**20)
    third = again.receive(piece(0, 1))
    assert third is not None
    assert third.path.name == "upload_3.onnx"
    again.remove(second.path)
    again.remove(third.path)
    again.close()
    assert not folder.exists()
    assert quota.take(2**20)


def test_a_full_disk_refuses_uploads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("explorer.app.uploads.FREE_BYTES", 1 << 60)
    with pytest.raises(UploadRefused, match="the disk is nearly full"):
        Uploads(tmp_path).receive(piece(0, 1))
    assert list(tmp_path.iterdir()) == []


def test_the_folder_is_private_and_goes_with_the_app(tmp_path: Path):
    with upload_folder(tmp_path) as folder:
        assert folder.stat().st_mode & 0o777 == 0o700
        (page_folder(folder) / "upload_1.onnx").write_bytes(b"model")
        assert remove_stale_folders(tmp_path) == []  # it lives
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_app_left_is_removed_by_the_next_one(tmp_path: Path):
    program = (
        "import sys, os, signal; from pathlib import Path;"
        "from explorer.app.upload_folder import upload_folder, page_folder\n"
        "with upload_folder(Path(sys.argv[1])) as folder:\n"
        "    (page_folder(folder) / 'upload_1.onnx').write_bytes(b'secret')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False)
    (left,) = tmp_path.iterdir()
    assert list(left.glob("page-*/upload_1.onnx"))
    (tmp_path / "explorer-uploads-of-somebody").mkdir()  # no lock: not ours to judge
    with upload_folder(tmp_path):
        assert not left.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["explorer-uploads-of-somebody"]
