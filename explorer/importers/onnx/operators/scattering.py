"""What writes elements at computed places, or reads them in another order along an axis."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from explorer.importers.building.expr import Expr, where
from explorer.importers.building.limits import check_size
from explorer.importers.onnx.program.build import Build
from explorer.importers.onnx.program.nodes import Node, Unsupported, converts
from explorer.ir.top.indexing import GatherElementsOp, ScatterElementsOp, ScatterNdOp


@converts("ScatterND", since=11)
def scatter_nd(node: Node, build: Build) -> Expr:
    operands = [node.operand(index) for index in range(3)]
    return build.value(ScatterNdOp, operands, reduction=node.text("reduction", "none"))


@converts("ScatterElements", "Scatter", since=9)
def scatter_elements(node: Node, build: Build) -> Expr:
    x, indices, updates = (node.operand(index) for index in range(3))
    return build.value(
        ScatterElementsOp,
        [x, indices, updates],
        axis=build.axis(node.integer("axis", 0), x.rank),
        reduction=node.text("reduction", "none"),
    )


@converts("TensorScatter", since=24)
def tensor_scatter(node: Node, build: Build) -> Expr:
    """Rows written into a cache from a place on that each element of the batch has of its own."""
    cache, update, begin = node.operand(0), node.operand(1), node.optional(2)
    rank = cache.rank
    axis = build.axis(node.integer("axis", -2), rank)
    (length,) = update.sizes([axis], "TensorScatter")
    shape = [1] * rank
    shape[axis] = length
    places = build.weight(np.arange(length, dtype=np.int64).reshape(shape))
    if begin is not None:
        first = begin.astype(np.int64).reshape([begin.dim(0), *[1] * (rank - 1)])
        places = places + first
    if node.text("mode", "linear") == "circular":
        (size,) = cache.sizes([axis], "a circular TensorScatter")
        places = places % build.weight(np.array(size, np.int64))
    indices = places.broadcast_to(update.all_sizes())
    return build.value(ScatterElementsOp, [cache, indices, update], axis=axis, reduction="none")


@converts("ReverseSequence", since=10)
def reverse_sequence(node: Node, build: Build) -> Expr:
    """The first elements of each sequence backwards; element t is element length - 1 - t."""
    x, lengths = node.operand(0), node.operand(1)
    rank = x.rank
    time = build.axis(node.integer("time_axis", 0), rank)
    batch = build.axis(node.integer("batch_axis", 1), rank)
    if time == batch:
        raise ValueError(f"axis {time} is both time and batch")
    (size,) = x.sizes([time], "ReverseSequence")
    steps = build.weight(_along(np.arange(size, dtype=np.int64), time, rank))
    ends = lengths.astype(np.int64).reshape(
        [lengths.dim(0) if a == batch else 1 for a in range(rank)]
    )
    mirrored = ends - 1 - steps
    is_inside = steps < ends
    positions = where(is_inside, mirrored, steps)
    return build.value(GatherElementsOp, [x, positions.broadcast_to(x.all_sizes())], axis=time)


@converts("MaxUnpool", since=9)
def max_unpool(node: Node, build: Build) -> Expr:
    """Every element where its maximum stood, zero elsewhere; indices count in the whole result.

    Given a larger `output_shape`, what is new stands behind.
    """
    x, indices, target = node.operand(0), node.operand(1), node.optional(2)
    kernel = node.integers("kernel_shape") or ()
    rank = len(kernel)
    strides, pads = (
        node.integers("strides") or (1,) * rank,
        node.integers("pads") or (0,) * 2 * rank,
    )
    known = x.sizes(range(x.rank), "MaxUnpool")
    spatial = [
        (known[2 + a] - 1) * strides[a] + kernel[a] - pads[a] - pads[rank + a] for a in range(rank)
    ]
    shape = [*known[:2], *spatial]
    flat = x.constant(0).broadcast_to([prod(shape)])
    operands = [flat, indices.reshape([-1]), x.reshape([-1])]
    written = build.value(ScatterElementsOp, operands, axis=0, reduction="none")
    result = written.reshape(shape)
    if target is None:
        return result
    wanted = build.integers(target, "the shape of the result")
    missing = [want - own for want, own in zip(wanted, shape, strict=True)]
    if min(missing) < 0:
        raise Unsupported(f"output_shape {wanted} is smaller than {shape}")
    return result.pad([0] * len(shape), missing)


@converts("Col2Im", since=18)
def columns_to_image(node: Node, build: Build) -> Expr:
    """The sum of overlapping blocks: (N, C * block, places) -> (N, C, image...). A sum of booleans
    is whether one is true."""
    x = node.operand(0)
    if x.dtype.kind == "b":
        whole = replace(node, operands=(x.astype(np.int32), *node.operands[1:]))
        return _columns_to_image(whole, build).astype(np.bool_)
    return _columns_to_image(node, build)


def _columns_to_image(node: Node, build: Build) -> Expr:
    x = node.operand(0)
    image = build.integers(node.operand(1), "the image's shape")
    block = build.integers(node.operand(2), "the block's shape")
    rank = len(image)
    strides, dilations = (node.integers(n) or (1,) * rank for n in ("strides", "dilations"))
    pads = node.integers("pads") or (0,) * 2 * rank
    padded = [image[a] + pads[a] + pads[rank + a] for a in range(rank)]
    channels, columns = x.sizes([1, 2], "Col2Im")
    check_size([prod(block), columns], 8, "the list of places", node.name)
    flat = np.zeros((1, 1), np.int64)
    """Where each element of a block (rows) stands at each place (columns), axis by axis."""
    for a in range(rank):
        reach = (block[a] - 1) * dilations[a] + 1
        steps = (padded[a] - reach) // strides[a] + 1
        if not 1 <= steps <= columns:
            raise ValueError(
                f"{columns} columns do not fit an image of {image} in blocks of {block}"
            )
        begins = np.arange(steps) * strides[a]
        within = np.arange(block[a]) * dilations[a]
        places = within[:, np.newaxis] + begins
        joined = flat[:, np.newaxis, :, np.newaxis] * padded[a] + places[np.newaxis, :, np.newaxis]
        flat = joined.reshape(flat.shape[0] * places.shape[0], -1)
    count, area = prod(block), prod(padded)
    if channels % count or columns != flat.shape[1]:
        raise ValueError(
            f"{channels} x {columns} are no blocks of {block} at {flat.shape[1]} places"
        )
    outer, batch = channels // count, x.dim(0)
    split = x.reshape([batch, outer, count * columns])
    updates = split.transpose([2, 0, 1])
    zeros = x.constant(0).broadcast_to([area, batch, outer])
    indices = build.weight(flat.reshape(-1, 1))
    summed = build.value(ScatterNdOp, [zeros, indices, updates], reduction="add")
    whole = summed.transpose([1, 2, 0]).reshape([batch, outer, *padded])
    return whole.slices({2 + a: (pads[a], pads[a] + image[a], 1) for a in range(rank)})


def _along(values: np.ndarray, axis: int, rank: int) -> np.ndarray:
    """A vector as a tensor that is long along one axis only."""
    return values.reshape([-1 if a == axis else 1 for a in range(rank)])
