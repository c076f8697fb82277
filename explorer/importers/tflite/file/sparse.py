"""Weights that a file holds without their zeros, as whole arrays.

    level by level, in the order of `traversal_order`:
        DENSE         every place of the axis
        SPARSE_CSR    of the p-th place so far those of array_indices[segments[p]:segments[p + 1]]
    each place of the last level has a value

Axes from the tensor's rank on are those of blocks; `block_map` says which axis each belongs to.
Reference: the schema, `SparsityParameters`; Park et al., TACO's format of sparse tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from explorer.errors import ModelError
from explorer.importers.tflite.file.flatbuffer import Reader

MAX_ELEMENTS = 1 << 28
"""Of a whole array: a short file may claim any number of zeros."""
_INDEX_VECTORS = {1: ("Int32Vector", np.int32), 2: ("Uint16Vector", np.uint16),
                  3: ("Uint8Vector", np.uint8)}  # fmt: skip


@dataclass(frozen=True)
class Level:
    """One axis, as it is walked; `segments` and `indices` of one that leaves places out."""

    axis: int
    size: int
    segments: np.ndarray | None = None
    indices: np.ndarray | None = None


def levels_of(table: Any, reader: Reader) -> tuple[list[Level], list[int]]:
    """What `SparsityParameters` says: levels, and the axes that blocks belong to.

    ValueError for what is none. `table`: an accessor of the schema.
    """
    order = reader.numbers(table, "TraversalOrder")
    entries = reader.tables(table, "DimMetadata")
    if len(order) != len(entries) or sorted(order) != list(range(len(order))):
        raise ValueError(f"{len(entries)} levels of sparse weights in the order {order}")
    levels = [_level(axis, entry, reader) for axis, entry in zip(order, entries, strict=True)]
    return levels, reader.numbers(table, "BlockMap")


def _level(axis: int, entry: Any, reader: Reader) -> Level:
    if not entry.Format():
        return Level(axis, entry.DenseSize())
    arrays = []
    for name in ("ArraySegments", "ArrayIndices"):
        import tflite

        number, raw = getattr(entry, f"{name}Type")(), getattr(entry, name)()
        if number not in _INDEX_VECTORS or raw is None:
            raise ValueError(f"a level of sparse weights has no {name}")
        kind, dtype = _INDEX_VECTORS[number]
        vector = getattr(tflite, kind)()
        vector.Init(raw.Bytes, raw.Pos)
        values = reader.array(vector, "Values", dtype, np.dtype(dtype).itemsize)
        arrays.append(values.astype(np.int64))
    return Level(axis, 0, *arrays)


def dense(
    values: np.ndarray,
    shape: Sequence[int],
    levels: Sequence[Level],
    block_map: Sequence[int],
    name: str,
) -> np.ndarray:
    """The whole array of a tensor. ModelError where the parts do not fit."""
    rank = len(shape)
    if prod(shape) > MAX_ELEMENTS:
        raise ModelError(f"tensor {name!r} has {prod(shape):,} elements, most of them none")
    blocks = {level.axis: level.size for level in levels if level.axis >= rank}
    if len(levels) != rank + len(block_map) or any(not 0 <= a < rank for a in block_map):
        raise ModelError(f"the sparse tensor {name!r} has levels that do not fit its shape")
    try:
        places = _places(levels, max(prod(shape), 1))
        position = [places[axis] for axis in range(rank)]
        for number, axis in enumerate(block_map):
            position[axis] = position[axis] * blocks[rank + number] + places[rank + number]
        whole = np.zeros(shape, values.dtype)
        if any(len(p) != len(values) for p in position):
            raise ValueError(f"{len(position[0])} places for {len(values)} values")
        if any(
            p.size and not 0 <= p.min() <= p.max() < n for p, n in zip(position, shape, strict=True)
        ):
            raise ValueError("places outside of its shape")
        whole[tuple(position)] = values
    except (ValueError, IndexError) as error:
        raise ModelError(f"the sparse tensor {name!r} is damaged: {error}", node=name) from error
    return whole


def _places(levels: Sequence[Level], most: int) -> dict[int, np.ndarray]:
    """Of each axis where all values stand; at most `most` at any level."""
    count, found = 1, {}
    for level in levels:
        if level.segments is None or level.indices is None:
            spread, size = count * level.size, level.size
            if not 0 <= spread <= most:
                raise ValueError(f"{spread:,} places at a level")
            found = {axis: np.repeat(p, size) for axis, p in found.items()}
            found[level.axis] = np.tile(np.arange(size, dtype=np.int64), count)
            count = spread
            continue
        if len(level.segments) != count + 1:
            raise ValueError(f"{len(level.segments)} segments for {count} places")
        widths = np.diff(level.segments)
        if widths.min(initial=0) < 0 or level.segments[0] != 0:
            raise ValueError("segments that go back")
        if level.segments[-1] != len(level.indices) or len(level.indices) > most:
            raise ValueError(f"{len(level.indices)} indices for {level.segments[-1]} places")
        found = {axis: np.repeat(p, widths) for axis, p in found.items()}
        found[level.axis] = level.indices
        count = len(level.indices)
    return found
