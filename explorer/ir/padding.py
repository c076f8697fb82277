"""Arrays of a valid length for programs with a capacity, and back.

    capacity 8, 1 row a call          past: (1, 4, 3, 16) -> (1, 4, 8, 16)      past_length: 3
                                      present: (1, 4, 8, 16) -> (1, 4, 4, 16)

A caller may give whole arrays and the length, or arrays that are as long as what is valid. These
are float32 also where the program stores rows in fewer bytes: they are rounded on the way in, and
what comes out is exact. Rows of int8 have their scales in an array of their own there
(`row_scales`), which callers do not see. Whole arrays are as the program has them, and those that
it only has in another order (float32 as columns) may also be as the source has them.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from explorer.errors import InputError
from explorer.ir.row_scales import dequantized, quantized
from explorer.results.program import GrowingValue, ValidLength


def valid_rows(length: ValidLength, inputs: Mapping[str, np.ndarray]) -> int | None:
    """How much is valid, by the sizes of the inputs; None where the caller says it.

    InputError where two inputs disagree, for more than the capacity holds, and for a mask with
    zeros where it is to be full.
    """
    if length.name in inputs:
        check_masks(length, inputs, int(np.asarray(inputs[length.name])))
        return None
    rows = common_rows(length, inputs)
    check_rows(length, rows)
    check_masks(length, inputs, rows)
    return rows


def check_masks(length: ValidLength, inputs: Mapping[str, np.ndarray], rows: int) -> None:
    """InputError for a mask that is to be full and is not 1 for all valid and all new rows."""
    for value in length.inputs:
        mask = inputs.get(value.name)
        if value.name in length.full_masks and isinstance(mask, np.ndarray):
            check_full(value.name, mask[(slice(None),) * value.axis + (slice(rows + value.more),)])


def check_full(name: str, mask: np.ndarray) -> None:
    """InputError for a mask that does not consist of ones."""
    if not is_full(mask):
        raise InputError(
            f"`{name}` has other numbers than 1: the program is for sequences that have all rows",
            node=name,
            hint="compile without a capacity for sequences of different lengths",
        )


def is_full(mask: np.ndarray) -> bool:
    """Whether a mask consists of ones."""
    return bool((mask == 1).all())


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
        return reordered(length, inputs)
    found = {**inputs, length.name: np.array(rows, np.int64)}
    for value in length.inputs:
        array = inputs.get(value.name)
        if isinstance(array, np.ndarray) and (
            value.is_kept_otherwise or array.shape[value.axis] != length.capacity
        ):
            found |= filled(array, value, length.capacity)
    return found


def reordered(length: ValidLength, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Whole arrays, those in the order of the source's axes in that of the program."""
    found = dict(inputs)
    for value in length.inputs:
        array = inputs.get(value.name)
        if isinstance(array, np.ndarray) and _is_as_given(array, value, length):
            found[value.name] = np.ascontiguousarray(in_order(array, value))
    return found


def _is_as_given(array: np.ndarray, value: GrowingValue, length: ValidLength) -> bool:
    """Whether an array that the program only has in another order is in the source's: a row's size
    is not the capacity (`narrow-past`)."""
    is_only_turned = value.is_turned and not value.stored
    return is_only_turned and array.ndim > value.axis and array.shape[value.axis] == length.capacity


def filled(array: np.ndarray, value: GrowingValue, capacity: int) -> dict[str, np.ndarray]:
    """An array with zeros after what is valid, in the type that the program stores; with the
    scales of its rows where they have some. By the names of the program's values."""
    arrays = {value.name: array}
    if value.stored and array.dtype == np.float32:
        if value.scale:
            arrays = dict(zip((value.name, value.scale), quantized(array, value.axis), strict=True))
        else:
            with np.errstate(over="ignore"):
                arrays = {value.name: array.astype(value.stored)}
    return {name: _whole(part, value, capacity) for name, part in arrays.items()}


def _whole(array: np.ndarray, value: GrowingValue, capacity: int) -> np.ndarray:
    shape = list(array.shape)
    shape[value.axis] = capacity
    whole = np.zeros(shape, array.dtype)
    whole[(slice(None),) * value.axis + (slice(array.shape[value.axis]),)] = array
    return np.ascontiguousarray(in_order(whole, value))


def in_order(array: np.ndarray, value: GrowingValue) -> np.ndarray:
    """An array of callers in the order that the program has, and back."""
    return array.swapaxes(-1, -2) if value.is_turned else array


def as_given(length: ValidLength, outputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The program's outputs in the order of the source's axes, and rows of int8 as the numbers
    that they stand for. Nothing is cut, and float16 stays what it is."""
    found = {name: array for name, array in outputs.items() if name not in length.scales}
    for value in length.outputs:
        if value.name in found:
            found[value.name] = _numbers(outputs, value)
    return found


def with_order_of(
    length: ValidLength, inputs: Mapping[str, np.ndarray], outputs: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Whole outputs of the program: with whole inputs in the source's order they have it, too."""
    arrays = ((value, inputs.get(value.name)) for value in length.inputs)
    if not any(a is not None and _is_as_given(a, value, length) for value, a in arrays):
        return dict(outputs)
    turned = {v.name: v for v in length.outputs if v.is_turned and not v.stored}
    return {n: in_order(a, turned[n]) if n in turned else a for n, a in outputs.items()}


def _numbers(arrays: Mapping[str, np.ndarray], value: GrowingValue) -> np.ndarray:
    array = arrays[value.name]
    if value.scale:
        array = dequantized(array, arrays[value.scale])
    return in_order(array, value)


def cut(length: ValidLength, outputs: Mapping[str, np.ndarray], rows: int) -> dict[str, np.ndarray]:
    """The outputs without what is beyond the valid length after a call that began with `rows`.
    What was cut before stays as it is."""
    found = {name: array for name, array in outputs.items() if name not in length.scales}
    for value in length.outputs:
        if value.name in found and (not value.scale or value.scale in outputs):
            found[value.name] = valid_part(outputs, value, rows)
    return found


def valid_part(arrays: Mapping[str, np.ndarray], value: GrowingValue, rows: int) -> np.ndarray:
    """What is valid of one of the program's arrays, as callers have it: an array of its own."""
    array = arrays[value.name]
    kept = _valid(array, value, rows)
    if value.scale:
        kept = dequantized(kept, _valid(arrays[value.scale], value, rows))
    return kept.astype(np.float32 if value.stored else array.dtype, order="C")


def _valid(array: np.ndarray, value: GrowingValue, rows: int) -> np.ndarray:
    size = max(0, rows + value.more)
    return in_order(array, value)[(slice(None),) * value.axis + (slice(size),)]
