"""A tiled convolution as instructions: loads, multiplications and stores that wait by tokens only.

    load     inputs and weights of chunk n into buffer n % 2       behind the chunk n - 2
    compute  reset, multiply ... ; of a tile's last chunk: bias, requantize
    store    the tile's outputs                                    behind its computation

Tokens: a chunk's last load gives one to compute, whose last multiplication gives one back when the
buffer is free; a tile's last vector instruction gives one to store, whose last store gives one back
when the sums' buffer is free.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from explorer.npu.layers.borders import borders
from explorer.npu.layers.convolution import Convolution
from explorer.npu.layers.elementwise import flattened_elementwise
from explorer.npu.layers.tensors import Tensor, blocks, most_padding
from explorer.npu.program.addresses import Addresses, Placed, place
from explorer.npu.program.arithmetic import Arithmetic
from explorer.npu.program.requirements import shifted_of
from explorer.npu.program.stream import Stream
from explorer.npu.program.taps import TapLoops, loops_of_taps
from explorer.npu.program.transfers import Block
from explorer.npu.program.weights import CodedWeights, coded_weights, weight_loads
from explorer.npu.tiling import layouts
from explorer.npu.tiling.bands import output_blocks
from explorer.npu.tiling.chunks import Chunk
from explorer.npu.tiling.convolution import (
    TiledLayer,
    constants_per_block,
    input_pieces,
    window,
)
from explorer.targets.npu.formats import prefetches
from explorer.targets.npu.instructions import (
    Instruction,
    Load,
    MicroOperation,
    Multiply,
    Requantize,
    Store,
    Vector,
)
from explorer.targets.npu.machine import Machine


def flattened(layer: Convolution) -> Convolution:
    """A convolution of 1 x 1 that skips nothing, as one of a single row: its tiles fill better."""
    _, height, width = layer.input_shape
    is_plain = layer.kernel == (1, 1) and layer.strides == (1, 1) and not any(layer.pads)
    if not is_plain or height == 1 or layer.placement is not None or layer.within:
        return layer
    combined = None if layer.combined is None else flattened_elementwise(layer.combined)
    shape = (layer.input_shape[0], 1, height * width)
    return dataclasses.replace(layer, input_shape=shape, combined=combined)


def narrowed(layer: Convolution, machine: Machine) -> Convolution:
    """Weights of one bit more than the array multiplies, as sums of two or three, for which the
    input is read as often."""
    half = 1 << machine.weight_bits - 1
    if layer.weights.min() >= -half and layer.weights.max() < half:
        return layer
    rest = layouts.dense(layer, range(layer.weights.shape[0]))
    summands: list[np.ndarray] = []
    while np.any(rest):
        summands.append(np.clip(rest, -half, half - 1))
        rest = rest - summands[-1]
    times, parts = len(summands), layer.parts or layer.input_shape[:1]
    channels, height, width = layer.input_shape
    return dataclasses.replace(
        layer, weights=np.concatenate(summands, axis=1), groups=1,
        input_shape=(times * channels, height, width), parts=parts * times,
        reads=tuple(range(len(parts))) * times,
    )  # fmt: skip


def fetches_others(tiled: TiledLayer, chunks: Sequence[Chunk]) -> bool:
    """Whether the queue that loads brings what outputs are combined with, after the last chunk of
    each tile: there have to be tokens that say when a buffer is free again."""
    if not tiled.other_buffers or not prefetches(tiled.machine):
        return False
    waited, freed, ends = 0, 0, list[int]()
    for chunk in chunks:
        waited, freed = waited + chunk.waits, freed + chunk.frees
        if not chunk.is_last:
            continue
        before = len(ends) - tiled.other_buffers
        if before >= 0 and not 0 < ends[before] <= waited:
            return False
        ends.append(freed if chunk.frees else 0)
    return True


CONSTANTS = ("weights", "constants")
"""Names of what never changes: weights, and biases and factors."""


def constant_sizes(tiled: TiledLayer, found: CodedWeights | None) -> dict[str, tuple[str, int]]:
    """Content and size in bytes of weights, and of biases and factors; `found`: coded weights."""
    layer, machine = tiled.layer, tiled.machine
    per_block = constants_per_block(layer, machine)
    weights = tiled.weight_elements if found is None else found.elements
    sizes = {
        "weights": (tiled.weight_content, weights),
        "constants": (
            "accumulators",
            tiled.shared_constants + output_blocks(layer, machine) * per_block,
        ),
    }
    elements = {c: space.global_bytes for c, space in machine.by_content.items()}
    return {name: (c, count * elements[c]) for name, (c, count) in sizes.items()}


def constants_of(tiled: TiledLayer) -> dict[str, np.ndarray]:
    """Bytes of weights, and of biases and factors."""
    layer, machine, found = tiled.layer, tiled.machine, coded_weights(tiled, tiled.chunks())
    weights = layouts.weights_of(layer, machine, tiled.bands, tiled.repeated)
    return {
        "weights": weights if found is None else found.data(),
        "constants": layouts.constants(layer, machine),
    }


def write_convolution(tiled: TiledLayer, addresses: Addresses) -> ConvolutionWriter:
    """What will write its instructions, with tensors and constants at such addresses."""
    layer, chunks = tiled.layer, tiled.chunks()
    coded, tensors = coded_weights(tiled, chunks), (*layer.inputs, layer.output)
    sizes = constant_sizes(tiled, coded)
    places = place(layer.name, tiled.machine, tensors, sizes, addresses)
    return ConvolutionWriter(tiled, places, chunks, coded)


class ConvolutionWriter(Stream):
    """Instructions while they are written."""

    def __init__(
        self, tiled: TiledLayer, places: Mapping[str, Placed], chunks: Sequence[Chunk],
        coded: CodedWeights | None,
    ) -> None:  # fmt: skip
        self.tiled, self.layer = tiled, tiled.layer
        layer, machine = tiled.layer, tiled.machine
        self.chunks, self.coded = chunks, coded
        self.constants_of: range | None = None
        self.each = constants_per_block(layer, machine)
        self.borders = borders(layer, machine)
        self.most_padding = most_padding(machine)
        self.shifted = shifted_of(layer, machine)
        self.is_fetched = fetches_others(tiled, self.chunks)
        self.frees_late = tiled.tile_count > tiled.other_buffers
        super().__init__(machine, places, machine.depth("micro_operations"))

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return (*self.layer.inputs, self.layer.output)

    def constants(self) -> dict[str, np.ndarray]:
        """Weights, biases and factors."""
        return constants_of(self.tiled)

    def write(self) -> None:
        """All instructions but the last."""
        for number, chunk in enumerate(self.chunks):
            self._chunk(number, chunk)

    def _chunk(self, number: int, chunk: Chunk) -> None:
        loads: list[Instruction] = [  # weights first, which need not wait for a layer before
            *self._load_weights(chunk),
            *(self._load_inputs(chunk) if chunk.loads_inputs else ()),
        ]
        if loads:
            self.emit(number, loads, after=(chunk.waits, True))
        if self.is_fetched and chunk.is_last:
            self.emit(number, self._load_other(chunk), after=(False, True))
        buffers = self.tiled.sum_buffers
        begins, waits = chunk.is_first, chunk.is_first and chunk.tile >= buffers
        if chunk.is_first:
            self._constants(number, chunk)
            if self.layer.combined is not None and not self.is_fetched:
                self.emit(number, self._load_other(chunk))
        partials = self.tiled.partials
        taps = [] if partials > 1 else self._taps(chunk)
        if begins and (taps or partials > 1 or not self.machine.replaces_sums):
            pixels = partials * len(chunk.rows) * len(chunk.columns) * len(chunk.outputs)
            reset = list(self.reset(self.tiled.sums_of(chunk), pixels))
            self.emit(number, reset, after=(waits, False))
            begins = waits = False
        multiplications = self._multiply_taps(taps)
        if partials > 1:
            multiplications = self._multiply_partials(chunk)
        multiplications = multiplications or self._multiply(chunk, begins)
        # Loads of micro-operations wait for no inputs.
        ahead = list(itertools.takewhile(lambda op: isinstance(op, Load), multiplications))
        multiplications = multiplications[len(ahead) :]
        self.emit(number, ahead)
        is_late = self.is_fetched and self.frees_late and chunk.is_last
        frees = chunk.frees and not is_late
        self.emit(number, multiplications, before=(bool(loads), frees), after=(waits, False))
        if not chunk.is_last:
            return
        mine = [*self._add_partials(chunk), *self._rescale(chunk)]
        others = self._combine(chunk)
        self.emit(number, mine, after=(False, not others))
        if others:
            late = chunk.frees and is_late
            self.emit(number, others, before=(self.is_fetched, late), after=(False, True))
        last = self.tiled.tile_count - 1
        gives = chunk.tile + buffers <= last or chunk.tile == last
        self.emit(number, list(self._store(chunk)), before=(True, gives))

    def _window(self, chunk: Chunk) -> tuple[int, int]:
        return (
            window(self.layer, 0, len(chunk.rows)),
            window(self.layer, 1, len(chunk.columns)),
        )

    def _load_inputs(self, chunk: Chunk) -> Iterator[Load]:
        """One load per group of blocks, with the padding that the tile touches; one for several
        where they are as far apart."""
        tall, wide = self._window(chunk)
        y, x, pieces = input_pieces(self.layer, chunk, self.most_padding)
        start = self.tiled.region("activations", chunk.input_buffer).address
        tensors, first, side = self.layer.pictures, self.layer.first_row, self.tiled.together
        groups = self.tiled.groups(chunk.inputs)
        firsts = [
            self.element(tensors[part], "activations", block, first + y, x)
            for part, block in groups
        ]
        each = self.elements_per_block("activations")
        stride, step = tensors[groups[0][0]].shape[2] * each, each if side == 1 else 1
        for offset, piece in pieces:
            block = Block(
                rows=piece["y_size"], columns=piece["x_size"] * side, stride=stride, step=step
            )
            padding = {
                name: value * side if name.startswith("x") else value
                for name, value in piece.items()
                if "pad" in name
            }
            padding |= self._pad_value(piece)
            at = start + offset * side
            for inside, run in itertools.groupby(
                zip(groups, firsts, strict=True), lambda one: self.on_chip(tensors[one[0][0]])
            ):
                mine = [first for _, first in run]
                yield from self.load_blocks(
                    "activations", at, mine, block, padding={**padding, **inside},
                    apart=tall * wide * side,
                )  # fmt: skip
                at += len(mine) * tall * wide * side

    def _pad_value(self, fields: dict[str, int]) -> dict[str, Any]:
        """The input's zero point, where there is padding and a field for it."""
        is_padded = any(value for name, value in fields.items() if "pad" in name)
        has_field = self.machine.instruction_set.pads_with_values
        return {"pad_value": self.layer.input_zero_point} if is_padded and has_field else {}

    def _load_weights(self, chunk: Chunk) -> Iterator[Load]:
        """What is not there already."""
        first = self.address("weights", self.tiled.weight_content)
        for load in weight_loads(self.tiled, chunk):
            placed = load if self.coded is None else self.coded.place(load)
            start = self.tiled.region("weights", chunk.weight_buffer).address
            yield dataclasses.replace(
                placed, scratchpad_address=start + load.scratchpad_address,
                global_address=first + placed.global_address,
            )  # fmt: skip

    def _constants(self, number: int, chunk: Chunk) -> None:
        """Biases and factors of the tile's channels, or all, where they are not there yet."""
        is_whole = self.tiled.constants == "layer"
        outputs = range(self.tiled.constant_blocks) if is_whole else chunk.outputs
        if self.constants_of == outputs:
            return
        start, place = self.tiled.region("constants").address, self.address(
            "constants", "accumulators")  # fmt: skip
        shared, size = self.tiled.shared_constants, len(outputs) * self.each
        if self.constants_of is None and not outputs.start:  # with those of all outputs
            parts = [(start, place, shared + size)]
        else:
            parts = [(start + shared, place + shared + outputs.start * self.each, size)]
            if self.constants_of is None and shared:
                parts.insert(0, (start, place, shared))
        self.constants_of = outputs
        self.emit(number, [
            Load(memory="accumulators", scratchpad_address=at, global_address=read, x_size=count)
            for at, read, count in parts
        ])  # fmt: skip

    def _multiply(self, chunk: Chunk, begins: bool) -> list[Instruction]:
        """A micro-operation per block of outputs, block of inputs and tap; loops over positions.
        `begins`: the first one of each block of outputs replaces what lies there.

        The array takes a batch of them along a row, or down a column where these are fewer steps.
        """
        along, outer = self._loops(chunk)
        found: list[Instruction] = []
        for inner, batch, first in self.batches(along.count):
            offset = (first * along.destination, first * along.source)
            found += self.loop(
                Multiply, list(_products(self.tiled, chunk, offset)), replace=begins,
                outer=outer.count, destination_outer=outer.destination, source_outer=outer.source,
                inner=inner, destination_inner=self.batch * along.destination,
                source_inner=self.batch * along.source, **along.batch(batch),
            )  # fmt: skip
        return found

    def _loops(self, chunk: Chunk) -> tuple[_Axis, _Axis]:
        """Positions that the array takes batches of, and the other axis."""
        stride_y, stride_x = self.layer.strides
        _, wide = self._window(chunk)
        side = self.tiled.together
        along = _Axis(len(chunk.columns), 1, stride_x * side)
        outer = _Axis(len(chunk.rows), len(chunk.columns), stride_y * wide * side)
        if outer.batches(self.batch) * along.count < along.batches(self.batch) * outer.count:
            return outer, along
        return along, outer

    def _taps(self, chunk: Chunk) -> list[tuple[TapLoops, dict[str, int]]]:
        """What multiplies tap by tap, with the fields of its batch, where positions need no loop
        and the micro-operations that this saves take longer than sums that are made 0 before;
        empty elsewhere."""
        along, outer = self._loops(chunk)
        batches = list(self.batches(along.count))
        if outer.count > 1 or any(inner > 1 for inner, *_ in batches):
            return []
        found, saved = [], 0
        for _, batch, first in batches:
            offset = (first * along.destination, first * along.source)
            micro = list(_products(self.tiled, chunk, offset))
            loops = loops_of_taps(micro, self.layer.kernel)
            if loops is None:
                return []
            saved += len(micro) - len(loops.micro)
            found.append((loops, along.batch(batch)))
        if not self.machine.replaces_sums:
            return found
        matrix, space = self.machine.matrix, self.machine.by_content["micro_operations"]
        route = self.machine.route[self.machine.regions[-1].name, space.memory, True]
        sums = len(chunk.outputs) * along.count
        reset = (
            matrix.start_cycles + matrix.latency_cycles + sums * self.machine.multiply_step_cycles
        )
        return found if saved * space.global_bytes / route.bytes_per_cycle > reset else []

    def _multiply_partials(self, chunk: Chunk) -> list[Instruction]:
        """Each of as many sums as the array makes at once takes a part of the taps."""
        count, side = self.tiled.partials, self.tiled.together
        outputs = len(chunk.outputs)
        whole, rest = divmod(self.tiled.taps, count)
        found: list[Instruction] = []
        for outer, batch, first in ((whole, count, 0), (1, rest, whole * count)):
            micro = [
                MicroOperation(one.destination, one.source + first * side, one.weight)
                for one in itertools.islice(
                    _products(self.tiled, chunk, (0, 0)), 0, None, self.tiled.taps
                )
            ]
            steps = {"destination_step": outputs, "source_step": side} if batch > 1 else {}
            if outer and batch:
                found += self.loop(
                    Multiply, micro, outer=outer, source_outer=count * side, inner=1, batch=batch,
                    **steps,
                )  # fmt: skip
        return found

    def _add_partials(self, chunk: Chunk) -> list[Instruction]:
        """All sums of a block become the first one."""
        count, outputs, first = (
            self.tiled.partials,
            len(chunk.outputs),
            self.tiled.sums_of(chunk),
        )
        if count == 1:
            return []
        return self.loop(
            Vector, [MicroOperation(first, first + outputs)], operation="add", outer=count - 1,
            source_outer=outputs, inner=outputs, destination_inner=1, source_inner=1,
        )  # fmt: skip

    def _multiply_taps(self, taps: list[tuple[TapLoops, dict[str, int]]]) -> list[Instruction]:
        return [
            instruction
            for loops, batch in taps
            for instruction in self.loop(Multiply, list(loops.micro), **loops.fields, **batch)
        ]

    def _load_other(self, chunk: Chunk) -> list[Instruction]:
        """What the tile's outputs are combined with, as wide as sums."""
        tensor, content = self.layer.other, "widened"
        assert tensor is not None
        each, rows, columns = self.elements_per_block(content), chunk.rows, chunk.columns
        firsts = [
            self.element(tensor, content, block, rows.start, columns.start)
            for block in chunk.outputs
        ]
        block = Block(
            rows=len(rows), columns=len(columns), stride=tensor.shape[2] * each, step=each
        )
        fields = {**self.on_chip(tensor), **({"prefetch": True} if self.is_fetched else {})}
        return list(self.load_blocks(content, self.tiled.other_of(chunk), firsts, block, fields))

    def _combine(self, chunk: Chunk) -> list[Instruction]:
        """The tile's outputs with what lies in the other tensor, in their place; empty where there
        is none."""
        if self.layer.combined is None:
            return []
        at = self.tiled.region("constants").address
        arithmetic, side = Arithmetic(self, self.layer.combined, at), self.layer.combined_side
        size = len(chunk.outputs) * len(chunk.rows) * len(chunk.columns)
        sums, other = self.tiled.sums_of(chunk), self.tiled.other_of(chunk)
        return [
            *arithmetic.operand(1 - side, other, size),
            *arithmetic.operand(side, sums, size),
            *arithmetic.combined(sums, size, other),
            *arithmetic.result(sums, size),
        ]

    def _rescale(self, chunk: Chunk) -> list[Instruction]:
        scaling, count = self.layer.rescaling, self.borders.count
        if scaling is not None and layouts.adds_biases(self.layer, self.machine):
            return self._vector(
                chunk, Requantize, 0, biased=True, offset=scaling.zero_point, low=scaling.low,
                high=scaling.high,
            )  # fmt: skip
        found = self._biases(chunk)
        if self.layer.moved is not None:
            for operation, constant in (("multiply", self.each - 2), ("add", self.each - 1)):
                found += self._vector(chunk, Vector, constant, operation=operation)
        if scaling is None:
            return [*found, *self._cut(chunk)]
        if not self.layer.is_scaled:
            return found
        limits = {"offset": scaling.zero_point, "low": scaling.low, "high": scaling.high}
        if self.machine.instruction_set.requantizes:
            return found + self._vector(chunk, Requantize, count, **limits)
        if self.shifted is not None:
            steps = [("multiply", 1), ("add", 2)]
            if self.shifted.bounds is not None:
                steps = [("maximum", 3), ("minimum", 4), *steps]
            for operation, constant in steps:
                found += self._vector(chunk, Vector, count + constant, operation=operation)
        found += self._vector(chunk, Vector, count, operation="shift_right")
        moved = [("add", scaling.zero_point)] if scaling.zero_point else []
        limits = [*moved, ("maximum", scaling.low), ("minimum", scaling.high)]
        return found + self._immediates(chunk, limits)

    def _immediates(self, chunk: Chunk, steps: Iterable[tuple[str, int]]) -> list[Instruction]:
        """Operations with one number each, on all sums of a tile."""
        return [
            instruction
            for operation, value in steps
            for instruction in self._vector(
                chunk, Vector, 0, operation=operation, use_immediate=True, immediate=value
            )
        ]

    def _biases(self, chunk: Chunk) -> list[Instruction]:
        """Added to each class of positions; at once where there is one."""
        pieces = self.borders.pieces(chunk.rows, chunk.columns)
        if self.borders.count == 1:
            return self._vector(chunk, Vector, 0, operation="add")
        pixels, found = len(chunk.rows) * len(chunk.columns), []
        constants = self.tiled.constants_of(chunk)
        for number, rows, columns in pieces:
            first = self.tiled.sums_of(chunk) + rows.start * len(chunk.columns) + columns.start
            micro = [
                MicroOperation(first + index * pixels, constants + index * self.each + number)
                for index in range(len(chunk.outputs))
            ]
            found += self.loop(
                Vector, micro, operation="add", outer=len(rows), inner=len(columns),
                destination_outer=len(chunk.columns), destination_inner=1,
            )  # fmt: skip
        return found

    def _cut(self, chunk: Chunk) -> list[Instruction]:
        """Sums as digits, where stores only cut: each what the ones before it leave over."""
        sums = self.tiled.sums_of(chunk)
        size = len(chunk.outputs) * len(chunk.rows) * len(chunk.columns)
        bits, found = self.machine.input_bits, []
        for digit in range(1, self.layer.output.digits(self.machine)):
            first = sums + digit * size
            found += self.reset(first, size)
            both = {"inner": size, "destination_inner": 1}
            found += self.loop(
                Vector, [MicroOperation(first, first - size)], operation="add", source_inner=1,
                **both,
            )  # fmt: skip
            # Half a digit in two, for of 16 bits it is no immediate.
            halves = [("add", 1 << bits - 2)] * 2
            for operation, value in (*halves, ("shift_right", bits)):
                found += self.loop(
                    Vector, [MicroOperation(first)], operation=operation, use_immediate=True,
                    immediate=value, **both,
                )  # fmt: skip
        return found

    def _vector(
        self, chunk: Chunk, record: type[Vector | Requantize], constant: int, **fields: object
    ) -> list[Instruction]:
        """On all sums of a tile; the second operand is a constant of their channels."""
        pixels = len(chunk.rows) * len(chunk.columns)
        source = self.tiled.constants_of(chunk) + constant
        return self.loop(
            record, [MicroOperation(self.tiled.sums_of(chunk), source)], **fields,
            outer=len(chunk.outputs), destination_outer=pixels, inner=pixels, destination_inner=1,
            source_outer=self.each,
        )  # fmt: skip

    def _store(self, chunk: Chunk) -> Iterator[Store]:
        tensor, placement = self.layer.output, self.layer.placement
        (oy, ox), (sy, sx) = ((0, 0), (1, 1))
        if placement is not None:
            (oy, ox), (sy, sx) = placement.offset, placement.steps
        rows, columns = len(chunk.rows), len(chunk.columns)
        digits = tensor.digits(self.machine)
        content = "accumulators" if tensor.is_wide and digits == 1 else "outputs"
        each = self.elements_per_block(content)
        per_digit = tensor.digit_bytes(self.machine)
        per_digit //= self.machine.by_content[content].global_bytes
        block = Block(
            rows=rows, columns=columns, stride=sy * tensor.shape[2] * each, step=sx * each
        )
        y, x = oy + chunk.rows.start * sy, ox + chunk.columns.start * sx
        firsts = [
            self.element(tensor, content, output, y, x) + digit * per_digit
            for digit in range(digits)
            for output in chunk.outputs
        ]
        yield from self.store_blocks(content, self.tiled.sums_of(chunk), firsts, block, tensor)


