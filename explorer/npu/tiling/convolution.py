"""How a layer is cut into tiles, of which two of every buffer fit into the scratchpads, or one.

A tile is some blocks of output channels on a rectangle of the output; its sums are made in chunks,
each of some blocks of input channels of a band (`bands.py`). Sizes need not divide anything: the
last tile of an axis is smaller. Of the sizes that fit, those that move the fewest bytes are taken,
and of these the ones with the fewest chunks.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from explorer.npu.layers.borders import borders
from explorer.npu.layers.convolution import Convolution
from explorer.npu.layers.layer import RoomError
from explorer.npu.layers.stated_requantization import is_stated
from explorer.npu.layers.tensors import blocks, channels_per_block
from explorer.npu.tiling.bands import (
    Band,
    InputBlock,
    band_of_diagonals,
    bands,
    input_blocks,
    most_inputs,
    ranges,
)
from explorer.npu.tiling.chunks import Chunk, Loops, Order, chunks_of
from explorer.npu.tiling.coded import Coding, coding_of
from explorer.npu.tiling.layouts import Repeated, has_diagonals, repeated, shared_constants
from explorer.npu.tiling.partial_sums import is_total, partial_sums
from explorer.npu.tiling.scratchpads import (
    Buffer,
    Region,
    Regions,
    bytes_taken,
    could_fit,
    place_buffers,
)
from explorer.targets.npu.formats import limits_of, prefetches
from explorer.targets.npu.machine import Machine

BUFFERS = 2
ConstantsOf = Literal["tile", "layer"]
CONSTANTS: tuple[ConstantsOf, ...] = ("tile", "layer")


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
    order: Order = "outputs"
    constants: ConstantsOf = "tile"
    """Whose biases and factors lie in the scratchpad: of the layer, or of the tile's outputs."""
    together: int = 1
    """Blocks of inputs that lie side by side for each position in the scratchpad, as they do in
    global memory: they are loaded at once. 1: each lies by itself."""
    input_buffers: int = BUFFERS
    weight_buffers: int = BUFFERS
    sum_buffers: int = BUFFERS
    regions: Regions = ()
    """Of activations, weights, sums, constants and what outputs are combined with; of all but
    constants one for each buffer."""
    bands: tuple[Band, ...]
    """Of the layer, whatever the sizes."""
    repeated: Repeated | None = None
    """Weights that are loaded once for all tiles."""
    partials: int = 1
    """Sums that are made of each block of outputs, and added up in the end (`partial_sums`)."""
    coding: Coding | None = field(default=None, compare=False, repr=False)
    """What weights take once they are coded; None where they are not."""

    @property
    def buffers(self) -> int:
        """2 where anything is loaded or stored while something else is computed, else 1."""
        weights = 1 if self.repeated is not None else self.weight_buffers
        return min(BUFFERS, max(self.input_buffers, weights, self.sum_buffers))

    @property
    def is_uncoded(self) -> bool:
        """Whether weights lie as they are though the machine decodes some."""
        return self.coding is None and self.machine.decodes_weights

    @property
    def taps(self) -> int:
        return self.layer.kernel[0] * self.layer.kernel[1]

    @property
    def has_own_inputs(self) -> bool:
        """Whether each block of outputs reads inputs of its own."""
        return self.bands[0].own > 0

    @property
    def has_diagonals(self) -> bool:
        """Whether a load makes the zeros of the weights."""
        return self.has_own_inputs and self.repeated is None

    @property
    def products(self) -> int:
        """Micro-operations that multiply a chunk at most."""
        return self.outputs * self.inputs * (self.taps if self.partials == 1 else 1)

    @property
    def weight_content(self) -> str:
        """What weights are loaded as."""
        return "diagonals" if self.has_diagonals else "weights"

    @property
    def weights_in_row(self) -> int:
        """That a row of a load has: those of a block of outputs, or all that are repeated."""
        if self.repeated is not None:
            return self.weight_elements
        return self.taps if self.has_diagonals else self.inputs * self.taps

    @property
    def weight_elements(self) -> int:
        """In global memory, of `weight_content`."""
        if self.repeated is not None:
            return len(self.repeated.elements)
        if self.has_diagonals:
            return sum(len(band.outputs) for band in self.bands) * self.taps
        return sum(len(band.outputs) * len(band.inputs) for band in self.bands) * self.taps

    @cached_property
    def input_blocks(self) -> tuple[InputBlock, ...]:
        return input_blocks(self.layer, self.machine)

    def groups(self, inputs: Sequence[int]) -> tuple[tuple[int, int], ...]:
        """Input and first block of what is loaded for a chunk, in order, `together` blocks
        each."""
        found: dict[tuple[int, int], None] = {}
        for number in inputs:
            one = self.input_blocks[number]
            found[one.part, one.block // self.together * self.together] = None
        return tuple(found)

    def input_places(self, inputs: Sequence[int], pixels: int) -> list[int]:
        """Where each block of a chunk's inputs begins in its buffer, of so many positions."""
        starts = {group: index for index, group in enumerate(self.groups(inputs))}
        found = []
        for number in inputs:
            one = self.input_blocks[number]
            whole, part = divmod(one.block, self.together)
            start = starts[one.part, whole * self.together] * pixels * self.together
            found.append(start + part)
        return found

    def weights_at(self, chunk: Chunk, output: int, index: int, tap: int) -> int:
        """Where a weight lies in its scratchpad; numbers count in the chunk."""
        if self.has_own_inputs and self.repeated is not None:
            number = (chunk.outputs.start * self.bands[chunk.band].own + index) * self.taps + tap
            return self.region("weights").address + int(self.repeated.index[number])
        if self.has_diagonals:
            own = self.bands[chunk.band].own
            start = self.region("weights", chunk.weight_buffer).address + output * self.taps + tap
            return start * own + index - output * own
        if self.repeated is None:
            start = self.region("weights", chunk.weight_buffer).address
            return start + (output * len(chunk.inputs) + index) * self.taps + tap
        band = self.bands[chunk.band]
        before = (chunk.outputs.start - band.outputs.start + output) * len(band.inputs)
        number = band.first_weight + (before + chunk.first_input + index) * self.taps + tap
        return self.region("weights").address + int(self.repeated.index[number])

    @property
    def constant_blocks(self) -> int:
        """Blocks of outputs with biases and factors in the scratchpad."""
        count = self.layer.weights.shape[0]
        return blocks(count, self.machine.columns) if self.constants == "layer" else self.outputs

    @cached_property
    def shared_constants(self) -> int:
        """Elements of constants that all outputs have, before those of each."""
        return shared_constants(self.layer, self.machine)

    def constants_of(self, chunk: Chunk) -> int:
        """Where those of the chunk's outputs begin."""
        start, each = self.region("constants").address, self.constants_per_block
        start += self.shared_constants
        return start + (chunk.outputs.start * each if self.constants == "layer" else 0)

    @cached_property
    def constants_per_block(self) -> int:
        return constants_per_block(self.layer, self.machine)

    def region(self, name: str, buffer: int = 0) -> Region:
        return dict(self.regions)[name][buffer]

    @property
    def other_buffers(self) -> int:
        """Of what outputs are combined with: as many as of sums where the queue that loads can
        bring it ahead; 0 where it is nothing."""
        if self.layer.combined is None:
            return 0
        return self.sum_buffers if prefetches(self.machine) else 1

    def other_of(self, chunk: Chunk) -> int:
        """Where what the chunk's outputs are combined with begins."""
        return self.region("others", chunk.tile % self.other_buffers).address

    def sums_of(self, chunk: Chunk) -> int:
        """Where the sums of the chunk's tile begin."""
        return self.region("sums", chunk.tile % self.sum_buffers).address

    @property
    def tile_count(self) -> int:
        _, height, width = self.layer.output_shape
        return (
            sum(blocks(len(band.outputs), self.outputs) for band in self.bands)
            * blocks(height, self.rows)
            * blocks(width, self.columns)
        )

    def chunks(self) -> tuple[Chunk, ...]:
        """All steps, in the order in which they run."""
        _, height, width = self.layer.output_shape
        weight_buffers = 0 if self.repeated is not None else self.weight_buffers
        return chunks_of(
            Loops(
                bands=self.bands, height=height, width=width, rows=self.rows,
                columns=self.columns, outputs=self.outputs, inputs=self.inputs, order=self.order,
                input_buffers=self.input_buffers, weight_buffers=weight_buffers,
            )
        )  # fmt: skip


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
    return tile_cut(cuttable(layer, machine), buffers, sizes)


def tile_cut(
    cut: Cuttable, buffers: int = BUFFERS, sizes: Sequence[int] | None = None
) -> TiledLayer:
    """`tile_convolution`."""
    smallest, machine = None, cut.machine
    candidates = [sizes] if sizes is not None else _candidates(cut)
    sides = sorted({cut.side_by_side, 1}, reverse=True)
    possible: list[tuple[tuple[int, int], tuple[int, ...], TiledLayer]] = []
    for (rows, columns, outputs, inputs), together in itertools.product(candidates, sides):
        tiled = cut.tiled(
            rows=rows, columns=columns, outputs=outputs, inputs=inputs, together=together,
            input_buffers=buffers, weight_buffers=buffers, sum_buffers=buffers,
        )  # fmt: skip
        problem = refusal(tiled)
        if problem or not could_fit(buffers_of(tiled), machine):
            smallest = tiled, problem
        else:
            negative = (-rows, -columns, -outputs, -inputs, -together)
            possible.append((_moved(tiled), negative, tiled))
    for _, _, tiled in sorted(possible, key=lambda entry: entry[:2]):
        regions = place_buffers(buffers_of(tiled), machine)
        if regions is not None:
            return replace(tiled, regions=regions)
        smallest = smallest or (tiled, "")
    assert smallest is not None
    raise _too_large(*smallest)


def placed(tiled: TiledLayer) -> TiledLayer:
    """With the places of its buffers. Raises `RoomError` with what is too large."""
    problem = refusal(tiled)
    regions = None if problem else place_buffers(buffers_of(tiled), tiled.machine)
    if regions is None:
        raise _too_large(tiled, problem)
    return replace(tiled, regions=regions)


def _too_large(tiled: TiledLayer, problem: str) -> RoomError:
    reason = problem or _shortfall(tiled)
    return RoomError(f"{tiled.layer.name} does not fit {tiled.machine.name}: {reason}")


@dataclass(frozen=True, kw_only=True)
class Cuttable:
    """A convolution, and what of its tiles does not depend on their sizes."""

    layer: Convolution
    machine: Machine
    bands: tuple[Band, ...]
    repeated: Repeated | None
    partials: int
    coding: Coding | None

    @property
    def most(self) -> tuple[int, int]:
        """Blocks of outputs and of inputs that the largest bands have."""
        return most_inputs(self.bands)

    @property
    def has_own_inputs(self) -> bool:
        """Whether each block of outputs reads inputs of its own."""
        return self.bands[0].own > 0

    @property
    def form(self) -> Hashable:
        """Equal where blocks of weights are cut alike, whatever their numbers: for the same layer
        without its weights tiles of equal sizes are equal then."""
        side = self.side_by_side
        first = min(number for band in self.bands for number in band.inputs) // side * side
        shift = 0 if self.layer.parts else first
        bands = tuple(
            (band.outputs, band.own, tuple(number - shift for number in band.inputs))
            for band in self.bands
        )
        elements = None if self.repeated is None else len(self.repeated.elements)
        return bands, elements, self.partials, self.coding is None

    @property
    def side_by_side(self) -> int:
        """Blocks of inputs that lie side by side in global memory."""
        return channels_per_block(self.machine) // self.machine.rows

    def tiled(self, **choices: Any) -> TiledLayer:
        """In tiles of these sizes, without places."""
        return TiledLayer(
            layer=self.layer, machine=self.machine, bands=self.bands, repeated=self.repeated,
            partials=self.partials, coding=self.coding, **choices,
        )  # fmt: skip


def cuttable(layer: Convolution, machine: Machine) -> Cuttable:
    """What tiles of all sizes have in common."""
    found = bands(layer, machine)
    held = repeated(layer, machine, found)
    partials = partial_sums(layer, machine, held)
    shares_tiles = held is None or partials > 1 or is_total(layer, machine)
    if shares_tiles and has_diagonals(layer, machine):
        found = (band_of_diagonals(layer, machine),)
    is_diagonal = found[0].own > 0 and held is None
    return Cuttable(
        layer=layer, machine=machine, bands=found, repeated=held, partials=partials,
        coding=coding_of(layer, machine, "diagonals" if is_diagonal else "weights"),
    )  # fmt: skip


def _candidates(cut: Cuttable) -> Iterator[tuple[int, int, int, int]]:
    """Sizes by halves, the largest first; the last one is one of everything."""
    layer, machine, most = cut.layer, cut.machine, cut.most
    _, height, width = layer.output_shape
    columns = halves(width)
    if machine.rows_per_element == 1 and machine.batch > 1:
        # Whole groups of the positions that the array takes at once.
        columns = sorted({min(width, blocks(c, machine.batch) * machine.batch) for c in columns}
                         | {1}, reverse=True)  # fmt: skip
    inputs = most[1:] if cut.has_own_inputs else halves(most[1])
    yield from itertools.product(halves(height), columns, halves(most[0]), inputs)


def halves(count: int) -> list[int]:
    """The number, its half rounded up, and so on down to 1."""
    found = [count]
    while found[-1] > 1:
        found.append(blocks(found[-1], 2))
    return found


def buffers_of(tiled: TiledLayer) -> list[Buffer]:
    """As many as each operand has; one of what is loaded once: constants, repeated weights."""
    layer, machine = tiled.layer, tiled.machine
    pixels = window(layer, 0, tiled.rows) * window(layer, 1, tiled.columns)
    sums = tiled.outputs * tiled.rows * tiled.columns * layer.output.digits(machine)
    sums *= tiled.partials
    count = tiled.outputs * tiled.taps if tiled.has_diagonals else tiled.products
    weights = ("weights", tiled.weight_content, count, 0, tiled.weight_buffers)
    wanted = [
        (name, content, elements, 2 * index + group)
        for name, content, elements, group, count in (
            ("activations", "activations", _held(tiled) * pixels, 0, tiled.input_buffers),
            *([] if tiled.repeated is not None else [weights]),
            ("sums", "accumulators", sums, 1, tiled.sum_buffers),
        )
        for index in range(count)
    ]
    others = tiled.outputs * tiled.rows * tiled.columns
    wanted += [
        ("others", "accumulators", others, 2 * index) for index in range(tiled.other_buffers)
    ]
    constants = tiled.shared_constants + tiled.constant_blocks * tiled.constants_per_block
    wanted.append(("constants", "accumulators", constants, 1))
    if tiled.repeated is not None:
        wanted.append(("weights", "weights", tiled.weight_elements, 1))
    return [
        Buffer(name=name, content=content, elements=elements, group=group)
        for name, content, elements, group in wanted
    ]


def _held(tiled: TiledLayer) -> int:
    """Blocks of inputs that lie in the scratchpad for the largest chunk."""
    if tiled.has_own_inputs:
        (band,) = tiled.bands
        tiles = ranges(band.outputs, tiled.outputs)
        return tiled.together * max(len(tiled.groups(band.inputs_of(tile))) for tile in tiles)
    if tiled.together == 1:
        return tiled.inputs
    return tiled.together * max(
        len(tiled.groups(band.inputs[first : first + tiled.inputs]))
        for band in tiled.bands
        for first in range(0, len(band.inputs), tiled.inputs)
    )


def _shortfall(tiled: TiledLayer) -> str:
    """Of the smallest tile: which scratchpad is too small by how much."""
    machine = tiled.machine
    times = ", 2 times," if tiled.buffers > 1 else ""
    totals = bytes_taken(buffers_of(tiled), machine)
    for total, memory in zip(totals, machine.scratchpads, strict=True):
        if total > (memory.size_bytes or 0):
            return (
                f"its smallest tile{times} takes {total} bytes of {memory.name}, "
                f"which has {memory.size_bytes}"
            )
    return "its buffers do not lie side by side in the scratchpads"


def refusal(tiled: TiledLayer) -> str:
    """Which field of an instruction is too narrow for the sizes; empty where none is."""
    layer, machine = tiled.layer, tiled.machine
    rows, columns, outputs, inputs = tiled.rows, tiled.columns, tiled.outputs, tiled.inputs
    micro = tiled.products
    if tiled.has_own_inputs and inputs < (most := most_inputs(tiled.bands)[1]):
        return f"a tile of a depthwise convolution has {inputs} blocks of inputs, expected {most}"
    if micro > machine.depth("micro_operations"):
        return (
            f"a chunk takes {micro} micro-operations, and there is room for "
            f"{machine.depth('micro_operations')}"
        )
    _, height, width = layer.input_shape
    side = tiled.together
    apart = channels_per_block(machine) // machine.rows
    wide = min(width, window(layer, 1, columns))
    wide_blocks = channels_per_block(machine) // machine.columns
    of_other = [] if layer.combined is None else [
        ("vector", "inner", outputs * rows * columns),
        ("load", "x_stride", layer.output_shape[2] * wide_blocks * (rows > 1)),
        ("load", "y_size", rows),
        ("load", "x_size", columns),
    ]  # fmt: skip
    for kind, name, value in (
        *of_other,
        ("multiply", "outer", rows),
        ("multiply", "inner", columns),
        ("vector", "inner", rows * columns),
        ("vector", "outer", outputs),
        ("multiply", "source_outer", layer.strides[0] * window(layer, 1, columns) * side),
        ("multiply", "source_step", layer.strides[1] * side),
        ("load", "x_stride", width * apart * (height > 1)),
        ("load", "y_size", min(height, window(layer, 0, rows))),
        ("load", "x_size", wide * side),
        ("load", "x_size", tiled.weights_in_row),
        ("store", "x_stride", _store_stride(layer, machine) * (rows > 1)),
        *(("load", "y_pad_before", pad) for pad in layer.pads[::2]),
        *(("load", "x_pad_before", pad * side) for pad in layer.pads[1::2]),
    ):
        most = limits_of(machine, kind).get(name)
        if most is not None and value > most:
            return f"{name} of a {kind} is {value}, expected at most {most}"
    return _token_problem(tiled)


def _token_problem(tiled: TiledLayer) -> str:
    """Why loads and products could wait for each other: buffers have more tokens under way than
    the queues hold; empty where they do not."""
    room = min(queue.tokens for queue in tiled.machine.queues)
    weights = 0 if tiled.repeated is not None else tiled.weight_buffers
    for name, count in (("inputs", tiled.input_buffers), ("weights", weights)):
        if count > max(BUFFERS, room):
            return f"{count} buffers of {name}, expected at most {max(BUFFERS, room)}, the tokens"
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
        if tiled.has_own_inputs:
            parts = [band.inputs_of(tile) for tile in ranges(band.outputs, tiled.outputs)]
            times, elements, steps = 1, outs, over_outputs
        else:
            firsts = range(0, ins, tiled.inputs)
            parts = [band.inputs[first : first + tiled.inputs] for first in firsts]
            times, elements, steps = over_outputs, outs * ins, over_outputs * len(parts)
        held = sum(len(tiled.groups(part)) for part in parts) * tiled.together
        moved += pixels * held * times * element["activations"]
        if tiled.repeated is None:
            moved += elements * taps * over_pixels * element[tiled.weight_content]
        chunks += steps * over_pixels
    return moved, chunks


def _store_stride(layer: Convolution, machine: Machine) -> int:
    """Elements between two rows of outputs."""
    steps = (1, 1) if layer.placement is None else layer.placement.steps
    return steps[0] * layer.output.shape[2] * (channels_per_block(machine) // machine.columns)
