"""`explorer package` and `explorer inspect-package`."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = REPOSITORY / "docs" / "packages.md"
MODEL = REPOSITORY / "sample_models" / "digits_mlp.onnx"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from explorer.cli import main

    folder = tmp_path_factory.mktemp("package") / "out"
    assert main(["package", str(MODEL), "-o", str(folder), "--target", "cortex-m4"]) == 0
    return folder


def test_it_says_what_was_written(explorer_command, tmp_path):
    finished = explorer_command("package", MODEL, "-o", tmp_path / "out", "--build")
    assert finished.status == 0
    assert "10 files for cpu" in finished.output and "the self-test passed" in finished.output


def test_the_json_has_sizes_symbols_and_the_self_test(explorer_command, tmp_path):
    folder = tmp_path / "out"
    finished = explorer_command("package", MODEL, "-o", folder, "--optimize", "size", "--json")
    assert finished.status == 0
    table = json.loads(finished.output)
    assert table["name"] == "digits_mlp" and table["target"] == "cpu"
    assert table["code_bytes"] is None and table["selftest"]["passed"] is None
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["options"]["optimize"] == "size"
    assert {file["path"] for file in table["files"]} == set(manifest["files"])


@pytest.mark.parametrize("option", ["--weights", "--weights-as"])
def test_weights_are_a_file_by_either_name_of_the_option(explorer_command, tmp_path, option):
    folder = tmp_path / "out"
    assert explorer_command("package", MODEL, "-o", folder, option, "file").status == 0
    assert (folder / "digits_mlp.weights").is_file()


def test_weights_that_are_no_storage_are_the_file_of_a_model(explorer_command, tmp_path):
    words = ("package", MODEL, "-o", tmp_path / "out", "--weights", tmp_path / "net.caffemodel")
    finished = explorer_command(*words)
    assert finished.status == 2 and "net.caffemodel" in finished.errors
    assert not (tmp_path / "out").exists()


def test_threads_of_a_target_that_has_none_are_refused(explorer_command, tmp_path):
    words = ("package", MODEL, "-o", tmp_path / "out", "--target", "cortex-m4", "--threads", "2")
    finished = explorer_command(*words)
    assert finished.status == 2 and "cortex-m4 has no threads" in finished.errors
    assert not (tmp_path / "out").exists()


def test_a_target_without_tools_is_null_with_a_reason(explorer_command, tmp_path, monkeypatch):
    monkeypatch.setattr("explorer.packaging.toolchains.compiler_command", lambda target: None)
    words = ("package", MODEL, "-o", tmp_path / "out", "--target", "cortex-m4", "--build", "--json")
    finished = explorer_command(*words)
    assert finished.status == 0
    table = json.loads(finished.output)
    assert table["code_bytes"] is None and table["undefined_symbols"] is None
    assert table["selftest"]["passed"] is None
    assert "install arm-none-eabi-gcc" in table["selftest"]["note"]


def test_inspecting_shows_layers_the_map_and_accuracy(explorer_command, package):
    finished = explorer_command("inspect-package", package, "--no-build")
    assert finished.status == 0
    for word in ("cortex-m4", "all 9 files", "matmul", "offset", "logits: differs", "arena"):
        assert word in finished.output
    table = json.loads(explorer_command("inspect-package", package, "--no-build", "--json").output)
    assert table["changed"] == [] and table["code_bytes"] is None
    assert sum(layer["weights_bytes"] for layer in table["layers"]) > 20_000
    assert {"memory", "accuracy", "files", "note"} <= table.keys()


def test_inspecting_compiles_for_the_bytes_of_code(explorer_command, tmp_path):
    assert explorer_command("package", MODEL, "-o", tmp_path / "out").status == 0
    table = json.loads(explorer_command("inspect-package", tmp_path / "out", "--json").output)
    if table["code_bytes"] is None:  # another format of object files than ELF
        assert table["note"]
        return
    layers = [layer["code_bytes"] for layer in table["layers"]]
    assert all(size > 0 for size in layers) and sum(layers) < table["code_bytes"]


@pytest.mark.parametrize("change", ["a byte", "longer", "missing"])
def test_a_changed_file_is_named(explorer_command, package, tmp_path, change):
    copy = Path(shutil.copytree(package, tmp_path / "copy"))
    file = copy / "src" / "digits_mlp_weights.h"
    if change == "missing":
        file.unlink()
    elif change == "longer":
        file.write_bytes(file.read_bytes() + b"\n")
    else:
        data = bytearray(file.read_bytes())
        data[-20] ^= 1
        file.write_bytes(data)
    finished = explorer_command("inspect-package", copy)
    assert finished.status == 1
    assert "CHANGED src/digits_mlp_weights.h" in finished.output


DAMAGES = {
    "no JSON": lambda text: text[:100],
    "another format": lambda text: text.replace("explorer package", "a package"),
    "no files": lambda text: re.sub(r'"files": \{', '"others": {', text),
    "a path outside": lambda text: text.replace('"selftest.c"', '"../../etc/passwd"'),
    "no numbers": lambda text: re.sub(r'"arena_bytes": \d+', '"arena_bytes": []', text),
    "no layers": lambda text: text.replace('"layers": [', '"layers": [3, '),
    "deep": lambda text: "[" * 100_000,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_manifest_is_one_message(explorer_command, package, tmp_path, damage):
    copy = Path(shutil.copytree(package, tmp_path / "copy"))
    file = copy / "manifest.json"
    file.write_text(DAMAGES[damage](file.read_text()))
    finished = explorer_command("inspect-package", copy, "--no-build")
    assert finished.status == 2 and not finished.output
    assert "manifest" in finished.errors and "Traceback" not in finished.errors


def test_mistakes_end_with_status_2_and_nothing_is_written(explorer_command, package, tmp_path):
    out = tmp_path / "out"
    for words in (
        ("package", MODEL, "-o", package),
        ("package", MODEL, "-o", package.parent, "--force"),
        ("package", MODEL, "-o", tmp_path / "none" / "out"),
        ("package", MODEL, "-o", out, "--name", "a b"),
        ("package", MODEL, "-o", out, "--name", ""),
        ("package", MODEL, "-o", out, "--name", "x*/"),
        ("package", MODEL, "-o", out, "--budget", "100B"),
        ("package", MODEL, "-o", out, "--flash", "100B"),
        ("package", MODEL, "-o", out, "--target", "cortex-m5"),
        ("package", MODEL, "-o", out, "--optimize", "both"),
        ("package", MODEL),
        ("inspect-package", tmp_path / "none"),
        ("inspect-package", tmp_path),
    ):
        finished = explorer_command(*words)
        assert finished.status == 2, words
        assert finished.errors and "Traceback" not in finished.errors, words
    assert list(tmp_path.iterdir()) == []


def test_what_the_page_says_works(explorer_command, tmp_path, monkeypatch):
    import subprocess

    (tmp_path / "sample_models").symlink_to(REPOSITORY / "sample_models")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 2
    for line in "".join(blocks).splitlines():
        words = line.split()
        if words[0] == "explorer":
            assert explorer_command(*words[1:]).status == 0, line
            continue
        finished = subprocess.run(line, shell=True, capture_output=True, text=True, timeout=120)
        assert finished.returncode == 0, finished.stderr
    assert finished.stdout == "2 vectors, ok\n"
