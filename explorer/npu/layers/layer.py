"""What a layer is, whatever computes it, and how sums become numbers of another scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from explorer.errors import UnsupportedError
from explorer.ir.requantization import FixedPoint, Requantization, multiplied
from explorer.npu.layers.tensors import Tensor
from explorer.targets.npu.machine import Machine


class LayerError(UnsupportedError):
    """A layer that a machine cannot compute: what it lacks."""


class RoomError(LayerError):
    """A layer of which no tile fits into the scratchpads: what is too large."""


class Layer(Protocol):
    """One operation on tensors of signed integers, without a batch."""

    @property
    def name(self) -> str: ...
    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """Operands that are computed: constants are none."""
        ...

    @property
    def output(self) -> Tensor: ...
    def run(self, *inputs: np.ndarray) -> np.ndarray:
        """The output, i64, of inputs of their shapes: what every machine computes, bit by bit."""
        ...


def wrapped(numbers: np.ndarray) -> np.ndarray:
    """The low 32 bits, as numbers with a sign."""
    return numbers.astype(np.int32).astype(np.int64)


@dataclass(frozen=True, kw_only=True)
class Rescaling:
    """How sums become outputs: factors per output channel, as the integer schemes know them."""

    how: Requantization | None
    """None: sums are divided, or are outputs already, and nothing is scaled or clipped."""
    multipliers: np.ndarray
    """i64 of [outputs]."""
    shifts: np.ndarray
    zero_point: int = 0
    low: int = -128
    high: int = 127
    divisor: int = 0
    """Where it is not 0, sums are divided by it instead of being scaled: rounded to nearest, ties
    away from zero, before the zero point is added."""

    def applied(self, sums: np.ndarray) -> np.ndarray:
        """Outputs, i64, of sums of [outputs, height, width]."""
        factors = FixedPoint(
            self.multipliers[:, None, None].astype(np.int64),
            self.shifts[:, None, None].astype(np.int64),
        )
        sums = wrapped(sums)
        if self.divisor:
            nearest = np.sign(sums) * ((np.abs(sums) + self.divisor // 2) // self.divisor)
            return np.clip(nearest + self.zero_point, self.low, self.high)
        if self.how is None:
            return sums + self.zero_point
        found = multiplied(sums, factors, self.how) + self.zero_point
        return np.clip(found, self.low, self.high)


def scheme_problem(scaling: Rescaling, machine: Machine, most_left: int = 0) -> str:
    """Why a requantization is not the machine's own; empty where it is.

    most_left: bits that numbers may be shifted to the left by, where the machine only shifts.
    """
    if scaling.how is None:
        return ""
    how = (scaling.how.scheme, scaling.how.rounding)
    own = (machine.scheme, machine.rounding)
    if (
        not machine.instruction_set.requantizes
    ):  # its instructions shift to the right, and nothing rounds
        own = ("shift", "down")
    is_own = how[0] == "doubling_high_multiply"
    if how[0] != own[0] or (how[1] != own[1] and not is_own):
        return f"it requantizes by {', '.join(own)}, not by {scaling.how}"
    if how[0] == "shift" and np.any(scaling.multipliers == 0):
        return "a shift cannot make all numbers zero"
    if how[0] == "shift" and np.any(scaling.multipliers > 1 << most_left):
        return f"a shift cannot make numbers more than {1 << most_left} times as large"
    return ""
