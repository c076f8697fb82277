"""Innermost loops of a listing, and what kinds of instructions they are made of.

    .L4:                                       range(0, 4): from the label to the jump back to it
        vmovups (%rdx), %ymm1                      load
        vfmadd231ps -32(%rdx), %ymm2, %ymm12  ->   multiply-add
        vmovaps %ymm3, 96(%rsp)                    spill
        jne .L4                                    branch

The kinds are those of `explorer.results.runs.ports`. What lies at a fixed place of the stack is a
value that had no register: arrays of a kernel's own that lie there are addressed with an index.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

CALL = re.compile(r"\t(call|bl|blr)\b")
_MULTIPLY_ADD = re.compile(
    r"v?fn?m(add|sub)\w*|vpdp\w+|vdpbf16ps|tdp\w+|fml[as]l?2?|mla|mls|[su]?u?dot|s?u?s?mmla|bfmmla"
)
_X86_SHUFFLE = re.compile(
    r"v?(perm\w*|p?shuf\w*|unpck\w*|punpck\w*|insert\w*|extract\w*|pinsr\w*|pextr\w*|p?broadcast\w*"
    r"|movs[lh]dup|movddup|movhlps|movlhps|p?align\w*|p?blend\w*|pack\w+|compress\w*|expand\w*"
    r"|pmov[sz]x\w+)"
)
_ARM_SHUFFLE = re.compile(
    r"dup|ext|zip[12]|uzp[12]|trn[12]|tbl|tbx|ins|umov|smov|rev\d*|xtn2?|[su]xtl2?"
)
_X86_VECTOR = re.compile(r"%[xyz]mm\d+")
_ARM_VECTOR = re.compile(r"\b(v\d+(\.\w+)?|[qdsh]\d+)\b")
_X86_STACK = re.compile(r"\(%rsp\)")
_X86_FRAME = re.compile(r"\(%r[sb]p\)")
_X86_SETS_FRAME = re.compile(r"\tmovq\t%rsp, %rbp")
_ARM_STACK = re.compile(r"\[sp(, #-?\d+)?\]")
_ARM_FRAME = re.compile(r"\[(sp|x29)(, #-?\d+)?\]")
_ARM_SETS_FRAME = re.compile(r"\t(mov\tx29, sp|add\tx29, sp, #\d+)$")
_X86_MOVE = re.compile(r"v?mov([au]p[sd]|dq[au]\w*|s[sd]|[dq]|nt\w*|[hl]p[sd])")
_ARM_LOAD, _ARM_STORE = re.compile(r"ld(n?p|u?r|[1-4]r?)\w*"), re.compile(r"st(n?p|u?r|[1-4])\w*")
_X86_BRANCH = re.compile(r"j\w+|call\w*|ret\w*|loop\w*")
_ADVANCING = re.compile(r"(\t(?:ld|st)[1-4]r?\t\{[^}]*\}(?:\[\d+\])?, \[(x\d+)\]), (#\d+)")
_ARM_BRANCH = re.compile(r"b(\.\w+)?|bl?r?|cbn?z|tbn?z|ret")


def innermost_loops(lines: Sequence[str]) -> list[range]:
    """The lines from every label to the last jump back to it, where no other loop lies between."""
    places = {line[:-1]: n for n, line in enumerate(lines) if line.endswith(":")}
    ends: dict[int, int] = {}
    for number, line in enumerate(lines):
        begin = _jumps_to(line, places)
        if begin is not None and begin < number:
            ends[begin] = number
    loops = [range(begin, end + 1) for begin, end in sorted(ends.items())]
    return [
        loop
        for loop in loops
        if not any(other != loop and other[0] in loop and other[-1] in loop for other in loops)
    ]


def _jumps_to(line: str, places: dict[str, int]) -> int | None:
    """The place of the label that a jump names; None for other instructions."""
    name, *operands = line.split()
    if not line.startswith("\t") or not operands or CALL.match(line):
        return None
    if not (_X86_BRANCH.fullmatch(name) or _ARM_BRANCH.fullmatch(name)):
        return None
    return places.get(operands[-1])


def with_writeback_apart(lines: Sequence[str]) -> list[str]:
    """Arm's vector loads and stores that advance their address, as the two operations they are.

        ld1r { v28.4s }, [x2], #4   ->   ld1r { v28.4s }, [x2]
                                         add  x2, x2, #4

    Cores execute them as two (Arm, Neoverse V1 Software Optimization Guide, "Instruction
    characteristics"). An analyser that takes them for one lets the address, and with it the whole
    next iteration, wait for a vector unit.
    """
    found: list[str] = []
    for line in lines:
        advanced = _ADVANCING.fullmatch(line)
        if advanced is None:
            found.append(line)
        else:
            found += [advanced[1], f"\tadd\t{advanced[2]}, {advanced[2]}, {advanced[3]}"]
    return found


@dataclass(frozen=True)
class Reader:
    """Tells what the instructions of one listing are."""

    is_arm: bool
    has_frame: bool
    """Whether `rbp` (Arm: `x29`) holds a place of the stack; else it is a register like others."""

    def kind(self, line: str) -> str:
        """One of `explorer.results.runs.ports.KINDS`; empty for labels and directives."""
        words = line.split(maxsplit=1)
        if not line.startswith("\t") or not words or words[0].startswith("."):
            return ""
        name, operands = words[0], words[1] if len(words) > 1 else ""
        is_spill = self.is_spill(line)
        return (_arm_kind if self.is_arm else _x86_kind)(name, operands, is_spill)

    def is_spill(self, line: str) -> bool:
        """Whether a value comes from a fixed place of the stack, or goes there."""
        if self.is_arm:
            return bool((_ARM_FRAME if self.has_frame else _ARM_STACK).search(line))
        stack = _X86_FRAME if self.has_frame else _X86_STACK
        return bool(stack.search(line)) and not line.startswith("\tlea")


def reader_of(lines: Sequence[str], is_arm: bool) -> Reader:
    """For the listing of a kernel."""
    sets_frame = _ARM_SETS_FRAME if is_arm else _X86_SETS_FRAME
    return Reader(is_arm, any(sets_frame.match(line) for line in lines))


def _x86_kind(name: str, operands: str, is_spill: bool) -> str:
    if _X86_BRANCH.fullmatch(name):
        return "branch"
    if _MULTIPLY_ADD.fullmatch(name):
        return "multiply-add"
    is_vector = bool(_X86_VECTOR.search(operands))
    has_memory = "(" in operands
    is_stored = operands.rstrip().endswith((")", "}"))
    if is_spill and name.startswith(("mov", "vmov")):
        return "spill"
    if _X86_MOVE.fullmatch(name) and is_vector:
        if not has_memory:
            return "integer" if re.search(r"%[er]\w\w", operands) else "shuffle"
        return "store" if is_stored else "load"
    if _X86_SHUFFLE.fullmatch(name):
        # What repeats an element of memory is done by the load itself.
        return "load" if "broadcast" in name and has_memory else "shuffle"
    if is_vector and not name.startswith("prefetch"):
        return "arithmetic"
    if name.startswith("mov") and has_memory:
        return "store" if is_stored else "load"
    return "integer"


def _arm_kind(name: str, operands: str, is_spill: bool) -> str:
    if _ARM_BRANCH.fullmatch(name):
        return "branch"
    is_vector = bool(_ARM_VECTOR.search(operands.partition("[")[0]))
    if _ARM_LOAD.fullmatch(name) or _ARM_STORE.fullmatch(name):
        return "spill" if is_spill else "load" if _ARM_LOAD.fullmatch(name) else "store"
    if not is_vector:
        return "integer"
    if _MULTIPLY_ADD.fullmatch(name):
        return "multiply-add"
    if _ARM_SHUFFLE.fullmatch(name):
        return "shuffle"
    if name in ("mov", "fmov"):
        return "integer" if re.search(r"\b[xw]\d+", operands) else "shuffle"
    return "arithmetic"
