"""From functions of assembly to kernels: each kernel's listing with its links to the source.

    conv_1_phase0:                 KernelAssembly(
        vmovups ...  <- line 217     text=SourceText("assembly", lines, owners=(..., ("conv_1/main",))),
        ...                   ->     source_lines=(..., (60,)))

Line 217 of the program is line 60 of the kernel's own source, whose owners it takes over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from explorer.results import KernelRecord, Program, SourceText
from explorer.runtime.assembly.functions import (
    AssemblyFunction,
    AssemblyLine,
    Disassembly,
    function_of,
)

WRAPPER = "_section"
"""How the driver's function that calls a phase ends; compilers often inline the phase into it."""


@dataclass(frozen=True)
class KernelAssembly:
    text: SourceText | None
    source_lines: tuple[tuple[int, ...], ...] = ()
    """For every line of `text` the lines of the kernel's source, from 0, that it comes from."""
    note: str = ""
    """Why there is no text, or no links."""


def wanted_functions(program: Program) -> tuple[str, ...]:
    """The phases of all kernels, and what the driver of generated C calls them through."""
    phases = [phase.function for kernel in program.kernels for phase in kernel.phases]
    return tuple(name for phase in phases for name in (phase, phase + WRAPPER))


def kernel_ranges(program: Program) -> dict[str, range]:
    """Where each kernel's source stands in the translation unit, in lines from 0.

    Kernels stand there in order and as they are; one that is not found has an empty range.
    """
    lines = program.source.lines
    ranges: dict[str, range] = {}
    begin = 0
    for kernel in program.kernels:
        own = kernel.source.lines
        places = range(begin, len(lines) - len(own) + 1) if own else range(0)
        found = next((p for p in places if lines[p : p + len(own)] == own), None)
        ranges[kernel.name] = range(0) if found is None else range(found, found + len(own))
        begin = begin if found is None else found + len(own)
    return ranges


def assign(program: Program, disassembly: Disassembly) -> dict[str, KernelAssembly]:
    """Every kernel's own assembly, by its name."""
    ranges = kernel_ranges(program)
    by_function: dict[str, list[AssemblyFunction]] = {}
    for function in disassembly.functions:
        by_function.setdefault(function_of(function.symbol), []).append(function)
    return {
        kernel.name: _Kernel(kernel, ranges[kernel.name]).assembly(by_function, disassembly)
        for kernel in program.kernels
    }


@dataclass(frozen=True)
class _Kernel:
    record: KernelRecord
    place: range
    """Its lines in the translation unit."""

    def assembly(
        self, by_function: Mapping[str, Sequence[AssemblyFunction]], disassembly: Disassembly
    ) -> KernelAssembly:
        lines: list[str] = []
        owners: list[tuple[str, ...]] = []
        sources: list[tuple[int, ...]] = []
        for phase in self.record.phases:
            wrappers = [f for f in by_function.get(phase.function + WRAPPER, ()) if self.holds(f)]
            header = self.header_of(phase.function)
            for function in (*by_function.get(phase.function, ()), *wrappers):
                # Code of a wrapper that is not of the phase fetches its arguments: its header.
                default = header if function in wrappers else ()
                for line in function.lines:
                    own = self.own_lines(line) or (default if line.is_instruction else ())
                    lines.append(line.text)
                    sources.append(own)
                    owners.append(self.owners_of(own))
        if not lines:
            note = disassembly.note or (
                "the compiler kept no code of its own for this kernel: it has merged it with a "
                "kernel whose code is the same"
            )
            return KernelAssembly(None, note=note)
        text = SourceText(disassembly.language, tuple(lines), tuple(owners))
        return KernelAssembly(text, tuple(sources), disassembly.note)

    def holds(self, function: AssemblyFunction) -> bool:
        """Whether some of the kernel was inlined into this function."""
        return any(self.own_lines(line) for line in function.lines)

    def own_lines(self, line: AssemblyLine) -> tuple[int, ...]:
        return tuple(n - self.place.start for n in line.source_lines if n in self.place)

    def owners_of(self, lines: Sequence[int]) -> tuple[str, ...]:
        """The tags of the kernel's lines, each once."""
        tags = (tag for line in lines for tag in self.record.source.owners[line])
        return tuple(dict.fromkeys(tags))

    def header_of(self, function: str) -> tuple[int, ...]:
        """The line that begins a phase's function."""
        for number, text in enumerate(self.record.source.lines):
            if f" {function}(" in text:
                return (number,)
        return ()
