"""Quantized operators of onnxruntime's own domain: com.microsoft.

    QLinearAdd(a, b)           quantize(dequantize(a) + dequantize(b)), and others like it
    QGemm(a, b, c)             top.matmul of quantized matrices, requantized
    QLinearConv                ONNX's own, with channels behind where `channels_last` says so

Results are those of the documented formulas: ties are rounded to even before the zero point is
added. onnxruntime's sums, products and averages add it first, so that ties differ by one step
where it is odd.

Reference: onnxruntime, docs/ContribOperators.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from xdsl.dialects.builtin import Float32Type

from explorer.importers.building.expr import Expr, where
from explorer.importers.building.layouts import channels_first, channels_last
from explorer.importers.building.quantized_types import as_quantized, as_stored
from explorer.importers.onnx.operators.normalization import flattening_softmax, softmax
from explorer.importers.onnx.operators.pooling import average_pool, global_pool, max_pool
from explorer.importers.onnx.operators.quantization import (
    dequantize,
    qlinear_conv,
    quantize,
    requantized,
)
from explorer.importers.onnx.program.build import Build
from explorer.importers.onnx.program.nodes import Convert, Node, Unsupported, converts
from explorer.importers.onnx.program.quantized_types import quantized_type
from explorer.importers.onnx.program.structures import Imported
from explorer.ir.top.quantization.quantized import DequantizeOp
from explorer.ir.types import QuantizedType

MICROSOFT = "com.microsoft"


@converts("QuantizeLinear", domain=MICROSOFT)
def contrib_quantize(node: Node, build: Build) -> Imported | Sequence[Imported | None]:
    return quantize.convert(node, build)


@converts("DequantizeLinear", domain=MICROSOFT, knows_quantized=True)
def contrib_dequantize(node: Node, build: Build) -> Imported | Sequence[Imported | None]:
    return dequantize.convert(node, build)


@converts("QLinearAdd", "QLinearMul", domain=MICROSOFT, knows_quantized=True)
def qlinear_binary(node: Node, build: Build) -> Expr:
    """(left, scale, zero point), (right, scale, zero point), then those of the result."""
    left, right = (_real(node, first, build) for first in (0, 3))
    kind = "add" if node.operator == "QLinearAdd" else "mul"
    return _stored(left.binary(kind, right), node, 6, build)


@converts("QLinearSigmoid", "QLinearLeakyRelu", domain=MICROSOFT, knows_quantized=True)
def qlinear_unary(node: Node, build: Build) -> Expr:
    """(x, scale, zero point), then those of the result."""
    x = _real(node, 0, build)
    if node.operator == "QLinearSigmoid":
        y = x.sigmoid()
    else:
        y = x.unary("leaky_relu", node.number("alpha", 0.01))
    return _stored(y, node, 3, build)


@converts("QLinearAveragePool", "QLinearGlobalAveragePool", domain=MICROSOFT, knows_quantized=True)
def qlinear_average(node: Node, build: Build) -> Expr:
    """(x, scale, zero point), then those of the result; `channels_last`: channels behind."""
    x = _real(node, 0, build)
    is_global = node.operator == "QLinearGlobalAveragePool"
    convert = global_pool.convert if is_global else average_pool.convert
    y = _in_layout(convert, replace(node, operator="GlobalAveragePool", domain=""), x, build)
    return _stored(y, node, 3, build)


@converts("QLinearConv", domain=MICROSOFT, knows_quantized=True)
def qlinear_conv_in_layout(node: Node, build: Build) -> Expr:
    """ONNX's own where channels are first; the weight is (M, C / group, H, W) either way."""
    return _in_layout(qlinear_conv.convert, node, node.operand(0), build)


@converts("NhwcMaxPool", domain=MICROSOFT, knows_quantized=True)
def max_pool_channels_last(node: Node, build: Build) -> Expr:
    """The largest stored number of a window is that of the largest real one."""
    last = replace(node, attributes={**node.attributes, "channels_last": 1})
    return _in_layout(max_pool.convert, last, node.operand(0), build)


@converts("QLinearReduceMean", domain=MICROSOFT, knows_quantized=True)
def qlinear_reduce_mean(node: Node, build: Build) -> Expr:
    """(x, scale, zero point), then those of the result."""
    x = _real(node, 0, build)
    axes = node.integers("axes")
    chosen = range(x.rank) if axes is None else build.axes(axes, x.rank)
    return _stored(x.mean(list(chosen), bool(node.integer("keepdims", 1))), node, 3, build)


