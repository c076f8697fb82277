"""Windows over images: padding SAME and VALID in numbers.

SAME: max((ceil(n / stride) - 1) * stride + (k - 1) * dilation + 1 - n, 0), the smaller half first
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from explorer.importers.building.build import Build
from explorer.importers.building.expr import Expr
from explorer.importers.tflite.operators.node import TfliteNode


@dataclass(frozen=True)
class Window:
    """Height and width of a window, and how it moves."""

    sizes: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]
    pads: tuple[int, int, int, int]
    """Top, left, bottom, right."""


def window_of(node: TfliteNode, x: Expr, sizes: Sequence[int], build: Build) -> Window:
    """The node's window over x (N, C, height, width)."""
    if x.rank != 4:
        raise ValueError(f"images of {x.rank} axes; 4 expected")
    strides = node.integer("stride_h", 1), node.integer("stride_w", 1)
    dilations = node.integer("dilation_h_factor", 1), node.integer("dilation_w_factor", 1)
    if min(*strides, *dilations, *sizes) < 1:
        raise ValueError("sizes, strides and dilations of a window are at least 1")
    padding = node.options.get("padding", "SAME")
    before, behind = (0, 0), (0, 0)
    if padding == "SAME":
        known = x.sizes([2, 3], "padding SAME")
        totals = [
            same_padding(n, k, stride, dilation)
            for n, k, stride, dilation in zip(known, sizes, strides, dilations, strict=True)
        ]
        before = (totals[0] // 2, totals[1] // 2)
        behind = (totals[0] - before[0], totals[1] - before[1])
    elif padding != "VALID":
        raise ValueError(f"padding {padding!r}")
    return Window((sizes[0], sizes[1]), strides, dilations, (*before, *behind))


def same_padding(size: int, width: int, stride: int, dilation: int = 1) -> int:
    """Elements around an axis, so that a window has ceil(size / stride) places."""
    reach = (width - 1) * dilation + 1
    return max((-(-size // stride) - 1) * stride + reach - size, 0)
