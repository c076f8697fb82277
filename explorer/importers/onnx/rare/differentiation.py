"""Vector-Jacobian products: what a gradient of a result gives to each operand.

    y = matmul(a, b)      a: g b^T,   b: a^T g
    y = reduce_sum(x)     x: g, repeated along the reduced axes
    y = concat(a, b)      a: the first part of g,   b: the second

A rule takes the operation, the operand's index and the result's gradient g. What it returns may
still have the shape of a broadcast; `unbroadcast` sums it. Reference: Baydin et al., "Automatic
differentiation in machine learning: a survey", JMLR 18, 2018.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from explorer.importers.onnx.images.interpolation import Taps, interpolate, transposed
from explorer.importers.onnx.program.build import Build
from explorer.importers.onnx.program.nodes import Unsupported
from explorer.importers.onnx.rare.conv_gradients import convolution
from explorer.importers.onnx.rare.derivatives import BINARY_DERIVATIVES, UNARY_DERIVATIVES
from explorer.importers.onnx.rare.terms import Term
from explorer.ir.operation import TopOperation
from explorer.ir.top.elementwise import BinaryOp, CastOp, SelectOp, UnaryOp
from explorer.ir.top.indexing import GatherElementsOp, GatherOp, ScatterElementsOp, ScatterNdOp
from explorer.ir.top.interpolation import InterpolateOp
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.top.movement.concat import ConcatOp
from explorer.ir.top.movement.pad import PadOp
from explorer.ir.top.movement.reshape import ExpandOp, ReshapeOp
from explorer.ir.top.movement.slices import SliceOp
from explorer.ir.top.movement.transpose import TransposeOp
from explorer.ir.top.reductions.normalization import BatchNormOp, LayerNormOp, SoftmaxOp
from explorer.ir.top.reductions.reduction import ReduceOp
from explorer.ir.types import shape_of

Rule = Callable[[Any, int, SSAValue, Build], SSAValue]
"""Any: each rule takes the operation that it is for."""


def unbroadcast(gradient: SSAValue, operand: SSAValue, build: Build) -> SSAValue:
    """The gradient summed along the axes in which the operand was repeated."""
    shape, own = shape_of(gradient), shape_of(operand)
    extra = len(shape) - len(own)
    if extra:
        gradient = build.reduce("sum", gradient, list(range(extra)))
    axes = [a for a, (n, m) in enumerate(zip(shape[extra:], own, strict=True)) if n != m]
    if any(own[axis] != 1 for axis in axes):
        raise Unsupported(f"a gradient of shape {shape} for an operand of shape {own}")
    return build.reduce("sum", gradient, axes, keepdims=True)


def _unary(op: UnaryOp, index: int, g: SSAValue, build: Build) -> SSAValue:
    derivative = UNARY_DERIVATIVES.get(op.kind.data)
    if derivative is None:
        raise _unknown(op)
    slope = derivative(Term(build, op.input), Term(build, op.output), *op.parameters)
    return (Term(build, g) * slope).value


def _binary(op: BinaryOp, index: int, g: SSAValue, build: Build) -> SSAValue:
    derivatives = BINARY_DERIVATIVES.get(op.kind.data)
    if derivatives is None:
        raise _unknown(op)
    # An exponent may have another element type than its base.
    b = build.cast(op.right, build.dtype(op.left))
    slope = derivatives[index](*(Term(build, v) for v in (op.left, b, op.output)))
    product = Term(build, g) * slope
    return build.cast(product.value, build.dtype(op.operands[index]))


def _select(op: SelectOp, index: int, g: SSAValue, build: Build) -> SSAValue:
    nothing = build.scalar_like(0, g)
    chosen = [g, nothing] if index == 1 else [nothing, g]
    return build.select(op.condition, *chosen)


def _cast(op: CastOp, index: int, g: SSAValue, build: Build) -> SSAValue:
    return build.cast(g, build.dtype(op.operands[0]))


def _matmul(op: MatMulOp, index: int, g: SSAValue, build: Build) -> SSAValue:
    if op.requantizes is not None or op.fused_activation is not None:
        raise _unknown(op)
    if index == 0:
        return build.matmul(g, _turned(op.right, build))
    return build.matmul(_turned(op.left, build), g) if index == 1 else g


def _turned(x: SSAValue, build: Build) -> SSAValue:
    """Matrices with rows for columns."""
    rank = build.rank(x)
    return build.transpose(x, [*range(rank - 2), rank - 1, rank - 2])


# -- reductions ------------------------------------------------------------------------------------


def _reduce(op: ReduceOp, index: int, g: SSAValue, build: Build) -> SSAValue:
    axes, kind = list(op.get("axes")), op.kind.data
    kept = [1 if a in axes else size for a, size in enumerate(build.all_sizes(op.input))]
    g = build.reshape(g, kept)
    x, y = Term(build, op.input), Term(build, build.reshape(op.output, kept))
    if kind in ("max", "min"):
        # Equal extremes share the gradient.
        hit = Term(build, build.cast(x.compare("equal", y).value, build.dtype(op.input)))
        return (Term(build, g) * hit / hit.sum(axes)).value
    if kind == "mean":
        sizes = build.sizes(op.input, axes, "the gradient of a mean")
        return build.expand(build.scaled(g, 1 / max(np.prod(sizes), 1)), _all_sizes(op, build))
    slopes: Mapping[str, Callable[[], Term]] = {
        "sum": lambda: x.of(1),
        "l1": lambda: x.unary("sign"),
        "l2": lambda: x / y,
        "sum_square": lambda: x * 2,
        "log_sum": lambda: (-y).unary("exp"),
        "log_sum_exp": lambda: (x - y).unary("exp"),
    }
    if kind not in slopes:
        raise _unknown(op)
    return build.expand((Term(build, g) * slopes[kind]()).value, _all_sizes(op, build))


def _softmax(op: SoftmaxOp, index: int, g: SSAValue, build: Build) -> SSAValue:
    axes = [op.get("axis")]
    y, gradient = Term(build, op.output), Term(build, g)
    if op.get("logarithm"):
        return (gradient - y.unary("exp") * gradient.sum(axes)).value
    return (y * (gradient - (gradient * y).sum(axes))).value


def _layer_norm(op: LayerNormOp, index: int, g: SSAValue, build: Build) -> SSAValue:
    """y = n scale + shift with n = (x - mean) r; x: r (h - mean(h) - n mean(h n)), h = g scale."""
    rank = build.rank(op.input)
    axes = list(range(op.get("axis"), rank))
    operand = op.operands[index]
    if operand is op.shift and operand is not op.input:
        return g
    sizes = build.sizes(op.input, axes, "the gradient of a layer norm")
    share = 1 / max(int(np.prod(sizes)), 1)
    x = Term(build, op.input)
    centered = x - x.sum(axes) * share if op.is_centered else x
    variance = (centered * centered).sum(axes) * share
    r = 1 / (variance + op.get("epsilon")).unary("sqrt")
    n = centered * r
    if index:
        return (Term(build, g) * n).value
    h = Term(build, g) if op.scale is None else Term(build, g) * Term(build, op.scale)
    moved = h - n * ((h * n).sum(axes) * share)
    return ((moved - h.sum(axes) * share if op.is_centered else moved) * r).value


def _batch_norm(op: BatchNormOp, index: int, g: SSAValue, build: Build) -> SSAValue:
    """y = (x - mean) r scale + shift with r = 1 / sqrt(variance + epsilon), for each channel."""
    rank = build.rank(op.input)
    gradient = Term(build, g)
    scale, _, mean, variance = (
        Term(build, build.reshape(v, [-1, *[1] * (rank - 2)])) for v in op.operands[1:]
    )
    r = 1 / (variance + op.get("epsilon")).unary("sqrt")
    centered = Term(build, op.input) - mean
    parts = (
        lambda: gradient * scale * r,
        lambda: gradient * centered * r,
        lambda: gradient,
        lambda: -(gradient * scale * r),
        lambda: gradient * centered * scale * r * r * r * -0.5,
    )
    found = parts[index]().value
    return found if index == 0 else build.reduce("sum", found, [0, *range(2, rank)])


# -- movement --------------------------------------------------------------------------------------


def _reshape(op: ReshapeOp, index: int, g: SSAValue, build: Build) -> SSAValue:
    return build.reshape(g, _all_sizes(op, build))


def _transpose(op: TransposeOp, index: int, g: SSAValue, build: Build) -> SSAValue:
    return build.transpose(g, np.argsort(op.get("permutation")).tolist())


def _concat(op: ConcatOp, index: int, g: SSAValue, build: Build) -> SSAValue:
    axis = op.get("axis")
    sizes = [build.sizes(o, [axis], "the gradient of a concatenation")[0] for o in op.operands]
    begin = sum(sizes[:index])
    return build.slice(g, axis, begin, begin + sizes[index])


def _slice(op: SliceOp, index: int, g: SSAValue, build: Build) -> SSAValue:
    """Zeros at what the slice leaves out; a range that goes down is turned round first."""
    if not op.is_static_slice:
        raise Unsupported("the derivative of a slice with computed bounds is not known")
    axes = list(range(build.rank(op.input)))
    sizes = build.sizes(op.input, axes, "the gradient of a slice")
    ranges = op.ranges(sizes)
    down = {axis: (-1, -1, -1) for axis in axes if ranges[axis].step < 0 and len(ranges[axis])}
    g = build.slices(g, down) if down else g
    upward = [r if r.step > 0 or not len(r) else r[::-1] for r in ranges]
    low = [r[0] if len(r) else 0 for r in upward]
    high = [n - 1 - r[-1] if len(r) else n for n, r in zip(sizes, upward, strict=True)]
    interior = [abs(r.step) - 1 if len(r) > 1 else 0 for r in upward]
    return build.value(PadOp, [g, None], low=low, high=high, interior=interior, value=0.0)


def _pad(op: PadOp, index: int, g: SSAValue, build: Build) -> SSAValue:
    if op.amounts is not None:
        raise Unsupported("the derivative of a pad with computed amounts is not known")
    axes = range(build.rank(op.input))
    sizes = build.sizes(op.input, axes, "the gradient of a pad")
    low, interior = op.get("low"), op.get("interior", (0,) * len(sizes))
    bounds = {
        axis: (low[axis], low[axis] + (sizes[axis] - 1) * (interior[axis] + 1) + 1, step)
        if sizes[axis]
        else (0, 0, 1)
        for axis, step in ((a, interior[a] + 1) for a in axes)
    }
    return build.slices(g, bounds)


def _repeated(op: ExpandOp, index: int, g: SSAValue, build: Build) -> SSAValue:
    return g


def _gather(op: GatherOp, index: int, g: SSAValue, build: Build) -> SSAValue:
    """Adds each slice of g where it was taken from."""
    axis, rank = op.get("axis"), build.rank(op.input)
    count = build.rank(op.indices)
    order = [axis, *(a for a in range(rank) if a != axis)]
    zeros = _zeros(op.input, build)
    behind = [a for a in range(build.rank(g)) if not axis <= a < axis + count]
    updates = build.transpose(g, [*range(axis, axis + count), *behind])
    places = build.unsqueeze(_counted(op.indices, op.input, axis, build), [count])
    added = build.value(
        ScatterNdOp, [build.transpose(zeros, order), places, updates], reduction="add"
    )
    return build.transpose(added, np.argsort(order).tolist())


def _gather_elements(op: GatherElementsOp, index: int, g: SSAValue, build: Build) -> SSAValue:
    axis = op.get("axis")
    places = _counted(op.indices, op.input, axis, build)
    zeros = _zeros(op.input, build)
    return build.value(ScatterElementsOp, [zeros, places, g], axis=axis, reduction="add")


def _interpolate(op: InterpolateOp, index: int, g: SSAValue, build: Build) -> SSAValue:
    """Each element gets what the results took of it. Taps are constants of the importer."""
    positions, weights = build.stored(op.positions), build.stored(op.weights)
    if index or positions is None or weights is None:
        raise Unsupported("the gradient of an interpolation for its taps")
    axis = op.get("axis")
    (size,) = build.sizes(op.input, [axis], "the gradient of an interpolation")
    return interpolate(g, axis, transposed(Taps(positions, weights), size), build)


def _counted(indices: SSAValue, x: SSAValue, axis: int, build: Build) -> SSAValue:
    """Positions from the front, where some count from the end."""
    (size,) = build.sizes(x, [axis], "the gradient of a gather")
    wide = Term(build, build.cast(indices, np.int64))
    return wide.compare("less", 0).select(wide + size, wide).value


def _zeros(x: SSAValue, build: Build) -> SSAValue:
    return build.expand(build.scalar_like(0, x), build.all_sizes(x))


def _all_sizes(op: TopOperation, build: Build) -> list:
    return build.all_sizes(op.operands[0])


def _unknown(op: TopOperation) -> Unsupported:
    return Unsupported(f"the derivative of {op.name} ({op.label()}) is not known")


DERIVATIVES: Mapping[type[TopOperation], Rule] = {
    UnaryOp: _unary,
    BinaryOp: _binary,
    SelectOp: _select,
    CastOp: _cast,
    MatMulOp: _matmul,
    ConvOp: convolution,
    ReduceOp: _reduce,
    SoftmaxOp: _softmax,
    LayerNormOp: _layer_norm,
    BatchNormOp: _batch_norm,
    ReshapeOp: _reshape,
    TransposeOp: _transpose,
    ConcatOp: _concat,
    SliceOp: _slice,
    PadOp: _pad,
    ExpandOp: _repeated,
    GatherOp: _gather,
    GatherElementsOp: _gather_elements,
    InterpolateOp: _interpolate,
}
