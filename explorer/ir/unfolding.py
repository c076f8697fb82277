"""Pictures in which neighbouring positions are channels.

    unfolding = Unfolding(neighbours=(2, 2), strides=(2, 2), pads=(0, 0, 0, 0), padding=0)
    unfolding.shape((3, 96, 96))             (12, 48, 48)
    unfolding.apply(x)                       numbers at row 2 i + r and column 2 j + c become
                                             channels (2 r + c) * 3 + ... at row i, column j
    unfolding.undo(y, (3, 96, 96))           x

With strides as large as neighbours it is a permutation (space-to-depth); with smaller ones numbers
are repeated (im2col).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

Picture = tuple[int, int, int]
"""Channels, height, width."""
Places = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, kw_only=True)
class Unfolding:
    """Which positions become channels."""

    neighbours: tuple[int, int]
    """Rows and columns that become channels together."""
    strides: tuple[int, int]
    """From one group of them to the next."""
    pads: tuple[int, int, int, int]
    """Rows above, columns left, rows below, columns right; below 0 they are left out."""
    padding: int
    """What these hold."""

    def problem(self, shape: Picture) -> str:
        """Why a picture cannot be unfolded; empty where it can."""
        if min(*self.neighbours, *self.strides, *shape) < 1:
            return "neighbours, strides and sizes are at least 1"
        for axis, size in enumerate(shape[1:]):
            rest = self._padded(axis, size) - self.neighbours[axis]
            if rest < 0 or rest % self.strides[axis]:
                return f"{self._padded(axis, size)} positions are no whole groups of neighbours"
        return ""

    def shape(self, shape: Picture) -> Picture:
        """Of what is made of a picture of that shape."""
        rows, columns = self.neighbours
        height, width = (self._count(axis, size) for axis, size in enumerate(shape[1:]))
        return shape[0] * rows * columns, height, width

    def apply(self, picture: np.ndarray) -> np.ndarray:
        """[channels, height, width] of the same type."""
        channels, height, width = picture.shape
        found = np.full(self.shape((channels, height, width)), self.padding, picture.dtype)
        for made, rows, columns in self._groups((channels, height, width)):
            found[made][:, *np.ix_(rows[0], columns[0])] = picture[:, *np.ix_(rows[1], columns[1])]
        return found

    def undo(self, found: np.ndarray, shape: Picture) -> np.ndarray:
        """The picture of that shape; `padding` where nothing was made of a number."""
        picture = np.full(shape, self.padding, found.dtype)
        for made, rows, columns in self._groups(shape):
            picture[:, *np.ix_(rows[1], columns[1])] = found[made][:, *np.ix_(rows[0], columns[0])]
        return picture

    def _groups(self, shape: Picture) -> Iterator[tuple[slice, Places, Places]]:
        """Channels of each neighbour, and its places along both axes: in the result and in the
        picture."""
        channels, *sizes = shape
        neighbours = itertools.product(*map(range, self.neighbours))
        for number, (row, column) in enumerate(neighbours):
            made = slice(number * channels, (number + 1) * channels)
            yield made, self._places(0, row, sizes[0]), self._places(1, column, sizes[1])

    def _places(self, axis: int, neighbour: int, size: int) -> Places:
        made = np.arange(self._count(axis, size))
        read = made * self.strides[axis] + neighbour - self.pads[axis]
        is_inside = (read >= 0) & (read < size)
        return made[is_inside], read[is_inside]

    def _count(self, axis: int, size: int) -> int:
        return (self._padded(axis, size) - self.neighbours[axis]) // self.strides[axis] + 1

    def _padded(self, axis: int, size: int) -> int:
        return size + self.pads[axis] + self.pads[axis + 2]
