"""Maxima of windows and functions by table as instructions.

The first elements of all windows are added to zeros, `maximum` takes the others, `table` looks up.
Where loads cannot pad with the lowest number (VTA), zeros become that, and each element of the
windows is taken where it lies inside. Where there are no tables, the first line of a function is
made of what was added to zeros, each other one beside it, and added.
"""

from __future__ import annotations

from collections.abc import Iterator

from explorer.npu.layers.windows import WindowLayer
from explorer.npu.program.addresses import Addresses
from explorer.npu.program.vector import VectorWriter
from explorer.npu.tiling.vector import TiledVectors, VectorTile, has_table, table_address
from explorer.targets.npu.instructions import Instruction, MicroOperation, Table, Vector


class WindowWriter(VectorWriter):
    """Instructions while they are written."""

    def __init__(self, tiled: TiledVectors, window: WindowLayer, addresses: Addresses) -> None:
        super().__init__(tiled, addresses)
        self.window = window

    def compute(self, tile: VectorTile) -> Iterator[Instruction]:
        """The maximum of every window, or the entry of every number."""
        layer, (results, size) = self.window, self.results(tile)
        table = {"table": table_address(self.machine)} if has_table(layer, self.machine) else {}
        if table and layer.kernel == (1, 1) and not any(layer.pads):
            yield from self.gathered(tile, 0, Table, [(0, 0)], **table)
            return
        (dy, dx), (kh, kw) = layer.dilations, layer.kernel
        taps = [(ky * dy, kx * dx) for ky in range(kh) for kx in range(kw)]
        yield from self.reset(results, size)
        if any(layer.pads) and not self.machine.instruction_set.pads_with_values:
            yield from self.immediate(results, size, "add", layer.lowest)
            for y, x in taps:
                yield from self._inside(tile, y, x)
        else:
            yield from self.gathered(tile, 0, Vector, taps[:1], operation="add")
            if taps[1:]:
                yield from self.gathered(tile, 0, Vector, taps[1:], operation="maximum")
        if table:
            yield from self.flat(Table, results, size, results, **table)
            return
        for index, line in enumerate(layer.lines(self.machine)):
            at = self.tiled.spare_at if index else results
            if index:
                yield from self.reset(at, size)
                yield from self.flat(
                    Vector, at, size, self.tiled.start_of(tile, 0), operation="add"
                )
            for operation, value in line.steps:
                yield from self.immediate(at, size, operation, value)
            if index:
                yield from self.flat(Vector, results, size, at, operation="add")

    def _inside(self, tile: VectorTile, y: int, x: int) -> list[Instruction]:
        """One element of the windows, where it does not lie in the padding."""
        (access,) = self.layer.accesses
        (rows, columns), _ = self.inside(tile, access)
        wide = len(columns)
        kept, firsts = [], []
        for axis, (outputs, there, tap) in enumerate(
            ((tile.rows, rows, y), (tile.columns, columns, x))
        ):
            reads = [o * access.strides[axis] - access.pads[axis] + tap for o in outputs]
            mine = [index for index, read in enumerate(reads) if read in there]
            if not mine:
                return []
            kept.append(mine)
            firsts.append(reads[mine[0]] - there.start)
        start, results = self.tiled.start_of(tile, 0), self.tiled.results_of(tile)
        to = kept[0][0] * len(tile.columns) + kept[1][0]
        micro = [
            MicroOperation(
                results + block * tile.pixels + to,
                start + (block * len(rows) + firsts[0]) * wide + firsts[1],
            )
            for block in range(len(tile.blocks))
        ]
        return self.loop(
            Vector, micro, operation="maximum", outer=len(kept[0]),
            destination_outer=len(tile.columns), source_outer=access.strides[0] * wide,
            inner=len(kept[1]), destination_inner=1, source_inner=access.strides[1],
        )  # fmt: skip
