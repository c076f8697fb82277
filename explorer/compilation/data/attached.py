"""Data that a person attached to a model: arrays by input, with or without labels.

    data = AttachedData("eval.npz", {"image": float32 array of (64, 1, 8, 8)}, labels of (64,))
    fitted = fit_data(data, compilation)      an InputError names the array that does not fit
    fitted.count, fitted.at(0)                64 runs of a program with a batch of 1

The first axis of an array counts examples. An array with the compiled shape itself is one run, and
is shared by all runs where other arrays hold more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from explorer.accuracy.drawing import how_drawn
from explorer.errors import InputError
from explorer.importers.inputs import describe
from explorer.importers.model import SourceValue
from explorer.results.data import DataRecord
from explorer.results.names import near_name

if TYPE_CHECKING:
    from explorer.compilation.compiled import Compiled

Arrays = dict[str, np.ndarray]
MAX_RUNS = 1000
"""Runs over which outputs are compared."""
GIVEN = "the given inputs"


@dataclass(frozen=True)
class AttachedData:
    """Arrays by the names of inputs, as they were read."""

    name: str
    """What the page and reports call it: the file's name."""
    inputs: Mapping[str, np.ndarray] = field(repr=False)
    labels: np.ndarray | None = field(default=None, repr=False)
    """(N,) of integers: the place of the largest element of the first output."""
    notes: tuple[str, ...] = ()
    """How files became arrays."""


@dataclass(frozen=True, kw_only=True)
class FittedData:
    """The data as runs of one compilation."""

    record: DataRecord
    count: int
    """Runs."""
    examples_per_run: int
    labels: np.ndarray | None
    shared: Mapping[str, np.ndarray] = field(repr=False)
    """Inputs that are the same in all runs, the drawn ones among them."""
    rows: Mapping[str, tuple[np.ndarray, int]] = field(repr=False)
    """By input an array and how many rows of it a run takes; 0 for one row without its axis."""

    def at(self, run: int) -> Arrays:
        """The inputs of one run."""
        found = dict(self.shared)
        for name, (array, rows) in self.rows.items():
            part = array[run * rows : (run + 1) * rows] if rows else array[run]
            found[name] = np.ascontiguousarray(part)
        return found

    def labels_at(self, run: int) -> np.ndarray | None:
        """The labels of the examples of one run."""
        begin = run * self.examples_per_run
        return None if self.labels is None else self.labels[begin : begin + self.examples_per_run]


def check_labels(labels: object) -> np.ndarray | None:
    """Labels as an array. InputError for what is no row of whole numbers."""
    if labels is None:
        return None
    array = np.asarray(labels)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InputError(
            f"labels are whole numbers in one row, not {array.dtype.name} of shape {array.shape}",
            hint="one class number for each example",
        )
    return array


def fit_data(data: AttachedData, compiled: Compiled) -> FittedData:
    """The data as runs of the compiled program; inputs without an array are drawn.

    Raises:
        InputError: for an array of another name, type or shape, different numbers of examples, no
            example at all, or labels that are not as many as the examples.
    """
    values = {value.name: value for value in compiled.model.inputs}
    drawn = compiled.example_inputs()
    arrays = _by_input(data, values, drawn)
    shared: Arrays = {name: array for name, array in drawn.items() if name not in arrays}
    rows: dict[str, tuple[np.ndarray, int]] = {}
    examples, per_run = {}, 1
    for name, array in arrays.items():
        array = _of_type(data, values[name], array, drawn[name].dtype)
        shape = drawn[name].shape
        has_open_axis = bool(compiled.settings.open_ranges)
        taken = _rows_of(array, shape, has_open_axis)
        if taken is None:
            raise _misfit(data, values[name], array, shape)
        if taken < 0:
            shared[name] = array if has_open_axis else array.reshape(shape)
            if _has_batch(values[name]) and array.ndim:
                per_run = max(per_run, len(array) if array.ndim == len(shape) else 1)
            continue
        rows[name] = (array, taken)
        examples[name] = len(array)
        per_run = max(per_run, taken)
    count, total = _count(data, examples, per_run)
    if data.labels is not None and len(data.labels) != total:
        raise InputError(
            f"{data.name} has {len(data.labels)} labels for {total} examples",
            hint="one label for each element of the inputs' first axis",
        )
    runs = min(count, MAX_RUNS)
    unknown = [pair for pair in how_drawn(compiled.model, compiled.known) if pair[0] not in arrays]
    record = DataRecord(
        name=data.name,
        examples=runs * per_run,
        left_out=total - runs * per_run,
        has_labels=data.labels is not None,
        drawn=tuple(unknown),
        notes=data.notes,
    )
    return FittedData(
        record=record,
        count=runs,
        examples_per_run=per_run,
        labels=data.labels,
        shared=shared,
        rows=rows,
    )


