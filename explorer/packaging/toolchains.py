"""Compiles a package for its target and runs its self-test, where the tools for that are installed.

In this order: the target's own cross compiler (`package.compiler`), the C compiler at hand where
the target is the machine at hand, zig, which compiles for all (PyPI's `ziglang`). What runs
programs of other machines is the target's `package.runner`: qemu, or wasmtime.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from explorer.backends import backend_of
from explorer.errors import BuildError, InputError
from explorer.packaging.building import REQUIRED_FLAGS, flags_of
from explorer.packaging.kernels import runner_name
from explorer.packaging.objects import read_object
from explorer.results.package import PackageBuild
from explorer.runtime.compilers import first_error_line
from explorer.runtime.processes import FinishedCommand, run_command
from explorer.targets import Target

BUILD_SECONDS = 300.0
RUN_SECONDS = 120.0
INSTRUCTIONS_PER_TICK = 40
MAX_LINES = 5
"""Of what a self-test that fails has printed."""
HERE = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}


def build_package(
    folder: Path, name: str, target: Target, runs: bool = True, threads: int = 1
) -> PackageBuild:
    """What the target's compiler makes of the package, and whether its self-test passes.

    Nothing is written into the package: all is built in a temporary folder. `runs`: with the
    self-test. threads: that share a run. What could not be done is None, with the reason.
    """
    command = compiler_command(target)
    if command is None:
        return PackageBuild(note=f"there is no compiler for {target.name}: {_wanted(target)}")
    flags = _flags(command, target, threads)
    with tempfile.TemporaryDirectory(prefix="explorer-package-") as built:
        library = Path(built, "library.o")
        source = (str(folder / "src" / f"{name}.c"),)
        base = (*command, *flags, f"-I{folder / 'include'}", f"-I{folder / 'src'}")
        try:
            finished = _run((*base, "-c", "-o", str(library), *source), BUILD_SECONDS)
        except BuildError as error:
            return PackageBuild(compiler=" ".join(command), note=error.message)
        if finished.status != 0:
            why = first_error_line(finished.output)
            return PackageBuild(compiler=" ".join(command), note=f"it does not compile: {why}")
        found = _sizes(library, name)
        found = replace(found, compiler=_shown(command))
        if not runs:
            return replace(found, note="the self-test was not run")
        return _tested(found, base, library, folder, name, target)


def compiler_command(target: Target) -> tuple[str, ...] | None:
    """How the compiler for the target is called; None where none is installed."""
    rules = target.package
    if rules.compiler and shutil.which(rules.compiler):
        return (rules.compiler,)
    if is_at_hand(target):
        words = os.environ.get("CC", "").split() or ["cc"]
        if shutil.which(words[0]):
            return tuple(words)
    zig = _zig()
    if zig is None or (rules.triple.endswith("-eabi") and not is_at_hand(target)):
        return None  # zig has no C library for machines without an operating system
    triple = ("-target", rules.triple) if rules.triple else ()
    return (*zig, "cc", *triple)


def is_at_hand(target: Target) -> bool:
    """Whether its programs run here: its machine is this one."""
    machine = HERE.get(platform.machine().lower(), "")
    return not target.package.triple or target.package.triple.startswith(f"{machine}-linux")


def _zig() -> tuple[str, ...] | None:
    if importlib.util.find_spec("ziglang") is not None:
        return (sys.executable, "-m", "ziglang")
    found = shutil.which("zig")
    return None if found is None else (found,)


def _wanted(target: Target) -> str:
    own = target.package.compiler
    if target.package.triple.endswith("-eabi"):
        return f"install {own}"
    return f"install {own or 'a C compiler'}, or `pip install ziglang`"


def _flags(command: tuple[str, ...], target: Target, threads: int) -> tuple[str, ...]:
    """The Makefile's; of those that not all compilers know, the ones that this one knows."""
    chosen, optional = flags_of(target, threads)
    known = [flag for flag in optional if _accepts(command, flag)]
    return (*REQUIRED_FLAGS, *chosen, *known)


@lru_cache(maxsize=256)
def _accepts(command: tuple[str, ...], flag: str) -> bool:
    try:
        words = (*command, "-Werror", flag, "-S", "-o", "-", "-x", "c", os.devnull)
        return _run(words, BUILD_SECONDS).status == 0
    except BuildError:
        return False


