"""Compilers and emulators of packages: those that are installed build and run them."""

from __future__ import annotations

import importlib.util
import re
import shutil
from pathlib import Path

import pytest

import explorer
from explorer.packaging.objects import read_object
from explorer.packaging.toolchains import build_package, compiler_command, runner_command
from explorer.targets import list_targets, load_target
from tests.packaging.building import MODELS, STRICT, run

PACKAGED = [name for name in list_targets() if load_target(name).package.triple]
FLOATS = re.compile(r"__aeabi_[fd]|__aeabi_[iul]+2[fd]|__(?:add|mul|div|float)\w*[sd]f")


@pytest.mark.sweep
@pytest.mark.parametrize("target", PACKAGED)
@pytest.mark.parametrize("model", ["digits_mlp", "digits_cnn", "digits_transformer"])
def test_packages_pass_their_self_test_where_tools_are(packaged, model, target):
    chosen = load_target(target)
    if compiler_command(chosen) is None or runner_command(chosen) is None:
        pytest.skip("a compiler or an emulator of another machine is not installed")
    build = build_package(packaged(model, target), model, chosen)
    assert build.passed, build.note
    assert build.static_bytes in (0, None)


@pytest.mark.parametrize("target", ["cortex-m4", "cortex-m0"])
def test_a_microcontroller_runs_a_package(packaged, target):
    chosen = load_target(target)
    if compiler_command(chosen) is None or runner_command(chosen) is None:
        pytest.skip("a compiler or an emulator of another machine is not installed")
    build = build_package(packaged("digits_mlp", target), "digits_mlp", chosen)
    assert build.passed, build.note
    assert build.code_bytes is not None and build.code_bytes < 12 * 1024
    assert build.static_bytes == 0
    # 26,000 multiply-adds, and what surrounds each of them
    assert build.instructions is not None and 26_000 < build.instructions < 26_000 * 400


def test_what_no_emulator_runs_is_none_with_the_reason(packaged, monkeypatch):
    chosen = load_target("cortex-m4")
    monkeypatch.setattr("explorer.packaging.toolchains.compiler_command", lambda target: ("cc",))
    monkeypatch.setattr("explorer.packaging.toolchains.runner_command", lambda target: None)
    monkeypatch.setattr("explorer.packaging.toolchains._flags", lambda *given: ("-std=c99",))
    monkeypatch.setattr("explorer.packaging.toolchains._board_sources", lambda *given: ())
    monkeypatch.setattr("explorer.packaging.toolchains._link_flags", lambda target: ())
    build = build_package(packaged("digits_mlp", "cortex-m4"), "digits_mlp", chosen)
    assert build.passed is None and build.code_bytes
    assert build.note == "the self-test was not run: there is no qemu-system-arm"


def test_a_self_test_that_fails_is_reported(packaged, copied):
    folder = copied(packaged("digits_mlp"))
    text = (folder / "selftest.c").read_text()
    (folder / "selftest.c").write_text(re.sub(r"(out1_0\[10\] = \{\s+)", r"\g<1>1e9f, ", text))
    text = (folder / "selftest.c").read_text().replace("out1_0[10]", "out1_0[11]")
    (folder / "selftest.c").write_text(text)
    build = build_package(folder, "digits_mlp", load_target("cpu"))
    assert build.passed is False and "vector 1: output 0 is wrong" in build.note


def test_a_package_that_does_not_compile_is_reported(packaged, copied):
    folder = copied(packaged("digits_mlp"))
    (folder / "src" / "digits_mlp.c").write_text("#error no program\n")
    build = build_package(folder, "digits_mlp", load_target("cpu"))
    assert build.passed is None and build.code_bytes is None
    assert "no program" in build.note


@pytest.mark.parametrize("target", ["cpu", "cortex-m0"])
@pytest.mark.parametrize("compiler", ["clang", "zig"])
def test_other_compilers_build_packages(packaged, built, compiler, target):
    command = {"clang": "clang", "zig": "python -m ziglang cc"}[compiler]
    has = shutil.which("clang") if compiler == "clang" else importlib.util.find_spec("ziglang")
    if not has:
        pytest.skip(f"{compiler} is not installed")
    folder = packaged("digits_transformer", target)
    if target == "cpu":
        assert run(built(folder, "-Werror", cc=command) / "selftest") == "2 vectors, ok\n"
        return
    source = folder / "src" / "digits_transformer.c"
    run(*command.split(), "-std=c99", "-fwrapv", *STRICT, "-Os", f"-I{folder / 'include'}",
        folder / "selftest.c", source, "-lm", "-o", folder.parent / "program")  # fmt: skip
    assert run(folder.parent / "program") == "2 vectors, ok\n"


def test_cmake_builds_and_tests_a_package(packaged, tmp_path):
    if shutil.which("cmake") is None:
        pytest.skip("cmake is not installed")
    run("cmake", "-S", packaged("digits_mlp"), "-B", tmp_path)
    run("cmake", "--build", tmp_path)
    run("ctest", "--test-dir", tmp_path)


def test_an_integer_model_has_no_float_instruction(tmp_path):
    if compiler_command(load_target("cortex-m0")) is None:
        pytest.skip("a compiler or an emulator of another machine is not installed")
    c = explorer.compile(MODELS / "roundings_int8.tflite", target="cortex-m0")
    folder = c.package(tmp_path / "package")
    build = build_package(folder, "roundings_int8", c.target)
    assert build.undefined_symbols is not None
    assert not [name for name in build.undefined_symbols if FLOATS.match(name)]
    assert build.passed is not False, build.note


def test_symbols_of_an_object_file(tmp_path):
    (tmp_path / "a.c").write_text(
        "extern int other(int); static const int table[3] = {1, 2, 3}; int written = 7, zero[5];\n"
        "__attribute__((noinline)) static int local(int x) { return table[x % 3] * other(x); }\n"
        "int shared(int x) { return local(x) + written++ + zero[x % 5]; }\n"
    )
    run("cc", "-O1", "-fno-pic", "-c", tmp_path / "a.c", "-o", tmp_path / "a.o")
    found = read_object(tmp_path / "a.o")
    assert found.defined == ("shared", "written", "zero")
    assert found.undefined == ("other",)
    assert {"shared", "local"} <= {name.split(".")[0] for name in found.functions}
    assert found.constants["table"] == 12
    assert found.written_bytes == 24
    assert 0 < sum(found.functions.values()) <= found.code_bytes


@pytest.mark.parametrize("length", [0, 3, 20, 64, 500])
def test_a_damaged_object_file_is_refused(tmp_path, length):
    path = Path(tmp_path, "a.o")
    (tmp_path / "a.c").write_text("int shared(int x) { return x; }\n")
    run("cc", "-c", tmp_path / "a.c", "-o", path)
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(explorer.ExplorerError):
        read_object(path)
