"""What each tile of a layer makes and reads: rectangles of its output and of its inputs.

    parts = parts_of(write_layer(tiled))
    parts.tiles[2].rows, parts.tiles[2].reads[0].rows

A tile reads a halo around what it makes where windows reach beyond their strides; what it reads
beyond an input is padding. Convolutions of 1 x 1 are tiled as one row of all positions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from explorer.npu.layers.convolution import Convolution
from explorer.npu.layers.matrices import Transposition
from explorer.npu.program.convolution import ConvolutionWriter
from explorer.npu.program.matrices import MatrixWriter
from explorer.npu.program.partition import PiecesWriter
from explorer.npu.program.stream import Stream
from explorer.npu.program.vector import VectorWriter
from explorer.npu.tiling.bands import input_blocks
from explorer.npu.tiling.convolution import Chunk, TiledLayer, window
from explorer.npu.tiling.matrices import TiledMatrices
from explorer.npu.tiling.vector import TiledVectors


@dataclass(frozen=True, kw_only=True)
class Read:
    """What a tile reads of an input, in its rows and columns; beyond them lies padding."""

    tensor: str
    size: tuple[int, int]
    """Height and width of the input."""
    rows: range
    columns: range


@dataclass(frozen=True, kw_only=True)
class TilePart:
    """What a tile makes, in channels, rows and columns of the output, and what it reads."""

    channels: range
    rows: range
    columns: range
    reads: tuple[Read, ...]


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The tiles of a layer, in the order in which they run."""

    size: tuple[int, int]
    """Height and width of the output as it is tiled."""
    tiles: tuple[TilePart, ...]
    steps: tuple[int, ...]
    """Of every owner of instructions (see `Stream.owners`): its tile."""


def parts_of(stream: Stream) -> Parts:
    """Of what a stream writes, whatever layer that is."""
    if isinstance(stream, ConvolutionWriter):
        return _of_convolution(stream.tiled, stream.chunks)
    if isinstance(stream, PiecesWriter):
        return _joined([parts_of(writer) for writer in stream.writers])
    if isinstance(stream, MatrixWriter):
        return _of_matrices(stream.tiled)
    assert isinstance(stream, VectorWriter)
    tiled = stream.tiled
    tiles = tuple(_vector_parts(tiled))
    _, height, width = tiled.layer.output.shape
    return Parts(size=(height, width), tiles=tiles, steps=tuple(range(len(tiles))))


def _of_convolution(tiled: TiledLayer, chunks: Sequence[Chunk]) -> Parts:
    layer, machine = tiled.layer, tiled.machine
    blocks, tensors = input_blocks(layer, machine), layer.pictures
    read: dict[int, dict[int, None]] = {}
    for chunk in chunks:
        read.setdefault(chunk.tile, {}).update((blocks[i].part, None) for i in chunk.inputs)
    tiles = tuple(
        TilePart(
            channels=_channels(chunk.outputs, machine.columns, layer.weights.shape[0]),
            rows=_placed(layer, chunk.rows, 0),
            columns=_placed(layer, chunk.columns, 1),
            reads=(
                *(
                    Read(
                        tensor=tensors[number].name,
                        size=tensors[number].shape[1:],
                        rows=_window(layer, chunk.rows, 0),
                        columns=_window(layer, chunk.columns, 1),
                    )
                    for number in read[chunk.tile]
                ),
                *(
                    Read(
                        tensor=other.name,
                        size=other.shape[1:],
                        rows=chunk.rows,
                        columns=chunk.columns,
                    )
                    for other in layer.inputs[len(tensors) :]
                ),
            ),
        )
        for chunk in chunks
        if chunk.is_first
    )
    _, *size = layer.output.shape
    return Parts(size=(size[0], size[1]), tiles=tiles, steps=tuple(c.tile for c in chunks))


def _window(layer: Convolution, made: range, axis: int) -> range:
    first = made.start * layer.strides[axis] - layer.pads[axis]
    first += 0 if axis else layer.first_row
    return range(first, first + window(layer, axis, len(made)))


def _placed(layer: Convolution, made: range, axis: int) -> range:
    if layer.placement is None:
        return made
    first, step = layer.placement.offset[axis], layer.placement.steps[axis]
    return range(first + made.start * step, first + (made.stop - 1) * step + 1, step)


def _channels(blocks: range, each: int, count: int) -> range:
    return range(blocks.start * each, min(blocks.stop * each, count))


def _of_matrices(tiled: TiledMatrices) -> Parts:
    """Positions of a batch of matrices lie in one row."""
    layer, machine = tiled.layer, tiled.machine
    chunks = list(tiled.chunks())
    written = layer.columns
    if isinstance(layer, Transposition):
        written = max(chunk.outputs.stop for chunk in chunks) * machine.columns
    tiles = []
    for chunk in chunks:
        if not chunk.is_first:
            continue
        made = _moved(chunk.rows, chunk.matrix * layer.rows)
        right = _channels(chunk.outputs, machine.columns, layer.columns)
        reads = {"left": made, "right": _moved(right, chunk.matrix * layer.right_rows)}
        tiles.append(
            TilePart(
                channels=_channels(chunk.outputs, machine.columns, written),
                rows=range(1),
                columns=made,
                reads=tuple(
                    Read(tensor=tensor.name, size=(1, tensor.shape[2]), rows=range(1),
                         columns=reads[tensor.name])
                    for tensor in layer.inputs
                    if reads[tensor.name]  # a transposition fills blocks with zeros, too
                ),
            )
        )  # fmt: skip
    size = (1, layer.output.shape[2])
    return Parts(size=size, tiles=tuple(tiles), steps=tuple(chunk.tile for chunk in chunks))


def _moved(whole: range, by: int) -> range:
    return range(whole.start + by, whole.stop + by)


def _vector_parts(tiled: TiledVectors) -> Iterator[TilePart]:
    layer = tiled.layer
    for tile in tiled.tiles():
        yield TilePart(
            channels=_channels(tile.blocks, tiled.machine.columns, layer.output.shape[0]),
            rows=tile.rows,
            columns=tile.columns,
            reads=tuple(
                Read(
                    tensor=access.tensor.name,
                    size=access.tensor.shape[1:],
                    rows=access.read(tile.rows, 0),
                    columns=access.read(tile.columns, 1),
                )
                for access in layer.accesses
            ),
        )


def _joined(found: Sequence[Parts]) -> Parts:
    """Of pieces, one behind the other: each writes positions of one output."""
    tiles: list[TilePart] = []
    steps: list[int] = []
    for one in found:
        steps += [len(tiles) + tile for tile in one.steps]
        tiles += one.tiles
    return Parts(size=found[0].size, tiles=tuple(tiles), steps=tuple(steps))
