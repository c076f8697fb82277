"""Random models of operators that choose elements, sort them, or index by data."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from verification.conformance.tflite.drawing import Draw, Drawn
from verification.conformance.tflite.models import TensorOf
from verification.conformance.tflite.movement import moved_operand


def gather(draw: Draw) -> Drawn:
    x = moved_operand(draw)
    axis = draw.axis(len(x.shape))
    places = draw.random.integers(0, x.shape[axis], draw.choice((), (3,), (2, 2)))
    front = axis % len(x.shape)
    shape = (*x.shape[:front], *places.shape, *x.shape[front + 1 :])
    return Drawn(
        inputs=[x, draw.constant("i", places)],
        results=[draw.like(x, "y", shape)],
        options="GatherOptions",
        values={"Axis": axis},
    )


def gather_nd(draw: Draw) -> Drawn:
    x = moved_operand(draw)
    depth, count = draw.integer(1, len(x.shape)), draw.integer(1, 5)
    places = draw.random.integers(0, x.shape[:depth], (count, depth))
    shape = (count, *x.shape[depth:])
    return Drawn(inputs=[x, draw.constant("i", places)], results=[draw.like(x, "y", shape)])


def scatter_nd(draw: Draw) -> Drawn:
    whole, dtype = draw.shape(), draw.choice("float32", "int32", "int64")
    depth, count = draw.integer(1, len(whole)), draw.integer(1, 6)
    places = draw.random.integers(0, whole[:depth], (count, depth))
    updates = draw.tensor("u", (count, *whole[depth:]), dtype)
    return Drawn(
        inputs=[draw.constant("i", places), updates, draw.constant("s", whole)],
        results=[draw.tensor("y", whole, dtype)],
        options="ScatterNdOptions",
    )


def sparse_to_dense(draw: Draw) -> Drawn:
    rank = draw.integer(1, 3)
    whole, dtype = draw.shape(rank), draw.choice("float32", "int32")
    count = min(draw.integer(1, 5), prod(whole))
    flat = np.sort(draw.random.permutation(prod(whole))[:count])
    places = np.stack(np.unravel_index(flat, whole), -1)
    values = draw.tensor("v", draw.choice((), (count,)), dtype)
    return Drawn(
        inputs=[
            draw.constant("i", places), draw.constant("s", whole), values,
            draw.constant("d", draw.integer(-3, 3), dtype),
        ],
        results=[draw.tensor("y", whole, dtype)],
        options="SparseToDenseOptions",
    )  # fmt: skip


def segment_sum(draw: Draw) -> Drawn:
    shape, dtype = draw.shape(), draw.choice("float32", "int32")
    ids = np.cumsum(draw.random.integers(0, 2, shape[0]))
    ids -= ids[0]
    x = draw.tensor("x", shape, dtype)
    result = draw.tensor("y", (int(ids[-1]) + 1, *shape[1:]), dtype)
    return Drawn(inputs=[x, draw.constant("i", ids)], results=[result], options="SegmentSumOptions")


def unsorted_segment(draw: Draw) -> Drawn:
    shape, dtype = draw.shape(), draw.choice("float32", "int32")
    count = draw.integer(1, 5)
    ids = draw.random.integers(-1, count, shape[: draw.integer(1, len(shape))])
    x = draw.tensor("x", shape, dtype)
    result = draw.tensor("y", (count, *shape[ids.ndim :]), dtype)
    ranges = {"x": (-1.5, 1.5)}  # products of many stay small
    return Drawn(
        inputs=[x, draw.constant("i", ids), draw.constant("n", count)],
        results=[result],
        ranges=ranges,
    )


def embedding_lookup(draw: Draw) -> Drawn:
    shape = draw.shape(draw.integer(2, 3))
    ids = draw.random.integers(0, shape[0], draw.integer(1, 9))
    result = draw.tensor("y", (len(ids), *shape[1:]))
    return Drawn(inputs=[draw.constant("i", ids), draw.floats("t", shape)], results=[result])


def dynamic_update_slice(draw: Draw) -> Drawn:
    x = moved_operand(draw, types=("float32", "int32", "int8"))
    block = [draw.integer(1, size) for size in x.shape]
    begin = TensorOf(name="b", shape=(len(block),), element_type="int32")
    return Drawn(
        inputs=[x, draw.like(x, "u", block), begin],
        results=[draw.like(x, "y", x.shape)],
        ranges={"b": (-1, 9)},
    )


def one_hot(draw: Draw) -> Drawn:
    shape, depth, dtype = draw.shape(2), draw.integer(1, 6), draw.choice("float32", "int32")
    axis = draw.integer(-1, 2)
    result = list(shape)
    result.insert(axis % 3, depth)
    numbers = [draw.constant(name, draw.integer(-4, 4), dtype) for name in ("on", "off")]
    return Drawn(
        inputs=[draw.tensor("i", shape, "int32"), draw.constant("d", depth), *numbers],
        results=[draw.tensor("y", result, dtype)],
        options="OneHotOptions",
        values={"Axis": axis},
        ranges={"i": (-1, depth)},
    )


def reverse_sequence(draw: Draw) -> Drawn:
    x = moved_operand(draw, draw.integer(2, 4))
    time, batch = (int(axis) for axis in draw.random.permutation(len(x.shape))[:2])
    lengths = draw.random.integers(1, x.shape[time] + 1, x.shape[batch])
    return Drawn(
        inputs=[x, draw.constant("n", lengths)],
        results=[draw.like(x, "y", x.shape)],
        options="ReverseSequenceOptions",
        values={"SeqDim": time, "BatchDim": batch},
    )


def diagonal(draw: Draw) -> Drawn:
    *batch, rows, columns = draw.shape(draw.integer(2, 3))
    dtype = draw.choice("float32", "int32")
    if draw.kind == "MATRIX_DIAG":
        x = draw.tensor("x", (*batch, rows), dtype)
        return Drawn(inputs=[x], results=[draw.tensor("y", (*batch, rows, rows), dtype)])
    shape = (*batch, rows, columns)
    other = draw.tensor("d", (*batch, min(rows, columns)), dtype)
    return Drawn(
        inputs=[draw.tensor("x", shape, dtype), other], results=[draw.tensor("y", shape, dtype)]
    )


def top_k(draw: Draw) -> Drawn:
    x = moved_operand(draw)
    count = draw.integer(1, x.shape[-1])
    shape = (*x.shape[:-1], count)
    return Drawn(
        inputs=[x, draw.constant("k", count)],
        results=[draw.like(x, "y", shape), draw.tensor("i", shape, "int32")],
        options="TopKV2Options",
    )


def cumsum(draw: Draw) -> Drawn:
    x = moved_operand(draw, types=("float32", "int32", "int64"))
    axis = draw.axis(len(x.shape))
    values = {"Exclusive": draw.flag(), "Reverse": draw.flag()}
    return Drawn(
        inputs=[x, draw.constant("a", axis)],
        results=[draw.like(x, "y", x.shape)],
        options="CumsumOptions",
        values=values,
    )


def where(draw: Draw) -> Drawn:
    x = moved_operand(draw, types=("bool", "float32", "int32"))
    return Drawn(
        inputs=[x], results=[draw.tensor("y", (0, len(x.shape)), "int64")], ranges={"x": (-1, 1)}
    )


def unique(draw: Draw) -> Drawn:
    size = draw.integer(1, 200)
    x = draw.tensor("x", (size,), draw.choice("int32", "int64"))
    return Drawn(
        inputs=[x],
        results=[draw.like(x, "y", (0,)), draw.tensor("i", (size,), "int32")],
        options="UniqueOptions",
        values={"IdxOutType": 2},
        ranges={"x": (-9, 9)},
    )


def bucketize(draw: Draw) -> Drawn:
    x = moved_operand(draw, types=("float32", "int32"))
    edges = np.sort(draw.random.uniform(-4, 4, draw.integer(1, 6))).astype(np.float32)
    return Drawn(
        inputs=[x],
        results=[draw.tensor("y", x.shape, "int32")],
        options="BucketizeOptions",
        values={"Boundaries": edges},
        ranges={"x": (-5, 5)},
    )


def suppression(draw: Draw) -> Drawn:
    count, most = draw.integer(2, 60 if draw.is_large else 12), draw.integer(1, 8)
    corner = draw.random.uniform(0, 1, (count, 2))
    boxes = np.concatenate([corner, corner + draw.random.uniform(-0.2, 0.6, (count, 2))], 1)
    shrinks = draw.kind == "NON_MAX_SUPPRESSION_V5"
    numbers = {"o": draw.random.uniform(0.1, 0.8), "t": draw.random.uniform(0, 0.5)}
    if shrinks:
        numbers["g"] = draw.choice(0.0, float(draw.random.uniform(0.1, 1)))
    found = TensorOf(name="i", shape=(most,), element_type="int32")
    scores = [TensorOf(name="c", shape=(most,))] if shrinks else []
    return Drawn(
        inputs=[
            draw.constant("b", boxes, "float32"), draw.tensor("s", (count,)),
            draw.constant("m", most),
            *(draw.constant(name, number, "float32") for name, number in numbers.items()),
        ],
        results=[found, *scores, TensorOf(name="n", shape=(), element_type="int32")],
        options=f"NonMaxSuppression{draw.kind[-2:]}Options",
        ranges={"s": (0.0, 1.0)},
    )  # fmt: skip


DRAWS: dict[str, Callable[[Draw], Drawn]] = {
    **dict.fromkeys(("NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5"), suppression),
    "GATHER": gather, "GATHER_ND": gather_nd, "SCATTER_ND": scatter_nd,
    "SPARSE_TO_DENSE": sparse_to_dense, "SEGMENT_SUM": segment_sum,
    **{f"UNSORTED_SEGMENT_{kind}": unsorted_segment for kind in ("SUM", "PROD", "MAX", "MIN")},
    "EMBEDDING_LOOKUP": embedding_lookup, "DYNAMIC_UPDATE_SLICE": dynamic_update_slice,
    "ONE_HOT": one_hot, "REVERSE_SEQUENCE": reverse_sequence, "MATRIX_DIAG": diagonal,
    "MATRIX_SET_DIAG": diagonal, "TOPK_V2": top_k, "CUMSUM": cumsum, "WHERE": where,
    "UNIQUE": unique, "BUCKETIZE": bucketize,
}  # fmt: skip
