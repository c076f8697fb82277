"""Writing elements at places of an axis: as they are, or joined with what was there.

aten.scatter.src(x, 1, i, v)                top.scatter_elements
aten.scatter_reduce.two(x, 1, i, v, "mean")     sums by counts
aten.index_reduce(x, 0, i, v, "amax")           the same for whole slices
"""

from __future__ import annotations

import math

import numpy as np

from explorer.importers.building.build import Build, Unsupported
from explorer.importers.building.expr import Expr
from explorer.importers.pytorch.operators.movement import expanded
from explorer.importers.pytorch.operators.node import AtenNode
from explorer.importers.pytorch.operators.promotion import as_value
from explorer.ir.top.indexing import ScatterElementsOp

_REDUCTIONS = {
    "sum": "add", "add": "add", "prod": "mul", "multiply": "mul", "amax": "max", "amin": "min",
    "mean": "add",
}  # fmt: skip


def scatter(node: AtenNode, build: Build) -> Expr:
    """Values written into an axis, each at a place of its own; or added, multiplied, compared."""
    x, places = node.operand("self"), node.operand("index")
    word = node.text("reduce") or ("add" if "scatter_add" in node.call.target else "")
    rank = x.rank
    if node.has("src"):
        values = node.operand("src").astype(x.dtype)
    else:
        values = as_value(node, "value", x.dtype, build)
        values = values.broadcast_to(places.all_sizes()) if places.rank else values
    if not rank:
        x, places, values = (v.reshape([1]) for v in (x, places, values))
    axis = build.axis(node.integer("dim", build), max(rank, 1))
    sizes = places.shape
    if values.shape != sizes and values.rank == len(sizes):
        known = places.sizes(range(len(sizes)), "what is scattered")
        values = values.slices({a: (0, n, 1) for a, n in enumerate(known)})
    result = _joined(x, places, values, axis, word, node.flag("include_self", True), build)
    return result if rank else result.reshape([])


def _joined(
    x: Expr,
    places: Expr,
    values: Expr,
    axis: int,
    word: str,
    includes_own: bool,
    build: Build,
) -> Expr:
    """x with values joined to it by a reduction; without what was there where any is written."""
    if word and word not in _REDUCTIONS:
        raise Unsupported(f"reduce={word!r}")
    kind = _REDUCTIONS.get(word, "none")

    def written(base: Expr, number: float, reduction: str) -> Expr:
        numbers = base.constant(number).broadcast_to(places.all_sizes())
        return build.value(
            ScatterElementsOp, [base, places, numbers], axis=axis, reduction=reduction
        )

    base = x if includes_own else written(x, _neutral(kind, x.dtype), "none")
    result = build.value(ScatterElementsOp, [base, places, values], axis=axis, reduction=kind)
    if word != "mean":
        return result
    if not x.is_float:
        raise Unsupported("averages of whole numbers")
    ones = x.constant(1).broadcast_to(x.all_sizes())
    return result / written(ones if includes_own else written(ones, 0, "none"), 1, "add")


def _neutral(kind: str, dtype: np.dtype) -> float:
    """What a reduction leaves other numbers as they are with."""
    if kind in ("none", "add", "mul"):
        return 1 if kind == "mul" else 0
    if dtype.kind == "b":
        return kind == "min"
    if dtype.kind not in "iu":
        return -math.inf if kind == "max" else math.inf
    return int(np.iinfo(dtype).min if kind == "max" else np.iinfo(dtype).max)


def index_write(node: AtenNode, build: Build) -> Expr:
    """Slices written, or joined with what was there, at some places of an axis."""
    x, places = node.operand("self"), node.operand("index")
    rank = x.rank
    axis = build.axis(node.integer("dim", build), max(rank, 1))
    name = next(n for n in ("source", "value") if node.has(n))
    values = as_value(node, name, x.dtype, build)
    places = places.reshape([-1])
    if not rank:
        x = x.reshape([1])
    shape = x.all_sizes()
    shape[axis] = places.all_sizes()[0]
    values = values.reshape([1]) if not values.rank and not rank else values
    values = expanded(values, shape)
    is_added = "index_add" in node.call.target
    if is_added:
        factor = node.number("alpha", 1.0)
        if x.dtype.kind in "iu":  # it wraps around as the elements do
            factor = np.int64(factor).astype(x.dtype).item()
        values = values.scaled(factor)
    along = places.reshape([-1 if a == axis else 1 for a in range(max(rank, 1))])
    indices = along.broadcast_to(shape)
    word = node.text("reduce") or ("add" if is_added else "")
    result = _joined(x, indices, values, axis, word, node.flag("include_self", True), build)
    return result if rank else result.reshape([])


def put(node: AtenNode, build: Build) -> Expr:
    """Values written, or added, at places of the tensor as a row."""
    x, places, values = (node.operand(name) for name in ("self", "index", "source"))
    flat = [v.reshape([-1]) for v in (x, places, values)]
    reduction = "add" if node.flag("accumulate") else "none"
    written = build.value(ScatterElementsOp, flat, axis=0, reduction=reduction)
    return written.reshape(x.all_sizes())


CONVERTERS = {
    **dict.fromkeys(
        [f"scatter.{o}" for o in ("src", "value", "reduce", "value_reduce")]
        + ["scatter_add", "scatter_reduce.two"],
        scatter,
    ),
    "index_copy": index_write,
    "index_add": index_write,
    "index_reduce": index_write,
    "index_fill.int_Scalar": index_write,
    "index_fill.int_Tensor": index_write,
    "put": put,
}
