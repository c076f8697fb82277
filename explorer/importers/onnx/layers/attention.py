"""Attention operators of onnxruntime for encoders and decoders with as many heads of keys.

    Attention            q, k, v = split(x W + b);  softmax(q k^T / sqrt(head) + mask) v
                         with earlier keys and values (`past`) in front of the new ones
    QAttention           the same of x and W as bytes; they are multiplied in integers
    MultiHeadAttention   the same for queries, keys and values that were projected before

ONNX's own Attention comes in by its function body, which passes recognize.
Reference: onnxruntime, docs/ContribOperators.md.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from explorer.importers.building.attention_scores import attend, causal, counted
from explorer.importers.building.expr import Expr, where
from explorer.importers.onnx.contrib.contrib import MICROSOFT
from explorer.importers.onnx.contrib.dynamic_quantization import scaled_product
from explorer.importers.onnx.program.build import Build
from explorer.importers.onnx.program.nodes import Node, Unsupported, converts
from explorer.ir.top.indexing import GatherOp
from explorer.ir.top.reductions.normalization import LayerNormOp

_IN_ONE_BUFFER = "a past of variable length in one buffer"
LOWEST = -10000.0
"""What is added to a masked score unless `mask_filter_value` says otherwise."""


@converts("EmbedLayerNormalization", domain=MICROSOFT)
def embed(node: Node, build: Build) -> Sequence[Expr | None]:
    """The sum of word, position and segment embeddings, normalized; the sum itself is result 2."""
    tokens, segments, words = node.operand(0), node.optional(1), node.operand(2)
    positions_table, segments_table = node.operand(3), node.optional(4)
    positions = node.optional(8)
    if positions is None:
        (length,) = tokens.sizes([1], "positions that are not given")
        positions = build.weight(np.arange(length)[np.newaxis])
    total = build.value(GatherOp, [words, tokens], axis=0) + build.value(
        GatherOp, [positions_table, positions], axis=0
    )
    if segments is not None and segments_table is not None:
        total = total + build.value(GatherOp, [segments_table, segments], axis=0)
    epsilon = node.number("epsilon", 1e-12)
    scale, shift = node.operand(5), node.optional(6)
    normalized = build.value(LayerNormOp, [total, scale, shift], axis=2, epsilon=epsilon)
    return [normalized, None, total]


@converts("Attention", domain=MICROSOFT)
def attention(node: Node, build: Build) -> Sequence[Expr]:
    """Results: (batch, sequence, hidden), and with `past` (2, batch, heads, total, head)."""
    if node.optional(6) is not None:
        raise Unsupported(_IN_ONE_BUFFER)
    packed = build.matmul(node.operand(0), node.operand(1), node.optional(2))
    return _of_packed(node, packed, (node.optional(3), node.optional(5)), node.optional(4), build)


@converts("QAttention", domain=MICROSOFT)
def quantized_attention(node: Node, build: Build) -> Sequence[Expr]:
    """(x, weight, bias, scale of x, of weight, mask, zero point of x, of weight, past)"""
    operands = (node.operand(0), node.operand(1), node.optional(6), node.optional(7))
    scales = (node.operand(3), node.operand(4))
    packed = scaled_product(node, operands, scales, node.operand(2), build)
    return _of_packed(node, packed, (node.optional(5), None), node.optional(8), build)


def _of_packed(
    node: Node,
    packed: Expr,
    masks: tuple[Expr | None, Expr | None],
    past: Expr | None,
    build: Build,
) -> Sequence[Expr]:
    """packed: (batch, rows, queries with keys with values).

    masks: of keys, and a bias of scores."""
    if node.integer("do_rotary", 0):
        raise Unsupported("rotary embeddings without their tables")
    if node.integer("past_present_share_buffer", 0):
        raise Unsupported(_IN_ONE_BUFFER)
    heads = node.integer("num_heads")
    (columns,) = packed.sizes([2], "attention")
    sizes = node.integers("qkv_hidden_sizes") or (columns // 3,) * 3
    if sum(sizes) != columns or len(sizes) != 3 or any(size % heads for size in sizes):
        raise Unsupported(f"{columns} columns for queries, keys and values of {heads} heads")
    parts, first = [], 0
    for size in sizes:
        part = packed.slice(2, first, first + size)
        parts.append(_by_heads(part, heads, size // heads))
        first += size
    query, key, value = parts
    earlier = None
    if past is not None:
        earlier = [past.slice(0, i, i + 1).squeeze([0]) for i in range(2)]
        key, value = build.concat([earlier[0], key], 2), build.concat([earlier[1], value], 2)
    added = _bias(node, *masks, key, build)
    order = None
    if node.integer("unidirectional", 0):
        order = causal(query, key, earlier[0] if earlier else None, build)
    scale, fill = node.number("scale", 0.0), _fill(added, key)
    mixed = attend(query, key, value, build, scale, order, added, fill=fill).values
    result = mixed.transpose([0, 2, 1, 3]).reshape([packed.dim(0), packed.dim(1), sizes[2]])
    if len(node.results) < 2:
        return [result]
    return [result, build.concat([key.unsqueeze([0]), value.unsqueeze([0])], 0)]


@converts("MultiHeadAttention", domain=MICROSOFT)
def multi_head_attention(node: Node, build: Build) -> Sequence[Expr | None]:
    """Results: (batch, sequence, hidden), and the keys and values with those of the past."""
    heads = node.integer("num_heads")
    if any(node.optional(index) is not None for index in (8, 9)):
        raise Unsupported(_IN_ONE_BUFFER)
    parts = _projected(node, heads)
    query, key, value = parts
    past = [node.optional(6), node.optional(7)]
    if past[0] is not None and past[1] is not None:
        key, value = build.concat([past[0], key], 2), build.concat([past[1], value], 2)
    added = _bias(node, node.optional(4), node.optional(5), key, build)
    order = causal(query, key, past[0], build) if node.integer("unidirectional", 0) else None
    has_scores = len(node.results) > 3 and bool(node.results[3])
    scale, fill = node.number("scale", 0.0), _fill(added, key)
    mixed = attend(query, key, value, build, scale, order, added, has_scores=has_scores, fill=fill)
    (size,) = value.sizes([3], "attention")
    rows = mixed.values.transpose([0, 2, 1, 3])
    result = rows.reshape([query.dim(0), query.dim(2), heads * size])
    scores = mixed.scores
    if scores is not None and order is not None:
        lowest = scores.constant(np.finfo(scores.dtype).min)
        scores = where(order, scores, lowest)
    return [result, key, value, scores]


def _projected(node: Node, heads: int) -> list[Expr]:
    """Queries, keys and values as (batch, heads, rows, size), from any of the packed forms."""
    query, key, value = node.operand(0), node.optional(1), node.optional(2)
    bias = node.optional(3)
    if query.rank == 5:  # (batch, rows, heads, 3, size)
        found = [query.slice(3, part, part + 1).squeeze([3]) for part in range(3)]
    elif key is not None and key.rank == 5:  # (batch, rows, heads, 2, size)
        found = [query, *[key.slice(3, part, part + 1).squeeze([3]) for part in range(2)]]
    elif key is not None and value is not None:
        found = [query, key, value]
    else:
        raise Unsupported("queries without keys and values")
    parts, first = [], 0
    for part in found:
        if part.rank == 4 and any(part is v for v in (key, value)):  # projected and split before
            parts.append(part)
            continue
        (columns,) = part.sizes([part.rank - 1], "attention")
        size = columns // heads if part.rank == 3 else columns
        if bias is not None:
            own = bias.slice(0, first, first + heads * size)
            shape = [heads, size] if part.rank == 4 else [heads * size]
            part = part + own.reshape(shape)
        first += heads * size
        parts.append(_by_heads(part, heads, size))
    return parts


def _by_heads(x: Expr, heads: int, size: int) -> Expr:
    """(batch, rows, heads * size) as (batch, heads, rows, size)."""
    if x.rank == 3:
        x = x.reshape([x.dim(0), x.dim(1), heads, size])
    return x.transpose([0, 2, 1, 3])


def _fill(added: Expr | None, key: Expr) -> float:
    """The score of a later key: onnxruntime's is the lowest number, so that a row of which all
    other keys are masked by that number gives each key the same share."""
    return -np.inf if added is None else float(np.finfo(key.dtype).min)


def _bias(
    node: Node,
    mask: Expr | None,
    extra: Expr | None,
    key: Expr,
    build: Build,
) -> Expr | None:
    """What is added to the scores: what is given, and `mask_filter_value` for masked keys."""
    if mask is None:
        return extra
    is_counted = _mask(mask, key, build)
    lowest = node.number("mask_filter_value", LOWEST)
    numbers = (key.constant(number) for number in (0, lowest))
    added = build.select(is_counted, *numbers)
    return added if extra is None else extra + added


def _mask(mask: Expr, key: Expr, build: Build) -> Expr:
    """Where a key counts, in one of the forms that onnxruntime has.

    (batch, total)            positive there, as (batch, 1, 1, total)
    (batch, rows, total)      as (batch, 1, rows, total)
    (batch)                   how many keys count; those behind are padding
    (2 batch)                 these ends, and then the first keys that count
    (3 batch + 2)             these ends, and then offsets, which say the same
    """
    rank = mask.rank
    if rank in (2, 3):
        is_positive = mask > 0
        return is_positive.unsqueeze([1, 2] if rank == 2 else [1])
    if rank != 1:
        raise Unsupported(f"a mask with {rank} dimensions")
    batch, size = key.shape[0], mask.shape[0]
    if batch != size and not (isinstance(batch, int) and size in (2 * batch, 3 * batch + 2)):
        raise Unsupported(f"a mask of {size} numbers for a batch of {batch}")
    positions = counted(key, 2, build)

    def per_batch(first: int) -> Expr:
        part = mask
        if batch != size:
            assert isinstance(batch, int)
            part = mask.slice(0, first * batch, (first + 1) * batch)
        return part.astype(np.int64).unsqueeze([1])

    counts = positions < per_batch(0)
    if isinstance(batch, int) and batch != size and size == 2 * batch:
        behind = positions >= per_batch(1)
        counts = counts & behind
    return counts.unsqueeze([1, 2])
