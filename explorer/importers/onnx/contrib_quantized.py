"""Quantized operators of onnxruntime's own domain: com.microsoft.

    QLinearAdd(a, b)           quantize(dequantize(a) + dequantize(b)), and others like it
    QGemm(a, b, c)             top.matmul of quantized matrices, requantized

Reference: onnxruntime, docs/ContribOperators.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from xdsl.dialects.builtin import Float32Type
from xdsl.ir import SSAValue

from explorer.importers.onnx.build import Build
from explorer.importers.onnx.nodes import Node, Unsupported, converts
from explorer.importers.onnx.pooling import average_pool, global_pool
from explorer.importers.onnx.quantization import dequantize, quantize, requantized
from explorer.importers.onnx.quantized_types import as_quantized, as_stored, quantized_type
from explorer.importers.onnx.structures import Imported
from explorer.ir.top.quantized import DequantizeOp
from explorer.ir.types import QuantizedType

MICROSOFT = "com.microsoft"


@converts("QuantizeLinear", domain=MICROSOFT)
def contrib_quantize(node: Node, build: Build) -> Imported | Sequence[Imported | None]:
    return quantize.convert(node, build)


@converts("DequantizeLinear", domain=MICROSOFT, knows_quantized=True)
def contrib_dequantize(node: Node, build: Build) -> Imported | Sequence[Imported | None]:
    return dequantize.convert(node, build)


@converts("QLinearAdd", "QLinearMul", domain=MICROSOFT, knows_quantized=True)
def qlinear_binary(node: Node, build: Build) -> SSAValue:
    """(left, scale, zero point), (right, scale, zero point), then those of the result."""
    left, right = (_real(node, first, build) for first in (0, 3))
    kind = "add" if node.operator == "QLinearAdd" else "mul"
    return _stored(build.binary(kind, left, right), node, 6, build)


@converts("QLinearSigmoid", "QLinearLeakyRelu", domain=MICROSOFT, knows_quantized=True)
def qlinear_unary(node: Node, build: Build) -> SSAValue:
    """(x, scale, zero point), then those of the result."""
    x = _real(node, 0, build)
    if node.operator == "QLinearSigmoid":
        y = build.unary("sigmoid", x)
    else:
        y = build.unary("leaky_relu", x, node.number("alpha", 0.01))
    return _stored(y, node, 3, build)


@converts("QLinearAveragePool", "QLinearGlobalAveragePool", domain=MICROSOFT, knows_quantized=True)
def qlinear_average(node: Node, build: Build) -> SSAValue:
    """(x, scale, zero point), then those of the result; `channels_last`: channels behind."""
    x = _real(node, 0, build)
    is_last, rank = node.integer("channels_last", 0), build.rank(x)
    if is_last:
        x = build.transpose(x, [0, rank - 1, *range(1, rank - 1)])
    is_global = node.operator == "QLinearGlobalAveragePool"
    convert: Callable[[Node, Build], object] = (
        global_pool.convert if is_global else average_pool.convert
    )
    y = convert(replace(node, operator="GlobalAveragePool", domain="", operands=(x,)), build)
    assert isinstance(y, SSAValue)
    if is_last:
        y = build.transpose(y, [0, *range(2, rank), 1])
    return _stored(y, node, 3, build)


@converts("QLinearConcat", domain=MICROSOFT, knows_quantized=True)
def qlinear_concat(node: Node, build: Build) -> SSAValue:
    """The result's (scale, zero point), then (x, scale, zero point) of every part."""
    firsts = range(2, len(node.operands), 3)
    parts = [_real(node, first, build) for first in firsts]
    axis = build.axis(node.integer("axis"), build.rank(parts[0]))
    return _stored(build.concat(parts, axis), node, 0, build)


@converts("QGemm", domain=MICROSOFT, knows_quantized=True)
def qgemm(node: Node, build: Build) -> SSAValue:
    """alpha * (a b) + c: (a, scale, zero point), (b, scale, zero point), c in i32, and the
    result's (scale, zero point); without these the result is f32."""
    a, b, addend = node.operand(0), node.operand(3), node.optional(6)
    is_turned = node.integer("transB", 0)
    alpha = node.number("alpha", 1.0)
    left = quantized_type(node.operand(1), node.optional(2), build.dtype(a), build, factor=alpha)
    axis = 0 if is_turned else 1
    right = quantized_type(node.operand(4), node.optional(5), build.dtype(b), build, axis)
    if left is None or right is None:
        raise Unsupported("scales and zero points that are computed")
    a, b = as_quantized(a, left, build), as_quantized(b, right, build)
    a = build.transpose(a, [1, 0]) if node.integer("transA", 0) else a
    b = build.transpose(b, [1, 0]) if is_turned else b
    sums = build.matmul(a, b)
    if addend is not None and build.shape(addend) == build.shape(b)[1:]:
        sums = build.matmul(a, b, addend)
    elif addend is not None:
        kind = sums.type.element_type  # pyright: ignore[reportAttributeAccessIssue]
        total = build.binary("add", as_stored(sums, build), addend)
        sums = as_quantized(total, kind, build)
    if node.optional(7) is None:
        return build.value(DequantizeOp, [sums], to=Float32Type())
    return requantized(sums, _result_type(node, 7, build.dtype(node.operand(0)), build), build)


def _real(node: Node, first: int, build: Build) -> SSAValue:
    """Operand `first` with its scale and zero point as real numbers."""
    given = (node.operand(first), node.operand(first + 1), node.optional(first + 2))
    y = dequantize.convert(_plain(node, given), build)
    assert isinstance(y, SSAValue)
    return y


def _stored(y: SSAValue, node: Node, first: int, build: Build) -> SSAValue:
    """Real numbers in the result's type: operand `first` is its scale, the zero point follows."""
    zero = node.optional(first + 1)
    if zero is None:
        own = build.dtype(node.operand(0))
        zero = build.weight(np.zeros((), own))
    result = quantize.convert(_plain(node, (y, node.operand(first), zero)), build)
    assert isinstance(result, SSAValue)
    return result


def _plain(node: Node, operands: tuple[SSAValue | None, ...]) -> Node:
    """A node of ONNX's own QuantizeLinear or DequantizeLinear in the place of this one."""
    return replace(node, domain="", attributes={}, operands=operands)


def _result_type(node: Node, first: int, dtype: np.dtype, build: Build) -> QuantizedType:
    zero = node.optional(first + 1)
    own = dtype if zero is None else build.dtype(zero)
    kind = quantized_type(node.operand(first), zero, own, build)
    if kind is None:
        raise Unsupported("scales and zero points that are computed")
    return kind
