"""The convolution in integers, and its meaning in NumPy.

    sum[o, y, x] = bias[o] + sum over i, ky, kx of (input[i, y * stride + ky * dilation - pad, ...]
                                                    - input zero point) * weight[o, i, ky, kx]
    sum = sum * multiplier[o] + addend[o]   modulo 2^32, where it is moved
    output = clip(requantize(sum) + output zero point, low, high)
    output = combined(output, other)        where another tensor is added, or the like

Padding counts as the input's zero point. A matrix product is a convolution of 1 x 1. So is what
moves channels: of weights that are 0 but for a few, of which blocks of zeros are left out.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from explorer.npu.layers.elementwise import Elementwise
from explorer.npu.layers.layer import Rescaling, wrapped
from explorer.npu.layers.tensors import Shape, Tensor
from explorer.targets.npu.machine import Machine


@dataclass(frozen=True, kw_only=True)
class Affine:
    """What sums are multiplied by, and what is added, modulo 2^32."""

    multipliers: np.ndarray
    """i32 of [outputs], like the addends."""
    addends: np.ndarray

    def applied(self, sums: np.ndarray) -> np.ndarray:
        """i64 of [outputs, height, width]."""
        multiplied = wrapped(sums) * self.multipliers.astype(np.int64)[:, None, None]
        return wrapped(multiplied + self.addends.astype(np.int64)[:, None, None])

    def largest(self, sums: np.ndarray) -> int:
        """What no number goes beyond that is made of sums of up to these, by output."""
        multipliers, addends = (np.abs(n.astype(object)) for n in (self.multipliers, self.addends))
        return min(int((sums.astype(object) * multipliers + addends).max()), (1 << 31) - 1)


@dataclass(frozen=True, kw_only=True)
class Placement:
    """Where the positions of a result lie in a picture that others write to, too."""

    size: tuple[int, int]
    """Height and width of the picture."""
    offset: tuple[int, int] = (0, 0)
    """Row and column of the first position."""
    steps: tuple[int, int] = (1, 1)
    """Rows and columns from one position to the next."""


@dataclass(frozen=True, kw_only=True)
class Convolution:
    """One layer. Arrays: input [inputs, height, width], output [outputs, ...], without a batch."""

    name: str
    input_shape: Shape
    weights: np.ndarray
    """Integers of [outputs, inputs / groups, kernel height, kernel width], zero point 0."""
    bias: np.ndarray
    """i32 of [outputs], without what the input's zero point adds."""
    rescaling: Rescaling | None
    """None: sums stay as wide as they are."""
    strides: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    """Above, left, below, right; a negative one leaves out so many rows or columns."""
    groups: int = 1
    moved: Affine | None = None
    """What is done with sums before they are rescaled."""
    input_zero_point: int = 0
    parts: tuple[int, ...] = ()
    """Channels of each input, where there are several: they are read as if side by side."""
    reads: tuple[int, ...] = ()
    """Which input each part is of, where some are read twice."""
    placement: Placement | None = None
    """None: the result is the whole output."""
    within: tuple[int, ...] = ()
    """Rows of the whole input, and the one at which the picture that is read begins, where there
    are several, one below the other."""

    combined: Elementwise | None = None
    """What is done with outputs and another tensor of their shape before they are stored."""
    combined_side: int = 0
    """Which of its operands the outputs are; the other one is a tensor."""

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """What windows read; and what outputs are combined with."""
        return self.pictures if self.other is None else (*self.pictures, self.other)

    @property
    def other(self) -> Tensor | None:
        """What outputs are combined with."""
        return None if self.combined is None else Tensor(name="other", shape=self.output_shape)

    @cached_property
    def pictures(self) -> tuple[Tensor, ...]:
        """What windows read: one named input, or input0, input1 and so on."""
        channels, height, width = self.input_shape
        if self.within:
            height = self.within[0]
        if len(self.parts) < 2:
            return (Tensor(name="input", shape=(channels, height, width)),)
        if not self.reads:
            return tuple(
                Tensor(name=f"input{index}", shape=(channels, height, width))
                for index, channels in enumerate(self.parts)
            )
        parts = self.parts[: max(self.reads) + 1]
        shape = (sum(parts), *self.input_shape[1:])
        return dataclasses.replace(self, reads=(), parts=parts, input_shape=shape).pictures

    @property
    def first_row(self) -> int:
        """Of the inputs: where the picture begins."""
        return self.within[1] if self.within else 0

    @property
    def output(self) -> Tensor:
        channels, height, width = self.output_shape
        if self.placement is not None:
            height, width = self.placement.size
        shape = (channels, height, width)
        return Tensor(name="output", shape=shape, is_wide=self.rescaling is None)

    @cached_property
    def kernel(self) -> tuple[int, int]:
        return self.weights.shape[2], self.weights.shape[3]

    @cached_property
    def output_shape(self) -> Shape:
        """Of what is computed, wherever it is placed."""
        sizes = []
        for axis in range(2):
            reach = (self.kernel[axis] - 1) * self.dilations[axis] + 1
            padded = self.input_shape[1 + axis] + self.pads[axis] + self.pads[2 + axis]
            sizes.append((padded - reach) // self.strides[axis] + 1)
        return self.weights.shape[0], sizes[0], sizes[1]

    @property
    def macs(self) -> int:
        """Multiply-accumulates, those with padding included."""
        return self.output_shape[1] * self.output_shape[2] * self.weights.size

    @property
    def is_scaled(self) -> bool:
        """Whether sums are requantized: else they stay, or are outputs as they are."""
        return self.rescaling is not None and self.rescaling.how is not None

    @cached_property
    def is_sparse(self) -> bool:
        """Whether blocks of weights may be left out: it has groups, or most weights are 0."""
        kept = int(np.count_nonzero(self.weights))
        return self.groups > 1 or 4 * kept < self.weights.size

    def largest_sum(self, machine: Machine) -> int:
        """What no sum goes beyond, whatever the inputs."""
        reach = (1 << machine.input_bits - 1) + abs(self.input_zero_point)
        by_output = np.abs(self.weights).reshape(self.weights.shape[0], -1).sum(axis=1) * reach
        sums = by_output + np.abs(self.bias)
        return int(sums.max()) if self.moved is None else self.moved.largest(sums)

    def sums(self, x: np.ndarray) -> np.ndarray:
        """i64 of the output's shape: accumulators without bias, modulo nothing."""
        shifted = x.astype(np.int64) - self.input_zero_point
        above, left, below, right = self.pads
        room = [(max(0, a), max(0, b)) for a, b in ((above, below), (left, right))]
        padded = np.pad(shifted, ((0, 0), *room))
        padded = padded[:, max(0, -above) :, max(0, -left) :]
        outputs, height, width = self.output_shape
        per_group, inputs = outputs // self.groups, self.weights.shape[1]
        found = np.zeros(self.output_shape, np.int64)
        (sy, sx), (dy, dx) = self.strides, self.dilations
        for group in range(self.groups):
            mine = slice(group * per_group, (group + 1) * per_group)
            part = padded[group * inputs : (group + 1) * inputs]
            for ky in range(self.kernel[0]):
                for kx in range(self.kernel[1]):
                    window = part[:, ky * dy :, kx * dx :]
                    window = window[:, : (height - 1) * sy + 1 : sy, : (width - 1) * sx + 1 : sx]
                    weight = self.weights[mine, :, ky, kx].astype(np.int64)
                    found[mine] += np.tensordot(weight, window, 1)
        return found

    def run(self, *inputs: np.ndarray) -> np.ndarray:
        """The outputs, i64; with a placement those of the layer alone, 0 elsewhere."""
        first, count = self.first_row, len(self.pictures)
        read = np.concatenate(inputs[:count])[:, first : first + self.input_shape[1]]
        sums = self.sums(read) + self.bias.astype(np.int64)[:, None, None]
        if self.moved is not None:
            sums = self.moved.applied(sums)
        if self.rescaling is not None:
            found = self.rescaling.applied(sums)
        else:
            found = wrapped(sums)
        if self.combined is not None:
            (other,) = inputs[count:]
            found = self.combined.run(*((other, found) if self.combined_side else (found, other)))
        if self.placement is None:
            return found
        (oy, ox), (sy, sx) = self.placement.offset, self.placement.steps
        whole = np.zeros(self.output.shape, np.int64)
        _, height, width = found.shape
        whole[:, oy : oy + height * sy : sy, ox : ox + width * sx : sx] = found
        return whole


def matrix_product(
    *, name: str, rows: int, weights: np.ndarray, bias: np.ndarray, rescaling: Rescaling | None,
    input_zero_point: int = 0,
) -> Convolution:  # fmt: skip
    """[rows, inputs] x [outputs, inputs]^T: the input's rows lie along the width."""
    return Convolution(
        name=name,
        input_shape=(weights.shape[1], 1, rows),
        weights=weights[:, :, None, None],
        bias=bias,
        rescaling=rescaling,
        input_zero_point=input_zero_point,
    )
