"""Images in other sizes."""

from __future__ import annotations

import numpy as np

from explorer.importers.building.build import Build, Unsupported
from explorer.importers.building.expr import Expr
from explorer.importers.caffe.layers.node import CaffeNode
from explorer.ir.top.interpolation import InterpolateOp


def interp(node: CaffeNode, build: Build) -> Expr:
    """Two taps along each of height and width; corners stand on corners. Of DeepLab."""
    y = node.operand(0)
    if node.own.integer("pad_beg", 0) or node.own.integer("pad_end", 0):
        raise Unsupported("a padding")
    sizes = y.sizes([2, 3], "a resize")
    for axis, (size, target) in enumerate(zip(sizes, _targets(node, sizes), strict=True), 2):
        if size == target:
            continue
        places = np.linspace(0, size - 1, target) if target > 1 else np.zeros(1)
        low = np.minimum(np.floor(places).astype(np.int64), size - 1)
        positions = np.stack([low, np.minimum(low + 1, size - 1)], 1)
        shares = np.stack([1 - (places - low), places - low], 1).astype(np.float32)
        taps = [build.weight(positions), build.weight(shares)]
        y = build.value(InterpolateOp, [y, *taps], axis=axis)
    return y


def _targets(node: CaffeNode, sizes: list[int]) -> list[int]:
    """Height and width: said, or by factors."""
    if node.own.has("height") and node.own.has("width"):
        targets = [node.own.integer("height", 0), node.own.integer("width", 0)]
    else:
        shrink = node.own.integer("shrink_factor", 1)
        zoom = node.own.integer("zoom_factor", 1)
        if min(shrink, zoom) < 1:
            raise ValueError(f"a shrink_factor of {shrink} and a zoom_factor of {zoom}")
        small = [(size - 1) // shrink + 1 for size in sizes]
        targets = [size + (size - 1) * (zoom - 1) for size in small]
    if min(targets) < 1:
        raise ValueError(f"images of {targets[0]} by {targets[1]}")
    return targets


def padding(node: CaffeNode, build: Build) -> Expr:
    """Zeros around an image, which files of the form V0 have as a layer."""
    x, pad = node.operand(0), node.own.integer("pad", 0)
    return x.pad([0, 0, pad, pad], [0, 0, pad, pad])


def reorg(node: CaffeNode, build: Build) -> Expr:
    """A square of pixels as channels, in the order of Darknet, of which YOLO is: it takes the
    image for one with more channels than it has."""
    x, stride = node.operand(0), node.own.integer("stride", 2)
    images, channels, height, width = x.sizes(range(4), "a reorganization")
    inner = channels // stride**2 if stride > 0 else 0
    if inner * stride * stride != channels or height % stride or width % stride:
        raise Unsupported(f"{channels} channels of {height} by {width} in squares of {stride}")
    apart = x.reshape([images, inner, height, stride, width, stride])
    turned = apart.transpose([0, 3, 5, 1, 2, 4])
    sizes = [images, channels * stride * stride, height // stride, width // stride]
    return turned.reshape(sizes)


CONVERTERS = {"Interp": interp, "Padding": padding, "Reorg": reorg}
