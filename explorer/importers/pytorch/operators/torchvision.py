"""Operators of torchvision's own: boxes of detectors, and convolutions that are deformed.

torchvision.nms(boxes, scores, 0.5)      places of the boxes that stay, the best first
torchvision.deform_conv2d(x, weight, offset, mask, bias, ...)
"""

from __future__ import annotations

import numpy as np

from explorer.importers.building.build import Build
from explorer.importers.building.expr import Expr
from explorer.importers.building.images.deforming import Places, deformed
from explorer.importers.pytorch.operators.node import AtenNode
from explorer.ir.top.selection import NonMaxSuppressionOp


def suppressed(node: AtenNode, build: Build) -> Expr:
    """Boxes (n, 4) as corners x y x y without those whose intersection over union with a better
    one is above the threshold. One with a score of minus infinity goes, too."""
    boxes, scores = node.operand("dets"), node.operand("scores")
    count = boxes.size(0)
    rows = build.value(
        NonMaxSuppressionOp,
        [boxes.unsqueeze([0]), scores.unsqueeze([0, 1])],
        limit=np.iinfo(np.int32).max if count is None else count,
        overlap=node.number("iou_threshold"),
        threshold=-np.inf,
        is_centered=False,
    )
    return rows.slice(1, 2, 3).squeeze([1])


def deformed_convolution(node: AtenNode, build: Build) -> Expr:
    """A convolution whose window's places are moved by computed offsets, rows before columns."""
    weight = node.operand("weight")
    strides, dilations, pads = (
        [node.integer(f"{name}_{axis}", build) for axis in ("h", "w")]
        for name in ("stride", "dilation", "pad")
    )
    return deformed(
        node.operand("input"),
        weight,
        node.operand("offset"),
        node.operand("mask") if node.flag("use_mask") else None,
        node.operand("bias"),
        Places(weight.sizes([2, 3], "a window"), strides, dilations, pads),
        (node.integer("groups", build), node.integer("offset_groups", build)),
        build,
    )


OF_LIBRARIES = {
    "torchvision.nms": suppressed,
    "torchvision.deform_conv2d": deformed_convolution,
}
