"""Operators that choose elements by their values, count through them, or sort them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from explorer.importers.building.build import Build
from explorer.importers.building.expr import Expr
from explorer.importers.building.quantized_types import as_stored
from explorer.importers.tflite.operators.node import TfliteNode
from explorer.ir.top.reductions.cumulative import CumulativeOp
from explorer.ir.top.reductions.reduction import TopKOp
from explorer.ir.top.selection import NonZeroOp, UniqueOp


def top_k(node: TfliteNode, build: Build) -> Sequence[Expr]:
    """The greatest elements along the last axis, and where they stand; of equal ones the first."""
    x = as_stored(node.operand(0, build), build)  # of one scale, which keeps the order
    (count,) = node.integers_of(1, "how many", build)
    values, places = build.values(TopKOp, [x], k=count, axis=x.rank - 1, largest=True)
    return [values, places.astype(np.dtype(node.results[1].element_type))]


def cumsum(node: TfliteNode, build: Build) -> Expr:
    """Running sums along an axis; `exclusive` leaves each element itself out."""
    node.require_plain()
    x = node.plain(0)
    (axis,) = node.integers_of(1, "the axis", build)
    return build.value(
        CumulativeOp,
        [x],
        kind="sum",
        axis=build.axis(axis, x.rank),
        exclusive=bool(node.integer("exclusive")),
        reverse=bool(node.integer("reverse")),
    )


def where(node: TfliteNode, build: Build) -> Expr:
    """Positions of all elements that are not 0, in order: (how many, rank)."""
    node.require_plain()
    return build.value(NonZeroOp, [node.plain(0)]).transpose([1, 0])


def unique(node: TfliteNode, build: Build) -> Sequence[Expr]:
    """The different elements as they first appear, and which of them each element is."""
    x = as_stored(node.operand(0, build), build)
    values, _, inverse, _ = build.values(UniqueOp, [x], axis=0, is_sorted=False)
    return [values, inverse.astype(np.dtype(node.results[1].element_type))]


def bucketize(node: TfliteNode, build: Build) -> Expr:
    """How many of the boundaries are not above each element; of NaN none is."""
    node.require_plain()
    boundaries = node.options.get("boundaries", ())
    assert isinstance(boundaries, list | tuple), boundaries
    edges = build.weight(np.array(boundaries, np.float32))
    x = node.plain(0).unsqueeze([node.plain(0).rank])
    is_above = edges > x.astype(np.float32)
    return (~is_above).astype(np.int32).sum([x.rank - 1])


CONVERTERS = {
    "TOPK_V2": top_k,
    "CUMSUM": cumsum,
    "WHERE": where,
    "UNIQUE": unique,
    "BUCKETIZE": bucketize,
}
