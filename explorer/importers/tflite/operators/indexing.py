"""Operators that read or write elements at places which are data.

    GATHER_ND(x, places)                 x[places[..., 0], places[..., 1], ...]
    SEGMENT_SUM(x, [0, 0, 1])            x[0] + x[1], x[2]

Writing is `top.scatter_nd` into a tensor of what stands where nothing is written.
"""

from __future__ import annotations

from itertools import pairwise
from math import prod

import numpy as np

from explorer.importers.building.build import Build, Unsupported
from explorer.importers.building.expr import Expr
from explorer.importers.building.limits import check_size
from explorer.importers.building.quantized_types import as_stored
from explorer.importers.tflite.operators.node import TfliteNode, kind_of
from explorer.ir.top.indexing import GatherElementsOp, GatherNdOp, GatherOp, ScatterNdOp

Number = int | float | np.number


def gather_nd(node: TfliteNode, build: Build) -> Expr:
    """Slices at coordinates: the last axis of the second operand."""
    x, places = as_stored(node.operand(0, build), build), build.cast(node.plain(1), np.int64)
    return build.value(GatherNdOp, [x, places], batch_dims=0)


def scatter_nd(node: TfliteNode, build: Build) -> Expr:
    """Zeros in a shape, and slices at coordinates; those of one place are added."""
    places, updates = node.plain(0), as_stored(node.operand(1, build), build)
    if node.tensor(1).element_type == "bool":
        raise Unsupported("of booleans")
    sizes = node.integers_of(2, "a shape", build)
    whole = build.expand(build.scalar_like(0, updates), sizes)
    return _scattered(whole, places, updates, "add", build)


def _scattered(whole: Expr, places: Expr, updates: Expr, reduction: str, build: Build) -> Expr:
    operands = [whole, build.cast(places, np.int64), updates]
    return build.value(ScatterNdOp, operands, reduction=reduction)


def sparse_to_dense(node: TfliteNode, build: Build) -> Expr:
    """A number everywhere in a shape, and others at coordinates."""
    places, values, elsewhere = (node.plain(index) for index in (0, 2, 3))
    sizes = node.integers_of(1, "a shape", build)
    if build.rank(places) < 2:
        places = build.reshape(places, [-1, 1])
    (count,) = build.sizes(places, [0], "coordinates")
    whole = build.expand(build.reshape(elsewhere, []), sizes)
    written = values if build.rank(values) else build.expand(values, [count])
    return _scattered(whole, places, written, "none", build)


def segment_sum(node: TfliteNode, build: Build) -> Expr:
    """The sum of the slices of each segment; as many results as the last segment says."""
    x, known = node.plain(0), node.integers_of(1, "the number of segments", build)
    if any(after - before not in (0, 1) for before, after in pairwise([0, *known])):
        raise ValueError("segments are numbered from 0 on, in order, and none is left out")
    return _segments(x, node.plain(1), 1 + max(known, default=-1), "add", 0, build)


def unsorted_segment(node: TfliteNode, build: Build) -> Expr:
    """What each segment's slices make; those of negative numbers are left out."""
    node.require_plain()
    reduction, start = _SEGMENTS[node.operator]
    x, ids = node.plain(0), node.plain(1)
    (count,) = node.integers_of(2, "the number of segments", build)
    limits = np.finfo if build.is_float(x) else np.iinfo
    extremes = {"lowest": limits(build.dtype(x)).min, "highest": limits(build.dtype(x)).max}
    number = extremes[start] if isinstance(start, str) else start
    rank = build.rank(ids)
    sizes = build.sizes(x, range(build.rank(x)), "segments")
    flat = build.reshape(x, [prod(sizes[:rank]), *sizes[rank:]])
    whole_ids = build.cast(build.reshape(ids, [-1]), np.int64)
    is_left_out = build.binary("less", whole_ids, build.scalar_like(0, whole_ids))
    behind = build.scalar_like(count, whole_ids)  # a segment more, which is cut off again
    chosen = build.select(is_left_out, behind, whole_ids)
    made = _segments(flat, chosen, count + 1, reduction, number, build)
    return build.slice(made, 0, 0, count)


_SEGMENTS: dict[str, tuple[str, str | int]] = {
    "UNSORTED_SEGMENT_SUM": ("add", 0),
    "UNSORTED_SEGMENT_PROD": ("mul", 1),
    "UNSORTED_SEGMENT_MAX": ("max", "lowest"),
    "UNSORTED_SEGMENT_MIN": ("min", "highest"),
}


def _segments(x: Expr, ids: Expr, count: int, reduction: str, start: Number, build: Build) -> Expr:
    sizes = build.sizes(x, range(1, build.rank(x)), "segments")
    check_size([count, *sizes], build.dtype(x).itemsize, "the segments", build.source)
    filled = build.weight(np.array(start, build.dtype(x)))
    whole = build.expand(filled, [count, *sizes])
    return _scattered(whole, build.reshape(ids, [-1, 1]), x, reduction, build)


