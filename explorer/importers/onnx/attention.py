"""Attention operators: onnxruntime's fused ones, and rotary embeddings of both domains.

    Attention            q, k, v = split(x W + b);  softmax(q k^T / sqrt(head) + mask) v
                         with earlier keys and values (`past`) in front of the new ones
    MultiHeadAttention   the same for queries, keys and values that were projected before
    RotaryEmbedding      pairs of numbers turned by the angles of their position

ONNX's own Attention comes in by its function body, which passes recognize.
Reference: onnxruntime, docs/ContribOperators.md; ONNX, RotaryEmbedding-23.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import SSAValue

from explorer.importers.onnx.build import Axis, Build, Size
from explorer.importers.onnx.contrib import MICROSOFT
from explorer.importers.onnx.nodes import Node, Unsupported, converts
from explorer.ir.top.attention import AttentionOp, RotaryOp
from explorer.ir.top.indexing import GatherOp
from explorer.ir.top.normalization import LayerNormOp
from explorer.ir.top.shapes import RangeOp

LOWEST = -10000.0
"""What is added to a masked score unless `mask_filter_value` says otherwise."""


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
    past, extra = node.optional(4), node.optional(5)
    if node.integer("do_rotary", 0):
        raise Unsupported("rotary embeddings without their tables")
    heads = node.integer("num_heads")
    (columns,) = build.sizes(weight, [1], "attention")
    sizes = node.integers("qkv_hidden_sizes") or (columns // 3,) * 3
    if sum(sizes) != columns or len(sizes) != 3 or any(size % heads for size in sizes):
        raise Unsupported(f"{columns} columns for queries, keys and values of {heads} heads")
    packed, first = build.matmul(x, weight, bias), 0
    parts = []
    for size in sizes:
        part = build.slice(packed, 2, first, first + size)
        parts.append(_by_heads(part, heads, size // heads, build))
        first += size
    query, key, value = parts
    if past is not None:
        earlier = [build.squeeze(build.slice(past, 0, i, i + 1), [0]) for i in range(2)]
        key, value = build.concat([earlier[0], key], 2), build.concat([earlier[1], value], 2)
    added = _bias(node, node.optional(3), extra, query, key, build)
    mixed = _attend(node, query, key, value, added, build)
    result = build.reshape(build.transpose(mixed, [0, 2, 1, 3]), [Axis(x, 0), Axis(x, 1), sizes[2]])
    if len(node.results) < 2:
        return [result]
    present = build.concat([build.unsqueeze(key, [0]), build.unsqueeze(value, [0])], 0)
    return [result, present]


@converts("MultiHeadAttention", domain=MICROSOFT)
def multi_head_attention(node: Node, build: Build) -> Sequence[SSAValue]:
    """Results: (batch, sequence, hidden), and the keys and values with those of the past."""
    heads = node.integer("num_heads")
    if any(node.optional(index) is not None for index in (8, 9)):
        raise Unsupported("a past of variable length in one buffer")
    parts = _projected(node, heads, build)
    query, key, value = parts
    past = [node.optional(6), node.optional(7)]
    if past[0] is not None and past[1] is not None:
        key, value = build.concat([past[0], key], 2), build.concat([past[1], value], 2)
    added = _bias(node, node.optional(4), node.optional(5), query, key, build)
    mixed = build.transpose(_attend(node, query, key, value, added, build), [0, 2, 1, 3])
    (size,) = build.sizes(value, [3], "attention")
    result = build.reshape(mixed, [Axis(query, 0), Axis(query, 2), heads * size])
    if len(node.results) > 3 and node.results[3]:
        raise Unsupported("scores as a result")
    return [result, key, value]


def _projected(node: Node, heads: int, build: Build) -> list[SSAValue]:
    """Queries, keys and values as (batch, heads, rows, size), from any of the packed forms."""
    query, key, value = node.operand(0), node.optional(1), node.optional(2)
    bias = node.optional(3)
    if build.rank(query) == 5:  # (batch, rows, heads, 3, size)
        found = [_unpacked(query, part, build) for part in range(3)]
    elif key is not None and build.rank(key) == 5:  # (batch, rows, heads, 2, size)
        found = [query, *[_unpacked(key, part, build) for part in range(2)]]
    elif key is not None and value is not None:
        found = [query, key, value]
    else:
        raise Unsupported("queries without keys and values")
    parts, first = [], 0
    for part in found:
        if build.rank(part) == 4 and part in (key, value):  # projected and split before
            parts.append(part)
            continue
        (columns,) = build.sizes(part, [build.rank(part) - 1], "attention")
        size = columns // heads if build.rank(part) == 3 else columns
        if bias is not None:
            own = build.slice(bias, 0, first, first + heads * size)
            shape = [heads, size] if build.rank(part) == 4 else [heads * size]
            part = build.binary("add", part, build.reshape(own, shape))
        first += heads * size
        parts.append(_by_heads(part, heads, size, build))
    return parts


def _unpacked(packed: SSAValue, part: int, build: Build) -> SSAValue:
    """One of the tensors that lie side by side in (batch, rows, heads, parts, size)."""
    return build.squeeze(build.slice(packed, 3, part, part + 1), [3])


def _by_heads(x: SSAValue, heads: int, size: int, build: Build) -> SSAValue:
    """(batch, rows, heads * size) as (batch, heads, rows, size)."""
    if build.rank(x) == 3:
        x = build.reshape(x, [Axis(x, 0), Axis(x, 1), heads, size])
    return build.transpose(x, [0, 2, 1, 3])


def _attend(
    node: Node,
    query: SSAValue,
    key: SSAValue,
    value: SSAValue,
    bias: SSAValue | None,
    build: Build,
) -> SSAValue:
    (size,) = build.sizes(query, [3], "attention")
    scale = node.number("scale", 0.0) or size**-0.5
    return build.value(AttentionOp, [query, key, value, None, bias], scale=scale)


def _bias(
    node: Node,
    mask: SSAValue | None,
    extra: SSAValue | None,
    query: SSAValue,
    key: SSAValue,
    build: Build,
) -> SSAValue | None:
    """All that is added to the scores: what is given, for masked keys, and for later ones."""
    lowest = node.number("mask_filter_value", LOWEST)
    parts = [] if extra is None else [extra]
    if mask is not None:
        parts.append(_mask(mask, lowest, query, build))
    if node.integer("unidirectional", 0):
        parts.append(_causal(query, key, lowest, build))
    total = None
    for part in parts:
        total = part if total is None else build.binary("add", total, part)
    return total


def _mask(mask: SSAValue, lowest: float, query: SSAValue, build: Build) -> SSAValue:
    """0 where a position counts (mask 1), `lowest` where it does not.

    (batch, total) as (batch, 1, 1, total), (batch, queries, total) as (batch, 1, queries, total).
    """
    if build.rank(mask) not in (2, 3):
        raise Unsupported(f"a mask with {build.rank(mask)} dimensions")
    real = build.cast(mask, build.dtype(query))
    missing = build.binary("sub", build.scalar_like(1, query), real)
    axes = [1, 2] if build.rank(mask) == 2 else [1]
    return build.unsqueeze(build.scaled(missing, lowest), axes)


def _causal(query: SSAValue, key: SSAValue, lowest: float, build: Build) -> SSAValue:
    """`lowest` for keys that come after the query; the new queries are the last positions."""
    length, total = build.size(query, 2), build.size(key, 2)
    if length is not None and total is not None:
        later = np.arange(total) > np.arange(total - length, total)[:, np.newaxis]
        return build.weight(np.where(later, lowest, 0).astype(build.dtype(query)))
    sizes = [build.reshape(build.shape_vector([Axis(v, 2)]), []) for v in (query, key)]
    zero, one = (build.weight(np.array(n, np.int64)) for n in (0, 1))
    first = build.binary("sub", sizes[1], sizes[0])
    keys = build.value(RangeOp, [zero, sizes[1], one])
    queries = build.value(RangeOp, [first, sizes[1], one])
    later = build.binary("greater", keys, build.unsqueeze(queries, [1]))
    return build.select(later, build.scalar_like(lowest, query), build.scalar_like(0, query))


# -- rotary embeddings ---------------------------------------------------------------------------


@converts("RotaryEmbedding", since=23)
def rotary_embedding(node: Node, build: Build) -> SSAValue:
    """x: (batch, heads, rows, size), or (batch, rows, heads * size) with `num_heads`.

    The tables have a row for each position, which `position_ids` pick, or for each row of x.
    """
    x, tables, positions = node.operand(0), [node.operand(1), node.operand(2)], node.optional(3)
    if positions is not None:
        tables = [build.value(GatherOp, [table, positions], axis=0) for table in tables]
    return _rotated(node, x, tables, node.integer("num_heads", 0), build)


@converts("RotaryEmbedding", domain=MICROSOFT)
def microsoft_rotary_embedding(node: Node, build: Build) -> SSAValue:
    """The same; a single position is that of the first row."""
    x, positions = node.operand(0), node.operand(1)
    if node.integer("is_packed_batching", 0):
        raise Unsupported("sequences packed into one")
    if build.rank(positions) == 1:
        rows = Axis(x, 1 if build.rank(x) == 3 else 2)
        length = build.reshape(build.shape_vector([rows]), [])
        numbers = [build.weight(np.array(n, np.int64)) for n in (0, 1)]
        counted = build.value(RangeOp, [numbers[0], length, numbers[1]])
        positions = build.unsqueeze(build.binary("add", positions, counted), [0])
    tables = [build.value(GatherOp, [node.operand(i), positions], axis=0) for i in (2, 3)]
    heads = node.integer("num_heads", 0)
    if build.rank(x) == 3 and not node.integer("rotary_embedding_dim", 0):
        columns, half = build.sizes(x, [2], "heads")[0], build.sizes(tables[0], [2], "heads")[0]
        heads = columns // (2 * half)
    return _rotated(node, x, tables, heads, build)


def _rotated(
    node: Node, x: SSAValue, tables: Sequence[SSAValue], heads: int, build: Build
) -> SSAValue:
    """tables: cosines and sines, (batch, rows, half of what is turned)."""
    shape: list[Size] = build.all_sizes(x)
    is_flat = build.rank(x) == 3
    if is_flat:
        (columns,) = build.sizes(x, [2], "heads")
        if not heads or columns % heads:
            raise Unsupported(f"{columns} columns of {heads} heads")
        x = build.reshape(x, [*shape[:2], heads, columns // heads])
    (size,) = build.sizes(x, [3], "rotary embeddings")
    turned = node.integer("rotary_embedding_dim", 0) or size
    interleaved = bool(node.integer("interleaved", 0))
    full = [
        build.unsqueeze(_doubled(build.slice(t, 2, 0, turned // 2), interleaved, build), [axis])
        for axis, t in ((2 if is_flat else 1, table) for table in tables)
    ]
    part = x if turned == size else build.slice(x, 3, 0, turned)
    result = build.value(RotaryOp, [part, *full], interleaved=interleaved or None)
    if turned != size:
        result = build.concat([result, build.slice(x, 3, turned, size)], 3)
    return build.reshape(result, shape) if is_flat else result


def _doubled(table: SSAValue, interleaved: bool, build: Build) -> SSAValue:
    """Each number for both elements of its pair: side by side, or half a row apart."""
    if not interleaved:
        return build.concat([table, table], 2)
    shape: list[Size] = build.all_sizes(table)
    (half,) = build.sizes(table, [2], "rotary embeddings")
    column = build.unsqueeze(table, [3])
    return build.reshape(build.concat([column, column], 3), [*shape[:2], 2 * half])
