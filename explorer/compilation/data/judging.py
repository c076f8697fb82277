"""The outputs of a program against the float source model, over all examples of its data.

    judge_outputs(compilation, fitted)
        -> Judgement(outputs=(OutputError("scores", sqnr_db=44.1, max_relative=0.021),), task=...)

The definition is that of `accuracy/metrics.py`, with sums and largest values taken over all runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from xdsl.ir import SSAValue

from explorer.accuracy.metrics import SMALLEST_SCALE
from explorer.accuracy.oracle import reference
from explorer.accuracy.task import count_right
from explorer.compilation.compiled import Compiled
from explorer.compilation.data.attached import FittedData
from explorer.errors import ModelError
from explorer.ir.evaluation import entry_function, entry_return, output_names, outputs_by_name
from explorer.ir.top.casting import BitcastOp
from explorer.ir.types import QuantizedType, element_type_of, is_float_dtype
from explorer.results.accuracy import TaskAccuracy
from explorer.results.data import OutputError

MAX_IMPORTED_RUNS = 8
"""Runs of the imported program, which NumPy computes, where no reference runs the model."""


@dataclass(frozen=True)
class Judgement:
    """What the outputs are over all runs."""

    outputs: tuple[OutputError, ...]
    task: TaskAccuracy | None
    runs: int


def judge_outputs(
    compiled: Compiled,
    data: FittedData,
    progress: Callable[[str, int, int], None] | None = None,
) -> Judgement:
    """Runs the program and its source on all data. InputError where labels fit no output."""
    names = [value.name for value in compiled.model.outputs]
    kinds = output_kinds(compiled)
    sums = {name: _Sums() for name in names}
    right = source_right = total = 0
    source, runs = _source(compiled, data, names)
    for run in range(runs):
        if progress is not None:
            progress("comparing outputs with the source model", run, runs)
        inputs = data.at(run)
        own, wanted = compiled.executable.run(inputs), source(inputs)
        for name in names:
            _add(sums[name], own[name], wanted[name], kinds.get(name))
        labels = data.labels_at(run)
        if labels is not None:
            right += count_right(own[names[0]], labels)
            source_right += count_right(wanted[names[0]], labels)
            total += len(labels)
    task = None
    if data.labels is not None:
        task = TaskAccuracy(output=names[0], total=total, right=right, source_right=source_right)
    found = tuple(_error(name, own) for name, own in sums.items() if own.elements)
    return Judgement(found, task, runs)


@dataclass
class _Sums:
    noise: float = 0.0
    signal: float = 0.0
    largest: float = 0.0
    """max|a - b|."""
    reach: float = 0.0
    """max|b|."""
    elements: int = 0


Run = Callable[[Mapping[str, np.ndarray]], Mapping[str, np.ndarray]]


def _source(compiled: Compiled, data: FittedData, names: list[str]) -> tuple[Run, int]:
    """What computes the source model's outputs, and on how many runs."""
    try:
        reference(compiled.model, data.at(0), names)
    except ModelError:
        imported = compiled.passes[0].after

        def run_imported(inputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
            return outputs_by_name(imported.program, imported.run(inputs))

        return run_imported, min(data.count, MAX_IMPORTED_RUNS)
    return lambda inputs: reference(compiled.model, inputs, names), data.count


def output_kinds(compiled: Compiled) -> dict[str, QuantizedType]:
    """Scales of outputs that the source stores as integers."""
    entry = entry_function(compiled.passes[0].after.program)
    pairs = zip(output_names(entry), entry_return(entry).operands, strict=True)
    kinds = {name: element_type_of(_stored(value)) for name, value in pairs}
    return {name: kind for name, kind in kinds.items() if isinstance(kind, QuantizedType)}


def _stored(value: SSAValue) -> SSAValue:
    """What a returned value is the bare integers of."""
    owner = value.owner
    return owner.input if isinstance(owner, BitcastOp) else value


def _add(sums: _Sums, own: np.ndarray, wanted: np.ndarray, kind: QuantizedType | None) -> None:
    """Adds a run's tensor; tensors of other numbers than real ones have no such error."""
    if kind is None and not is_float_dtype(wanted.dtype):
        return
    if own.shape != wanted.shape:
        sums.noise = sums.largest = math.inf
        sums.elements += wanted.size
        return
    a, b = (_real(array, kind) for array in (own, wanted))
    finite = np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        sums.noise = sums.largest = math.inf
    a, b = a[finite], b[finite]
    difference = np.abs(a - b)
    difference[np.isnan(difference)] = np.inf
    sums.noise += float(np.sum(difference**2))
    sums.signal += float(np.sum(b**2))
    sums.largest = max(sums.largest, float(difference.max(initial=0.0)))
    sums.reach = max(sums.reach, float(np.abs(b).max(initial=0.0)))
    sums.elements += int(b.size)


def _real(array: np.ndarray, kind: QuantizedType | None) -> np.ndarray:
    wide = array.astype(np.float64)
    if kind is None or is_float_dtype(array.dtype):
        return wide
    scale = kind.along(kind.double_scales, array.ndim)
    return (wide - kind.along(kind.zero_point_array, array.ndim)) * scale


def _error(name: str, sums: _Sums) -> OutputError:
    relative = sums.largest / max(sums.reach, SMALLEST_SCALE)
    if not sums.noise:
        decibels = math.inf
    elif not sums.signal or math.isinf(sums.noise):
        decibels = -math.inf
    else:
        decibels = 10 * math.log10(sums.signal / sums.noise)
    return OutputError(tensor=name, sqnr_db=decibels, max_relative=relative)
