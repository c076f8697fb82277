"""Files and folders of ours that pages and docstrings name are there: what moved is found again."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
NAMED = re.compile(r"(?<![\w/.])((?:explorer|verification|tests|benchmarks|scripts)/[\w./]*[\w/])")
WRITTEN = [
    *sorted(REPOSITORY.glob("*.md")),
    *sorted(REPOSITORY.glob("docs/*.md")),
    *sorted(REPOSITORY.glob("verification/*.md")),
    *(p for p in sorted(REPOSITORY.glob("explorer/**/*.py"))),
    *(p for p in sorted(REPOSITORY.glob("verification/**/*.py"))),
    *(p for p in sorted(REPOSITORY.glob("explorer/views/js/**/*.js"))),
]
EXAMPLES = {
    "explorer/backends/toy/__init__.py",
    "explorer/cli/weights.py",
    "explorer/kernels/schedules/shares.py",
}
"""Files that pages add."""


def named_paths(text: str) -> set[str]:
    """What looks like a path of ours, without what follows a star or a brace."""
    return {path.rstrip("./") for path in NAMED.findall(text)} - EXAMPLES


def test_paths_that_are_named_exist():
    assert len(WRITTEN) > 1000
    missing = {
        (str(page.relative_to(REPOSITORY)), path)
        for page in WRITTEN
        if page.name != "CHANGELOG.md"
        for path in named_paths(page.read_text(encoding="utf-8"))
        if not (REPOSITORY / path).exists() and not list(REPOSITORY.glob(f"{path}.*"))
    }
    assert missing == set()


def test_a_path_that_moved_is_missed():
    assert named_paths("see `explorer/ir/rewriting.py`, and explorer/kernels/steps/") == {
        "explorer/ir/rewriting.py",
        "explorer/kernels/steps",
    }


def test_no_tracked_file_is_large():
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("the files are not a git repository")
    paths = [REPOSITORY / name for name in listed.stdout.split("\0") if name]
    assert len(paths) > 1000
    large = {path.name for path in paths if path.is_file() and path.stat().st_size > 500_000}
    assert large == set()
