"""A model's inputs from a `.npz` file, checked against what the model says before it is compiled.

arrays, sizes = read_inputs(model, Path("inputs.npz"), {})
# arrays: {"image": ...}; sizes: {"batch": 4}, read off an array whose axis the model calls batch
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from explorer.errors import InputError
from explorer.importers.arrays import read_arrays
from explorer.results.names import near_name

if TYPE_CHECKING:
    from explorer.importers import SourceModel
    from explorer.importers.model import SourceValue
    from explorer.results.runs.saved_program import ModelInput, ModelInterface

Arrays = dict[str, np.ndarray]


def read_inputs(
    model: SourceModel | ModelInterface, path: Path, sizes: Mapping[str, int]
) -> tuple[Arrays, dict[str, int]]:
    """The arrays for a model's inputs, and the sizes of its symbolic dimensions.

    `sizes` are those that the person gave; the arrays say the others. InputError names the file
    and the input that does not fit.
    """
    arrays = read_arrays(path)
    if any(array.dtype.kind == "U" for array in arrays.values()):
        from explorer.importers.onnx.file.string_inputs import program_inputs

        arrays = program_inputs([value.name for value in model.inputs], arrays)
    found = check_arrays(model, arrays, sizes, path)
    for value in model.inputs:
        if value.name not in arrays:
            raise InputError(
                f"there is no array for the input {value.name!r}; expected {describe(value)}",
                file=str(path),
                node=value.name,
                hint=f"numpy.savez(file, **{{{value.name!r}: array}})",
            )
    return arrays, found


def check_arrays(
    model: SourceModel | ModelInterface,
    arrays: Mapping[str, np.ndarray],
    sizes: Mapping[str, int],
    path: Path,
) -> dict[str, int]:
    """`sizes` and those that the arrays say, which may be of some inputs only."""
    known = [value.name for value in model.inputs]
    for name in arrays:
        if name not in known:
            raise InputError(
                f"the model has no input {name!r}; its inputs are {', '.join(known) or 'none'}",
                file=str(path),
                hint=near_name(name, known, "leave that array out"),
            )
    found = dict(sizes)
    for value in model.inputs:
        if value.name in arrays:
            _check_array(value, arrays[value.name], found, path)
    return found


def _check_array(
    value: SourceValue | ModelInput, array: np.ndarray, sizes: dict[str, int], path: Path
) -> None:
    """Adds sizes that the array says to `sizes`."""
    got = f"{array.dtype.name} of shape {array.shape}"
    if array.dtype != np.dtype(value.element_type):
        raise InputError(
            f"input {value.name!r}: expected {describe(value)}, got {got}",
            file=str(path),
            node=value.name,
            hint=f"array.astype({value.element_type!r})",
        )
    shape = value.shape or ()
    fits = len(shape) == array.ndim
    for dimension, size in zip(shape, array.shape, strict=False):
        expected = sizes.setdefault(dimension, size) if isinstance(dimension, str) else dimension
        lowest, highest = expected if isinstance(expected, tuple) else (expected, expected)
        fits = fits and lowest <= size <= highest
    if not fits:
        raise InputError(
            f"input {value.name!r}: expected {describe(value, sizes)}, got {got}",
            file=str(path),
            node=value.name,
            hint="give an array of that shape",
        )


def describe(value: SourceValue | ModelInput, sizes: Mapping[str, int] | None = None) -> str:
    """`float32 of shape (batch=4, 1, 8, 8)`."""
    known = sizes or {}
    parts = [f"{d}={known[d]}" if d in known else d for d in map(str, value.shape or ())]
    inside = ", ".join(parts) + ("," if len(parts) == 1 else "")
    return f"{value.element_type} of shape ({inside})"
