"""Operations of a quantized program as layers, and layers in the IR.

    read_operation(op, weights)      the layers that compute it, in order
    layer_in(layer_op, weights)      the layer that an `npu.layer` stands for
    tiles_of(tiled), sizes_in(op)    sizes of tiles as attributes, and back

A matrix product that reads a picture flattened is a convolution whose window is all of it, so that
nothing has to be moved before.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.ir import Attribute, SSAValue

from explorer.ir.dialects.npu import LayerOp
from explorer.ir.operation import TopOperation, from_attribute, identity_of
from explorer.ir.top.data import ReturnOp, WeightOp
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.types import static_shape
from explorer.npu.elementwise import Elementwise
from explorer.npu.layer import Convolution, Layer, LayerError
from explorer.npu.network_fields import Described, layer_of
from explorer.npu.network_values import are_same_bytes, stored_form
from explorer.npu.program import Tiled
from explorer.npu.reading import read_one
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


@dataclass(frozen=True, kw_only=True)
class ReadLayer:
    """One of the layers that compute an operation."""

    layer: Layer
    reads: tuple[SSAValue | int, ...]
    """A value of the program, or the number of an earlier layer of the same operation."""
    result: Attribute | None = None
    """Type of what it makes; None: it makes the operation's result."""


def read_operation(op: TopOperation, weights: Mapping[str, np.ndarray]) -> tuple[ReadLayer, ...]:
    """LayerError, with the reason, where no layers compute it."""
    found = read_one(op, weights)
    layer, reads = found.layer, (op.operands[0],)
    if isinstance(op, MatMulOp):
        layer, reads = _unflattened(op, layer)
    read = ReadLayer(layer=layer, reads=reads)
    _check(op, read)
    return (read,)


def _unflattened(op: MatMulOp, layer: Convolution) -> tuple[Convolution, tuple[SSAValue, ...]]:
    """A product with a picture that was flattened, as a convolution with a window of its size."""
    value = op.operands[0]
    owner = value.owner
    if not isinstance(owner, TopOperation) or not owner.is_view or stays(owner):
        return layer, (value,)
    picture = stored_form(owner.operands[0])
    if len(picture.logical_shape) != 4 or layer.input_shape != (prod(picture.shape), 1, 1):
        return layer, (value,)
    weights = layer.weights.reshape(-1, *picture.shape)
    wide = dataclasses.replace(layer, input_shape=picture.shape, weights=weights)
    return wide, (owner.operands[0],)


def _check(op: TopOperation, read: ReadLayer) -> None:
    """Every layer reads and writes tensors as they lie."""
    tensors = (*read.layer.inputs, read.layer.output)
    for value, tensor in zip((*read.reads, op.results[0]), tensors, strict=True):
        assert isinstance(value, SSAValue)
        stored = stored_form(value)
        if not stored.agrees(tensor):
            raise LayerError(f"it takes {list(tensor.shape)} of what lies as {list(stored.shape)}")


def stays(op: TopOperation) -> bool:
    """Whether nothing has to be computed for it: weights, the return, views of the same bytes."""
    if isinstance(op, WeightOp | ReturnOp):
        return True
    return op.is_view and are_same_bytes(op.operands[0], op.results[0])


def is_read_through(op: TopOperation) -> bool:
    """Whether it is a flattened picture that nobody but products reads, which take the picture."""
    if not op.is_view or stays(op):
        return False
    is_flat = len(static_shape(op.operands[0])) == 4 and len(static_shape(op.results[0])) == 2
    users = [use.operation for use in op.results[0].uses]
    return (
        is_flat
        and static_shape(op.results[0])[0] == 1
        and all(isinstance(user, MatMulOp) and user.operands[0] is op.results[0] for user in users)
    )


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
