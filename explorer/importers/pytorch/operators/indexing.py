"""Reading and writing elements at places that are data.

aten.embedding(w, i)                    top.gather
aten.index.Tensor(x, [None, i, j])      top.gather, or top.gather_nd of several axes
aten.index_put(x, [i], v)               top.scatter_nd
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from explorer.importers.building.build import Build
from explorer.importers.building.expr import Expr
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
    if not build.rank(x):
        return x
    axis = build.axis(node.integer("dim", build), build.rank(x))
    places = build.reshape(places, [-1]) if build.rank(places) != 1 else places
    return build.value(GatherOp, [x, places], axis=axis)


def gather(node: AtenNode, build: Build) -> Expr:
    """Elements of an axis, at a place of its own for each of the result."""
    x, places = node.operand("self"), node.operand("index")
    if not build.rank(x):
        return build.expand(x, build.all_sizes(places)) if build.rank(places) else x
    if not build.rank(places):
        places = build.reshape(places, [1] * build.rank(x))
        axis = build.axis(node.integer("dim", build), build.rank(x))
        return build.reshape(build.value(GatherElementsOp, [x, places], axis=axis), [])
    axis = build.axis(node.integer("dim", build), build.rank(x))
    return build.value(GatherElementsOp, [x, places], axis=axis)


def take_along(node: AtenNode, build: Build) -> Expr:
    """As gather, where the axes other than the one that is read broadcast."""
    x, places = node.operand("self"), node.operand("indices")
    if not node.has("dim"):
        return build.value(GatherOp, [build.reshape(x, [-1]), build.reshape(places, [-1])], axis=0)
    rank = build.rank(x)
    axis = build.axis(node.integer("dim", build), rank)
    sizes = [build.sizes(v, range(rank), "places that broadcast") for v in (x, places)]
    common = [max(a, b) if 0 not in (a, b) else 0 for a, b in zip(*sizes, strict=True)]
    own = [sizes[0][a] if a == axis else n for a, n in enumerate(common)]
    asked = [sizes[1][a] if a == axis else n for a, n in enumerate(common)]
    operands = [expanded(x, own, build), expanded(places, asked, build)]
    return build.value(GatherElementsOp, operands, axis=axis)


def take(node: AtenNode, build: Build) -> Expr:
    """The elements at places of the tensor as a row."""
    return build.value(
        GatherOp, [build.reshape(node.operand("self"), [-1]), node.operand("index")], axis=0
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
    rank = build.rank(x)
    rest = [axis for axis in range(rank) if axis not in axes]
    moved = build.transpose(x, [*axes, *rest])
    coordinates, count = _coordinates(places, axes, build)
    found = build.value(GatherNdOp, [moved, coordinates], batch_dims=0)
    if axes != list(range(axes[0], axes[-1] + 1)):
        return found
    # Axes side by side: the places' axes stand where the first of them stood.
    before = axes[0]
    total = count + len(rest)
    order = [*range(count, count + before), *range(count), *range(count + before, total)]
    return build.transpose(found, order)


def _places(listed: Sequence[Expr | None], x: Expr, build: Build) -> list[Expr | None]:
    """Places along each axis: masks as the places where they are true."""
    found: list[Expr | None] = []
    for places in listed:
        if places is None or build.dtype(places) not in (np.bool_, np.uint8):
            found.append(None if places is None else build.cast(places, np.int64))
            continue
        known = build.knowledge.array(places)
        if known is not None:
            found += [build.weight(p.astype(np.int64)) for p in np.nonzero(known)]
            continue
        positions = build.value(NonZeroOp, [places])
        for axis in range(build.rank(places)):
            found.append(build.squeeze(build.slice(positions, 0, axis, axis + 1), [0]))
    return found


def _coordinates(
    places: Sequence[Expr | None], axes: Sequence[int], build: Build
) -> tuple[Expr, int]:
    """(places..., axes): the coordinates of each element, and how many axes the places have."""
    given = [p for axis in axes if (p := places[axis]) is not None]
    shapes = [build.shape(p) for p in given]
    rank = max(len(shape) for shape in shapes)
    if len(set(shapes)) > 1:
        known = [
            tuple(build.sizes(p, range(build.rank(p)), "places that broadcast")) for p in given
        ]
        shape = list(np.broadcast_shapes(*known))
        given = [expanded(p, shape, build) for p in given]
    return build.concat([build.unsqueeze(p, [rank]) for p in given], rank), rank


def index_put(node: AtenNode, build: Build) -> Expr:
    """Values written, or added, at places along some axes."""
    x, values = node.operand("self"), node.operand("values")
    listed = node.optional_tensors("indices")
    masks = [p for p in listed if p is not None and build.dtype(p) in (np.bool_, np.uint8)]
    only_mask = len(listed) == 1 and len(masks) == 1 and not node.flag("accumulate")
    values = build.cast(values, build.dtype(x))
    if only_mask and all(size == 1 for size in build.shape(values)):
        mask = build.cast(masks[0], np.bool_)
        trailing = build.rank(x) - build.rank(mask)
        mask = build.reshape(mask, [*build.all_sizes(mask), *[1] * trailing]) if trailing else mask
        return build.select(mask, build.reshape(values, []), x)
    places = _places(listed, x, build)
    axes = [axis for axis, p in enumerate(places) if p is not None]
    rank = build.rank(x)
    rest = [axis for axis in range(rank) if axis not in axes]
    order = [*axes, *rest]
    coordinates, count = _coordinates(places, axes, build)
    moved = build.transpose(x, order)
    shape = [*build.all_sizes(coordinates)[:count], *build.all_sizes(moved)[len(axes) :]]
    if axes == list(range(axes[0], axes[-1] + 1)) and axes[0]:
        # Values have the places' axes where the first of them stood: they come to the front.
        before, total = axes[0], count + len(rest)
        full = [*shape[count : count + before], *shape[:count], *shape[count + before :]]
        values = expanded(values, full, build)
        front = [*range(before, before + count), *range(before), *range(before + count, total)]
        values = build.transpose(values, front)
    else:
        values = expanded(values, shape, build)
    reduction = "add" if node.flag("accumulate") else "none"
    written = build.value(ScatterNdOp, [moved, coordinates, values], reduction=reduction)
    back = [order.index(axis) for axis in range(rank)]
    return build.transpose(written, back)


# -- parts that are replaced ----------------------------------------------------------------------


def select_scatter(node: AtenNode, build: Build) -> Expr:
    """A tensor with the elements at one place of an axis replaced."""
    x, source = node.operand("self"), node.operand("src")
    axis = build.axis(node.integer("dim", build), build.rank(x))
    return replaced_at(
        x, build.cast(source, build.dtype(x)), axis, node.integer("index", build), build
    )


def replaced_at(x: Expr, value: Expr, axis: int, place: int, build: Build) -> Expr:
    (size,) = build.sizes(x, [axis], "a slice that is replaced")
    place += size if place < 0 else 0
    return replaced(x, build.unsqueeze(value, [axis]), axis, place, place + 1, 1, build)


def replaced(
    x: Expr, value: Expr, axis: int, start: int, stop: int, step: int, build: Build
) -> Expr:
    """x with every step-th element from start to stop of an axis replaced."""
    (size,) = build.sizes(x, [axis], "a part that is replaced")
    start, stop, _ = slice(start, stop).indices(size)
    if start >= stop:
        return x
    if step != 1:
        places = np.arange(start, stop, step)
        shape = [1] * build.rank(x)
        shape[axis] = len(places)
        along = build.weight(places.reshape(shape))
        indices = build.expand(along, build.all_sizes(value))
        return build.value(ScatterElementsOp, [x, indices, value], axis=axis, reduction="none")
    parts = [] if start == 0 else [build.slice(x, axis, 0, start)]
    parts.append(value)
    if stop < size:
        parts.append(build.slice(x, axis, stop, size))
    return build.concat(parts, axis)


def slice_scatter(node: AtenNode, build: Build) -> Expr:
    """A tensor with part of an axis replaced."""
    x, source = (
        node.operand("self"),
        build.cast(node.operand("src"), build.dtype(node.operand("self"))),
    )
    axis = build.axis(node.integer("dim", build, 0), build.rank(x))
    start, step = node.integer("start", build, 0), node.integer("step", build, 1)
    stop = node.integer("end", build, 2**63 - 1)
    shape = list(build.all_sizes(x))
    (size,) = build.sizes(x, [axis], "a part that is replaced")
    shape[axis] = len(range(*slice(start, stop, step).indices(size)))
    return replaced(x, expanded(source, shape, build), axis, start, stop, step, build)


def diagonal_scatter(node: AtenNode, build: Build) -> Expr:
    """A tensor with a diagonal replaced."""
    x, source = (
        node.operand("self"),
        build.cast(node.operand("src"), build.dtype(node.operand("self"))),
    )
    offset = node.integer("offset", build, 0)
    axes = [
        build.axis(node.integer(n, build, d), build.rank(x)) for n, d in (("dim1", 0), ("dim2", 1))
    ]
    return replaced_diagonal(x, source, offset, axes, build)


def replaced_diagonal(
    x: Expr, source: Expr, offset: int, axes: Sequence[int], build: Build
) -> Expr:
    rank = build.rank(x)
    rest = [axis for axis in range(rank) if axis not in axes]
    order = [*rest, *axes]
    moved = build.transpose(x, order)
    rows, columns = build.sizes(moved, [rank - 2, rank - 1], "a diagonal")
    first_row, first_column = max(-offset, 0), max(offset, 0)
    count = max(min(rows - first_row, columns - first_column), 0)
    places = (np.arange(count) + first_row) * columns + np.arange(count) + first_column
    lead = build.all_sizes(moved)[: rank - 2]
    flat = build.reshape(moved, [*lead, rows * columns])
    indices = build.expand(build.weight(places.astype(np.int64)), [*lead, count])
    written = build.value(
        ScatterElementsOp, [flat, indices, source], axis=rank - 2, reduction="none"
    )
    shaped = build.reshape(written, [*lead, rows, columns])
    return build.transpose(shaped, [order.index(axis) for axis in range(rank)])


# -- masks and sorted rows -------------------------------------------------------------------------


def nonzero(node: AtenNode, build: Build) -> Expr:
    """(count, axes): the coordinates of all elements other than 0."""
    x = node.operand("self")
    if not build.rank(x):  # a number has no coordinates, and may be there or not
        places = build.value(NonZeroOp, [build.reshape(x, [1])])
        return build.transpose(build.slice(places, 0, 0, 0), [1, 0])
    return build.transpose(build.value(NonZeroOp, [x]), [1, 0])


def masked_select(node: AtenNode, build: Build) -> Expr:
    """The elements where a mask is true, as a row."""
    x, mask = node.operand("self"), node.operand("mask")
    known = [
        tuple(build.sizes(v, range(build.rank(v)), "a mask that broadcasts")) for v in (x, mask)
    ]
    shape = list(np.broadcast_shapes(*known))
    x, mask = (build.reshape(expanded(v, shape, build), [-1]) for v in (x, mask))
    positions = build.squeeze(build.value(NonZeroOp, [mask]), [0])
    return build.value(GatherOp, [x, positions], axis=0)


def masked_scatter(node: AtenNode, build: Build) -> Expr:
    """The elements of a row, one after another, where a mask is true."""
    x, mask, source = (node.operand(name) for name in ("self", "mask", "source"))
    known = [
        tuple(build.sizes(v, range(build.rank(v)), "a mask that broadcasts")) for v in (x, mask)
    ]
    shape = list(np.broadcast_shapes(*known))
    x, mask = (expanded(v, shape, build) for v in (x, mask))
    flat = build.reshape(build.cast(mask, np.int64), [-1])
    before = build.value(CumulativeOp, [flat], kind="sum", axis=0, exclusive=True, reverse=False)
    source = build.cast(build.reshape(source, [-1]), build.dtype(x))
    (size,) = build.sizes(source, [0], "what is scattered")
    inside = build.binary("min", before, build.weight(np.array(size - 1, np.int64)))
    taken = build.value(GatherOp, [source, inside], axis=0)
    return build.select(build.cast(mask, np.bool_), build.reshape(taken, shape), x)


def search_sorted(node: AtenNode, build: Build) -> Expr:
    """How many of the sorted bounds lie below each number."""
    is_bucket = "bucketize" in node.call.target
    bounds = node.operand("boundaries" if is_bucket else "sorted_sequence")
    dtype = common_dtype(node, ["self"], build)
    x = as_value(node, "self", dtype, build)
    right = node.flag("right") or node.text("side") == "right"
    if node.has("sorter"):
        bounds = build.value(
            GatherElementsOp, [bounds, node.operand("sorter")], axis=build.rank(bounds) - 1
        )
    dtype = np.promote_types(build.dtype(x), build.dtype(bounds))
    x, bounds = build.cast(x, dtype), build.cast(bounds, dtype)
    if build.rank(bounds) > 1:
        bounds = build.unsqueeze(bounds, [build.rank(bounds) - 1])
    kind = "less_equal" if right else "less"
    below = build.binary(kind, bounds, build.unsqueeze(x, [build.rank(x)]))
    counts = build.reduce("sum", build.cast(below, np.int64), [build.rank(below) - 1])
    return build.cast(counts, np.int32 if node.flag("out_int32") else np.int64)


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
