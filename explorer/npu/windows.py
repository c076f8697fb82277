"""Maxima of windows and functions by table: layers of the vector engine alone.

    output[c, y, x] = table[max over ky, kx of input[c, y * stride + ky * dilation - pad, ...]]

Padding counts as less than any number. Without a window it is a function of each number, without a
table a maximum. Averages are convolutions (`explorer.npu.layer`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from explorer.npu import layouts
from explorer.npu.layer import LayerError
from explorer.npu.tiles import most_padding
from explorer.targets.npu.formats import formats_of
from explorer.targets.npu.machine import Machine

RESULTS = 2
"""Buffers: one is computed while the other is stored."""


@dataclass(frozen=True, kw_only=True)
class WindowLayer:
    """One layer. Arrays of signed integers, without a batch: [channels, height, width]."""

    name: str
    input_shape: tuple[int, int, int]
    bits: int
    """Of its numbers."""
    kernel: tuple[int, int] = (1, 1)
    strides: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    """Above, left, below, right."""
    table: np.ndarray | None = None
    """i64 of [2^bits]: of the lowest number, of the next one, and so on."""

    @property
    def lowest(self) -> int:
        return -(1 << self.bits - 1)

    @property
    def reach(self) -> tuple[int, int]:
        """Rows and columns from the first to the last element of a window."""
        (kh, kw), (dh, dw) = self.kernel, self.dilations
        return (kh - 1) * dh + 1, (kw - 1) * dw + 1

    @property
    def output_shape(self) -> tuple[int, int, int]:
        sizes = [
            (self.input_shape[1 + axis] + self.pads[axis] + self.pads[2 + axis] - self.reach[axis])
            // self.strides[axis]
            + 1
            for axis in range(2)
        ]
        return self.input_shape[0], sizes[0], sizes[1]

    def padded(self, x: np.ndarray) -> np.ndarray:
        """The input with what its windows see around it."""
        above, left, below, right = self.pads
        return np.pad(x, ((0, 0), (above, below), (left, right)), constant_values=self.lowest)

    def run(self, x: np.ndarray) -> np.ndarray:
        """The outputs, i64, of an input of `input_shape`."""
        padded = self.padded(x.astype(np.int64))
        windows = np.lib.stride_tricks.sliding_window_view(padded, self.reach, axis=(1, 2))
        (sy, sx), (dy, dx) = self.strides, self.dilations
        found = windows[:, ::sy, ::sx, ::dy, ::dx].max(axis=(3, 4))
        return found if self.table is None else self.table[found - self.lowest]


@dataclass(frozen=True, kw_only=True)
class WindowTile:
    """Some blocks of channels on a rectangle of the output, and where their inputs lie."""

    number: int
    blocks: range
    """Of as many channels as the array has columns."""
    rows: range
    columns: range


@dataclass(frozen=True, kw_only=True)
class TiledWindows:
    """A layer with the sizes of its tiles."""

    layer: WindowLayer
    machine: Machine
    rows: int
    """Of an output tile; the last one may have fewer."""
    columns: int
    blocks: int
    buffers: int
    """Of results; inputs have one, for the queue that loads them is the one that reads them."""

    def window(self, axis: int, outputs: int) -> int:
        """Inputs that so many outputs in a row read."""
        return (outputs - 1) * self.layer.strides[axis] + self.layer.reach[axis]

    @property
    def inputs_elements(self) -> int:
        return self.blocks * self.window(0, self.rows) * self.window(1, self.columns)

    def results_of(self, tile: WindowTile) -> int:
        """Where a tile's results begin, in accumulators; inputs begin at 0."""
        size = self.blocks * self.rows * self.columns
        return self.inputs_elements + tile.number % self.buffers * size

    def tiles(self) -> Iterator[WindowTile]:
        """In the order in which they run."""
        channels, height, width = self.layer.output_shape
        ranges = itertools.product(
            _ranges(layouts.blocks(channels, self.machine.columns), self.blocks),
            _ranges(height, self.rows),
            _ranges(width, self.columns),
        )
        for number, (blocks, rows, columns) in enumerate(ranges):
            yield WindowTile(number=number, blocks=blocks, rows=rows, columns=columns)


def _ranges(count: int, size: int) -> list[range]:
    return [range(start, min(start + size, count)) for start in range(0, count, size)]


def table_address(machine: Machine) -> int:
    """The table lies at the end of its scratchpad, which micro-operations may share."""
    return machine.depth("tables") - 1


