"""Temporary folders: gone with their process, also when it was killed, and nobody else's."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

import explorer as ex
from explorer.runtime.scratch import LOCK, own_folder, remove_stale_folders

MAKE_ONE = """
import os, signal, sys, tempfile
from explorer.runtime.scratch import own_folder
folder = tempfile.mkdtemp(prefix="build-", dir=own_folder())
print(os.path.dirname(folder), flush=True)
exec(sys.argv[1])
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files, of this test alone."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def made_by_a_process(ending: str) -> Path:
    """The folder of a process that ended so."""
    command = [sys.executable, "-c", MAKE_ONE, ending]
    output = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return Path(output.strip())


def test_a_process_that_ends_removes_its_folder(place: Path):
    folder = made_by_a_process("")
    assert folder.parent == place
    assert list(place.iterdir()) == []


def test_what_a_killed_process_left_goes_with_the_next_folder(place: Path):
    folder = made_by_a_process("os.kill(os.getpid(), signal.SIGKILL)")
    assert [path.name[:6] for path in folder.iterdir() if path.name != LOCK] == ["build-"]
    mine = own_folder()
    assert list(place.iterdir()) == [mine]
    assert remove_stale_folders() == []  # this process lives
    assert own_folder() == mine


def test_a_folder_that_somebody_removed_is_made_again(place: Path):
    first = own_folder()
    (first / LOCK).unlink()
    first.rmdir()
    assert own_folder() != first
    assert own_folder().is_dir()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a system without fork")
def test_a_fork_makes_a_folder_of_its_own_and_leaves_its_parents_alone(place: Path):
    ending = (
        "child = os.fork()\n"
        "if child == 0:\n"
        "    sys.exit(0 if own_folder() != os.path.dirname(folder) else 3)\n"
        "status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])\n"
        "print(status, os.path.isdir(folder))"
    )
    command = [sys.executable, "-c", MAKE_ONE, ending]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert output.splitlines()[1:] == ["0 True"]
    assert list(place.iterdir()) == []


def test_folders_of_others_stay(place: Path):
    for name in ("explorer-without-lock", "elsewhere"):
        (place / name).mkdir()
    (place / "elsewhere" / LOCK).touch()
    (place / "explorer-link").symlink_to(place / "elsewhere")
    assert remove_stale_folders() == []


def test_a_program_builds_below_the_folder_of_its_process(place: Path, sample_models: Path):
    with ex.compile(sample_models / "digits_mlp.onnx").open(isolated=False) as executable:
        assert [path for path in place.iterdir() if path.name.startswith("explorer-")] == [
            own_folder()
        ]
        assert list(own_folder().glob("build-*/*.so"))
        executable.run({"image": np.zeros((1, 1, 8, 8), np.float32)})
    assert list(own_folder().glob("build-*")) == []


def test_the_signal_of_a_closed_page_leaves_what_the_next_one_removes(place: Path):
    folder = made_by_a_process(f"os.kill(os.getpid(), {int(signal.SIGTERM)})")
    assert remove_stale_folders() == [folder]
