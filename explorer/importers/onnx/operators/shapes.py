"""Operators about shapes, and tensors that are made from shapes and numbers."""

from __future__ import annotations

import numpy as np

from explorer.importers.building.expr import Expr, minimum
from explorer.importers.building.limits import check_size
from explorer.importers.onnx.file.tensors import dtype_of, read_tensor
from explorer.importers.onnx.program.build import Build
from explorer.importers.onnx.program.nodes import Node, Unsupported, converts
from explorer.importers.onnx.program.structures import Imported
from explorer.ir.top.elementwise import SelectOp
from explorer.ir.top.movement.reshape import ExpandOp
from explorer.ir.top.reductions.reduction import ReduceOp
from explorer.ir.top.shapes import RangeOp, ShapeOp


@converts("Constant")
def constant(node: Node, build: Build) -> Imported:
    return build.contents(_constant_array(node), node.results[0])


@converts("Shape")
def shape(node: Node, build: Build) -> Expr:
    """From opset 15 on only axes `start` to `end`."""
    x = node.operand(0)
    rank = x.rank
    start, end = node.integer("start", 0), node.integer("end", rank)
    bounds = [max(min(n + rank if n < 0 else n, rank), 0) for n in (start, end)]
    return build.value(ShapeOp, [x], start=bounds[0], end=bounds[1])


@converts("Size")
def size(node: Node, build: Build) -> Expr:
    """The product of the sizes."""
    sizes = build.value(ShapeOp, [node.operand(0)])
    return build.value(ReduceOp, [sizes], kind="prod", axes=[0], keepdims=False)


@converts("ConstantOfShape", since=9)
def constant_of_shape(node: Node, build: Build) -> Expr:
    tensor = node.tensor("value")
    number = np.zeros(1, np.float32) if tensor is None else read_tensor(tensor, None)
    return _filled(build.weight(number.reshape(())), node.operand(0), build)


@converts("Expand", since=8)
def expand(node: Node, build: Build) -> Expr:
    return _filled(node.operand(0), node.operand(1), build)


@converts("Tile", until=5)
def tile_axis(node: Node, build: Build) -> Expr:
    """One axis repeated a number of times, both given as operands."""
    x = node.operand(0)
    (times,) = build.integers(node.operand(1), "how often to repeat")
    (axis,) = build.integers(node.operand(2), "the axis to repeat")
    return _repeated(x, build.axis(axis, x.rank), times, build)


@converts("Tile", since=6)
def tile(node: Node, build: Build) -> Expr:
    """One axis after the other."""
    x = node.operand(0)
    repeats = build.integers(node.operand(1), "how often to repeat")
    if len(repeats) != x.rank:
        raise ValueError(f"{len(repeats)} numbers for {x.rank} dimensions")
    for axis, times in enumerate(repeats):
        x = _repeated(x, axis, times, build)
    return x


def _repeated(x: Expr, axis: int, times: int, build: Build) -> Expr:
    """x several times along an axis, which gets a new one before it to expand the operand along.

    (2, 3) three times along axis 1   ->   (2, 1, 3) -> (2, 3, 3) -> (2, 9)
    """
    if times == 1:
        return x
    if times == 0:
        return x.slice(axis, 0, 0)
    sizes = x.all_sizes()
    if 0 in x.shape:  # a size of -1 would stand for nothing
        return build.concat([x] * times, axis)
    before, after = sizes[:axis], sizes[axis + 1 :]
    own = x.size(axis)
    split = x.reshape([*before, 1, sizes[axis], *after])
    repeated = split.broadcast_to([*before, times, sizes[axis], *after])
    return repeated.reshape([*before, -1 if own is None else own * times, *after])


@converts("EyeLike", since=9)
def eye_like(node: Node, build: Build) -> Expr:
    """Ones on a diagonal of a matrix as large as the operand."""
    x = node.operand(0)
    rows, columns = x.sizes([0, 1], "EyeLike")
    check_size([rows, columns], 8, "the result", node.name)
    dtype = x.dtype
    if "dtype" in node.attributes:
        dtype = dtype_of(node.integer("dtype"), "the result")
    return build.weight(np.eye(rows, columns, node.integer("k", 0)).astype(dtype))


@converts("Range", since=11)
def count(node: Node, build: Build) -> Expr:
    """Vectors of one element are accepted as scalars, as everywhere else."""
    bounds = [node.operand(index) for index in range(3)]
    return build.value(RangeOp, [b.reshape([]) if b.rank else b for b in bounds])


@converts("OneHot", since=9)
def one_hot(node: Node, build: Build) -> Expr:
    """Where index equals position the on value, else the off value; negative indices count from
    the end. What lies outside of the depth is off, in 64 bits without a sign, too."""
    indices, values = node.operand(0), node.operand(2)
    (depth,) = build.integers(node.operand(1), "the depth")
    if depth < 0:
        raise ValueError(f"depth {depth}")
    rank = indices.rank + 1
    axis = build.axis(node.integer("axis", -1), rank)
    if indices.dtype == np.uint64:
        indices = minimum(indices, build.weight(np.array(depth, np.uint64)))
    whole = indices.astype(np.int64)
    wrapped = whole + depth
    is_negative = whole < 0
    position = build.value(SelectOp, [is_negative, wrapped, whole])
    steps = np.arange(depth).reshape([depth if a == axis else 1 for a in range(rank)])
    hits = position.unsqueeze([axis]) == build.weight(steps)
    off, on = (values.slice(0, i, i + 1).squeeze([0]) for i in range(2))
    return build.value(SelectOp, [hits, on, off])


def _filled(x: Expr, target: Expr, build: Build) -> Expr:
    """x expanded to a shape: a property where it is a weight, else an operand."""
    sizes = build.stored(target)
    if sizes is not None:
        return build.value(ExpandOp, [x, None], shape=[int(s) for s in sizes])
    return build.value(ExpandOp, [x, target])


def _constant_array(node: Node) -> np.ndarray:
    tensor = node.tensor("value")
    if tensor is not None:
        return read_tensor(tensor, None)
    if "value_float" in node.attributes:
        return np.array(node.number("value_float"), np.float32)
    if "value_int" in node.attributes:
        return np.array(node.integer("value_int"), np.int64)
    if "value_floats" in node.attributes:
        return np.array(node.numbers("value_floats"), np.float32)
    if "value_ints" in node.attributes:
        return np.array(node.integers("value_ints"), np.int64)
    if "value_string" in node.attributes:
        return np.array(node.text("value_string"))
    if "value_strings" in node.attributes:
        return np.array(node.texts("value_strings"), np.str_)
    raise Unsupported(f"a constant given by {', '.join(node.attributes) or 'nothing'}")
