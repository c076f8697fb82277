"""Layers that make rows of all channels of a position, each with one instruction.

    softmax.py          `SoftmaxLayer`
    normalization.py    `NormalizationLayer`

A tile has all channels of its positions. Rows along positions are rows of channels between two
transpositions, where these positions are all rows of matrices that lie one behind the other:

    softmax over columns of [N, C, H, W]        N x H matrices of W rows and C channels
    normalization over rows and columns         N matrices of H x W rows
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar

import numpy as np
from xdsl.ir import SSAValue

from explorer.ir.types import QuantizedType, element_type_of, tensor_type
from explorer.npu.layers.accesses import Access
from explorer.npu.layers.computed_matrices import Step
from explorer.npu.layers.layer import LayerError
from explorer.npu.layers.matrices import Transposition
from explorer.npu.layers.tensors import Shape, Tensor
from explorer.npu.layers.value_layout import Stored, stored_form
from explorer.targets.npu.instructions import RowLoop
from explorer.targets.npu.machine import Machine


def is_over_channels(stored: Stored, axes: Sequence[int]) -> bool:
    """Whether a row along these axes has all channels of one position."""
    rank = len(stored.logical_shape)
    mine = {axis % rank for axis in axes if stored.logical_shape[axis] > 1}
    return mine <= {stored.channel_axis} and stored.channel_axis in {a % rank for a in axes}


def matrices_along(stored: Stored, axes: Sequence[int]) -> tuple[int, int] | None:
    """How many matrices a value is, and the rows of each, where a row along these axes has one
    channel of all rows; None where it has not."""
    shape, rank = stored.logical_shape, len(stored.logical_shape)
    left = {axis % rank for axis in axes if shape[axis] > 1}
    positions, rows = [axis for axis in range(rank) if axis != stored.channel_axis], 1
    for axis in reversed(positions):
        if shape[axis] > 1 and axis not in left:
            break
        left.discard(axis)
        rows *= shape[axis]
    return None if left else (prod(shape[axis] for axis in positions) // rows, rows)


def rows_of(
    value: SSAValue, made: QuantizedType, axes: Sequence[int], name: str,
    layer: Callable[[Stored], RowLayer],
) -> Iterator[Step]:  # fmt: skip
    """The layer of a value whose channels are the rows, with transpositions where they are not.

    layer: makes it, of how such a value lies. LayerError where rows have neither.
    """
    stored = stored_form(value)
    if is_over_channels(stored, axes):
        yield layer(stored), (value,), None
        return
    matrices = matrices_along(stored, axes)
    if matrices is None:
        raise LayerError(f"it is over axes {list(axes)}, along which lie positions")
    (batch, rows), channels = matrices, stored.shape[0]
    kinds = (element_type_of(value), made)
    before, behind = (tensor_type(kind, (batch, channels, rows)) for kind in kinds)
    there, back = (
        Transposition(name=name, input_shape=(across, 1, batch * down), batch=batch)
        for across, down in ((channels, rows), (rows, channels))
    )
    yield there, (value,), before
    yield layer(stored_form(before)), (0,), behind
    yield back, (1,), None


@dataclass(frozen=True, kw_only=True)
class RowLayer(ABC):
    """One layer. Arrays of signed integers, without a batch: [channels, height, width]."""

    record: ClassVar[type[RowLoop]]
    """The instruction that makes a row."""

    name: str
    input_shape: Shape
    bits: int
    """Of its numbers, read and made."""
    zero_point: int = 0
    low: int = -128
    high: int = 127

    @property
    @abstractmethod
    def factors(self) -> tuple[tuple[int, int], ...]:
        """Constants of a row that are one number each."""

    @property
    @abstractmethod
    def lists(self) -> tuple[np.ndarray, ...]:
        """Constants behind them, each of which begins a new element."""

    @property
    def fields(self) -> dict[str, int]:
        """What its instruction has besides the row, `offset`, `low` and `high`."""
        return {}

    @property
    def subtracted(self) -> int:
        """What is taken off the numbers before."""
        return 0

    @abstractmethod
    def run(self, *inputs: np.ndarray) -> np.ndarray:
        """The outputs, i64, of an input of `input_shape`."""

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return (Tensor(name="input", shape=self.input_shape),)

    @property
    def output(self) -> Tensor:
        return Tensor(name="output", shape=self.input_shape)

    @property
    def accesses(self) -> tuple[Access, ...]:
        (tensor,) = self.inputs
        return (Access(tensor=tensor),)

    @property
    def table(self) -> None:
        """There is none of the machine's own width."""
        return None

    @property
    def is_in_place(self) -> bool:
        return True

    @property
    def micro_per_block(self) -> int:
        return 1

    @property
    def mixes_channels(self) -> bool:
        return True

    def spare_results(self, machine: Machine) -> int:
        """None: what is made lies in one place."""
        return 0

    def problem(self, machine: Machine) -> str:
        """What the machine lacks, whatever the tiles; empty where nothing."""
        if missing := {"add", self.record.kind} - set(machine.operations):
            return f"its vector engine has no {max(missing)}"
        if self.bits != machine.input_bits:
            return f"its numbers have {self.bits} bits, those of the machine {machine.input_bits}"
        return ""
