"""Which loop of a kernel's source a loop of machine code is.

    for (long p = 0; p < 3; p++) {               .L4:  vbroadcastss ...   <- line 12
        for (long q = 0; q < 3; q++) {                 vfmadd231ps ...    <- lines 12, 13
            UNROLL(8)                        ->        jne .L4            <- line 9
            for (long j = 0; j < 8; j++) {
                                                 is the loop over p: that over q was written out

It is the innermost one that nearly all of its instructions come from. Loops that are written out by
`UNROLL` are none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from explorer.runtime.assembly.attribution import KernelAssembly
from explorer.runtime.assembly.loops import CALL, innermost_loops

SHARE = 0.9
"""Of the instructions: the others belong to a loop around it and were moved by the compiler."""
_LOOP = re.compile(r"( *)for \((?:long|int) (\w+) = ")
_UNROLLED = re.compile(r" *UNROLL\(\d+\)$")


@dataclass(frozen=True)
class MatchedLoop:
    """An innermost loop of machine code."""

    place: range
    """Its lines in the kernel's assembly."""
    number: int
    """Of the loop of the source, among those that are not unrolled."""
    lines: range
    """Of the source."""
    has_call: bool
    """Whether it calls a function, of which nothing stands here."""


def source_loops(lines: Sequence[str]) -> list[range]:
    """The lines of every loop that is not unrolled, from its `for` to its closing brace."""
    found: list[range] = []
    for number, line in enumerate(lines):
        begin = _LOOP.match(line)
        if begin is None or (number and _UNROLLED.match(lines[number - 1])):
            continue
        closing = begin[1] + "}"
        end = next((n for n in range(number + 1, len(lines)) if lines[n] == closing), number)
        found.append(range(number, end + 1))
    return found


def match_loops(source: Sequence[str], assembly: KernelAssembly) -> list[MatchedLoop]:
    """The innermost loops of a kernel's assembly that come from one of its source's loops."""
    assert assembly.text is not None
    lines, loops = assembly.text.lines, source_loops(source)
    found: list[MatchedLoop] = []
    for place in innermost_loops(lines):
        origins = [assembly.source_lines[n] for n in place if assembly.source_lines[n]]
        number = _innermost(loops, origins)
        if number is not None:
            has_call = any(CALL.match(lines[n]) for n in place)
            found.append(MatchedLoop(place, number, loops[number], has_call))
    return found


def _innermost(loops: Sequence[range], origins: Sequence[Sequence[int]]) -> int | None:
    """The last loop that holds nearly all of the lines: inner ones stand behind outer ones."""
    best = None
    for number, loop in enumerate(loops):
        inside = sum(any(line in loop for line in lines) for lines in origins)
        if origins and inside >= SHARE * len(origins):
            best = number
    return best
