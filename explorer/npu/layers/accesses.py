"""What a layer of the vector engine is, and how it reads its operands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from explorer.npu.layers.layer import Layer
from explorer.npu.layers.tensors import Tensor
from explorer.targets.npu.machine import Machine


@dataclass(frozen=True, kw_only=True)
class Access:
    """How an operand is read: the window of each position of the output."""

    tensor: Tensor
    reach: tuple[int, int] = (1, 1)
    """Rows and columns from the first to the last element of a window."""
    strides: tuple[int, int] = (1, 1)
    """0 along an axis on which all positions read the same."""
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    """Above, left, below, right; a negative one leaves out so many rows or columns."""
    pad_value: int = 0
    constant: np.ndarray | None = None
    """Of the tensor's shape, where it is not computed: wide numbers."""

    def window(self, axis: int, outputs: int) -> int:
        """Inputs that so many outputs in a row read, padding included."""
        return (outputs - 1) * self.strides[axis] + self.reach[axis]

    def read(self, outputs: range, axis: int) -> range:
        """Rows or columns of the operand that these outputs read; beyond it lies padding."""
        first = outputs.start * self.strides[axis] - self.pads[axis]
        return range(first, first + self.window(axis, len(outputs)))


class VectorLayer(Layer, Protocol):
    """What tiles are made for."""

    @property
    def accesses(self) -> tuple[Access, ...]: ...
    @property
    def table(self) -> np.ndarray | None:
        """i64 of [2^bits of an input]: of the lowest number, of the next one, and so on."""
        ...

    @property
    def factors(self) -> tuple[tuple[int, int], ...]:
        """Multipliers and shifts of what is scaled."""
        ...

    @property
    def lists(self) -> tuple[np.ndarray, ...]:
        """Numbers as wide as accumulators that lie behind the factors: each of these arrays of
        i64 begins a new element."""
        ...

    @property
    def mixes_channels(self) -> bool:
        """Whether a tile needs all channels of its positions."""
        ...

    @property
    def is_in_place(self) -> bool:
        """Whether results are made where the first operand was loaded to."""
        ...

    @property
    def micro_per_block(self) -> int:
        """Micro-operations of its longest sequence, for one block of channels."""
        ...

    def spare_results(self, machine: Machine) -> int:
        """How often the results of a tile have room beside them."""
        ...

    def problem(self, machine: Machine) -> str:
        """What the machine lacks, whatever the tiles; empty where nothing."""
        ...
