"""What a session takes: arrays that fit the model's inputs, and buckets that make sense.

fitting_array(value, np.zeros((2, 3), np.float32), sizes)      the array, where it fits
checked_ranges("batch", [(9, 64), (1, 8)])                     ((1, 8), (9, 64))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from explorer.errors import InputError
from explorer.results.runs.saved_program import ModelInput

if TYPE_CHECKING:
    from explorer.importers import SourceModel

Range = tuple[int, int]
"""The least and the largest size of a bucket."""
MAX_SIZES = 16
"""Numbers of a vector that says sizes: bounds of a slice, say, or the target of a reshape."""


def says_sizes(array: np.ndarray) -> bool:
    """Whether an input may be sizes or a condition, and not data: a number, or a short vector."""
    most = 1 if array.dtype == bool else MAX_SIZES
    return array.ndim == 0 or (array.ndim == 1 and array.size <= most)


def checked_inputs(
    model: Callable[[], SourceModel],
    declared: Sequence[ModelInput],
    inputs: Mapping[str, np.ndarray],
) -> dict[str, np.ndarray]:
    """The arrays in the order of the model's inputs. InputError for what it cannot take.

    model: read for inputs that are no plain arrays, strings or sequences.
    """
    names = [value.name for value in declared]
    if any(
        name not in names or np.asarray(value).dtype.kind in "OUS" for name, value in inputs.items()
    ):
        from explorer.importers import program_inputs

        inputs = program_inputs(model(), inputs, {})
    for name in inputs:
        if name not in names:
            raise InputError(
                f"the model has no input {name!r}", hint=f"its inputs are {', '.join(names)}"
            )
    given: dict[str, np.ndarray] = {}
    sizes: dict[str, tuple[str, int]] = {}
    for value in declared:
        if value.name not in inputs:
            raise InputError(f"there is no array for the input {value.name!r}", node=value.name)
        given[value.name] = fitting_array(value, np.asarray(inputs[value.name]), sizes)
    return given


def fitting_array(
    value: ModelInput, array: np.ndarray, sizes: dict[str, tuple[str, int]]
) -> np.ndarray:
    """The array where the model can take it. Adds to `sizes`: who gave a dimension its size."""
    if array.dtype.name != value.element_type:
        raise InputError(
            f"input {value.name!r}: expected {value.element_type}, got {array.dtype.name}",
            node=value.name,
            hint=f"array.astype({value.element_type!r})",
        )
    shape = value.shape
    if shape is None:
        return array
    if len(shape) != array.ndim:
        raise InputError(
            f"input {value.name!r}: expected {len(shape)} axes, got {array.ndim}", node=value.name
        )
    for axis, (dimension, size) in enumerate(zip(shape, array.shape, strict=True)):
        if isinstance(dimension, str):
            giver, expected = sizes.setdefault(dimension, (value.name, size))
            where = f"as dimension {dimension!r} of input {giver!r}"
        else:
            expected, where = dimension, "as the model says"
        if size != expected:
            raise InputError(
                f"input {value.name!r}: axis {axis} has size {size}, expected {expected} {where}",
                node=value.name,
            )
    return array


def checked_ranges(name: str, ranges: Sequence[Range]) -> tuple[Range, ...]:
    """Buckets in order. InputError where one is empty, or two have a size in common."""
    ordered = tuple(sorted((int(low), int(high)) for low, high in ranges))
    for low, high in ordered:
        if not 1 <= low <= high:
            raise InputError(f"{name}: a bucket from {low} to {high} holds no size")
    for (_, high), (low, _) in pairwise(ordered):
        if low <= high:
            raise InputError(f"{name}: two buckets hold the size {low}")
    return ordered
