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
from explorer.importers.building.expr import Expr, maximum, minimum, where
from explorer.importers.building.limits import check_size
from explorer.importers.building.quantized_types import as_stored
from explorer.importers.tflite.operators.node import TfliteNode, kind_of
from explorer.ir.top.indexing import GatherElementsOp, GatherNdOp, GatherOp, ScatterNdOp

Number = int | float | np.number


def gather_nd(node: TfliteNode, build: Build) -> Expr:
    """Slices at coordinates: the last axis of the second operand."""
    x, places = as_stored(node.operand(0, build), build), node.plain(1).astype(np.int64)
    return build.value(GatherNdOp, [x, places], batch_dims=0)


def scatter_nd(node: TfliteNode, build: Build) -> Expr:
    """Zeros in a shape, and slices at coordinates; those of one place are added."""
    places, updates = node.plain(0), as_stored(node.operand(1, build), build)
    if node.tensor(1).element_type == "bool":
        raise Unsupported("of booleans")
    sizes = node.integers_of(2, "a shape", build)
    whole = updates.constant(0).broadcast_to(sizes)
    return _scattered(whole, places, updates, "add", build)


def _scattered(whole: Expr, places: Expr, updates: Expr, reduction: str, build: Build) -> Expr:
    operands = [whole, places.astype(np.int64), updates]
    return build.value(ScatterNdOp, operands, reduction=reduction)


def sparse_to_dense(node: TfliteNode, build: Build) -> Expr:
    """A number everywhere in a shape, and others at coordinates."""
    places, values, elsewhere = (node.plain(index) for index in (0, 2, 3))
    sizes = node.integers_of(1, "a shape", build)
    if places.rank < 2:
        places = places.reshape([-1, 1])
    (count,) = places.sizes([0], "coordinates")
    whole = elsewhere.reshape([]).broadcast_to(sizes)
    written = values if values.rank else values.broadcast_to([count])
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
    limits = np.finfo if x.is_float else np.iinfo
    extremes = {"lowest": limits(x.dtype).min, "highest": limits(x.dtype).max}
    number = extremes[start] if isinstance(start, str) else start
    rank = ids.rank
    sizes = x.sizes(range(x.rank), "segments")
    flat = x.reshape([prod(sizes[:rank]), *sizes[rank:]])
    whole_ids = ids.reshape([-1]).astype(np.int64)
    is_left_out = whole_ids < 0
    behind = whole_ids.constant(count)  # a segment more, which is cut off again
    chosen = where(is_left_out, behind, whole_ids)
    return _segments(flat, chosen, count + 1, reduction, number, build).slice(0, 0, count)


_SEGMENTS: dict[str, tuple[str, str | int]] = {
    "UNSORTED_SEGMENT_SUM": ("add", 0),
    "UNSORTED_SEGMENT_PROD": ("mul", 1),
    "UNSORTED_SEGMENT_MAX": ("max", "lowest"),
    "UNSORTED_SEGMENT_MIN": ("min", "highest"),
}


def _segments(x: Expr, ids: Expr, count: int, reduction: str, start: Number, build: Build) -> Expr:
    sizes = x.sizes(range(1, x.rank), "segments")
    check_size([count, *sizes], x.dtype.itemsize, "the segments", build.source)
    filled = build.weight(np.array(start, x.dtype))
    whole = filled.broadcast_to([count, *sizes])
    return _scattered(whole, ids.reshape([-1, 1]), x, reduction, build)


def embedding_lookup(node: TfliteNode, build: Build) -> Expr:
    """Rows of a table by their numbers."""
    if kind_of(node.tensor(1)) != node.result_kind:
        raise Unsupported("rows of bytes that become floats")
    return build.value(GatherOp, [node.operand(1, build), node.plain(0).astype(np.int64)], axis=0)


def dynamic_update_slice(node: TfliteNode, build: Build) -> Expr:
    """A block of the first operand replaced; where it would reach outside it is moved inwards."""
    x, update = (as_stored(node.operand(index, build), build) for index in (0, 1))
    whole, block = (
        value.sizes(range(value.rank), "a block that is replaced") for value in (x, update)
    )
    begin = node.plain(2).astype(np.int64)
    last = build.weight(np.array(whole, np.int64) - np.array(block, np.int64))
    inside = minimum(maximum(begin, 0), last)
    check_size([*block, len(block)], 8, "the list of places", node.name)
    grid = np.stack(np.meshgrid(*map(np.arange, block), indexing="ij"), -1).astype(np.int64)
    return _scattered(x, build.weight(grid) + inside, update, "none", build)


def one_hot(node: TfliteNode, build: Build) -> Expr:
    """The third operand where a place has the number that the first says, else the fourth."""
    indices, on, off = node.plain(0), node.operand(2, build), node.operand(3, build)
    (depth,) = node.integers_of(1, "the depth", build)
    rank = indices.rank + 1
    axis = build.axis(node.integer("axis", -1), rank)
    numbers = np.arange(depth, dtype=indices.dtype)
    steps = build.weight(numbers.reshape([depth if a == axis else 1 for a in range(rank)]))
    return where(indices.unsqueeze([axis]) == steps, on.reshape([]), off.reshape([]))


def reverse_sequence(node: TfliteNode, build: Build) -> Expr:
    """The first elements of each sequence backwards; element t is element length - 1 - t."""
    x, lengths = as_stored(node.operand(0, build), build), node.plain(1).astype(np.int64)
    rank = x.rank
    time = build.axis(node.integer("seq_dim"), rank)
    batch = build.axis(node.integer("batch_dim"), rank)
    sizes = x.sizes(range(rank), "sequences")
    numbers = np.arange(sizes[time], dtype=np.int64)
    steps = build.weight(numbers.reshape([-1 if a == time else 1 for a in range(rank)]))
    ends = lengths.reshape([sizes[a] if a == batch else 1 for a in range(rank)])
    mirrored = ends - 1 - steps
    positions = where(steps < ends, mirrored, steps)
    return build.value(GatherElementsOp, [x, positions.broadcast_to(sizes)], axis=time)


def matrix_diag(node: TfliteNode, build: Build) -> Expr:
    """Matrices with given diagonals, zero elsewhere."""
    x = as_stored(node.operand(0, build), build)
    (size,) = x.sizes([x.rank - 1], "a diagonal")
    diagonal = x.unsqueeze([x.rank])
    return where(build.weight(np.eye(size, dtype=bool)), diagonal, 0)


def matrix_set_diag(node: TfliteNode, build: Build) -> Expr:
    """Matrices with other diagonals."""
    x, diagonal = (as_stored(node.operand(index, build), build) for index in (0, 1))
    rank = x.rank
    rows, columns = x.sizes([rank - 2, rank - 1], "a diagonal")
    missing = [0] * (rank - 2) + [rows - min(rows, columns)]
    column = diagonal.pad([0] * (rank - 1), missing).unsqueeze([rank - 1])
    return where(build.weight(np.eye(rows, columns, dtype=bool)), column, x)


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
