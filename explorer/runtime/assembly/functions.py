"""The functions of an assembly listing, with the source lines of every instruction.

.loc 1 65 46                      AssemblyLine("\\tvaddps %zmm1, %zmm0, %zmm0", (64, 159))
vaddps %zmm1, %zmm0, %zmm0   ->
                                  line 65 of the source, inlined by a call at line 160
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class AssemblyLine:
    """An instruction, or a label that something jumps to."""

    text: str
    """Instructions begin with a tab; labels begin at the margin and end with a colon."""
    source_lines: tuple[int, ...] = ()
    """Lines of the translation unit, from 0: the innermost first, then the calls around it."""

    @property
    def is_instruction(self) -> bool:
        return self.text.startswith("\t")


@dataclass(frozen=True)
class AssemblyFunction:
    """A function as the compiler names it: `conv_1_phase0`, or a clone `conv_1_phase0.isra.0`."""

    symbol: str
    lines: tuple[AssemblyLine, ...]

    @property
    def instructions(self) -> tuple[str, ...]:
        return tuple(line.text for line in self.lines if line.is_instruction)


@dataclass(frozen=True)
class Disassembly:
    """What a compiler or driver gave."""

    language: str
    """assembly or ptx."""
    functions: tuple[AssemblyFunction, ...] = ()
    note: str = ""
    """Why there is nothing, or what to know about it; empty where nothing is special."""
    function_notes: tuple[tuple[str, str], ...] = ()
    """What to know about single functions, by their symbols."""


def function_of(symbol: str) -> str:
    """The function in the source that a symbol stands for: `f` for `f.constprop.0`, `f.cold`."""
    return symbol.partition(".")[0]


def with_lines_if_equal(
    running: Disassembly, with_lines: Disassembly, maker: str = "the compiler"
) -> Disassembly:
    """What runs, with the line table of a second compilation where that made the same code.

    Asking for a line table must not change an instruction. Where it did in a function, its links
    would be of another program, so that one is shown without any.
    """
    twins = {function.symbol: function for function in with_lines.functions}
    functions: list[AssemblyFunction] = []
    notes: list[tuple[str, str]] = []
    for function in running.functions:
        twin = twins.get(function.symbol)
        if twin is not None and twin.instructions == function.instructions:
            functions.append(twin)
            continue
        functions.append(without_lines(function))
        reason = f"{maker} makes other code of {function.symbol} when it writes a line table"
        notes.append((function.symbol, f"{reason}, so no line of it is linked"))
    return replace(running, functions=tuple(functions), function_notes=tuple(notes))


def without_lines(function: AssemblyFunction) -> AssemblyFunction:
    return replace(function, lines=tuple(AssemblyLine(line.text) for line in function.lines))


def with_used_labels(
    lines: Sequence[AssemblyLine], names: Iterable[str]
) -> tuple[AssemblyLine, ...]:
    """All instructions, and of the labels only those in `names`: the others mark debug ranges."""
    used = set(names)
    return tuple(line for line in lines if line.is_instruction or line.text[:-1] in used)
