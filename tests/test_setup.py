"""The set-up's script says in one sentence what is in its way, and what helps."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
LOST = "Retrying after connection broken by 'NewConnectionError'\nERROR: No matching distribution"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A folder with the script, and a virtual environment of which pip does what a test says."""
    folder = tmp_path / "a cloné"
    (folder / "scripts").mkdir(parents=True)
    shutil.copy(REPOSITORY / "scripts" / "setup.sh", folder / "scripts")
    return folder


def environment(clone: Path, output: str) -> None:
    """An interpreter whose pip fails with this output."""
    python = clone / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    (clone / "output").write_text(f"{output}\n")
    python.write_text(
        f'#!/bin/sh\ncase "$*" in *"pip install"*) cat "{clone}/output"; exit 1 ;; esac\nexit 0\n'
    )
    python.chmod(0o755)


def set_up(clone: Path, stage: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "scripts/setup.sh", stage],
        cwd=clone,
        env=os.environ | {"SYSTEM_PACKAGES": "no"},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize(
    ("output", "advice"),
    [(LOST, "no registry is reached: check the network"), ("hashes differ", "LOCKED=no installs")],
)
def test_packages_that_do_not_come_end_in_a_sentence_that_helps(clone, output, advice):
    environment(clone, output)
    finished = set_up(clone, "lint")
    assert finished.returncode == 1
    last = finished.stderr.splitlines()[-1]
    assert last.startswith("set-up failed: requirements/lint.txt; ") and advice in last
    assert not (clone / ".venv" / ".ready-lint").exists()


def test_set_up_again_forgets_what_was_done(clone):
    (clone / ".venv").mkdir()
    (clone / ".venv" / ".ready-test").touch()
    assert set_up(clone, "again").returncode == 0
    assert list((clone / ".venv").iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_of_others_is_named(clone):
    clone.chmod(0o555)
    try:
        finished = set_up(clone, "again")
    finally:
        clone.chmod(0o755)
    assert finished.returncode == 1
    assert f"{clone} cannot be written by" in finished.stderr
