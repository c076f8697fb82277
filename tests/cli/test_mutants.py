"""Damaged files of every kind that the commands read end in a clear error, or are read."""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import explorer
from explorer.cli.snapshots import used_weights, weights_as_npz, weights_path
from explorer.cli.terminal import Progress
from explorer.errors import ModelError
from explorer.runtime.child import Child
from tests.importers.pytorch_models import Program, ref
from verification.children import answer_all
from verification.conformance.caffe.models import one_layer
from verification.conformance.tflite.models import TensorOf, one_operator
from verification.mutation.damage import DAMAGES, damage
from verification.mutation.mutants import DEFECTS, MAX_SECONDS, seconds_for, try_mutant

MUTANTS = 25
"""Of each kind; more are tried by `explorer fuzz --mutate`."""


@pytest.fixture(scope="module")
def files(tmp_path_factory, sample_models: Path) -> dict[str, Path]:
    """A file of each kind, by its suffix."""
    folder = tmp_path_factory.mktemp("whole")
    model = Path(shutil.copy(sample_models / "digits_mlp.onnx", folder))
    compilation = explorer.compile(model)
    compilation.save(folder / "net.nnx")
    np.savez(folder / "in.npz", image=np.zeros((1, 1, 8, 8), np.float32))
    snapshot = compilation["import"].after
    (folder / "import.mlir").write_text(snapshot.dump())
    names = used_weights(snapshot.module)
    weights_path(folder / "import.mlir").write_bytes(weights_as_npz(snapshot.weights, names))
    shutil.copy(Path(explorer.__file__).parent / "targets" / "cpu.toml", folder / "chip.toml")
    kernel = next(iter(compilation.kernels))
    (folder / f"{kernel}.json").write_text(json.dumps(compilation.kernels[kernel].schedule))
    numbers = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    tensors = [TensorOf(name="x", shape=(2, 4)), TensorOf(name="w", shape=(3, 4), data=numbers)]
    (folder / "dense.tflite").write_bytes(
        one_operator("FULLY_CONNECTED", tensors, [TensorOf(name="y", shape=(2, 3))])
    )
    settings = "inner_product_param { num_output: 3 }"
    text, weights = one_layer("InnerProduct", settings, [(2, 4)], [numbers, numbers[:, 0]])
    (folder / "caffe.prototxt").write_text(text)
    (folder / "caffe.caffemodel").write_bytes(weights)
    with zipfile.ZipFile(folder / "both.zip", "w") as archive:
        for suffix in (".prototxt", ".caffemodel"):
            archive.write(folder / f"caffe{suffix}", f"net{suffix}")
    program = Program({"x": ("float32", [2, 4])}, weights={"w": numbers})
    y = program.call(
        "aten.linear.default", {"input": ref("x"), "weight": ref("p_w")}, "float32", [2, 3]
    )
    program.write(folder / "dense.pt2", [y])
    return {
        path.suffix: path for path in folder.iterdir() if not path.name.endswith(".weights.npz")
    }


def test_there_is_a_file_of_every_kind(files):
    assert files.keys() == DAMAGES.keys()


@pytest.mark.parametrize("suffix", DAMAGES)
def test_a_seed_is_one_damage(files, suffix):
    content = files[suffix].read_bytes()
    first, second = (damage(suffix, content, np.random.default_rng(3)) for _ in range(2))
    others = {damage(suffix, content, np.random.default_rng(seed)) for seed in range(30)}
    assert first == second
    assert len(others - {content}) > 20


