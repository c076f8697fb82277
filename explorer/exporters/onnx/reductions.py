"""What works along axes, as ONNX nodes: pools, reductions, positions, softmax, normalizations."""

from __future__ import annotations

from math import prod

import numpy as np
from xdsl.ir import SSAValue

from explorer.exporters.onnx.nodes import (
    Nodes,
    Unwritable,
    Value,
    dtype_of,
    forbid_quantized,
    is_quantized,
    rank_of,
    sizes_of,
    writes,
)
from explorer.ir.top.determinant import DeterminantOp
from explorer.ir.top.pooling import PoolOp
from explorer.ir.top.reductions.arg import ArgOp
from explorer.ir.top.reductions.cumulative import CumulativeOp
from explorer.ir.top.reductions.local_response_norm import LocalResponseNormOp
from explorer.ir.top.reductions.normalization import (
    BatchNormOp,
    InstanceNormOp,
    LayerNormOp,
    SoftmaxOp,
)
from explorer.ir.top.reductions.reduction import ReduceOp, TopKOp

REDUCTIONS = {
    "sum": "ReduceSum",
    "mean": "ReduceMean",
    "max": "ReduceMax",
    "min": "ReduceMin",
    "prod": "ReduceProd",
    "l1": "ReduceL1",
    "l2": "ReduceL2",
    "sum_square": "ReduceSumSquare",
    "log_sum": "ReduceLogSum",
    "log_sum_exp": "ReduceLogSumExp",
}


@writes(PoolOp)
def pool(op: PoolOp, out: Nodes) -> str:
    kind = op.kind.data
    window = {
        "kernel_shape": list(op.get("window")),
        "strides": list(op.get("strides")),
        "pads": list(op.get("pads")),
        "dilations": list(op.get("dilations")),
    }
    if kind != "max":
        forbid_quantized(op)
    if kind == "average":
        return out.node("AveragePool", op.input, count_include_pad=int(op.counts_padding), **window)
    if is_quantized(op.input) and not op.keeps_numbers:
        raise Unwritable("its operand has a scale per slice")
    if kind == "max":
        return out.node("MaxPool", op.input, **window)
    # ONNX counts through the whole tensor, `top` through each plane.
    _, places = out.nodes("MaxPool", 2, op.input, **window)
    plane = out.constant(np.array(prod(sizes_of(op.input)[2:]), np.int64))
    return out.node("Mod", places, plane)


@writes(ReduceOp)
def reduce(op: ReduceOp, out: Nodes) -> str:
    forbid_quantized(op)
    operator, axes = REDUCTIONS[op.kind.data], list(op.get("axes"))
    if not axes:
        # Every element by itself: along an axis of extent 1, for no axes mean all of them.
        alone = out.constant([rank_of(op.input)])
        return out.node(operator, out.node("Unsqueeze", op.input, alone), alone, keepdims=0)
    return out.node(operator, op.input, out.constant(axes), keepdims=int(op.get("keepdims")))


@writes(ArgOp)
def arg(op: ArgOp, out: Nodes) -> str:
    return out.node(
        "ArgMax" if op.kind.data == "max" else "ArgMin",
        op.input,
        axis=op.get("axis"),
        keepdims=int(op.get("keepdims")),
        select_last_index=int(op.get("select_last", False)),
    )


@writes(TopKOp)
def top_k(op: TopKOp, out: Nodes) -> list[str]:
    k = out.constant([op.get("k")])
    largest = int(op.get("largest"))
    return out.nodes("TopK", 2, op.input, k, axis=op.get("axis"), largest=largest, sorted=1)


@writes(CumulativeOp)
def cumulative(op: CumulativeOp, out: Nodes) -> str:
    if op.kind.data != "sum":
        raise Unwritable("opset 21 has running sums only")
    axis = out.constant(np.array(op.get("axis"), np.int64))
    ways = {name: int(op.get(name)) for name in ("exclusive", "reverse")}
    return out.node("CumSum", op.input, axis, **ways)


@writes(DeterminantOp)
def determinant(op: DeterminantOp, out: Nodes) -> str:
    return out.node("Det", op.input)


@writes(SoftmaxOp)
def softmax(op: SoftmaxOp, out: Nodes) -> str:
    operator = "LogSoftmax" if op.get("logarithm") else "Softmax"
    return softmax_node(out, op.input, op.input, op.get("axis"), op.is_zero_masked, operator)


def softmax_node(
    out: Nodes, x: Value, like: SSAValue, axis: int, zero_masked: bool, operator: str = "Softmax"
) -> str:
    """Along an axis of x, which has the element type of `like`."""
    result = out.node(operator, x, axis=axis)
    if not zero_masked:
        return result
    greatest = out.node("ReduceMax", x, out.constant([axis]))
    is_masked = out.node("Equal", greatest, out.number(-np.inf, like))
    return out.node("Where", is_masked, out.number(0, like), result)


@writes(BatchNormOp)
def batch_norm(op: BatchNormOp, out: Nodes) -> str:
    return out.node("BatchNormalization", *op.operands, epsilon=op.get("epsilon"))


@writes(InstanceNormOp)
def instance_norm(op: InstanceNormOp, out: Nodes) -> str:
    return out.node("InstanceNormalization", *op.operands, epsilon=op.get("epsilon"))


@writes(LocalResponseNormOp)
def local_response_norm(op: LocalResponseNormOp, out: Nodes) -> str:
    numbers = {name: op.get(name) for name in ("size", "alpha", "beta", "bias")}
    return out.node("LRN", op.input, **numbers)


@writes(LayerNormOp)
def layer_norm(op: LayerNormOp, out: Nodes) -> str:
    """LayerNormalization; scale and shift of other shapes than the slices' come behind it."""
    axis, epsilon = op.get("axis"), op.get("epsilon")
    slices = sizes_of(op.input)[axis:]
    if not op.is_centered:
        result = _to_unit(op, out, list(range(axis, rank_of(op.input))))
        scale, shift = op.scale, op.shift
    else:
        fits = op.scale is not None and sizes_of(op.scale) == slices
        scale = op.scale if fits else out.constant(np.ones(slices, dtype_of(op.input)))
        shift = op.shift if fits and op.shift is not None and sizes_of(op.shift) == slices else None
        result = out.node("LayerNormalization", op.input, scale, shift, axis=axis, epsilon=epsilon)
        scale, shift = None if fits else op.scale, None if shift is not None else op.shift
    if scale is not None:
        result = out.node("Mul", result, scale)
    return result if shift is None else out.node("Add", result, shift)


def _to_unit(op: LayerNormOp, out: Nodes, axes: list[int]) -> str:
    """x / sqrt(mean of x^2 + epsilon): opset 21 has no RMSNormalization."""
    squares = out.node("Mul", op.input, op.input)
    mean = out.node("ReduceMean", squares, out.constant(axes), keepdims=1)
    moved = out.node("Add", mean, out.number(op.get("epsilon"), op.input))
    return out.node("Div", op.input, out.node("Sqrt", moved))
