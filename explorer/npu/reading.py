"""The layers of a quantized program.

    found = read_layers(c["fuse-quantization"].after)
    found.layers[0].layer          a Convolution: convolutions, products and averages
    found.windows[0].layer         a WindowLayer: maxima of windows, functions by table
    found.refused                  those that are none, with the reason

Unsigned bytes are stored as signed ones, 128 less: that is a flipped bit, and moves zero points and
limits along.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import Signedness, TensorType
from xdsl.ir import Operation, SSAValue

from explorer.ir.program import Snapshot
from explorer.ir.requantization import fixed_point, ratio_of
from explorer.ir.structure import operations, value_name
from explorer.ir.top.data import WeightOp
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.top.pooling import PoolOp
from explorer.ir.top.quantization.lookup import LookupOp
from explorer.ir.types import QuantizedType, element_type_of, static_shape
from explorer.npu.layer import Convolution, LayerError, Rescaling
from explorer.npu.windows import WindowLayer


@dataclass(frozen=True, kw_only=True)
class FoundLayer:
    """A layer of a program, and how its values are stored."""

    layer: Convolution
    input: str
    """Name of the value."""
    output: str
    input_offset: int
    """What is subtracted from stored numbers so that they are signed: 0 or half their range."""
    output_offset: int
    is_product: bool
    """Whether rows of a matrix become positions."""

    def stored_input(self, value: np.ndarray) -> np.ndarray:
        """The value as the layer takes it: signed, [inputs, height, width]."""
        signed = value.astype(np.int64) - self.input_offset
        if self.is_product:
            return signed.reshape(-1, signed.shape[-1]).T[:, None, :]
        return signed.reshape(self.layer.input_shape)

    def stored_output(self, value: np.ndarray) -> np.ndarray:
        """The value as the layer gives it."""
        signed = value.astype(np.int64) - self.output_offset
        if self.is_product:
            return signed.reshape(-1, signed.shape[-1]).T[:, None, :]
        return signed.reshape(self.layer.output_shape)


@dataclass(frozen=True, kw_only=True)
class FoundWindows:
    """A maximum or a function of a program, and how its values are stored."""

    layer: WindowLayer
    input: str
    """Name of the value."""
    output: str
    input_offset: int
    """See `FoundLayer.input_offset`."""
    output_offset: int

    def stored_input(self, value: np.ndarray) -> np.ndarray:
        """The value as the layer takes it: signed, [channels, height, width]."""
        return (value.astype(np.int64) - self.input_offset).reshape(self.layer.input_shape)

    def stored_output(self, value: np.ndarray) -> np.ndarray:
        """The value as the layer gives it."""
        return (value.astype(np.int64) - self.output_offset).reshape(self.layer.output_shape)


@dataclass(frozen=True, kw_only=True)
class FoundLayers:
    layers: tuple[FoundLayer, ...]
    windows: tuple[FoundWindows, ...]
    refused: tuple[tuple[str, str], ...]
    """Name of the result and reason, of every other operation of these kinds."""


def read_layers(snapshot: Snapshot) -> FoundLayers:
    """All layers of a snapshot of level top, in program order."""
    layers: list[FoundLayer] = []
    windows: list[FoundWindows] = []
    refused: list[tuple[str, str]] = []
    for op in operations(snapshot.program):
        try:
            if isinstance(op, ConvOp | MatMulOp | PoolOp | LookupOp):
                found = read_one(op, snapshot.weights)
                (layers if isinstance(found, FoundLayer) else windows).append(found)
        except LayerError as error:
            refused.append((value_name(op.results[0]), error.message))
    return FoundLayers(layers=tuple(layers), windows=tuple(windows), refused=tuple(refused))


def read_one(op: Operation, weights: Mapping[str, np.ndarray]) -> FoundLayer | FoundWindows:
    """The layer of one operation; LayerError, with the reason, of what is none."""
    if isinstance(op, ConvOp | MatMulOp):
        return _read(op, weights)
    if isinstance(op, PoolOp):
        return _read_pool(op)
    if isinstance(op, LookupOp):
        return _read_lookup(op)
    raise LayerError(f"{op.name} is no layer")


def _read(op: ConvOp | MatMulOp, weights_by_name: Mapping[str, np.ndarray]) -> FoundLayer:
    left, right = op.operands[0], op.operands[1]
    kind, of_weights = _quantized(left, "its input"), _quantized(right, "its second operand")
    if op.requantization is None:
        raise LayerError("its sums are not requantized in it")
    for name in ("residual", "left_zero", "right_zero", "right_sums", "scale", "channel_scales"):
        if getattr(op, name, None) is not None:
            raise LayerError(f"it has an operand {name}, which layers have not")
    if op.activation is not None:
        raise LayerError("it has an activation of floats")
    if np.any(of_weights.zero_point_array):
        raise LayerError("its weights have zero points")
    if _offset(of_weights):
        raise LayerError("its weights have no sign")
    is_product = isinstance(op, MatMulOp)
    weights = _constant(right, weights_by_name, "its second operand")
    if is_product and weights.ndim != 2:
        raise LayerError("it multiplies a batch of matrices")
    weights = weights.T[:, :, None, None] if is_product else weights
    if weights.ndim != 4:
        raise LayerError(f"its window has {weights.ndim - 2} axes, and layers have two")
    shape = static_shape(left)
    if not is_product and shape[0] != 1:
        raise LayerError(f"its batch is {shape[0]}, and layers have one of 1")
    zero = int(kind.zero_point_array[0])
    bias = np.zeros(weights.shape[0], np.int64)
    if op.bias is not None:
        bias = _constant(op.bias, weights_by_name, "its bias").astype(np.int64).reshape(-1)
    if isinstance(op, MatMulOp) and op.sign_sums is not None:
        # What flipped bits lack is added beforehand; products with the weights lack nothing.
        signs = _constant(op.sign_sums, weights_by_name, "its sign sums").reshape(-1)
        negative = np.minimum(weights.astype(np.int64), 0).sum(axis=(1, 2, 3))
        bias = bias + signs.astype(np.int64) + negative
    # Where something else than the zero point is subtracted, padding counts as the difference.
    bias = bias + (zero - op.input_offset) * weights.astype(np.int64).sum(axis=(1, 2, 3))
    positions = (weights.shape[1], 1, int(np.prod(shape[:-1])))
    numbers = {} if isinstance(op, MatMulOp) else _windows(op)
    layer = Convolution(
        name=value_name(op.output),
        input_shape=positions if is_product else (shape[1], shape[2], shape[3]),
        weights=weights.astype(np.int64),
        bias=(bias + 2**31) % 2**32 - 2**31,
        rescaling=_rescaling(op, weights.shape[0]),
        input_zero_point=zero - _offset(kind),
        **numbers,
    )
    return FoundLayer(
        layer=layer,
        input=value_name(left),
        output=value_name(op.output),
        input_offset=_offset(kind),
        output_offset=_offset(op.requantization.to),
        is_product=is_product,
    )


def _windows(op: ConvOp) -> dict[str, Any]:
    return {
        "strides": tuple(op.get("strides")),
        "dilations": tuple(op.get("dilations")),
        "pads": tuple(op.get("pads")),
        "groups": int(op.get("group")),
    }


def _read_pool(op: PoolOp) -> FoundWindows:
    kind, shape = _quantized(op.input, "its input"), static_shape(op.input)
    if op.get("kind") != "max":
        raise LayerError(f"a pool of kind {op.get('kind')} has no form in integers")
    if len(shape) != 4:
        raise LayerError(f"its window has {len(shape) - 2} axes, and layers have two")
    if shape[0] != 1:
        raise LayerError(f"its batch is {shape[0]}, and layers have one of 1")
    layer = WindowLayer(
        name=value_name(op.output),
        input_shape=(shape[1], shape[2], shape[3]),
        bits=kind.storage.width.data,
        kernel=tuple(op.get("window")),
        strides=tuple(op.get("strides")),
        dilations=tuple(op.get("dilations")),
        pads=tuple(op.get("pads")),
    )
    return _found(op, layer, kind, kind)


def _read_lookup(op: LookupOp) -> FoundWindows:
    kind, entries = _quantized(op.input, "its input"), op.entries
    bits = kind.storage.width.data
    if entries.step_bits:
        raise LayerError("it draws lines between the entries of its table, which layers do not")
    if op.to.storage.width.data != bits:
        raise LayerError(f"it makes {op.to.storage} of {kind.storage}, of another width")
    shape = static_shape(op.input)
    if not shape or shape[0] != 1:
        raise LayerError(f"its shape {shape} has no batch of 1")
    # Only how full blocks of channels become depends on the shape.
    channels, *rest = shape[1:] or (1,)
    layer = WindowLayer(
        name=value_name(op.output),
        input_shape=(channels, 1, int(np.prod(rest))),
        bits=bits,
        table=entries.entries.astype(np.int64) - _offset(op.to),
    )
    return _found(op, layer, kind, op.to)


def _found(
    op: PoolOp | LookupOp, layer: WindowLayer, source: QuantizedType, made: QuantizedType
) -> FoundWindows:
    return FoundWindows(
        layer=layer, input=value_name(op.input), output=value_name(op.output),
        input_offset=_offset(source), output_offset=_offset(made),
    )  # fmt: skip


def _rescaling(op: ConvOp | MatMulOp, outputs: int) -> Rescaling:
    attribute, sums = op.requantization, op.sums
    assert attribute is not None and sums is not None
    if attribute.how.scheme == "float":
        raise LayerError("its sums are scaled by floats; a scheme of integers is needed")
    factors = fixed_point(ratio_of(sums, attribute.to, attribute.how), attribute.how)
    offset = _offset(attribute.to)
    low, high = attribute.limits
    return Rescaling(
        how=attribute.how,
        multipliers=np.broadcast_to(factors.multipliers, outputs),
        shifts=np.broadcast_to(factors.shifts, outputs),
        zero_point=int(attribute.to.zero_point_array[0]) - offset,
        low=low - offset,
        high=high - offset,
    )


def _quantized(value: SSAValue, what: str) -> QuantizedType:
    kind = element_type_of(value) if isinstance(value.type, TensorType) else None
    if not isinstance(kind, QuantizedType):
        raise LayerError(f"{what} is not quantized")
    return kind


def _offset(kind: QuantizedType) -> int:
    """Half the range of unsigned numbers; 0 of signed ones."""
    is_unsigned = kind.storage.signedness.data == Signedness.UNSIGNED
    return 1 << kind.storage.width.data - 1 if is_unsigned else 0


def _constant(value: SSAValue, weights: Mapping[str, np.ndarray], what: str) -> np.ndarray:
    owner = value.owner
    if not isinstance(owner, Operation) or not isinstance(owner, WeightOp):
        raise LayerError(f"{what} is computed")
    return np.asarray(weights[owner.weight.data])
