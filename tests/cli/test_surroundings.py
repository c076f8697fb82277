"""What surrounds a command may be full, missing or wrong: one sentence, status 2, nothing left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import numpy as np
import pytest

from explorer.cli import main

REPOSITORY = Path(__file__).resolve().parents[2]


def assert_told(finished, *parts: object) -> None:
    assert finished.status == 2, finished
    assert finished.errors.count("explorer: error: ") == 1, finished.errors
    for part in (*map(str, parts), "; where: file ", "; try: "):
        assert part in finished.errors, finished.errors


@pytest.mark.parametrize(
    "words",
    [
        ("compile", "--save"),
        ("compile", "--dump-dir"),
        ("show", "--what", "graph", "-o"),
    ],
)
@pytest.mark.full_disk(2000)
def test_a_full_disk_is_one_sentence_and_leaves_nothing(
    explorer_command, sample_models, tmp_path, words
):
    command, *rest = words
    output = tmp_path / "output.html"

    finished = explorer_command(command, sample_models / "digits_mlp.onnx", *rest, output)

    assert_told(finished, "it cannot be written: File too large", output)
    assert not list(tmp_path.iterdir())


@pytest.mark.full_disk(2000)
def test_a_full_folder_for_temporary_files_is_one_sentence(
    explorer_command, sample_models, tmp_path, monkeypatch
):
    monkeypatch.setenv("EXPLORER_CACHE", "off")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    inputs = tmp_path / "in.npz"
    np.savez(inputs, image=np.zeros((1, 1, 8, 8), np.float32))

    finished = explorer_command(
        "run", sample_models / "digits_mlp.onnx", "--input", inputs, "--output", tmp_path / "o.npz"
    )

    assert_told(finished, "the files of a build cannot be written", tmp_path, "TMPDIR")
    # The process's own folder for builds stays as long as the process; nothing is left in it.
    left = [path for path in tmp_path.iterdir() if not path.name.startswith("explorer-scratch-")]
    assert left == [inputs]
    assert not list(tmp_path.glob("explorer-scratch-*/build-*"))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_standard_output_that_is_full(sample_models):
    with Path("/dev/full").open("w") as full:
        finished = subprocess.run(
            [sys.executable, "-m", "explorer", "rules"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            cwd=REPOSITORY,
        )

    assert finished.returncode == 2
    assert finished.stderr.count("\n") == 1
    assert "No space left on device; where: file standard output" in finished.stderr


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="no file that cannot be read")
@pytest.mark.parametrize("command", ["compile", "show", "check", "opt"])
def test_a_file_that_cannot_be_read(explorer_command, command):
    options = ["--passes", "fold-constants"] if command == "opt" else []

    finished = explorer_command(command, "/proc/self/mem", *options)

    assert_told(finished, "cannot be read: Input/output error", "/proc/self/mem")


def test_a_dump_into_a_file_is_refused_before_anything_is_compiled(
    explorer_command, sample_models, tmp_path, monkeypatch
):
    path = tmp_path / "file"
    path.write_bytes(b"")
    monkeypatch.setattr("explorer.compile", lambda *_, **__: pytest.fail("it was compiled"))

    finished = explorer_command("compile", sample_models / "digits_mlp.onnx", "--dump-dir", path)

    assert_told(finished, "this is no folder", path)


@pytest.mark.parametrize("action", [["list"], ["prune"], ["explain", "digits_mlp.onnx"]])
def test_a_cache_of_a_person_who_is_not_there(explorer_command, sample_models, monkeypatch, action):
    monkeypatch.setenv("EXPLORER_CACHE", "~nobodysuch/programs")
    monkeypatch.chdir(sample_models)

    finished = explorer_command("cache", *action)

    assert finished.status == 2
    assert "the program cache has no place" in finished.errors
    assert "set EXPLORER_CACHE to a folder, or off" in finished.errors


def test_the_version_is_that_of_the_distribution(explorer_command):
    pyproject = Path(__file__).resolve().parents[2] / "pyproject.toml"
    version = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]["version"]
    finished = explorer_command("--version")
    assert (finished.status, finished.output) == (0, f"explorer {version}\n")


def test_no_command_prints_the_help(explorer_command):
    finished = explorer_command()

    assert finished.status == 2
    assert finished.errors.startswith("usage: explorer")
    for command in ("compile", "check", "serve"):
        assert f"    {command} " in finished.errors


def test_ctrl_c_while_the_commands_are_loaded_ends_without_a_traceback(tmp_path):
    """A module that the command line loads says that it is being loaded, and waits."""
    marker = tmp_path / "loading"
    (tmp_path / "sitecustomize.py").write_text(
        "import sys, time, pathlib\n"
        "class Slow:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'explorer.cli.tune':\n"
        f"            pathlib.Path({str(marker)!r}).touch()\n"
        "            time.sleep(60)\n"
        "sys.meta_path.insert(0, Slow())\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "explorer", "devices"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    try:
        for _ in range(600):
            if marker.exists():
                break
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=30)
    finally:
        process.kill()

    assert (process.returncode, output, errors) == (130, b"", b"explorer: interrupted\n")


def test_the_package_loads_nothing_before_ctrl_c_is_handled():
    """What is loaded with `explorer` itself cannot be inside a `try`."""
    script = (
        "import sys; before = set(sys.modules); import explorer.__main__; "
        "print(*sorted(set(sys.modules) - before))"
    )
    loaded = subprocess.run(
        [sys.executable, "-S", "-c", script], cwd=REPOSITORY, capture_output=True, text=True
    )
    assert loaded.stdout.split() == ["__future__", "explorer", "explorer.__main__"]


def test_ctrl_c_while_the_interpreter_tidies_up_prints_no_traceback(tmp_path):
    """A function that runs at the exit waits; it is interrupted when all is printed."""
    (tmp_path / "sitecustomize.py").write_text(
        "import atexit, time\n"
        "def wait():\n"
        "    print('waiting', flush=True)\n"
        "    time.sleep(60)\n"
        "atexit.register(wait)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "explorer", "rules"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert process.stdout is not None
    try:
        while process.stdout.readline() not in (b"waiting\n", b""):
            pass
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    finally:
        process.kill()
    assert (process.returncode, errors) == (130, b"")


def test_an_error_of_the_system_without_a_name_is_a_sentence_about_the_model(
    capsys, sample_models, monkeypatch
):
    def fail(*arguments: object, **options: object) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr("explorer.compile", fail)
    model = str(sample_models / "digits_mlp.onnx")

    assert main(["compile", model]) == 2
    assert capsys.readouterr().err.startswith(
        f"explorer: error: Too many open files; where: file {model}; try: "
    )