def _by_input(
    data: AttachedData, values: Mapping[str, SourceValue], drawn: Mapping[str, np.ndarray]
) -> Arrays:
    """The arrays by input. The only array may have any name where the model has one input."""
    arrays = dict(data.inputs)
    known = [name for name in values if name in drawn]
    if not arrays:
        raise InputError(
            f"{data.name} has no array for an input", hint=f"inputs: {', '.join(known)}"
        )
    unknown = [name for name in arrays if name not in known]
    if unknown and len(arrays) == len(known) == 1:
        return {known[0]: arrays[unknown[0]]}
    if unknown:
        raise InputError(
            f"{data.name}: the model has no input {unknown[0]!r}; its inputs are "
            f"{', '.join(known)}",
            hint=near_name(unknown[0], known, "name arrays as the model's inputs"),
        )
    return arrays


def _of_type(
    data: AttachedData, value: SourceValue, array: np.ndarray, wanted: np.dtype
) -> np.ndarray:
    """The array in the input's type, where that changes its numbers by rounding at most."""
    if array.dtype == wanted:
        return array
    is_float = wanted.kind == "f" or wanted.name == "bfloat16"
    if (is_float and array.dtype.kind in "fiu") or np.can_cast(array.dtype, wanted):
        return array.astype(wanted)
    fits = array.dtype.kind in "iu" and wanted.kind in "iu" and array.size
    if fits and np.array_equal(array, array.astype(wanted)):
        return array.astype(wanted)
    raise InputError(
        f"{data.name}: input {value.name!r} takes {describe(value)}; the array is "
        f"{array.dtype.name}",
        node=value.name,
        hint=f"array.astype({value.element_type!r})",
    )


def _rows_of(array: np.ndarray, shape: tuple[int, ...], has_open_axis: bool) -> int | None:
    """Rows of the first axis that a run takes; 0 for one row without its axis, -1 for the whole
    array as one run, None for an array that does not fit."""
    if array.shape == shape or (shape[:1] == (1,) and array.shape == shape[1:]):
        return -1
    if array.ndim == len(shape) + 1 and array.shape[1:] == shape:
        return 0
    if array.ndim == len(shape) and shape and array.shape[1:] == shape[1:] and not has_open_axis:
        return shape[0]
    if has_open_axis and array.ndim == len(shape):
        fits = all(mine <= most for mine, most in zip(array.shape, shape, strict=True))
        return -1 if fits else None
    return None


def _has_batch(value: SourceValue) -> bool:
    """Whether the first axis has a symbolic size, as a batch has."""
    return bool(value.shape) and isinstance(value.shape[0], str)


def _count(data: AttachedData, examples: Mapping[str, int], per_run: int) -> tuple[int, int]:
    """(runs, examples) of all arrays."""
    if len(set(examples.values())) > 1:
        words = ", ".join(f"{name} {count}" for name, count in examples.items())
        raise InputError(
            f"{data.name}: the inputs have different numbers of examples: {words}",
            hint="the first axis of all arrays counts the same examples",
        )
    total = next(iter(examples.values()), per_run)
    if total < per_run or not total:
        raise InputError(
            f"{data.name} has {total} examples, and one run takes {per_run}",
            hint="give more examples, or compile with a smaller batch: --dim NAME=SIZE",
        )
    return total // per_run, total


def _misfit(
    data: AttachedData, value: SourceValue, array: np.ndarray, shape: Sequence[int]
) -> InputError:
    inside = ", ".join(map(str, shape))
    return InputError(
        f"{data.name}: input {value.name!r} takes arrays of shape ({inside}), or (N, {inside}) for "
        f"N examples; the array has shape {array.shape}",
        node=value.name,
        hint="the first axis counts examples",
    )
