"""A tiled layer as instructions: loads, multiplications and stores that wait by tokens only.

    load     inputs and weights of chunk n into buffer n % 2       behind the chunk n - 2
    compute  reset, multiply ... ; of a tile's last chunk: bias, requantize
    store    the tile's outputs                                    behind its computation

Tokens: a chunk's last load gives one to compute, whose last multiplication gives one back when the
buffer is free; a tile's last vector instruction gives one to store, whose last store gives one back
when the sums' buffer is free.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from explorer.errors import InputError
from explorer.npu import layouts
from explorer.npu.layer import Convolution, LayerError
from explorer.npu.micro import MicroProgram, products
from explorer.npu.stream import Stream
from explorer.npu.tiles import (
    BUFFERS,
    Chunk,
    TiledLayer,
    constants_per_block,
    input_blocks,
    input_pieces,
    most_padding,
    output_blocks,
    tile_layer,
    window,
)
from explorer.targets.npu.encoding import encode_micro
from explorer.targets.npu.instructions import (
    Finish,
    Instruction,
    Load,
    MicroOperation,
    Multiply,
    Requantize,
    Store,
    Vector,
)
from explorer.targets.npu.machine import Machine

LOAD, COMPUTE, STORE = range(3)


@dataclass(frozen=True, kw_only=True)
class Placed:
    """A tensor in global memory."""

    content: str
    offset_bytes: int
    size_bytes: int


@dataclass(frozen=True, kw_only=True)
class LayerProgram:
    """A layer as a program, with the image that it runs on but for its input."""

    layer: Convolution
    tiled: TiledLayer
    """Of the layer, or of one that is the same: of a single row, with a padded input, or with
    several groups as one."""
    instructions: tuple[Instruction, ...]
    owners: tuple[int, ...]
    """Of every instruction: its chunk, in the order of `TiledLayer.chunks`; -1 of the last one."""
    program: bytes
    image: np.ndarray
    """u8; zeros where input and output lie."""
    micro_operations_loaded: int
    """With repetitions."""
    places: dict[str, Placed]
    """input, output, weights, constants and micro_operations."""

    def image_with(self, x: np.ndarray) -> np.ndarray:
        """Global memory with an input of [inputs, height, width]."""
        layer, machine = self.layer, self.tiled.machine
        if x.shape != layer.input_shape:
            raise InputError(f"{layer.name} takes {layer.input_shape}, not {x.shape}")
        if self.tiled.layer.pads != layer.pads:
            above, left, below, right = layer.pads
            room = ((0, 0), (above, below), (left, right))
            x = np.pad(x, room, constant_values=layer.input_zero_point)
        data = layouts.activations(x, self.tiled.layer, machine)
        image = self.image.copy()
        place = self.places["input"]
        image[place.offset_bytes : place.offset_bytes + place.size_bytes] = data
        return image

    def output_of(self, image: bytes | np.ndarray) -> np.ndarray:
        """The output, i64 of [outputs, height, width], out of global memory behind the run."""
        place = self.places["output"]
        data = np.frombuffer(image, np.uint8) if isinstance(image, bytes) else image
        mine = data[place.offset_bytes : place.offset_bytes + place.size_bytes]
        found = layouts.outputs(mine, self.tiled.layer, self.tiled.machine)
        return found.reshape(self.layer.output_shape)


def compile_layer(
    layer: Convolution,
    machine: Machine,
    *,
    buffers: int = BUFFERS,
    base_bytes: int = 0,
    sizes: tuple[int, int, int, int] | None = None,
) -> LayerProgram:
    """The layer in the largest tiles that fit, or in those of `sizes` (see `tile_layer`).

    `buffers`: 1 loads only when nothing computes. `base_bytes`: where in global memory its tensors
    begin. Raises `LayerError`, naming what the machine lacks.
    """
    check_layer(layer, machine)
    inner = _flattened(_merged(_padded_in_memory(layer, machine), machine))
    writer = Writer(tile_layer(inner, machine, buffers, sizes), base_bytes)
    for chunk in writer.chunks:
        writer.write(chunk)
    return writer.finished(layer)


def _padded_in_memory(layer: Convolution, machine: Machine) -> Convolution:
    """Where loads pad with 0 only, and that is another number: the input lies padded in memory."""
    if machine.set == "full" or not layer.input_zero_point or not any(layer.pads):
        return layer
    above, left, below, right = layer.pads
    channels, height, width = layer.input_shape
    padded = (channels, height + above + below, width + left + right)
    return dataclasses.replace(layer, input_shape=padded, pads=(0, 0, 0, 0))


def _merged(layer: Convolution, machine: Machine) -> Convolution:
    """Groups that fit into one block of the array together are one, with zeros between them."""
    outputs, inputs, *kernel = layer.weights.shape
    each = outputs // layer.groups
    together = max(
        count
        for count in range(1, layer.groups + 1)
        if layer.groups % count == 0
        and (count == 1 or (count * inputs <= machine.rows and count * each <= machine.columns))
    )
    if together == 1:
        return layer
    groups = layer.groups // together
    split = layer.weights.reshape(groups, together, each, inputs, *kernel)
    wide = np.zeros((groups, together, each, together, inputs, *kernel), split.dtype)
    for index in range(together):
        wide[:, index, :, index] = split[:, index]
    weights = wide.reshape(outputs, together * inputs, *kernel)
    return dataclasses.replace(layer, weights=weights, groups=groups)


def _flattened(layer: Convolution) -> Convolution:
    """A convolution of 1 x 1 that skips nothing, as one of a single row: its tiles fill better."""
    _, height, width = layer.input_shape
    is_plain = layer.kernel == (1, 1) and layer.strides == (1, 1) and not any(layer.pads)
    if not is_plain or height == 1:
        return layer
    return dataclasses.replace(layer, input_shape=(layer.input_shape[0], 1, height * width))


def check_layer(layer: Convolution, machine: Machine) -> None:
    """LayerError for what the machine cannot compute, whatever the tiles."""
    problem = queue_problem(machine) or _number_problem(layer, machine)
    if problem:
        raise LayerError(f"{layer.name} cannot be computed by {machine.name}: {problem}")


def queue_problem(machine: Machine) -> str:
    wanted = {"activations": LOAD, "weights": LOAD, "micro_operations": COMPUTE,
              "accumulators": COMPUTE}  # fmt: skip
    queues = {content: machine.queue_of(content, True) for content in wanted}
    if machine.vector is None:
        return "it has no vector engine"
    engines = {machine.queue_of_engine(e.name) for e in (machine.matrix, machine.vector)}
    if len(machine.queues) != 3 or queues != wanted or engines != {COMPUTE}:
        return "schedules are for three queues that load, compute and store"
    if machine.queue_of("accumulators", False) != STORE:
        return "schedules are for three queues that load, compute and store"
    return ""


def _number_problem(layer: Convolution, machine: Machine) -> str:
    scaling = layer.rescaling
    for what, numbers, bits in (
        ("weights", layer.weights, machine.weight_bits),
        ("limits", np.array([scaling.low, scaling.high]), machine.input_bits),
        ("zero points", np.array([layer.input_zero_point, scaling.zero_point]), machine.input_bits),
        ("biases", layer.bias, 32),
    ):
        if numbers.min() < -(1 << bits - 1) or numbers.max() >= 1 << bits - 1:
            return f"{what} from {numbers.min()} to {numbers.max()} are no numbers of {bits} bits"
    if machine.accumulator_bits != 32:
        return f"sums have 32 bits, its accumulators {machine.accumulator_bits}"
    if machine.set == "vta":
        return _vta_problem(layer, machine)
    if "requantize" not in machine.operations or "add" not in machine.operations:
        return "its vector engine does not requantize and add"
    how = (scaling.how.scheme, scaling.how.rounding)
    is_own = how[0] == "doubling_high_multiply"
    if how[0] != machine.scheme or (how[1] != machine.rounding and not is_own):
        return f"it requantizes by {machine.scheme}, {machine.rounding}, not by {scaling.how}"
    if how[0] == "shift" and np.any(scaling.multipliers != 1):
        return "a shift cannot make numbers larger"
    return ""


def _vta_problem(layer: Convolution, machine: Machine) -> str:
    scaling = layer.rescaling
    missing = {"add", "shift_right", "maximum", "minimum"} - set(machine.operations)
    if missing:
        return f"its vector engine has no {min(missing)}"
    if machine.batch != 1:
        return f"its elements hold a batch of {machine.batch}, and the layer has 1"
    if (scaling.how.scheme, scaling.how.rounding) != ("shift", "down"):
        return f"it requantizes by shift, down, not by {scaling.how}"
    if np.any(scaling.multipliers != 1):
        return "a shift to the right cannot make numbers larger"
    return ""


class Writer(Stream):
    """Instructions while they are written."""

    def __init__(self, tiled: TiledLayer, base_bytes: int) -> None:
        self.tiled, self.layer = tiled, tiled.layer
        self.machine = tiled.machine
        self.chunks = list(tiled.chunks())
        self.constants_of: tuple[int, range] | None = None
        self.constants = _constants(self.layer, self.machine)
        self.weights = layouts.weights(self.layer, self.machine)
        self.places = self._layout(base_bytes)
        micro = self.places["micro_operations"]
        size = self.machine.by_content["micro_operations"].global_bytes
        depth = self.machine.depth("micro_operations")
        self.most_padding = most_padding(self.machine)
        super().__init__(tiled.machine, MicroProgram(depth, micro.offset_bytes // size))

    def _layout(self, base_bytes: int) -> dict[str, Placed]:
        """Input and output in the first memory; what never changes in the last, behind them."""
        layer, machine = self.layer, self.machine
        _, height, width = layer.output_shape
        pixels = layer.input_shape[1] * layer.input_shape[2]
        sizes = {
            "input": ("activations", pixels * layer.groups * input_blocks(layer, machine)),
            "output": ("outputs", height * width * layer.groups * output_blocks(layer, machine)),
            "weights": ("weights", 0),
            "constants": ("accumulators", 0),
            "micro_operations": ("micro_operations", 0),
        }
        given = {"weights": self.weights.size, "constants": self.constants.size}
        places: dict[str, Placed] = {}
        end = base_bytes
        for name, (content, elements) in sizes.items():
            if name == "weights":
                first = machine.regions[0]
                if first.size_bytes is not None and end > first.size_bytes:
                    raise LayerError(
                        f"{layer.name} does not fit {machine.name}: input and output take {end} "
                        f"bytes of {first.name}, which has {first.size_bytes}"
                    )
                end = max(end, machine.regions[-1].start_bytes)
            each = machine.by_content[content].global_bytes
            start = layouts.blocks(end, each) * each
            size = given.get(name, elements * each)
            places[name] = Placed(content=content, offset_bytes=start, size_bytes=size)
            end = start + size
        return places

    def address(self, name: str) -> int:
        """The first element of a tensor in global memory."""
        place = self.places[name]
        return place.offset_bytes // self.machine.by_content[place.content].global_bytes

    def write(self, chunk: Chunk) -> None:
        number = self.owners[-1] + 1 if self.owners else 0
        buffers, count = self.tiled.buffers, len(self.chunks)
        loads: list[Instruction] = [*self._load_inputs(chunk), *self._load_weights(chunk)]
        self.emit(number, loads, after=(number >= buffers, True))
        if chunk.is_first:
            self._constants(number, chunk)
            self.emit(number, self._reset(chunk), after=(chunk.tile >= buffers, False))
        multiplications = self._multiply(chunk)
        # Loads of micro-operations need no inputs, but the tokens are simpler on the whole.
        self.emit(number, multiplications, before=(True, number + buffers < count))
        if not chunk.is_last:
            return
        self.emit(number, self._rescale(chunk), after=(False, True))
        last = self.tiled.tile_count - 1
        gives = chunk.tile + buffers <= last or chunk.tile == last
        self.emit(number, list(self._store(chunk)), before=(True, gives))

    def _window(self, chunk: Chunk) -> tuple[int, int]:
        return (
            window(self.layer, 0, len(chunk.rows)),
            window(self.layer, 1, len(chunk.columns)),
        )

    def _load_inputs(self, chunk: Chunk) -> Iterator[Load]:
        """One load per block of channels, with the padding that the tile touches."""
        layer = self.layer
        _, height, width = layer.input_shape
        tall, wide = self._window(chunk)
        y, x, pieces = input_pieces(layer, chunk, self.most_padding)
        start = self.tiled.region("activations", chunk.buffer).address
        blocks = input_blocks(layer, self.machine)
        for index, block in enumerate(chunk.inputs):
            plane = (chunk.group * blocks + block) * height
            for offset, piece in pieces:
                yield Load(
                    memory="activations",
                    scratchpad_address=start + index * tall * wide + offset,
                    global_address=self.address("input") + (plane + y) * width + x,
                    x_stride=width,
                    **piece,
                    **self._pad_value(piece),
                )

    def _pad_value(self, fields: dict[str, int]) -> dict[str, Any]:
        """The input's zero point, where there is padding and a field for it."""
        is_padded = any(value for name, value in fields.items() if "pad" in name)
        has_field = self.machine.set == "full"
        return {"pad_value": self.layer.input_zero_point} if is_padded and has_field else {}

    def _load_weights(self, chunk: Chunk) -> Iterator[Load]:
        """One load per block of output channels; one for all where their inputs are not cut."""
        taps = self.layer.kernel[0] * self.layer.kernel[1]
        ins, outs = input_blocks(self.layer, self.machine), output_blocks(self.layer, self.machine)
        start = self.tiled.region("weights", chunk.buffer).address
        rows = (
            [chunk.outputs]
            if len(chunk.inputs) == ins
            else [range(o, o + 1) for o in chunk.outputs]
        )
        for row in rows:
            first = (chunk.group * outs + row.start) * ins + chunk.inputs.start
            size = len(row) * len(chunk.inputs) * taps
            yield Load(
                memory="weights",
                scratchpad_address=start,
                global_address=self.address("weights") + first * taps,
                x_size=size,
            )
            start += size

    def _constants(self, number: int, chunk: Chunk) -> None:
        """Biases and factors of the tile's channels, where they are not there yet."""
        if self.constants_of == (chunk.group, chunk.outputs):
            return
        self.constants_of = (chunk.group, chunk.outputs)
        each = constants_per_block(self.machine)
        first = chunk.group * output_blocks(self.layer, self.machine) + chunk.outputs.start
        load = Load(
            memory="accumulators",
            scratchpad_address=self.tiled.region("constants").address,
            global_address=self.address("constants") + first * each,
            x_size=len(chunk.outputs) * each,
        )
        self.emit(number, [load])

    def _reset(self, chunk: Chunk) -> list[Instruction]:
        pixels = len(chunk.rows) * len(chunk.columns)
        whole, rest = divmod(pixels, self.batch)
        found: list[Instruction] = []
        for inner, batch, offset in ((whole, self.batch, 0), (1, rest, whole * self.batch)):
            if inner and batch:
                micro = [MicroOperation(destination=self.tiled.sums_of(chunk) + offset)]
                found += self.loop(
                    Multiply, micro, reset=True, outer=len(chunk.outputs), inner=inner,
                    destination_outer=pixels, destination_inner=self.batch, batch=batch,
                )  # fmt: skip
        return found

    def _multiply(self, chunk: Chunk) -> list[Instruction]:
        """A micro-operation per block of outputs, block of inputs and tap; loops over positions."""
        stride_y, stride_x = self.layer.strides
        _, wide = self._window(chunk)
        whole, rest = divmod(len(chunk.columns), self.batch)
        found: list[Instruction] = []
        for inner, batch, offset in ((whole, self.batch, 0), (1, rest, whole * self.batch)):
            if not inner or not batch:
                continue
            step = {"source_step": stride_x} if self.batch > 1 else {}
            found += self.loop(
                Multiply, list(products(self.tiled, chunk, offset)), batch=batch,
                outer=len(chunk.rows), destination_outer=len(chunk.columns),
                source_outer=stride_y * wide, inner=inner, destination_inner=self.batch,
                source_inner=self.batch * stride_x, **step,
            )  # fmt: skip
        return found

    def _rescale(self, chunk: Chunk) -> list[Instruction]:
        scaling = self.layer.rescaling
        limits = {"offset": scaling.zero_point, "low": scaling.low, "high": scaling.high}
        found = self._vector(chunk, Vector, 0, operation="add")
        if self.machine.set == "full":
            return found + self._vector(chunk, Requantize, 1, **limits)
        found += self._vector(chunk, Vector, 1, operation="shift_right")
        for operation, value in (
            ("add", scaling.zero_point),
            ("maximum", scaling.low),
            ("minimum", scaling.high),
        ):
            if operation != "add" or value:
                found += self._vector(
                    chunk, Vector, 0, operation=operation, use_immediate=True, immediate=value
                )
        return found

    def _vector(
        self, chunk: Chunk, record: type[Vector | Requantize], constant: int, **fields: object
    ) -> list[Instruction]:
        """On all sums of a tile; the second operand is a constant of their channels."""
        pixels = len(chunk.rows) * len(chunk.columns)
        source = self.tiled.region("constants").address + constant
        return self.loop(
            record, [MicroOperation(self.tiled.sums_of(chunk), source)], **fields,
            outer=len(chunk.outputs), destination_outer=pixels, inner=pixels, destination_inner=1,
            source_outer=constants_per_block(self.machine),
        )  # fmt: skip

    def _store(self, chunk: Chunk) -> Iterator[Store]:
        _, height, width = self.layer.output_shape
        blocks = output_blocks(self.layer, self.machine)
        pixels = len(chunk.rows) * len(chunk.columns)
        for index, block in enumerate(chunk.outputs):
            plane = (chunk.group * blocks + block) * height
            first = (plane + chunk.rows.start) * width + chunk.columns.start
            yield Store(
                memory="outputs",
                scratchpad_address=self.tiled.sums_of(chunk) + index * pixels,
                global_address=self.address("output") + first,
                y_size=len(chunk.rows),
                x_size=len(chunk.columns),
                x_stride=width,
            )

    def finished(self, layer: Convolution) -> LayerProgram:
        """The program of what was written, for the layer as it was given."""
        self.emit(-1, [Finish(pop_after=True)])
        program = self.encoded(layer.name)
        micro = np.frombuffer(encode_micro(self.micro.operations, self.machine), np.uint8)
        place = dataclasses.replace(self.places["micro_operations"], size_bytes=micro.size)
        places = {**self.places, "micro_operations": place}
        image = np.zeros(place.offset_bytes + place.size_bytes, np.uint8)
        for name, data in (("weights", self.weights), ("constants", self.constants),
                           ("micro_operations", micro)):  # fmt: skip
            start = places[name].offset_bytes
            image[start : start + data.size] = data
        return LayerProgram(
            layer=layer,
            tiled=self.tiled,
            micro_operations_loaded=self.micro.loaded,
            instructions=tuple(self.instructions),
            owners=tuple(self.owners),
            program=program,
            image=image,
            places=places,
        )


def _constants(layer: Convolution, machine: Machine) -> np.ndarray:
    """Bytes of [block of outputs, constant, column]: biases, then factors."""
    # The input's zero point is taken off here: sums are of stored numbers.
    shifted = layer.input_zero_point * layer.weights.astype(np.int64).sum(axis=(1, 2, 3))
    bias = (layer.bias.astype(np.int64) - shifted).astype(np.int32)
    scaling = layer.rescaling
    values = [bias, scaling.multipliers, scaling.shifts]
    if machine.set == "vta":
        values = [bias, np.minimum(scaling.shifts, 31)]
    parts = [layouts.per_output(np.asarray(v), layer, machine) for v in values]
    return layouts.packed(np.stack(parts, axis=1), 32)
