"""How a layer is cut into tiles, of which two of every buffer fit into the scratchpads, or one.

A tile is some blocks of output channels on a rectangle of the output; its sums are made in chunks,
each of some blocks of input channels of a band (`bands.py`). Sizes need not divide anything: the
last tile of an axis is smaller. Of the sizes that fit, those that move the fewest bytes are taken,
and of these the ones with the fewest chunks.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from explorer.npu.layers.borders import borders
from explorer.npu.layers.layer import Convolution, RoomError
from explorer.npu.layers.stated_requantization import is_stated
from explorer.npu.layers.tensors import blocks, channels_per_block
from explorer.npu.tiling.bands import Band, bands, most_inputs, ranges
from explorer.npu.tiling.layouts import Repeated, repeated
from explorer.npu.tiling.scratchpads import (
    Buffer,
    Region,
    Regions,
    bytes_taken,
    could_fit,
    place_buffers,
)
from explorer.targets.npu.formats import Field, formats_of
from explorer.targets.npu.machine import Machine

BUFFERS = 2


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """One step of a tile: what is loaded, multiplied, and where it lies."""

    band: int
    outputs: range
    """Blocks of output channels."""
    inputs: tuple[int, ...]
    """Blocks of input channels."""
    is_whole: bool
    """Whether these are all inputs of the band."""
    first_input: int
    """How many of the band's come before."""
    rows: range
    """Of the output."""
    columns: range
    buffer: int
    """Of inputs and weights."""
    tile: int
    is_first: bool
    """Of its tile: sums begin at 0."""
    is_last: bool


@dataclass(frozen=True, kw_only=True)
class TiledLayer:
    """A convolution with the sizes of its tiles and the places of its buffers."""

    layer: Convolution
    machine: Machine
    rows: int
    """Of an output tile; the last one may have fewer."""
    columns: int
    outputs: int
    """Blocks of output channels in a tile."""
    inputs: int
    """Blocks of input channels in a chunk."""
    buffers: int
    regions: Regions
    """Of activations, weights, sums and constants; of the first three one for each buffer."""
    bands: tuple[Band, ...]
    """Of the layer, whatever the sizes."""
    repeated: Repeated | None = None
    """Weights that are loaded once for all tiles."""

    @property
    def weight_elements(self) -> int:
        """In global memory."""
        if self.repeated is not None:
            return len(self.repeated.elements)
        taps = self.layer.kernel[0] * self.layer.kernel[1]
        return sum(len(band.outputs) * len(band.inputs) for band in self.bands) * taps

    def weights_at(self, chunk: Chunk, output: int, index: int, tap: int) -> int:
        """Where a weight lies in its scratchpad; numbers count in the chunk."""
        taps = self.layer.kernel[0] * self.layer.kernel[1]
        if self.repeated is None:
            start = self.region("weights", chunk.buffer).address
            return start + (output * len(chunk.inputs) + index) * taps + tap
        band = self.bands[chunk.band]
        before = (chunk.outputs.start - band.outputs.start + output) * len(band.inputs)
        number = band.first_weight + (before + chunk.first_input + index) * taps + tap
        return self.region("weights").address + int(self.repeated.index[number])

    def region(self, name: str, buffer: int = 0) -> Region:
        return dict(self.regions)[name][buffer]

    def sums_of(self, chunk: Chunk) -> int:
        """Where the sums of the chunk's tile begin."""
        return self.region("sums", chunk.tile % self.buffers).address

    @property
    def tile_count(self) -> int:
        _, height, width = self.layer.output_shape
        return (
            sum(blocks(len(band.outputs), self.outputs) for band in self.bands)
            * blocks(height, self.rows)
            * blocks(width, self.columns)
        )

    def chunks(self) -> Iterator[Chunk]:
        """All steps, in the order in which they run."""
        number = 0
        _, height, width = self.layer.output_shape
        tiles = (
            (index, outputs, rows, columns)
            for index, band in enumerate(self.bands)
            for outputs in ranges(band.outputs, self.outputs)
            for rows in ranges(range(height), self.rows)
            for columns in ranges(range(width), self.columns)
        )
        for tile, (index, outputs, rows, columns) in enumerate(tiles):
            inputs = self.bands[index].inputs
            for first in range(0, len(inputs), self.inputs):
                yield Chunk(
                    band=index, outputs=outputs, inputs=inputs[first : first + self.inputs],
                    is_whole=len(inputs) <= self.inputs, first_input=first, rows=rows,
                    columns=columns, buffer=number % self.buffers, tile=tile, is_first=first == 0,
                    is_last=first + self.inputs >= len(inputs),
                )  # fmt: skip
                number += 1


