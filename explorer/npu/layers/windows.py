"""Maxima of windows and functions by table: layers of the vector engine alone.

    output[c, y, x] = table[max over ky, kx of input[c, y * stride + ky * dilation - pad, ...]]

Padding counts as less than any number. Where the machine has no tables, a function is a sum of
lines (`lines.py`). Without a window it is a function of each number, without a table a maximum.
Averages are convolutions (`explorer.npu.layers.layer`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from explorer.npu.layers.accesses import Access
from explorer.npu.layers.lines import Line, lines_of
from explorer.npu.layers.tensors import Shape, Tensor
from explorer.targets.npu.machine import Machine

LINE = {"add", "multiply", "shift_right", "maximum", "minimum"}
"""Operations that a line is made of."""


@dataclass(frozen=True, kw_only=True)
class WindowLayer:
    """One layer. Arrays of signed integers, without a batch: [channels, height, width]."""

    name: str
    input_shape: Shape
    bits: int
    """Of its numbers."""
    kernel: tuple[int, int] = (1, 1)
    strides: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    """Above, left, below, right."""
    table: np.ndarray | None = None
    """i64 of [2^bits]: of the lowest number, of the next one, and so on."""

    @property
    def lowest(self) -> int:
        return -(1 << self.bits - 1)

    @property
    def reach(self) -> tuple[int, int]:
        """Rows and columns from the first to the last element of a window."""
        (kh, kw), (dh, dw) = self.kernel, self.dilations
        return (kh - 1) * dh + 1, (kw - 1) * dw + 1

    @property
    def output_shape(self) -> Shape:
        sizes = [
            (self.input_shape[1 + axis] + self.pads[axis] + self.pads[2 + axis] - self.reach[axis])
            // self.strides[axis]
            + 1
            for axis in range(2)
        ]
        return self.input_shape[0], sizes[0], sizes[1]

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return (Tensor(name="input", shape=self.input_shape),)

    @property
    def output(self) -> Tensor:
        return Tensor(name="output", shape=self.output_shape)

    @property
    def accesses(self) -> tuple[Access, ...]:
        (tensor,) = self.inputs
        return (Access(tensor=tensor, reach=self.reach, strides=self.strides, pads=self.pads,
                       pad_value=self.lowest),)  # fmt: skip

    @property
    def factors(self) -> tuple[tuple[int, int], ...]:
        """Nothing is scaled."""
        return ()

    @property
    def lists(self) -> tuple[()]:
        """There are none."""
        return ()

    @property
    def mixes_channels(self) -> bool:
        return False

    @property
    def is_in_place(self) -> bool:
        return False

    @property
    def micro_per_block(self) -> int:
        return max(1, self.kernel[0] * self.kernel[1] - 1)

    def lines(self, machine: Machine) -> tuple[Line, ...]:
        """What takes the table's place on a machine that has none: their sum. Behind a window only
        a single one."""
        if self.table is None or "table" in machine.operations or machine.accumulator_bits != 32:
            return ()
        found = lines_of(self.table) if self.bits <= 8 else ()
        is_plain = self.kernel == self.strides == (1, 1) and not any(self.pads)
        return found if is_plain or len(found) < 2 else ()

    def spare_results(self, machine: Machine) -> int:
        """How often the results of a tile have room beside them, for a line that is added."""
        return int(len(self.lines(machine)) > 1)

    def problem(self, machine: Machine) -> str:
        """What the machine lacks, whatever the tiles; empty where nothing."""
        if self.bits != machine.input_bits:
            return f"its numbers have {self.bits} bits, those of the machine {machine.input_bits}"
        if any(pad >= self.reach[index % 2] for index, pad in enumerate(self.pads)):
            return "a window of it lies in the padding altogether"
        needed = {"add"} if self.kernel == (1, 1) else {"add", "maximum"}
        lines = self.lines(machine)
        needed |= LINE if lines else set() if self.table is None else {"table"}
        if missing := needed - set(machine.operations):
            return f"its vector engine has no {min(missing)}"
        if self.table is None or lines:
            return ""
        assert machine.vector is not None and machine.vector.table_entries is not None
        if machine.vector.table_entries < len(self.table) or machine.table_bits < self.bits:
            return (
                f"its tables have {machine.vector.table_entries} entries of {machine.table_bits} "
                f"bits, and {len(self.table)} of {self.bits} are needed"
            )
        return ""

    def run(self, *inputs: np.ndarray) -> np.ndarray:
        """The outputs, i64, of an input of `input_shape`."""
        (x,) = inputs
        above, left, below, right = self.pads
        room = ((0, 0), (above, below), (left, right))
        padded = np.pad(x.astype(np.int64), room, constant_values=self.lowest)
        windows = np.lib.stride_tricks.sliding_window_view(padded, self.reach, axis=(1, 2))
        (sy, sx), (dy, dx) = self.strides, self.dilations
        found = windows[:, ::sy, ::sx, ::dy, ::dx].max(axis=(3, 4))
        return found if self.table is None else self.table[found - self.lowest]
