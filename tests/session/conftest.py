"""What the tests of sessions share: a cache of their own, for an explorer that does not change."""

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from explorer.runtime.cache import ProgramCache
from explorer.runtime.cache import environment as circumstances


@dataclass(frozen=True)
class Place:
    """Where programs are kept, and whose they are."""

    folder: Path
    package: Path
    """Stands for the explorer's own sources, which a developer may edit while tests run."""

    @property
    def cache(self) -> ProgramCache:
        """As another process sees it."""
        return ProgramCache(self.folder)

    def files(self, suffix: str) -> list[Path]:
        return sorted(self.folder.glob("*" + suffix))

    def edit_sources(self, text: str) -> None:
        """Another explorer, which was there before this process began."""
        path = self.package / "passes.py"
        path.write_text(text)
        os.utime(path, (1_000_000_000, 1_000_000_000))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    folder, package = tmp_path / "programs", tmp_path / "package"
    folder.mkdir(mode=0o700)
    package.mkdir()
    made = Place(folder, package)
    made.edit_sources("first")
    monkeypatch.setenv("EXPLORER_CACHE", str(folder))
    monkeypatch.setattr(circumstances, "PACKAGE", package)
    return made
