"""Damaged model files end in a clear error or a model, and nothing else happens."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest

from explorer.errors import ModelError
from explorer.importers import load
from explorer.importers.onnx import from_proto
from verification.mutation import mutants as mutation
from verification.mutation.mutants import (
    MAX_SECONDS,
    Compiled,
    damage_bytes,
    damage_message,
    try_mutant,
)


@pytest.fixture
def content(sample_models: Path) -> bytes:
    return (sample_models / "digits_mlp.onnx").read_bytes()


@pytest.mark.parametrize("damage", [damage_bytes, damage_message])
def test_damage_is_of_many_kinds(content, damage):
    mutants = [damage(content, np.random.default_rng(seed)) for seed in range(60)]
    assert len(set(mutants)) > 40
    assert any(len(m) < len(content) for m in mutants)
    assert any(len(m) > len(content) for m in mutants)


@pytest.fixture
def watch() -> SimpleNamespace:
    return SimpleNamespace(is_on=False, seen=[])


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ModelError("cut off"), "refused"),
        (KeyError("shape"), "failed"),
        (MemoryError(), "memory"),
    ],
)
def test_errors_are_told_apart(error, status, content, tmp_path, watch):
    def fail(path: Path):
        raise error

    answer = try_mutant(content, tmp_path / "net.onnx", watch, fail, MAX_SECONDS)
    assert answer["status"] == status


def test_a_whole_file_compiles(content, tmp_path, watch):
    compiled = Compiled()

    def read(path: Path) -> None:
        compiled.compile(load(path))

    answer = try_mutant(content, tmp_path / "net.onnx", watch, read, MAX_SECONDS)
    assert answer["status"] == "read"


def test_only_another_program_is_compiled_again(sample_models, monkeypatch):
    model = onnx.load(sample_models / "digits_mlp.onnx")
    calls: list[str] = []

    def note(model, target):
        calls.append(target)
        return SimpleNamespace(built=True)

    monkeypatch.setattr(mutation, "compile_model", note)
    compiled = Compiled()
    compiled.compile(from_proto(model))
    largest = max(model.graph.initializer, key=lambda t: len(t.raw_data))
    largest.raw_data = bytes(len(largest.raw_data))
    compiled.compile(from_proto(model))
    assert calls == ["cpu"]
    model.graph.node[-1].op_type = "Sin"
    del model.graph.node[-1].input[1:]
    compiled.compile(from_proto(model))
    assert calls == ["cpu", "cpu"]


def test_writing_connecting_and_starting_processes_are_noticed(tmp_path):
    script = """
        import os, socket, subprocess, sys
        from verification.mutation.mutants import Watch

        watch = Watch()
        open("before.txt", "w").close()
        watch.is_on = True
        open("before.txt").close()
        open("after.txt", "w").close()
        os.remove("after.txt")
        socket.socket().close()
        subprocess.run([sys.executable, "-c", ""])
        watch.is_on = False
        print("\\n".join(watch.seen))
    """
    finished = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    events = [line.split(" ")[0] for line in finished.stdout.splitlines()]
    assert events[:3] == ["open", "os.remove", "socket.__new__"]
    assert "subprocess.Popen" in events
    assert "before.txt" not in finished.stdout
