"""Boxes that overlap better ones are left out: NON_MAX_SUPPRESSION_V4 and V5.

    in each of as many turns as boxes are asked for
        best = the largest score left; its box is chosen where that is above the threshold
        scores of boxes that overlap it: none if by the limit, else less by how much they do

Source: tensorflow/lite/kernels/internal/reference/non_max_suppression.h. Places behind the last box
hold zeros. Bodla et al., "Soft-NMS: Improving Object Detection With One Line of Code", 2017.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import i64
from xdsl.ir import Region

from explorer.importers.building.build import Build, Unsupported
from explorer.importers.building.expr import Expr, all_plain
from explorer.importers.tflite.operators.node import TfliteNode
from explorer.ir.top.data import ReturnOp
from explorer.ir.top.indexing import GatherOp
from explorer.ir.top.reductions.arg import ArgOp
from explorer.ir.types import tensor_type

BOXES, SCORES, MOST, OVERLAP, LEAST_SCORE, SIGMA = range(6)
MOST_BOXES = 4096


@dataclass(frozen=True)
class _Limits:
    """Scalars that all turns read."""

    overlaps: Expr
    """(boxes, boxes): the share of their common area."""
    overlap: Expr
    score: Expr
    steepness: Expr | None
    """-1 / (2 sigma); None where scores do not shrink."""


def non_max_suppression(node: TfliteNode, build: Build) -> Sequence[Expr]:
    """Indices of the chosen boxes, of V5 their scores, too, and how many they are."""
    node.require_plain()
    (most,) = node.integers_of(MOST, "how many boxes are chosen", build)
    boxes, scores = node.plain(BOXES), node.plain(SCORES)
    (count,) = build.sizes(boxes, [0], "boxes")
    if not 0 < count <= MOST_BOXES or most < 0:
        raise Unsupported(f"{most} of {count} boxes")
    limits = _Limits(
        overlaps=_overlaps(boxes, build),
        overlap=build.reshape(node.plain(OVERLAP), []),
        score=build.reshape(node.plain(LEAST_SCORE), []),
        steepness=_steepness(node, build),
    )
    lowest = build.scalar_like(-np.inf, scores)
    is_above = build.binary("greater", scores, limits.score)
    left = build.select(is_above, scores, lowest)
    states = [
        left,
        build.weight(np.zeros(most, np.int32)),
        build.weight(np.zeros(most, np.float32)),
        build.weight(np.zeros((), np.int32)),
    ]
    if most:
        with build.inside([tensor_type(i64, ()), *(s.type for s in states)]) as block:
            number, *present = build.arguments(block)
            made = _turn(number, present, limits, most, build)
            build.append(ReturnOp.make([all_plain(made)], []))
        states = build.loop(Region(block), states, trip_count=most)
    _, indices, chosen, total = states
    return [indices, chosen, total] if len(node.results) == 3 else [indices, total]


def _steepness(node: TfliteNode, build: Build) -> Expr | None:
    if not node.has(SIGMA):
        return None
    sigma = float(build.known(node.plain(SIGMA), "how fast scores shrink").item())
    if sigma < 0:
        raise ValueError(f"sigma is {sigma}")
    return build.weight(np.array(-0.5 / sigma, np.float32)) if sigma else None


def _turn(number: Expr, states: list[Expr], limits: _Limits, most: int, build: Build) -> list[Expr]:
    left, indices, chosen, total = states
    best = build.value(ArgOp, [left], kind="max", axis=0, keepdims=False, select_last=False)
    score = build.value(GatherOp, [left, best], axis=0)
    is_found = build.binary("greater", score, limits.score)
    is_here = build.binary("equal", build.weight(np.arange(most, dtype=np.int64)), number)
    takes = build.binary("and", is_here, is_found)
    indices = build.select(takes, build.cast(best, np.int32), indices)
    chosen = build.select(takes, score, chosen)
    total = build.binary("add", total, build.cast(is_found, np.int32))
    overlap = build.value(GatherOp, [limits.overlaps, best], axis=0)
    (count,) = build.sizes(left, [0], "scores")
    is_itself = build.binary("equal", build.weight(np.arange(count, dtype=np.int64)), best)
    covers = build.binary("greater_equal", overlap, limits.overlap)
    goes = build.binary("and", build.binary("or", is_itself, covers), is_found)
    lowest = build.scalar_like(-np.inf, left)
    if limits.steepness is not None:
        square = build.binary("mul", build.binary("mul", overlap, overlap), limits.steepness)
        shrunk = build.binary("mul", left, build.unary("exp", square))
        is_left = build.binary("greater", shrunk, limits.score)
        left = build.select(is_found, build.select(is_left, shrunk, lowest), left)
    return [build.select(goes, lowest, left), indices, chosen, total]


def _overlaps(boxes: Expr, build: Build) -> Expr:
    """Common area by that of both together; 0 where one of them has none. Corners in any order."""
    columns = [build.slice(boxes, 1, k, k + 1) for k in range(4)]  # (boxes, 1)
    low = [build.binary("min", columns[k], columns[k + 2]) for k in range(2)]
    high = [build.binary("max", columns[k], columns[k + 2]) for k in range(2)]
    zero = build.scalar_like(0, boxes)

    def area(sides: list[Expr]) -> Expr:
        return build.binary("mul", *sides)

    def turned(x: Expr) -> Expr:
        return build.transpose(x, [1, 0])

    own = area([build.binary("sub", high[k], low[k]) for k in range(2)])
    common = area([
        build.binary(
            "max",
            build.binary(
                "sub",
                build.binary("min", high[k], turned(high[k])),
                build.binary("max", low[k], turned(low[k])),
            ),
            zero,
        )
        for k in range(2)
    ])  # fmt: skip
    both = build.binary("sub", build.binary("add", own, turned(own)), common)
    is_flat = build.binary("less_equal", build.binary("min", own, turned(own)), zero)
    one = build.scalar_like(1, boxes)
    share = build.binary("div", common, build.select(is_flat, one, both))
    return build.select(is_flat, zero, share)


CONVERTERS = dict.fromkeys(
    ("NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5"), non_max_suppression
)
