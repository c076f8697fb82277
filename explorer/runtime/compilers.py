"""The C compiler of this machine: find it, learn its flags, make shared libraries with it.

    find_compiler()                        -> Compiler(command=("/usr/bin/cc",), family="gcc", ...)
    compile_shared_library(source, folder) -> folder/program-1f0c9a6e2d5b.so

Looked for in this order: the environment's CC, `cc`, `gcc`, `clang`, and the C compiler inside
the Python package `ziglang`. What CC names is used or refused; it is never replaced in silence.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from explorer.errors import BuildError
from explorer.files import temporary_files
from explorer.logs import logger
from explorer.runtime.core_at_hand import FLAGS_WITHOUT, restrictions_at_hand
from explorer.runtime.processes import run_command
from explorer.runtime.scratch import own_folder

LOG = logger(__name__)

REQUIRED_FLAGS = ("-std=gnu11", "-O2", "-fPIC", "-pthread", "-fwrapv")
"""Without these, what the code generator prints has no meaning or no speed."""

OPTIONAL_FLAGS = (
    "-march=native",
    "-mprefer-vector-width=512",
    "-ffp-contract=fast",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-signed-zeros",
    "-fno-tree-vectorize",  # generated code is vectorized already; gcc's attempts make it slower
    "-fira-region=one",  # gcc otherwise spills the vectors of large register tiles
    "-fno-ipa-modref",  # these two: where one pointer is made from another, gcc 12 finds no stores
    "-fno-ipa-pure-const",  # in a loop that widens numbers, and leaves out the call of its kernel
)
"""Each is used where the compiler knows it. Never -ffast-math: NaN and infinity must survive."""

FLAGS_INSTEAD = {"-march=native": "-mcpu=native"}
"""How some compilers for Arm spell a flag that they refuse."""
NATIVE_FLAGS = ("-march=native", "-mcpu=native")
"""They name the processor of this machine."""
FLAGS_FOR_HERE = frozenset((*NATIVE_FLAGS, *FLAGS_WITHOUT.values()))
"""Those that code for another processor is compiled without."""

FAMILY_FLAGS = {
    "gcc": (),
    "clang": (),
    "zig": ("-fno-sanitize=undefined",),  # zig's own default traps on overflow
}

MAX_PARTS = 8
"""Each reads the headers and the prelude once more: 0.05 s."""

HEADERS = ("math.h", "pthread.h", "sched.h", "semaphore.h", "stdatomic.h", "time.h")

INSTALL_HINT = "install gcc or clang, or `pip install ziglang`, or name a C compiler with CC=..."


@dataclass(frozen=True)
class Compiler:
    command: tuple[str, ...]
    """How to call it; several words for `python -m ziglang cc`."""
    family: str
    """gcc, clang or zig."""
    version: str
    flags: tuple[str, ...]
    """All flags that a program is compiled with."""
    refused_flags: tuple[str, ...]
    """Wanted flags that this compiler does not know."""

    @property
    def name(self) -> str:
        """`gcc 12.2.0`."""
        return f"{self.family} {self.version}"

    @property
    def flags_for_others(self) -> tuple[str, ...]:
        """All flags but those that say what code for this machine may use."""
        return tuple(flag for flag in self.flags if flag not in FLAGS_FOR_HERE)

    @property
    def is_native(self) -> bool:
        """Whether it compiles for this very processor, so that its full SIMD width is there."""
        return "-march=native" in self.flags or "-mcpu=native" in self.flags


def find_compiler(environment: Mapping[str, str] | None = None) -> Compiler:
    """The first compiler that works, by the order at the top of this file.

    `environment` stands in for `os.environ`. Raises `BuildError` with what was tried and why
    each was refused.
    """
    environment = os.environ if environment is None else environment
    if "CC" in environment:
        return _examine(_named_command(environment), environment)
    refusals: list[BuildError] = []
    for command in _candidates(environment):
        try:
            return _examine(command, environment)
        except BuildError as error:
            refusals.append(error)
    if not refusals:
        raise BuildError("no C compiler was found on this machine", hint=INSTALL_HINT)
    raise BuildError(
        "no C compiler works on this machine: " + "; ".join(e.message for e in refusals),
        log="\n".join(f"{e.message}\n{e.log}" for e in refusals),
        hint=INSTALL_HINT,
    )


def compiler_for(processor: str) -> Compiler:
    """The first compiler that works, told to compile for a processor; `native`: for this one.

    Raises `BuildError` where there is none. Whether it knows the processor is seen when it is
    asked for its features, or compiles.
    """
    found = find_compiler()
    if processor in ("", "native"):
        return found
    is_arm = platform.machine().lower() in ("aarch64", "arm64")
    option = "-mcpu" if is_arm and not processor.startswith("armv") else "-march"
    return replace(found, flags=(*found.flags_for_others, f"{option}={processor}"))


def examine_compiler(command: tuple[str, ...]) -> Compiler:
    """A compiler that is called by `command`: its family, version and the flags that it knows.

    Raises `BuildError` when it does not compile an empty program.
    """
    return _examine(command, os.environ)


def candidate_commands(environment: Mapping[str, str]) -> list[tuple[str, ...]]:
    """What is tried, in order, without running any of it: what CC names, or all that exist.

    Raises `BuildError` where there is no program of the name that CC says.
    """
    if "CC" in environment:
        return [_named_command(environment)]
    return list(_candidates(environment))


def compile_shared_library(
    source: str,
    folder: Path,
    compiler: Compiler | None = None,
    flags: Sequence[str] = (),
    time_limit_seconds: float = 300.0,
    parts: int = 1,
    flags_of_first: Sequence[str] = (),
) -> Path:
    """Compile one C source into a shared library inside `folder`; return its path.

    `flags` come after the compiler's own, so they win. The library's name is a digest of source,
    compiler and flags. `parts`: how many compilers share the work, of a source that is made for it
    (`divisible_parts`); `flags_of_first` are for the first of them alone. Several threads may
    compile into the same folder at once. Raises `BuildError` with the compiler's words in `.log`.
    """
    compiler = find_compiler() if compiler is None else compiler
    command = (*compiler.command, *compiler.flags, *flags)
    digest = hashlib.sha256("\0".join([source, compiler.version, *command]).encode()).hexdigest()
    name = f"program-{digest[:12]}"
    with tempfile.TemporaryDirectory(dir=folder, prefix="build-") as build_folder:
        source_file = Path(build_folder, f"{name}.c")
        source_file.write_text(source, encoding="utf-8")
        # Relative names in the build's own folder: the compiler's messages stay short.
        inputs = (*flags_of_first, source_file.name)
        if parts > 1:
            inputs = _compile_parts(
                compiler,
                command,
                source_file,
                parts,
                flags_of_first,
                time_limit_seconds,
            )
        command += ("-shared", "-o", f"{name}.so", *inputs, "-lm")
        _compile(compiler, command, Path(build_folder), time_limit_seconds)
        return Path(build_folder, f"{name}.so").replace(Path(folder, f"{name}.so"))


def divisible_parts(source: str) -> int:
    """Into how many parts a source is best compiled here: 1 where it is not made for more."""
    if "\n#ifndef PARTS\n" not in source:
        return 1
    affinity = getattr(os, "sched_getaffinity", None)
    processors = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    return min(processors, MAX_PARTS)


def _compile_parts(
    compiler: Compiler,
    command: tuple[str, ...],
    source_file: Path,
    parts: int,
    flags_of_first: Sequence[str],
    time_limit_seconds: float,
) -> tuple[str, ...]:
    """Names of the object files; several compilers work at once."""
    from concurrent.futures import ThreadPoolExecutor  # who starts a kept program compiles nothing

    def compile_part(part: int) -> str:
        name = f"part{part}.o"
        own = (*(flags_of_first if part == 0 else ()), f"-DPARTS={parts}", f"-DPART={part}")
        whole = (*command, *own, "-c", "-o", name, source_file.name)
        _compile(compiler, whole, source_file.parent, time_limit_seconds)
        return name

    with ThreadPoolExecutor(parts) as pool:
        return tuple(pool.map(compile_part, range(parts)))


def _compile(
    compiler: Compiler, command: tuple[str, ...], folder: Path, time_limit_seconds: float
) -> None:
    LOG.debug("%s", shlex.join(command))
    try:
        finished = run_command(
            command,
            seconds=time_limit_seconds,
            folder=folder,
            environment={**os.environ, "LC_ALL": "C"},
        )
    except OSError as error:
        raise BuildError(
            f"cannot start the C compiler {shlex.join(compiler.command)}: {error.strerror}",
            hint=INSTALL_HINT,
        ) from error
    except subprocess.TimeoutExpired as error:
        raise BuildError(
            f"{compiler.name} did not finish within {time_limit_seconds:g} s",
            log=shlex.join(command),
            hint="allow more time, or compile a smaller model",
        ) from error
    if finished.status != 0:
        raise BuildError(
            f"{compiler.name} refused the program: {first_error_line(finished.output)}",
            log=f"{shlex.join(command)}\n{finished.output}",
            hint="read the compiler's whole output in this error's `log`",
        )


def first_error_line(log: str) -> str:
    """The line of a compiler's output that says what is wrong, or else its last line."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if re.search(r"\b(error|undefined reference)\b", line)]
    return (errors or lines[-1:] or ["it printed nothing"])[0]


