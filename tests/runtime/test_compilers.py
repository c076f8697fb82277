"""Finding the C compiler, its flags, and what is said when it is missing or refuses."""

import concurrent.futures
import ctypes
import os
import shutil
import stat
import time
from pathlib import Path

import pytest

from explorer.errors import BuildError
from explorer.runtime.compilers import OPTIONAL_FLAGS, compile_shared_library, find_compiler


def executable(path: Path, script: str) -> Path:
    path.write_text("#!/bin/sh\n" + script)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def is_running(process: int) -> bool:
    """Neither gone nor a zombie that its new parent has not collected yet."""
    try:
        status = Path(f"/proc/{process}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def call(library: Path) -> int:
    return ctypes.CDLL(str(library)).answer()


def test_the_compiler_says_what_it_is():
    compiler = find_compiler()
    assert compiler.family in ("gcc", "clang", "zig")
    assert compiler.version[0].isdigit()
    assert compiler.name == f"{compiler.family} {compiler.version}"
    assert set(compiler.refused_flags) | set(compiler.flags) >= set(OPTIONAL_FLAGS)
    assert "-ffast-math" not in compiler.flags


def test_a_compiler_named_by_cc_is_never_replaced_in_silence():
    with pytest.raises(BuildError) as caught:
        find_compiler({"CC": "/nonexistent", "PATH": os.environ["PATH"]})
    assert str(caught.value).startswith(
        "CC names the C compiler `/nonexistent`, and there is no such program; try: correct CC"
    )


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ('gcc "x', 'CC is `gcc "x`, which is no command: No closing quotation'),
        ("", "CC is set and empty: it names no C compiler"),
        ("  ", "CC is set and empty: it names no C compiler"),
    ],
)
def test_what_cc_says_must_be_a_command(command, message):
    with pytest.raises(BuildError) as caught:
        find_compiler({"CC": command, "PATH": os.environ["PATH"]})
    assert caught.value.message == message
    assert caught.value.hint.startswith("correct CC or unset it")


def test_cc_may_have_several_words():
    compiler = find_compiler({**os.environ, "CC": "cc -pipe"})
    assert compiler.command == (shutil.which("cc"), "-pipe")


def test_no_compiler_at_all(monkeypatch, tmp_path):
    """An empty PATH, and no ziglang among Python's packages."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(BuildError) as caught:
        find_compiler({"PATH": str(tmp_path)})
    assert str(caught.value) == (
        "no C compiler was found on this machine; try: install gcc or clang, or "
        "`pip install ziglang`, or name a C compiler with CC=..."
    )


def test_flags_that_a_compiler_refuses_are_left_out_and_listed(tmp_path):
    """A compiler for Arm, say, knows neither -march=native nor vector widths."""
    real = shutil.which("cc")
    fake = executable(
        tmp_path / "cc",
        'for flag; do case "$flag" in\n'
        "-march=native | -mprefer-vector-width=*) echo unknown flag; exit 1;;\n"
        "-mcpu=native) known=yes;;\n"
        "esac; done\n"
        f'[ "$known" ] && exit 0\nexec {real} "$@"\n',
    )
    compiler = find_compiler({"CC": str(fake), "PATH": os.environ["PATH"]})
    assert compiler.refused_flags == ("-mprefer-vector-width=512",)
    assert "-mcpu=native" in compiler.flags
    assert "-march=native" not in compiler.flags
    assert "-ffp-contract=fast" in compiler.flags
    assert compiler.is_native


def test_a_compiler_without_headers_is_refused_in_its_words(tmp_path):
    fake = executable(
        tmp_path / "cc",
        'if [ "$1" = --version ]; then echo "cc (GCC) 1.2.3"; exit 0; fi\n'
        "echo 'flags.c:1:10: fatal error: math.h: No such file'; exit 1\n",
    )
    with pytest.raises(BuildError, match=r"fatal error: math\.h: No such file") as caught:
        find_compiler({"CC": str(fake)})
    assert "libc6-dev" in caught.value.hint


def test_the_library_works_and_nothing_else_is_left(tmp_path):
    library = compile_shared_library("int answer(void) { return 42; }", tmp_path)
    assert call(library) == 42
    assert list(tmp_path.iterdir()) == [library]


def test_flags_of_the_caller_reach_the_compiler(tmp_path):
    library = compile_shared_library(
        "int answer(void) { return VALUE; }", tmp_path, flags=["-DVALUE=7"]
    )
    assert call(library) == 7


def test_several_threads_compile_into_one_folder(tmp_path):
    """Six different sources and the first one twice."""
    compiler = find_compiler()
    values = [0, 1, 2, 3, 4, 5, 0]
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        libraries = list(
            pool.map(
                lambda value: compile_shared_library(
                    f"int answer(void) {{ return {value}; }}", tmp_path, compiler
                ),
                values,
            )
        )
    assert [call(library) for library in libraries] == values
    assert len(list(tmp_path.iterdir())) == 6


def test_a_build_error_shows_the_line_and_keeps_the_log(tmp_path):
    with pytest.raises(BuildError) as caught:
        compile_shared_library("int answer(void) { return missing_name; }", tmp_path)
    assert ":1:27: error:" in str(caught.value)
    assert "missing_name" in str(caught.value)
    assert str(tmp_path) not in str(caught.value)
    assert "missing_name" in caught.value.log
    assert list(tmp_path.iterdir()) == []


def test_a_compiler_that_hangs_is_ended_with_all_its_children(tmp_path):
    """The driver's child holds the output open, as a compiler's back end does."""
    real = find_compiler()
    fake = executable(tmp_path / "slow", f"sleep 60 & echo $! > {tmp_path}/child; wait\n")
    compiler = type(real)((str(fake),), "gcc", "1.0", (), ())
    with pytest.raises(BuildError, match=r"gcc 1\.0 did not finish within 2 s"):
        compile_shared_library("", tmp_path, compiler, time_limit_seconds=2)
    child = int((tmp_path / "child").read_text())
    # A signal is delivered in its own time; the child would sleep for a minute.
    limit = time.monotonic() + 20
    while is_running(child) and time.monotonic() < limit:
        time.sleep(0.02)
    assert not is_running(child)
