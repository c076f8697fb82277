"""Products and sums of quantized programs as convolutions.

    product(op, values, by)      top.conv or top.matmul, requantized or left wide
    summed(op, value, name)      top.reduce of quantized numbers: weights of 1
    rescaled(layer, kind, by)    sums of a type as numbers of another scale

A matrix product that reads a picture flattened, in whatever order, is a convolution whose window is
all of it, so that nothing has to be moved before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import Signedness, TensorType
from xdsl.ir import SSAValue

from explorer.ir.requantization import RequantizationAttr, fixed_point, ratio_of
from explorer.ir.top.data import WeightOp
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.top.reductions.reduction import ReduceOp
from explorer.ir.types import QuantizedType, element_type_of, static_shape
from explorer.npu.layers.convolution import Convolution
from explorer.npu.layers.data_movement import flattened_picture
from explorer.npu.layers.layer import LayerError, Rescaling, wrapped
from explorer.npu.layers.value_layout import stored_form

AT_RUN_TIME = ("residual", "left_zero", "right_zero", "right_sums", "scale", "channel_scales")


@dataclass(frozen=True)
class Values:
    """What is known of a program's values where one operation is read."""

    name: str
    """Of its result."""
    weights: Mapping[str, np.ndarray]

    def constant_or_none(self, value: SSAValue) -> np.ndarray | None:
        """None for what is computed."""
        if not isinstance(value.owner, WeightOp):
            return None
        return np.asarray(self.weights[value.owner.weight.data])

    def constant(self, value: SSAValue, what: str) -> np.ndarray:
        found = self.constant_or_none(value)
        if found is None:
            raise LayerError(f"{what} is computed")
        return found


def quantized(value: SSAValue, what: str) -> QuantizedType:
    kind = element_type_of(value) if isinstance(value.type, TensorType) else None
    if not isinstance(kind, QuantizedType):
        raise LayerError(f"{what} is not quantized")
    return kind


def offset_of(kind: QuantizedType) -> int:
    """Half the range of unsigned numbers; 0 of signed ones."""
    is_unsigned = kind.storage.signedness.data == Signedness.UNSIGNED
    return 1 << kind.storage.width.data - 1 if is_unsigned else 0


def product(
    op: ConvOp | MatMulOp, values: Values, by: RequantizationAttr | None
) -> tuple[Convolution, SSAValue]:
    """The layer, of one picture of the value that it reads, or of all its rows; and the value."""
    left, right = op.operands[0], op.operands[1]
    kind, of_weights = quantized(left, "its input"), quantized(right, "its second operand")
    for name in AT_RUN_TIME:
        if getattr(op, name, None) is not None:
            raise LayerError(f"it has an operand {name}, which layers have not")
    if op.activation is not None:
        raise LayerError("it has an activation of floats")
    weights = _weights(op, values, of_weights)
    zero = int(kind.zero_point_array[0])
    bias = np.zeros(weights.shape[0], np.int64)
    if op.bias is not None:
        bias = values.constant(op.bias, "its bias").astype(np.int64).reshape(-1)
    if op.sign_sums is not None:
        # What flipped bits lack is added beforehand; products with the weights lack nothing.
        signs = values.constant(op.sign_sums, "its sign sums").astype(np.int64).reshape(-1)
        bias = bias + signs + np.minimum(weights, 0).sum(axis=(1, 2, 3))
    # Where something else than the zero point is subtracted, padding counts as the difference.
    bias = bias + (zero - op.input_offset) * weights.sum(axis=(1, 2, 3))
    shape, value = static_shape(left), left
    if isinstance(op, MatMulOp):
        if len(shape) == 4:
            raise LayerError("it adds up columns of pictures, and layers add up channels")
        numbers: dict[str, Any] = {}
        input_shape = (weights.shape[1], 1, prod(shape[:-1]))
        if (found := flattened_picture(left, values.weights)) is not None:
            value, places = found
            in_order = np.empty_like(weights)
            in_order[:, places] = weights
            input_shape = stored_form(value).picture_shape
            weights = in_order.reshape(-1, *input_shape)
    else:
        numbers = {"strides": tuple(op.get("strides")), "dilations": tuple(op.get("dilations")),
                   "pads": tuple(op.get("pads")), "groups": int(op.get("group"))}  # fmt: skip
        input_shape = (shape[1], shape[2], shape[3])
    layer = Convolution(
        name=values.name,
        input_shape=input_shape,
        weights=weights,
        bias=wrapped(bias),
        rescaling=None,
        input_zero_point=zero - offset_of(kind),
        **numbers,
    )
    sums = op.sums
    assert sums is not None
    return (layer if by is None else rescaled(layer, sums, by)), value


