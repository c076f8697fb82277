"""Formulas that importers of several formats share: statistics of a tensor and normalizations.

    mean, apart, variance = statistics(x.wide(), axes)
    y = by_channels(apart * inverse_root(variance, 1e-5), scale, shift)

Axes that a statistic is taken along stay, with size 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from explorer.importers.building.expr import Expr
from explorer.ir.top.reductions.normalization import LayerNormOp


def centered(x: Expr, axes: Sequence[int]) -> tuple[Expr, Expr]:
    """The mean, and x without it.

    A mean of x at a large offset is rounded to steps of the offset's size: what is left of the
    mean is subtracted as well (see `top.layer_norm`).
    """
    mean = x.mean(axes, keepdims=True)
    apart = x - mean
    return mean, apart - apart.mean(axes, keepdims=True)


def statistics(x: Expr, axes: Sequence[int]) -> tuple[Expr, Expr, Expr]:
    """The mean, x without it, and the variance."""
    mean, apart = centered(x, axes)
    return mean, apart, apart.square().mean(axes, keepdims=True)


def inverse_root(x: Expr, epsilon: float) -> Expr:
    """1 / sqrt(x + epsilon)"""
    return (x + epsilon).sqrt().reciprocal()


def by_channels(x: Expr, scale: Expr | None, shift: Expr | None) -> Expr:
    """x (N, C, ...) * scale + shift, of which each channel has its own."""
    trailing = [1] * (x.rank - 2)
    if scale is not None:
        x = x * scale.reshape([-1, *trailing])
    return x if shift is None else x + shift.reshape([-1, *trailing])


def normalized_groups(x: Expr, groups: int, epsilon: float) -> tuple[Expr, Expr]:
    """x as rows (N, groups, elements of a group), and these by their own mean and variance."""
    known = [size for size in x.shape[1:] if isinstance(size, int)]
    is_known = len(known) == x.rank - 1  # which no images at all need
    rows = x.reshape([x.dim(0), groups, prod(known) // groups if is_known else -1])
    normalized = x.build.value(LayerNormOp, [rows, None, None], axis=2, epsilon=epsilon)
    return rows, normalized
