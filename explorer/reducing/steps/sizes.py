"""Makes tensors smaller: an axis of inputs and constants is cut to its first or last elements.

    x 1x256x56x56, weights 64x256x1x1        256 -> 1 in both, 64 -> 1, 56 -> 1, each by itself

Which axes belong together is not derived: all of one size are tried together, then each alone, then
in pairs. The reference refuses what does not fit, which takes no compilation.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np
from onnx import GraphProto, TensorProto, numpy_helper

from explorer.reducing.candidate import Candidate
from explorer.reducing.graphs import changed, copied
from explorer.reducing.trials import Trials

Axis = tuple[str, int]
MAX_PAIRS = 40
"""Of axes of one size, tried for one size."""
SIZE_TYPES = (TensorProto.INT64, TensorProto.INT32)
"""Of constants that may hold sizes themselves."""
MAX_SIZES = 16
"""Numbers in such a constant."""


def shrink_sizes(trials: Trials, candidate: Candidate) -> Candidate:
    """Each size to 1, 2, half of it and so on, as far as it still fails."""
    is_smaller = True
    while is_smaller:
        is_smaller = False
        for size in sorted(_axes(candidate), reverse=True):
            trials.report(f"shrinking sizes of {size}", candidate)
            for smaller in _smaller(candidate, size):
                if trials.fails(smaller):
                    candidate, is_smaller = smaller, True
                    break
    return candidate


def _smaller(candidate: Candidate, size: int) -> Iterator[Candidate]:
    groups = _axes(candidate).get(size, [])
    pairs = list(combinations(groups, 2))[:MAX_PAIRS] if len(groups) > 2 else []
    chosen = [groups, *([axis] for axis in groups if len(groups) > 1), *map(list, pairs)]
    targets = (1, 2, size // 2, size * 3 // 4, size * 7 // 8, *([size - 1] if size <= 8 else ()))
    for target in dict.fromkeys(targets):
        if not 0 < target < size:
            continue
        for axes in chosen:
            for start in (0, size - target) if target <= size // 2 else (0,):
                found = _cut(candidate, axes, range(start, start + target), size)
                if found is not None and found.elements < candidate.elements:
                    yield found


def _axes(candidate: Candidate) -> dict[int, list[Axis]]:
    """Axes of inputs and constants by their size, where it is more than 1."""
    found: dict[int, list[Axis]] = {}
    shapes = {name: array.shape for name, array in candidate.inputs.items()}
    shapes |= {t.name: tuple(t.dims) for t in candidate.model.graph.initializer}
    for name, shape in shapes.items():
        for axis, size in enumerate(shape):
            if size > 1:
                found.setdefault(size, []).append((name, axis))
    return found


def _cut(candidate: Candidate, axes: list[Axis], kept: range, size: int) -> Candidate | None:
    """The candidate with these elements of the axes; None where the reference refuses it.

    Where it does, `size` becomes their number in constants of sizes, too.
    """
    graph, inputs = copied(candidate), dict(candidate.inputs)
    constants = {tensor.name: tensor for tensor in graph.initializer}
    for name, axis in axes:
        if name in inputs:
            inputs[name] = _part(inputs[name], axis, kept)
        else:
            array = _part(numpy_helper.to_array(constants[name]), axis, kept)
            constants[name].CopyFrom(numpy_helper.from_array(array, name))
    found = changed(candidate, graph, inputs)
    if found is None and _replace_sizes(graph, size, len(kept)):
        found = changed(candidate, graph, inputs)
    return found


def _replace_sizes(graph: GraphProto, size: int, new: int) -> bool:
    """In constants that may be sizes; whether there was one."""
    is_changed = False
    for tensor in graph.initializer:
        if tensor.data_type in SIZE_TYPES and np.prod(tensor.dims) <= MAX_SIZES:
            array = numpy_helper.to_array(tensor)
            if (array == size).any():
                replaced = np.where(array == size, new, array).astype(array.dtype)
                tensor.CopyFrom(numpy_helper.from_array(replaced, tensor.name))
                is_changed = True
    return is_changed


def _part(array: np.ndarray, axis: int, kept: range) -> np.ndarray:
    return np.ascontiguousarray(array.take(kept, axis=axis))
