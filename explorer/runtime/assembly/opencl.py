"""Assembly of an OpenCL program: what the driver gives as its binary, where that can be read.

NVIDIA's binary is PTX text. PoCL's is a container of shared libraries, one per kernel and size
of work-group, which binutils disassemble. Other drivers' formats are their own secret.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Sequence
from dataclasses import replace

import pyopencl as cl

from explorer.errors import BuildError
from explorer.results import Program
from explorer.runtime.assembly.disassembler import disassemble, find_disassembler
from explorer.runtime.assembly.functions import (
    AssemblyFunction,
    AssemblyLine,
    Disassembly,
    with_lines_if_equal,
)
from explorer.runtime.assembly.ptx import is_ptx, parse_ptx
from explorer.runtime.devices import DeviceRecord
from explorer.runtime.opencl.handles import open_device
from explorer.runtime.opencl.program import PHASES, build_program

KERNELS = (PHASES,)
"""Every phase by itself: a chain has them as functions of one kernel."""
LINE_TABLE = (PHASES, "-g")
POCL_MARK = b"poclbin"
POCL_LIBRARY = re.compile(rb"/(\w+)/0-0-0/\1\.so(.{4}|.{8})(?=\x7fELF)", re.DOTALL)
"""Kernel, and size of the file in bytes; the file follows. 0-0-0: for work-groups of any size."""
POCL_NOTE = (
    "this is the driver's code for work-groups of any size; at the first launch it compiles the "
    "kernel once more for that launch's size, without a line table"
)


def opencl_functions(
    program: Program, functions: Collection[str], device: DeviceRecord
) -> Disassembly:
    """`functions` as the device's driver compiles them, with a note where it doesn't tell.

    Raises BuildError when the driver refuses the program.
    """
    handle = open_device(device)
    context = cl.Context([handle])
    running = read_binary(
        _binary(context, handle, program, KERNELS), program, functions, device.driver
    )
    if not running.functions:
        return running
    try:
        binary = _binary(context, handle, program, LINE_TABLE)
    except BuildError as error:
        return _unlinked(running, f"{device.driver} refuses to write one: {error.message}")
    with_lines = read_binary(binary, program, functions, device.driver)
    if not any(line.source_lines for f in with_lines.functions for line in f.lines):
        return _unlinked(running, f"{device.driver} writes none")
    return with_lines_if_equal(running, with_lines, device.driver)


def _unlinked(running: Disassembly, reason: str) -> Disassembly:
    notes = [running.note, f"without a line table no line is linked; {reason}"]
    return replace(running, note="; ".join(note for note in notes if note))


def _binary(
    context: cl.Context, handle: cl.Device, program: Program, options: Sequence[str]
) -> bytes:
    built = build_program(context, handle, program, options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        binaries = built.get_info(cl.program_info.BINARIES)
    assert isinstance(binaries, list)
    return binaries[0]


def read_binary(
    binary: bytes, program: Program, functions: Collection[str], driver: str
) -> Disassembly:
    """What can be read of a program's binary, or a note that says why nothing can."""
    if is_ptx(binary):
        text = binary.decode("utf-8", errors="replace")
        return Disassembly("ptx", parse_ptx(text, functions))
    if not binary.startswith(POCL_MARK):
        return Disassembly(
            "assembly",
            note=f"{driver} gives its program as {len(binary)} bytes in a format of its "
            f"own (beginning with {binary[:8]!r})",
        )
    objdump = find_disassembler()
    if objdump is None:
        return Disassembly(
            "assembly", note="the driver's machine code can be read with binutils: install them"
        )
    return _read_pocl(binary, program, objdump)


def _read_pocl(binary: bytes, program: Program, objdump: str) -> Disassembly:
    libraries: dict[str, bytes] = {}
    for place in POCL_LIBRARY.finditer(binary):
        size = int.from_bytes(place[2], "little")
        libraries[place[1].decode()] = binary[place.end() : place.end() + size]
    functions: list[AssemblyFunction] = []
    for record in program.kernels:
        for phase in record.phases:
            library = libraries.get(phase.function, b"")
            functions += [
                _renamed(function, phase.function)
                for function in disassemble(library, objdump)
                if function.symbol == f"_pocl_kernel_{phase.function}"
            ]
    note = POCL_NOTE if functions else "the driver's binary holds no machine code of the kernels"
    return Disassembly("assembly", tuple(functions), note)


def _renamed(function: AssemblyFunction, name: str) -> AssemblyFunction:
    return AssemblyFunction(name, (AssemblyLine(f"{name}:"), *function.lines[1:]))
