"""What the tiles of one axis come to, for each of their sizes.

    axis = axis_of(layer, 0, [1, 2, 4, 7])
    axis.count[3], axis.read[3]      tiles of 7 rows, and the rows of the input that they load

Sums over the tiles of both axes are products, so that the cost of a layer in tiles of any size
follows without its tiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from explorer.npu.layers.convolution import Convolution
from explorer.npu.layers.tensors import blocks
from explorer.npu.tiling.convolution import window

Counts = np.ndarray
"""i64, one for each size."""


@dataclass(frozen=True, kw_only=True)
class Axis:
    """Of each size of tiles what all of them come to."""

    sizes: Counts
    count: Counts
    """Tiles."""
    last: Counts
    """Positions of the last one."""
    read: Counts
    """Positions of the input that all of them load."""
    held: Counts
    """With padding."""
    plain: Counts
    """Tiles that touch no padding."""
    single: Counts
    """Of these, tiles that read one position."""
    first_read: Counts
    """That the first tile loads."""
    is_first_plain: Counts
    window: Counts
    """Positions of the input that a whole tile reads."""
    whole: Counts
    """Tiles that read the whole axis without padding."""
    is_first_whole: Counts


def axis_of(layer: Convolution, axis: int, sizes: Sequence[int]) -> Axis:
    """`axis`: 0 for rows, 1 for columns."""
    count, inner = layer.output_shape[1 + axis], layer.input_shape[1 + axis]
    rows = [_of_size(layer, axis, size, count, inner) for size in sizes]
    columns = [np.array(column, np.int64) for column in zip(*rows, strict=True)]
    names = ("count", "last", "read", "held", "plain", "single", "first_read",
             "is_first_plain", "window", "whole", "is_first_whole")  # fmt: skip
    return Axis(sizes=np.array(sizes, np.int64), **dict(zip(names, columns, strict=True)))


def _of_size(layer: Convolution, axis: int, size: int, count: int, inner: int) -> tuple[int, ...]:
    starts = np.arange(0, count, size)
    made = np.minimum(size, count - starts)
    reach = window(layer, axis, 1)
    wide = (made - 1) * layer.strides[axis] + reach
    first = starts * layer.strides[axis] - layer.pads[axis]
    begin, end = np.maximum(first, 0), np.minimum(first + wide, inner)
    read = np.maximum(end - begin, 0)
    is_plain = read == wide
    is_whole = is_plain & (read == inner)
    return (
        len(starts), int(made[-1]), int(read.sum()), int(wide.sum()), int(is_plain.sum()),
        int((is_plain & (wide == 1)).sum()),
        int(read[0]), int(is_plain[0]), window(layer, axis, size), int(is_whole.sum()),
        int(is_whole[0]),
    )  # fmt: skip


def fast_sizes(count: int) -> list[int]:
    """A few sizes, from all to one: equal parts, of which each is about 1.4 times the next."""
    found, parts = [], 1.0
    while parts < count:
        found.append(blocks(count, round(parts)))
        parts = max(parts + 1, parts * 1.4)
    return sorted({*found, 1}, reverse=True)


def all_sizes(count: int) -> list[int]:
    """All that cut an axis into another number of tiles, the largest first; sizes between two of
    them make as many tiles as the smaller one, and larger ones."""
    found, size = [], count
    while size:
        smallest = blocks(count, blocks(count, size))
        found.append(smallest)
        size = smallest - 1
    return found
