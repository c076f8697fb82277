"""onnxruntime's fused transformer operators, taken apart again.

    Attention     q, k, v = split(x W + b);  softmax(q k^T / sqrt(head) + mask) v
                  with earlier keys and values (`past`) in front of the new ones

Reference: onnxruntime, docs/ContribOperators.md.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import SSAValue

from explorer.importers.onnx.build import Axis, Build
from explorer.importers.onnx.contrib import MICROSOFT
from explorer.importers.onnx.nodes import Node, Unsupported, converts
from explorer.ir.top.indexing import GatherOp
from explorer.ir.top.normalization import LayerNormOp, SoftmaxOp


@converts("EmbedLayerNormalization", domain=MICROSOFT)
def embed(node: Node, build: Build) -> Sequence[SSAValue | None]:
    """The sum of word, position and segment embeddings, normalized; the sum itself is result 2."""
    tokens, segments, words = node.operand(0), node.optional(1), node.operand(2)
    positions_table, segments_table = node.operand(3), node.optional(4)
    positions = node.optional(8)
    if positions is None:
        (length,) = build.sizes(tokens, [1], "positions that are not given")
        positions = build.weight(np.arange(length)[np.newaxis])
    total = build.binary(
        "add",
        build.value(GatherOp, [words, tokens], axis=0),
        build.value(GatherOp, [positions_table, positions], axis=0),
    )
    if segments is not None and segments_table is not None:
        total = build.binary(
            "add", total, build.value(GatherOp, [segments_table, segments], axis=0)
        )
    epsilon = node.number("epsilon", 1e-12)
    scale, shift = node.operand(5), node.optional(6)
    normalized = build.value(LayerNormOp, [total, scale, shift], axis=2, epsilon=epsilon)
    return [normalized, None, total]


@converts("Attention", domain=MICROSOFT)
def attention(node: Node, build: Build) -> Sequence[SSAValue]:
    """Results: (batch, sequence, hidden), and with `past` (2, batch, heads, total, head)."""
    x, weight, bias = node.operand(0), node.operand(1), node.optional(2)
    mask, past = node.optional(3), node.optional(4)
    if node.optional(5) is not None or node.integer("do_rotary", 0):
        raise Unsupported("an attention bias or rotary embeddings")
    heads = node.integer("num_heads")
    (columns,) = build.sizes(weight, [1], "attention")
    if node.integers("qkv_hidden_sizes") is not None or columns % (3 * heads):
        raise Unsupported("queries, keys and values of different sizes")
    hidden = columns // 3
    size = hidden // heads
    packed = build.matmul(x, weight, bias)
    batch, length = Axis(x, 0), Axis(x, 1)
    split = [
        build.transpose(
            build.reshape(
                build.slice(packed, 2, part * hidden, (part + 1) * hidden),
                [batch, length, heads, size],
            ),
            [0, 2, 1, 3],
        )
        for part in range(3)
    ]
    query, key, value = split
    if past is not None:
        earlier = [build.squeeze(build.slice(past, 0, i, i + 1), [0]) for i in range(2)]
        key, value = build.concat([earlier[0], key], 2), build.concat([earlier[1], value], 2)
    factor = node.number("scale", 0.0) or size**-0.5
    scores = build.scaled(build.matmul(query, build.transpose(key, [0, 1, 3, 2])), factor)
    lowest = node.number("mask_filter_value", -10000.0)
    if mask is not None:
        scores = build.binary("add", scores, _mask(mask, lowest, scores, build))
    if node.integer("unidirectional", 0):
        scores = build.binary("add", scores, _causal(scores, lowest, build))
    weights = build.value(SoftmaxOp, [scores], axis=3, logarithm=False)
    mixed = build.transpose(build.matmul(weights, value), [0, 2, 1, 3])
    result = build.reshape(mixed, [batch, length, hidden])
    if len(node.results) < 2:
        return [result]
    present = build.concat([build.unsqueeze(key, [0]), build.unsqueeze(value, [0])], 0)
    return [result, present]


def _mask(mask: SSAValue, lowest: float, scores: SSAValue, build: Build) -> SSAValue:
    """0 where a position counts (mask 1), `lowest` where it does not: (batch, 1, 1, total)."""
    if build.rank(mask) != 2:
        raise Unsupported(f"a mask with {build.rank(mask)} dimensions")
    real = build.cast(mask, build.dtype(scores))
    missing = build.binary("sub", build.scalar_like(1, scores), real)
    return build.unsqueeze(build.scaled(missing, lowest), [1, 2])


def _causal(scores: SSAValue, lowest: float, build: Build) -> SSAValue:
    """`lowest` for keys that come after the query; the new queries are the last positions."""
    length, total = build.sizes(scores, [2, 3], "causal attention")
    later = np.arange(total) > np.arange(total - length, total)[:, np.newaxis]
    return build.weight(np.where(later, lowest, 0).astype(build.dtype(scores)))
