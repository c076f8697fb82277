"""Operations of a quantized program as layers, and layers in the IR.

read_operation(op, weights)      the layers that compute it, in order
layer_in(layer_op, weights)      the layer that an `npu.layer` stands for
tiles_of(tiled), sizes_in(op)    sizes of tiles as attributes, and back
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from explorer.ir.dialects.npu import LayerOp
from explorer.ir.operation import TopOperation, from_attribute, identity_of
from explorer.ir.top.data import WeightOp
from explorer.npu import reading
from explorer.npu.elementwise import Elementwise
from explorer.npu.layer import Convolution, Layer, LayerError
from explorer.npu.network_fields import Described, layer_of
from explorer.npu.program import Tiled
from explorer.npu.reading import ReadLayer, is_read_through, stays
from explorer.npu.tiles import TiledLayer
from explorer.npu.vectors import TiledVectors
from explorer.npu.windows import WindowLayer

KINDS: Mapping[str, type] = {
    kind.__name__: kind for kind in (Convolution, WindowLayer, Elementwise)
}
"""By the name that the IR has for them."""
SIZES: Mapping[type, tuple[str, ...]] = {
    TiledLayer: ("rows", "columns", "outputs", "inputs"),
    TiledVectors: ("rows", "columns", "blocks"),
}
"""What `tile_layer` takes as sizes, in order."""


def read_operation(op: TopOperation, weights: Mapping[str, np.ndarray]) -> tuple[ReadLayer, ...]:
    """LayerError, with the reason, where no layers compute it."""
    found = reading.read_operation(op, weights)
    if len(found) > 1:
        raise LayerError(f"{len(found)} layers would write parts of one tensor")
    return found


def layer_in(op: LayerOp, weights: Mapping[str, np.ndarray]) -> Layer:
    """InputError for an operation that stands for none."""
    names = op.get("constants", ())
    operands = list(op.operands)[len(op.data) :]
    arrays = {
        name: np.asarray(weights[operand.owner.weight.data])
        for name, operand in zip(names, operands, strict=True)
        if isinstance(operand.owner, WeightOp)
    }
    fields = from_attribute(op.fields)
    plain = Described(kind=op.kind.data, fields=fields, arrays=arrays)
    return layer_of(identity_of(op), plain, KINDS)


def tiles_of(tiled: Tiled) -> dict[str, int]:
    """Sizes of tiles by name, how many buffers there are, and how many tiles."""
    sizes = {name: getattr(tiled, name) for name in SIZES[type(tiled)]}
    return {**sizes, "buffers": tiled.buffers}


def sizes_in(op: LayerOp) -> tuple[tuple[int, ...], int]:
    """Sizes of tiles, and buffers, as `tile_layer` takes them."""
    tiles = from_attribute(op.tiles)
    names = next(names for names in SIZES.values() if set(names) <= set(tiles))
    return tuple(tiles[name] for name in names), tiles["buffers"]


__all__ = ["ReadLayer", "is_read_through", "layer_in", "read_operation", "sizes_in", "stays",
           "tiles_of"]  # fmt: skip
