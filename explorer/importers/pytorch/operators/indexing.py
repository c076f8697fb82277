"""Reading and writing elements at places that are data.

aten.embedding(w, i)                    top.gather
aten.index.Tensor(x, [None, i, j])      top.gather, or top.gather_nd of several axes
aten.index_put(x, [i], v)               top.scatter_nd
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from explorer.importers.building.build import Build
from explorer.importers.building.expr import Expr, minimum, where
from explorer.importers.pytorch.operators.movement import expanded
from explorer.importers.pytorch.operators.node import AtenNode
from explorer.importers.pytorch.operators.promotion import as_value, common_dtype
from explorer.ir.top.indexing import (
    GatherElementsOp,
    GatherNdOp,
    GatherOp,
    ScatterElementsOp,
    ScatterNdOp,
)
from explorer.ir.top.reductions.cumulative import CumulativeOp
from explorer.ir.top.selection import NonZeroOp


def embedding(node: AtenNode, build: Build) -> Expr:
    """Rows of a table."""
    return build.value(GatherOp, [node.operand("weight"), node.operand("indices")], axis=0)


def index_select(node: AtenNode, build: Build) -> Expr:
    """The elements at some places of an axis."""
    x, places = node.operand("self"), node.operand("index")
    if not x.rank:
        return x
    axis = build.axis(node.integer("dim", build), x.rank)
    places = places.reshape([-1]) if places.rank != 1 else places
    return build.value(GatherOp, [x, places], axis=axis)


def gather(node: AtenNode, build: Build) -> Expr:
    """Elements of an axis, at a place of its own for each of the result."""
    x, places = node.operand("self"), node.operand("index")
    if not x.rank:
        return x.broadcast_to(places.all_sizes()) if places.rank else x
    if places.rank != x.rank and 0 in places.shape:
        return build.weight(np.zeros(places.sizes(range(places.rank), "no places"), x.dtype))
    if not places.rank:
        places = places.reshape([1] * x.rank)
        axis = build.axis(node.integer("dim", build), x.rank)
        return build.value(GatherElementsOp, [x, places], axis=axis).reshape([])
    axis = build.axis(node.integer("dim", build), x.rank)
    return build.value(GatherElementsOp, [x, places], axis=axis)


def take_along(node: AtenNode, build: Build) -> Expr:
    """As gather, where the axes other than the one that is read broadcast."""
    x, places = node.operand("self"), node.operand("indices")
    if not node.has("dim"):
        return build.value(GatherOp, [x.reshape([-1]), places.reshape([-1])], axis=0)
    rank = x.rank
    axis = build.axis(node.integer("dim", build), rank)
    sizes = [v.sizes(range(rank), "places that broadcast") for v in (x, places)]
    common = [max(a, b) if 0 not in (a, b) else 0 for a, b in zip(*sizes, strict=True)]
    own = [sizes[0][a] if a == axis else n for a, n in enumerate(common)]
    asked = [sizes[1][a] if a == axis else n for a, n in enumerate(common)]
    operands = [expanded(x, own), expanded(places, asked)]
    return build.value(GatherElementsOp, operands, axis=axis)


def take(node: AtenNode, build: Build) -> Expr:
    """The elements at places of the tensor as a row."""
    return build.value(
        GatherOp, [node.operand("self").reshape([-1]), node.operand("index")], axis=0
    )


# -- several axes ----------------------------------------------------------------------------------


def index(node: AtenNode, build: Build) -> Expr:
    """Elements at places along some axes; their axes come where these stood, or first."""
    x = node.operand("self")
    places = _places(node.optional_tensors("indices"), x, build)
    axes = [axis for axis, p in enumerate(places) if p is not None]
    if not axes:
        return x
    if len(axes) == 1:
        return build.value(GatherOp, [x, places[axes[0]]], axis=axes[0])
    rank = x.rank
    rest = [axis for axis in range(rank) if axis not in axes]
    moved = x.transpose([*axes, *rest])
    coordinates, count = _coordinates(places, axes, build)
    found = build.value(GatherNdOp, [moved, coordinates], batch_dims=0)
    if axes != list(range(axes[0], axes[-1] + 1)):
        return found
    # Axes side by side: the places' axes stand where the first of them stood.
    before = axes[0]
    total = count + len(rest)
    order = [*range(count, count + before), *range(count), *range(count + before, total)]
    return found.transpose(order)


def _places(listed: Sequence[Expr | None], x: Expr, build: Build) -> list[Expr | None]:
    """Places along each axis: masks as the places where they are true."""
    found: list[Expr | None] = []
    for places in listed:
        if places is None or places.dtype not in (np.bool_, np.uint8):
            found.append(None if places is None else places.astype(np.int64))
            continue
        known = build.knowledge.array(places)
        if known is not None:
            found += [build.weight(p.astype(np.int64)) for p in np.nonzero(known)]
            continue
        positions = build.value(NonZeroOp, [places])
        for axis in range(places.rank):
            found.append(positions.slice(0, axis, axis + 1).squeeze([0]))
    return found


def _coordinates(
    places: Sequence[Expr | None], axes: Sequence[int], build: Build
) -> tuple[Expr, int]:
    """(places..., axes): the coordinates of each element, and how many axes the places have."""
    given = [p for axis in axes if (p := places[axis]) is not None]
    shapes = [p.shape for p in given]
    rank = max(len(shape) for shape in shapes)
    if len(set(shapes)) > 1:
        known = [tuple(p.sizes(range(p.rank), "places that broadcast")) for p in given]
        shape = list(np.broadcast_shapes(*known))
        given = [expanded(p, shape) for p in given]
    return build.concat([p.unsqueeze([rank]) for p in given], rank), rank


def index_put(node: AtenNode, build: Build) -> Expr:
    """Values written, or added, at places along some axes."""
    x, values = node.operand("self"), node.operand("values")
    listed = node.optional_tensors("indices")
    masks = [p for p in listed if p is not None and p.dtype in (np.bool_, np.uint8)]
    only_mask = len(listed) == 1 and len(masks) == 1 and not node.flag("accumulate")
    values = values.astype(x.dtype)
    if only_mask and all(size == 1 for size in values.shape):
        mask = masks[0].astype(np.bool_)
        trailing = x.rank - mask.rank
        mask = mask.reshape([*mask.all_sizes(), *[1] * trailing]) if trailing else mask
        return where(mask, values.reshape([]), x)
    places = _places(listed, x, build)
    axes = [axis for axis, p in enumerate(places) if p is not None]
    rank = x.rank
    reduction = "add" if node.flag("accumulate") else "none"
    along = places[axes[0]]
    if len(axes) == 1 and axes[0] and along is not None and along.rank == 1 and not masks:
        return _written_along(x, along, values, axes[0], reduction, build)
    rest = [axis for axis in range(rank) if axis not in axes]
    order = [*axes, *rest]
    coordinates, count = _coordinates(places, axes, build)
    moved = x.transpose(order)
    shape = [*coordinates.all_sizes()[:count], *moved.all_sizes()[len(axes) :]]
    if axes == list(range(axes[0], axes[-1] + 1)) and axes[0]:
        # Values have the places' axes where the first of them stood: they come to the front.
        before, total = axes[0], count + len(rest)
        full = [*shape[count : count + before], *shape[:count], *shape[count + before :]]
        values = expanded(values, full)
        front = [*range(before, before + count), *range(before), *range(before + count, total)]
        values = values.transpose(front)
    else:
        values = expanded(values, shape)
    written = build.value(ScatterNdOp, [moved, coordinates, values], reduction=reduction)
    back = [order.index(axis) for axis in range(rank)]
    return written.transpose(back)


def _written_along(
    x: Expr, places: Expr, values: Expr, axis: int, reduction: str, build: Build
) -> Expr:
    """Values at places of an inner axis, without moving the axis: a cache stays where it lies."""
    shape = list(x.all_sizes())
    shape[axis] = places.all_sizes()[0]
    own = places.reshape([-1 if a == axis else 1 for a in range(x.rank)])
    operands = [x, own.broadcast_to(shape), expanded(values, shape)]
    return build.value(ScatterElementsOp, operands, axis=axis, reduction=reduction)


# -- parts that are replaced ----------------------------------------------------------------------


def select_scatter(node: AtenNode, build: Build) -> Expr:
    """A tensor with the elements at one place of an axis replaced."""
    x, source = node.operand("self"), node.operand("src")
    axis = build.axis(node.integer("dim", build), x.rank)
    return replaced_at(x, source.astype(x.dtype), axis, node.integer("index", build), build)


def replaced_at(x: Expr, value: Expr, axis: int, place: int, build: Build) -> Expr:
    (size,) = x.sizes([axis], "a slice that is replaced")
    place += size if place < 0 else 0
    return replaced(x, value.unsqueeze([axis]), axis, place, place + 1, 1, build)


def replaced(
    x: Expr, value: Expr, axis: int, start: int, stop: int, step: int, build: Build
) -> Expr:
    """x with every step-th element from start to stop of an axis replaced."""
    (size,) = x.sizes([axis], "a part that is replaced")
    start, stop, _ = slice(start, stop).indices(size)
    if start >= stop:
        return x
    is_small = 2 * (stop - start) <= size
    if step != 1 or is_small:  # the rest stays where it is, and may be no copy at all
        places = np.arange(start, stop, step)
        shape = [1] * x.rank
        shape[axis] = len(places)
        along = build.weight(places.reshape(shape))
        indices = along.broadcast_to(value.all_sizes())
        return build.value(ScatterElementsOp, [x, indices, value], axis=axis, reduction="none")
    parts = [] if start == 0 else [x.slice(axis, 0, start)]
    parts.append(value)
    if stop < size:
        parts.append(x.slice(axis, stop, size))
    return build.concat(parts, axis)


def slice_scatter(node: AtenNode, build: Build) -> Expr:
    """A tensor with part of an axis replaced."""
    x, source = (
        node.operand("self"),
        node.operand("src").astype(node.operand("self").dtype),
    )
    axis = build.axis(node.integer("dim", build, 0), x.rank)
    start, step = node.integer("start", build, 0), node.integer("step", build, 1)
    stop = node.integer("end", build, 2**63 - 1)
    shape = list(x.all_sizes())
    (size,) = x.sizes([axis], "a part that is replaced")
    shape[axis] = len(range(*slice(start, stop, step).indices(size)))
    return replaced(x, expanded(source, shape), axis, start, stop, step, build)


def diagonal_scatter(node: AtenNode, build: Build) -> Expr:
    """A tensor with a diagonal replaced."""
    x, source = (
        node.operand("self"),
        node.operand("src").astype(node.operand("self").dtype),
    )
    offset = node.integer("offset", build, 0)
    axes = [build.axis(node.integer(n, build, d), x.rank) for n, d in (("dim1", 0), ("dim2", 1))]
    return replaced_diagonal(x, source, offset, axes, build)


def replaced_diagonal(
    x: Expr, source: Expr, offset: int, axes: Sequence[int], build: Build
) -> Expr:
    rank = x.rank
    rest = [axis for axis in range(rank) if axis not in axes]
    order = [*rest, *axes]
    moved = x.transpose(order)
    rows, columns = moved.sizes([rank - 2, rank - 1], "a diagonal")
    first_row, first_column = max(-offset, 0), max(offset, 0)
    count = max(min(rows - first_row, columns - first_column), 0)
    places = (np.arange(count) + first_row) * columns + np.arange(count) + first_column
    lead = moved.all_sizes()[: rank - 2]
    flat = moved.reshape([*lead, rows * columns])
    indices = build.weight(places.astype(np.int64)).broadcast_to([*lead, count])
    written = build.value(
        ScatterElementsOp, [flat, indices, source], axis=rank - 2, reduction="none"
    )
    shaped = written.reshape([*lead, rows, columns])
    return shaped.transpose([order.index(axis) for axis in range(rank)])


# -- masks and sorted rows -------------------------------------------------------------------------


def nonzero(node: AtenNode, build: Build) -> Expr:
    """(count, axes): the coordinates of all elements other than 0."""
    x = node.operand("self")
    if not x.rank:  # a number has no coordinates, and may be there or not
        return build.value(NonZeroOp, [x.reshape([1])]).slice(0, 0, 0).transpose([1, 0])
    return build.value(NonZeroOp, [x]).transpose([1, 0])


def masked_select(node: AtenNode, build: Build) -> Expr:
    """The elements where a mask is true, as a row."""
    x, mask = node.operand("self"), node.operand("mask")
    known = [tuple(v.sizes(range(v.rank), "a mask that broadcasts")) for v in (x, mask)]
    shape = list(np.broadcast_shapes(*known))
    x, mask = (expanded(v, shape).reshape([-1]) for v in (x, mask))
    return build.value(GatherOp, [x, build.value(NonZeroOp, [mask]).squeeze([0])], axis=0)


def masked_scatter(node: AtenNode, build: Build) -> Expr:
    """The elements of a row, one after another, where a mask is true."""
    x, mask, source = (node.operand(name) for name in ("self", "mask", "source"))
    known = [tuple(v.sizes(range(v.rank), "a mask that broadcasts")) for v in (x, mask)]
    shape = list(np.broadcast_shapes(*known))
    x, mask = (expanded(v, shape) for v in (x, mask))
    flat = mask.astype(np.int64).reshape([-1])
    before = build.value(CumulativeOp, [flat], kind="sum", axis=0, exclusive=True, reverse=False)
    source = source.reshape([-1]).astype(x.dtype)
    (size,) = source.sizes([0], "what is scattered")
    inside = minimum(before, build.weight(np.array(size - 1, np.int64)))
    taken = build.value(GatherOp, [source, inside], axis=0)
    return where(mask.astype(np.bool_), taken.reshape(shape), x)


def search_sorted(node: AtenNode, build: Build) -> Expr:
    """How many of the sorted bounds lie below each number."""
    is_bucket = "bucketize" in node.call.target
    bounds = node.operand("boundaries" if is_bucket else "sorted_sequence")
    dtype = common_dtype(node, ["self"])
    x = as_value(node, "self", dtype, build)
    right = node.flag("right") or node.text("side") == "right"
    if node.has("sorter"):
        bounds = build.value(
            GatherElementsOp, [bounds, node.operand("sorter")], axis=bounds.rank - 1
        )
    dtype = np.promote_types(x.dtype, bounds.dtype)
    x, bounds = x.astype(dtype), bounds.astype(dtype)
    if bounds.rank > 1:
        bounds = bounds.unsqueeze([bounds.rank - 1])
    kind = "less_equal" if right else "less"
    below = bounds.binary(kind, x.unsqueeze([x.rank]))
    counts = below.astype(np.int64).sum([below.rank - 1])
    return counts.astype(np.int32 if node.flag("out_int32") else np.int64)


CONVERTERS = {
    "embedding": embedding,
    "index_select": index_select,
    "gather": gather,
    "take_along_dim": take_along,
    "take": take,
    "index.Tensor": index,
    "_unsafe_index.Tensor": index,
    "index_put": index_put,
    "_unsafe_index_put": index_put,
    "select_scatter": select_scatter,
    "slice_scatter": slice_scatter,
    "diagonal_scatter": diagonal_scatter,
    "nonzero": nonzero,
    "argwhere": nonzero,
    "masked_select": masked_select,
    "masked_scatter": masked_scatter,
    "searchsorted.Tensor": search_sorted,
    "searchsorted.Scalar": search_sorted,
    "bucketize.Tensor": search_sorted,
    "bucketize.Scalar": search_sorted,
}
