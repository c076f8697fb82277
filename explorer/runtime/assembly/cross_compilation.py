"""Cross-compilation of a kernel: its assembly by another compiler, or for another processor.

    Build("zig", "NEON", "-O2")     ->  aarch64's fmla in place of x86's vfmadd231ps

Only the kernel is compiled, with the prelude that it needs, and only to assembly: nothing is linked
and nothing runs. Compilers that are not there say how to get them; what one writes when it refuses
is an error's log.
"""

from __future__ import annotations

import importlib.util
import platform
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from explorer.errors import BuildError
from explorer.results import KernelRecord, Program, SourceText
from explorer.runtime.assembly.attribution import KernelAssembly, assign
from explorer.runtime.assembly.native import functions_with_lines
from explorer.runtime.compilers import Compiler, examine_compiler

COMPILERS = ("gcc", "clang", "zig")
LEVELS = ("-O2", "-O1", "-O3", "-Os", "-Ofast")
INSTALL = {
    "gcc": "install gcc (Debian: apt install gcc)",
    "clang": "install clang (Debian: apt install clang)",
    "zig": "`pip install ziglang`: it is a compiler for all of these processors at once",
}


@dataclass(frozen=True)
class InstructionSet:
    """Whose instructions are wanted, in the words of each compiler."""

    architecture: str
    """As `platform.machine` names it."""
    flags: tuple[str, ...]
    """Of gcc and clang."""
    zig: tuple[str, ...]
    cross: str = ""
    """The first words of the names of gcc's cross compilers."""


_X86 = ("-target", "x86_64-linux-musl")
INSTRUCTION_SETS = {
    "SSE2": InstructionSet(
        "x86_64", ("-march=x86-64",), (*_X86, "-mcpu=x86_64"), "x86_64-linux-gnu"
    ),
    "AVX2": InstructionSet(
        "x86_64", ("-march=x86-64-v3",), (*_X86, "-mcpu=x86_64_v3"), "x86_64-linux-gnu"
    ),
    "AVX-512": InstructionSet(
        "x86_64", ("-march=x86-64-v4",), (*_X86, "-mcpu=x86_64_v4"), "x86_64-linux-gnu"
    ),
    "NEON": InstructionSet(
        "aarch64", ("-march=armv8.2-a",), ("-target", "aarch64-linux-musl"), "aarch64-linux-gnu"
    ),
    "RVV": InstructionSet(
        "riscv64",
        ("-march=rv64gcv",),
        ("-target", "riscv64-linux-musl", "-mcpu=baseline_rv64+v"),
        "riscv64-linux-gnu",
    ),
}


@dataclass(frozen=True)
class Build:
    """What a kernel is compiled with."""

    compiler: str
    """One of `COMPILERS`."""
    instruction_set: str
    """A name in `INSTRUCTION_SETS`."""
    level: str = "-O2"
    """One of `LEVELS`."""

    def __post_init__(self) -> None:
        if self.compiler not in COMPILERS:
            raise BuildError(f"{self.compiler!r} is none of {', '.join(COMPILERS)}")
        if self.instruction_set not in INSTRUCTION_SETS:
            names = ", ".join(INSTRUCTION_SETS)
            raise BuildError(f"{self.instruction_set!r} is none of {names}")
        if self.level not in LEVELS:
            raise BuildError(f"{self.level!r} is none of {', '.join(LEVELS)}")

    @property
    def architecture(self) -> str:
        return INSTRUCTION_SETS[self.instruction_set].architecture


@dataclass(frozen=True)
class CrossCompiled:
    compiler: str
    """`gcc 12.2.0`."""
    command: tuple[str, ...]
    """With all flags, and the compiler's name without its folder."""
    assembly: KernelAssembly


def compiler_of(build: Build) -> Compiler:
    """The compiler with all flags for what is wanted.

    Raises:
        BuildError: where it is not installed, or cannot compile for that processor.
    """
    wanted = INSTRUCTION_SETS[build.instruction_set]
    return cross_compiler(build.compiler, wanted, build.instruction_set, (build.level,))


def cross_compiler(
    name: str, wanted: InstructionSet, title: str, flags: Sequence[str] = ()
) -> Compiler:
    """One of `COMPILERS` for other instructions than this machine's, which are called `title`.

    Raises:
        BuildError: where it is not installed, or cannot compile for that processor.
    """
    is_native = wanted.architecture == platform.machine()
    own: tuple[str, ...] = wanted.flags
    if name == "zig":
        path = shutil.which("zig")
        if path is None and importlib.util.find_spec("ziglang") is None:
            raise _missing(name, title, "zig")
        begin = (path,) if path is not None else (sys.executable, "-m", "ziglang")
        command, own = (*begin, "cc", *wanted.zig), ()
    elif name == "clang":
        path = shutil.which("clang")
        if path is None:
            raise _missing(name, title, "clang")
        command = (path,) if is_native else (path, f"--target={wanted.cross}")
    else:
        program = "gcc" if is_native else f"{wanted.cross}-gcc"
        path = shutil.which(program)
        if path is None:
            raise _missing(name, title, program)
        command = (path,)
    found = examine_compiler(command)
    return replace(found, flags=(*found.flags_for_others, *own, *flags))


def _missing(compiler: str, title: str, name: str) -> BuildError:
    hint = INSTALL[compiler]
    if name.endswith("-gcc"):
        hint = f"install gcc for it (Debian: apt install gcc-{name.removesuffix('-gcc')})"
        hint += f"; or {INSTALL['zig']}"
    return BuildError(f"there is no {name} on this machine for {title}", hint=hint)


def cross_compile(prelude: Sequence[str], kernel: KernelRecord, build: Build) -> CrossCompiled:
    """The kernel's assembly by another compiler, with its lines linked to the kernel's source.

    `prelude`: what stands before all kernels of the program (`Program.prelude`).

    Raises:
        BuildError: where the compiler is missing or refuses the kernel; its words are in `.log`.
    """
    compiler = compiler_of(build)
    program = alone(prelude, kernel)
    functions = [phase.function for phase in kernel.phases]
    assembly = assign(program, functions_with_lines(program, functions, compiler))[kernel.name]
    first, *words = compiler.command
    command = (Path(first).name, *words, *compiler.flags)
    return CrossCompiled(compiler.name, command, assembly)


def alone(prelude: Sequence[str], kernel: KernelRecord) -> Program:
    """A program of one kernel that nobody calls; its functions are kept for being looked at."""
    names = ", ".join(f"(void *){phase.function}" for phase in kernel.phases)
    lines = (*prelude, *kernel.source.lines, "", f"void *explorer_looked_at[] = {{{names}}};")
    owners = (*(() for _ in prelude), *kernel.source.owners, (), ())
    return Program(
        target="cpu",
        source=SourceText(kernel.source.language, lines, owners),
        kernels=(kernel,),
        launches=(),
        inputs=(),
        outputs=(),
        taps=(),
        weights=(),
        arena_bytes=0,
        weights_bytes=0,
    )
