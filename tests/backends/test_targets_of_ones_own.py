"""A target decides by its fields, not by its name; so does what was kept of a program."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import explorer
from explorer.backends import backend_named, backend_of
from explorer.backends.loading import saved_programs
from explorer.importers import SourceModel
from explorer.runtime.cache import ProgramCache
from explorer.runtime.cache.saved_program_files import SUFFIX, read_saved, to_bytes
from explorer.targets import Target, load_target

pytestmark = pytest.mark.usual_builds

MINE = """
name = "mine"
languages = ["c"]
data_types = ["float32"]

[memories.arena]
kind = "arena"
"""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A C target that is not called cpu."""
    path = tmp_path / "mine.toml"
    path.write_text(MINE, encoding="utf-8")
    return path


@pytest.fixture
def threads(monkeypatch) -> list[int | None]:
    """Of every program that generated C opens, or starts from what was kept."""
    asked: list[int | None] = []
    kind = type(backend_named("c"))
    for name in ("open", "load_saved"):
        original = getattr(kind, name)

        def spied(self: object, *arguments: Any, original: Any = original) -> Any:
            asked.append(arguments[-1].threads)
            return original(self, *arguments)

        monkeypatch.setattr(kind, name, spied)
    return asked


def test_a_session_of_a_c_target_of_ones_own_has_its_threads(
    mine, model: SourceModel, threads, tmp_path, monkeypatch
):
    monkeypatch.setenv("EXPLORER_CACHE", str(tmp_path / "programs"))
    path = tmp_path / "net.onnx"
    onnx.save(model.content.proto, path)
    image = np.ones(model.inputs[0].shape, np.float32)
    for _ in range(2):  # compiled, then started from the kept program
        with explorer.Session(path, str(mine), threads=2) as session:
            session({model.inputs[0].name: image})
    assert threads == [2, 2]


def target(*languages: str) -> Target:
    return load_target("cpu").with_(languages=list(languages))


def test_the_first_language_of_a_target_is_preferred():
    assert backend_of(target("c", "opencl")).name == "c"
    assert backend_of(target("opencl", "c")).name == "opencl"


def test_a_kept_program_of_no_backend_is_damaged(model: SourceModel, tmp_path, monkeypatch):
    monkeypatch.setenv("EXPLORER_CACHE", str(tmp_path / "programs"))
    path = tmp_path / "net.onnx"
    onnx.save(model.content.proto, path)
    explorer.start(path).close()
    programs = saved_programs(ProgramCache(tmp_path / "programs"))
    (file,) = programs.files()
    assert file.name.endswith(SUFFIX) and programs.verify() == {}
    kept = read_saved(file.read_bytes())
    file.write_bytes(to_bytes(replace(kept, language="python")))
    assert programs.verify() == {file: "it cannot be read: language: 'python'"}
    with pytest.warns(RuntimeWarning, match="the program cache drops"):
        started = explorer.start(path)
    with started:
        assert "language: 'python'" in started.why
