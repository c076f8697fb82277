"""Assembly of an OpenCL program: what the driver gives as its binary, where that can be read.

NVIDIA's binary is PTX text. PoCL's is a container of shared libraries, one per kernel and size
of work-group, which binutils disassemble. Other drivers' formats are their own secret.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
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
from explorer.runtime.opencl import build_program, open_device, work_group_items

LINE_TABLE = ("-g",)
POCL_MARK = b"poclbin"
POCL_LIBRARY = re.compile(rb"/(\w+)/([\w-]+)/\1\.so(.{4}|.{8})(?=\x7fELF)", re.DOTALL)
"""Kernel, folder, size of the file in bytes; the file follows."""
ANY_SIZE = "0-0-0"
"""PoCL's folder of the library that serves every size of work-group."""


def opencl_functions(
    program: Program, functions: Collection[str], device: DeviceRecord
) -> Disassembly:
    """`functions` as the device's driver compiles them, with a note where it doesn't tell.

    Raises BuildError when the driver refuses the program.
    """
    handle = open_device(device)
    context = cl.Context([handle])
    running = _read(_binary(context, handle, program, device, ()), program, functions, device)
    if not running.functions:
        return running
    try:
        binary = _binary(context, handle, program, device, LINE_TABLE)
    except BuildError as error:
        note = f"{device.driver} writes no line table ({error.message}), so no line is linked"
        return replace(running, note=note)
    with_lines = _read(binary, program, functions, device)
    if not any(line.source_lines for f in with_lines.functions for line in f.lines):
        return replace(running, note=f"{device.driver} writes no line table: no line is linked")
    return with_lines_if_equal(running, with_lines, device.driver)


def _binary(
    context: cl.Context,
    handle: cl.Device,
    program: Program,
    device: DeviceRecord,
    options: Sequence[str],
) -> bytes:
    built = build_program(context, handle, program, options)
    if device.processor == "cpu":
        _run_every_kernel(context, built, program, device)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return built.get_info(cl.program_info.BINARIES)[0]


def _run_every_kernel(
    context: cl.Context, built: cl.Program, program: Program, device: DeviceRecord
) -> None:
    """PoCL compiles a kernel for its size of work-group when it is first enqueued.

    Each kernel runs once, on zeros: what the first launch would do, without its data.
    """
    queue = cl.CommandQueue(context)
    flags = cl.mem_flags.READ_WRITE
    arena = cl.Buffer(context, flags, max(program.arena_bytes, 64))
    weights = cl.Buffer(context, flags, max(program.weights_bytes, 64))
    for buffer in (arena, weights):
        cl.enqueue_fill_buffer(queue, buffer, np.zeros(1, np.uint8), 0, buffer.size)
    first = {launch.kernel: launch for launch in reversed(program.launches)}
    for record in program.kernels:
        offsets = [np.uint64(argument.offset_bytes) for argument in first[record.name].arguments]
        for phase in record.phases:
            if phase.tasks:
                kernel = cl.Kernel(built, phase.function)
                kernel.set_args(arena, weights, *offsets)
                group = work_group_items(phase.tasks, device)
                sizes = None if group is None else (group,)
                cl.enqueue_nd_range_kernel(queue, kernel, (phase.tasks,), sizes)
    queue.finish()
    arena.release()
    weights.release()


def _read(
    binary: bytes, program: Program, functions: Collection[str], device: DeviceRecord
) -> Disassembly:
    if is_ptx(binary):
        text = binary.decode("utf-8", errors="replace")
        return Disassembly("ptx", parse_ptx(text, functions))
    if not binary.startswith(POCL_MARK):
        return Disassembly(
            "assembly",
            note=f"{device.driver} gives its program as {len(binary)} bytes in a format of its "
            f"own (beginning with {binary[:8]!r})",
        )
    objdump = find_disassembler()
    if objdump is None:
        return Disassembly(
            "assembly", note="the driver's machine code can be read with binutils: install them"
        )
    return _read_pocl(binary, program, device, objdump)


def _read_pocl(
    binary: bytes, program: Program, device: DeviceRecord, objdump: str
) -> Disassembly:
    places = list(POCL_LIBRARY.finditer(binary))
    libraries: dict[tuple[str, str], bytes] = {}
    for place in places:
        size = int.from_bytes(place[3], "little")
        key = (place[1].decode(), place[2].decode())
        libraries[key] = binary[place.end() : place.end() + size]
    functions: list[AssemblyFunction] = []
    for record in program.kernels:
        for phase in record.phases:
            group = work_group_items(phase.tasks, device) if phase.tasks else None
            library = _library_for(libraries, phase.function, group)
            if library is not None:
                functions += _own_functions(disassemble(library, objdump), phase.function)
    note = "" if functions else f"{device.driver} keeps no machine code in its program"
    return Disassembly("assembly", tuple(functions), note)


def _library_for(
    libraries: dict[tuple[str, str], bytes], function: str, group: int | None
) -> bytes | None:
    """The library for a size of work-group, or else the one for any."""
    for (name, folder), library in libraries.items():
        if name == function and group is not None and folder.startswith(f"{group}-1-1"):
            return library
    return libraries.get((function, ANY_SIZE))


def _own_functions(
    functions: Sequence[AssemblyFunction], function: str
) -> list[AssemblyFunction]:
    """What PoCL calls for one work-group, under the name that the kernel has in the source.

    A library also holds the kernel as a function of its own, mostly inlined and then not called,
    and the same once more for devices with other calling conventions.
    """
    by_symbol = {f.symbol: f for f in functions}
    inner, entry = f"_pocl_kernel_{function}", f"_pocl_kernel_{function}_workgroup"
    found = [by_symbol[entry]] if entry in by_symbol else []
    if found and inner in by_symbol and _calls(found[0], inner):
        found.append(by_symbol[inner])
    return [
        AssemblyFunction(f"{function}.{f.symbol}", (AssemblyLine(f"{f.symbol}:"), *f.lines[1:]))
        for f in found
    ]


def _calls(function: AssemblyFunction, symbol: str) -> bool:
    return any(text.split()[-1] == symbol for text in function.instructions)
