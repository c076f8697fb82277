"""Tensors joined and repeated: concatenations, stacks, repetitions and turns."""

from __future__ import annotations

import numpy as np

from explorer.importers.building.attention_scores import counted, length
from explorer.importers.building.build import Build
from explorer.importers.building.expr import Expr, Size
from explorer.importers.pytorch.file.program import Ref
from explorer.importers.pytorch.operators.node import AtenNode
from explorer.importers.pytorch.operators.promotion import promoted_types
from explorer.ir.top.movement.slices import TO_THE_END


def cat(node: AtenNode, build: Build) -> Expr:
    """Tensors one behind the other along an axis, in one element type."""
    tensors = _of_one_type(node)
    kept = [t for t in tensors if t.shape != (0,)] or tensors[:1]
    return build.concat(kept, build.axis(node.integer("dim", build, 0), kept[0].rank))


def stack(node: AtenNode, build: Build) -> Expr:
    """Tensors side by side along a new axis."""
    tensors = _of_one_type(node)
    axis = build.axis(node.integer("dim", build, 0), tensors[0].rank + 1)
    return build.concat([t.unsqueeze([axis]) for t in tensors], axis)


def stack_axis(node: AtenNode, build: Build) -> Expr:
    """Rows, columns or planes beside each other (hstack, vstack, dstack, column_stack)."""
    kind = node.call.target.removeprefix("aten.")
    tensors = _of_one_type(node)
    least = {"hstack": 1, "vstack": 2, "dstack": 3, "column_stack": 2}[kind]
    full = [_at_least(t, least, kind) for t in tensors]
    axis = {"hstack": 0 if full[0].rank == 1 else 1, "vstack": 0, "dstack": 2}.get(kind, 1)
    return build.concat(full, axis)


def _at_least(x: Expr, rank: int, kind: str) -> Expr:
    own = x.rank
    if own >= rank:
        return x
    if kind == "column_stack":
        return x.reshape([-1, 1])
    if own == 0:
        return x.reshape([1] * rank)
    sizes = x.all_sizes()
    if own == 1:
        return x.reshape({1: sizes, 2: [1, *sizes], 3: [1, *sizes, 1]}[rank])
    return x.reshape([*sizes, 1])


def at_least(node: AtenNode, build: Build) -> Expr:
    """With axes of size 1 until there are 1, 2 or 3."""
    rank = int(node.call.target.split("_")[1][0])
    return _at_least(node.operand("self"), rank, "")


def meshgrid(node: AtenNode, build: Build) -> list[Expr]:
    """Each vector along an axis of its own, repeated along those of the others."""
    tensors = [t.reshape([-1]) for t in node.tensors("tensors")]
    swaps = node.text("indexing", "ij") == "xy" and len(tensors) > 1
    order = [1, 0, *range(2, len(tensors))] if swaps else list(range(len(tensors)))
    sizes = [tensors[axis].all_sizes()[0] for axis in order]
    found = []
    for number, tensor in enumerate(tensors):
        shape: list[Size] = [1] * len(tensors)
        shape[order.index(number)] = -1
        found.append(tensor.reshape(shape).broadcast_to(sizes))
    return found


def diagonal_blocks(node: AtenNode, build: Build) -> Expr:
    """Matrices along the diagonal of a larger one, zeros elsewhere."""
    blocks = [_at_least(t, 2, "vstack") for t in _of_one_type(node)]
    widths = [block.sizes([1], "blocks")[0] for block in blocks]
    rows = [
        block.pad([0, sum(widths[:i])], [0, sum(widths[i + 1 :])]) for i, block in enumerate(blocks)
    ]
    return build.concat(rows, 0)


def sum_to_size(node: AtenNode, build: Build) -> Expr:
    """Summed along the axes that a shape would broadcast."""
    x, sizes = node.operand("self"), node.integers("size", build)
    extra = x.rank - len(sizes)
    x = x.sum(range(extra))
    axes = [a for a, size in enumerate(sizes) if size == 1 and x.size(a) != 1]
    return x.sum(axes, True)


def all_at_least(node: AtenNode, build: Build) -> list[Expr]:
    """Each tensor with axes of size 1 until there are 1, 2 or 3."""
    rank = int(node.call.target.split("_")[1][0])
    return [_at_least(tensor, rank, "") for tensor in node.tensors("tensors")]


def _of_one_type(node: AtenNode) -> list[Expr]:
    tensors = node.tensors("tensors")
    if not tensors:
        raise ValueError("no tensors to join")
    dtype = tensors[0].dtype
    for tensor in tensors[1:]:
        dtype = promoted_types(dtype, tensor.dtype)
    return [tensor.astype(dtype) for tensor in tensors]