def window(layer: Convolution, axis: int, outputs: int) -> int:
    """Inputs that so many outputs in a row read."""
    reach = (layer.kernel[axis] - 1) * layer.dilations[axis] + 1
    return (outputs - 1) * layer.strides[axis] + reach


def input_pieces(
    layer: Convolution, chunk: Chunk, most_rows: int
) -> tuple[int, int, list[tuple[int, dict[str, int]]]]:
    """The loads of one block of a chunk's inputs, with the padding that the tile touches.

    Row and column of the input where they begin; of each its offset in the scratchpad and its
    sizes. `most_rows`: see `most_padding`.
    """
    _, height, width = layer.input_shape
    tall, wide = (window(layer, 0, len(chunk.rows)), window(layer, 1, len(chunk.columns)))
    top = chunk.rows.start * layer.strides[0] - layer.pads[0]
    left = chunk.columns.start * layer.strides[1] - layer.pads[1]
    y, x = max(top, 0), max(left, 0)
    y_size, x_size = min(top + tall, height) - y, min(left + wide, width) - x
    if y_size <= 0 or x_size <= 0:  # nothing but padding, as many rows at once as one load has
        return (
            0,
            0,
            [
                (
                    row * wide,
                    {"y_pad_before": min(most_rows, tall - row), "y_size": 0, "x_size": wide},
                )
                for row in range(0, tall, most_rows)
            ],
        )
    fields = {
        "y_pad_before": y - top, "y_size": y_size, "y_pad_after": tall - (y - top) - y_size,
        "x_pad_before": x - left, "x_size": x_size, "x_pad_after": wide - (x - left) - x_size,
    }  # fmt: skip
    return y, x, [(0, fields)]


def constants_per_block(layer: Convolution, machine: Machine) -> int:
    """Elements per block of output channels: biases, then multipliers and shifts, then what sums
    are multiplied by and what is added before.

    VTA has shifts, and where factors are stated multipliers, half steps and two bounds behind them.
    """
    factors = 2 if layer.is_scaled else 0
    if factors and not machine.instruction_set.requantizes:
        is_multiplied = layer.rescaling is not None and is_stated(layer.rescaling.how)
        factors = 5 if is_multiplied else 1
    return borders(layer, machine).count + factors + (0 if layer.moved is None else 2)


def tile_convolution(
    layer: Convolution,
    machine: Machine,
    buffers: int = BUFFERS,
    sizes: Sequence[int] | None = None,
) -> TiledLayer:
    """The layer in the largest tiles that fit, or in those of `sizes`.

    `sizes`: rows, columns, blocks of outputs, blocks of inputs. Raises `RoomError` with the
    shortfall.
    """
    smallest = None
    limits = {(one.kind, f.name): f for one in formats_of(machine).kinds for f in one.fields}
    of_layer, of_weights = bands(layer, machine), repeated(layer, machine)
    candidates = _candidates(layer, machine, most_inputs(of_layer)) if sizes is None else [sizes]
    possible: list[tuple[tuple[int, int], tuple[int, ...], TiledLayer]] = []
    for rows, columns, outputs, inputs in candidates:
        tiled = TiledLayer(
            layer=layer, machine=machine, rows=rows, columns=columns, outputs=outputs,
            inputs=inputs, buffers=buffers, regions=(), bands=of_layer, repeated=of_weights,
        )  # fmt: skip
        problem = _refusal(tiled, limits)
        if problem or not could_fit(_buffers(tiled), machine):
            smallest = tiled, problem
        else:
            negative = (-rows, -columns, -outputs, -inputs)
            possible.append((_moved(tiled), negative, tiled))
    for _, _, tiled in sorted(possible, key=lambda entry: entry[:2]):
        regions = place_buffers(_buffers(tiled), machine)
        if regions is not None:
            return replace(tiled, regions=regions)
        smallest = smallest or (tiled, "")
    assert smallest is not None
    reason = smallest[1] or _shortfall(smallest[0])
    raise RoomError(f"{layer.name} does not fit {machine.name}: {reason}")


def _candidates(
    layer: Convolution, machine: Machine, most: tuple[int, int]
) -> Iterator[tuple[int, int, int, int]]:
    """Sizes by halves, the largest first; the last one is one of everything."""
    _, height, width = layer.output_shape
    columns = halves(width)
    if machine.rows_per_element == 1 and machine.batch > 1:
        # Whole groups of the positions that the array takes at once.
        columns = sorted({min(width, blocks(c, machine.batch) * machine.batch) for c in columns}
                         | {1}, reverse=True)  # fmt: skip
    yield from itertools.product(halves(height), columns, halves(most[0]), halves(most[1]))


def halves(count: int) -> list[int]:
    """The number, its half rounded up, and so on down to 1."""
    found = [count]
    while found[-1] > 1:
        found.append(blocks(found[-1], 2))
    return found


