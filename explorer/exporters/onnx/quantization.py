"""Quantized numbers as ONNX has them: integers, and nodes that know scales and zero points.

%q = top.quantize(%x) {to = !top.quantized<ui8, 0.02:3>}     QuantizeLinear(x, 0.02, 3)
%y = top.dequantize(%q) {to = f32}                           DequantizeLinear(q, 0.02, 3)
"""

from __future__ import annotations

import numpy as np

from explorer.exporters.onnx.nodes import Nodes, Unwritable, Value, dtype_of, sizes_of, writes
from explorer.ir.top.quantization.blocks import DequantizeBlocksOp
from explorer.ir.top.quantization.dynamic import DynamicQuantizeOp
from explorer.ir.top.quantization.quantized import DequantizeOp, QuantizeOp
from explorer.ir.types import QuantizedType, element_type_of, numpy_dtype

SINGLE = np.dtype(np.float32)
BYTES, UNSIGNED_BYTES = np.dtype(np.int8), np.dtype(np.uint8)
MIDDLE = 128


@writes(QuantizeOp)
def quantize(op: QuantizeOp, out: Nodes) -> str:
    scale, zero = _parameters(op.to, out.wanted[op.output], op.to.zero_point_array, out)
    return out.node("QuantizeLinear", op.input, scale, zero, axis=_axis(op.to))


@writes(DequantizeOp)
def dequantize(op: DequantizeOp, out: Nodes) -> str:
    """In f32, rounded at the end to the type of floats that it makes.

    Constant bytes with a sign are written as those without one, around 128, where that was asked
    for: they stand for the same numbers.
    """
    kind, name = op.parameters, out.wanted[op.output]
    dtype, zeros = numpy_dtype(kind.storage), kind.zero_point_array
    if dtype.itemsize == 4 and zeros.any():
        raise Unwritable("DequantizeLinear of 32 bits has no zero point")
    x: Value = op.input
    stored = out.stored(op.input)
    if stored is not None and dtype == BYTES and out.weights == UNSIGNED_BYTES.name:
        dtype, zeros = UNSIGNED_BYTES, zeros + MIDDLE
        moved = (stored.astype(np.int16) + MIDDLE).astype(dtype)
        x = out.named(f"{out.name(op.input)}.unsigned", moved)
    scale, zero = _parameters(kind, name, zeros, out, dtype, numpy_dtype(op.to))
    given = zero if dtype.itemsize < 4 else None
    return out.node("DequantizeLinear", x, scale, given, axis=_axis(kind))


def _parameters(
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


def _axis(kind: QuantizedType) -> int | None:
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


@writes(DynamicQuantizeOp)
def dynamic_quantize(op: DynamicQuantizeOp, out: Nodes) -> list[str]:
    if op.is_symmetric:
        raise Unwritable("DynamicQuantizeLinear makes unsigned bytes with a zero point")
    return out.nodes("DynamicQuantizeLinear", 3, op.input)
