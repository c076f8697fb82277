"""Pooling: sizes are rounded up, and windows that would begin behind the image are dropped.

    positions = ceil((n + 2 pad - k) / stride) + 1

An average divides by what of the window lies in the image with its padding.
Source: src/caffe/layers/pooling_layer.cpp of BVLC/caffe.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from explorer.importers.building.build import Build, Unsupported
from explorer.importers.building.expr import Expr
from explorer.importers.caffe.layers.node import CaffeNode
from explorer.importers.caffe.layers.windows import pair
from explorer.ir.top.pooling import PoolOp

_KINDS = {"MAX": "max", "0": "max", "AVE": "average", "1": "average"}


def pooling(node: CaffeNode, build: Build) -> Expr:
    """The maximum or average of windows; sizes are rounded up."""
    x, word = node.operand(0), node.own.word("pool", "MAX")
    if word not in _KINDS:
        raise Unsupported(f"pool: {word}")
    if len(node.outputs) > 1:
        raise Unsupported("a second result, the places of the maxima")
    if x.rank != 4:
        raise ValueError(f"images of {x.rank} axes; 4 expected")
    kind = _KINDS[word]
    if node.own.is_set("global_pooling", False):
        return x.reduce("mean" if kind == "average" else "max", [2, 3], keepdims=True)
    sizes, strides = pair(node.own, "kernel", None), pair(node.own, "stride", 1)
    pads = pair(node.own, "pad", 0)
    is_ceiled = _is_ceiled(node)
    images = x.sizes([2, 3], "pooling")
    ends, outside = [], []
    for size, width, stride, pad in zip(images, sizes, strides, pads, strict=True):
        if pad >= width:
            raise ValueError(f"a padding of {pad} for windows of {width}")
        positions = _positions(size, width, stride, pad, is_ceiled, is_padded=any(pads))
        inside = min(positions, -(-(size + pad) // stride))
        outside.append(positions - inside)
        ends.append(max((inside - 1) * stride + width - size - pad, 0))
    y = _pooled(x, kind, sizes, strides, pads, ends, build)
    # Windows that begin behind the image have no element: nothing was greater, or 0 / 0.
    none = math.nan if kind == "average" else -float(np.finfo(np.float32).max)
    return y.pad([0, 0, 0, 0], [0, 0, *outside], none)


def _is_ceiled(node: CaffeNode) -> bool:
    if node.own.has("ceil_mode"):
        return node.own.is_set("ceil_mode", True)
    return node.own.word("round_mode", "CEIL") in ("CEIL", "0")


def _positions(
    size: int, width: int, stride: int, pad: int, is_ceiled: bool, is_padded: bool
) -> int:
    """How many windows there are. Where an axis has a padding, none begins behind it on any."""
    room = size + 2 * pad - width
    if room < 0:
        raise ValueError(f"a window of {width} does not fit into {size} + 2 x {pad}")
    count = (-(-room // stride) if is_ceiled else room // stride) + 1
    if is_padded and (count - 1) * stride >= size + pad:
        count -= 1
    return count


def _pooled(
    x: Expr,
    kind: str,
    sizes: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    ends: Sequence[int],
    build: Build,
) -> Expr:
    begins, includes = list(pads), True
    if kind == "average" and any(end > pad for end, pad in zip(ends, pads, strict=True)):
        # The padding counts, what lies behind it does not.
        x = x.pad([0, 0, *pads], [0, 0, *pads])
        ends = [max(end - pad, 0) for end, pad in zip(ends, pads, strict=True)]
        begins, includes = [0, 0], False
    return build.value(
        PoolOp,
        [x],
        kind=kind,
        window=sizes,
        strides=strides,
        pads=(*begins, *ends),
        dilations=(1, 1),
        **({} if includes else {"includes_padding": False}),
    )


CONVERTERS = {"Pooling": pooling}