def _buffers(tiled: TiledLayer) -> list[Buffer]:
    """Two of everything but what is loaded once: constants, and weights that are repeated."""
    layer, machine = tiled.layer, tiled.machine
    taps = layer.kernel[0] * layer.kernel[1]
    pixels = window(layer, 0, tiled.rows) * window(layer, 1, tiled.columns)
    sums = tiled.outputs * tiled.rows * tiled.columns * layer.output.digits(machine)
    weights = ("weights", "weights", tiled.outputs * tiled.inputs * taps, 0)
    wanted = [
        (name, content, elements, 2 * index + group)
        for name, content, elements, group in (
            ("activations", "activations", tiled.inputs * pixels, 0),
            *([] if tiled.repeated is not None else [weights]),
            ("sums", "accumulators", sums, 1),
        )
        for index in range(tiled.buffers)
    ]
    constants = tiled.outputs * constants_per_block(layer, machine)
    wanted.append(("constants", "accumulators", constants, 1))
    if tiled.repeated is not None:
        wanted.append(("weights", "weights", tiled.weight_elements, 1))
    return [
        Buffer(name=name, content=content, elements=elements, group=group)
        for name, content, elements, group in wanted
    ]


def _shortfall(tiled: TiledLayer) -> str:
    """Of the smallest tile: which scratchpad is too small by how much."""
    machine = tiled.machine
    times = f", {tiled.buffers} times," if tiled.buffers > 1 else ""
    totals = bytes_taken(_buffers(tiled), machine)
    for total, memory in zip(totals, machine.scratchpads, strict=True):
        if total > (memory.size_bytes or 0):
            return (
                f"its smallest tile{times} takes {total} bytes of {memory.name}, "
                f"which has {memory.size_bytes}"
            )
    return "its buffers do not lie side by side in the scratchpads"


def _refusal(tiled: TiledLayer, limits: Mapping[tuple[str, str], Field]) -> str:
    """Which field of an instruction is too narrow for the sizes; empty where none is."""
    layer, machine = tiled.layer, tiled.machine
    rows, columns, outputs, inputs = tiled.rows, tiled.columns, tiled.outputs, tiled.inputs
    taps = layer.kernel[0] * layer.kernel[1]
    micro = outputs * inputs * taps
    if micro > machine.depth("micro_operations"):
        return (
            f"a chunk takes {micro} micro-operations, and there is room for "
            f"{machine.depth('micro_operations')}"
        )
    _, height, width = layer.input_shape
    for kind, name, value in (
        ("multiply", "outer", rows),
        ("multiply", "inner", columns),
        ("vector", "inner", rows * columns),
        ("vector", "outer", outputs),
        ("multiply", "source_outer", layer.strides[0] * window(layer, 1, columns)),
        ("load", "x_stride", width * (channels_per_block(machine) // machine.rows) * (height > 1)),
        ("load", "y_size", min(height, window(layer, 0, rows))),
        ("load", "x_size", min(width, window(layer, 1, columns))),
        ("load", "x_size", tiled.weight_elements if tiled.repeated else outputs * inputs * taps),
        ("store", "x_stride", _store_stride(layer, machine) * (rows > 1)),
        *(("load", "y_pad_before", pad) for pad in layer.pads),
    ):
        field = limits.get((kind, name))
        if field is not None and value > field.most:
            return f"{name} of a {kind} is {value}, expected at most {field.most}"
    return ""


def _moved(tiled: TiledLayer) -> tuple[int, int]:
    """Bytes that loads bring in, and how many chunks there are; padding counts as loaded."""
    layer, machine = tiled.layer, tiled.machine
    _, height, width = layer.output_shape
    taps = layer.kernel[0] * layer.kernel[1]
    pixels = sum(window(layer, 0, len(r)) for r in ranges(range(height), tiled.rows))
    pixels *= sum(window(layer, 1, len(r)) for r in ranges(range(width), tiled.columns))
    over_pixels = blocks(height, tiled.rows) * blocks(width, tiled.columns)
    element = {name: space.global_bytes for name, space in machine.by_content.items()}
    moved = chunks = 0
    for band in tiled.bands:
        outs, ins = len(band.outputs), len(band.inputs)
        over_outputs = blocks(outs, tiled.outputs)
        moved += pixels * ins * over_outputs * element["activations"]
        if tiled.repeated is None:
            moved += outs * ins * taps * over_pixels * element["weights"]
        chunks += over_outputs * over_pixels * blocks(ins, tiled.inputs)
    return moved, chunks


def _store_stride(layer: Convolution, machine: Machine) -> int:
    """Elements between two rows of outputs."""
    steps = (1, 1) if layer.placement is None else layer.placement.steps
    return steps[0] * layer.output.shape[2] * (channels_per_block(machine) // machine.columns)
