"""What finds elements by their values: how many there are depends on the contents."""

from __future__ import annotations

import math
from collections.abc import Sequence

from explorer.importers.building.expr import Expr
from explorer.importers.onnx.program.build import Build
from explorer.importers.onnx.program.nodes import Node, converts
from explorer.ir.top.indexing import GatherOp
from explorer.ir.top.selection import NonMaxSuppressionOp, NonZeroOp, UniqueOp


@converts("NonZero", since=9)
def nonzero(node: Node, build: Build) -> Expr:
    """A single number counts as a vector of one element."""
    x = node.operand(0)
    return build.value(NonZeroOp, [x if x.rank else x.unsqueeze([0])])


@converts("Compress", since=9)
def compress(node: Node, build: Build) -> Expr:
    """The elements of an axis (of the flattened operand without `axis`) that a mask keeps.

    Compress(x, [false, true, true])   ->   gather(x, nonzero([false, true, true]))

    What a mask says beyond the axis does not count, as in onnxruntime.
    """
    x, mask = node.operand(0), node.operand(1)
    if "axis" in node.attributes:
        axis = build.axis(node.integer("axis"), x.rank)
    else:
        x, axis = x.reshape([-1]), 0
    extent, given = x.shape[axis], mask.shape[0]
    if isinstance(extent, int) and isinstance(given, int) and given > extent:
        mask = mask.slice(0, 0, extent)
    positions = build.value(NonZeroOp, [mask]).squeeze([0])
    return build.value(GatherOp, [x, positions], axis=axis)


@converts("Unique", since=11)
def unique(node: Node, build: Build) -> Sequence[Expr]:
    """Without `axis` single elements of the flattened operand are compared."""
    x = node.operand(0)
    if "axis" in node.attributes:
        axis = build.axis(node.integer("axis"), x.rank)
    else:
        x, axis = x.reshape([-1]), 0
    return build.values(UniqueOp, [x], axis=axis, is_sorted=bool(node.integer("sorted", 1)))


@converts("NonMaxSuppression", since=10)
def non_max_suppression(node: Node, build: Build) -> Expr:
    """Left out numbers: no box at all, every overlap, every score."""
    numbers = [node.optional(index) for index in (2, 3, 4)]
    limit, overlap, threshold = (
        default if number is None else build.scalar(number, f"the {purpose}")
        for number, default, purpose in zip(
            numbers,
            (0, 0.0, -math.inf),
            ("number of boxes", "overlap", "score"),
            strict=True,
        )
    )
    return build.value(
        NonMaxSuppressionOp,
        [node.operand(0), node.operand(1)],
        limit=int(limit),
        overlap=float(overlap),
        threshold=float(threshold),
        is_centered=bool(node.integer("center_point_box", 0)),
    )
