"""Quantized numbers as ONNX has them: integers, and nodes that know scales and zero points.

%q = top.quantize(%x) {to = !top.quantized<ui8, 0.02:3>}     QuantizeLinear(x, 0.02, 3)
%y = top.dequantize(%q) {to = f32}                           DequantizeLinear(q, 0.02, 3)
"""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from explorer.exporters.onnx.nodes import (
    Nodes,
    Unwritable,
    Value,
    dtype_of,
    onnx_type,
    sizes_of,
    writes,
)
from explorer.ir.top.quantization.blocks import DequantizeBlocksOp, QuantizeBlocksOp
from explorer.ir.top.quantization.dynamic import I8, SYMMETRIC_LEVELS, DynamicQuantizeOp
from explorer.ir.top.quantization.quantized import DequantizeOp, QuantizeOp
from explorer.ir.top.support.quantized_scalars import I32, single_limits
from explorer.ir.types import QuantizedType, element_type_of, numpy_dtype

SINGLE = np.dtype(np.float32)
BYTES, UNSIGNED_BYTES = np.dtype(np.int8), np.dtype(np.uint8)
MIDDLE = 128


@writes(QuantizeOp)
def quantize(op: QuantizeOp, out: Nodes) -> str:
    if numpy_dtype(op.to.storage).itemsize > 2:
        return _wide(op, out)
    scale, zero = parameters(op.to, out.wanted[op.output], op.to.zero_point_array, out)
    return out.node("QuantizeLinear", op.input, scale, zero, axis=axis_of(op.to))


def _wide(op: QuantizeOp, out: Nodes) -> str:
    """Integers of 32 bits, which QuantizeLinear does not make: what it does, written out."""
    kind, rank = op.to, len(sizes_of(op.input))
    scales = kind.along(kind.scale_array, rank)
    zeros = kind.along(kind.zero_point_array.astype(SINGLE), rank)
    x = op.input if np.all(scales == 1) else out.node("Div", op.input, out.constant(scales))
    whole = out.node("Round", x)
    moved = out.node("Add", whole, out.constant(zeros)) if zeros.any() else whole
    limits = (out.constant(np.array(limit, SINGLE)) for limit in single_limits(kind))
    return out.node("Cast", out.node("Clip", moved, *limits), to=onnx_type(kind))


@writes(DequantizeOp)
def dequantize(op: DequantizeOp, out: Nodes) -> str:
    """In f32, rounded at the end to the type of floats that it makes."""
    if op.input not in out.reals:
        return dequantized(op.input, out.wanted[op.output], out, numpy_dtype(op.to))
    real = out.name(op.input)
    return real if numpy_dtype(op.to) == SINGLE else out.node("Cast", real, to=onnx_type(op.to))


def dequantized(value: SSAValue, name: str, out: Nodes, real: np.dtype = SINGLE) -> str:
    """Quantized numbers as floats; `name`: of what their scales are called.

    Scales of sums are doubles, and rounded.
    """
    kind = element_type_of(value)
    if not isinstance(kind, QuantizedType):
        raise Unwritable(f"{kind} stands for no quantized numbers")
    if numpy_dtype(kind.storage).itemsize == 4 and kind.zero_point_array.any():
        raise Unwritable("DequantizeLinear of 32 bits has no zero point")
    x, dtype, zeros = as_multiplied(value, kind, out)
    scale, zero = parameters(kind, name, zeros, out, dtype, real)
    given = zero if dtype.itemsize < 4 else None
    return out.node("DequantizeLinear", x, scale, given, axis=axis_of(kind))


def as_multiplied(
    value: SSAValue, kind: QuantizedType, out: Nodes
) -> tuple[Value, np.dtype, np.ndarray]:
    """What is stored, its type and its zero points.

    Constant bytes with a sign are written as those without one, around 128, where that was asked
    for: they stand for the same numbers.
    """
    dtype, zeros = numpy_dtype(kind.storage), kind.zero_point_array
    stored = out.stored(value)
    if stored is None or dtype != BYTES or out.weights != UNSIGNED_BYTES.name:
        return value, dtype, zeros
    moved = (stored.astype(np.int16) + MIDDLE).astype(UNSIGNED_BYTES)
    name = out.named(f"{out.name(value)}.unsigned", moved)
    return name, UNSIGNED_BYTES, zeros + MIDDLE


