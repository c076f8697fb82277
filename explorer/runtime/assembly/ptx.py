"""PTX, which NVIDIA's driver gives as the binary of an OpenCL program: one listing per kernel.

    .entry conv_1_phase0(                       conv_1_phase0:
        .param .u64 conv_1_phase0_param_0           ld.param.u64 %rd1, ...   <- source line 11
    )                                     ->        ...
    {
        .reg .b64 %rd<9>;
        .loc 1 12 5
        ld.param.u64 %rd1, [conv_1_phase0_param_0];

Declarations are left out. PTX is not yet what the GPU executes: the driver assembles it further.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from explorer.runtime.assembly.functions import AssemblyFunction, AssemblyLine, with_used_labels

MARK = re.compile(rb"\.version\s+\d+\.\d+\s+\.target\s+sm_")
ENTRY = re.compile(r"\s*(?:\.visible\s+)?\.entry\s+(\w+)")
LOCATION = re.compile(r"\s*\.loc\s+\d+\s+(\d+)\s+\d+(?:.*\binlined_at\s+\d+\s+(\d+))?")
LABEL = re.compile(r"\s*([$\w]+):")
STATEMENT = re.compile(r"\s*[@%\w]")
NAME = re.compile(r"[$\w]+")


def is_ptx(binary: bytes) -> bool:
    return MARK.search(binary) is not None


def parse_ptx(text: str, functions: Collection[str]) -> tuple[AssemblyFunction, ...]:
    """The entries of a PTX module that are in `functions`."""
    found: list[AssemblyFunction] = []
    symbol, is_body = "", False
    lines: list[AssemblyLine] = []
    used: set[str] = set()
    source_lines: tuple[int, ...] = ()
    for raw in text.replace("\0", "").splitlines():
        line = raw.partition("//")[0].rstrip()
        if entry := ENTRY.match(line):
            symbol, is_body, source_lines = entry[1], False, ()
            lines, used = [AssemblyLine(f"{symbol}:")], {symbol}
        elif symbol and line == "{":
            is_body = True
        elif symbol and line == "}":
            if symbol in functions:
                found.append(AssemblyFunction(symbol, with_used_labels(lines, used)))
            symbol, is_body = "", False
        elif is_body and (place := LOCATION.match(line)):
            numbers = (int(number) - 1 for number in place.groups() if number and int(number))
            source_lines = tuple(dict.fromkeys(numbers))
        elif is_body and (label := LABEL.match(line)):
            lines.append(AssemblyLine(f"{label[1]}:"))
        elif is_body and STATEMENT.match(line):
            code = " ".join(line.split())
            used.update(NAME.findall(code))
            lines.append(AssemblyLine(f"\t{code}", source_lines))
    return tuple(found)