def repeat(node: AtenNode, build: Build) -> Expr:
    """The whole tensor so many times along each axis."""
    x, counts = (
        node.operand("self"),
        node.integers("repeats" if node.has("repeats") else "dims", build),
    )
    rank = max(len(counts), x.rank)
    counts = [*[1] * (rank - len(counts)), *counts]
    sizes = [*[1] * (rank - x.rank), *x.all_sizes()]
    x = x.reshape(sizes) if len(sizes) != x.rank else x
    for axis, count in enumerate(counts):
        if count == 0:
            x = x.slice(axis, 0, 0)
        elif count > 1:
            x = build.concat([x] * count, axis)
    return x


def repeat_each(node: AtenNode, build: Build) -> Expr:
    """Each element so many times, one behind the other."""
    x = node.operand("self")
    if not node.has("dim"):
        x = x.reshape([-1])
    axis = build.axis(node.integer("dim", build, 0), x.rank)
    repeats = node.argument("repeats")
    is_number = not isinstance(repeats, Ref) or repeats.name in node.numbers
    if is_number and x.size(axis) is None:
        count, sizes = node.integer("repeats", build), x.all_sizes()
        each = x.unsqueeze([axis + 1])
        each = each.broadcast_to([*sizes[: axis + 1], count, *sizes[axis + 1 :]])
        return each.reshape([*sizes[:axis], build.times(sizes[axis], count), *sizes[axis + 1 :]])
    (size,) = x.sizes([axis], "elements that are repeated")
    if not is_number:
        counts = np.array(
            build.integers(node.operand("repeats"), "how often elements are repeated")
        )
        counts = np.broadcast_to(counts, (size,))
    else:
        counts = np.full(size, node.integer("repeats", build))
    return x.take(np.repeat(np.arange(size), counts), axis)


def flip(node: AtenNode, build: Build) -> Expr:
    """Some axes backwards."""
    x = node.operand("self")
    rank = x.rank
    listed = {"fliplr": [1], "flipud": [0]}.get(node.call.target.removeprefix("aten."))
    axes = listed if listed is not None else node.integers("dims", build)
    return x.slices(dict.fromkeys(build.axes(axes, rank), (-1, -TO_THE_END, -1))) if axes else x


def roll(node: AtenNode, build: Build) -> Expr:
    """Elements that leave an axis at its end come in at its beginning."""
    x = node.operand("self")
    shape = x.all_sizes()
    axes = node.integers("dims", build, [])
    shifts = node.integers("shifts", build)
    flat = not axes
    if flat:
        x, axes = x.reshape([-1]), [0]
    for axis, shift in zip(axes, shifts, strict=True):
        axis = build.axis(axis, x.rank)
        size = x.size(axis)
        if size is None:
            places = counted(x, axis, build) - shift
            x = x.take(places % length(x, axis, build), axis)
        elif size and shift % size:
            cut = size - shift % size
            x = build.concat([x.slice(axis, cut, size), x.slice(axis, 0, cut)], axis)
    return x.reshape(shape) if flat else x


def rotate(node: AtenNode, build: Build) -> Expr:
    """A plane of two axes, turned by quarters."""
    x, turns = node.operand("self"), node.integer("k", build, 1) % 4
    rank = x.rank
    first, second = (build.axis(a, rank) for a in node.integers("dims", build, [0, 1]))
    order = list(range(rank))
    order[first], order[second] = second, first

    def backwards(value: Expr, *axes: int) -> Expr:
        return value.slices(dict.fromkeys(axes, (-1, -TO_THE_END, -1)))

    if turns == 1:
        return backwards(x, second).transpose(order)
    if turns == 2:
        return backwards(x, first, second)
    return backwards(x.transpose(order), second) if turns == 3 else x


CONVERTERS = {
    "cat": cat,
    "concat": cat,
    "concatenate": cat,
    "stack": stack,
    "hstack": stack_axis,
    "vstack": stack_axis,
    "dstack": stack_axis,
    "column_stack": stack_axis,
    "atleast_1d": at_least,
    "atleast_2d": at_least,
    "atleast_3d": at_least,
    "meshgrid": meshgrid,
    "meshgrid.indexing": meshgrid,
    "block_diag": diagonal_blocks,
    "sum_to_size": sum_to_size,
    "repeat": repeat,
    "tile": repeat,
    "repeat_interleave.self_int": repeat_each,
    "flip": flip,
    "fliplr": flip,
    "flipud": flip,
    "roll": roll,
    "rot90": rotate,
    **{f"atleast_{d}d.Sequence": all_at_least for d in (1, 2, 3)},
}
