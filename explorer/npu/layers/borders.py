"""Where padding counts as another number than the one that loads pad with.

Loads of VTA pad with 0. Where an input's zero point is another number z, each tap that lies in the
padding takes z * weight too little off the sums; which taps do depends on the position alone:

    taps of a row's windows that lie inside, of 3 rows with a padding of 1:    1, 2 | 0, 1, 2 | 0, 1

Positions with the same taps inside are a class, which has a bias of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from explorer.npu.layers.convolution import Convolution
from explorer.targets.npu.machine import Machine


@dataclass(frozen=True)
class Run:
    """Rows, or columns, of the output one behind the other that have the same taps inside."""

    positions: range
    taps: range


@dataclass(frozen=True)
class Borders:
    """Classes of positions: each pair of a run of rows and one of columns."""

    rows: tuple[Run, ...]
    columns: tuple[Run, ...]

    @property
    def count(self) -> int:
        return len(self.rows) * len(self.columns)

    def biases(self, layer: Convolution) -> np.ndarray:
        """i32 of [class, outputs]: with what the zero point takes off."""
        weights = layer.weights.astype(np.int64).sum(axis=1)
        scaling = layer.rescaling
        moved = 0 if scaling is None or layer.is_scaled else scaling.zero_point
        found = [
            moved
            + layer.bias
            - layer.input_zero_point * weights[:, _slice(y), _slice(x)].sum(axis=(1, 2))
            for y in self.rows
            for x in self.columns
        ]
        return np.stack(found).astype(np.int32)

    def pieces(self, rows: range, columns: range) -> list[tuple[int, range, range]]:
        """Of a tile: class, rows and columns inside the tile."""
        found: list[tuple[int, range, range]] = []
        for i, y in enumerate(self.rows):
            for j, x in enumerate(self.columns):
                tall, wide = _inside(y.positions, rows), _inside(x.positions, columns)
                if len(tall) and len(wide):
                    found.append((i * len(self.columns) + j, tall, wide))
        return found


def borders(layer: Convolution, machine: Machine) -> Borders:
    """One class where loads can pad with the zero point."""
    is_bordered = layer.input_zero_point and max(layer.pads) > 0
    has_classes = is_bordered and not machine.instruction_set.pads_with_values
    axes = [
        runs(layer, axis)
        if has_classes
        else (Run(range(layer.output_shape[1 + axis]), range(layer.kernel[axis])),)
        for axis in range(2)
    ]
    return Borders(axes[0], axes[1])


def runs(layer: Convolution, axis: int) -> tuple[Run, ...]:
    """All rows, or columns, of the output."""
    found: list[Run] = []
    for position in range(layer.output_shape[1 + axis]):
        start = position * layer.strides[axis] - layer.pads[axis]
        inside = [
            tap
            for tap in range(layer.kernel[axis])
            if 0 <= start + tap * layer.dilations[axis] < layer.input_shape[1 + axis]
        ]
        taps = range(inside[0], inside[-1] + 1) if inside else range(0)
        first = position
        if found and found[-1].taps == taps:
            first = found.pop().positions.start
        found.append(Run(range(first, position + 1), taps))
    return tuple(found)


def _slice(run: Run) -> slice:
    return slice(run.taps.start, run.taps.stop)


def _inside(run: range, tile: range) -> range:
    start, stop = max(run.start, tile.start), min(run.stop, tile.stop)
    return range(start - tile.start, max(start, stop) - tile.start)
