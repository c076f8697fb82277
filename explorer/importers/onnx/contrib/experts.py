"""Mixtures of experts, of which every row of numbers takes the `k` with the greatest scores.

    MoE     y = sum of gate * (W2 act(W1 x + b1) + b2) over the chosen experts
    QMoE    the same with weights of 2, 4 or 8 bits, as in `block_quantized`

Gates are the softmax of the scores of the chosen experts, of MoE without
`normalize_routing_weights` the softmax of all scores. The program computes every expert for every
row and adds up those that are chosen. Reference: onnxruntime, docs/ContribOperators.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from explorer.importers.building.expr import Expr, minimum, where
from explorer.importers.building.quantized_types import dequantized_blocks
from explorer.importers.onnx.contrib.block_quantized import bits_of, unpacked
from explorer.importers.onnx.contrib.contrib import MICROSOFT
from explorer.importers.onnx.program.build import Build
from explorer.importers.onnx.program.nodes import Node, Unsupported, converts
from explorer.ir.top.reductions.normalization import SoftmaxOp
from explorer.ir.top.reductions.reduction import TopKOp


@dataclass(frozen=True)
class Layer:
    """A matrix for each expert, (experts, inputs, outputs), and a bias, (experts, outputs)."""

    weight: Expr
    bias: Expr | None

    def __call__(self, x: Expr) -> Expr:
        y = x @ self.weight
        return y if self.bias is None else y + self.bias.wide().unsqueeze([1])


@converts("MoE", domain=MICROSOFT)
def experts(node: Node, build: Build) -> Expr:
    """(x, scores, W1, b1, W2, b2, W3, b3)"""

    def layer(index: int) -> Layer | None:
        weight = node.optional(index)
        if weight is None:
            return None
        return Layer(weight.wide().transpose([0, 2, 1]), node.optional(index + 1))

    scores = node.operand(1).wide()
    chosen = _chosen(scores, node, build)
    is_of_chosen = node.integer("normalize_routing_weights", 0)
    gates = _softmax(where(chosen, scores, -np.inf) if is_of_chosen else scores, build)
    return _mixed(node, [layer(2), layer(4), layer(6)], chosen, gates, build)


@converts("QMoE", domain=MICROSOFT)
def quantized_experts(node: Node, build: Build) -> Expr:
    """(x, scores, then W, scale, b of each layer, their zero points, numbers to mix by)

    `accuracy_level` permits to compute less exactly, and is not made use of.
    """
    kind = node.text("quant_type", "int")
    if kind != "int":
        raise Unsupported(f"weights of type {kind}; integers (int) are supported")
    if node.integer("weights_prepacked", -1) > 0:
        raise Unsupported("weights in the order of a kernel (weights_prepacked)")
    width = node.integer("expert_weight_bits", 4)

    def layer(number: int) -> Layer | None:
        packed, scale, bias = (node.optional(2 + 3 * number + i) for i in range(3))
        if packed is None:
            return None
        if scale is None:
            raise ValueError(f"layer {number + 1} has no scales")
        bits = bits_of(node.integer(f"fc{number + 1}_expert_weight_bits", width))
        weight = unpacked(packed, bits, build)
        (inputs,) = weight.sizes([2], "weights of experts")
        if scale.rank == 2:
            scale = scale.unsqueeze([2])
        (blocks,) = scale.sizes([2], "scales of experts")
        zero = node.optional(11 + number)
        if zero is None:
            middle = np.full((1, 1, 1), 1 << (bits - 1), np.uint8)
            zero = build.weight(middle).broadcast_to(scale.all_sizes())
        else:
            sizes, axis = scale.sizes([0, 1, 2], "zero points"), zero.rank - 1
            zero = unpacked(zero, bits, build)
            zero = zero.slice(axis, 0, sizes[axis]).reshape(sizes)
        block = node.integer("block_size", 0) or inputs
        if -(-inputs // block) != blocks:
            raise ValueError(f"{blocks} scales of {inputs} inputs in blocks of {block}")
        real = dequantized_blocks(weight, scale, zero, 2, block, build)
        return Layer(real.wide().transpose([0, 2, 1]), bias)

    scores = node.operand(1).wide()
    chosen, mixing = _chosen(scores, node, build), node.optional(14)
    if mixing is None:
        gates = _softmax(where(chosen, scores, -np.inf), build)
    else:
        gates = where(chosen, mixing.wide(), 0)
        if node.integer("normalize_routing_weights", 0):
            gates = gates / gates.sum([1], keepdims=True)
    return _mixed(node, [layer(0), layer(1), layer(2)], chosen, gates, build)


def _softmax(scores: Expr, build: Build) -> Expr:
    return build.value(SoftmaxOp, [scores], axis=1, logarithm=False)


def _chosen(scores: Expr, node: Node, build: Build) -> Expr:
    """Which experts are chosen, (rows, experts). Of equal scores the first ones count."""
    if node.integer("use_sparse_mixer", 0):
        raise Unsupported("experts chosen by a sparse mixer")
    (count,) = scores.sizes([1], "scores of experts")
    k = node.integer("k", 1)
    if not 0 < k <= count:
        raise ValueError(f"{k} of {count} experts")
    first = build.values(TopKOp, [scores], k=k, axis=1, largest=True)[1]
    numbers = build.weight(np.arange(count, dtype=np.int64))
    is_first = first.astype(np.int64).unsqueeze([2]) == numbers  # (rows, k, experts)
    return is_first.astype(np.int32).max([1]).astype(np.bool_)


def _mixed(node: Node, layers: list[Layer | None], chosen: Expr, gates: Expr, build: Build) -> Expr:
    """chosen and gates: (rows, experts)."""
    x = node.operand(0)
    first, last, gated = layers
    if first is None or last is None:
        raise ValueError("an expert has two layers at least")
    (width,) = x.sizes([x.rank - 1], "rows of experts")
    rows = x.wide().reshape([1, -1, width])
    y = last(_activated(node, first(rows), rows, gated))  # (experts, rows, width)
    chosen, gates = (each.transpose([1, 0]).unsqueeze([2]) for each in (chosen, gates))
    # What an expert that is not chosen computes may be infinite.
    mixed = where(chosen, y * gates, 0).sum([0])
    return mixed.reshape(x.all_sizes()).astype(x.dtype)


def _activated(node: Node, hidden: Expr, rows: Expr, gated: Layer | None) -> Expr:
    name = node.text("activation_type", "relu")
    if name == "swiglu":
        return _gated_swish(node, hidden, rows, gated)
    if gated is not None:
        raise Unsupported(f"a third layer next to the activation {name}")
    if name == "identity":
        return hidden
    if name == "silu":
        return hidden * hidden.sigmoid()
    if name not in ("relu", "gelu"):
        raise Unsupported(f"the activation {name}")
    return hidden.unary("gelu_tanh" if name == "gelu" else name)


def _gated_swish(node: Node, hidden: Expr, rows: Expr, gated: Layer | None) -> Expr:
    """min(g, limit) * sigmoid(alpha * min(g, limit)) * (l between the limits + beta)"""
    if node.integer("swiglu_limit_after_activation", 0):
        raise Unsupported("limits after the activation (swiglu_limit_after_activation)")
    fusion = node.integer("swiglu_fusion", 0)
    if fusion == 0:
        if gated is None:
            raise ValueError("swiglu_fusion = 0 takes a third layer")
        gate, linear = hidden, gated(rows)
    elif fusion in (1, 2):
        (columns,) = hidden.sizes([2], "gates and lines of an expert")
        ends = ((0, columns // 2, 1), (columns // 2, columns, 1))
        bounds = ((0, columns, 2), (1, columns, 2)) if fusion == 1 else ends
        gate, linear = (hidden.slices({2: each}) for each in bounds)
    else:
        raise ValueError(f"swiglu_fusion = {fusion}; 0, 1 or 2 expected")
    if "swiglu_limit" in node.attributes:
        limit = node.number("swiglu_limit", 0.0)
        gate, linear = minimum(gate, limit), linear.clip(-limit, limit)
    swish = gate * gate.scaled(node.number("activation_alpha", 1.0)).sigmoid()
    return swish * (linear + node.number("activation_beta", 0.0))
