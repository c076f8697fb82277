"""Softmax over channels: a layer of the vector engine alone.

    softmax(op, name)           top.integer_softmax as one; over rows as three, for these are
                                transposed before and behind: (layer, what it reads, type of its
                                result)

    d = max(x) - x                          x of all channels at a position
    e = exponentials[d]                     30 bits behind the point
    p = (e (2^60 / sum(e)) + 2^29) / 2^30   the share of the sum
    output = clip(p multiplier / 2^shift + zero point, low, high)

The formulas are those of `top.integer_softmax`, the rounding is to nearest, ties up, whatever the
machine's own requantization does: the instruction has its own (docs/npu-instructions.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from explorer.ir.requantization import (
    FixedPoint,
    Requantization,
    integer_limits,
    multiplied,
)
from explorer.ir.top.quantization.integer_normalizations import IntegerSoftmaxOp
from explorer.npu.layers.computed_matrices import Step
from explorer.npu.layers.layer import LayerError
from explorer.npu.layers.products import offset_of
from explorer.npu.layers.rows import RowLayer, rows_of
from explorer.npu.layers.value_layout import Stored
from explorer.targets.npu.instructions import EXPONENTIALS, SOFTMAX_BITS, RowLoop, Softmax
from explorer.targets.npu.machine import Machine

ROUNDED = Requantization("multiplier_shift", "nearest_up")


def softmax(op: IntegerSoftmaxOp, name: str) -> Iterator[Step]:
    """LayerError for one along other positions, and for numbers of more than 8 bits."""
    bits = op.source.storage.width.data
    if len(op.exponentials) > 1 or op.made.storage.width.data != bits:
        raise LayerError(f"it makes {op.made.storage} of {op.source.storage}, expected bytes")
    return rows_of(op.input, op.made, (op.get("axis"),), name, partial(_over_channels, op, name))


def _over_channels(op: IntegerSoftmaxOp, name: str, read: Stored) -> SoftmaxLayer:
    """Of a tensor whose channels are what is added up."""
    multiplier, shift = op.share_factor
    low, high = integer_limits(op.made.storage)
    offset = offset_of(op.made)
    return SoftmaxLayer(
        name=name, input_shape=read.shape, bits=op.source.storage.width.data,
        multiplier=multiplier, shift=shift, exponentials=op.exponentials[0].astype(np.int64),
        zero_point=int(op.made.zero_point_array[0]) - offset, low=low - offset, high=high - offset,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class SoftmaxLayer(RowLayer):
    """One layer. Arrays of signed integers, without a batch: [channels, height, width]."""

    record: ClassVar[type[RowLoop]] = Softmax

    exponentials: np.ndarray
    """i64 of [2^bits]: of the distance 0, 1, and so on."""
    multiplier: int
    shift: int

    @property
    def factors(self) -> tuple[tuple[int, int], ...]:
        return ((self.multiplier, self.shift),)

    @property
    def lists(self) -> tuple[np.ndarray, ...]:
        """What the instruction looks up; no distance reaches what is behind it."""
        return (np.pad(self.exponentials, (0, EXPONENTIALS - len(self.exponentials))),)

    def problem(self, machine: Machine) -> str:
        """What the machine lacks, whatever the tiles; empty where nothing."""
        if found := super().problem(machine):
            return found
        if len(self.exponentials) > EXPONENTIALS:
            return f"it has {len(self.exponentials)} exponentials, expected at most {EXPONENTIALS}"
        return ""

    def run(self, *inputs: np.ndarray) -> np.ndarray:
        """The outputs, i64, of an input of `input_shape`."""
        x, half = inputs[0].astype(np.int64), np.int64(1) << (SOFTMAX_BITS - 1)
        e = self.exponentials[x.max(axis=0, keepdims=True) - x]
        reciprocal = (1 << 2 * SOFTMAX_BITS) // np.maximum(e.sum(axis=0, keepdims=True), 1)
        share = (e * reciprocal + half) >> SOFTMAX_BITS
        factors = FixedPoint(np.array(self.multiplier), np.array(self.shift))
        found = multiplied(share, factors, ROUNDED) + self.zero_point
        return np.clip(found, self.low, self.high)
