"""A shared library as text, by `objdump` of binutils, with lines and the calls around them.

f():                                       f:
/tmp/program.cl:9                              mov  (%rdi),%eax    <- source line 8
    1100:  mov (%rdi),%eax           ->    .L1110:
twice():                                       add  %eax,%eax      <- source lines 0, 4
/tmp/program.cl:1
inlined by /tmp/program.cl:5 (f)
    1110:  add %eax,%eax
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from explorer.runtime.assembly.functions import AssemblyFunction, AssemblyLine, with_used_labels
from explorer.runtime.processes import run_command
from explorer.runtime.scratch import own_folder

SYMBOL = re.compile(r"([0-9a-f]+) <([^>]+)>:")
PLACE = re.compile(r"(inlined by )?\S.*?:(\d+|\?)( \(discriminator \d+\))?( \(.*\))?$")
INSTRUCTION = re.compile(r"\s+([0-9a-f]+):\s+(\S.*)")
TARGET = re.compile(r"\b[0-9a-f]+ <([^>+]+)(?:\+0x([0-9a-f]+))?>")
PADDING = re.compile(r"\t(data16.*|cs\t?.*)?nop|\txchg\t%ax,%ax|\t(int3|data16)\b")
"""What fills up to the next function."""
TIME_LIMIT_SECONDS = 60.0


def find_disassembler() -> str | None:
    """The path of `objdump`; None where binutils are not installed."""
    return shutil.which("objdump")


def disassemble(library: bytes, objdump: str) -> tuple[AssemblyFunction, ...]:
    """All functions of an ELF shared library; without a line table no line has a source."""
    if not library:
        return ()
    return parse_disassembly(disassembled_text(library, objdump))


def disassembled_text(library: bytes, objdump: str) -> str:
    """What objdump says of all functions; "" where it cannot read the library."""
    with tempfile.TemporaryDirectory(prefix="disassembly-", dir=own_folder()) as folder:
        file = Path(folder, "kernel.so")
        file.write_bytes(library)
        options = ("--disassemble", "--line-numbers", "--inlines", "--no-show-raw-insn")
        finished = run_command(
            (objdump, *options, "--section=.text", str(file)), seconds=TIME_LIMIT_SECONDS
        )
    return finished.output if finished.status == 0 else ""


@dataclass(frozen=True)
class Instruction:
    """One of a library's, where it stands."""

    symbol: str
    begin: int
    """Address of the function."""
    offset: int
    """In the function, in bytes."""
    code: str
    """Mnemonic, a tab, operands; jumps name labels in place of addresses."""
    targets: frozenset[str]
    """The labels that it names."""
    source_lines: tuple[int, ...]
    """As `AssemblyLine` has them."""

    @property
    def is_padding(self) -> bool:
        return bool(PADDING.match(f"\t{self.code}"))


def parse_disassembly(text: str) -> tuple[AssemblyFunction, ...]:
    """The functions of objdump's output; jumps name labels in place of addresses."""
    functions: list[AssemblyFunction] = []
    for (symbol, _), group in groupby(instructions_of(text), lambda i: (i.symbol, i.begin)):
        own = list(group)
        while own and own[-1].is_padding:
            own.pop()
        used = {symbol}.union(*(instruction.targets for instruction in own))
        lines = [AssemblyLine(f"{symbol}:")]
        for instruction in own:
            lines.append(AssemblyLine(f"{_label(instruction.offset)}:"))
            lines.append(AssemblyLine(f"\t{instruction.code}", instruction.source_lines))
        if own:
            functions.append(AssemblyFunction(symbol, with_used_labels(lines, used)))
    return tuple(functions)


def instructions_of(text: str) -> Iterator[Instruction]:
    """All instructions of objdump's output, padding included."""
    symbol, begin = "", 0
    innermost: tuple[int, ...] = ()
    around: list[int] = []
    for line in text.splitlines():
        if found := SYMBOL.match(line):
            symbol, begin, innermost = found[2], int(found[1], 16), ()
        elif found := INSTRUCTION.match(line):
            code, names = _with_labels(found[2], symbol)
            lines = tuple(dict.fromkeys((*innermost, *around)))
            offset = int(found[1], 16) - begin
            yield Instruction(
                symbol, begin, offset, code, targets=frozenset(names), source_lines=lines
            )
            around = []
        elif found := PLACE.match(line):
            # The place itself is left out where it is that of the instruction before; the calls
            # around it are written every time.
            number = [int(found[2]) - 1] if found[2].isdigit() and int(found[2]) else []
            if found[1]:
                around += number
            else:
                innermost = tuple(number)


def _with_labels(code: str, symbol: str) -> tuple[str, set[str]]:
    """An instruction whose jumps name labels, and these names."""
    code = code.partition("#")[0].rstrip()
    names: set[str] = set()

    def name(target: re.Match[str]) -> str:
        is_own = target[1] == symbol and target[2] is not None
        label = _label(int(target[2], 16)) if is_own else target[1]
        names.add(label)
        return label

    code = TARGET.sub(name, code)
    mnemonic, _, operands = code.partition(" ")
    return f"{mnemonic}\t{operands.strip()}".rstrip(), names


def _label(offset: int) -> str:
    return f".L{offset:x}"