def embedding_lookup(node: TfliteNode, build: Build) -> Expr:
    """Rows of a table by their numbers."""
    if kind_of(node.tensor(1)) != node.result_kind:
        raise Unsupported("rows of bytes that become floats")
    return build.value(
        GatherOp, [node.operand(1, build), build.cast(node.plain(0), np.int64)], axis=0
    )


def dynamic_update_slice(node: TfliteNode, build: Build) -> Expr:
    """A block of the first operand replaced; where it would reach outside it is moved inwards."""
    x, update = (as_stored(node.operand(index, build), build) for index in (0, 1))
    whole, block = (
        build.sizes(value, range(build.rank(value)), "a block that is replaced")
        for value in (x, update)
    )
    begin = build.cast(node.plain(2), np.int64)
    last = build.weight(np.array(whole, np.int64) - np.array(block, np.int64))
    inside = build.binary("min", build.binary("max", begin, build.scalar_like(0, begin)), last)
    check_size([*block, len(block)], 8, "the list of places", node.name)
    grid = np.stack(np.meshgrid(*map(np.arange, block), indexing="ij"), -1).astype(np.int64)
    places = build.binary("add", build.weight(grid), inside)
    return _scattered(x, places, update, "none", build)


def one_hot(node: TfliteNode, build: Build) -> Expr:
    """The third operand where a place has the number that the first says, else the fourth."""
    indices, on, off = node.plain(0), node.operand(2, build), node.operand(3, build)
    (depth,) = node.integers_of(1, "the depth", build)
    rank = build.rank(indices) + 1
    axis = build.axis(node.integer("axis", -1), rank)
    numbers = np.arange(depth, dtype=build.dtype(indices))
    steps = build.weight(numbers.reshape([depth if a == axis else 1 for a in range(rank)]))
    hits = build.binary("equal", build.unsqueeze(indices, [axis]), steps)
    return build.select(hits, build.reshape(on, []), build.reshape(off, []))


def reverse_sequence(node: TfliteNode, build: Build) -> Expr:
    """The first elements of each sequence backwards; element t is element length - 1 - t."""
    x, lengths = as_stored(node.operand(0, build), build), build.cast(node.plain(1), np.int64)
    rank = build.rank(x)
    time = build.axis(node.integer("seq_dim"), rank)
    batch = build.axis(node.integer("batch_dim"), rank)
    sizes = build.sizes(x, range(rank), "sequences")
    numbers = np.arange(sizes[time], dtype=np.int64)
    steps = build.weight(numbers.reshape([-1 if a == time else 1 for a in range(rank)]))
    ends = build.reshape(lengths, [sizes[a] if a == batch else 1 for a in range(rank)])
    mirrored = build.binary("sub", build.binary("sub", ends, build.scalar_like(1, ends)), steps)
    positions = build.select(build.binary("less", steps, ends), mirrored, steps)
    return build.value(GatherElementsOp, [x, build.expand(positions, sizes)], axis=time)


def matrix_diag(node: TfliteNode, build: Build) -> Expr:
    """Matrices with given diagonals, zero elsewhere."""
    x = as_stored(node.operand(0, build), build)
    (size,) = build.sizes(x, [build.rank(x) - 1], "a diagonal")
    diagonal = build.unsqueeze(x, [build.rank(x)])
    return build.select(build.weight(np.eye(size, dtype=bool)), diagonal, build.scalar_like(0, x))


def matrix_set_diag(node: TfliteNode, build: Build) -> Expr:
    """Matrices with other diagonals."""
    x, diagonal = (as_stored(node.operand(index, build), build) for index in (0, 1))
    rank = build.rank(x)
    rows, columns = build.sizes(x, [rank - 2, rank - 1], "a diagonal")
    missing = [0] * (rank - 2) + [rows - min(rows, columns)]
    column = build.unsqueeze(build.padded(diagonal, [0] * (rank - 1), missing), [rank - 1])
    return build.select(build.weight(np.eye(rows, columns, dtype=bool)), column, x)


CONVERTERS = {
    "GATHER_ND": gather_nd,
    "SCATTER_ND": scatter_nd,
    "SPARSE_TO_DENSE": sparse_to_dense,
    "SEGMENT_SUM": segment_sum,
    **dict.fromkeys(_SEGMENTS, unsorted_segment),
    "EMBEDDING_LOOKUP": embedding_lookup,
    "DYNAMIC_UPDATE_SLICE": dynamic_update_slice,
    "ONE_HOT": one_hot,
    "REVERSE_SEQUENCE": reverse_sequence,
    "MATRIX_DIAG": matrix_diag,
    "MATRIX_SET_DIAG": matrix_set_diag,
}
