"""Axes of images: most operators have channels first, (N, C, H, W), some of onnxruntime's last."""

from __future__ import annotations

from xdsl.ir import SSAValue

from explorer.importers.building.build import Build


def channels_first(x: SSAValue, build: Build) -> SSAValue:
    """(N, spatial..., C) as (N, C, spatial...)"""
    rank = build.rank(x)
    return build.transpose(x, [0, rank - 1, *range(1, rank - 1)])


def channels_last(x: SSAValue, build: Build) -> SSAValue:
    """(N, C, spatial...) as (N, spatial..., C)"""
    return build.transpose(x, [0, *range(2, build.rank(x)), 1])