def micro_depth(layer: WindowLayer, machine: Machine) -> int:
    """How many micro-operations there is room for beside the layer's table."""
    depth = machine.depth("micro_operations")
    if layer.table is None:
        return depth
    micro, tables = machine.by_content["micro_operations"], machine.by_content["tables"]
    if micro.memory != tables.memory:
        return depth
    return min(depth, table_address(machine) * tables.element_bytes // micro.element_bytes)


def check_windows(layer: WindowLayer, machine: Machine) -> str:
    """What the machine lacks for the layer, whatever its tiles; empty where nothing."""
    if layer.bits != machine.input_bits:
        return f"its numbers have {layer.bits} bits, those of the machine {machine.input_bits}"
    if machine.rows_per_element != 1:
        return f"its elements hold a batch of {machine.batch}, and the layer has 1"
    if any(pad >= layer.reach[index % 2] for index, pad in enumerate(layer.pads)):
        return "a window of it lies in the padding altogether"
    missing = ({"add", "maximum"} if layer.kernel != (1, 1) or layer.table is None else set()) | (
        set() if layer.table is None else {"table"}
    )
    if missing := missing - set(machine.operations):
        return f"its vector engine has no {min(missing)}"
    if layer.table is None:
        return ""
    assert machine.vector is not None and machine.vector.table_entries is not None
    if machine.vector.table_entries < len(layer.table) or machine.table_bits < layer.bits:
        return (
            f"its tables have {machine.vector.table_entries} entries of {machine.table_bits} bits, "
            f"and {len(layer.table)} of {layer.bits} are needed"
        )
    return ""


def tile_windows(
    layer: WindowLayer, machine: Machine, buffers: int = RESULTS,
    sizes: tuple[int, int, int] | None = None,
) -> TiledWindows:  # fmt: skip
    """In the tiles that load the fewest bytes, of these in the fewest; or in those of `sizes`.

    `sizes`: rows, columns, blocks of channels. Raises `LayerError` with the shortfall.
    """
    channels, height, width = layer.output_shape
    count = layouts.blocks(channels, machine.columns)
    candidates = itertools.product(_halves(height), _halves(width), _halves(count))
    best: tuple[tuple[int, int], TiledWindows] | None = None
    problem = ""
    for rows, columns, blocks in candidates if sizes is None else [sizes]:
        tiled = TiledWindows(
            layer=layer, machine=machine, rows=rows, columns=columns, blocks=blocks,
            buffers=buffers,
        )  # fmt: skip
        if found := _refusal(tiled):
            problem = found
            continue
        tall = sum(tiled.window(0, len(one)) for one in _ranges(height, rows))
        wide = sum(tiled.window(1, len(one)) for one in _ranges(width, columns))
        number = sum(1 for _ in tiled.tiles())
        if best is None or (tall * wide * count, number) < best[0]:
            best = (tall * wide * count, number), tiled
    if best is None:
        raise LayerError(f"{layer.name} does not fit {machine.name}: its smallest tile: {problem}")
    return best[1]


def _halves(count: int) -> list[int]:
    found = [count]
    while found[-1] > 1:
        found.append(layouts.blocks(found[-1], 2))
    return found


def _refusal(tiled: TiledWindows) -> str:
    """What of a tile is too large for the machine; empty where nothing is."""
    layer, machine = tiled.layer, tiled.machine
    elements = tiled.inputs_elements + tiled.buffers * tiled.blocks * tiled.rows * tiled.columns
    if elements > machine.depth("accumulators"):
        return f"{elements} accumulators, and there are {machine.depth('accumulators')}"
    taps = layer.kernel[0] * layer.kernel[1]
    depth = micro_depth(layer, machine)
    if (micro := tiled.blocks * max(1, taps - 1)) > depth:
        return f"{micro} micro-operations, and there is room for {depth}"
    if max(layer.pads) > most_padding(machine):
        return f"pads of {max(layer.pads)}, expected at most {most_padding(machine)}"
    limits = {(one.kind, f.name): f.most for one in formats_of(machine).kinds for f in one.fields}
    for kind, name, value in (
        ("vector", "outer", tiled.rows),
        ("vector", "inner", tiled.columns),
        ("multiply", "inner", tiled.rows * tiled.columns),
        ("load", "x_stride", layer.input_shape[2]),
        ("load", "x_size", tiled.window(1, tiled.columns)),
        ("load", "y_size", tiled.window(0, tiled.rows)),
    ):
        if value > limits[kind, name]:
            return f"{name} of a {kind} is {value}, expected at most {limits[kind, name]}"
    return ""
