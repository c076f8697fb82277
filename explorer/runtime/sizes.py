"""The size of a program's open dimension: taken from its inputs, and given to its ports.

program.size = OpenDimension("batch", 1, 8, ...), port x of shape (8, 3, 32, 32) with rows = 1
size_of_inputs(program, {"x": array of shape (3, 3, 32, 32)})     ->  3
shape_at(port, 3)                                                 ->  (3, 3, 32, 32)
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from explorer.errors import InputError
from explorer.results.program import Port, Program


def size_of_inputs(program: Program, inputs: Mapping[str, np.ndarray]) -> int:
    """The size that the inputs have; 0 for a program whose sizes are all fixed.

    InputError where inputs disagree, or where the size lies outside of the program's range.
    """
    dimension = program.size
    if dimension is None:
        return 0
    found, giver = 0, ""
    for port in program.inputs:
        array = inputs.get(port.name)
        if not port.rows or not isinstance(array, np.ndarray) or array.ndim != len(port.shape):
            continue  # `check_inputs` says what is wrong with it
        rows = array.shape[rows_axis(port)]
        if rows % port.rows:
            raise InputError(
                f"input {port.name!r} has {rows} rows: {port.rows} are expected for each unit of "
                f"{dimension.name!r}",
                node=port.name,
                hint=f"a multiple of {port.rows}",
            )
        size = rows // port.rows
        if not dimension.lowest <= size <= dimension.highest:
            raise InputError(
                f"{dimension.name} is {size} in input {port.name!r}, but the program was compiled "
                f"for {dimension.lowest} to {dimension.highest}",
                node=port.name,
                hint=f"compile it for {size}, or for a range that holds it",
            )
        if giver and size != found:
            raise InputError(
                f"{dimension.name} is {found} in input {giver!r}, but {size} in {port.name!r}",
                node=port.name,
                hint=f"give inputs in which {dimension.name} is the same",
            )
        found, giver = size, port.name
    return found or dimension.highest


def rows_axis(port: Port) -> int:
    """The axis of a port's rows: the first that is not 1."""
    return next((axis for axis, size in enumerate(port.shape) if size != 1), 0)


def shape_at(port: Port, size: int) -> tuple[int, ...]:
    """The port's shape at a size; its own where it has no rows."""
    if not port.rows or not size:
        return port.shape
    axis = rows_axis(port)
    return (*port.shape[:axis], port.rows * size, *port.shape[axis + 1 :])
