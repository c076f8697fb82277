"""Loads of a convolution's weights, and where these lie once they are coded.

    weight_loads(tiled, chunk)       what a chunk loads, counted from the layer's first weight
    coded_weights(tiled, chunks)     of all loads: blocks, one after the other; None: as they are

A load brings one block, so that blocks follow the tiles. One that would not get smaller lies as it
is, its rows one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from explorer.npu.layers.tensors import packed
from explorer.npu.program.transfers import Block, transfers
from explorer.npu.tiling.chunks import Chunk
from explorer.npu.tiling.coded import Coding, Rows
from explorer.npu.tiling.convolution import TiledLayer
from explorer.targets.npu.coding import coded
from explorer.targets.npu.formats import limits_of
from explorer.targets.npu.instructions import Load

Key = tuple[int, int, int, int]
"""Of a load: address, rows, elements of a row, and what lies between two rows."""


@dataclass(frozen=True, kw_only=True)
class CodedWeights:
    """Blocks in the order in which they are loaded first."""

    places: dict[Key, tuple[int, int]]
    """Of each load: the first element of its block, and its bytes; 0 where it lies as it is."""
    elements: int
    """Of all blocks; each begins with a whole one."""
    coding: Coding

    def place(self, load: Load) -> Load:
        """The load of a block in place of one of weights as they are."""
        address, size = self.places[_key(load)]
        stride = load.x_size if load.y_size > 1 and not size else 0
        return replace(load, global_address=address, coded_bytes=size, x_stride=stride)

    def data(self) -> np.ndarray:
        """u8: all blocks as they lie in memory."""
        each, bits = self.coding.element_bytes, self.coding.bits
        found = np.zeros(self.elements * each, np.uint8)
        for key, (address, size) in self.places.items():
            numbers = self.coding.rows(_rows(key))
            block = coded(numbers, bits) if size else packed(numbers, bits)
            found[address * each : address * each + block.size] = block
        return found


def weight_loads(tiled: TiledLayer, chunk: Chunk) -> Iterator[Load]:
    """A row for each block of output channels; one row where their inputs are not cut, and nothing
    where they are there already."""
    if tiled.repeated is not None:
        if chunk.is_first and not chunk.tile:
            size = tiled.weight_elements
            yield Load(memory="weights", scratchpad_address=0, global_address=0, x_size=size)
        return
    if not chunk.loads_weights:
        return
    taps, band = tiled.taps, tiled.bands[chunk.band]
    if tiled.has_diagonals:
        size, firsts = taps, [output * taps for output in chunk.outputs]
    else:
        before = band.first_weight + chunk.first_input * taps
        size, each = len(chunk.inputs) * taps, len(band.inputs) * taps
        firsts = [before + (out - band.outputs.start) * each for out in chunk.outputs]
    limits = limits_of(tiled.machine, "load")
    if chunk.is_whole and len(firsts) * size <= limits["x_size"]:
        firsts, size = firsts[:1], len(firsts) * size
    block = Block(rows=1, columns=size, stride=0)
    for moved in transfers(firsts, block, limits):
        yield Load(
            memory=tiled.weight_content, scratchpad_address=moved.index * size,
            global_address=firsts[moved.index], y_size=moved.y_size, x_size=moved.x_size,
            x_stride=moved.x_stride,
        )  # fmt: skip


def coded_weights(tiled: TiledLayer, chunks: Iterable[Chunk]) -> CodedWeights | None:
    """None where the machine decodes none, and where blocks would share weights."""
    coding = tiled.coding
    if coding is None:
        return None
    places: dict[Key, tuple[int, int]] = {}
    known: set[tuple[int, int, int]] = set()
    end = 0
    for chunk in chunks:
        name = chunk.band, chunk.outputs.start, chunk.first_input
        if name in known:
            continue
        known.add(name)
        for load in weight_loads(tiled, chunk):
            key = _key(load)
            if key in places:
                continue
            size = coding.block_bytes(_rows(key))
            places[key] = end, size
            end += -(-size // coding.element_bytes) if size else load.y_size * load.x_size
    if end > tiled.weight_elements:
        return None
    return CodedWeights(places=places, elements=end, coding=coding)


def _key(load: Load) -> Key:
    return load.global_address, load.y_size, load.x_size, load.x_stride


def _rows(key: Key) -> Rows:
    first, count, size, stride = key
    return [(first + row * stride, first + row * stride + size) for row in range(count)]
