"""Assembly of a program in C: what the compiler that builds the library writes with -S.

The command is that of the library, so compiler and flags are the same. It runs twice, with and
without a line table: links are only kept where both give the same instructions.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection
from pathlib import Path

from explorer.results import Program
from explorer.runtime.assembly.functions import Disassembly, with_lines_if_equal
from explorer.runtime.assembly.listing import parse_listing
from explorer.runtime.compilers import Compiler, compile_shared_library, compiler_for
from explorer.runtime.scratch import own_folder

# The level comes last: -gdwarf-4 alone would ask for level 2, ten times as much text.
LINE_TABLE = ("-gdwarf-4", "-g1")
EXPLAINED = {"gcc": ("-dA",), "clang": ("-fverbose-asm",), "zig": ("-fverbose-asm",)}
"""Debug data with comments that say what each number means."""


def native_functions(
    program: Program, functions: Collection[str], compiler: Compiler | None = None
) -> Disassembly:
    """`functions` as this machine's C compiler assembles them. Takes about two compilations.

    Raises BuildError when the compiler is missing or refuses the program.
    """
    compiler = compiler or compiler_for(program.processor)
    running = _assemble(program, functions, compiler, ("-S",))
    with_lines = functions_with_lines(program, functions, compiler)
    return with_lines_if_equal(running, with_lines, compiler.name)


def functions_with_lines(
    program: Program, functions: Collection[str], compiler: Compiler
) -> Disassembly:
    """`functions` of a build with a line table, of which nothing runs: one compilation.

    Raises BuildError when the compiler refuses the program.
    """
    options = ("-S", *LINE_TABLE, *EXPLAINED[compiler.family])
    return _assemble(program, functions, compiler, options)


def _assemble(
    program: Program, functions: Collection[str], compiler: Compiler, flags: tuple[str, ...]
) -> Disassembly:
    source = "\n".join(program.source.lines) + "\n"
    with tempfile.TemporaryDirectory(prefix="assembly-", dir=own_folder()) as folder:
        # -S ends the command before anything is linked: the file holds text.
        file = compile_shared_library(source, Path(folder), compiler, flags)
        text = file.read_text(encoding="utf-8", errors="replace")
    return Disassembly("assembly", parse_listing(text, f"{file.stem}.c", functions))
