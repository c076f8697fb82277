"""Dynamic quantization: scales and zero points that are taken from the numbers themselves.

    DynamicQuantizeLinear      top.dynamic_quantize
    DynamicQuantizeMatMul      x quantized so, then MatMulIntegerToFloat
    MatMulIntegerToFloat       f32(MatMulInteger(a, b)) * (scale of a * scale of b) + bias

Products are written in arithmetic of i32, as ONNX defines them; the pass `compute-in-integers`
makes products of bytes of them. Reference: ONNX operators; onnxruntime, docs/ContribOperators.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from explorer.importers.building.expr import Expr
from explorer.importers.onnx.operators.quantization import matmul_integer
from explorer.importers.onnx.program.build import Build
from explorer.importers.onnx.program.nodes import Node, Unsupported, converts
from explorer.ir.top.quantization.dynamic import DynamicQuantizeOp

MICROSOFT = "com.microsoft"


@converts("DynamicQuantizeLinear", since=11)
def dynamic_quantize(node: Node, build: Build) -> list[Expr]:
    """The bytes, their scale and their zero point."""
    return build.values(DynamicQuantizeOp, [node.operand(0)])


@converts("MatMulIntegerToFloat", domain=MICROSOFT)
def matmul_integer_to_float(node: Node, build: Build) -> Expr:
    """(a, b, scale of a, of b, zero point of a, of b, bias); those of b may be one per column."""
    left, right = node.operand(0), node.operand(1)
    scales, zeros = (node.operand(2), node.operand(3)), (node.optional(4), node.optional(5))
    return scaled_product(node, (left, right, *zeros), scales, node.optional(6), build)


@converts("DynamicQuantizeMatMul", domain=MICROSOFT)
def dynamic_quantize_matmul(node: Node, build: Build) -> Expr:
    """(x, b, scale of b, zero point of b, bias)"""
    right = Quantized(node, node.operand(2), node.optional(3))
    return dynamic_product(node.operand(0), node.operand(1), right, node.optional(4), build)


@dataclass(frozen=True)
class Quantized:
    """What the bytes of a matrix mean, and the node that multiplies them."""

    node: Node
    scale: Expr
    zero_point: Expr | None


def dynamic_product(
    x: Expr, matrix: Expr, means: Quantized, bias: Expr | None, build: Build
) -> Expr:
    """x, quantized by its range, times a matrix of bytes, and a bias."""
    left, scale, zero = build.values(DynamicQuantizeOp, [x])
    operands = (left, matrix, zero, means.zero_point)
    return scaled_product(means.node, operands, (scale, means.scale), bias, build)


def scaled_product(
    node: Node,
    operands: tuple[Expr, Expr, Expr | None, Expr | None],
    scales: tuple[Expr, Expr],
    bias: Expr | None,
    build: Build,
) -> Expr:
    """(a - its zero point) times (b - its zero point), times both scales, and a bias."""
    if scales[0].rank and scales[0].size(0) != 1:
        raise Unsupported("several scales of the first operand")
    sums = matmul_integer.convert(
        replace(node, operator="MatMulInteger", domain="", operands=operands), build
    )
    assert isinstance(sums, Expr)
    factor = scales[0].reshape([]) * scales[1]
    real = sums.astype(np.float32) * factor
    return real if bias is None else real + bias
