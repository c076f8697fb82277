"""Arrays of a valid length for programs with a capacity, and back.

    capacity 8, 1 row a call          past: (1, 4, 3, 16) -> (1, 4, 8, 16)      past_length: 3
                                      present: (1, 4, 8, 16) -> (1, 4, 4, 16)

A caller may give whole arrays and the length, or arrays that are as long as what is valid. These
are float32 also where the program stores rows in fewer bytes: they are rounded on the way in, and
what comes out is exact. Whole arrays are as the program has them.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from explorer.errors import InputError
from explorer.results.program import GrowingValue, ValidLength


def valid_rows(length: ValidLength, inputs: Mapping[str, np.ndarray]) -> int | None:
    """How much is valid, by the sizes of the inputs; None where the caller says it.

    InputError where two inputs disagree, and for more than the capacity holds.
    """
    if length.name in inputs:
        return None
    rows = common_rows(length, inputs)
    check_rows(length, rows)
    return rows


def common_rows(length: ValidLength, inputs: Mapping[str, np.ndarray]) -> int:
    """How much is valid, by the sizes of the inputs; InputError where two disagree."""
    found: dict[int, str] = {}
    for value in length.inputs:
        array = inputs.get(value.name)
        if isinstance(array, np.ndarray) and array.ndim > value.axis:
            found.setdefault(array.shape[value.axis] - value.more, value.name)
    if not found:
        raise InputError(
            f"input `{length.name}` is missing: how much of the states is valid",
            hint=", ".join(value.name for value in length.inputs) + " would say it, too",
        )
    if len(found) > 1:
        texts = [f"{name} says {rows}" for rows, name in found.items()]
        raise InputError(f"the inputs disagree about the valid length: {', '.join(texts)}")
    (rows,) = found
    return rows


def check_rows(length: ValidLength, rows: int) -> None:
    """InputError where a call would write beyond the capacity."""
    if not 0 <= rows <= length.capacity - length.rows:
        raise InputError(
            f"{rows} rows are valid and a call adds {length.rows}; the capacity is "
            f"{length.capacity}",
            hint=f"compile with a capacity of {max(rows, 0) + length.rows} or more",
        )


def padded(length: ValidLength, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The inputs with their capacity, zeros in front of nothing, and the length among them."""
    rows = valid_rows(length, inputs)
    if rows is None:
        check_rows(length, int(np.asarray(inputs[length.name])))
        return dict(inputs)
    found = {**inputs, length.name: np.array(rows, np.int64)}
    for value in length.inputs:
        array = inputs.get(value.name)
        if isinstance(array, np.ndarray) and (
            value.stored or array.shape[value.axis] != length.capacity
        ):
            found[value.name] = filled(array, value, length.capacity)
    return found


def filled(array: np.ndarray, value: GrowingValue, capacity: int) -> np.ndarray:
    """An array with zeros after what is valid, in the type that the program stores."""
    if value.stored and array.dtype == np.float32:
        with np.errstate(over="ignore"):
            array = array.astype(value.stored)
    shape = list(array.shape)
    shape[value.axis] = capacity
    whole = np.zeros(shape, array.dtype)
    whole[(slice(None),) * value.axis + (slice(array.shape[value.axis]),)] = array
    return np.ascontiguousarray(in_order(whole, value))


def in_order(array: np.ndarray, value: GrowingValue) -> np.ndarray:
    """An array of callers in the order that the program has, and back."""
    return array.swapaxes(-1, -2) if value.is_turned else array


def cut(length: ValidLength, outputs: Mapping[str, np.ndarray], rows: int) -> dict[str, np.ndarray]:
    """The outputs without what is beyond the valid length after a call that began with `rows`."""
    found = dict(outputs)
    for value in length.outputs:
        if value.name in found:
            found[value.name] = valid_part(found[value.name], value, rows)
    return found


def valid_part(array: np.ndarray, value: GrowingValue, rows: int) -> np.ndarray:
    """What is valid of an array of the program, as callers have it: an array of its own."""
    kept = in_order(array, value)[(slice(None),) * value.axis + (slice(rows + value.more),)]
    return kept.astype(np.float32 if value.stored else array.dtype, order="C")
