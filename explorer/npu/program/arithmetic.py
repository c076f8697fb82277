"""Elementwise arithmetic on accumulators, whoever loads them.

    operand 0   shift to the left, requantize (adds -zero point before, all bits kept), in its place
    operand 1   the same
    result      operand 0 with operand 1; requantize, or zero point and limits

A shift to the left is part of the factor where that rounds alike. Machines that only shift (VTA) do
it by immediates: one number for all channels.
"""

from __future__ import annotations

from explorer.npu.layers.elementwise import OPERATIONS, Elementwise, Factor
from explorer.npu.layers.stated_requantization import is_stated
from explorer.npu.program.stream import Stream
from explorer.targets.npu.instructions import Instruction, MicroOperation, Requantize, Vector
from explorer.targets.npu.machine import Machine

MAX_SHIFT = 31


def combined_passes(made: Elementwise, machine: Machine) -> int:
    """Instructions at least for each number of a result, of two operands that are there."""
    by_factor = machine.instruction_set.requantizes
    scaled = sum(one.factor is not None for one in made.operands)
    return 1 + (scaled + (1 if made.factor is not None else 2) if by_factor else 2)


class Arithmetic:
    """Instructions of a stream for one record; `factors_at`: where its factors begin, in
    accumulators."""

    def __init__(self, stream: Stream, made: Elementwise, factors_at: int) -> None:
        self.stream, self.made, self.factors_at = stream, made, factors_at
        self.machine = stream.machine

    def operand(self, index: int, start: int, size: int) -> list[Instruction]:
        """What makes the numbers of an operand comparable with the other's."""
        made, immediate = self.made, self.stream.immediate
        operand, found = made.operands[index], list[Instruction]()
        is_biased = operand.factor is not None and self.machine.instruction_set.adds_biases
        if operand.zero_point and not is_biased:
            found += immediate(start, size, "add", -operand.zero_point)
        if made.lift and made.lifted(operand.factor, self.machine) is None:
            found += immediate(start, size, "shift_right", -made.lift)
        if operand.factor is not None:
            number = sum(
                one.constant is None and one.factor is not None for one in made.operands[:index]
            )
            biased = is_biased and operand.zero_point != 0
            width = made.width(self.machine)
            found += self._scaled(start, size, number, operand.factor, width, biased)
        if index and made.kind == "sub":
            found += immediate(start, size, "multiply", -1)
        return found

    def combined(self, start: int, size: int, other: int) -> list[Instruction]:
        """What lies at `start` becomes the result of both operands."""
        operation, _ = OPERATIONS[self.made.kind]
        return self.stream.flat(Vector, start, size, source=other, operation=operation)

    def result(self, start: int, size: int) -> list[Instruction]:
        """What was made of both operands becomes numbers of the result."""
        made, immediate = self.made, self.stream.immediate
        limits = {"offset": made.zero_point, "low": made.low, "high": made.high}
        number = len(made.factors) - 1
        found: list[Instruction] = []
        if made.factor is not None and self.machine.instruction_set.requantizes:
            return self._requantize(start, size, number, **limits)
        if made.factor is not None:
            width = made.result_width(self.machine)
            found += self._scaled(start, size, number, made.factor, width)
        if made.zero_point:
            found += immediate(start, size, "add", made.zero_point)
        found += immediate(start, size, "maximum", made.low)
        return found + immediate(start, size, "minimum", made.high)

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
            return [i for step in steps for i in self.stream.immediate(start, size, *step)]
        multiplier, shift = factor  # a power of two: a shift to the left
        bits = min(shift, MAX_SHIFT) - (multiplier.bit_length() - 1)
        return self.stream.immediate(start, size, "shift_right", bits)

    def _requantize(self, start: int, size: int, number: int, **fields: int) -> list[Instruction]:
        each = self.made.elements_of_factor(self.machine)
        micro = [MicroOperation(start, self.factors_at + each * number)]
        return self.stream.loop(Requantize, micro, inner=size, destination_inner=1, **fields)
