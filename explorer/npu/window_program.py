"""Maxima of windows and functions by table as instructions.

    compute  load the tile's inputs, made as wide as sums; reset, add the first element of every
             window, take the maximum with the others; look up
    store    the tile's results

Results are double-buffered: a tile's last vector instruction gives a token to store, whose last
store gives one back when the buffer is free. Inputs are loaded by the queue that reads them, for
accumulators are loaded by no other, and wait for nothing.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from explorer.errors import InputError
from explorer.npu import layouts
from explorer.npu.layer import LayerError
from explorer.npu.micro import MicroProgram
from explorer.npu.program import Placed, queue_problem
from explorer.npu.stream import Stream
from explorer.npu.windows import (
    RESULTS,
    TiledWindows,
    WindowLayer,
    WindowTile,
    check_windows,
    micro_depth,
    table_address,
    tile_windows,
)
from explorer.targets.npu.encoding import encode_micro
from explorer.targets.npu.instructions import (
    Finish,
    Instruction,
    Load,
    MicroOperation,
    Multiply,
    Store,
    Table,
    Vector,
)
from explorer.targets.npu.machine import Machine


@dataclass(frozen=True, kw_only=True)
class WindowProgram:
    """A layer as a program, with the image that it runs on but for its input."""

    layer: WindowLayer
    tiled: TiledWindows
    """Of the layer, or of one whose input is padded."""
    instructions: tuple[Instruction, ...]
    owners: tuple[int, ...]
    """Of every instruction: the number of its tile; -1 of what belongs to none."""
    program: bytes
    image: np.ndarray
    """u8; zeros where input and output lie."""
    places: dict[str, Placed]
    """input, output, table (where there is one) and micro_operations."""

    def image_with(self, x: np.ndarray) -> np.ndarray:
        """Global memory with an input of [channels, height, width]."""
        layer = self.layer
        if x.shape != layer.input_shape:
            raise InputError(f"{layer.name} takes {layer.input_shape}, not {x.shape}")
        x = layer.padded(x) if self.tiled.layer.pads != layer.pads else x
        machine = self.tiled.machine
        image = self.image.copy()
        place = self.places["input"]
        data = layouts.in_columns(x, machine)
        image[place.offset_bytes : place.offset_bytes + place.size_bytes] = data
        return image

    def output_of(self, image: bytes | np.ndarray) -> np.ndarray:
        """The output, i64 of [channels, height, width], out of global memory behind the run."""
        place = self.places["output"]
        data = np.frombuffer(image, np.uint8) if isinstance(image, bytes) else image
        mine = data[place.offset_bytes : place.offset_bytes + place.size_bytes]
        return layouts.out_of_columns(mine, self.layer.output_shape, self.tiled.machine)


def compile_windows(
    layer: WindowLayer,
    machine: Machine,
    *,
    buffers: int = RESULTS,
    base_bytes: int = 0,
    sizes: tuple[int, int, int] | None = None,
) -> WindowProgram:
    """The layer in the largest tiles that fit, or in those of `sizes` (see `tile_windows`).

    `base_bytes`: where in global memory its tensors begin. Raises `LayerError`, naming what the
    machine lacks.
    """
    problem = queue_problem(machine) or check_windows(layer, machine)
    if problem:
        raise LayerError(f"{layer.name} cannot be computed by {machine.name}: {problem}")
    inner = layer
    if machine.set != "full" and any(layer.pads):  # its loads pad with 0 only
        above, left, below, right = layer.pads
        channels, height, width = layer.input_shape
        padded = (channels, height + above + below, width + left + right)
        inner = dataclasses.replace(layer, input_shape=padded, pads=(0, 0, 0, 0))
    writer = _Writer(tile_windows(inner, machine, buffers, sizes), base_bytes)
    writer.write()
    return writer.finished(layer)


class _Writer(Stream):
    def __init__(self, tiled: TiledWindows, base_bytes: int) -> None:
        self.tiled, self.layer = tiled, tiled.layer
        machine = tiled.machine
        self.table = _table(tiled.layer, machine)
        self.places = _places(tiled, self.table.size, base_bytes)
        self.micro_bytes = machine.by_content["micro_operations"].global_bytes
        first = self.places["micro_operations"].offset_bytes // self.micro_bytes
        super().__init__(machine, MicroProgram(micro_depth(tiled.layer, machine), first))

    def address(self, name: str) -> int:
        place = self.places[name]
        return place.offset_bytes // self.machine.by_content[place.content].global_bytes

    def write(self) -> None:
        """All instructions but the last."""
        if self.table.size:
            table = Load(
                memory="tables", scratchpad_address=table_address(self.machine),
                global_address=self.address("table"), x_size=1,
            )  # fmt: skip
            self.emit(-1, [table])
        tiles = list(self.tiled.tiles())
        buffers, last = self.tiled.buffers, len(tiles) - 1
        for tile in tiles:
            self.emit(tile.number, self._loads(tile))
            waits = tile.number >= buffers
            self.emit(tile.number, self._compute(tile), after=(waits, True))
            gives = tile.number + buffers <= last or tile.number == last
            self.emit(tile.number, self._stores(tile), before=(True, gives))

    def _loads(self, tile: WindowTile) -> list[Instruction]:
        """One per block of channels, with the padding that the tile touches."""
        layer = self.layer
        starts, sizes, pads = [], [], []
        for axis, outputs in enumerate((tile.rows, tile.columns)):
            first = outputs.start * layer.strides[axis] - layer.pads[axis]
            end = first + self.tiled.window(axis, len(outputs))
            begin, limit = max(first, 0), min(end, layer.input_shape[1 + axis])
            starts.append(begin)
            sizes.append(limit - begin)
            pads.append((begin - first, end - limit))
        _, height, width = layer.input_shape
        is_padded = any(map(any, pads))
        room = (sizes[0] + sum(pads[0])) * (sizes[1] + sum(pads[1]))
        return [
            Load(
                memory="widened",
                scratchpad_address=index * room,
                global_address=self.address("input")
                + (block * height + starts[0]) * width
                + starts[1],
                y_size=sizes[0],
                x_size=sizes[1],
                x_stride=width,
                y_pad_before=pads[0][0],
                y_pad_after=pads[0][1],
                x_pad_before=pads[1][0],
                x_pad_after=pads[1][1],
                pad_value=layer.lowest if is_padded else 0,
            )
            for index, block in enumerate(tile.blocks)
        ]

    def _compute(self, tile: WindowTile) -> list[Instruction]:
        layer, results = self.layer, self.tiled.results_of(tile)
        pixels = len(tile.rows) * len(tile.columns)
        if layer.kernel == (1, 1) and layer.table is not None:
            return self._over(
                tile, Table, self._micro(tile, [(0, 0)]), table=table_address(self.machine)
            )
        reset = [MicroOperation(destination=results)]
        found = self.loop(
            Multiply, reset, reset=True, outer=len(tile.blocks), destination_outer=pixels,
            inner=pixels, destination_inner=1, batch=1,
        )  # fmt: skip
        taps = [(ky, kx) for ky in range(layer.kernel[0]) for kx in range(layer.kernel[1])]
        found += self._over(tile, Vector, self._micro(tile, taps[:1]), operation="add")
        if taps[1:]:
            found += self._over(tile, Vector, self._micro(tile, taps[1:]), operation="maximum")
        if layer.table is not None:
            found += self.loop(
                Table, [MicroOperation(results, results)], outer=len(tile.blocks),
                destination_outer=pixels, source_outer=pixels, inner=pixels, destination_inner=1,
                source_inner=1, table=table_address(self.machine),
            )  # fmt: skip
        return found

    def _micro(self, tile: WindowTile, taps: list[tuple[int, int]]) -> list[MicroOperation]:
        """One per block and element of the window."""
        tall = self.tiled.window(0, len(tile.rows))
        wide = self.tiled.window(1, len(tile.columns))
        results, pixels = self.tiled.results_of(tile), len(tile.rows) * len(tile.columns)
        (dy, dx) = self.layer.dilations
        return [
            MicroOperation(results + block * pixels, (block * tall + ky * dy) * wide + kx * dx)
            for block in range(len(tile.blocks))
            for ky, kx in taps
        ]

    def _over(
        self, tile: WindowTile, record: type[Vector | Table], micro: list[MicroOperation],
        **fields: object,
    ) -> list[Instruction]:  # fmt: skip
        """Over the positions of a tile: from its inputs to its results."""
        wide = self.tiled.window(1, len(tile.columns))
        stride_y, stride_x = self.layer.strides
        return self.loop(
            record, micro, **fields, outer=len(tile.rows), destination_outer=len(tile.columns),
            source_outer=stride_y * wide, inner=len(tile.columns), destination_inner=1,
            source_inner=stride_x,
        )  # fmt: skip

    def _stores(self, tile: WindowTile) -> list[Instruction]:
        _, height, width = self.layer.output_shape
        pixels = len(tile.rows) * len(tile.columns)
        return [
            Store(
                memory="outputs",
                scratchpad_address=self.tiled.results_of(tile) + index * pixels,
                global_address=self.address("output")
                + (block * height + tile.rows.start) * width
                + tile.columns.start,
                y_size=len(tile.rows),
                x_size=len(tile.columns),
                x_stride=width,
            )
            for index, block in enumerate(tile.blocks)
        ]

    def finished(self, layer: WindowLayer) -> WindowProgram:
        """The program, for the layer as it was given."""
        self.emit(-1, [Finish(pop_after=True)])
        program = self.encoded(layer.name)
        micro = np.frombuffer(encode_micro(self.micro.operations, self.machine), np.uint8)
        place = dataclasses.replace(self.places["micro_operations"], size_bytes=micro.size)
        places = {**self.places, "micro_operations": place}
        image = np.zeros(place.offset_bytes + place.size_bytes, np.uint8)
        image[place.offset_bytes :] = micro
        if self.table.size:
            start = places["table"].offset_bytes
            image[start : start + self.table.size] = self.table
        return WindowProgram(
            layer=layer, tiled=self.tiled, instructions=tuple(self.instructions),
            owners=tuple(self.owners), program=program, image=image, places=places,
        )  # fmt: skip


def _table(layer: WindowLayer, machine: Machine) -> np.ndarray:
    """Bytes of the table, its middle entry that of 0; none where the layer has none."""
    if layer.table is None:
        return np.zeros(0, np.uint8)
    assert machine.vector is not None and machine.vector.table_entries is not None
    entries = np.zeros(machine.vector.table_entries, np.int64)
    first = len(entries) // 2 + layer.lowest
    entries[first : first + len(layer.table)] = layer.table
    return layouts.packed(entries, machine.table_bits)


def _places(tiled: TiledWindows, table_bytes: int, base_bytes: int) -> dict[str, Placed]:
    """Input and output in the first memory; table and micro-operations in the last."""
    layer, machine = tiled.layer, tiled.machine
    each = machine.by_content["widened"].global_bytes
    sizes = {
        name: ("widened" if name == "input" else "outputs", each * _elements(shape, machine))
        for name, shape in (("input", layer.input_shape), ("output", layer.output_shape))
    }
    if table_bytes:
        sizes["table"] = ("tables", table_bytes)
    sizes["micro_operations"] = ("micro_operations", 0)
    places: dict[str, Placed] = {}
    end = base_bytes
    first = machine.regions[0]
    for name, (content, size) in sizes.items():
        if name not in ("input", "output"):
            end = max(end, machine.regions[-1].start_bytes)
        width = machine.by_content[content].global_bytes
        start = layouts.blocks(end, width) * width
        places[name] = Placed(content=content, offset_bytes=start, size_bytes=size)
        end = start + size
        if name == "output" and first.size_bytes is not None and end > first.size_bytes:
            raise LayerError(
                f"{layer.name} does not fit {machine.name}: input and output take {end} "
                f"bytes of {first.name}, which has {first.size_bytes}"
            )
    return places


def _elements(shape: tuple[int, int, int], machine: Machine) -> int:
    return layouts.blocks(shape[0], machine.columns) * shape[1] * shape[2]
