"""Axes of images: most operators have channels first, (N, C, H, W), some of onnxruntime's last."""

from __future__ import annotations

from explorer.importers.building.expr import Expr


def channels_first(x: Expr) -> Expr:
    """(N, spatial..., C) as (N, C, spatial...)"""
    rank = x.rank
    return x.transpose([0, rank - 1, *range(1, rank - 1)])


def channels_last(x: Expr) -> Expr:
    """(N, C, spatial...) as (N, spatial..., C)"""
    return x.transpose([0, *range(2, x.rank), 1])
