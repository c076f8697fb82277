"""Layers of the vector engine as instructions.

    compute  load what the tile reads of each operand, as wide as sums; compute with it
    store    the tile's results

Results are double-buffered: a tile's last vector instruction gives a token to store, whose last
store gives one back when the buffer is free. Operands are loaded by the queue that reads them, for
accumulators are loaded by no other, and wait for nothing.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np

from explorer.npu.layers.accesses import Access
from explorer.npu.layers.tensors import Tensor, blocks, packed
from explorer.npu.program.addresses import Addresses, place
from explorer.npu.program.stream import Stream
from explorer.npu.program.transfers import Block
from explorer.npu.tiling.vector import (
    TiledVectors,
    VectorTile,
    factor_elements,
    has_table,
    micro_depth,
    table_address,
)
from explorer.targets.npu.instructions import (
    Instruction,
    Load,
    Loop,
    MicroOperation,
    Store,
)


class VectorWriter(Stream):
    """Instructions while they are written; what is computed is up to the kind of layer."""

    def __init__(self, tiled: TiledVectors, addresses: Addresses) -> None:
        self.tiled, self.layer = tiled, tiled.layer
        layer, machine = tiled.layer, tiled.machine
        sizes: dict[str, tuple[str, int]] = {}
        each = machine.by_content["accumulators"].global_bytes
        for access in layer.accesses:
            if access.constant is not None:
                channels, height, width = access.tensor.shape
                elements = blocks(channels, machine.columns) * height * width
                sizes[access.tensor.name] = ("accumulators", elements * each)
        if layer.factors:
            elements = factor_elements(layer, machine)
            sizes["factors"] = ("accumulators", elements * each)
        if has_table(layer, machine):
            sizes["table"] = ("tables", machine.by_content["tables"].global_bytes)
        places = place(layer.name, machine, (*layer.inputs, layer.output), sizes, addresses)
        super().__init__(machine, places, micro_depth(layer, machine))

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return (*self.layer.inputs, self.layer.output)

    @property
    def factors(self) -> tuple[tuple[int, ...], ...]:
        """Multipliers and shifts as the machine takes them, perhaps with biases."""
        return self.layer.factors

    def constants(self) -> dict[str, np.ndarray]:
        """Constant operands, factors and the table."""
        machine, found = self.machine, {}
        for access in self.layer.accesses:
            if access.constant is not None:
                channels = access.tensor.shape[0]
                room = blocks(channels, machine.columns) * machine.columns - channels
                padded = np.pad(access.constant, ((0, room), (0, 0), (0, 0)))
                split = padded.reshape(-1, machine.columns, *access.tensor.shape[1:])
                numbers = np.moveaxis(split, 1, -1)
                found[access.tensor.name] = packed(numbers, machine.accumulator_bits)
        if self.layer.factors:
            numbers = np.array(self.factors).reshape(-1, 1)
            wide = np.broadcast_to(numbers, (len(numbers), machine.columns))
            lists = [np.pad(one, (0, -len(one) % machine.columns)) for one in self.layer.lists]
            together = np.concatenate([wide.reshape(-1), *lists])
            found["factors"] = packed(together, machine.accumulator_bits)
        if has_table(self.layer, machine):
            assert self.layer.table is not None
            found["table"] = self._table(self.layer.table)
        return found

    def _table(self, table: np.ndarray) -> np.ndarray:
        """Bytes; its middle entry is that of 0."""
        vector = self.machine.vector
        assert vector is not None and vector.table_entries is not None
        entries = np.zeros(vector.table_entries, np.int64)
        first = (len(entries) - len(table)) // 2
        entries[first : first + len(table)] = table
        return packed(entries, self.machine.table_bits)

    def write(self) -> None:
        """All instructions but the last."""
        self._load_constants()
        tiles = list(self.tiled.tiles())
        buffers, last = self.tiled.buffers, len(tiles) - 1
        for tile in tiles:
            operands = range(len(self.layer.accesses))
            loads: list[Instruction] = [load for i in operands for load in self._loads(tile, i)]
            computed, waits = list(self.compute(tile)), tile.number >= buffers
            if self.layer.is_in_place:  # the first load writes where results were stored from
                loads, computed = [], [*loads, *computed]
            self.emit(tile.number, loads)
            self.emit(tile.number, computed, after=(waits, True))
            gives = tile.number + buffers <= last or tile.number == last
            self.emit(tile.number, list(self._stores(tile)), before=(True, gives))

    @abstractmethod
    def compute(self, tile: VectorTile) -> Iterator[Instruction]:
        """What makes results of operands."""

    def _load_constants(self) -> None:
        if has_table(self.layer, self.machine):
            table = Load(memory="tables", scratchpad_address=table_address(self.machine),
                         global_address=self.address("table", "tables"), x_size=1)  # fmt: skip
            self.emit(-1, [table])
        if self.layer.factors:
            load = Load(
                memory="accumulators", scratchpad_address=self.tiled.factors_at,
                global_address=self.address("factors", "accumulators"),
                x_size=factor_elements(self.layer, self.machine),
            )  # fmt: skip
            self.emit(-1, [load])

    # ------------------------------------------------------------------------------ transfers

    def inside(self, tile: VectorTile, access: Access) -> tuple[list[range], list[tuple[int, int]]]:
        """Rows and columns of an operand that a tile reads, and how many lie in its padding."""
        found, room = [], []
        for axis, outputs in enumerate((tile.rows, tile.columns)):
            read = access.read(outputs, axis)
            begin, limit = max(read.start, 0), min(read.stop, access.tensor.shape[1 + axis])
            found.append(range(begin, limit))
            room.append((begin - read.start, read.stop - limit))
        if (
            not self.machine.instruction_set.pads_with_values
        ):  # with 0 only, which windows do not see
            room = [(0, 0), (0, 0)]
        return found, room

    def extent(self, tile: VectorTile, access: Access) -> tuple[int, int]:
        """Rows and columns of it that lie in the scratchpad."""
        found, room = self.inside(tile, access)
        tall, wide = (len(one) + sum(pads) for one, pads in zip(found, room, strict=True))
        return tall, wide

    def _loads(self, tile: VectorTile, operand: int) -> Iterator[Load]:
        """One per block of channels, with the padding that the tile touches; one for several
        where they are as far apart."""
        access = self.layer.accesses[operand]
        (rows, columns), room = self.inside(tile, access)
        tall, wide = self.extent(tile, access)
        tensor, start = access.tensor, self.tiled.start_of(tile, operand)
        fields: dict[str, int] = {}
        if any(map(any, room)):
            (above, below), (left, right) = room
            fields = {"y_pad_before": above, "y_pad_after": below, "x_pad_before": left,
                       "x_pad_after": right, "pad_value": access.pad_value}  # fmt: skip
        height, width = tensor.shape[1:]
        if access.constant is None:
            content = "accumulators" if tensor.is_wide else "widened"
            firsts = [
                self.element(tensor, content, block, rows.start, columns.start)
                for block in tile.blocks
            ]
            each = self.elements_per_block(content)
        else:  # constants lie in blocks of the array's columns
            content, each = "accumulators", 1
            place = self.address(tensor.name, content)
            firsts = [
                place + (block * height + rows.start) * width + columns.start
                for block in tile.blocks
            ]
        block = Block(rows=len(rows), columns=len(columns), stride=width * each, step=each)
        if access.constant is None:
            fields |= self.on_chip(tensor)
        yield from self.load_blocks(content, start, firsts, block, fields, tall * wide)

    def _stores(self, tile: VectorTile) -> Iterator[Store]:
        tensor = self.layer.output
        content = "accumulators" if tensor.is_wide else "outputs"
        each = self.elements_per_block(content)
        firsts = [
            self.element(tensor, content, block, tile.rows.start, tile.columns.start)
            for block in tile.blocks
        ]
        block = Block(
            rows=len(tile.rows), columns=len(tile.columns), stride=tensor.shape[2] * each,
            step=each,
        )  # fmt: skip
        yield from self.store_blocks(content, self.tiled.results_of(tile), firsts, block, tensor)

    # ---------------------------------------------------------------------------------- loops

    def results(self, tile: VectorTile) -> tuple[int, int]:
        """Where they begin, and how many accumulators they are."""
        return self.tiled.results_of(tile), len(tile.blocks) * tile.pixels

    def gathered(
        self, tile: VectorTile, operand: int, record: type[Loop],
        taps: list[tuple[int, int]], **fields: Any,
    ) -> list[Instruction]:  # fmt: skip
        """From the windows of an operand to the results: one micro-operation per block and tap.

        `taps`: rows and columns from the beginning of a window.
        """
        access = self.layer.accesses[operand]
        tall, wide = self.extent(tile, access)
        start, results = self.tiled.start_of(tile, operand), self.tiled.results_of(tile)
        micro = [
            MicroOperation(results + block * tile.pixels, start + (block * tall + y) * wide + x)
            for block in range(len(tile.blocks))
            for y, x in taps
        ]
        return self.loop(
            record, micro, outer=len(tile.rows), destination_outer=len(tile.columns),
            source_outer=access.strides[0] * wide, inner=len(tile.columns), destination_inner=1,
            source_inner=access.strides[1], **fields,
        )  # fmt: skip