def _named_command(environment: Mapping[str, str]) -> tuple[str, ...]:
    """What CC says, which may be several words (`ccache gcc`), with the program's full path."""
    hint = "correct CC or unset it; " + INSTALL_HINT
    try:
        words = shlex.split(environment["CC"])
    except ValueError as error:  # a quotation that is not closed
        message = f"CC is `{environment['CC']}`, which is no command: {error}"
        raise BuildError(message, hint=hint) from error
    if not words:
        raise BuildError("CC is set and empty: it names no C compiler", hint=hint)
    path = shutil.which(words[0], path=environment.get("PATH"))
    if path is None:
        raise BuildError(
            f"CC names the C compiler `{environment['CC']}`, and there is no such program",
            hint=hint,
        )
    return (str(Path(path).absolute()), *words[1:])


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    """Commands that exist; whether they work is seen by trying, and most often the first does."""
    for name in ("cc", "gcc", "clang"):
        path = shutil.which(name, path=environment.get("PATH"))
        if path is not None:
            yield (path,)
    if importlib.util.find_spec("ziglang") is not None:
        yield (sys.executable, "-m", "ziglang", "cc")


def _examine(command: tuple[str, ...], environment: Mapping[str, str]) -> Compiler:
    """Ask a compiler for its version and which flags it knows; asked again when it changed."""
    wanted = (*OPTIONAL_FLAGS, *restrictions_at_hand())
    try:
        changed_ns = os.stat(command[0]).st_mtime_ns
    except OSError:
        changed_ns = 0
    # A test's name says nothing to a compiler, and would make every question a new one.
    variables = {k: v for k, v in environment.items() if not k.startswith("PYTEST_")}
    return _examine_once(command, tuple(sorted(variables.items())), changed_ns, wanted)


