"""Weights of the imported model: their distribution and a picture of each, as data."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

PART = "weights"
"""Its name in `Trace.parts`."""
MAX_TENSORS = 64
MAX_ROWS, MAX_COLUMNS = 24, 32
"""Of a picture."""
SAMPLED = 1 << 20
"""A larger tensor is judged by so many of its elements, evenly spaced."""
BINS = 48


@dataclass(frozen=True, kw_only=True)
class WeightTensor:
    """One weight. Numbers that are not finite count in `not_finite` and nowhere else."""

    name: str
    operation: str
    """The first operation that reads it."""
    shape: tuple[int, ...]
    element_type: str
    size_bytes: int
    low: float
    high: float
    mean: float
    deviation: float
    zeros: float
    """Share of elements that are exactly zero, 0 to 1."""
    not_finite: int
    counts: tuple[int, ...]
    """Elements in equal bins from `low` to `high`."""
    picture: tuple[int, int]
    """Rows and columns of `pixels`."""
    pixels: str
    """Base64 of a byte per cell: the first axis downwards, the others to the right, each cell its
    element of largest magnitude; 128 is zero, 1 and 255 the largest magnitude of the tensor."""


@dataclass(frozen=True, kw_only=True)
class WeightsRecord:
    """Weights of several elements in the order in which the program reads them."""

    tensors: tuple[WeightTensor, ...]
    left_out: int
    """Later ones than those."""

    @staticmethod
    def of(weights: Iterable[tuple[str, str, np.ndarray]]) -> WeightsRecord:
        """The record of (name, operation that reads it, elements); text and complex numbers are
        passed over."""
        kept = [item for item in weights if item[2].size > 1 and item[2].dtype.kind not in "OSUc"]
        return WeightsRecord(
            tensors=tuple(_tensor(*item) for item in kept[:MAX_TENSORS]),
            left_out=max(0, len(kept) - MAX_TENSORS),
        )


def _tensor(name: str, operation: str, array: np.ndarray) -> WeightTensor:
    import numpy as np

    step = -(-array.size // SAMPLED)
    sample = array.reshape(-1)[::step].astype(np.float64)
    finite = sample[np.isfinite(sample)]
    if not finite.size:
        finite = np.zeros(1)
    low, high = float(finite.min()), float(finite.max())
    scale = max(-low, high) or 1.0
    scaled = finite / scale  # so that no square and no width is beyond the range
    counts, _ = np.histogram(scaled, BINS, (low / scale, high / scale if high > low else 2.0))
    picture = _picture(array)
    return WeightTensor(
        name=name,
        operation=operation,
        shape=array.shape,
        element_type=str(array.dtype),
        size_bytes=array.nbytes,
        low=low,
        high=high,
        mean=float(scaled.mean() * scale),
        deviation=float(scaled.std() * scale),
        zeros=float(np.mean(sample == 0)),
        not_finite=int(sample.size - np.isfinite(sample).sum()),
        counts=tuple(map(int, counts)),
        picture=picture.shape,
        pixels=base64.b64encode(picture.tobytes()).decode("ascii"),
    )


def _picture(array: np.ndarray) -> np.ndarray:
    """Bytes of at most `MAX_ROWS` x `MAX_COLUMNS` cells."""
    import numpy as np

    matrix = array.reshape(array.shape[0] if array.ndim > 1 else 1, -1)
    steps = (-(-matrix.shape[0] // 1024), -(-matrix.shape[1] // 1024))
    matrix = np.nan_to_num(matrix[:: steps[0], :: steps[1]].astype(np.float64))
    for axis, most in enumerate((MAX_ROWS, MAX_COLUMNS)):
        size = matrix.shape[axis]
        starts = np.arange(min(size, most)) * size // min(size, most)
        high = np.maximum.reduceat(matrix, starts, axis)
        low = np.minimum.reduceat(matrix, starts, axis)
        matrix = np.where(high >= -low, high, low)
    scale = float(np.abs(matrix).max()) or 1.0
    return (128 + np.rint(matrix / scale * 127)).astype(np.uint8)
