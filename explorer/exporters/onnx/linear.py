"""Products as ONNX nodes: convolution, matrix products with what is fused into them, attention."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import SSAValue

from explorer.exporters.onnx.elementwise import unary_node
from explorer.exporters.onnx.exact_integers import whole_conv
from explorer.exporters.onnx.integers import along_channels, integer_product
from explorer.exporters.onnx.nodes import (
    Nodes,
    Unwritable,
    Value,
    dtype_of,
    forbid_quantized,
    is_quantized,
    onnx_type,
    rank_of,
    sizes_of,
    writes,
)
from explorer.exporters.onnx.reductions import softmax_node
from explorer.ir.top.attention import COLUMNS, HEADS, AttentionOp, RotaryOp
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.types import element_type_of, shape_of

OF_INTEGERS = (
    "left_zero",
    "right_zero",
    "right_sums",
    "scale",
    "channel_scales",
    "sign_sums",
    "requantization",
    "subtracted",
)
"""Operands and properties that only products of integers have."""


@writes(ConvOp)
def conv(op: ConvOp, out: Nodes) -> str:
    _forbid_integers(op)
    window = {
        "kernel_shape": list(sizes_of(op.weight)[2:]),
        "strides": list(op.get("strides")),
        "pads": list(op.get("pads")),
        "dilations": list(op.get("dilations")),
        "group": op.get("group"),
    }
    if is_quantized(op.input):
        return integer_product(op, "Conv", out, **window)
    if not isinstance(element_type_of(op.input), AnyFloat):
        forbid_quantized(op)
        weight = out.stored(op.weight)
        if weight is None:
            raise Unwritable("ONNX convolves floats and bytes; others with constant filters only")
        sums = whole_conv(op, out.name(op.input), weight, out)
        return sums if op.bias is None else out.node("Add", sums, along_channels(op, out))
    return _fused(op, out.node("Conv", op.input, op.weight, op.bias, **window), out)


@writes(MatMulOp)
def matmul(op: MatMulOp, out: Nodes) -> str:
    _forbid_integers(op)
    if is_quantized(op.left):
        return integer_product(op, "MatMul", out)
    is_plain = rank_of(op.left) == rank_of(op.right) == 2
    if is_plain and op.bias is not None:
        return _fused(op, out.node("Gemm", op.left, op.right, op.bias), out)
    product = out.node("MatMul", op.left, op.right)
    if op.bias is not None:
        product = out.node("Add", product, op.bias)
    return _fused(op, product, out)


def _forbid_integers(op: ConvOp | MatMulOp) -> None:
    fused = (op.residual, op.fused_activation, op.rounded_type)
    if any(part is not None for part in fused):
        forbid_quantized(op)
    if op.result_type is not None:
        raise Unwritable("it quantizes its result")
    if any(getattr(op, name, None) is not None for name in OF_INTEGERS):
        raise Unwritable("it multiplies integers whose zero points are subtracted by it")


def _fused(op: ConvOp | MatMulOp, product: str, out: Nodes) -> str:
    """Residual, activation and rounding behind the product."""
    if op.residual is not None:
        product = out.node("Add", product, op.residual)
    if op.fused_activation is not None:
        kind, alpha, beta = op.fused_activation
        product = unary_node(out, kind, product, dtype_of(op.results[0]), alpha, beta)
    if op.rounded_type is not None:
        narrow = out.node("Cast", product, to=onnx_type(op.rounded_type))
        product = out.node("Cast", narrow, to=onnx_type(element_type_of(op.results[0])))
    return product


@writes(AttentionOp)
def attention(op: AttentionOp, out: Nodes) -> str:
    """Its definition, spelt out: opset 21 has no Attention."""
    forbid_quantized(op)
    rank = rank_of(op.query)
    key, value = _repeated(op, op.key, out), _repeated(op, op.value, out)
    swapped = [*range(rank - 2), rank - 1, rank - 2]
    scores = out.node("MatMul", op.query, out.node("Transpose", key, perm=swapped))
    if op.get("scale") != 1:
        scores = out.node("Mul", scores, out.number(op.get("scale"), op.query))
    if op.mask is not None:
        scores = out.node("Where", op.mask, scores, out.number(op.masked_score, op.query))
    if op.bias is not None:
        scores = out.node("Add", scores, op.bias)
    return out.node("MatMul", softmax_node(out, scores, op.query, -1, op.is_zero_masked), value)


def _repeated(op: AttentionOp, heads: SSAValue, out: Nodes) -> Value:
    """Keys or values for every head of queries: each serves `group` of them."""
    group = op.group
    if group is None:
        raise Unwritable(f"how many of {shape_of(op.query)[HEADS]} heads share one is open")
    if group == 1 or rank_of(heads) < -HEADS:
        return heads
    *batch, count, rows, columns = sizes_of(heads)
    apart = out.node("Reshape", heads, out.constant([*batch, count, 1, rows, columns]))
    wide = out.node("Expand", apart, out.constant([*batch, count, group, rows, columns]))
    return out.node("Reshape", wide, out.constant([*batch, count * group, rows, columns]))


@writes(RotaryOp)
def rotary(op: RotaryOp, out: Nodes) -> str:
    """x * cosine + rotated * sine, its definition."""
    forbid_quantized(op)
    shape = sizes_of(op.input)
    half, last = shape[COLUMNS] // 2, len(shape) - 1
    x: Value = op.input
    if op.is_interleaved:
        x = out.node("Reshape", x, out.constant([*shape[:COLUMNS], half, 2]))
        axis, width = last + 1, 1
    else:
        axis, width = last, half
    sizes = out.constant(np.array([width, width], np.int64))
    first, second = out.nodes("Split", 2, x, sizes, axis=axis)
    rotated = out.node("Concat", out.node("Neg", second), first, axis=axis)
    if op.is_interleaved:
        rotated = out.node("Reshape", rotated, out.constant(list(shape)))
    return out.node("Add", out.node("Mul", op.input, op.cosine), out.node("Mul", rotated, op.sine))
