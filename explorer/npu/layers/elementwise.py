"""Sums, products and maxima of two tensors with scales of their own, and changes of one's scale.

    a = fixed((left - its zero point) << lift, its factor)          where it has one
    b = fixed((right - its zero point) << lift, its factor)
    output = clip(fixed(kind(a, b), result's factor) + zero point, low, high)

`fixed` multiplies by the scheme of `how`. Operands of one row, column or both are read again for
every one. With one operand there is no kind: its numbers become those of another scale.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from explorer.ir.requantization import FixedPoint, Requantization, multiplied
from explorer.npu.layers.accesses import Access
from explorer.npu.layers.layer import Rescaling, scheme_problem
from explorer.npu.layers.stated_requantization import is_stated, shifted
from explorer.npu.layers.tensors import Shape, Tensor
from explorer.targets.npu.machine import Machine

Factor = tuple[int, int]
"""Multiplier and shift."""
OPERATIONS: dict[str, tuple[str, Callable[..., np.ndarray]]] = {
    "add": ("add", np.add),
    "sub": ("add", np.subtract),
    "mul": ("multiply", np.multiply),
    "max": ("maximum", np.maximum),
    "min": ("minimum", np.minimum),
}
"""By kind: the vector engine's operation, and its meaning."""
MAX_IMMEDIATE = (1 << 15) - 1
MAX_MULTIPLIER_SHIFT = 62
"""Of the machine's 64 bits."""


@dataclass(frozen=True, kw_only=True)
class ElementwiseOperand:
    """One side, and what makes its numbers comparable with the other's."""

    shape: Shape
    zero_point: int = 0
    factor: Factor | None = None
    """None: as it is."""
    is_wide: bool = False
    """Sums that were kept."""
    constant: np.ndarray | None = None
    """Stored numbers of `shape`, where they are known."""


