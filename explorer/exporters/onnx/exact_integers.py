"""Requantization in whole numbers: nodes of 64 bits that round as the program says.

    y = multiplied(sums, ratio)         sums * multiplier, a power of two added, divided, rounded
    z = stored(y, by)                   its zero point added, within its limits, in its type

Each is a node that every runtime of ONNX computes alike: Cast, Mul, Add, Div, Mod, Sign, Abs, Clip.
`explorer.ir.requantization` is the reference.
"""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from explorer.exporters.onnx.nodes import Nodes, Value, onnx_type, sizes_of
from explorer.ir.requantization import (
    DOUBLED_BITS,
    Requantization,
    RequantizationAttr,
    Rounding,
    fixed_point,
)
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.types import QuantizedType

WHOLE = np.int64


def has_form(how: Requantization) -> bool:
    """Whether a scheme is written in whole numbers; others are pairs of nodes around floats."""
    return how.scheme != "float" and how.rounding != "nearest_even"


def centered(x: Value, kind: QuantizedType, out: Nodes) -> str:
    """Stored numbers minus their one zero point, in 64 bits."""
    wide, zero = out.node("Cast", x, to=TensorProto.INT64), int(kind.zero_point_array[0])
    return out.node("Sub", wide, _whole(zero, out)) if zero else wide


def multiplied(x: Value, ratio: np.ndarray, how: Requantization, out: Nodes) -> str:
    """x * ratio, rounded by a scheme of integers; `ratio` broadcasts to x, both have 64 bits."""
    factors = fixed_point(ratio, how)
    if how.scheme != "doubling_high_multiply":
        product = out.node("Mul", x, _whole(factors.multipliers, out))
        return _shifted(product, factors.shifts, how.rounding, out)
    lifts = np.maximum(DOUBLED_BITS - factors.shifts, 0)
    if lifts.any():  # modulo 2^32
        lifted = out.node("Mul", x, _whole(np.left_shift(1, lifts), out))
        narrow = out.node("Cast", lifted, to=TensorProto.INT32)
        x = out.node("Cast", narrow, to=TensorProto.INT64)
    product = out.node("Mul", x, _whole(factors.multipliers, out))
    high = _shifted(product, np.full_like(factors.shifts, DOUBLED_BITS), "nearest_up", out)
    rest = np.maximum(factors.shifts - DOUBLED_BITS, 0)
    return _shifted(high, rest, "nearest_away_from_zero", out)


def divided(x: Value, by: np.ndarray, out: Nodes) -> str:
    """x / by as whole numbers, ties away from zero; `by` is positive."""
    moved = out.node("Add", out.node("Abs", x), _whole(by // 2, out))
    return out.node("Mul", out.node("Sign", x), out.node("Div", moved, _whole(by, out)))


def stored(x: Value, to: QuantizedType, limits: tuple[int, int], out: Nodes) -> str:
    """Whole numbers around zero as what is stored for them."""
    zero = int(to.zero_point_array[0])
    moved = out.node("Add", x, _whole(zero, out)) if zero else x
    kept = out.node("Clip", moved, *(_whole(limit, out) for limit in limits))
    return out.node("Cast", kept, to=onnx_type(to))


def requantized(
    x: Value, kind: QuantizedType, ratio: np.ndarray, by: RequantizationAttr, out: Nodes
) -> str:
    """Numbers of one quantized type in another one."""
    return stored(multiplied(centered(x, kind, out), ratio, by.how, out), by.to, by.limits, out)


def whole_conv(op: ConvOp, x: str, weight: np.ndarray, out: Nodes) -> str:
    """Sums of whole numbers, which ONNX multiplies but does not convolve: a product for each
    element of the window, added up. x has the type of `weight`: i32 or i64."""
    batch, channels, *_ = sizes_of(op.input)
    filters, depth, *kernel = sizes_of(op.weight)
    _, _, *result = sizes_of(op.results[0])
    group, strides = op.get("group"), list(op.get("strides"))
    axes = out.constant(list(range(2, 2 + len(kernel))))
    padded = out.node("Pad", x, out.constant(list(op.get("pads"))), None, axes)
    total: str | None = None
    for tap in np.ndindex(*kernel):
        begin = [p * dilation for p, dilation in zip(tap, op.get("dilations"), strict=True)]
        reach = zip(begin, result, strides, strict=True)
        end = [first + (count - 1) * stride + 1 for first, count, stride in reach]
        places = (out.constant(begin), out.constant(end), axes, out.constant(strides))
        part = out.node("Slice", padded, *places)
        rows = out.node("Reshape", part, out.constant([batch, group, channels // group, -1]))
        factor = weight[(slice(None), slice(None), *tap)].reshape(group, filters // group, depth)
        product = out.node("MatMul", out.constant(factor), rows)
        total = product if total is None else out.node("Add", total, product)
    assert total is not None
    return out.node("Reshape", total, out.constant([batch, filters, *result]))


def _shifted(x: Value, shifts: np.ndarray, rounding: Rounding, out: Nodes) -> str:
    """x / 2^shift as whole numbers, rounded once."""
    if not shifts.any():
        return x if isinstance(x, str) else out.name(x)
    power = np.left_shift(WHOLE(1), shifts)
    if rounding == "nearest_away_from_zero":
        return divided(x, power, out)
    if rounding == "to_zero":
        return out.node("Div", x, _whole(power, out))
    if rounding == "nearest_up":
        x = out.node("Add", x, _whole(power // 2, out))
    rest = out.node("Mod", x, _whole(power, out))  # it has the divisor's sign
    return out.node("Div", out.node("Sub", x, rest), _whole(power, out))


def _whole(numbers: np.ndarray | int, out: Nodes) -> str:
    return out.constant(np.array(numbers, WHOLE))
