"""What onnxruntime makes of several operators when it optimizes a model: com.microsoft.

    FusedConv(x, w, b, z) <activation>    activation(Conv(x, w, b) + z)
    FusedGemm(a, b, c) <activation>       activation(Gemm(a, b, c))
    FusedMatMul(a, b) <transA, ...>       alpha * MatMul of transposed operands

They stand in files that were saved at graph optimization level "extended" or above.
Reference: onnxruntime, docs/ContribOperators.md.
"""

from __future__ import annotations

from dataclasses import replace

from explorer.importers.building.expr import Expr
from explorer.importers.building.layouts import channels_first, channels_last
from explorer.importers.onnx.contrib.contrib import MICROSOFT
from explorer.importers.onnx.operators.activations import activated, default_parameters
from explorer.importers.onnx.operators.nn import conv, gemm, matmul
from explorer.importers.onnx.operators.normalization import flattening_softmax
from explorer.importers.onnx.program.build import Build
from explorer.importers.onnx.program.nodes import Node, converts


@converts("FusedConv", domain=MICROSOFT)
def fused_conv(node: Node, build: Build) -> Expr:
    """The convolution, plus operand 3 where there is one, under the activation."""
    y = _one(conv.convert(replace(node, operands=node.operands[:3]), build))
    addend = node.optional(3)
    if addend is not None:
        y = y + addend
    return activated_by_list(y, node, build)


@converts("NhwcFusedConv", domain=MICROSOFT)
def fused_conv_channels_last(node: Node, build: Build) -> Expr:
    """As FusedConv, with channels behind in all but the weight, which is (M, C / group, H, W)."""
    x, addend = channels_first(node.operand(0)), node.optional(3)
    if addend is not None:
        addend = channels_first(addend)
    given = (x, node.operand(1), node.optional(2), addend)
    return channels_last(_one(fused_conv.convert(replace(node, operands=given), build)))


@converts("FusedGemm", domain=MICROSOFT)
def fused_gemm(node: Node, build: Build) -> Expr:
    return _activated_by_name(_one(gemm.convert(node, build)), node, build)


@converts("FusedMatMul", "TransposeMatMul", domain=MICROSOFT)
def fused_matmul(node: Node, build: Build) -> Expr:
    left = _turned(node.operand(0), node, "A")
    right = _turned(node.operand(1), node, "B")
    product = _one(matmul.convert(replace(node, operands=(left, right)), build))
    return product.scaled(node.number("alpha", 1.0))


@converts("FusedMatMulActivation", domain=MICROSOFT)
def fused_matmul_activation(node: Node, build: Build) -> Expr:
    return _activated_by_name(_one(fused_matmul.convert(node, build)), node, build)


@converts("BiasSoftmax", domain=MICROSOFT)
def bias_softmax(node: Node, build: Build) -> Expr:
    """softmax(x + bias) over the axes from `axis` on as one; the bias broadcasts either way."""
    total = node.operand(0) + node.operand(1)
    return _one(flattening_softmax.convert(replace(node, operands=(total,)), build))


@converts("BiasAdd", domain=MICROSOFT)
def bias_add(node: Node, build: Build) -> Expr:
    """x + bias of the last axis + skip"""
    return node.operand(0) + node.operand(1) + node.operand(2)


def activated_by_list(y: Expr, node: Node, build: Build) -> Expr:
    """y under the attribute `activation`, whose parameters stand in `activation_params`."""
    name = node.text("activation", "")
    return activated(y, name, node.numbers("activation_params") or (), build) if name else y


def _activated_by_name(y: Expr, node: Node, build: Build) -> Expr:
    """y under the attribute `activation`, whose parameters have attributes of their own."""
    name = node.text("activation", "")
    if not name:
        return y
    parameters = [
        node.number(f"activation_{label}", default)
        for label, default in default_parameters(name).items()
    ]
    return activated(y, name, parameters, build)


def _turned(x: Expr, node: Node, operand: str) -> Expr:
    """A factor as the product needs it.

    (m, batches..., k) with `transBatch`, whose first axis goes behind the batches; with `trans` the
    last two axes change places after that. A vector stays what it is.
    """
    rank = x.rank
    order = list(range(rank))
    if rank < 2:
        return x
    if node.integer(f"transBatch{operand}", 0):
        order = [*order[1:-1], 0, rank - 1]
    if node.integer(f"trans{operand}", 0):
        order[-2:] = order[:-3:-1]
    return x.transpose(order)


def _one(result: object) -> Expr:
    assert isinstance(result, Expr)
    return result
