"""Tensors in global memory: one layout for all layers.

    [block of channels, height, width, channel]

A block has as many channels as both the array's rows and its columns divide, so that it is read as
whole activations and written as whole outputs. Channels that the last block has too many hold
anything: weights of 0 meet them, and nobody reads them back.

Wide numbers (sums that stay) lie like that, too. Machines whose stores only cut them (VTA's) keep
them as signed digits of a byte, in as many tensors one behind the other:
    sum = digit 0 + 2^8 digit 1 + 2^16 digit 2 + 2^24 digit 3       modulo 2^32
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from explorer.targets.npu.formats import formats_of
from explorer.targets.npu.machine import Machine

Shape = tuple[int, int, int]
"""Channels, height, width."""


def blocks(count: int, size: int) -> int:
    """How many blocks of the size hold so many."""
    return -(-count // size)


def channels_per_block(machine: Machine) -> int:
    """Of a tensor in global memory."""
    return math.lcm(machine.rows, machine.columns)


def alignment_bytes(machine: Machine) -> int:
    """Offsets of tensors are multiples of it: of each kind of element that reads or writes them."""
    size = channels_per_block(machine) * machine.accumulator_bits // 8
    if not machine.instruction_set.gathers_weights:  # loads of weights may take them, too
        size = math.lcm(size, machine.by_content["weights"].global_bytes)
    return size


def element_problem(machine: Machine) -> str:
    """Why a tensor without a batch is no row of the machine's elements; empty where it is."""
    if machine.rows_per_element != 1:
        return f"its elements hold a batch of {machine.batch}, and the layer has 1"
    if machine.rows != machine.columns and not machine.instruction_set.skips_elements:
        return "its loads cannot skip elements, which rows unlike columns need"
    return ""


def most_padding(machine: Machine) -> int:
    """Rows that one load pads at most."""
    (load,) = [one for one in formats_of(machine).kinds if one.kind == "load"]
    return next(field.most for field in load.fields if field.name == "y_pad_before")


def packed(numbers: np.ndarray, bits: int) -> np.ndarray:
    """Integers as bytes, of 4 bits the low half of a byte first."""
    if bits == 4:
        pairs = numbers.reshape(-1, 2).astype(np.uint8) & 15
        return pairs[:, 0] | pairs[:, 1] << 4
    return numbers.astype(f"<i{bits // 8}").reshape(-1).view(np.uint8)


def unpacked(data: np.ndarray, bits: int) -> np.ndarray:
    """The signed integers that `packed` made bytes of."""
    if bits == 4:
        pairs = np.stack([data & 15, data >> 4], axis=-1).reshape(-1).astype(np.int64)
        return pairs - 16 * (pairs > 7)
    return data.view(f"<i{bits // 8}").astype(np.int64)


@dataclass(frozen=True, kw_only=True)
class Tensor:
    """An operand or result of a layer, without a batch."""

    name: str
    """Of its place: left, right, output and so on."""
    shape: Shape
    is_wide: bool = False
    """Sums instead of inputs of the array."""

    def digits(self, machine: Machine) -> int:
        """Tensors of narrow numbers that hold wide ones; 1 where they lie as they are."""
        is_cut = self.is_wide and not machine.instruction_set.stores_sums
        return machine.accumulator_bits // machine.input_bits if is_cut else 1

    def bits(self, machine: Machine) -> int:
        """Of a stored number, or of a digit of one."""
        is_whole = self.is_wide and self.digits(machine) == 1
        return machine.accumulator_bits if is_whole else machine.input_bits

    def digit_bytes(self, machine: Machine) -> int:
        """Size of one tensor of digits."""
        each = channels_per_block(machine)
        channels, height, width = self.shape
        numbers = blocks(channels, each) * each * height * width
        return numbers * self.bits(machine) // 8

    def size_bytes(self, machine: Machine) -> int:
        return self.digit_bytes(machine) * self.digits(machine)

    def pack(self, x: np.ndarray, machine: Machine) -> np.ndarray:
        """Bytes of signed integers of `shape`."""
        each = channels_per_block(machine)
        room = blocks(self.shape[0], each) * each - self.shape[0]
        padded = np.pad(x, ((0, room), (0, 0), (0, 0)))
        split = padded.reshape(-1, each, *self.shape[1:])
        numbers = np.moveaxis(split, 1, -1).astype(np.int64)
        bits, parts = self.bits(machine), []
        for _ in range(self.digits(machine)):
            low = _signed(numbers, bits) if self.digits(machine) > 1 else numbers
            parts.append(packed(low, bits))
            numbers = (numbers - low) >> bits
        return np.concatenate(parts)

    def unpack(self, data: np.ndarray, machine: Machine) -> np.ndarray:
        """i64 of `shape` out of the bytes that `pack` made."""
        each = channels_per_block(machine)
        channels, height, width = self.shape
        bits, count = self.bits(machine), self.digits(machine)
        digits = unpacked(data, bits).reshape(count, -1, height, width, each)
        weights = np.int64(1) << bits * np.arange(count)
        numbers = (digits * weights[:, None, None, None, None]).sum(axis=0)
        if count > 1:
            numbers = _signed(numbers, machine.accumulator_bits)
        return np.moveaxis(numbers, -1, 1).reshape(-1, height, width)[:channels]


def _signed(numbers: np.ndarray, bits: int) -> np.ndarray:
    """The low bits, as a number with a sign."""
    half = 1 << bits - 1
    return (numbers + half) % (1 << bits) - half
