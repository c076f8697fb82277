"""What finds elements, and what makes numbers of sizes, as ONNX nodes."""

from __future__ import annotations

import numpy as np

from explorer.exporters.onnx.nodes import Nodes, writes
from explorer.ir.top.selection import NonMaxSuppressionOp, NonZeroOp, UniqueOp
from explorer.ir.top.shapes import RangeOp, ShapeOp


@writes(NonZeroOp)
def nonzero(op: NonZeroOp, out: Nodes) -> str:
    return out.node("NonZero", op.input)


@writes(UniqueOp)
def unique(op: UniqueOp, out: Nodes) -> list[str]:
    return out.nodes("Unique", 4, op.input, axis=op.get("axis"), sorted=int(op.get("is_sorted")))


@writes(NonMaxSuppressionOp)
def non_max_suppression(op: NonMaxSuppressionOp, out: Nodes) -> str:
    return out.node(
        "NonMaxSuppression",
        op.boxes,
        op.scores,
        out.constant([op.get("limit")]),
        out.constant(np.array([op.get("overlap")], np.float32)),
        out.constant(np.array([op.get("threshold")], np.float32)),
        center_point_box=int(op.get("is_centered")),
    )


@writes(ShapeOp)
def shape(op: ShapeOp, out: Nodes) -> str:
    return out.node("Shape", op.input, start=op.get("start"), end=op.get("end"))


@writes(RangeOp)
def numbers(op: RangeOp, out: Nodes) -> str:
    return out.node("Range", op.start, op.limit, op.delta)
