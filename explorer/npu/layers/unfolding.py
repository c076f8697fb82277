"""Convolutions of few channels, in two layers: neighbouring positions become channels first.

    [3, 224, 224], weights [64, 3, 7, 7], strides 2, 2 x 2 neighbours
        ->  [12, 115, 115] by a layer that moves numbers
        ->  weights [64, 12, 4, 4], strides 1

An array of 16 rows multiplies 3 channels in 3 of its rows, and 12 in 12. Along each axis a window
of k positions with a stride of s is left as it is, or

- s neighbours become channels (space-to-depth), and the window has ceil(k / s) positions;
- all k become channels (im2col along this axis), and it has one.

Positions beyond the window have weights of 0. Every sum has the same products, so that all numbers
are equal.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from explorer.npu.layers.convolution import Convolution
from explorer.npu.layers.layer import Rescaling
from explorer.targets.npu.machine import Machine

Neighbours = tuple[int, int]
"""Rows and columns that become channels together; 1 leaves an axis as it is."""


@dataclass(frozen=True, kw_only=True)
class Unfolded:
    """Two layers that compute what one did."""

    neighbours: Neighbours
    moving: Convolution
    """Makes channels of neighbours."""
    summing: Convolution
    """Reads what that makes."""

    @property
    def layers(self) -> tuple[Convolution, Convolution]:
        return self.moving, self.summing

    def array_steps(self, machine: Machine) -> int:
        return sum(array_steps(one, machine) for one in self.layers)


def unfolded_forms(layer: Convolution, machine: Machine) -> list[Unfolded]:
    """All that take fewer steps of the array than the layer, the fewest first."""
    if not has_few_channels(layer, machine):
        return []
    whole = array_steps(layer, machine)
    found = [unfolded(layer, one) for one in _choices(layer)]
    found = [one for one in found if one.array_steps(machine) < whole]
    return sorted(found, key=lambda one: one.array_steps(machine))


def has_few_channels(layer: Convolution, machine: Machine) -> bool:
    """Whether the layer uses at most half of the array's rows, in windows of several positions of
    one whole tensor."""
    is_plain = layer.groups == 1 and not layer.within and not layer.parts
    is_plain = is_plain and layer.combined is None and layer.dilations == (1, 1)
    is_few = 2 * layer.input_shape[0] <= machine.rows
    return is_plain and is_few and layer.kernel != (1, 1) and not layer.is_sparse


def array_steps(layer: Convolution, machine: Machine) -> int:
    """Products of blocks of the array's size."""
    outputs, height, width = layer.output_shape
    blocks = -(-outputs // machine.columns) * -(-layer.input_shape[0] // machine.rows)
    return height * width * blocks * layer.kernel[0] * layer.kernel[1]


def _choices(layer: Convolution) -> Iterator[Neighbours]:
    rows, columns = (
        sorted({1, min(stride, kernel), kernel})
        for kernel, stride in zip(layer.kernel, layer.strides, strict=True)
    )
    return (one for one in itertools.product(rows, columns) if one != (1, 1))


def unfolded(layer: Convolution, neighbours: Neighbours) -> Unfolded:
    """`neighbours`: along each axis 1, the stride, or all positions of the window."""
    channels, *size = layer.input_shape
    steps, windows, strides, moved, ends = [], [], [], [], []
    for axis, count in enumerate(neighbours):
        kernel, stride = layer.kernel[axis], layer.strides[axis]
        step = 1 if count == 1 and kernel > 1 else stride
        window = -(-(kernel - count) // step) + 1
        rest = stride // step
        made = (layer.output_shape[1 + axis] - 1) * rest + window
        steps.append(step)
        windows.append(window)
        strides.append(rest)
        moved.append(made)
        ends.append((made - 1) * step + count - size[axis] - layer.pads[axis])
    places = list(itertools.product(*map(range, neighbours), range(channels)))
    gathering = np.zeros((len(places), channels, *neighbours), np.int64)
    weights = np.zeros((layer.weights.shape[0], len(places), *windows), layer.weights.dtype)
    for number, (row, column, channel) in enumerate(places):
        gathering[number, channel, row, column] = 1
        part = layer.weights[:, channel, row :: steps[0], column :: steps[1]]
        part = part[:, : windows[0], : windows[1]]
        weights[:, number, : part.shape[1], : part.shape[2]] = part
    ones, zero_point = np.ones(len(places), np.int64), layer.input_zero_point
    moving = Convolution(
        name=f"{layer.name}.unfolded",
        input_shape=layer.input_shape,
        weights=gathering,
        bias=0 * ones,
        rescaling=Rescaling(how=None, multipliers=ones, shifts=0 * ones, zero_point=zero_point),
        strides=(steps[0], steps[1]),
        pads=(layer.pads[0], layer.pads[1], ends[0], ends[1]),
        input_zero_point=zero_point,
    )
    summing = replace(
        layer,
        input_shape=(len(places), moved[0], moved[1]),
        weights=weights,
        strides=(strides[0], strides[1]),
        pads=(0, 0, 0, 0),
    )
    return Unfolded(neighbours=neighbours, moving=moving, summing=summing)