def parameters(
    kind: QuantizedType,
    name: str,
    zeros: np.ndarray,
    out: Nodes,
    dtype: np.dtype | None = None,
    real: np.dtype = SINGLE,
) -> tuple[str, str]:
    """Scales and zero points of a value: scalars of a whole tensor, else vectors.

    Each node has its own: onnxruntime's passes replace those that it changes by name.
    """
    shape = () if kind.is_per_tensor else (-1,)
    scales = kind.scale_array.astype(real)
    if not np.array_equal(scales.astype(SINGLE), kind.scale_array):
        raise Unwritable(f"its scales are no numbers of {real}")
    stored = zeros.astype(dtype or numpy_dtype(kind.storage))
    return (
        out.named(f"{name}.scale", scales.reshape(shape)),
        out.named(f"{name}.zero_point", stored.reshape(shape)),
    )


def axis_of(kind: QuantizedType) -> int | None:
    return None if kind.is_per_tensor else kind.axis_number


@writes(DequantizeBlocksOp)
def dequantize_blocks(op: DequantizeBlocksOp, out: Nodes) -> str:
    """DequantizeLinear, whose zero points are integers of the operand's type."""
    axis, block = op.blocks.axis_number, op.blocks.block_size
    expected = list(sizes_of(op.input))
    expected[axis] = -(-expected[axis] // block)
    if list(sizes_of(op.scale)) != expected:
        raise Unwritable("its scales are fewer than one per block and slice")
    if op.zero_point is not None and element_type_of(op.zero_point) != op.blocks.storage:
        raise Unwritable(f"its zero points are {dtype_of(op.zero_point)}")
    return out.node(
        "DequantizeLinear", op.input, op.scale, op.zero_point, axis=axis, block_size=block
    )


@writes(QuantizeBlocksOp)
def quantize_blocks(op: QuantizeBlocksOp, out: Nodes) -> list[str]:
    """Its definition, spelt out; of finite numbers."""

    def number(value: float) -> str:
        return out.constant(np.array(value, SINGLE))

    *outer, depth = sizes_of(op.input)
    block, last = op.get("block"), out.constant([-1])
    split = out.node("Reshape", op.input, out.constant([*outer, depth // block, block]))
    reach = out.node("ReduceMax", out.node("Abs", split), last, keepdims=1)
    divisor = out.node("Where", out.node("Equal", reach, number(0)), number(1), reach)
    steps = out.node("Mul", split, out.node("Div", number(SYMMETRIC_LEVELS), divisor))
    whole = out.node(
        "Clip", out.node("Round", steps), number(-SYMMETRIC_LEVELS), number(SYMMETRIC_LEVELS)
    )
    stored = out.node("Cast", whole, to=onnx_type(I8))
    scale = out.node("Squeeze", out.node("Div", reach, number(SYMMETRIC_LEVELS)), last)
    sums = out.node("ReduceSum", out.node("Cast", whole, to=onnx_type(I32)), last, keepdims=0)
    return [out.node("Reshape", stored, out.constant([*outer, depth])), scale, sums]


@writes(DynamicQuantizeOp)
def dynamic_quantize(op: DynamicQuantizeOp, out: Nodes) -> list[str]:
    return (
        _symmetric(op, out) if op.is_symmetric else out.nodes("DynamicQuantizeLinear", 3, op.input)
    )


def _symmetric(op: DynamicQuantizeOp, out: Nodes) -> list[str]:
    """Its definition, spelt out: DynamicQuantizeLinear makes unsigned bytes with a zero point."""

    def number(value: float) -> str:
        return out.constant(np.array(value, SINGLE))

    reach = out.node("ReduceMax", out.node("Abs", op.input), keepdims=0)
    is_zero = out.node("Equal", reach, number(0))
    scale = out.node("Where", is_zero, number(1), out.node("Div", reach, number(SYMMETRIC_LEVELS)))
    factor = out.node("Div", number(SYMMETRIC_LEVELS), out.node("Where", is_zero, number(1), reach))
    steps = out.node("Mul", op.input, factor)
    away = out.node("Floor", out.node("Add", out.node("Abs", steps), number(0.5)))
    whole = out.node("Mul", out.node("Sign", steps), away)
    limited = out.node("Clip", whole, number(-SYMMETRIC_LEVELS), number(SYMMETRIC_LEVELS))
    stored = out.node("Cast", limited, to=onnx_type(element_type_of(op.output)))
    return [stored, scale, out.constant(np.array(0, np.int8))]
