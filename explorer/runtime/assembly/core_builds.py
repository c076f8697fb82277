"""The compiler with the flags that make code for a core, of this machine or of another one.

    build_for(core_family("sapphire_rapids"))  -> gcc -march=sapphirerapids
    build_for(core_family("zen4"))             -> gcc 12, which has no znver4: -march=x86-64-v4
                                                     -mavx512vnni -mavx512bf16 -mtune=znver3
    build_for(core_family("neoverse_v1"))      -> python -m ziglang cc -mcpu=neoverse_v1

What it makes for another architecture is looked at, and never runs here.
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from explorer.errors import BuildError
from explorer.runtime.assembly.analysis import OLDER_FAMILIES
from explorer.runtime.assembly.cross_compilation import (
    COMPILERS,
    InstructionSet,
    cross_compiler,
)
from explorer.runtime.compilers import Compiler, compiler_for, find_compiler
from explorer.runtime.processes import run_command
from explorer.targets.core_families import CoreFamily, architecture_here

CROSS = {"x86_64": "x86_64-linux-gnu", "aarch64": "aarch64-linux-gnu"}
ASKING_SECONDS = 60.0
PROCESSOR_FLAGS = ("-march=", "-mcpu=")
_EXTENSIONS = {
    "x86_64": {
        "avx512_vnni": "-mavx512vnni", "avx_vnni": "-mavxvnni", "avx512_bf16": "-mavx512bf16",
        "avx512_fp16": "-mavx512fp16",
    },
    "aarch64": {"dotprod": "+dotprod", "i8mm": "+i8mm", "bf16": "+bf16"},
}  # fmt: skip
"""How gcc and clang call what a core has beyond its level."""


@dataclass(frozen=True)
class CoreBuild:
    """A compiler for a core."""

    compiler: Compiler
    flags: tuple[str, ...]
    """Those that name the core."""
    note: str = ""
    """What stands in for its name; empty where the compiler knows the core."""

    @property
    def title(self) -> str:
        """`gcc 12.2.0 -march=haswell`."""
        return f"{self.compiler.name} {shlex.join(self.flags)}"


def build_as_here(processor: str) -> CoreBuild:
    """The build with which a program runs here: of this processor, or of one that it can stand for.

    `processor`: that of the target, `native` or as a C compiler calls it.
    """
    compiler = compiler_for(processor)
    return CoreBuild(compiler, tuple(f for f in compiler.flags if f.startswith(PROCESSOR_FLAGS)))


def build_for(family: CoreFamily) -> CoreBuild:
    """This machine's compiler where the core has its architecture, else a cross compiler.

    Raises BuildError where there is none, with how to get one.
    """
    is_here = family.architecture == architecture_here()
    if is_here:
        found = find_compiler()
        return _build(replace(found, flags=found.flags_for_others), family)
    refusals: list[BuildError] = []
    for name in COMPILERS:
        words = _zig_words(family) if name == "zig" else ()
        wanted = InstructionSet(family.architecture, (), words, CROSS[family.architecture])
        try:
            compiler = cross_compiler(name, wanted, family.title)
            return CoreBuild(compiler, words) if words else _build(compiler, family)
        except BuildError as error:
            refusals.append(error)
    raise BuildError(
        "; ".join(dict.fromkeys(error.message for error in refusals)), hint=refusals[-1].hint
    )


def name_of_processor(family: CoreFamily) -> str:
    """What this machine's compiler calls the core; empty where it has no name for it, or where
    there is no compiler."""
    with contextlib.suppress(BuildError):
        (name, *_) = *family.families, ""
        option = "-march" if family.architecture == "x86_64" else "-mcpu"
        return name if name and _knows(find_compiler(), f"{option}={name}") else ""
    return ""


def _zig_words(family: CoreFamily) -> tuple[str, ...]:
    """Zig writes LLVM's names with an underscore."""
    cpu = family.families[0].replace("-", "_") if family.families else "baseline"
    return ("-target", f"{family.architecture}-linux-musl", f"-mcpu={cpu}")


def _build(compiler: Compiler, family: CoreFamily) -> CoreBuild:
    option = "-march" if family.architecture == "x86_64" else "-mcpu"
    if family.families and _knows(compiler, f"{option}={family.families[0]}"):
        flags = (f"{option}={family.families[0]}",)
        return CoreBuild(replace(compiler, flags=(*compiler.flags, *flags)), flags)
    flags = tuple(_by_features(compiler, family))
    note = f"{compiler.name} does not know {', '.join(family.families[:1]) or family.name}: "
    note += f"compiled with {shlex.join(flags)}"
    return CoreBuild(replace(compiler, flags=(*compiler.flags, *flags)), flags, note)


def _by_features(compiler: Compiler, family: CoreFamily) -> list[str]:
    """A level of the architecture with what the core has beyond it, tuned for an older one."""
    has = _EXTENSIONS[family.architecture]
    extensions = [flag for name, flag in has.items() if name in family.features]
    if family.architecture == "aarch64":
        return ["-march=armv8.2-a" + "".join(extensions)]
    level = "x86-64"
    if {"avx2", "fma"} <= set(family.features):
        level = "x86-64-v4" if "avx512" in family.features else "x86-64-v3"
    flags = [f"-march={level}", *(flag for flag in extensions if _knows(compiler, flag))]
    older = OLDER_FAMILIES.get(family.families[0], ()) if family.families else ()
    tune = next((name for name in older if _knows(compiler, f"-mtune={name}")), "")
    return [*flags, f"-mtune={tune}"] if tune else flags


def _knows(compiler: Compiler, flag: str) -> bool:
    return _accepts(compiler.command, (flag,))


@lru_cache(maxsize=256)
def _accepts(command: tuple[str, ...], flags: Sequence[str]) -> bool:
    words = (*command, "-Werror", *flags, "-E", "-x", "c", "/dev/null")
    return run_command(words, seconds=ASKING_SECONDS).status == 0
