"""Several convolutions that write positions of one result: together a layer.

Of a picture that is twice as high and wide, one writes each second row and column, another those
between; of pictures side by side each writes its own. None reads what another writes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from explorer.npu.convolution_program import ConvolutionWriter, constant_sizes
from explorer.npu.layer import Convolution
from explorer.npu.places import Addresses, Placed, place
from explorer.npu.stream import Stream, barrier
from explorer.npu.tensors import Tensor
from explorer.npu.tiles import TiledLayer
from explorer.targets.npu.machine import Machine


@dataclass(frozen=True, kw_only=True)
class Piece:
    """One of the convolutions, and which of the layer's inputs it reads."""

    layer: Convolution
    reads: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Pieces:
    """One layer. Arrays: inputs and output of [channels, height, width], without a batch."""

    name: str
    pieces: tuple[Piece, ...]
    """Each with a placement; together they write every position once."""

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """Named input0, input1 and so on."""
        shapes = {
            number: tensor.shape
            for piece in self.pieces
            for number, tensor in zip(piece.reads, piece.layer.inputs, strict=True)
        }
        return tuple(Tensor(name=f"input{n}", shape=shapes[n]) for n in sorted(shapes))

    @property
    def output(self) -> Tensor:
        return self.pieces[0].layer.output

    @property
    def macs(self) -> int:
        """Multiply-accumulates of all."""
        return sum(piece.layer.macs for piece in self.pieces)

    def run(self, *inputs: np.ndarray) -> np.ndarray:
        """The outputs, i64: each is 0 where others write."""
        found = [piece.layer.run(*(inputs[n] for n in piece.reads)) for piece in self.pieces]
        return np.sum(found, axis=0)


@dataclass(frozen=True, kw_only=True)
class TiledPieces:
    """Each in tiles of its own."""

    layer: Pieces
    tiled: tuple[TiledLayer, ...]

    @property
    def machine(self) -> Machine:
        return self.tiled[0].machine

    @property
    def buffers(self) -> int:
        return self.tiled[0].buffers

    @property
    def count(self) -> int:
        return len(self.tiled)


class PiecesWriter(Stream):
    """One after the other; between two all waits until everything is stored."""

    def __init__(self, made: TiledPieces, addresses: Addresses) -> None:
        self.made, machine = made, made.machine
        constants = {
            f"{name}{index}": size
            for index, tiled in enumerate(made.tiled)
            for name, size in constant_sizes(tiled).items()
        }
        layer = made.layer
        tensors = (*layer.inputs, layer.output)
        places = place(layer.name, machine, tensors, constants, addresses)
        super().__init__(machine, places, machine.depth("micro_operations"))
        self.writers = [
            ConvolutionWriter(tiled, self._places_of(index, tiled, places))
            for index, tiled in enumerate(made.tiled)
        ]

    def _places_of(
        self, index: int, tiled: TiledLayer, places: dict[str, Placed]
    ) -> dict[str, Placed]:
        """By the names that the piece has for them."""
        piece = self.made.layer.pieces[index]
        inputs = {
            tensor.name: places[f"input{number}"]
            for number, tensor in zip(piece.reads, tiled.layer.inputs, strict=True)
        }
        own = {name: places[f"{name}{index}"] for name in constant_sizes(tiled)}
        rest = {name: places[name] for name in ("output", "micro_operations")}
        return {**inputs, **own, **rest}

    def constants(self) -> dict[str, np.ndarray]:
        """Weights and constants of all."""
        return {
            f"{name}{index}": data
            for index, writer in enumerate(self.writers)
            for name, data in writer.constants().items()
        }

    def write(self) -> None:
        """All instructions but the last; chunks are counted over all pieces."""
        for index, writer in enumerate(self.writers):
            if index:
                self.emit(-1, barrier())
            writer.micro = self.micro
            writer.write()
            first = max(self.owners, default=-1) + 1
            self.instructions += writer.instructions
            self.owners += [owner + first for owner in writer.owners]


def merged(name: str, layers: list[tuple[Convolution, tuple[int, ...]]]) -> Pieces:
    """`layers`: each with the numbers of the inputs that it reads."""
    used = sorted({number for _, reads in layers for number in reads})
    return Pieces(
        name=name,
        pieces=tuple(
            Piece(layer=replace(layer, name=f"{name}.{index}"),
                  reads=tuple(used.index(number) for number in reads))
            for index, (layer, reads) in enumerate(layers)
        ),
    )  # fmt: skip
