"""Layer and RMS normalization over channels: layers of the vector engine alone.

    normalization(op, values)   top.integer_layer_norm as one; over rows as three, for these are
                                transposed before and behind: (layer, what it reads, type of its
                                result)

    c = n x - sum(x)                        x of all n channels at a position; RMS: n x
    v = n sum(x x) - sum(x)^2 + epsilon
    u = c / sqrt(v)                         `unit_bits(n)` behind the point
    output = clip((u multiplier + bias) / 2^shift + zero point, low, high)

The formulas are those of `top.integer_layer_norm`, and the instruction has them, roundings and all
(docs/npu-instructions.md). What all numbers have in common is no part of c and v, so that only RMS
normalization takes the zero point of its input off.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from explorer.ir.requantization import integer_limits, rounding_shift
from explorer.ir.top.quantization.integer_normalizations import (
    RECIPROCAL_BITS,
    IntegerLayerNormOp,
    unit_bits,
)
from explorer.ir.top.support.integer_roots import lifted, square_root
from explorer.ir.types import static_shape
from explorer.npu.layers.computed_matrices import Step
from explorer.npu.layers.elementwise import MAX_IMMEDIATE
from explorer.npu.layers.layer import LayerError
from explorer.npu.layers.products import Values, offset_of
from explorer.npu.layers.rows import RowLayer, rows_of
from explorer.npu.layers.value_layout import Stored
from explorer.targets.npu.instructions import Normalize, RowLoop
from explorer.targets.npu.machine import Machine

HALF_BITS = 32
"""Of the halves of numbers that are wider than accumulators."""


def normalization(op: IntegerLayerNormOp, values: Values) -> Iterator[Step]:
    """LayerError for one along other positions, or whose factors differ between rows."""
    if op.made.storage.width.data != op.source.storage.width.data:
        raise LayerError(f"it makes {op.made.storage} of {op.source.storage}, of another width")
    make = partial(_over_channels, op, values)
    return rows_of(op.input, op.made, op.axes, values.name, make)


def _over_channels(op: IntegerLayerNormOp, values: Values, read: Stored) -> NormalizationLayer:
    """Of a tensor whose channels are what has one mean."""
    low, high = integer_limits(op.made.storage)
    offset = offset_of(op.made)
    zero = 0 if op.is_centered else int(op.source.zero_point_array[0]) - read.offset
    return NormalizationLayer(
        name=values.name, input_shape=read.shape, bits=op.source.storage.width.data,
        centered=op.is_centered,
        multipliers=_per_number(values.constant(op.multiplier, "its multiplier"), op),
        biases=_per_number(values.constant(op.offset, "its offset"), op),
        epsilon=op.variance_offset, shift=op.get("fraction_bits"), input_zero_point=zero,
        zero_point=int(op.made.zero_point_array[0]) - offset, low=low - offset, high=high - offset,
    )  # fmt: skip


def _per_number(numbers: np.ndarray, op: IntegerLayerNormOp) -> np.ndarray:
    """i64 of the numbers of a row, of what broadcasts to the whole value."""
    shape = static_shape(op.input)
    numbers = numbers.astype(np.int64).reshape((1,) * (len(shape) - numbers.ndim) + numbers.shape)
    if any(size > 1 for axis, size in enumerate(numbers.shape) if axis not in op.axes):
        raise LayerError("its factors differ along positions")
    row = [size if axis in op.axes else 1 for axis, size in enumerate(shape)]
    return np.broadcast_to(numbers, row).reshape(-1).copy()


@dataclass(frozen=True, kw_only=True)
class NormalizationLayer(RowLayer):
    """One layer. Arrays of signed integers, without a batch: [channels, height, width]."""

    record: ClassVar[type[RowLoop]] = Normalize

    multipliers: np.ndarray
    """i64 of [channels], of at most 32 bits."""
    biases: np.ndarray
    """i64 of [channels]."""
    epsilon: int
    shift: int
    centered: bool = True
    """Whether the mean is taken off."""
    input_zero_point: int = 0
    """What is taken off numbers whose mean is not."""

    @property
    def factors(self) -> tuple[tuple[int, int], ...]:
        low, high = _halves(np.array(self.epsilon))
        return ((int(low), int(high)),)

    @property
    def lists(self) -> tuple[np.ndarray, ...]:
        return (self.multipliers, *_halves(self.biases))

    @property
    def fields(self) -> dict[str, int]:
        return {"centered": self.centered, "shift": self.shift}

    @property
    def subtracted(self) -> int:
        return self.input_zero_point

    def problem(self, machine: Machine) -> str:
        """What the machine lacks, whatever the tiles; empty where nothing."""
        if found := super().problem(machine):
            return found
        if abs(self.input_zero_point) > MAX_IMMEDIATE:
            return f"its zero point {self.input_zero_point} is no immediate of 16 bits"
        return ""

    def run(self, *inputs: np.ndarray) -> np.ndarray:
        """The outputs, i64, of an input of `input_shape`."""
        x = inputs[0].astype(np.int64) - self.input_zero_point
        count = self.input_shape[0]
        total = x.sum(axis=0, keepdims=True) if self.centered else np.int64(0)
        spread = count * (x * x).sum(axis=0, keepdims=True) - total * total + self.epsilon
        spread, halves = lifted(spread)
        shift = RECIPROCAL_BITS - unit_bits(count) - halves
        unit = (count * x - total) * ((1 << RECIPROCAL_BITS) // square_root(spread))
        unit = (unit + (np.int64(1) << shift - 1)) >> shift
        sums = unit * self.multipliers[:, None, None] + self.biases[:, None, None]
        found = rounding_shift(sums, np.array(self.shift), "nearest_up") + self.zero_point
        return np.clip(found, self.low, self.high)


def _halves(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Low and high half of numbers of 64 bits, as signed ones of 32."""
    high = numbers >> HALF_BITS
    low = numbers - (high << HALF_BITS)
    return low - ((low >> HALF_BITS - 1) << HALF_BITS), high
