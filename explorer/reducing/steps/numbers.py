"""Makes numbers plainer: zeros, ones, small whole numbers, and zeros in as many places as possible.

[0.173, -2.81, 0.55, 1.02]   ->   [0, -3, 0, 0]
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from onnx import numpy_helper

from explorer.reducing.candidate import Candidate
from explorer.reducing.graphs import changed, copied
from explorer.reducing.trials import Trials

MAX_ROUNDED = 4
"""Largest whole number that others are rounded to."""
MAX_PARTS = 16
"""Parts of a tensor of which each is set to zero by itself."""


def simplify_numbers(trials: Trials, candidate: Candidate) -> Candidate:
    """Inputs and constants one after the other, the largest first."""
    for name in sorted(_arrays(candidate), key=lambda n: (-_arrays(candidate)[n].size, n)):
        if name not in _arrays(candidate):
            continue
        trials.report(f"simplifying numbers of {name}", candidate)
        for array in _plainer(_arrays(candidate)[name]):
            found = _with(candidate, name, array)
            if found is not None and trials.fails(found):
                candidate = found
                break
        candidate = _with_zeros(trials, candidate, name)
    return candidate


def _with_zeros(trials: Trials, candidate: Candidate, name: str) -> Candidate:
    """Parts of a tensor as zeros, ever smaller ones."""
    parts = 2
    while parts <= MAX_PARTS and name in _arrays(candidate):
        array = _arrays(candidate)[name]
        if array.size < parts:
            break
        for places in np.array_split(np.arange(array.size), parts):
            flat = _arrays(candidate)[name].reshape(-1).copy()
            if not np.any(flat[places] != 0):
                continue
            flat[places] = 0
            found = _with(candidate, name, flat.reshape(array.shape))
            if found is not None and trials.fails(found):
                candidate = found
        parts *= 2
    return candidate


def _plainer(array: np.ndarray) -> Iterator[np.ndarray]:
    """Arrays of the same type and sizes with less in them than this one."""
    if array.dtype.kind not in "iufV" or not array.size:
        return
    with np.errstate(all="ignore"):
        zeros, ones = np.zeros_like(array), np.ones_like(array)
        numbers = np.nan_to_num(array.astype(np.float64), posinf=MAX_ROUNDED, neginf=-MAX_ROUNDED)
        rounded = np.clip(np.rint(numbers), -MAX_ROUNDED, MAX_ROUNDED).astype(array.dtype)
    for found in (zeros, ones, rounded):
        if _cost(found) < _cost(array):
            yield found


def _cost(array: np.ndarray) -> float:
    """Numbers that are not 0, those that are not 1 twice, those that are no small ones thrice."""
    numbers = array.astype(np.float64)
    is_small = (np.rint(numbers) == numbers) & (np.abs(numbers) <= MAX_ROUNDED)
    return float(np.sum(numbers != 0) + np.sum((numbers != 0) & (numbers != 1)) + np.sum(~is_small))


def _arrays(candidate: Candidate) -> dict[str, np.ndarray]:
    constants = {t.name: numpy_helper.to_array(t) for t in candidate.model.graph.initializer}
    return {**constants, **candidate.inputs}


def _with(candidate: Candidate, name: str, array: np.ndarray) -> Candidate | None:
    graph, inputs = copied(candidate), dict(candidate.inputs)
    if name in inputs:
        inputs[name] = array
    for tensor in graph.initializer:
        if tensor.name == name:
            tensor.CopyFrom(numpy_helper.from_array(array, name))
    return changed(candidate, graph, inputs)
