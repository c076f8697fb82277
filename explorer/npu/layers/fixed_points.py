"""Elementwise arithmetic on quantized numbers as layers.

    fixed_point_layers(op, values)    (layer, what it reads, type of its result), one by one
    scaled_layer(name, by, ...)       the layer that gives numbers another scale

A PReLU is four layers, of which the last adds what is above zero to what is below it. One of the
two is always zero, so that nothing is rounded twice:

    below = min(x, zero point)                   bytes like those of x
    bent  = fixed(below * slopes) + zero point   bytes like those of the result
    kept  = fixed(x) + zero point, at least the zero point
    y     = kept + bent
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from xdsl.ir import SSAValue

from explorer.ir.requantization import RequantizationAttr, fixed_point, integer_limits
from explorer.ir.top.quantization.fixed_point import FixedPointOp
from explorer.npu.layers.computed_matrices import Step
from explorer.npu.layers.elementwise import Elementwise, ElementwiseOperand, Factor
from explorer.npu.layers.layer import LayerError
from explorer.npu.layers.products import Values, offset_of
from explorer.npu.layers.value_layout import stored_form

Side = tuple[ElementwiseOperand, SSAValue | None]
"""An operand, and the value that it is; none of a constant."""


def fixed_point_layers(op: FixedPointOp, values: Values) -> Iterator[Step]:
    """LayerError where no layers compute it."""
    sides = [_side(op, index, values) for index in range(2)]
    if all(value is None for _, value in sides):
        raise LayerError("both operands are constant")
    if op.kind.data == "prelu":
        yield from _bent(op, sides, values.name)
        return
    made = factor(op.ratios["result"], op.by) if "result" in op.ratios else None
    lift = op.lift if op.is_sum else 0
    (left, _), (right, _) = sides
    layer = _layer(values.name, op.kind.data, op.by, left, right, lift, made)
    yield layer, _read(sides), None


def _bent(op: FixedPointOp, sides: list[Side], name: str) -> Iterator[Step]:
    """A PReLU: its left operand is bent below its zero point."""
    (x, value), (slopes, other) = sides
    result = stored_form(op.output)
    if value is None or x.shape != result.shape:
        raise LayerError("what it bends is a constant, or read again")
    own, to = op.kinds[0], op.by.to
    low, high = (limit - offset_of(to) for limit in integer_limits(to.storage))
    zero = int(to.zero_point_array[0]) - offset_of(to)
    below = Elementwise(
        name=f"{name}.below", kind="scale", left=ElementwiseOperand(shape=x.shape), how=op.by.how,
        low=integer_limits(own.storage)[0] - offset_of(own), high=x.zero_point,
    )  # fmt: skip
    yield below, (value,), op.left.type
    wide = RequantizationAttr.get(to, op.by.how)
    left = ElementwiseOperand(shape=x.shape, zero_point=x.zero_point)
    made = factor(op.ratios["result"], op.by)
    bent = _layer(f"{name}.bent", "mul", wide, left, slopes, 0, made)
    yield bent, (0, other) if other is not None else (0,), op.output.type
    kept = Elementwise(
        name=f"{name}.kept", kind="scale", left=left, how=op.by.how,
        factor=factor(op.ratios["left"], op.by), zero_point=zero, low=max(low, zero), high=high,
    )  # fmt: skip
    yield kept, (value,), op.output.type
    part = ElementwiseOperand(shape=result.shape, zero_point=zero)
    yield _layer(name, "add", op.by, part, part, 0, None), (2, 1), None


def _side(op: FixedPointOp, index: int, values: Values) -> Side:
    name, value, kind = ("left", "right")[index], op.operands[index], op.kinds[index]
    result = stored_form(op.output)
    zero, offset = int(kind.zero_point_array[0]), offset_of(kind)
    is_scaled = name in op.ratios and not op.multiplies
    scale = factor(op.ratios[name], op.by) if is_scaled else None
    constant = values.constant_or_none(value)
    if constant is not None:
        rank = len(result.logical_shape)
        shape = (1,) * (rank - constant.ndim) + constant.shape
        numbers = _placed(constant.astype(np.int64).reshape(shape), result.logical_shape)
        return ElementwiseOperand(
            shape=_three(numbers.shape), zero_point=zero, factor=scale, constant=numbers
        ), None
    stored = stored_form(value)
    if len(stored.logical_shape) != len(result.logical_shape):
        raise LayerError("its operands differ in how many axes they have")
    if any(n not in (1, whole) for n, whole in zip(stored.shape, result.shape, strict=True)):
        raise LayerError("an operand is read again along some of its positions only")
    return ElementwiseOperand(shape=stored.shape, zero_point=zero - offset, factor=scale), value


def _read(sides: list[Side]) -> tuple[SSAValue, ...]:
    return tuple(value for _, value in sides if value is not None)


def _placed(numbers: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Of as many axes as a value of that shape, as [channels, height, width]; axes of 1 stay."""
    if len(shape) == 4:
        count, channels, height, width = numbers.shape
        if (count, height) != (1, 1):
            count, height = shape[0], shape[2]
            numbers = np.broadcast_to(numbers, (count, channels, height, width))
        return numbers.swapaxes(0, 1).reshape(channels, count * height, width)
    positions = numbers.shape[:-1]
    if any(size not in (1, whole) for size, whole in zip(positions, shape, strict=False)) or (
        len({size == whole for size, whole in zip(positions, shape, strict=False) if whole > 1}) > 1
    ):
        raise LayerError("an operand is read again along some of its positions only")
    return numbers.reshape(-1, numbers.shape[-1]).T[:, None, :]


def _three(shape: tuple[int, ...]) -> tuple[int, int, int]:
    channels, height, width = shape
    return channels, height, width


def scaled_layer(
    name: str, by: RequantizationAttr, operand: ElementwiseOperand, made: Factor
) -> Elementwise:
    """Numbers of one scale in another one."""
    return _layer(name, "scale", by, operand, None, 0, made)


def _layer(
    name: str, kind: str, by: RequantizationAttr, left: ElementwiseOperand,
    right: ElementwiseOperand | None, lift: int, made: Factor | None,
) -> Elementwise:  # fmt: skip
    offset = offset_of(by.to)
    low, high = by.limits
    return Elementwise(
        name=name, kind=kind, left=left, right=right, how=by.how, lift=lift, factor=made,
        zero_point=int(by.to.zero_point_array[0]) - offset, low=low - offset, high=high - offset,
    )  # fmt: skip


def factor(ratio: np.ndarray | float, by: RequantizationAttr) -> Factor:
    """One ratio as the scheme knows it."""
    if by.how.scheme == "float":
        raise LayerError("it is scaled by floats; a scheme of integers is needed")
    found = fixed_point(np.asarray(ratio).reshape(-1)[:1], by.how)
    return int(found.multipliers[0]), int(found.shifts[0])
