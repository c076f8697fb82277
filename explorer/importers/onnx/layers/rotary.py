"""Rotary embeddings of ONNX and of onnxruntime: pairs of numbers turned by their position's angles.

    x (batch, heads, rows, size), positions (batch, rows)
        ->  x * cosine[positions] + rotated(x) * sine[positions]      top.rotary

Reference: ONNX, RotaryEmbedding-23; onnxruntime, docs/ContribOperators.md.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from explorer.importers.building.expr import Expr, Size
from explorer.importers.onnx.contrib.contrib import MICROSOFT
from explorer.importers.onnx.program.build import Build
from explorer.importers.onnx.program.nodes import Node, Unsupported, converts
from explorer.ir.top.attention import RotaryOp
from explorer.ir.top.indexing import GatherOp
from explorer.ir.top.shapes import RangeOp


@converts("RotaryEmbedding", since=23)
def rotary_embedding(node: Node, build: Build) -> Expr:
    """x: (batch, heads, rows, size), or (batch, rows, heads * size) with `num_heads`.

    The tables have a row for each position, which `position_ids` pick, or for each row of x.
    """
    x, tables, positions = node.operand(0), [node.operand(1), node.operand(2)], node.optional(3)
    if positions is not None:
        tables = [build.value(GatherOp, [table, positions], axis=0) for table in tables]
    return _rotated(node, x, tables, node.integer("num_heads", 0), build)


@converts("RotaryEmbedding", domain=MICROSOFT)
def microsoft_rotary_embedding(node: Node, build: Build) -> Expr:
    """The same; a single position is that of the first row.

    `is_packed_batching` only permits more rows than the tables have, `scale` has no effect.
    """
    x, positions = node.operand(0), node.operand(1)
    if positions.rank == 1:
        rows = x.dim(1 if x.rank == 3 else 2)
        length = build.shape_vector([rows]).reshape([])
        numbers = [build.weight(np.array(n, np.int64)) for n in (0, 1)]
        counted = build.value(RangeOp, [numbers[0], length, numbers[1]])
        positions = (positions + counted).unsqueeze([0])
    tables = [build.value(GatherOp, [node.operand(i), positions], axis=0) for i in (2, 3)]
    heads = node.integer("num_heads", 0)
    if x.rank == 3 and not node.integer("rotary_embedding_dim", 0):
        columns, half = x.sizes([2], "heads")[0], tables[0].sizes([2], "heads")[0]
        heads = columns // (2 * half)
    return _rotated(node, x, tables, heads, build)


def _rotated(node: Node, x: Expr, tables: Sequence[Expr], heads: int, build: Build) -> Expr:
    """tables: cosines and sines, (batch, rows, half of what is turned)."""
    shape: list[Size] = x.all_sizes()
    is_flat = x.rank == 3
    if is_flat:
        (columns,) = x.sizes([2], "heads")
        if not heads or columns % heads:
            raise Unsupported(f"{columns} columns of {heads} heads")
        x = x.reshape([*shape[:2], heads, columns // heads])
    (size,) = x.sizes([3], "rotary embeddings")
    part = node.integer("rotary_embedding_dim", 0) or size
    half = min(table.sizes([2], "rotary embeddings")[0] for table in tables)
    if 2 * half < part:
        raise ValueError(f"tables for {2 * half} elements of a head; {part} are turned")
    tables = [table.slice(2, 0, part // 2) for table in tables]
    is_interleaved = bool(node.integer("interleaved", 0))
    result = rotate(x, tables, 2 if is_flat else 1, is_interleaved, build)
    return result.reshape(shape) if is_flat else result


def rotate(x: Expr, tables: Sequence[Expr], heads: int, interleaved: bool, build: Build) -> Expr:
    """The first elements of the last axis turned, as many as the tables have, twice.

    x: (batch, rows, heads, size) or (batch, heads, rows, size), `heads` the axis of heads; tables:
    cosines and sines, (batch, rows, half of what is turned).
    """
    (size,) = x.sizes([3], "rotary embeddings")
    part = 2 * tables[0].sizes([2], "rotary embeddings")[0]
    full = [_doubled(table, interleaved, build).unsqueeze([heads]) for table in tables]
    turned = x if part == size else x.slice(3, 0, part)
    result = build.value(RotaryOp, [turned, *full], interleaved=interleaved or None)
    return result if part == size else build.concat([result, x.slice(3, part, size)], 3)


def _doubled(table: Expr, interleaved: bool, build: Build) -> Expr:
    """Each number for both elements of its pair: side by side, or half a row apart."""
    if not interleaved:
        return build.concat([table, table], 2)
    shape: list[Size] = table.all_sizes()
    (half,) = table.sizes([2], "rotary embeddings")
    column = table.unsqueeze([3])
    return build.concat([column, column], 3).reshape([*shape[:2], 2 * half])
