"""Several convolutions that write positions of one result: together a layer.

Of a picture that is twice as high and wide, one writes each second row and column, another those
between; of pictures side by side, or of a batch, each writes its own. None reads what another
writes, and constants that several have lie in memory once.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, fields, is_dataclass, replace

import numpy as np

from explorer.npu.layers.convolution import Convolution, Placement
from explorer.npu.layers.layer import Layer, LayerError
from explorer.npu.layers.tensors import Tensor


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


def form_of(layer: Convolution) -> Hashable:
    """Equal for pieces that differ in their names, in where they read and write, and in numbers of
    weights alone."""
    placement = layer.placement and replace(layer.placement, offset=(0, 0))
    plain = replace(
        layer, name="", placement=placement, within=layer.within[:1], weights=layer.weights[:0]
    )
    return layer.weights.shape, _content(plain)


def _content(value: object) -> Hashable:
    """Equal for equal values, arrays included."""
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.str, value.tobytes()
    if is_dataclass(value):
        return type(value), *(_content(getattr(value, one.name)) for one in fields(value))
    return tuple(map(_content, value)) if isinstance(value, tuple) else value


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


def over_pictures(layer: Layer, count: int) -> Layer:
    """What a layer makes of one picture, of each of so many, which lie one below the other."""
    if count == 1:
        return layer
    if isinstance(layer, Convolution) and _is_of_points(layer):
        channels, height, width = layer.input_shape
        return replace(layer, input_shape=(channels, count * height, width))
    if not isinstance(layer, Convolution | Pieces):
        raise LayerError("its windows are those of one picture, not of a batch")
    of_one = layer.pieces if isinstance(layer, Pieces) else (Piece(layer=layer, reads=(0,)),)
    return merged(
        layer.name,
        [
            (_of_picture(piece.layer, number, count), piece.reads)
            for number in range(count)
            for piece in of_one
        ],
    )


def _is_of_points(layer: Convolution) -> bool:
    """Whether each position is made of one."""
    is_whole = layer.placement is None and not layer.within
    return is_whole and layer.kernel == layer.strides == (1, 1) and not any(layer.pads)


def _of_picture(layer: Convolution, number: int, count: int) -> Convolution:
    _, height, width = layer.output_shape
    placed = layer.placement or Placement(size=(height, width))
    rows, columns = placed.size
    return replace(
        layer,
        within=(count * layer.input_shape[1], number * layer.input_shape[1]),
        placement=replace(placed, size=(count * rows, columns),
                          offset=(placed.offset[0] + number * rows, placed.offset[1])),
    )  # fmt: skip
