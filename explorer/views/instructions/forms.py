"""What kind of instruction a line of assembly is: its name, and the kinds of its operands.

    vfmadd231ps -32(%rdx), %ymm2, %ymm12     ->  vfmadd231ps m,ymm,ymm
    fmla v0.4s, v1.4s, v2.s[1]               ->  fmla v4s,v4s,vs
    jne .L74                                 ->  jne label

Latency and throughput depend on that much, and not on which register or address it is.
"""

from __future__ import annotations

import re

PREFIXES = ("lock", "rep", "repe", "repne", "data16", "notrack")
_SPLIT = re.compile(r",(?![^(\[{]*[)\]}])")
"""Commas that stand in no brackets."""
_X86_KINDS = (
    (re.compile(r"%(zmm|ymm|xmm)\d+.*"), r"\1"),
    (re.compile(r"%k[0-7].*"), "k"),
    (re.compile(r"%(r\d+|r[a-ds][xip]|r[sb]p|rdi|rsi)"), "r64"),
    (re.compile(r"%(r\d+d|e[a-ds][xip]|e[sb]p|edi|esi)"), "r32"),
    (re.compile(r"%(r\d+w|[a-d]x|[sb]p|di|si)"), "r16"),
    (re.compile(r"%(r\d+b|[a-d][lh]|[sb]pl|dil|sil)"), "r8"),
    (re.compile(r"\$.*"), "imm"),
    (re.compile(r"\*%.*"), "r64"),
    (re.compile(r".*[(%].*"), "m"),
)
_ARM_KINDS = (
    (re.compile(r"v\d+\.([a-z])\[\d+\]"), r"v\1"),
    (re.compile(r"v\d+\.(\d*[a-z])"), r"v\1"),
    (re.compile(r"([bhsdqxw])(\d+|zr)"), r"\1"),
    (re.compile(r"sp"), "x"),
    (re.compile(r"wsp"), "w"),
    (re.compile(r"\{.*\}(\[\d+\])?"), "list"),
    (re.compile(r"\[.*\]!?"), "m"),
    (re.compile(r"#.*"), "imm"),
    (re.compile(r"(lsl|lsr|asr|sxtw|uxtw|sxtx|uxtx|msl)( #\d+)?"), "shift"),
    (re.compile(r"(eq|ne|hs|lo|mi|pl|vs|vc|hi|ls|ge|lt|gt|le|cs|cc)"), "cond"),
)


def mnemonic_of(line: str) -> str:
    """`vmovups`, `lock cmpxchgq`; empty for labels, directives and empty lines."""
    text = line.strip()
    if not line.startswith(("\t", " ")) or not text or text.startswith((".", "#", "//")):
        return ""
    words = text.split()
    name = words[0].rstrip(";")
    return f"{name} {words[1]}" if name in PREFIXES and len(words) > 1 else name


def architecture_of(lines: list[str] | tuple[str, ...]) -> str:
    """x86 (AT&T syntax), arm (AArch64), or neither: empty."""
    for line in lines:
        if re.search(r"%(r[a-z0-9]+|e[a-z]{2}|[xyz]mm\d+)\b", line):
            return "x86"
        if re.match(r"\s+\S+\s+.*\b(x\d+|w\d+|v\d+\.\d*[a-z]|q\d+|sp)\b", line):
            return "riscv" if re.search(r"\b[ats]\d+\b", line) else "arm"
        if re.match(r"\s+\S+\s+.*\b[ats]\d+\b", line):
            return "riscv"
    return ""


def form_of(line: str, architecture: str) -> str:
    """The mnemonic and the kinds of its operands; empty where there is no instruction."""
    name = mnemonic_of(line)
    if not name:
        return ""
    rest = line.strip()[len(name) :].partition("//")[0].strip()
    kinds = _X86_KINDS if architecture == "x86" else _ARM_KINDS
    operands = [_kind(part.strip(), kinds) for part in _SPLIT.split(rest) if part.strip()]
    return f"{name} {','.join(operands)}".strip()


def _kind(operand: str, kinds: tuple[tuple[re.Pattern[str], str], ...]) -> str:
    for pattern, kind in kinds:
        found = pattern.fullmatch(operand)
        if found:
            return found.expand(kind) if "\\" in kind else kind
    return "label"
