"""What the device's compiler makes of every kernel, linked to the kernel's source.

assemble(program, device)["conv_1"]
-> KernelAssembly(text=SourceText("assembly", lines, owners), source_lines=((), (60,), ...))

functions.py     the form that all of the following give
native.py        C: the compiler's own listing (listing.py) with inlined calls (inlining.py)
opencl.py        OpenCL: PTX (ptx.py), or PoCL's machine code (disassembler.py)
attribution.py   functions to kernels, lines of the program to lines of the kernel
"""

from __future__ import annotations

from explorer.errors import ExplorerError
from explorer.results import Program
from explorer.runtime.assembly.attribution import KernelAssembly, assign, wanted_functions
from explorer.runtime.assembly.functions import Disassembly
from explorer.runtime.assembly.native import native_functions
from explorer.runtime.devices import DeviceRecord

__all__ = ["KernelAssembly", "assemble"]


def assemble(program: Program, device: DeviceRecord | None = None) -> dict[str, KernelAssembly]:
    """Every kernel's assembly by the kernel's name: two compilations of the whole program.

    `device` is needed for OpenCL. Where nothing can be had, `text` is None and `note` says why.
    """
    functions = wanted_functions(program)
    try:
        if program.source.language == "c":
            found = native_functions(program, functions)
        elif device is None:
            found = Disassembly("assembly", note="there is no device whose driver could be asked")
        else:
            # Only here: pyopencl is not needed for the processor.
            from explorer.runtime.assembly.opencl import opencl_functions

            found = opencl_functions(program, functions, device)
    except ExplorerError as error:
        found = Disassembly("assembly", note=f"there is no assembly: {error}")
    return assign(program, found)
