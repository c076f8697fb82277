"""Which parts of a listing were inlined, and by which calls: from the compiler's debug data.

    .LBB7:                                     .uleb128 0x5   # DW_TAG_inlined_subroutine
        .loc 1 65 46                           .quad .LBB7    # DW_AT_low_pc
        vxorps %xmm1, %xmm1, %xmm1             .byte 0xa0     # DW_AT_call_line
    .LBE7:

    -> InlinedCall(file=1, line=160, ranges=((".LBB7", ".LBE7"),))

gcc (-dA) and clang write the debug data (DWARF 4) as directives, with what each means as a
comment; so it is read from the text of the listing, without a reader of object files.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

SECTION = re.compile(r"\s*\.section\s+([^\s,]+)(?:,([^\s,]+))?|\s*\.(text|data|bss)\b")
ENTRY = re.compile(r"\bDW_TAG_(\w+)")
ATTRIBUTE = re.compile(r"\s*\.\w+\s+(\S+)\s.*\bDW_AT_(\w+)")
LABEL = re.compile(r"([.$\w]+):")
WORD = re.compile(r"\s*\.(quad|xword|8byte|long|word|4byte)\s+(\S+)")
EIGHT_BYTES = ("quad", "xword", "8byte")

LabelRanges = tuple[tuple[str, str], ...]
"""Pairs of labels: the first instruction, and behind the last."""


@dataclass(frozen=True)
class InlinedCall:
    """A call whose body stands in its caller."""

    file: int
    """Number in the listing's table of files."""
    line: int
    """Of the call, from 1."""
    ranges: LabelRanges


@dataclass
class _Entry:
    """One inlined subroutine while its attributes are read."""

    values: dict[str, str] = field(default_factory=dict)

    def call(self, lists: dict[tuple[str, int], LabelRanges]) -> InlinedCall | None:
        """None where the compiler kept the entry, but no instruction of the body."""
        line, file = self.values.get("call_line"), self.values.get("call_file", "1")
        if line is None:
            return None
        low, high = self.values.get("low_pc"), self.values.get("high_pc", "")
        if low is not None:
            return InlinedCall(int(file, 0), int(line, 0), ((low, high.partition("-")[0]),))
        label, _, offset = self.values.get("ranges", "").partition("+")
        ranges = lists.get((label, int(offset or "0", 0)))
        return None if ranges is None else InlinedCall(int(file, 0), int(line, 0), ranges)


def section_of(line: str) -> str | None:
    """The section that a line switches to: `.text`, `.debug_info`; None for other lines."""
    found = SECTION.match(line)
    if found is None:
        return None
    # Mach-O names segment and section: `__DWARF,__debug_info`.
    return f".{found[3]}" if found[3] else (found[2] if found[1].startswith("__") else found[1])


def inlined_calls(lines: Sequence[str]) -> list[InlinedCall]:
    """All inlined calls of a listing; one inside another comes after it."""
    lists = _range_lists(lines)
    entries: list[_Entry] = []
    entry: _Entry | None = None
    is_debug_data = False
    for line in lines:
        if (section := section_of(line)) is not None:
            is_debug_data = section.endswith("debug_info")
            entry = None
        elif is_debug_data and (tag := ENTRY.search(line)):
            entry = _Entry() if tag[1] == "inlined_subroutine" else None
            if entry is not None:
                entries.append(entry)
        elif entry is not None and (attribute := ATTRIBUTE.match(line)):
            entry.values[attribute[2]] = attribute[1]
    calls = (entry.call(lists) for entry in entries)
    return [call for call in calls if call is not None]


def _range_lists(lines: Sequence[str]) -> dict[tuple[str, int], LabelRanges]:
    """Lists of ranges by where they begin: (label, bytes behind it).

    A list is pairs of addresses (from the unit's first one) up to a pair of zeros. gcc has one
    label before all lists, clang one before each.
    """
    lists: dict[tuple[str, int], LabelRanges] = {}
    label, begin, offset = "", 0, 0
    pairs: list[tuple[str, str]] = []
    first: str | None = None
    is_ranges = False
    for line in lines:
        if (section := section_of(line)) is not None:
            is_ranges = section.endswith("debug_ranges")
        elif is_ranges and (found := LABEL.match(line)):
            label, begin, offset, pairs, first = found[1], 0, 0, [], None
        elif is_ranges and (word := WORD.match(line)):
            offset += 8 if word[1] in EIGHT_BYTES else 4
            if first is None:
                first = word[2]
                continue
            if (first, word[2]) == ("0", "0"):
                lists[label, begin] = tuple(pairs)
                begin, pairs = offset, []
            elif "-" in first[1:]:  # not the choice of another first address: -1 and that address
                pairs.append((first.partition("-")[0], word[2].partition("-")[0]))
            first = None
    return lists
