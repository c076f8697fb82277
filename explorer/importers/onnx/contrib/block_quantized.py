"""Weights of 2, 4 or 8 bits with a scale for every block, as language models are published.

    MatMulNBits            a (..., k) x dequantized(b (n, blocks, bytes)) + bias
    GatherBlockQuantized   slices of a table, dequantized behind the gather

Several numbers lie in a byte, the first one in its lowest bits. Constant ones are unpacked here,
each into an element of its own (`ui4`), and stay integers in the program: `top.dequantize_blocks`
makes real numbers of them, which `fold-constants` does beforehand as long as they are not too many.
Reference: onnxruntime, docs/ContribOperators.md.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import AnyFloat

from explorer.importers.building.expr import Expr, Size, maximum, minimum, where
from explorer.importers.building.quantized_types import dequantized_blocks
from explorer.importers.onnx.contrib.contrib import MICROSOFT
from explorer.importers.onnx.program.build import Build
from explorer.importers.onnx.program.nodes import Node, Unsupported, converts
from explorer.ir.top.indexing import GatherOp

_TYPES = {2: np.dtype(ml_dtypes.uint2), 4: np.dtype(ml_dtypes.uint4), 8: np.dtype(np.uint8)}
"""Of numbers with so many bits."""


@converts("MatMulNBits", domain=MICROSOFT)
def matmul_of_blocks(node: Node, build: Build) -> Expr:
    """a (..., K) times a dequantized matrix of N columns, with a bias.

    `accuracy_level` permits to compute less exactly; a decision makes use of it
    (`compute-in-integers/rows`).
    """
    a, packed, bias = node.operand(0), node.operand(1), node.optional(5)
    columns, rows = node.integer("N"), node.integer("K")
    bits, block = bits_of(node.integer("bits", 4)), node.integer("block_size")
    if node.integer("weight_prepacked", 0):
        raise Unsupported("weights in the order of a GPU's kernel (weight_prepacked)")
    if min(block, columns, rows) < 1:
        raise ValueError(f"a matrix of {rows}x{columns} in blocks of {block}")
    if 0 in packed.shape:
        # The file has no such weights: zeros, or the bias alone.
        row = a.constant(0) if bias is None else bias
        return row.broadcast_to([*a.all_sizes()[:-1], columns])
    blocks = -(-rows // block)
    weight = _rows_first(packed, columns, rows, bits, build)
    scale = _rows_first(node.operand(2), columns, blocks, 8, build)
    zero = node.optional(3)
    if zero is None:
        zero = build.weight(np.full((blocks, columns), 1 << (bits - 1), _TYPES[bits]))
    else:
        is_packed = not isinstance(zero.element_type, AnyFloat)
        zero = _rows_first(zero, columns, blocks, bits if is_packed else 8, build)
    groups = node.optional(4)
    if groups is not None:  # each row says whose parameters it takes
        scale, zero = (build.value(GatherOp, [p, groups], axis=0) for p in (scale, zero))
        block = 1
    level = node.integer("accuracy_level", 0) or None
    dequantized = dequantized_blocks(weight, scale, zero, 0, block, build, level)
    if a.rank > 1:
        return build.matmul(a, dequantized, bias)
    return build.matmul(a.unsqueeze([0]), dequantized, bias).squeeze([0])


@converts("GatherBlockQuantized", domain=MICROSOFT)
def gather_of_blocks(node: Node, build: Build) -> Expr:
    """Slices of a table by number, dequantized; those of an index outside are zeros."""
    data, indices, scale = (node.operand(index) for index in range(3))
    zero = node.optional(3)
    rank = data.rank
    if data.dtype == np.uint8:
        bits = bits_of(node.integer("bits", 4))
        data = unpacked(data, bits, build)
        if zero is None:
            middle = build.weight(np.full((1,) * rank, 1 << (bits - 1), np.uint8))
            zero = middle.broadcast_to(scale.all_sizes())
        else:
            (blocks,) = scale.sizes([rank - 1], "zero points")
            zero = unpacked(zero, bits, build).slice(rank - 1, 0, blocks)
    gathered = build.axis(node.integer("gather_axis", 0), rank)
    blocked = build.axis(node.integer("quantize_axis", 1), rank)
    count, size = data.sizes([gathered, blocked], "a table of blocks")
    block = node.integer("block_size", 128) or size
    flat = indices.reshape([-1])
    is_inside, flat = _inside(flat, count, build)

    def taken(x: Expr) -> Expr:
        is_shared = x.size(gathered) == 1 != count
        return x if is_shared else build.value(GatherOp, [x, flat], axis=gathered)

    parts = [data, scale, zero]
    if gathered != blocked:
        parts = [part if part is None else taken(part) for part in parts]
    found = dequantized_blocks(*parts, blocked, block, build)
    if gathered == blocked:
        found = taken(found)
    if is_inside is not None:
        is_inside = is_inside.reshape([-1, *[1] * (rank - gathered - 1)])
        found = where(is_inside, found, 0)
    sizes = found.all_sizes()
    chosen: list[Size] = indices.all_sizes()
    return found.reshape([*sizes[:gathered], *chosen, *sizes[gathered + 1 :]])


def bits_of(bits: int) -> int:
    """The bits of a packed number, of those that are supported."""
    if bits not in _TYPES:
        raise Unsupported(f"numbers of {bits} bits; {', '.join(map(str, _TYPES))} are supported")
    return bits


def _inside(indices: Expr, count: int, build: Build) -> tuple[Expr | None, Expr]:
    """Which indices lie inside of an axis (None: all), and the others moved into it."""
    known = build.knowledge.array(indices)
    if known is not None and np.all((-count <= known) & (known < count)):
        return None, indices
    last, first = (build.weight(np.array(number, indices.dtype)) for number in (count - 1, -count))
    moved = maximum(minimum(indices, last), first)
    return moved == indices, moved


def _rows_first(x: Expr, columns: int, rows: int, bits: int, build: Build) -> Expr:
    """The numbers in (columns, bytes...), unpacked and without those behind the last row:
    (rows, columns)."""
    array = build.stored(x)
    if array is not None:
        numbers = _numbers(array.reshape(columns, -1), bits)[:, :rows]
        if numbers.shape[1] != rows:
            raise ValueError(f"{numbers.shape[1]} numbers for each column; {rows} expected")
        return build.weight(np.ascontiguousarray(numbers.T), build.name_of(x))
    numbers = unpacked(x.reshape([columns, -1]), bits, build)
    return numbers.slice(1, 0, rows).transpose([1, 0])


def unpacked(packed: Expr, bits: int, build: Build) -> Expr:
    """(..., bytes) as (..., numbers)."""
    array = build.stored(packed)
    if array is not None:
        return build.weight(_numbers(array, bits), build.name_of(packed))
    if bits == 8:
        return packed
    last, shifts = packed.rank - 1, np.arange(0, 8, bits, dtype=np.uint8)
    apart = packed.unsqueeze([last + 1]) >> build.weight(shifts)
    parts = apart & ((1 << bits) - 1)
    outer: list[Size] = [packed.dim(axis) for axis in range(last)]
    (size,) = packed.sizes([last], "packed numbers")
    return parts.reshape([*outer, size * len(shifts)])


def _numbers(packed: np.ndarray, bits: int) -> np.ndarray:
    """(..., bytes) as (..., numbers) of the narrowest type; anything else than bytes as it is."""
    if bits == 8 or packed.dtype != np.uint8:
        return packed
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    parts = (packed[..., np.newaxis] >> shifts) & np.uint8((1 << bits) - 1)
    return parts.reshape(*packed.shape[:-1], -1).astype(_TYPES[bits])
