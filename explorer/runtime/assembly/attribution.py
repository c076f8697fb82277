"""From functions of assembly to kernels: each kernel's listing with its links to the source.

    conv_1_phase0:                       KernelAssembly(
        vmovups (%rdi), %zmm0  <- 217  ->    text.owners = ((), ("conv_1/main",), ...),
        ...                                  source_lines = ((), (60,), ...))

Line 217 of the program is line 60 of the kernel's own source, whose owners it takes over.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    """Why there is no text, or what to know about it."""


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
    assignment = _Assignment(program, disassembly)
    return {kernel.name: assignment.assembly(kernel) for kernel in program.kernels}


@dataclass(frozen=True)
class _Piece:
    """A function that belongs to a kernel, and how its source lines become the kernel's own."""

    function: AssemblyFunction
    place: range
    """Lines of the translation unit that count as lines 0, 1 ... of the kernel."""
    other_lines: tuple[int, ...] = ()
    """The kernel's lines for instructions that come from outside `place`."""

    def own_lines(self, line: AssemblyLine) -> tuple[int, ...]:
        if not line.is_instruction or not line.source_lines:
            return ()
        own = tuple(n - self.place.start for n in line.source_lines if n in self.place)
        return own or self.other_lines

    @property
    def holds_kernel(self) -> bool:
        return any(n in self.place for line in self.function.lines for n in line.source_lines)


class _Assignment:
    def __init__(self, program: Program, disassembly: Disassembly):
        self.disassembly = disassembly
        self.places = kernel_ranges(program)
        self.kernel_of = {p.function: kernel for kernel in program.kernels for p in kernel.phases}
        self.functions: dict[str, list[AssemblyFunction]] = {}
        for function in disassembly.functions:
            self.functions.setdefault(function_of(function.symbol), []).append(function)

    def assembly(self, kernel: KernelRecord) -> KernelAssembly:
        pieces: list[_Piece] = []
        notes = [self.disassembly.note] if self.disassembly.note else []
        for phase in kernel.phases:
            found = self._own_pieces(kernel, phase.function)
            if not found and (twin := self._twin_of(phase.function)) is not None:
                found = self._pieces_of_twin(kernel, twin)
                notes.append(f"{phase.function} runs the code of {twin}, which is the same")
            pieces += found
        about = dict(self.disassembly.function_notes)
        notes += [about[p.function.symbol] for p in pieces if p.function.symbol in about]
        if not pieces:
            notes = notes or ["the compiler kept no code of this kernel"]
            return KernelAssembly(None, note="; ".join(notes))
        lines = [(line.text, p.own_lines(line)) for p in pieces for line in p.function.lines]
        text = SourceText(
            self.disassembly.language,
            tuple(text for text, _ in lines),
            tuple(_owners(kernel, own) for _, own in lines),
        )
        return KernelAssembly(text, tuple(own for _, own in lines), "; ".join(notes))

    def _own_pieces(self, kernel: KernelRecord, phase: str) -> list[_Piece]:
        """The phase's function with its clones, and the wrapper if it was inlined there."""
        place = self.places[kernel.name]
        own = [_Piece(f, place) for f in self.functions.get(phase, ())]
        # What else a wrapper does is fetch the arguments, which the function's header names.
        header = _header_of(kernel, phase)
        wrappers = [_Piece(f, place, header) for f in self.functions.get(phase + WRAPPER, ())]
        return own + [piece for piece in wrappers if piece.holds_kernel]

    def _twin_of(self, phase: str) -> str | None:
        """Another phase that this one's wrapper calls: compilers merge functions of equal code."""
        for wrapper in self.functions.get(phase + WRAPPER, ()):
            for instruction in wrapper.instructions:
                called = function_of(instruction.split()[-1])
                if called in self.kernel_of:
                    return called
        return None

    def _pieces_of_twin(self, kernel: KernelRecord, twin: str) -> list[_Piece]:
        """The twin's code; its lines are the kernel's where both texts have as many."""
        other = self.kernel_of[twin]
        place = self.places[other.name]
        is_parallel = len(other.source.lines) == len(kernel.source.lines)
        return [
            _Piece(piece.function, place if is_parallel else range(0))
            for piece in self._own_pieces(other, twin)
        ]


def _owners(kernel: KernelRecord, lines: Sequence[int]) -> tuple[str, ...]:
    """The tags of the kernel's lines, each once."""
    return tuple(dict.fromkeys(tag for line in lines for tag in kernel.source.owners[line]))


def _header_of(kernel: KernelRecord, function: str) -> tuple[int, ...]:
    """The line that begins a phase's function."""
    for number, text in enumerate(kernel.source.lines):
        if f" {function}(" in text:
            return (number,)
    return ()
