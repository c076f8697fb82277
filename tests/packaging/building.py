"""How the tests of packages build them."""

from __future__ import annotations

import subprocess
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
MODELS = REPOSITORY / "sample_models"
STRICT = ("-Wall", "-Wextra", "-Werror", "-pedantic-errors")


def run(*words: str | Path, folder: Path | None = None) -> str:
    """What a command prints; the test fails where it ends with another status than 0."""
    finished = subprocess.run(
        [str(word) for word in words], cwd=folder, capture_output=True, text=True, timeout=120
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout
