"""Products of two matrices that are both computed, and transpositions.

    MatrixProduct    output[b, i, j] = requantize(sum over k of (left[b, i, k] - its zero point)
                                                              * (right[b, j, k] - its zero point))
    Transposition    output[b, k, i] = input[b, i, k]

Matrices of a batch lie one behind the other: rows are positions, columns channels. The right one is
loaded as weights, row by row, so that its rows become columns of the array; a transposition is the
product of the identity with it. Where a load takes several rows at once (VTA), rows of zeros fill
up each matrix (`padding`). What zero points take off is multiplied as well: with weights, and with
a row, that are constant.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np

from explorer.npu.layers.layer import Rescaling
from explorer.npu.layers.stated_requantization import scaling_problem
from explorer.npu.layers.tensors import Shape, Tensor, blocks
from explorer.targets.npu.machine import Machine

IN_COLUMNS, IN_ROWS = 1, 2


@dataclass(frozen=True, kw_only=True)
class MatrixProduct:
    """One layer. Arrays: left [k, 1, batch x m], right [k, 1, batch x n] of signed integers."""

    name: str
    left_shape: Shape
    right_shape: Shape
    """Of zeros behind its channels there may be more than the left one has."""
    batch: int = 1
    padding: int = 0
    """Rows of zeros behind each matrix of the right one, of which no columns are made."""
    left_zero_point: int = 0
    right_zero_point: int = 0
    zeros: int = 0
    """Behind the channels of the right one: none (0), to the end of a block of the array's columns
    (`IN_COLUMNS`), or of its rows, too (`IN_ROWS`)."""
    bias: np.ndarray | None = None
    """i32 of [n]; None: there is none."""
    rescaling: Rescaling | None = None
    """Of one multiplier and shift; None: sums stay as wide as they are."""

    @property
    def inner(self) -> int:
        """Numbers that a sum is made of."""
        return self.left_shape[0]

    @property
    def rows(self) -> int:
        """Of a matrix of the result."""
        return self.left_shape[1] * self.left_shape[2] // self.batch

    @property
    def right_rows(self) -> int:
        """From one matrix of the right operand to the next."""
        return self.right_shape[1] * self.right_shape[2] // self.batch

    @property
    def columns(self) -> int:
        return self.right_rows - self.padding

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return (
            Tensor(name="left", shape=self.left_shape),
            Tensor(name="right", shape=self.right_shape),
        )

    @property
    def output(self) -> Tensor:
        shape = (self.columns, 1, self.batch * self.rows)
        return Tensor(name="output", shape=shape, is_wide=self.rescaling is None)

    @property
    def macs(self) -> int:
        return self.batch * self.rows * self.columns * self.inner

    def run(self, *inputs: np.ndarray) -> np.ndarray:
        """The output, i64 of [n, 1, batch x m]."""
        left, right = (x.reshape(len(x), self.batch, -1).astype(np.int64) for x in inputs)
        right = right[: self.inner, :, : self.columns]
        sums = np.einsum(
            "kbi,kbj->jbi", left - self.left_zero_point, right - self.right_zero_point
        ).reshape(self.columns, 1, -1)
        if self.bias is not None:
            sums = sums + self.bias.astype(np.int64)[:, None, None]
        if self.rescaling is None:
            return sums.astype(np.int32).astype(np.int64)
        return self.rescaling.applied(sums)

    def problem(self, machine: Machine) -> str:
        """What the machine lacks, whatever the tiles; empty where nothing."""
        if found := gathering_problem(machine, self.right_rows):
            return found
        is_enough = self.zeros == IN_ROWS or (
            self.zeros == IN_COLUMNS and channels_with_zeros(self.inner, machine) == self.inner
        )
        if self.inner % machine.rows and not is_enough:
            return "behind the channels of its second operand are no zeros"
        if self.rescaling is None:
            return "" if machine.instruction_set.stores_sums else "its sums would be cut"
        needed = {"add", "requantize" if machine.instruction_set.requantizes else "shift_right"}
        if missing := needed - set(machine.operations):
            return f"its vector engine has no {min(missing)}"
        return scaling_problem(self.rescaling, machine, self.largest_sum(machine), True)

    def largest_sum(self, machine: Machine) -> int:
        """What no sum goes beyond, whatever the inputs."""
        half = 1 << machine.input_bits - 1
        reach = (half + abs(zero) for zero in (self.left_zero_point, self.right_zero_point))
        return self.inner * prod(reach) + (0 if self.bias is None else int(abs(self.bias).max()))


@dataclass(frozen=True, kw_only=True)
class Transposition:
    """One layer. Arrays: input [k, 1, batch x m], output [m, 1, batch x k] of signed integers."""

    name: str
    input_shape: Shape
    batch: int = 1
    padding: int = 0
    """Rows of zeros behind each matrix, which do not become channels of the result."""

    @property
    def inner(self) -> int:
        """Channels of the input, which are the rows of the result."""
        return self.input_shape[0]

    @property
    def right_rows(self) -> int:
        """From one matrix of the input to the next."""
        return self.input_shape[1] * self.input_shape[2] // self.batch

    @property
    def columns(self) -> int:
        """Rows of a matrix of the input."""
        return self.right_rows - self.padding

    @property
    def rows(self) -> int:
        return self.inner

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return (Tensor(name="right", shape=self.input_shape),)

    @property
    def output(self) -> Tensor:
        return Tensor(name="output", shape=(self.columns, 1, self.batch * self.inner))

    @property
    def macs(self) -> int:
        """None of the program: it only moves numbers."""
        return 0

    def run(self, *inputs: np.ndarray) -> np.ndarray:
        """The output, i64 of [m, 1, batch x k]."""
        (x,) = inputs
        split = x.reshape(self.inner, self.batch, -1)[:, :, : self.columns].astype(np.int64)
        return split.transpose(2, 1, 0).reshape(self.output.shape)

    def problem(self, machine: Machine) -> str:
        """What the machine lacks, whatever the tiles; empty where nothing."""
        return gathering_problem(machine, self.right_rows)


MatrixLayer = MatrixProduct | Transposition


def rows_at_once(machine: Machine) -> int:
    """Rows of a matrix that a load of weights takes."""
    return 1 if machine.instruction_set.gathers_weights else machine.columns


def channels_with_zeros(inner: int, machine: Machine) -> int:
    """Channels that a layer has to make of so many, zeros behind them included, so that the last
    block of the array's rows is filled: a layer fills its last block of columns."""
    read, written = (blocks(inner, each) * each for each in (machine.rows, machine.columns))
    return inner if read <= written else read


def gathering_problem(machine: Machine, rows: int) -> str:
    """Why a tensor of so many rows in a matrix cannot be loaded as weights; empty where it can."""
    if machine.accumulator_bits != 32:
        return f"sums have 32 bits, its accumulators {machine.accumulator_bits}"
    if machine.input_bits != machine.weight_bits:
        return (
            f"inputs of {machine.input_bits} bits are no weights, which have {machine.weight_bits}"
        )
    if machine.instruction_set.gathers_weights:
        return ""
    if machine.rows_per_element != 1 or machine.rows != machine.columns:
        return "its loads of weights cannot take what lies as activations"
    if rows % rows_at_once(machine):
        return (
            f"a matrix of {rows} rows is no whole number of weights, each of which takes "
            f"{machine.columns}"
        )
    return ""


@dataclass(frozen=True, kw_only=True)
class MatrixChunk:
    """One step of a tile: what is loaded, multiplied, and where it lies."""

    matrix: int
    outputs: range
    """Blocks of columns of the result."""
    rows: range
    inputs: range
    """Blocks of what is summed up."""
    buffer: int
    tile: int
    is_first: bool
    is_last: bool


def across_of(layer: MatrixLayer, machine: Machine) -> int:
    """Blocks of the array's columns that are written: a transposition fills its blocks of rows,
    too, with zeros."""
    count = layer.columns
    if isinstance(layer, Transposition):
        count = blocks(count, machine.rows) * machine.rows
    return blocks(count, machine.columns)


def chunks_of(
    layer: MatrixLayer, machine: Machine, sizes: tuple[int, int, int], buffers: int
) -> Iterator[MatrixChunk]:
    """All steps in the order in which they run; `sizes`: rows, blocks of outputs, of inputs."""
    rows, outputs, inputs = sizes
    number = tile = 0
    depth, across = blocks(layer.inner, machine.rows), across_of(layer, machine)
    for matrix in range(layer.batch):
        for first in range(0, across, outputs):
            mine = range(first, min(first + outputs, across))
            if isinstance(layer, Transposition):
                tiles = [(_channels(layer, machine, one), [one]) for one in _cut(depth, inputs)]
            else:
                sums = list(_cut(depth, inputs))
                tiles = [(one, sums) for one in _cut(layer.rows, rows)]
            for part, steps in tiles:
                for step in steps:
                    yield MatrixChunk(
                        matrix=matrix, outputs=mine, rows=part, inputs=step,
                        buffer=number % buffers, tile=tile, is_first=step is steps[0],
                        is_last=step is steps[-1],
                    )  # fmt: skip
                    number += 1
                tile += 1


def _cut(count: int, size: int) -> Iterator[range]:
    for start in range(0, count, size):
        yield range(start, min(start + size, count))


def _channels(layer: Transposition, machine: Machine, taken: range) -> range:
    """The channels of some blocks of the input."""
    end = min(taken.stop * machine.rows, layer.inner)
    return range(taken.start * machine.rows, end)


def summands(number: int, bits: int) -> tuple[int, ...]:
    """Numbers of so many bits that add up to it; none for 0."""
    half, found = 1 << bits - 1, []
    while number:
        found.append(max(-half, min(number, half - 1)))
        number -= found[-1]
    return tuple(found)
