"""Measuring many tensors, most of them again and again: equal ones are measured once.

After most passes most tensors are the same, bit by bit, as after the pass before. A tensor is
known by a digest of its bytes, so that it costs one reading of them and no second histogram.

    measurements = Measurements(reference)
    measurements.error("conv_1", actual, expected, origin)  ->  TensorError with the place of its
                                                                detail
    measurements.details                                    ->  of the worst ones, in order
"""

from __future__ import annotations

import hashlib
import heapq
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from explorer.accuracy.details import Locate, position, tensor_detail
from explorer.accuracy.metrics import tensor_error
from explorer.ir.origins import Origin
from explorer.results import PassAccuracy, TensorDetail, TensorError

MAX_DETAILS = 4000
"""Details that are kept, about 1 kB each; of more, those with the largest errors."""

Key = tuple[Origin, str, tuple[int, ...], bytes]


@dataclass(frozen=True)
class Measured:
    """An error as it was found first; `number` counts what was measured, 0 first."""

    error: TensorError
    number: int


class Measurements:
    """Errors and details of tensors against those of the source model by name."""

    def __init__(
        self, reference: Mapping[str, np.ndarray], most_details: int = MAX_DETAILS
    ) -> None:
        self._reference = reference
        self._most = most_details
        self._known: dict[Key, Measured] = {}
        self._details: dict[int, TensorDetail] = {}
        self._smallest: list[tuple[float, int]] = []
        """A heap of what is kept: (error, minus number), so that the least, and of equal ones the
        last, goes first."""
        self.left_out = 0

    def error(
        self, operation: str, actual: np.ndarray, expected: np.ndarray, origin: Origin
    ) -> TensorError:
        """The error of a value; `detail` is its number until `settled` turns it into a place."""
        key = (origin, actual.dtype.str, actual.shape, digest(actual))
        known = self._known.get(key)
        if known is None:
            locate = self._locate(origin)
            error = tensor_error(origin.tensor, operation, actual, expected)
            if error.worst_index:
                flat = int(np.ravel_multi_index(error.worst_index, actual.shape))
                error = replace(error, worst_index=locate(flat))
            known = Measured(error, len(self._known))
            self._known[key] = known
            self._keep(known, actual, expected, locate)
        return replace(known.error, operation=operation, detail=known.number)

    def settled(self, accuracy: PassAccuracy) -> PassAccuracy:
        """The same with places in `details` instead of numbers."""
        places = {number: place for place, number in enumerate(sorted(self._details))}
        tensors = tuple(
            replace(t, detail=None if t.detail is None else places.get(t.detail))
            for t in accuracy.tensors
        )
        return replace(accuracy, tensors=tensors)

    @property
    def details(self) -> tuple[TensorDetail, ...]:
        """What was kept, in the order in which it was measured."""
        return tuple(self._details[number] for number in sorted(self._details))

    def _keep(
        self, measured: Measured, actual: np.ndarray, expected: np.ndarray, locate: Locate
    ) -> None:
        relative = measured.error.max_relative
        entry = (math.inf if math.isnan(relative) else relative, -measured.number)
        is_full = len(self._smallest) >= self._most
        if is_full and (not self._smallest or entry <= self._smallest[0]):
            self.left_out += 1
            return
        detail = tensor_detail(actual, expected, locate)
        if detail is None:
            return
        if is_full:
            _, number = heapq.heappushpop(self._smallest, entry)
            del self._details[-number]
            self.left_out += 1
        else:
            heapq.heappush(self._smallest, entry)
        self._details[measured.number] = detail

    def _locate(self, origin: Origin) -> Locate:
        """Positions in the source tensor; empty in padding, which the source does not have."""
        known = self._reference
        shape = known[origin.key if origin.key in known else origin.tensor].shape
        if origin.only_scaled:
            return lambda place: position(place, shape)

        @cache
        def numbers() -> np.ndarray:
            # Positions from 1: what an origin pads with zeros has none.
            return origin.moved.apply(np.arange(1, math.prod(shape) + 1).reshape(shape))

        def locate(place: int) -> tuple[int, ...]:
            source = int(numbers()[position(place, numbers().shape)])
            return position(source - 1, shape) if source else ()

        return locate


def digest(array: np.ndarray) -> bytes:
    """Equal for arrays of one type and shape that are equal bit by bit."""
    content = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return hashlib.sha256(content.data).digest()
