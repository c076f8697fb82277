"""What the device's compiler makes of every kernel, linked to the kernel's source.

assemble(program, disassemble)["conv_1"]
-> KernelAssembly(text=SourceText("assembly", lines, owners), source_lines=((), (60,), ...))

functions.py     the form that all of the following give
native.py        C: the compiler's own listing (listing.py) with inlined calls (inlining.py)
opencl.py        OpenCL: PTX (ptx.py), or PoCL's machine code (disassembler.py)
attribution.py   functions to kernels, lines of the program to lines of the kernel
"""

from __future__ import annotations

from collections.abc import Callable

from explorer.errors import ExplorerError
from explorer.results import Program
from explorer.runtime.assembly.attribution import KernelAssembly, assign, wanted_functions
from explorer.runtime.assembly.functions import Disassembly

__all__ = ["KernelAssembly", "assemble"]


def assemble(
    program: Program, disassemble: Callable[[tuple[str, ...]], Disassembly]
) -> dict[str, KernelAssembly]:
    """Every kernel's assembly by the kernel's name: two compilations of the whole program.

    `disassemble` is given the functions that are wanted: `native_functions` or
    `opencl_functions`. Where nothing can be had, `text` is None and `note` says why.
    """
    try:
        found = disassemble(wanted_functions(program))
    except ExplorerError as error:
        found = Disassembly("assembly", note=f"there is no assembly: {error}")
    return assign(program, found)
