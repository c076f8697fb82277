"""Layers that make rows of all channels of a position, each with one instruction.

    softmax.py          `SoftmaxLayer`
    normalization.py    `NormalizationLayer`

A tile has all channels of its positions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from explorer.npu.network_values import Stored
from explorer.npu.tensors import Shape, Tensor
from explorer.npu.vectors import Access
from explorer.targets.npu.instructions import RowLoop
from explorer.targets.npu.machine import Machine


def is_over_channels(stored: Stored, axes: tuple[int, ...]) -> bool:
    """Whether a row along these axes has all channels of one position."""
    rank = len(stored.logical_shape)
    mine = {axis % rank for axis in axes if stored.logical_shape[axis] > 1}
    return mine <= {stored.channel_axis} and stored.channel_axis in {a % rank for a in axes}


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
    def micro_per_block(self) -> int:
        return 1

    @property
    def mixes_channels(self) -> bool:
        return True

    def problem(self, machine: Machine) -> str:
        """What the machine lacks, whatever the tiles; empty where nothing."""
        if missing := {"add", self.record.kind} - set(machine.operations):
            return f"its vector engine has no {max(missing)}"
        if self.bits != machine.input_bits:
            return f"its numbers have {self.bits} bits, those of the machine {machine.input_bits}"
        return ""