def requantized(kind: QuantizedType, by: RequantizationAttr, outputs: int) -> Rescaling:
    """How sums of a type become numbers of another, in so many channels."""
    if by.how.scheme == "float":
        raise LayerError("its sums are scaled by floats; a scheme of integers is needed")
    factors = fixed_point(ratio_of(kind, by), by.how)
    if factors.shifts.size not in (1, outputs):
        raise LayerError("its scales run along another axis than its channels")
    offset, (low, high) = offset_of(by.to), by.limits
    return Rescaling(
        how=by.how,
        multipliers=np.broadcast_to(factors.multipliers.reshape(-1), outputs),
        shifts=np.broadcast_to(factors.shifts.reshape(-1), outputs),
        zero_point=int(by.to.zero_point_array[0]) - offset,
        low=low - offset,
        high=high - offset,
    )


def _weights(op: ConvOp | MatMulOp, values: Values, kind: QuantizedType) -> np.ndarray:
    """i64 of [outputs, inputs, height, width], without zero points."""
    weights = values.constant(op.operands[1], "its second operand").astype(np.int64)
    zeros = kind.zero_point_array.astype(np.int64)
    if not kind.is_per_tensor:
        along = [1] * weights.ndim
        along[kind.axis_number] = -1
        zeros = zeros.reshape(along)
    weights = weights - (zeros if zeros.size > 1 else int(zeros.reshape(-1)[0]))
    if isinstance(op, MatMulOp):
        if weights.ndim != 2:
            raise LayerError("it multiplies a batch of matrices")
        return weights.T[:, :, None, None]
    if weights.ndim != 4:
        raise LayerError(f"its window has {weights.ndim - 2} axes, and layers have two")
    return weights


def summed(op: ReduceOp, value: SSAValue, name: str) -> Convolution:
    """Wide sums of a picture's stored numbers over all rows, columns or both."""
    kind, stored = quantized(value, "its input"), stored_form(value)
    shape, axes = stored.logical_shape, set(op.get("axes"))
    if op.kind.data != "sum":
        raise LayerError(f"{op.label()} of quantized numbers is no layer")
    is_picture = len(shape) == 4
    positions = {2, 3} if is_picture else set(range(len(shape) - 1))
    counted = {axis for axis in axes if shape[axis] > 1}
    if not counted <= positions:
        raise LayerError("it adds up channels")
    if not is_picture and counted != {axis for axis in positions if shape[axis] > 1}:
        raise LayerError("it adds up some of the positions only")
    channels, height, width = stored.picture_shape
    window = (height if not is_picture or 2 in axes else 1,
              width if not is_picture or 3 in axes else 1)  # fmt: skip
    count = window[0] * window[1]
    return Convolution(
        name=name, input_shape=stored.picture_shape,
        weights=np.ones((channels, 1, *window), np.int64), groups=channels,
        bias=np.full(channels, offset_of(kind) * count), rescaling=None,
    )  # fmt: skip


def rescaled(layer: Convolution, kind: QuantizedType, by: RequantizationAttr) -> Convolution:
    """A layer of sums with that type, requantized."""
    scaling = requantized(kind, by, layer.weights.shape[0])
    zero = int(kind.zero_point_array.reshape(-1)[0])
    if layer.moved is not None:
        addends = wrapped(layer.moved.addends - zero)
        return replace(layer, rescaling=scaling, moved=replace(layer.moved, addends=addends))
    return _without_zero_factors(replace(layer, rescaling=scaling, bias=wrapped(layer.bias - zero)))


def _without_zero_factors(layer: Convolution) -> Convolution:
    """The same results, where a shift cannot make all sums zero: the sums are zero themselves."""
    scaling = layer.rescaling
    assert scaling is not None
    none = scaling.multipliers == 0
    if scaling.how is None or scaling.how.scheme != "shift" or not none.any():
        return layer
    return replace(
        layer,
        weights=np.where(none[:, None, None, None], 0, layer.weights),
        bias=np.where(none, 0, layer.bias),
        rescaling=replace(
            scaling,
            multipliers=np.where(none, 1, scaling.multipliers),
            shifts=np.where(none, 0, scaling.shifts),
        ),
    )
