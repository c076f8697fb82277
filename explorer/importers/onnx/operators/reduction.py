"""Reductions along axes, and what finds elements: argmax, top-k, running sums, norms."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from explorer.importers.building.expr import Expr, where
from explorer.importers.onnx.program.build import Build
from explorer.importers.onnx.program.nodes import Node, Unsupported, converts
from explorer.ir.top.elementwise import SelectOp
from explorer.ir.top.reductions.arg import ArgOp
from explorer.ir.top.reductions.cumulative import CumulativeOp
from explorer.ir.top.reductions.reduction import REAL_KINDS, ReduceOp, TopKOp

_KINDS = {
    "ReduceSum": "sum",
    "ReduceMean": "mean",
    "ReduceMax": "max",
    "ReduceMin": "min",
    "ReduceProd": "prod",
    "ReduceL1": "l1",
    "ReduceL2": "l2",
    "ReduceSumSquare": "sum_square",
    "ReduceLogSum": "log_sum",
    "ReduceLogSumExp": "log_sum_exp",
}
_IDENTITIES = ("sum", "mean", "max", "min", "prod", "log_sum_exp")
"""Kinds that leave a single element as it is."""
_OTHERS = tuple(operator for operator in _KINDS if operator != "ReduceSum")


@converts("ReduceSum", until=12)
def sum_by_attribute(node: Node, build: Build) -> Expr:
    return _reduce(node, node.integers("axes"), build)


@converts(*_OTHERS, until=17)
def reduce_by_attribute(node: Node, build: Build) -> Expr:
    return _reduce(node, node.integers("axes"), build)


@converts("ReduceSum", since=13)
def sum_by_operand(node: Node, build: Build) -> Expr:
    return _reduce(node, _axes_operand(node, build), build)


@converts(*_OTHERS, since=18)
def reduce_by_operand(node: Node, build: Build) -> Expr:
    return _reduce(node, _axes_operand(node, build), build)


@converts("ArgMax", "ArgMin")
def find_extremum(node: Node, build: Build) -> Expr:
    x = node.operand(0)
    return build.value(
        ArgOp,
        [x],
        kind="max" if node.operator == "ArgMax" else "min",
        axis=build.axis(node.integer("axis", 0), x.rank),
        keepdims=bool(node.integer("keepdims", 1)),
        select_last=bool(node.integer("select_last_index", 0)),
    )


@converts("CumSum", "CumProd", since=11)
def cumulative(node: Node, build: Build) -> Expr:
    x = node.operand(0)
    (axis,) = build.integers(node.operand(1), "the axis")
    return build.value(
        CumulativeOp,
        [x],
        kind="sum" if node.operator == "CumSum" else "prod",
        axis=build.axis(axis, x.rank),
        exclusive=bool(node.integer("exclusive", 0)),
        reverse=bool(node.integer("reverse", 0)),
    )


@converts("TopK", until=9)
def top_k_by_attribute(node: Node, build: Build) -> Sequence[Expr]:
    return _top_k(node, node.integer("k"), build)


@converts("TopK", since=10)
def top_k(node: Node, build: Build) -> Sequence[Expr]:
    """Sorted always, which also satisfies `sorted = 0`."""
    (count,) = build.integers(node.operand(1), "the number k")
    return _top_k(node, count, build)


@converts("Hardmax", since=13)
def hardmax(node: Node, build: Build) -> Expr:
    """1 at the first maximum along the axis, 0 elsewhere."""
    x = node.operand(0)
    return _hardmax(x, build.axis(node.integer("axis", -1), x.rank), build)


@converts("Hardmax", until=12)
def flattening_hardmax(node: Node, build: Build) -> Expr:
    """Before opset 13 the axes from `axis` on are one."""
    x = node.operand(0)
    rank = x.rank
    axis = build.axis(node.integer("axis", 1), rank)
    count = math.prod(x.sizes(range(axis, rank), "hardmax over several axes"))
    if count == 0:
        return x
    return _hardmax(x.reshape([-1, count]), 1, build).reshape(x.all_sizes())


def _hardmax(x: Expr, axis: int, build: Build) -> Expr:
    (size,) = x.sizes([axis], "hardmax")
    if size == 0:
        return x
    best = build.value(ArgOp, [x], kind="max", axis=axis, keepdims=True, select_last=False)
    shape = [size if a == axis else 1 for a in range(x.rank)]
    positions = build.weight(np.arange(size, dtype=np.int64).reshape(shape))
    return (best == positions).astype(x.dtype)


@converts("LpNormalization")
def lp_normalization(node: Node, build: Build) -> Expr:
    """x / norm(x) along an axis, in f32 at least; 0 where the norm is 0."""
    x = node.operand(0)
    axis = build.axis(node.integer("axis", -1), x.rank)
    wide = x.wide()
    norm = build.value(ReduceOp, [wide], kind=_norm_kind(node), axes=[axis], keepdims=True)
    zero = wide.constant(0)
    return build.value(SelectOp, [norm == zero, zero, wide / norm]).astype(x.dtype)


def _norm_kind(node: Node) -> str:
    p = node.integer("p", 2)
    if p not in (1, 2):
        raise Unsupported(f"a norm with p = {p}; 1 and 2 are supported")
    return f"l{p}"


def _top_k(node: Node, count: int, build: Build) -> Sequence[Expr]:
    x = node.operand(0)
    axis = build.axis(node.integer("axis", -1), x.rank)
    largest = bool(node.integer("largest", 1))
    return build.values(TopKOp, [x], k=count, axis=axis, largest=largest)


def _axes_operand(node: Node, build: Build) -> Sequence[int] | None:
    operand = node.optional(1)
    return None if operand is None else build.integers(operand, "the list of axes")


def _reduce(node: Node, axes: Sequence[int] | None, build: Build) -> Expr:
    """No axes mean all, or each element by itself with `noop_with_empty_axes`."""
    x = node.operand(0)
    rank = x.rank
    keepdims = bool(node.integer("keepdims", 1))
    if not axes:
        if node.integer("noop_with_empty_axes", 0):
            return x if _KINDS[node.operator] in _IDENTITIES else _reduced(node, x, [], True, build)
        axes = range(rank)
    if not rank:  # a single number as a vector of one, whose result is a single number again
        return _reduced(node, x.unsqueeze([0]), [0], False, build)
    return _reduced(node, x, build.axes(axes, rank), keepdims, build)


def _reduced(node: Node, x: Expr, axes: Sequence[int], keepdims: bool, build: Build) -> Expr:
    """Roots and logarithms of integers are computed in f64 and truncated, as in onnxruntime. The
    mean of integers is one of their type, where their sum may be none: it is added up in i64."""
    kind = _KINDS[node.operator]
    is_real = kind in REAL_KINDS and not x.is_float
    if is_real and kind == "log_sum_exp":
        y = _largest_exponentials(x, axes)
        return y if keepdims else y.squeeze(axes)
    dtype = x.dtype
    wide = x.astype(np.float64) if is_real else x
    if kind == "mean" and dtype.kind in "iu" and dtype.itemsize < 8:
        wide = x.astype(np.int64)
    if dtype.kind == "b":  # extrema alone
        wide = x.astype(np.uint8)
    y = build.value(ReduceOp, [wide], kind=kind, axes=axes, keepdims=keepdims)
    return y.astype(dtype)


def _largest_exponentials(x: Expr, axes: Sequence[int]) -> Expr:
    """m + log(n) of integers, truncated: the maximum, and how often it stands there.

    In integers, as onnxruntime adds them up, exp(x - m) is 0 for all smaller ones.
    """
    greatest = x.max(axes, True)
    hits = (x == greatest).astype(np.int64)
    count = hits.sum(axes, True)
    logarithm = count.astype(np.float64).log()
    total = greatest.astype(np.float64) + logarithm
    return where(count == 1, greatest, total.astype(x.dtype))
