"""Scores of attention operators: masks, caps and sinks, and the positions of queries and keys.

    attend(q, k, v, scale, bias)                top.attention
    attend(..., softcap = 30)                   the same spelled out: top.matmul, tanh, top.softmax
    attend(..., sink = s)                       one more score in each row, which takes its share of
                                                the weights and has no value

Shapes: queries (batch, heads, rows, size), keys (batch, heads / n, total, size), values (batch,
heads / n, total, columns). Reference: onnxruntime, docs/ContribOperators.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from explorer.importers.building.build import Build
from explorer.importers.building.expr import Expr, Size, where
from explorer.ir.top.attention import AttentionOp
from explorer.ir.top.reductions.normalization import SoftmaxOp
from explorer.ir.top.shapes import RangeOp


@dataclass(frozen=True)
class Mixed:
    """What attention makes: (batch, heads, rows, columns), and its scores where they are wanted."""

    values: Expr
    scores: Expr | None = None
    """(batch, heads, rows, total), with all that is added but unmasked, before the softmax."""
    weights: Expr | None = None
    """The same after it."""


def attend(
    query: Expr,
    key: Expr,
    value: Expr,
    build: Build,
    scale: float = 0.0,
    mask: Expr | None = None,
    bias: Expr | None = None,
    softcap: float = 0.0,
    sink: Expr | None = None,
    has_scores: bool = False,
    fill: float = -np.inf,
) -> Mixed:
    """softmax(capped(scale * query key^T) + bias, masked) value; a scale of 0 is 1 / sqrt(size).

    mask: true where a key counts; elsewhere its score is `fill`. sink: a score for each head. One
    operation where it can be.
    """
    (size,) = query.sizes([3], "attention")
    scale = scale or size**-0.5
    if not softcap and sink is None and not has_scores:
        filled = {} if np.isneginf(fill) else {"fill": fill}
        if filled and mask is not None and bias is not None:
            bias = where(mask, bias, 0.0)  # the operation adds it to what is filled
        operands = [query, key, value, mask, bias]
        return Mixed(build.value(AttentionOp, operands, scale=scale, **filled))
    heads, shared = query.sizes([1], "heads")[0], key.sizes([1], "heads")[0]
    apart: list[Size] = [query.dim(0), shared, heads // max(shared, 1), query.dim(2), size]
    turned = key.unsqueeze([2]).transpose([0, 1, 2, 4, 3])
    products = query.reshape(apart) @ turned
    scores = products.reshape([query.dim(0), heads, query.dim(2), key.dim(2)]).scaled(scale)
    if softcap:
        scores = scores.scaled(1 / softcap).tanh().scaled(softcap)
    if bias is not None:
        scores = scores + bias
    masked = scores
    if mask is not None:
        masked = where(mask, scores, fill)
    weights = _softmax(masked, sink, build)
    grouped = weights.reshape([*apart[:4], key.dim(2)])
    mixed = grouped @ value.unsqueeze([2])
    values = mixed.reshape([query.dim(0), heads, query.dim(2), value.dim(3)])
    return Mixed(values, scores, weights)


def _softmax(scores: Expr, sink: Expr | None, build: Build) -> Expr:
    """Along the last axis; with a sink, the shares of the keys only."""
    if sink is None:
        return build.value(SoftmaxOp, [scores], axis=3, logarithm=False)
    column = sink.reshape([1, -1, 1, 1]).broadcast_to([*scores.all_sizes()[:3], 1])
    # In front, where the axis to take off has a position that is known.
    weights = build.value(SoftmaxOp, [build.concat([column, scores], 3)], axis=3, logarithm=False)
    return weights.slice(3, 1, np.iinfo(np.int64).max)


# -- positions -----------------------------------------------------------------------------------


def counted(value: Expr, axis: int, build: Build) -> Expr:
    """0, 1, 2 ... for each element of an axis, i64."""
    size = value.size(axis)
    if size is not None:
        return build.weight(np.arange(size))
    return counted_to(length(value, axis, build), build)


def counted_to(limit: Expr, build: Build) -> Expr:
    """0 to limit - 1, i64."""
    known = build.knowledge.integers(limit)
    if known is not None:
        return build.weight(np.arange(known[0]))
    zero, one = (build.weight(np.array(number, np.int64)) for number in (0, 1))
    return build.value(RangeOp, [zero, limit, one])


def length(value: Expr, axis: int, build: Build) -> Expr:
    """The size of an axis as a number, i64."""
    return build.shape_vector([value.dim(axis)]).reshape([])


def causal(query: Expr, key: Expr, past: Expr | None, build: Build) -> Expr:
    """(rows, total): true for keys that do not come after the query.

    The first query stands behind the rows of `past`, which are the first keys; at 0 without it.
    """
    positions, keys = counted(query, 2, build), counted(key, 2, build)
    if past is not None:
        positions = positions + length(past, 2, build)
    later = keys <= positions.unsqueeze([1])
    known = build.knowledge.array(later)
    return later if known is None else build.weight(known)