@dataclass(frozen=True, kw_only=True)
class Elementwise:
    """One layer. Arrays of signed integers, without a batch: [channels, height, width]."""

    name: str
    kind: str
    """One of `OPERATIONS`; of one operand: scale."""
    left: ElementwiseOperand
    right: ElementwiseOperand | None = None
    how: Requantization
    lift: int = 0
    """Bits that operands are shifted to the left by before they are scaled."""
    factor: Factor | None = None
    """Of the result."""
    zero_point: int = 0
    low: int = -128
    high: int = 127

    @property
    def operands(self) -> tuple[ElementwiseOperand, ...]:
        """One, or both."""
        return (self.left,) if self.right is None else (self.left, self.right)

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return tuple(
            access.tensor
            for access, operand in zip(self.accesses, self.operands, strict=True)
            if operand.constant is None
        )

    @property
    def output(self) -> Tensor:
        first, *rest = np.broadcast_shapes(*(operand.shape for operand in self.operands))
        return Tensor(name="output", shape=(first, rest[0], rest[1]))

    @property
    def accesses(self) -> tuple[Access, ...]:
        """One named input, or left and right."""
        names = ("left", "right") if len(self.operands) > 1 else ("input",)
        return tuple(
            Access(
                tensor=Tensor(name=name, shape=one.shape, is_wide=one.is_wide),
                strides=(int(one.shape[1] > 1), int(one.shape[2] > 1)),
                constant=None if one.constant is None else self.scaled(index, one.constant),
            )
            for index, (name, one) in enumerate(zip(names, self.operands, strict=True))
        )

    @property
    def factors(self) -> tuple[Factor, ...]:
        """Of operands that are computed, then of the result."""
        computed = [one.factor for one in self.operands if one.constant is None]
        return tuple(factor for factor in (*computed, self.factor) if factor is not None)

    def elements_of_factor(self, machine: Machine) -> int:
        """Accumulators that one takes: multiplier and shift, and what is added before where an
        instruction does that."""
        if not machine.instruction_set.adds_biases:
            return 2
        scaled = [one for one in self.operands if one.constant is None and one.factor is not None]
        return 3 if any(one.zero_point for one in scaled) else 2

    def machine_factors(self, machine: Machine) -> tuple[tuple[int, ...], ...]:
        """Those of operands with what they are shifted by before, where that is the same; with the
        bias that goes with each, where an instruction adds it."""
        found: list[tuple[int, ...]] = []
        for one in self.operands:
            if one.constant is None and one.factor is not None:
                lifted = self.lifted(one.factor, machine)
                lift = self.lift if lifted is None else 0
                found.append((*(lifted or one.factor), -one.zero_point << lift))
        if self.factor is not None:
            found.append((*self.factor, 0))
        return tuple(factor[: self.elements_of_factor(machine)] for factor in found)

    def lifted(self, factor: Factor | None, machine: Machine) -> Factor | None:
        """A factor times two to the power of the lift; None where it rounds otherwise."""
        if factor is None or not machine.instruction_set.requantizes:
            return None
        multiplier, shift = factor
        # Of a doubling high multiply, shifts beyond its own 31 bits round once more.
        most = 31 if machine.scheme == "doubling_high_multiply" else MAX_MULTIPLIER_SHIFT
        if not self.lift <= shift <= most:
            return None
        return multiplier, shift - self.lift

    @property
    def table(self) -> None:
        """There is none."""

    @property
    def lists(self) -> tuple[()]:
        """There are none."""
        return ()

    @property
    def mixes_channels(self) -> bool:
        return False

    @property
    def is_in_place(self) -> bool:
        """Where the first operand is computed, and no number of it is read again."""
        return self.left.constant is None and self.left.shape == self.output.shape

    @property
    def micro_per_block(self) -> int:
        return 1

    def scaled(self, index: int, numbers: np.ndarray) -> np.ndarray:
        """What an operand's numbers are combined as."""
        operand = self.operands[index]
        found = (numbers.astype(np.int64) - operand.zero_point) << self.lift
        return found if operand.factor is None else self._fixed(found, operand.factor)

    def _fixed(self, numbers: np.ndarray, factor: Factor) -> np.ndarray:
        return multiplied(numbers, FixedPoint(*map(np.array, factor)), self.how)

    def run(self, *inputs: np.ndarray) -> np.ndarray:
        """The outputs, i64, of inputs of their shapes."""
        given = iter(inputs)
        sides = [
            self.scaled(index, next(given) if one.constant is None else one.constant)
            for index, one in enumerate(self.operands)
        ]
        found = sides[0] if len(sides) == 1 else OPERATIONS[self.kind][1](*sides)
        found = found if self.factor is None else self._fixed(found, self.factor)
        return np.clip(found + self.zero_point, self.low, self.high)

    def spare_results(self, machine: Machine) -> int:
        """None: what is made lies in one place."""
        return 0

    def problem(self, machine: Machine) -> str:
        """What the machine lacks, whatever the tiles; empty where nothing."""
        if machine.accumulator_bits != 32:
            return f"it computes with 32 bits, its accumulators have {machine.accumulator_bits}"
        channels = self.output.shape[0]
        for one in self.operands:
            if one.shape[0] != channels:
                return f"an operand has {one.shape[0]} channels and the result {channels}"
            if one.is_wide and not machine.instruction_set.stores_sums:
                return "its loads cannot widen digits of sums"
            if abs(one.zero_point) > MAX_IMMEDIATE:
                return f"its zero point {one.zero_point} is no immediate of 16 bits"
        needed = {"add", "shift_right", "maximum", "minimum"}
        needed |= {"requantize"} if machine.instruction_set.requantizes else set()
        needed |= {"multiply"} if self.kind in ("mul", "sub") else set()
        if missing := needed - set(machine.operations):
            return f"its vector engine has no {min(missing)}"
        if self.low < -(1 << machine.input_bits - 1) or self.high >= 1 << machine.input_bits - 1:
            return f"limits {self.low} to {self.high} are no numbers of {machine.input_bits} bits"
        if not machine.instruction_set.requantizes and is_stated(self.how):
            return self._stated_problem(machine)
        multipliers, shifts = np.array([*self.factors, (1, 0)]).T
        return scheme_problem(
            Rescaling(how=self.how, multipliers=multipliers, shifts=shifts),
            machine,
            most_left=self._room(machine),
        )

    def _room(self, machine: Machine) -> int:
        """Bits by which operands, and the result once more, can become larger in 31 bits."""
        return max(31 - self.result_width(machine), 0) // 2

    def width(self, machine: Machine) -> int:
        """Bits, with their sign, of operands before they are scaled."""
        return machine.input_bits + 1 + self.lift

    def result_width(self, machine: Machine) -> int:
        """Bits of what they are combined to, where no operand is scaled up."""
        width = self.width(machine)
        return 2 * width if self.kind == "mul" else width + 1

    def steps(self, factor: Factor, width: int) -> list[tuple[str, int]] | str:
        """A factor that is stated, of numbers of so many bits, as operations with an immediate each
        for vector engines that only shift; or why there are none."""
        multipliers, shifts = np.array(factor[:1]), np.array(factor[1:])
        scaling = Rescaling(how=self.how, multipliers=multipliers, shifts=shifts)
        found = shifted(scaling, 1 << width - 1)
        if isinstance(found, str):
            return found
        if found.bounds is not None:
            return f"numbers of {width} bits times {found.multipliers[0]} need more than 32 bits"
        return found.steps

    def _stated_problem(self, machine: Machine) -> str:
        needed = [(one.factor, self.width(machine)) for one in self.operands]
        needed.append((self.factor, self.result_width(machine)))
        found = (self.steps(factor, width) for factor, width in needed if factor is not None)
        return next((steps for steps in found if isinstance(steps, str)), "")


def flattened_elementwise(layer: Elementwise) -> Elementwise:
    """The same on a single row, where no operand is read again: its tiles fill better."""
    shapes = {operand.shape for operand in layer.operands}
    if len(shapes) > 1:
        return layer
    ((channels, height, width),) = shapes
    shape = (channels, 1, height * width)
    left, *right = [
        replace(one, shape=shape,
                constant=None if one.constant is None else one.constant.reshape(shape))
        for one in layer.operands
    ]  # fmt: skip
    return replace(layer, left=left, right=right[0] if right else None)
