"""Convolutions of few channels, in two layers: neighbouring positions become channels first.

    [3, 224, 224], weights [64, 3, 7, 7], strides 2, 2 x 2 neighbours
        ->  [12, 115, 115] by a layer that moves numbers
        ->  weights [64, 12, 4, 4], strides 1

An array of 16 rows multiplies 3 channels in 3 of its rows, and 12 in 12. Along each axis a window
of k positions with a stride of s is left as it is, or

- s neighbours become channels (space-to-depth), and the window has ceil(k / s) positions;
- all k become channels (im2col along this axis), and it has one.

Positions beyond the window have weights of 0. Every sum has the same products, so that all numbers
are equal. Where the host writes the tensor that the layer reads, it writes it in channels of
neighbours, and there is no layer that moves numbers. Rows and columns of padding alone are not
written then, if loads pad with the zero point.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from explorer.ir.unfolding import Unfolding
from explorer.npu.layers.convolution import Convolution
from explorer.npu.layers.layer import Rescaling
from explorer.targets.npu.machine import Machine

Neighbours = tuple[int, int]
"""Rows and columns that become channels together; 1 leaves an axis as it is."""


@dataclass(frozen=True, kw_only=True)
class Unfolded:
    """What computes what one layer did."""

    unfolding: Unfolding
    """How the summing layer's input is made of the layer's."""
    moving: Convolution | None
    """Makes channels of neighbours; None where the host writes them."""
    summing: Convolution
    """Reads what that makes."""

    @property
    def neighbours(self) -> Neighbours:
        return self.unfolding.neighbours

    @property
    def layers(self) -> tuple[Convolution, ...]:
        return (self.summing,) if self.moving is None else (self.moving, self.summing)

    def array_steps(self, machine: Machine) -> int:
        return sum(array_steps(one, machine) for one in self.layers)


def unfolded_forms(layer: Convolution, machine: Machine, by_host: bool = False) -> list[Unfolded]:
    """All that take fewer steps of the array than the layer, the fewest first."""
    if not has_few_channels(layer, machine):
        return []
    whole = array_steps(layer, machine)
    make = partial(written_by_host, machine=machine) if by_host else unfolded
    found = [make(layer, one) for one in _choices(layer)]
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
    axes = [_Axis.of(layer, axis, count) for axis, count in enumerate(neighbours)]
    form = _written(layer, axes)
    places = form.summing.input_shape[0]
    gathering = np.zeros((places, layer.input_shape[0], *neighbours), np.int64)
    for number, (row, column, channel) in enumerate(_places(layer, axes)):
        gathering[number, channel, row, column] = 1
    ones, zero_point = np.ones(places, np.int64), layer.input_zero_point
    moving = Convolution(
        name=f"{layer.name}.unfolded",
        input_shape=layer.input_shape,
        weights=gathering,
        bias=0 * ones,
        rescaling=Rescaling(how=None, multipliers=ones, shifts=0 * ones, zero_point=zero_point),
        strides=form.unfolding.strides,
        pads=form.unfolding.pads,
        input_zero_point=zero_point,
    )
    return replace(form, moving=moving)


def written_by_host(layer: Convolution, neighbours: Neighbours, machine: Machine) -> Unfolded:
    """The same without a layer that moves numbers."""
    axes = [_Axis.of(layer, axis, count) for axis, count in enumerate(neighbours)]
    if machine.instruction_set.pads_with_values or not layer.input_zero_point:
        axes = [one.without_padding() for one in axes]
    return _written(layer, axes)


def _written(layer: Convolution, axes: Sequence[_Axis]) -> Unfolded:
    rows, columns = axes
    places = list(_places(layer, axes))
    windows = rows.window, columns.window
    weights = np.zeros((layer.weights.shape[0], len(places), *windows), layer.weights.dtype)
    for number, (row, column, channel) in enumerate(places):
        part = layer.weights[:, channel, row :: rows.step, column :: columns.step]
        part = part[:, : windows[0], : windows[1]]
        weights[:, number, : part.shape[1], : part.shape[2]] = part
    summing = replace(
        layer,
        input_shape=(len(places), rows.made, columns.made),
        weights=weights,
        strides=(rows.stride, columns.stride),
        pads=(rows.before, columns.before, rows.after, columns.after),
    )
    unfolding = Unfolding(
        neighbours=(rows.count, columns.count),
        strides=(rows.step, columns.step),
        pads=(rows.pad, columns.pad, rows.pad_after, columns.pad_after),
        padding=layer.input_zero_point,
    )
    return Unfolded(unfolding=unfolding, moving=None, summing=summing)


def _places(layer: Convolution, axes: Sequence[_Axis]) -> Iterator[tuple[int, int, int]]:
    """Row, column and channel that each channel of the summing layer's input is."""
    rows, columns = axes
    return itertools.product(range(rows.count), range(columns.count), range(layer.input_shape[0]))


@dataclass(frozen=True, kw_only=True)
class _Axis:
    """Rows, or columns, of what is unfolded."""

    size: int
    """Of the layer's input."""
    count: int
    """Positions that become channels together."""
    step: int
    """From one group of them to the next."""
    pad: int
    """Positions before the first one of the input."""
    window: int
    stride: int
    """Of the layer that sums."""
    made: int
    """Groups."""
    before: int = 0
    after: int = 0
    """Groups of padding that are not made."""

    @classmethod
    def of(cls, layer: Convolution, axis: int, count: int) -> _Axis:
        kernel, stride = layer.kernel[axis], layer.strides[axis]
        step = 1 if count == 1 and kernel > 1 else stride
        window, rest = -(-(kernel - count) // step) + 1, stride // step
        made = (layer.output_shape[1 + axis] - 1) * rest + window
        return cls(
            size=layer.input_shape[1 + axis], count=count, step=step, pad=layer.pads[axis],
            window=window, stride=rest, made=made,
        )  # fmt: skip

    @property
    def pad_after(self) -> int:
        return (self.made - 1) * self.step + self.count - self.size - self.pad

    def without_padding(self) -> _Axis:
        """The first and the last group have a position of the input."""
        first = max(0, -(-(self.pad - self.count + 1) // self.step))
        end = min(self.made, -(-(self.size + self.pad) // self.step))
        if first >= end:
            return self
        return replace(
            self, pad=self.pad - first * self.step, made=end - first, before=first,
            after=self.made - end,
        )  # fmt: skip
