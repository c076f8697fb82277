"""Rows over channels as instructions.

    results    the input; add minus what is taken off before; one step for each position's
               row, in its place

Of a tile all blocks of channels lie one behind the other: those of a position are as far apart as
the tile has positions.
"""

from __future__ import annotations

from collections.abc import Iterator

from explorer.npu.layers.rows import RowLayer
from explorer.npu.program.addresses import Addresses
from explorer.npu.program.vector import VectorWriter
from explorer.npu.tiling.vector import TiledVectors, VectorTile
from explorer.targets.npu.instructions import Instruction, MicroOperation


class RowWriter(VectorWriter):
    """Instructions while they are written."""

    def __init__(self, tiled: TiledVectors, rows: RowLayer, addresses: Addresses) -> None:
        super().__init__(tiled, addresses)
        self.rows = rows

    def compute(self, tile: VectorTile) -> Iterator[Instruction]:
        """Numbers as wide as sums, then what their rows become."""
        layer, (results, size) = self.rows, self.results(tile)
        if layer.subtracted:
            yield from self.immediate(results, size, "add", -layer.subtracted)
        count = len(tile.blocks)
        apart = {"step": tile.pixels} if count > 1 else {}  # of one element it means nothing
        yield from self.loop(
            layer.record, [MicroOperation(results, self.tiled.factors_at)], inner=tile.pixels,
            destination_inner=1, count=count, **apart,
            valid=layer.input_shape[0] - (count - 1) * self.machine.columns,
            offset=layer.zero_point, low=layer.low, high=layer.high, **layer.fields,
        )  # fmt: skip
