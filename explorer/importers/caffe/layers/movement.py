"""What moves elements, and reductions.

Axes may count from the end; sizes of 0 and -1 in Reshape are copied and computed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from explorer.importers.building.build import Build, Unsupported
from explorer.importers.building.expr import Expr
from explorer.importers.caffe.layers.node import CaffeNode, enum_of
from explorer.ir.top.reductions.arg import ArgOp


def identity(node: CaffeNode, build: Build) -> list[Expr]:
    """The operand itself, as often as it is asked for."""
    return [node.operand(0)] * len(node.outputs)


def concat(node: CaffeNode, build: Build) -> Expr:
    """All operands behind one another."""
    axis = node.own.integer("axis", node.own.integer("concat_dim", 1))
    return build.concat(node.bottoms, build.axis(axis, node.operand(0).rank))


def slice_(node: CaffeNode, build: Build) -> Sequence[Expr]:
    """Parts of an axis between places, or of equal sizes."""
    x = node.operand(0)
    axis = build.axis(node.own.integer("axis", node.own.integer("slice_dim", 1)), x.rank)
    size, count = x.sizes([axis], "a slice")[0], len(node.outputs)
    points = node.own.integers("slice_point")
    if not points:
        if size % count:
            raise ValueError(f"{size} elements in {count} parts")
        points = [size // count * part for part in range(1, count)]
    bounds = [0, *points, size]
    if len(bounds) != count + 1 or any(a >= b for a, b in pairwise(bounds)):
        raise ValueError(f"places {points} in {size} elements for {count} parts")
    return [x.slice(axis, begin, end) for begin, end in pairwise(bounds)]


def flatten(node: CaffeNode, build: Build) -> Expr:
    """The axes from one to another as one."""
    x = node.operand(0)
    rank = x.rank
    first = build.axis(node.own.integer("axis", 1), rank)
    last = build.axis(node.own.integer("end_axis", -1), rank)
    if first > last:
        raise ValueError(f"the axes {first} to {last}")
    sizes = x.all_sizes()
    return x.reshape([*sizes[:first], -1, *sizes[last + 1 :]])


def reshape(node: CaffeNode, build: Build) -> Expr:
    """Elements in another shape, which may stand for some axes only."""
    x = node.operand(0)
    rank = x.rank
    begin = node.own.integer("axis", 0)
    first = begin if begin >= 0 else rank + begin + 1
    count = node.own.integer("num_axes", -1)
    end = rank if count == -1 else first + count
    if not 0 <= first <= end <= rank:
        raise ValueError(f"{count} axes from axis {begin} on of {rank}")
    sizes = x.all_sizes()
    made = []
    for index, size in enumerate(node.own.message("shape").integers("dim")):
        if size == 0 and first + index >= rank:
            raise ValueError(f"axis {first + index} of {rank} cannot be copied")
        made.append(sizes[first + index] if size == 0 else size)
    if made.count(-1) > 1:
        raise ValueError("two sizes are to be computed")
    return x.reshape([*sizes[:first], *made, *sizes[end:]])


def permute(node: CaffeNode, build: Build) -> Expr:
    """Axes in another order; those that are not named follow."""
    x, order = node.operand(0), node.own.integers("order")
    rest = [axis for axis in range(x.rank) if axis not in order]
    return x.transpose([*order, *rest])


def crop(node: CaffeNode, build: Build) -> Expr:
    """A part of x as large as the second operand, from an axis on."""
    x, like = node.operand(0), node.operand(1)
    rank = x.rank
    first = build.axis(node.own.integer("axis", 2), rank)
    offsets = node.own.integers("offset") or [0]
    axes = range(first, rank)
    if like.rank != rank or len(offsets) not in (1, len(axes)):
        raise ValueError(f"{len(offsets)} offsets for {len(axes)} axes")
    offsets = offsets * len(axes) if len(offsets) == 1 else offsets
    sizes, wanted = (v.sizes(axes, "a crop") for v in (x, like))
    bounds = {}
    for axis, size, target, begin in zip(axes, sizes, wanted, offsets, strict=True):
        if not 0 <= begin <= size - target:
            raise ValueError(f"{target} elements from {begin} on of {size}")
        bounds[axis] = (begin, begin + target, 1)
    return x.slices(bounds)


def tile(node: CaffeNode, build: Build) -> Expr:
    """x as often behind itself as asked."""
    x, count = node.operand(0), node.own.integer("tiles", 0)
    if not 1 <= count <= _MAX_TILES:
        raise ValueError(f"tiles is {count}; 1 to {_MAX_TILES} expected")
    return build.concat([x] * count, build.axis(node.own.integer("axis", 1), x.rank))


_MAX_TILES = 4096


def shuffle_channel(node: CaffeNode, build: Build) -> Expr:
    """Channels of groups in turns."""
    x, group = node.operand(0), node.own.integer("group", 1)
    channels = x.sizes([1], "a shuffle")[0]
    if group < 1 or channels % group:
        raise ValueError(f"{channels} channels in {group} groups")
    return x.take(np.arange(channels).reshape(group, -1).T.reshape(-1), 1)


def reduction(node: CaffeNode, build: Build) -> Expr:
    """All axes from one on reduced, times a coefficient."""
    x = node.operand(0)
    kind = enum_of(node.own.word("operation", "SUM"), ("", *_REDUCTIONS))
    first = build.axis(node.own.integer("axis", 0), x.rank)
    made = x.reduce(_REDUCTIONS[kind], range(first, x.rank))
    return made.scaled(node.own.number("coeff", 1.0))


_REDUCTIONS = {"SUM": "sum", "ASUM": "l1", "SUMSQ": "sum_square", "MEAN": "mean"}


def arg_max(node: CaffeNode, build: Build) -> Expr:
    """Where the largest element stands along an axis, as a float, or that element."""
    x = node.operand(0)
    if node.own.integer("top_k", 1) != 1:
        raise Unsupported("more than the largest element")
    has_value = node.own.is_set("out_max_val", False)
    if not node.own.has("axis"):
        if has_value:
            raise Unsupported("places and elements in one tensor")
        count = math.prod(x.sizes(range(1, x.rank), "an image's maximum"))
        x = x.reshape([-1, 1, count])
        axis = 2
    else:
        axis = build.axis(node.own.integer("axis", 0), x.rank)
    if has_value:
        return x.max([axis], keepdims=True)
    found = build.value(ArgOp, [x], kind="max", axis=axis, keepdims=True, select_last=False)
    return found.astype(np.float32)


CONVERTERS = {
    "Dropout": identity,
    "Split": identity,
    "Concat": concat,
    "Slice": slice_,
    "Flatten": flatten,
    "Reshape": reshape,
    "Permute": permute,
    "Crop": crop,
    "Tile": tile,
    "ShuffleChannel": shuffle_channel,
    "Reduction": reduction,
    "ArgMax": arg_max,
}
