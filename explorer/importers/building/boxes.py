"""Boxes that detectors find: decoded from what was predicted, the best kept where many overlap.

    decoded(deltas, priors, ...)        (N, P, 4) and (1, P, 4)  ->  (N, P, 4), corners x y x y
    best(boxes, scores, ...)            (G, P, 4) and (G, P)     ->  the best K of each group
    kept(boxes, scores, ...)            (G, K)                   ->  -inf for what another one hides

Only the suppression itself has results whose number data decide; their sizes are known again as
soon as they stand in the table of all candidates.
"""

from __future__ import annotations

import numpy as np

from explorer.importers.building.build import Build
from explorer.importers.building.expr import Expr, where
from explorer.ir.top.indexing import GatherElementsOp, GatherOp, ScatterElementsOp
from explorer.ir.top.reductions.reduction import TopKOp
from explorer.ir.top.selection import NonMaxSuppressionOp


def decoded(deltas: Expr, priors: Expr, code: str, border: float, build: Build) -> Expr:
    """Boxes out of what was predicted of each prior box, by the code of SSD: CORNER, CENTER_SIZE
    or CORNER_SIZE. border: 1 where a box of pixels ends at its last pixel, else 0.

    Source: DecodeBBox in src/caffe/util/bbox_util.cpp of SSD (Liu et al., 2016).
    """
    low, high = (priors.slice(priors.rank - 1, at, at + 2) for at in (0, 2))
    first, second = (deltas.slice(deltas.rank - 1, at, at + 2) for at in (0, 2))
    if code == "CORNER":
        return priors + deltas
    size = high - low
    if border:
        size = size + border
    first = first * size
    if code == "CORNER_SIZE":
        ends = (low + first, high + second * size)
        return build.concat(ends, deltas.rank - 1)
    center = first + (low + size * 0.5)
    half = second.exp() * size * 0.5
    ends = [center.binary(kind, half) for kind in ("sub", "add")]
    return build.concat(ends, deltas.rank - 1)


def best(boxes: Expr, scores: Expr, most: int, build: Build) -> tuple[Expr, Expr]:
    """The boxes (G, K, 4) of the K best scores (G, K), best first."""
    groups, count = scores.sizes([0, 1], "the best boxes")
    number = count if most < 0 else min(most, count)
    chosen, indices = build.values(TopKOp, [scores], k=number, axis=1, largest=True)
    places = indices.unsqueeze([2]).broadcast_to([groups, number, 4])
    return build.value(GatherElementsOp, [boxes, places], axis=1), chosen


def kept(
    boxes: Expr, scores: Expr, overlap: float, threshold: float, border: float, build: Build
) -> Expr:
    """Scores (G, K) with -inf for boxes (G, K, 4) that overlap a better one of their group too
    much, or whose score is not above the threshold. A box that ends before it begins is empty."""
    groups, count = scores.sizes([0, 1], "boxes that overlap")
    low, high = (boxes.slice(boxes.rank - 1, at, at + 2) for at in (0, 2))
    behind = high + border if border else high
    behind = where(high < low, low, behind)
    rows = build.value(
        NonMaxSuppressionOp,
        [build.concat([low, behind], 2), scores.unsqueeze([1])],
        limit=count,
        overlap=overlap,
        threshold=threshold,
        is_centered=False,
    )
    group, box = (rows.slice(1, at, at + 1).reshape([-1]) for at in (0, 2))
    flat = group * build.weight(np.array(count, np.int64)) + box
    found = build.value(GatherOp, [scores.reshape([-1]), flat], axis=0)
    none = build.weight(np.full(groups * count, -np.inf, np.float32))
    made = build.value(ScatterElementsOp, [none, flat, found], axis=0, reduction="none")
    return made.reshape([groups, count])
