"""Files of others are read inside one boundary; our own are there whole or not at all."""

from __future__ import annotations

import errno
import json
import os
import zipfile
from pathlib import Path

import pytest

from explorer.errors import BuildError, InputError, ModelError
from explorer.files import (
    append_line,
    folder_written_at_once,
    reading_file,
    temporary_files,
    write_file,
    write_whole,
)

# -- writing ---------------------------------------------------------------------------------------


@pytest.mark.full_disk(1000)
def test_a_full_disk_leaves_the_old_file_and_nothing_beside_it(tmp_path):
    path = tmp_path / "trace.nnx"
    path.write_bytes(b"what was there before")

    with pytest.raises(InputError, match="cannot be written: File too large") as caught:
        write_file(path, b"x" * 5000)

    assert caught.value.file == str(path)
    assert path.read_bytes() == b"what was there before"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.full_disk(1000)
def test_what_fails_below_is_an_error_of_the_system_with_the_files_own_name(tmp_path):
    with pytest.raises(OSError, match="File too large") as caught:
        write_whole(tmp_path / "entry", b"x" * 5000)

    assert caught.value.filename == str(tmp_path / "entry")
    assert caught.value.errno == errno.EFBIG
    assert not list(tmp_path.iterdir())


def test_an_interrupted_writer_leaves_nothing(tmp_path, monkeypatch):
    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_file(tmp_path / "a", "text")

    assert not list(tmp_path.iterdir())


def test_a_file_has_the_permissions_that_others_of_the_person_have(tmp_path):
    before = os.umask(0o027)
    try:
        write_file(tmp_path / "a", "text")
        write_whole(tmp_path / "b", b"text")
    finally:
        os.umask(before)

    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "b").stat().st_mode & 0o777 == 0o600


@pytest.mark.full_disk(1000)
def test_a_line_is_appended_whole_or_not_at_all(tmp_path):
    path = tmp_path / "record.jsonl"
    append_line(path, "a" * 600)
    with pytest.raises(OSError, match="File too large") as caught:
        append_line(path, "b" * 600)
    append_line(path, "c" * 10)

    assert caught.value.filename == str(path)
    assert path.read_text() == "a" * 600 + "\n" + "c" * 10 + "\n"


@pytest.mark.full_disk(1000)
def test_a_folder_appears_with_all_its_files_or_not(tmp_path):
    folder = tmp_path / "dump"

    def write() -> None:
        with folder_written_at_once(folder) as partial:
            write_whole(partial / "00-import.mlir", b"small")
            write_whole(partial / "01-fold.mlir", b"x" * 5000)

    with pytest.raises(InputError, match="cannot be written") as caught:
        write()

    assert caught.value.file == str(folder)
    assert not list(tmp_path.iterdir())


@pytest.mark.full_disk(1000)
def test_where_a_build_has_no_room_the_folder_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    message = "cannot be written: File too large"
    with pytest.raises(BuildError, match=message) as caught, temporary_files():
        (tmp_path / "program.c").write_bytes(b"x" * 5000)

    assert caught.value.file == str(tmp_path)
    assert "TMPDIR" in caught.value.hint


# -- reading ---------------------------------------------------------------------------------------


def endless() -> None:
    endless()


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (endless, "not a readable trace: it is nested too deep"),
        (lambda: {}["weights"], "not a readable trace: 'weights' is missing"),
        (lambda: b"ab\xff".decode(), "it is no UTF-8 text: invalid start byte at byte 2"),
        (lambda: json.loads("{,}"), "not a readable trace: Expecting property name"),
        (lambda: json.loads("3")["a"], "its parts do not fit each other (TypeError: "),
        (lambda: [][4], "its parts do not fit each other (IndexError: "),
        (lambda: bytearray(1 << 62), "it asks for more memory than there is"),
        (lambda: os.read(10**6, 1), "the trace cannot be read: Bad file descriptor"),
        (lambda: zipfile.ZipFile(Path(os.devnull)), "not a readable trace: File is not a zip file"),
    ],
)
def test_whatever_damage_raises_is_one_error_with_the_files_name(act, message):
    with pytest.raises(ModelError) as caught, reading_file("net.nnx", "trace", hint="save again"):
        act()

    assert message in caught.value.message
    assert (caught.value.file, caught.value.hint) == ("net.nnx", "save again")
    assert caught.value.__cause__ is not None


def test_errors_of_ours_pass_and_get_the_files_name(tmp_path):
    with pytest.raises(InputError) as caught, reading_file("chip.toml", "target"):
        raise InputError("vector.lanes is 0", hint="give another")

    assert (caught.value.file, caught.value.message) == ("chip.toml", "vector.lanes is 0")


def test_an_interrupted_reader_stays_interrupted():
    with pytest.raises(KeyboardInterrupt), reading_file("net.onnx", "model"):
        raise KeyboardInterrupt
