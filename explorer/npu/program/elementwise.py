"""Elementwise layers as instructions.

    left   shift to the left, requantize (adds -zero point before, all bits kept)   in its place
    right  the same
    result left, or zeros and left; operation with right; requantize, or zero point and limits

A shift to the left is part of the factor where that rounds alike.

Machines that only shift (VTA) do it by immediates: one number for all channels.
"""

from __future__ import annotations

from collections.abc import Iterator

from explorer.npu.layers.elementwise import (
    OPERATIONS,
    Elementwise,
    ElementwiseOperand,
    Factor,
)
from explorer.npu.layers.stated_requantization import is_stated
from explorer.npu.program.addresses import Addresses
from explorer.npu.program.vector import VectorWriter
from explorer.npu.tiling.vector import TiledVectors, VectorTile, elements_of_factor
from explorer.targets.npu.instructions import Instruction, MicroOperation, Requantize, Vector

MAX_SHIFT = 31
MAX_MULTIPLIER_SHIFT = 62
"""Of the machine's 64 bits."""


class ElementwiseWriter(VectorWriter):
    """Instructions while they are written."""

    def __init__(self, tiled: TiledVectors, made: Elementwise, addresses: Addresses) -> None:
        super().__init__(tiled, addresses)
        self.made = made

    def compute(self, tile: VectorTile) -> Iterator[Instruction]:
        """Operands where they lie, then results."""
        layer, (results, size) = self.made, self.results(tile)
        number = 0
        for index, operand in enumerate(layer.operands):
            if operand.constant is None:
                yield from self._operand(tile, index, number)
                number += operand.factor is not None
            elif index and layer.kind == "sub":
                yield from self.immediate(*self._extent_of(tile, index), "multiply", -1)
        if not layer.is_in_place:
            yield from self.reset(results, size)
            yield from self.gathered(tile, 0, Vector, [(0, 0)], operation="add")
        if len(layer.operands) > 1:
            operation, _ = OPERATIONS[layer.kind]
            yield from self.gathered(tile, 1, Vector, [(0, 0)], operation=operation)
        limits = {"offset": layer.zero_point, "low": layer.low, "high": layer.high}
        if layer.factor is not None and self.machine.instruction_set.requantizes:
            yield from self._requantize(results, size, number, **limits)
            return
        if layer.factor is not None:
            width = layer.result_width(self.machine)
            yield from self._scaled(results, size, number, layer.factor, width)
        if layer.zero_point:
            yield from self.immediate(results, size, "add", layer.zero_point)
        yield from self.immediate(results, size, "maximum", layer.low)
        yield from self.immediate(results, size, "minimum", layer.high)

    @property
    def factors(self) -> tuple[tuple[int, ...], ...]:
        """Of operands with what they are shifted by before, where that is the same; with the bias
        that goes with each, where an instruction adds it."""
        layer, found = self.made, list[tuple[int, ...]]()
        for one in layer.operands:
            if one.constant is None and one.factor is not None:
                found.append((*(self._joined(one.factor) or one.factor), self._bias(one)))
        if layer.factor is not None:
            found.append((*layer.factor, 0))
        return tuple(factor[: elements_of_factor(layer, self.machine)] for factor in found)

    def _bias(self, operand: ElementwiseOperand) -> int:
        """What is added before an operand is scaled, and after it is shifted."""
        lift = 0 if self._joined(operand.factor) else self.made.lift
        return -operand.zero_point << lift

    def _joined(self, factor: Factor | None) -> Factor | None:
        """A factor times two to the power of the lift; None where it rounds otherwise."""
        if factor is None or not self.machine.instruction_set.requantizes:
            return None
        multiplier, shift = factor
        # Of a doubling high multiply, shifts beyond its own 31 bits round once more.
        most = 31 if self.machine.scheme == "doubling_high_multiply" else MAX_MULTIPLIER_SHIFT
        if not self.made.lift <= shift <= most:
            return None
        return multiplier, shift - self.made.lift

    def _extent_of(self, tile: VectorTile, operand: int) -> tuple[int, int]:
        """Where it begins, and how many accumulators it is."""
        tall, wide = self.extent(tile, self.layer.accesses[operand])
        return self.tiled.start_of(tile, operand), len(tile.blocks) * tall * wide

    def _operand(self, tile: VectorTile, index: int, number: int) -> Iterator[Instruction]:
        layer, (start, size) = self.made, self._extent_of(tile, index)
        operand = layer.operands[index]
        is_biased = operand.factor is not None and self.machine.instruction_set.adds_biases
        if operand.zero_point and not is_biased:
            yield from self.immediate(start, size, "add", -operand.zero_point)
        if layer.lift and self._joined(operand.factor) is None:
            yield from self.immediate(start, size, "shift_right", -layer.lift)
        if operand.factor is not None:
            width = layer.width(self.machine)
            biased = is_biased and operand.zero_point != 0
            yield from self._scaled(start, size, number, operand.factor, width, biased)
        if index and layer.kind == "sub":
            yield from self.immediate(start, size, "multiply", -1)

    def _scaled(
        self, start: int, size: int, number: int, factor: Factor, width: int, biased: bool = False
    ) -> list[Instruction]:
        """By the factor of that number, all bits kept; `width`: of what is scaled; `biased`: after
        its bias is added."""
        if self.machine.instruction_set.requantizes:
            return self._requantize(start, size, number, wide=True, biased=biased)
        if is_stated(self.made.how):
            steps = self.made.steps(factor, width)
            assert not isinstance(steps, str), steps
            return [i for step in steps for i in self.immediate(start, size, *step)]
        multiplier, shift = factor  # a power of two: a shift to the left
        bits = min(shift, MAX_SHIFT) - (multiplier.bit_length() - 1)
        return self.immediate(start, size, "shift_right", bits)

    def _requantize(self, start: int, size: int, number: int, **fields: int) -> list[Instruction]:
        each = elements_of_factor(self.made, self.machine)
        micro = [MicroOperation(start, self.tiled.factors_at + each * number)]
        return self.loop(Requantize, micro, inner=size, destination_inner=1, **fields)