@dataclass(frozen=True)
class _Axis:
    """Positions of a tile one behind the other."""

    count: int
    destination: int
    """From the sums of one to those of the next."""
    source: int
    """From what one reads to what the next one reads."""

    def batches(self, size: int) -> int:
        return blocks(self.count, size)

    def batch(self, size: int) -> dict[str, int]:
        """Fields of a multiplication that takes so many of them at once."""
        steps = {"destination_step": self.destination, "source_step": self.source}
        return {"batch": size, **(steps if size > 1 else {})}


def _products(tiled: TiledLayer, chunk: Chunk, offset: tuple[int, int]) -> Iterator[MicroOperation]:
    """One per block of outputs, block of inputs and tap; `offset`: of the sums and of the inputs
    of the first position."""
    layer, side = tiled.layer, tiled.together
    tall, wide = (window(layer, 0, len(chunk.rows)), window(layer, 1, len(chunk.columns)))
    height, width = layer.kernel
    sources = tiled.region("activations", chunk.input_buffer).address
    places = tiled.input_places(chunk.inputs, tall * wide)
    sums = tiled.sums_of(chunk)
    pixels = len(chunk.rows) * len(chunk.columns)
    own = tiled.bands[chunk.band].own
    marks = tiled.machine.replaces_sums
    for output in range(len(chunk.outputs)):
        mine = range(output * own, min((output + 1) * own, len(places)) if own else len(places))
        taps = itertools.product(mine, range(height), range(width))
        for number, (block, ky, kx) in enumerate(taps):
            tap = ky * layer.dilations[0] * wide + kx * layer.dilations[1]
            source = sources + places[block] + tap * side + offset[1]
            weight = tiled.weights_at(chunk, output, block, ky * width + kx)
            at = sums + output * pixels + offset[0]
            yield MicroOperation(at, source, weight, first=marks and not number)
