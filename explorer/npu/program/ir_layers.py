"""Layers in the IR: what an operation stands for, and how it is cut.

layer_in(layer_op, weights)      the layer that an `npu.layer` stands for
laid_out_in(layer_op, weights)   its constants as the machine reads them
run_layer(layer_op, layer, ...)  the value that it makes of others
tiles_of(tiled), choices_in(op)  what was chosen for its tiles, and back
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from explorer.ir.dialects.npu import LayerOp
from explorer.ir.operation import from_attribute, identity_of
from explorer.ir.top.data import WeightOp
from explorer.npu.layers.convolution import Convolution
from explorer.npu.layers.elementwise import Elementwise
from explorer.npu.layers.fields import Described, layer_of
from explorer.npu.layers.layer import Layer
from explorer.npu.layers.matrices import MatrixProduct, Transposition
from explorer.npu.layers.normalization import NormalizationLayer
from explorer.npu.layers.partition import Pieces
from explorer.npu.layers.softmax import SoftmaxLayer
from explorer.npu.layers.value_layout import stored_form
from explorer.npu.layers.windows import WindowLayer
from explorer.npu.program.compiling import CHOICES, UNCODED, Tiled
from explorer.npu.program.partition import TiledPieces
from explorer.npu.tiling.convolution import TiledLayer

KINDS: Mapping[str, type] = {
    kind.__name__: kind
    for kind in (
        Convolution,
        WindowLayer,
        Elementwise,
        Pieces,
        MatrixProduct,
        Transposition,
        SoftmaxLayer,
        NormalizationLayer,
    )
}
"""By the name that the IR has for them."""


def layer_in(op: LayerOp, weights: Mapping[str, np.ndarray]) -> Layer:
    """InputError for an operation that stands for none."""
    names = op.get("constants", ())
    arrays = _arrays(op, names, len(op.data), weights)
    fields = {path: from_attribute(attribute) for path, attribute in op.fields.items()}
    plain = Described(kind=op.KIND, fields=fields, arrays=arrays)
    return layer_of(identity_of(op), plain, KINDS)


def laid_out_in(op: LayerOp, weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """u8 by name: constants as the machine reads them; none before they are laid out."""
    before = len(op.data) + len(op.get("constants", ()))
    return _arrays(op, op.get("laid_out", ()), before, weights)


def _arrays(
    op: LayerOp, names: Sequence[str], first: int, weights: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Constant operands by name, from the first one on."""
    operands = list(op.operands)[first : first + len(names)]
    return {
        name: np.asarray(weights[operand.owner.weight.data])
        for name, operand in zip(names, operands, strict=True)
        if isinstance(operand.owner, WeightOp)
    }


def run_layer(op: LayerOp, layer: Layer, read: Sequence[np.ndarray]) -> np.ndarray:
    """The value that a layer makes of others, which are given as the program means them."""
    forms = [stored_form(value) for value in op.data]
    numbers = [form.signed(array) for form, array in zip(forms, read, strict=True)]
    tensors = layer.inputs
    given = [x.reshape(t.shape) for x, t in zip(numbers, tensors, strict=False)]
    found = layer.run(*given)
    if op.is_part:
        found = np.where(written(layer), found, numbers[-1].reshape(found.shape))
    return stored_form(op.output).logical(found)


def written(layer: Layer) -> np.ndarray:
    """bool of the output's shape: what the layer writes of it."""
    mask = np.ones(layer.output.shape, bool)
    placement = getattr(layer, "placement", None)
    if isinstance(layer, Convolution) and placement is not None:
        mask[:] = False
        (oy, ox), (sy, sx) = placement.offset, placement.steps
        _, height, width = layer.output_shape
        mask[:, oy : oy + height * sy : sy, ox : ox + width * sx : sx] = True
    return mask


def tiles_of(tiled: Tiled) -> dict[str, int | str]:
    """What was chosen for a layer, by name: sizes of its tiles, their order, buffers."""
    found = {name: getattr(tiled, name) for name in CHOICES[type(tiled)]}
    parts = tiled.tiled if isinstance(tiled, TiledPieces) else (tiled,)
    is_uncoded = any(isinstance(part, TiledLayer) and part.is_uncoded for part in parts)
    return {**found, UNCODED: 1} if is_uncoded else found


def choices_in(op: LayerOp) -> dict[str, int | str]:
    """What an operation says of its tiles, as `tile_layer` takes it."""
    return dict(from_attribute(op.tiles))
