"""A convolution in integers: what is computed, whatever computes it.

    sum[o, y, x] = bias[o] + sum over i, ky, kx of (input[i, y * stride + ky * dilation - pad, ...]
                                                    - input zero point) * weight[o, i, ky, kx]
    output = clip(requantize(sum) + output zero point, low, high)

Padding counts as the input's zero point. A matrix product is a convolution of 1 x 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from explorer.errors import UnsupportedError
from explorer.ir.requantization import FixedPoint, Requantization, multiplied


class LayerError(UnsupportedError):
    """A layer that a machine cannot compute: what it lacks."""


@dataclass(frozen=True, kw_only=True)
class Rescaling:
    """How sums become outputs: factors per output channel, as the integer schemes know them."""

    how: Requantization
    multipliers: np.ndarray
    """i64 of [outputs]."""
    shifts: np.ndarray
    zero_point: int = 0
    low: int = -128
    high: int = 127


@dataclass(frozen=True, kw_only=True)
class Convolution:
    """One layer. Arrays: input [inputs, height, width], output [outputs, ...], without a batch."""

    name: str
    input_shape: tuple[int, int, int]
    weights: np.ndarray
    """Integers of [outputs, inputs / groups, kernel height, kernel width], zero point 0."""
    bias: np.ndarray
    """i32 of [outputs], without what the input's zero point adds."""
    rescaling: Rescaling
    strides: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    """Above, left, below, right."""
    groups: int = 1
    input_zero_point: int = 0

    @property
    def kernel(self) -> tuple[int, int]:
        return self.weights.shape[2], self.weights.shape[3]

    @property
    def output_shape(self) -> tuple[int, int, int]:
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

    def sums(self, x: np.ndarray) -> np.ndarray:
        """i64 of the output's shape: accumulators without bias, modulo nothing."""
        above, left, below, right = self.pads
        shifted = x.astype(np.int64) - self.input_zero_point
        padded = np.pad(shifted, ((0, 0), (above, below), (left, right)))
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

    def run(self, x: np.ndarray) -> np.ndarray:
        """The outputs, i64, of an input of `input_shape`."""
        sums = self.sums(x) + self.bias.astype(np.int64)[:, None, None]
        scaling = self.rescaling
        factors = FixedPoint(
            scaling.multipliers[:, None, None].astype(np.int64),
            scaling.shifts[:, None, None].astype(np.int64),
        )
        wrapped = sums.astype(np.int32).astype(np.int64)
        value = multiplied(wrapped, factors, scaling.how) + scaling.zero_point
        return np.clip(value, scaling.low, scaling.high)


def matrix_product(
    *, name: str, rows: int, weights: np.ndarray, bias: np.ndarray, rescaling: Rescaling,
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
