"""Any layer as a program: tiled, written, and with the image that it runs on."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from explorer.errors import InputError
from explorer.npu.layers.accesses import VectorLayer
from explorer.npu.layers.averages import divided
from explorer.npu.layers.convolution import Convolution
from explorer.npu.layers.elementwise import Elementwise, flattened_elementwise
from explorer.npu.layers.layer import Layer, LayerError, RoomError
from explorer.npu.layers.matrices import MatrixProduct, Transposition
from explorer.npu.layers.partition import Pieces, form_of
from explorer.npu.layers.requantization_parameters import with_own_factors
from explorer.npu.layers.rows import RowLayer
from explorer.npu.layers.windows import WindowLayer
from explorer.npu.program.addresses import ANYWHERE, Addresses, Placed
from explorer.npu.program.convolution import flattened, narrowed, write_convolution
from explorer.npu.program.elementwise import ElementwiseWriter
from explorer.npu.program.matrices import MatrixWriter
from explorer.npu.program.partition import PiecesWriter, TiledPieces
from explorer.npu.program.requirements import convolution_problem
from explorer.npu.program.row import RowWriter
from explorer.npu.program.stream import Stream
from explorer.npu.program.window import WindowWriter
from explorer.npu.tiling.coded import without_decoders
from explorer.npu.tiling.convolution import (
    BUFFERS,
    TiledLayer,
    cuttable,
    placed,
    tile_convolution,
    tile_cut,
)
from explorer.npu.tiling.matrices import TiledMatrices, tile_matrices
from explorer.npu.tiling.vector import TiledVectors, tile_vectors, vector_problem
from explorer.targets.npu.encoding import encode_micro
from explorer.targets.npu.instructions import Instruction
from explorer.targets.npu.machine import Machine

LOAD, COMPUTE, STORE = range(3)
Tiled = TiledLayer | TiledVectors | TiledPieces | TiledMatrices
Choices = Mapping[str, int | str]
"""What is chosen for the tiles of a layer, by name (see `CHOICES`)."""
CHOICES: Mapping[type, tuple[str, ...]] = {
    TiledLayer: (
        "rows", "columns", "outputs", "inputs", "order", "constants", "together",
        "input_buffers", "weight_buffers", "sum_buffers",
    ),
    TiledVectors: ("rows", "columns", "blocks", "buffers"),
    TiledPieces: ("count", "buffers"),
    TiledMatrices: ("rows", "outputs", "inputs", "buffers"),
}  # fmt: skip
"""By kind the names of what is chosen; `sizes` are the first of them."""
UNCODED = "uncoded"
"""A choice that only layers have whose weights lie as they are on a machine that decodes some."""


@dataclass(frozen=True, kw_only=True)
class LayerProgram:
    """A layer as a program, with the image that it runs on but for its inputs."""

    layer: Layer
    tiled: Tiled
    """Of the layer, or of one that is the same on a single row."""
    instructions: tuple[Instruction, ...]
    """Each queue gives and takes as many tokens; the last one waits until all is stored."""
    owners: tuple[int, ...]
    """Of every instruction: its chunk or tile, in the order in which they run; -1 of what belongs
    to none."""
    program: bytes
    image: np.ndarray
    """u8, from address 0 on; zeros where inputs and output lie."""
    micro_operations_loaded: int
    """With repetitions."""
    places: dict[str, Placed]
    """Inputs and output by name, constants by kind, and micro_operations."""

    def image_with(self, *inputs: np.ndarray) -> np.ndarray:
        """Global memory with inputs of [channels, height, width]."""
        layer, image = self.layer, self.image.copy()
        for tensor, x in zip(layer.inputs, inputs, strict=True):
            if x.shape != tensor.shape:
                raise InputError(f"{layer.name} takes {tensor.shape}, not {x.shape}")
            place = self.places[tensor.name]
            data = tensor.pack(x, self.tiled.machine)
            image[place.offset_bytes : place.offset_bytes + place.size_bytes] = data
        return image

    def output_of(self, image: bytes | np.ndarray) -> np.ndarray:
        """The output, i64 of [channels, height, width], out of global memory behind the run."""
        place = self.places["output"]
        data = np.frombuffer(image, np.uint8) if isinstance(image, bytes) else image
        mine = data[place.offset_bytes : place.offset_bytes + place.size_bytes]
        return self.layer.output.unpack(mine, self.tiled.machine)


def compile_layer(
    layer: Layer,
    machine: Machine,
    *,
    buffers: int | None = None,
    sizes: Sequence[int] | None = None,
    choices: Choices | None = None,
    addresses: Addresses = ANYWHERE,
) -> LayerProgram:
    """The layer in the largest tiles that fit, or in those of `sizes` or of all `choices`.

    `sizes`: of a convolution rows, columns, blocks of outputs and of inputs; of layers of the
    vector engine rows, columns and blocks, of products of computed matrices rows, blocks of
    outputs and of inputs; pieces are cut each by itself. `buffers`: 1 loads only when nothing
    computes; by default 2, or 1 where no tile fits twice. `addresses`: where in global memory its
    tensors and constants lie.
    Raises `LayerError`, naming what the machine lacks.
    """
    if choices is not None:
        tiled = tile_as(layer, machine, choices)
    else:
        tiled = tile_layer(layer, machine, buffers=buffers, sizes=sizes)
    stream = write_layer(tiled, addresses)
    program = stream.finished(layer.name)
    micro = np.frombuffer(encode_micro(stream.micro.operations, machine), np.uint8)
    place = replace(stream.places["micro_operations"], size_bytes=micro.size)
    places = {**stream.places, "micro_operations": place}
    image = np.zeros(max(p.offset_bytes + p.size_bytes for p in places.values()), np.uint8)
    for name, data in {**stream.constants(), "micro_operations": micro}.items():
        start = places[name].offset_bytes
        assert data.size == places[name].size_bytes, name
        image[start : start + data.size] = data
    return LayerProgram(
        layer=layer,
        tiled=tiled,
        instructions=tuple(stream.instructions),
        owners=tuple(stream.owners),
        program=program,
        image=image,
        micro_operations_loaded=stream.micro.loaded,
        places=places,
    )


def tile_layer(
    layer: Layer,
    machine: Machine,
    *,
    buffers: int | None = None,
    sizes: Sequence[int] | None = None,
) -> Tiled:
    """See `compile_layer`. Raises `LayerError` for what the machine cannot compute."""
    if buffers is not None:
        return _tiled(layer, machine, buffers, sizes)
    return tile_with_reason(layer, machine, sizes)[0]


def tile_with_reason(
    layer: Layer, machine: Machine, sizes: Sequence[int] | None = None
) -> tuple[Tiled, str]:
    """`tile_layer`, and why there is one buffer of each kind; empty where two fit."""
    try:
        return _tiled(layer, machine, BUFFERS, sizes), ""
    except RoomError as error:
        reason = error.message
    return _tiled(layer, machine, 1, sizes), reason


def tile_as(layer: Layer, machine: Machine, choices: Choices) -> Tiled:
    """In the tiles that `choices` say, all of them (see `CHOICES`). Raises `LayerError`."""
    if UNCODED in choices:
        others = {name: value for name, value in choices.items() if name != UNCODED}
        return with_machine(tile_as(layer, without_decoders(machine), others), machine)
    if isinstance(layer, Pieces):
        return _tiled(layer, machine, int(choices["buffers"]), None)
    layer = as_computed(layer, machine)
    if isinstance(layer, Convolution):
        return placed(cuttable(layer, machine).tiled(**choices))
    *sizes, buffers = (int(choices[name]) for name in CHOICES[_kind_of(layer)])
    return _cut(layer, machine, buffers, sizes)


def with_machine(tiled: Tiled, machine: Machine) -> Tiled:
    """The same tiles on another machine that has their places; weights stay coded, or as they
    are."""
    if isinstance(tiled, TiledPieces):
        return tiled.on(machine)
    return replace(tiled, machine=machine)


def _kind_of(layer: Layer) -> type:
    return TiledMatrices if isinstance(layer, MatrixProduct | Transposition) else TiledVectors


def as_computed(
    layer: Layer, machine: Machine
) -> Convolution | MatrixProduct | Transposition | VectorLayer:
    """The layer as it is cut: with the machine's own factors, positions in one row, weights of its
    width. Raises `LayerError` for what the machine lacks."""
    layer = with_own_factors(layer, machine)
    problem = queue_problem(machine)
    if isinstance(layer, Convolution):
        found = divided(layer, machine)
        problem = problem or convolution_problem(found, machine)
    elif isinstance(layer, MatrixProduct | Transposition):
        found = layer
        problem = problem or layer.problem(machine)
    else:
        found = _vector_layer(layer)
        problem = problem or vector_problem(found, machine)
    if problem:
        raise LayerError(f"{layer.name} cannot be computed by {machine.name}: {problem}")
    return narrowed(flattened(found), machine) if isinstance(found, Convolution) else found


def _tiled(layer: Layer, machine: Machine, buffers: int, sizes: Sequence[int] | None) -> Tiled:
    if isinstance(layer, Pieces):  # each is cut by itself
        return TiledPieces(layer=layer, tiled=tuple(_tiled_pieces(layer, machine, buffers)))
    return _cut(as_computed(layer, machine), machine, buffers, sizes)


def _tiled_pieces(layer: Pieces, machine: Machine, buffers: int) -> Iterator[TiledLayer]:
    """Pieces that are cut alike have the same tiles."""
    known: dict[Hashable, TiledLayer] = {}
    for piece in layer.pieces:
        computed = as_computed(piece.layer, machine)
        assert isinstance(computed, Convolution)
        cut = cuttable(computed, machine)
        form = form_of(computed), cut.form
        if form not in known:
            known[form] = tile_cut(cut, buffers)
        yield replace(
            known[form], layer=computed, bands=cut.bands, repeated=cut.repeated, coding=cut.coding
        )


def _cut(layer: Layer, machine: Machine, buffers: int, sizes: Sequence[int] | None) -> Tiled:
    if isinstance(layer, Convolution):
        return tile_convolution(layer, machine, buffers, sizes)
    if isinstance(layer, MatrixProduct | Transposition):
        return tile_matrices(layer, machine, buffers, sizes)
    return tile_vectors(_vector_layer(layer), machine, buffers, sizes)


def _vector_layer(layer: Layer) -> VectorLayer:
    assert isinstance(layer, Elementwise | RowLayer | WindowLayer)
    return flattened_elementwise(layer) if isinstance(layer, Elementwise) else layer


def write_layer(tiled: Tiled, addresses: Addresses = ANYWHERE) -> Stream:
    """What will write the instructions of a tiled layer."""
    if isinstance(tiled, TiledLayer):
        return write_convolution(tiled, addresses)
    if isinstance(tiled, TiledPieces):
        return PiecesWriter(tiled, addresses)
    if isinstance(tiled, TiledMatrices):
        return MatrixWriter(tiled, addresses)
    layer = tiled.layer
    if isinstance(layer, Elementwise):
        return ElementwiseWriter(tiled, layer, addresses)
    if isinstance(layer, RowLayer):
        return RowWriter(tiled, layer, addresses)
    assert isinstance(layer, WindowLayer)
    return WindowWriter(tiled, layer, addresses)


def queue_problem(machine: Machine) -> str:
    """Why schedules do not suit a machine; empty where they do."""
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