def _shown(command: Sequence[str]) -> str:
    """Without the path of this Python."""
    return " ".join("python" if word == sys.executable else word for word in command)


def _sizes(library: Path, name: str) -> PackageBuild:
    try:
        found = read_object(library)
    except InputError:
        return PackageBuild(note="its object file is in another format than ELF and WebAssembly")
    weights = sum(size for text, size in found.constants.items() if text == f"{name}_weights")
    functions = sorted(found.functions.items(), key=lambda item: (-item[1], item[0]))
    return PackageBuild(
        code_bytes=found.code_bytes + found.constant_bytes - weights,
        static_bytes=found.written_bytes,
        function_bytes=tuple(functions),
        undefined_symbols=found.undefined,
    )


def _tested(
    found: PackageBuild, base: Sequence[str], library: Path, folder: Path, name: str, target: Target
) -> PackageBuild:
    """With the self-test linked next to the library, and run."""
    program = library.parent / "selftest"
    words = (*base, "-o", str(program), str(folder / "selftest.c"), str(library))
    words += (*_board_sources(target, f"{name}_run"), *_link_flags(target))
    try:
        finished = _run(words, BUILD_SECONDS)
        if finished.status != 0:
            why = first_error_line(finished.output)
            return replace(found, note=f"the self-test does not link: {why}")
        runner = runner_command(target)
        if runner is None:
            wanted = target.package.runner[0]
            return replace(found, note=f"the self-test was not run: there is no {wanted}")
        finished = _run((*runner, str(program)), RUN_SECONDS, folder)
    except BuildError as error:
        return replace(found, note=error.message)
    said = "; ".join(finished.output.splitlines()[:MAX_LINES]) or "it printed nothing"
    return replace(
        found,
        passed=finished.status == 0,
        instructions=_instructions(finished.output),
        note="" if finished.status == 0 else f"the self-test: {said}",
    )


def _instructions(output: str) -> int | None:
    """Of a run, from the ticks that a board's program prints (`boards/cortex_m.c`)."""
    ticks = re.search(r"^ticks (\d+)$", output, re.MULTILINE)
    return None if ticks is None else int(ticks.group(1)) * INSTRUCTIONS_PER_TICK


def _link_flags(target: Target) -> tuple[str, ...]:
    own = ("-lOpenCL",) if backend_of(target).needs_host_program else ()
    return (*target.package.link_flags, *own, "-lm")


def _board_sources(target: Target, function: str) -> tuple[str, ...]:
    """What starts a program, and counts the instructions of the function."""
    board = target.package.board
    if not board:
        return ()
    files = Path(__file__).parent / "boards"
    wraps = (f"-DRUN={function}", f"-Wl,--wrap={function}")
    return (*wraps, str(files / f"{board}.c"), "-T", str(files / f"{board}.ld"), "-nostartfiles")


def runner_command(target: Target) -> tuple[str, ...] | None:
    """What runs the target's programs here; None where it is not installed."""
    if is_at_hand(target) or not target.package.runner:
        return ()
    first, *rest = target.package.runner
    path = shutil.which(first)
    if path is not None:
        return (path, *rest)
    if first == "wasmtime" and importlib.util.find_spec("wasmtime") is not None:
        return (sys.executable, "-m", "explorer.packaging.wasm")
    return None


def _run(command: Sequence[str], seconds: float, folder: Path | None = None) -> FinishedCommand:
    try:
        environment = {**os.environ, "LC_ALL": "C"}
        return run_command(command, seconds=seconds, folder=folder, environment=environment)
    except OSError as error:
        raise BuildError(f"{command[0]} cannot be started: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise BuildError(f"{command[0]} did not end within {seconds:g} s") from error


def code_of_kernel(build: PackageBuild, functions: Sequence[str], kernel: str) -> int | None:
    """Bytes of a kernel's functions, which compilers may have joined; None where nobody knows."""
    if build.code_bytes is None:
        return None
    wanted = {*functions, runner_name(kernel)}
    return sum(size for name, size in build.function_bytes if name.split(".")[0] in wanted)
