"""What a C compiler writes with -S: instructions and labels, each with its source lines.

        .loc 1 160 3 is_stmt 1            conv_1_phase0:
    .LVL4:                                    vmovups (%rdi), %zmm0     <- source line 160
        vmovups (%rdi), %zmm0       ->    .L3:
        .p2align 4                            ...
    .L3:

Directives, debug data, comments and labels that nothing refers to are left out. The syntax is
that of gcc and clang, for ELF and Mach-O.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Sequence

from explorer.runtime.assembly.functions import (
    AssemblyFunction,
    AssemblyLine,
    function_of,
    with_used_labels,
)
from explorer.runtime.assembly.inlining import (
    LABEL,
    WORD,
    InlinedCall,
    inlined_calls,
    section_of,
)

FILE = re.compile(r"\s*\.file\s+(\d+)\s+(.*)")
LOCATION = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)")
FUNCTION_END = re.compile(r"\s*\.(cfi_endproc|size)\b")
INSTRUCTION = re.compile(r"\s+[^\s.#@;/]")
NAME = re.compile(r"[.$\w]+")
COMMENT_SIGN = re.compile(r"\s([#@;]|//)+\s.*DW_TAG_compile_unit")


def parse_listing(
    text: str, source_name: str, functions: Collection[str]
) -> tuple[AssemblyFunction, ...]:
    """`functions` (and clones of them) out of the listing of one translation unit.

    `source_name` is the file that the compiler was given: lines of other files (headers) do not
    count. Line numbers come out from 0.
    """
    lines = text.splitlines()
    return _Reader(lines, source_name, functions).read()


class _Reader:
    """Walks through the listing once; used once."""

    def __init__(self, lines: Sequence[str], source_name: str, functions: Collection[str]):
        self.lines = lines
        self.functions = functions
        self.files = _numbers_of_file(lines, source_name)
        self.calls = [call for call in inlined_calls(lines) if call.file in self.files]
        self.begins, self.ends = _edges(lines, self.calls)
        sign = next((found[1] for line in lines if (found := COMMENT_SIGN.search(line))), "#")
        self.comment = re.compile(rf"\s*{re.escape(sign)}(\s.*)?$")
        self.used_labels: set[str] = set()

    def read(self) -> tuple[AssemblyFunction, ...]:
        found: list[tuple[str, list[AssemblyLine]]] = []
        section, is_inside = ".text", False
        open_calls: set[int] = set()
        location = 0
        for number, line in enumerate(self.lines):
            open_calls -= self.ends[number]
            open_calls |= self.begins[number]
            section = section_of(line) or section
            if not section.endswith("text") and ".text." not in section:
                self._note_data(section, line)
            elif (label := LABEL.match(line)) and self._is_wanted(label[1]):
                symbol = self._name(label[1])
                found.append((symbol, [AssemblyLine(f"{symbol}:")]))
                self.used_labels.add(symbol)
                is_inside = True
            elif is_inside and label:
                found[-1][1].append(AssemblyLine(f"{label[1]}:"))
            elif FUNCTION_END.match(line):
                is_inside = False
            elif place := LOCATION.match(line):
                location = int(place[2]) if int(place[1]) in self.files else 0
            elif is_inside and INSTRUCTION.match(line):
                source_lines = self._source_lines(location, open_calls)
                found[-1][1].append(AssemblyLine(self._instruction(line), source_lines))
        return tuple(
            AssemblyFunction(symbol, with_used_labels(lines, self.used_labels))
            for symbol, lines in found
        )

    def _instruction(self, line: str) -> str:
        """Mnemonic and operands without a comment; the labels it names are in use."""
        mnemonic, _, operands = self.comment.sub("", line).strip().partition("\t")
        self.used_labels.update(NAME.findall(operands or mnemonic))
        return f"\t{mnemonic}\t{operands.strip()}".rstrip()

    def _note_data(self, section: str, line: str) -> None:
        """Tables of jumps name labels, and so does debug data, which doesn't count."""
        word = WORD.match(line)
        if word and "debug" not in section:
            self.used_labels.update(NAME.findall(word[2]))

    def _source_lines(self, location: int, open_calls: set[int]) -> tuple[int, ...]:
        """The location and then the calls around it; entries are ordered from outer to inner."""
        around = [self.calls[number].line for number in sorted(open_calls, reverse=True)]
        return tuple(dict.fromkeys(line - 1 for line in (location, *around) if line))

    def _is_wanted(self, label: str) -> bool:
        return function_of(self._name(label)) in self.functions

    def _name(self, label: str) -> str:
        """Mach-O writes `_f` for the function f."""
        bare = label.removeprefix("_")
        return bare if function_of(bare) in self.functions else label


def _numbers_of_file(lines: Sequence[str], source_name: str) -> frozenset[int]:
    """The numbers by which locations name the source; a folder may be given before the name."""
    numbers = set()
    for line in lines:
        if found := FILE.match(line):
            names = re.findall(r'"([^"]*)"', found[2])
            if names and names[-1].rpartition("/")[2] == source_name:
                numbers.add(int(found[1]))
    return frozenset(numbers)


def _edges(
    lines: Sequence[str], calls: Sequence[InlinedCall]
) -> tuple[defaultdict[int, set[int]], defaultdict[int, set[int]]]:
    """For numbers of lines, the calls (by number) whose inlined bodies begin and end there."""
    places = {found[1]: n for n, line in enumerate(lines) if (found := LABEL.match(line))}
    begins: defaultdict[int, set[int]] = defaultdict(set)
    ends: defaultdict[int, set[int]] = defaultdict(set)
    for number, call in enumerate(calls):
        for first, last in call.ranges:
            if first in places and last in places and places[first] < places[last]:
                begins[places[first]].add(number)
                ends[places[last]].add(number)
    return begins, ends