@converts("QLinearSoftmax", domain=MICROSOFT, knows_quantized=True)
def qlinear_softmax(node: Node, build: Build) -> Expr:
    """(x, scale, zero point), then those of the result; as Softmax of the attribute `opset` is."""
    x = _real(node, 0, build)
    convert = (softmax if node.integer("opset") >= 13 else flattening_softmax).convert
    plain = replace(node, operator="Softmax", domain="", operands=(x,))
    return _stored(_one(convert(plain, build)), node, 3, build)


@converts("QLinearWhere", domain=MICROSOFT, knows_quantized=True)
def qlinear_where(node: Node, build: Build) -> Expr:
    """condition, (x, scale, zero point), (y, scale, zero point), then those of the result."""
    chosen = where(node.operand(0), _real(node, 1, build), _real(node, 4, build))
    return _stored(chosen, node, 7, build, node.operand(1).dtype)


@converts("QLinearConcat", domain=MICROSOFT, knows_quantized=True)
def qlinear_concat(node: Node, build: Build) -> Expr:
    """The result's (scale, zero point), then (x, scale, zero point) of every part."""
    firsts = range(2, len(node.operands), 3)
    parts = [_real(node, first, build) for first in firsts]
    axis = build.axis(node.integer("axis"), parts[0].rank)
    return _stored(build.concat(parts, axis), node, 0, build)


@converts("QGemm", domain=MICROSOFT, knows_quantized=True)
def qgemm(node: Node, build: Build) -> Expr:
    """alpha * (a b) + c: (a, scale, zero point), (b, scale, zero point), c in i32, and the
    result's (scale, zero point); without these the result is f32."""
    a, b, addend = node.operand(0), node.operand(3), node.optional(6)
    is_turned = node.integer("transB", 0)
    alpha = node.number("alpha", 1.0)
    left = quantized_type(node.operand(1), node.optional(2), a.dtype, build, factor=alpha)
    axis = 0 if is_turned else 1
    right = quantized_type(node.operand(4), node.optional(5), b.dtype, build, axis)
    if left is None or right is None:
        raise Unsupported("scales and zero points that are computed")
    a, b = as_quantized(a, left, build), as_quantized(b, right, build)
    a = a.transpose([1, 0]) if node.integer("transA", 0) else a
    b = b.transpose([1, 0]) if is_turned else b
    sums = a @ b
    if addend is not None and addend.shape == b.shape[1:]:
        sums = build.matmul(a, b, addend)
    elif addend is not None:
        kind = sums.type.element_type  # pyright: ignore[reportAttributeAccessIssue]
        total = as_stored(sums, build) + addend
        sums = as_quantized(total, kind, build)
    if node.optional(7) is None:
        return build.value(DequantizeOp, [sums], to=Float32Type())
    return requantized(sums, _result_type(node, 7, node.operand(0).dtype, build), build)


def _in_layout(convert: Convert, node: Node, x: Expr, build: Build) -> Expr:
    """The node with x as operand 0, which has channels behind if `channels_last` says so."""
    is_last = node.integer("channels_last", 0)
    first = channels_first(x) if is_last else x
    y = _one(convert(replace(node, operands=(first, *node.operands[1:])), build))
    return channels_last(y) if is_last else y


def _one(result: Imported | Sequence[Imported | None]) -> Expr:
    """The only result of a node."""
    (value,) = [result] if isinstance(result, Imported) else result
    assert isinstance(value, Expr)
    return value


def _real(node: Node, first: int, build: Build) -> Expr:
    """Operand `first` with its scale and zero point as real numbers."""
    given = (node.operand(first), node.operand(first + 1), node.optional(first + 2))
    return _one(dequantize.convert(_plain(node, given), build))


def _stored(y: Expr, node: Node, first: int, build: Build, own: np.dtype | None = None) -> Expr:
    """Real numbers in the result's type: operand `first` is its scale, the zero point follows.

    own: the type where there is no zero point; that of operand 0 unless said.
    """
    zero = node.optional(first + 1)
    if zero is None:
        zero = build.weight(np.zeros((), own or node.operand(0).dtype))
    return _one(quantize.convert(_plain(node, (y, node.operand(first), zero)), build))


def _plain(node: Node, operands: tuple[Expr | None, ...]) -> Node:
    """A node of ONNX's own QuantizeLinear or DequantizeLinear in the place of this one."""
    return replace(node, domain="", attributes={}, operands=operands)


def _result_type(node: Node, first: int, dtype: np.dtype, build: Build) -> QuantizedType:
    zero = node.optional(first + 1)
    own = dtype if zero is None else zero.dtype
    kind = quantized_type(node.operand(first), zero, own, build)
    if kind is None:
        raise Unsupported("scales and zero points that are computed")
    return kind
