"""Loading a saved program of several parts: binaries on their device, the host's text interpreted.

Only programs that have parts import the IR to start.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects import func

from explorer.errors import DeviceError
from explorer.importers import read_meanings
from explorer.ir.functions.host_functions import HostFunction
from explorer.ir.inspection.printing import parse
from explorer.ir.weights import Weights
from explorer.runtime.element_types import know_element_types
from explorer.runtime.executable import Executable
from explorer.runtime.host import HostProgram
from explorer.runtime.parts import PartsProgram

if TYPE_CHECKING:
    from explorer.results.runs.saved_program import SavedArray
    from explorer.runtime.cache.saved_programs import Startable
    from explorer.runtime.host import CompileFor


def load_saved_parts(
    found: Startable,
    open_part: Callable[[Startable], Executable],
    compile_for: CompileFor | None = None,
) -> Executable:
    """All parts, in order; `open_part` opens what belongs to a device."""
    know_element_types(array.element_type for array in found.kept.arrays)
    weights = Weights({array.name: _array(array, found.block) for array in found.kept.arrays})
    programs = {part.function: part.program for part in found.kept.program.parts}
    with contextlib.ExitStack() as stack:
        opened: dict[str, Executable] = {}
        for part, startable in found.parts():
            if startable is not None:
                executable = open_part(startable)
            else:
                program = programs[part.function]
                assert program is not None  # checked when the file was read
                host = _host_function(part.function, part.text, weights)
                executable = HostProgram(program, host, compile_for)
            opened[part.function] = stack.enter_context(executable)
        stack.pop_all()  # the program closes them from here on
    return PartsProgram(found.kept.program, opened)


def _host_function(name: str, text: str, weights: Weights) -> HostFunction:
    """DeviceError where the text is another function's."""
    module = parse(text, name)
    read_meanings(module)
    functions = [op for op in module.ops if isinstance(op, func.FuncOp)]
    if [function.sym_name.data for function in functions] != [name]:
        raise DeviceError(f"what was kept of the part {name} is another function's text")
    return HostFunction(functions[0], weights)


def _array(kept: SavedArray, block: np.ndarray) -> np.ndarray:
    data = block[kept.offset_bytes : kept.offset_bytes + kept.size_bytes].view(kept.element_type)
    return np.broadcast_to(data[0], kept.shape) if kept.is_splat else data.reshape(kept.shape)
