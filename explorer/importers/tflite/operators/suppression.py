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
from explorer.importers.building.expr import Expr, all_plain, maximum, minimum, where
from explorer.importers.tflite.operators.node import TfliteNode
from explorer.ir.top.data import ReturnOp
from explorer.ir.top.indexing import GatherOp
from explorer.ir.top.reductions.arg import ArgOp
from explorer.ir.types import tensor_type

BOXES, SCORES, MAX_CHOSEN, OVERLAP, MIN_SCORE, SIGMA = range(6)
MAX_BOXES = 4096


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
    (most,) = node.integers_of(MAX_CHOSEN, "how many boxes are chosen", build)
    boxes, scores = node.plain(BOXES), node.plain(SCORES)
    (count,) = boxes.sizes([0], "boxes")
    if not 0 < count <= MAX_BOXES or most < 0:
        raise Unsupported(f"{most} of {count} boxes")
    limits = _Limits(
        overlaps=_overlaps(boxes, build),
        overlap=node.plain(OVERLAP).reshape([]),
        score=node.plain(MIN_SCORE).reshape([]),
        steepness=_steepness(node, build),
    )
    lowest = scores.constant(-np.inf)
    is_above = scores > limits.score
    left = where(is_above, scores, lowest)
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
    sigma = float(build.scalar(node.plain(SIGMA), "how fast scores shrink"))
    if sigma < 0:
        raise ValueError(f"sigma is {sigma}")
    return build.weight(np.array(-0.5 / sigma, np.float32)) if sigma else None


def _turn(number: Expr, states: list[Expr], limits: _Limits, most: int, build: Build) -> list[Expr]:
    left, indices, chosen, total = states
    best = build.value(ArgOp, [left], kind="max", axis=0, keepdims=False, select_last=False)
    score = build.value(GatherOp, [left, best], axis=0)
    is_found = score > limits.score
    is_here = build.weight(np.arange(most, dtype=np.int64)) == number
    takes = is_here & is_found
    indices = where(takes, best.astype(np.int32), indices)
    chosen = where(takes, score, chosen)
    total = total + is_found.astype(np.int32)
    overlap = build.value(GatherOp, [limits.overlaps, best], axis=0)
    (count,) = left.sizes([0], "scores")
    is_itself = build.weight(np.arange(count, dtype=np.int64)) == best
    covers = overlap >= limits.overlap
    goes = (is_itself | covers) & is_found
    lowest = left.constant(-np.inf)
    if limits.steepness is not None:
        square = overlap * overlap * limits.steepness
        shrunk = left * square.exp()
        is_left = shrunk > limits.score
        left = where(is_found, where(is_left, shrunk, lowest), left)
    return [where(goes, lowest, left), indices, chosen, total]


def _overlaps(boxes: Expr, build: Build) -> Expr:
    """Common area by that of both together; 0 where one of them has none. Corners in any order."""
    columns = [boxes.slice(1, k, k + 1) for k in range(4)]  # (boxes, 1)
    low = [minimum(columns[k], columns[k + 2]) for k in range(2)]
    high = [maximum(columns[k], columns[k + 2]) for k in range(2)]
    zero = boxes.constant(0)

    def area(sides: list[Expr]) -> Expr:
        width, height = sides
        return width * height

    def turned(x: Expr) -> Expr:
        return x.transpose([1, 0])

    own = area([high[k] - low[k] for k in range(2)])
    common = area([
        maximum(minimum(high[k], turned(high[k])) - maximum(low[k], turned(low[k])), zero)
        for k in range(2)
    ])  # fmt: skip
    both = own + turned(own) - common
    is_flat = minimum(own, turned(own)) <= zero
    return where(is_flat, zero, common / where(is_flat, boxes.constant(1), both))


CONVERTERS = dict.fromkeys(
    ("NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5"), non_max_suppression
)
