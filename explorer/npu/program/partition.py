"""Pieces of one result as instructions: one after the other, each in tiles of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from explorer.npu.layers.partition import Pieces
from explorer.npu.layers.tensors import Tensor
from explorer.npu.program.addresses import Addresses, Placed, place
from explorer.npu.program.convolution import (
    CONSTANTS,
    ConvolutionWriter,
    constant_sizes,
    constants_of,
)
from explorer.npu.program.stream import Stream, barrier
from explorer.npu.program.weights import CodedWeights, coded_weights
from explorer.npu.tiling.chunks import Chunk
from explorer.npu.tiling.convolution import TiledLayer
from explorer.targets.npu.machine import Machine


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

    def on(self, machine: Machine) -> TiledPieces:
        """The same on a machine that has their places, and reads constants as this one does."""
        found = replace(self, tiled=tuple(replace(one, machine=machine) for one in self.tiled))
        if "constants" in vars(self):
            vars(found)["constants"] = self.constants
        return found

    @cached_property
    def constants(self) -> SharedConstants:
        """Those of all, each once."""
        return _shared_constants(self)


@dataclass(frozen=True, kw_only=True)
class SharedConstants:
    """Constants of several convolutions; equal ones lie in memory once."""

    data: dict[str, np.ndarray]
    """Bytes by place."""
    sizes: dict[str, tuple[str, int]]
    """Content and size in bytes by place."""
    places: dict[tuple[int, str], str]
    """The place of a piece's constants, by its number and the name that it has for them."""


def _shared_constants(made: TiledPieces) -> SharedConstants:
    found = SharedConstants(data={}, sizes={}, places={})
    known: dict[tuple[str, bytes], str] = {}
    for index, tiled in enumerate(made.tiled):
        data = constants_of(tiled)
        sizes = constant_sizes(tiled, _chunks_of(tiled)[1])
        for name, size in sizes.items():
            one = known.setdefault((name, data[name].tobytes()), f"{name}{index}")
            found.places[index, name] = one
            if one not in found.sizes:
                found.sizes[one], found.data[one] = size, data[name]
    return found


def _chunks_of(tiled: TiledLayer) -> tuple[Sequence[Chunk], CodedWeights | None]:
    chunks = tiled.chunks()
    return chunks, coded_weights(tiled, chunks)


class PiecesWriter(Stream):
    """One after the other; between two all waits until everything is stored."""

    def __init__(self, made: TiledPieces, addresses: Addresses) -> None:
        self.made, machine = made, made.machine
        self.shared = made.constants
        layer = made.layer
        tensors = (*layer.inputs, layer.output)
        places = place(layer.name, machine, tensors, self.shared.sizes, addresses)
        super().__init__(machine, places, machine.depth("micro_operations"))
        self.writers = [
            ConvolutionWriter(tiled, self._places_of(index, tiled, places), *_chunks_of(tiled))
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
        own = {name: places[self.shared.places[index, name]] for name in CONSTANTS}
        rest = {name: places[name] for name in ("output", "micro_operations")}
        return {**inputs, **own, **rest}

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return (*self.made.layer.inputs, self.made.layer.output)

    def constants(self) -> dict[str, np.ndarray]:
        """Weights and constants of all."""
        return self.shared.data

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