@pytest.mark.sweep
def test_damaged_files_of_every_kind_are_refused_or_read(files):
    whole = [{"file": str(path), "seed": -1} for path in files.values()]
    requests = [
        {"file": str(path), "seed": seed, "seconds": MAX_SECONDS, "folder": ""}
        for path in files.values()
        for seed in range(MUTANTS)
    ]
    program = ("-m", "verification.mutation.process")

    answers = answer_all(
        [*whole, *requests], lambda: Child(program, [str(files[".onnx"])]), seconds=120
    )

    undamaged, damaged = answers[: len(whole)], answers[len(whole) :]
    found = [(answer["status"], answer["reason"]) for answer in undamaged]
    assert found == [("read", "")] * len(whole)
    tried = list(zip(requests, damaged, strict=True))
    assert [(r["file"], r["seed"], a) for r, a in tried if a["status"] in DEFECTS] == []
    refused = Counter(Path(r["file"]).suffix for r, a in tried if a["status"] == "refused")
    assert all(refused[suffix] > MUTANTS // 3 for suffix in DAMAGES), refused


def test_what_was_not_foreseen_is_counted_though_it_was_caught(tmp_path):
    watch = SimpleNamespace(is_on=False, seen=[])

    def read(path: Path) -> None:
        with explorer.files.reading_file(path, "trace"):
            raise AttributeError("'list' object has no attribute 'items'")

    answer = try_mutant(b"", tmp_path / "a.nnx", watch, read, 10.0)  # pyright: ignore

    assert answer["status"] == "caught"
    assert "AttributeError" in answer["reason"]


def test_a_slow_file_may_take_as_much_longer_when_it_is_damaged(tmp_path):
    watch = SimpleNamespace(is_on=False, seen=[])
    assert (seconds_for(0.1), seconds_for(15.5)) == (MAX_SECONDS, 77.5)

    def read(path: Path) -> None:
        raise ModelError("not a model")

    hung = try_mutant(b"", tmp_path / "a", watch, read, -1.0)  # pyright: ignore
    done = try_mutant(b"", tmp_path / "a", watch, read, 10.0)  # pyright: ignore
    assert (hung["status"], done["status"]) == ("hung", "refused")


def test_a_lower_limit_of_memory_is_kept():
    script = (
        "import resource\n"
        "from verification.mutation.mutants import prepare_process\n"
        "resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))\n"
        "prepare_process()\n"
        "print(resource.getrlimit(resource.RLIMIT_AS)[0] >> 30)\n"
    )
    finished = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (finished.stdout, finished.stderr) == ("8\n", "")
    assert resource.getrlimit(resource.RLIMIT_AS)[1] == resource.RLIM_INFINITY


@pytest.mark.sweep
def test_the_command_counts_by_kind(explorer_command, files, tmp_path):
    finished = explorer_command(
        "fuzz", "--mutate", files[".onnx"], files[".npz"], "--count", "8", "--out", tmp_path
    )

    assert finished.status == 0, finished.errors
    lines = finished.output.splitlines()
    assert lines[0].split()[:2] == ["kind", "files"]
    assert [line.split()[:2] for line in lines[1:3]] == [[".onnx", "4"], [".npz", "4"]]
    assert not list(tmp_path.iterdir())


def test_what_was_tried_is_counted_when_it_is_interrupted(explorer_command, files, monkeypatch):
    def answer_some(requests, make_child, *, report=None, **_):
        answers = [{"status": "read", "reason": "", "seconds": 0.1}] * len(requests)
        if report is not None:
            for number in range(5):
                report(number, answers[number], number + 1)
            raise KeyboardInterrupt
        return answers

    monkeypatch.setattr("verification.children.answer_all", answer_some)

    finished = explorer_command("fuzz", "--mutate", files[".tflite"], "--count", "8")

    assert finished.status == 130
    assert finished.output.splitlines()[1].split()[:2] == [".tflite", "5"]
    assert "interrupted: 5 of 8 were tried" in finished.errors


def test_progress_of_hours_has_lines_where_there_is_no_terminal(capsys, monkeypatch):
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    progress = Progress("trying", every_seconds=60)
    for now in (0.0, 59.0, 60.0, 61.0, 121.0):
        progress(f"seed {now:g}", int(now), 200)
    minute, two = capsys.readouterr().err.splitlines()
    assert minute == "trying 61/200 seed 60  01:00, 02:20 left"
    assert two == "trying 122/200 seed 121  02:01, 01:19 left"


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["in.npz"], "there is no model for it"),
        (["net.h5"], "no kind of file that is damaged"),
        (["none.onnx"], "there is no such file"),
        (["bad.onnx"], "it cannot be read as it is: ModelError: not an ONNX model"),
    ],
)
def test_files_that_cannot_be_damaged(explorer_command, tmp_path, names, message):
    for name in ("in.npz", "net.h5", "bad.onnx"):
        (tmp_path / name).write_bytes(b"<html")

    finished = explorer_command("fuzz", "--mutate", *(tmp_path / name for name in names))

    assert finished.status == 2
    assert message in finished.errors
