"""Commands of the repository: there in a clone, and named where only the wheel is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from explorer import cli
from explorer.cli import repository
from explorer.errors import InputError


def test_in_a_clone_the_commands_are_there():
    assert repository.is_clone()
    assert repository.repository_command("fuzz").SUMMARY.startswith("random models")


def test_without_the_repository_a_command_says_where_it_is(
    monkeypatch, tmp_path: Path, explorer_command: Callable
):
    monkeypatch.setattr(repository, "VERIFICATION", tmp_path / "verification")
    monkeypatch.setitem(cli.COMMANDS, "fuzz", repository.repository_command("fuzz"))
    finished = explorer_command("fuzz", "--mutate", "x.onnx", "--count", "3")
    assert finished.status == 2
    assert "`explorer fuzz` belongs to the repository" in finished.errors
    assert "clone the repository" in finished.errors


def test_a_module_of_the_repository_is_refused_without_it(monkeypatch, tmp_path: Path):
    monkeypatch.setattr(repository, "VERIFICATION", tmp_path / "verification")
    with pytest.raises(InputError, match=r"verification\.checks\.command"):
        repository.verification("checks.command")