@lru_cache(maxsize=16)
def _examine_once(
    command: tuple[str, ...],
    variables: tuple[tuple[str, str], ...],
    changed_ns: int,
    wanted: tuple[str, ...],
) -> Compiler:
    """`changed_ns`: when the compiler's file was written; `wanted`: flags that it may refuse.

    An error is not kept.
    """
    environment = dict(variables)
    status, text = _ask((*command, "--version"), environment)
    if status != 0:
        raise BuildError(f"`{shlex.join(command)} --version` failed", log=text, hint=INSTALL_HINT)
    family = _family(command, text)
    base = (*REQUIRED_FLAGS, *FAMILY_FLAGS[family])
    accepted, refused = _learn_flags(command, base, wanted, environment)
    return Compiler(command, family, _version(text), (*base, *accepted), refused)


def _family(command: tuple[str, ...], version_text: str) -> str:
    if "zig" in Path(command[0]).name or "ziglang" in command:
        return "zig"
    return "clang" if "clang" in version_text else "gcc"


def _version(version_text: str) -> str:
    """`12.2.0` from `gcc (Debian 12.2.0-14) 12.2.0`, `15.0.0` from `Apple clang version 15.0.0`."""
    found = re.search(r"(?:version|\)) (\d+(?:\.\d+)*)", version_text)
    return found.group(1) if found else version_text.split("\n")[0].strip()


def _learn_flags(
    command: tuple[str, ...],
    base: tuple[str, ...],
    wanted: tuple[str, ...],
    environment: Mapping[str, str],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(wanted flags that the compiler knows, flags that it refused)."""
    with (
        temporary_files(),
        tempfile.TemporaryDirectory(prefix="compiler-", dir=own_folder()) as folder,
    ):
        # -Werror: clang only warns of a flag that it ignores.
        check = (*command, "-Werror", *base, "-c", "-o", str(Path(folder, "flags.o")))
        file = Path(folder, "flags.c")
        file.write_text("".join(f"#include <{header}>\n" for header in HEADERS))

        def is_accepted(*flags: str) -> bool:
            return _ask((*check, *flags, str(file)), environment)[0] == 0

        if is_accepted(*wanted):
            return wanted, ()
        status, text = _ask((*check, str(file)), environment)
        if status != 0:
            raise BuildError(
                f"`{shlex.join(command)}` cannot compile an empty program: "
                f"{first_error_line(text)}",
                log=text,
                hint="install the C library's headers (Debian: libc6-dev), or " + INSTALL_HINT,
            )
        accepted = []
        refused = []
        for flag in wanted:
            spellings = [flag, FLAGS_INSTEAD.get(flag, flag)]
            known = next((spelling for spelling in spellings if is_accepted(spelling)), None)
            (refused if known is None else accepted).append(known or flag)
        return tuple(accepted), tuple(refused)


def _ask(command: tuple[str, ...], environment: Mapping[str, str]) -> tuple[int, str]:
    """Status and output of a short call of a compiler."""
    try:
        # A minute: the first call of zig unpacks its C library.
        finished = run_command(command, seconds=60.0, environment={**environment, "LC_ALL": "C"})
    except OSError as error:
        raise BuildError(
            f"cannot start the C compiler `{command[0]}`: {error.strerror}", hint=INSTALL_HINT
        ) from error
    except subprocess.TimeoutExpired as error:
        raise BuildError(f"`{shlex.join(command)}` did not answer", hint=INSTALL_HINT) from error
    return finished.status, finished.output
