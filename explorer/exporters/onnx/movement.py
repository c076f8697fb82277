"""Movement as ONNX nodes: reshapes, transposes, slices, padding, gathers, scatters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import TensorProto

from explorer.exporters.onnx.nodes import (
    Nodes,
    Unwritable,
    Value,
    dtype_of,
    is_quantized,
    onnx_type,
    rank_of,
    sizes_of,
    writes,
)
from explorer.ir.top.indexing import (
    GatherElementsOp,
    GatherNdOp,
    GatherOp,
    ScatterElementsOp,
    ScatterNdOp,
)
from explorer.ir.top.interpolation import InterpolateOp
from explorer.ir.top.movement.concat import ConcatOp
from explorer.ir.top.movement.pad import PadOp
from explorer.ir.top.movement.reshape import ExpandOp, ReshapeOp
from explorer.ir.top.movement.slices import SliceOp
from explorer.ir.top.movement.transpose import TransposeOp
from explorer.ir.types import element_type_of


@writes(ReshapeOp)
def reshape(op: ReshapeOp, out: Nodes) -> str:
    if op.target is not None:
        return out.node("Reshape", op.input, op.target, allowzero=int(op.get("allow_zero", False)))
    shape = op.get("shape", ())
    return out.node(
        "Reshape", op.input, out.constant(list(shape)), allowzero=1 if 0 in shape else None
    )


@writes(ExpandOp)
def expand(op: ExpandOp, out: Nodes) -> str:
    target = out.constant(list(op.get("shape", ()))) if op.target is None else op.target
    return out.node("Expand", op.input, target)


@writes(TransposeOp)
def transpose(op: TransposeOp, out: Nodes) -> str:
    return out.node("Transpose", op.input, perm=list(op.get("permutation")))


@writes(ConcatOp)
def concat(op: ConcatOp, out: Nodes) -> str:
    return out.node("Concat", *op.inputs, axis=op.get("axis"))


@writes(SliceOp)
def slices(op: SliceOp, out: Nodes) -> str:
    if not op.is_static_slice:
        axes = out.constant(list(op.get("axes", ())))
        return out.node("Slice", op.input, op.starts_value, op.stops_value, axes, op.steps_value)
    sizes = sizes_of(op.input)
    taken = op.ranges(sizes)
    cut = [axis for axis, size in enumerate(sizes) if taken[axis] != range(size)]
    if not cut:
        return out.node("Identity", op.input)
    # A stop before the first element is far below zero: -1 would be the last one.
    stops = [taken[a].stop if taken[a].stop >= 0 else -sizes[a] - 1 for a in cut]
    return out.node(
        "Slice",
        op.input,
        out.constant([taken[axis].start for axis in cut]),
        out.constant(stops),
        out.constant(cut),
        out.constant([taken[axis].step for axis in cut]),
    )


@writes(PadOp)
def pad(op: PadOp, out: Nodes) -> str:
    """Integers of 16 bits in 32: onnxruntime pads no shorter ones but bytes."""
    fill, dtype = _fill(op), dtype_of(op.input)
    if dtype not in (np.int16, np.uint16):
        return _padded(op, op.input, out.constant(fill), out)
    wide = out.node("Cast", op.input, to=TensorProto.INT32)
    padded = _padded(op, wide, out.constant(fill.astype(np.int32)), out)
    return out.node("Cast", padded, to=onnx_type(element_type_of(op.output)))


def _padded(op: PadOp, x: Value, fill: str, out: Nodes) -> str:
    if op.amounts is not None:
        return out.node("Pad", x, op.amounts, fill)
    rank = rank_of(op.input)
    low, high, interior = (list(op.get(name, (0,) * rank)) for name in ("low", "high", "interior"))
    if any(interior):
        x = _spread(out, op, x, interior, fill)
        # What was spread ends with the elements behind the last one.
        high = [after - between for after, between in zip(high, interior, strict=True)]
    return out.node("Pad", x, out.constant([*low, *high]), fill)


def _fill(op: PadOp) -> np.ndarray:
    """A scalar; among quantized numbers `value` is the integer that is written."""
    return np.asarray(op.fill).astype(dtype_of(op.input))


def _spread(out: Nodes, op: PadOp, x: Value, interior: Sequence[int], fill: str) -> str:
    """n elements become n * (between + 1) along each axis, each in front of its padding.

    Every axis gets one of extent 1 behind it, which is padded, and both become one.
    """
    sizes = sizes_of(op.input)
    apart = out.constant([n for size in sizes for n in (size, 1)])
    behind = [n for between in interior for n in (0, between)]
    padded = out.node(
        "Pad",
        out.node("Reshape", x, apart),
        out.constant([*[0] * len(behind), *behind]),
        fill,
    )
    joined = [size * (between + 1) for size, between in zip(sizes, interior, strict=True)]
    return out.node("Reshape", padded, out.constant(joined))


@writes(GatherOp)
def gather(op: GatherOp, out: Nodes) -> str:
    if is_quantized(op.input) and is_quantized(op.indices):
        raise Unwritable("its indices are quantized")
    return out.node("Gather", op.input, op.indices, axis=op.get("axis"))


@writes(GatherElementsOp)
def gather_elements(op: GatherElementsOp, out: Nodes) -> str:
    return out.node("GatherElements", op.input, op.indices, axis=op.get("axis"))


@writes(GatherNdOp)
def gather_nd(op: GatherNdOp, out: Nodes) -> str:
    return out.node("GatherND", op.input, op.indices, batch_dims=op.get("batch_dims"))


@writes(ScatterElementsOp)
def scatter_elements(op: ScatterElementsOp, out: Nodes) -> str:
    return out.node(
        "ScatterElements",
        op.input,
        op.indices,
        op.updates,
        axis=op.get("axis"),
        reduction=op.get("reduction"),
    )


@writes(ScatterNdOp)
def scatter_nd(op: ScatterNdOp, out: Nodes) -> str:
    return out.node("ScatterND", op.input, op.indices, op.updates, reduction=op.get("reduction"))


@writes(InterpolateOp)
def interpolate(op: InterpolateOp, out: Nodes) -> str:
    """The taps of every element side by side along an axis of their own, weighted and summed."""
    axis, rank = op.get("axis"), rank_of(op.input)
    taps = sizes_of(op.weights)
    taken = out.node("Gather", op.input, op.positions, axis=axis)
    shape = [*taps, *[1] * (rank - axis - 1)]
    weights = out.node("Reshape", op.weights, out.constant(shape))
    weighted = out.node("Mul", taken, weights)
    return out.node("ReduceSum", weighted, out.constant([axis + 1]), keepdims=0)
