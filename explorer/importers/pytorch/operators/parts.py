"""Parts of a tensor: places, slices, pieces, diagonals and windows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
from xdsl.ir import SSAValue

from explorer.importers.building.attention_scores import counted
from explorer.importers.building.build import Build, Unsupported
from explorer.importers.building.expr import Expr, Size, where
from explorer.importers.pytorch.operators.node import AtenNode
from explorer.ir.top.movement.slices import TO_THE_END, SliceOp


def select(node: AtenNode, build: Build) -> Expr:
    """The elements at one place of an axis."""
    x = node.operand("self")
    axis = build.axis(node.integer("dim", build), x.rank)
    return at_place(x, axis, node.integer("index", build))


def at_place(x: Expr, axis: int, index: int) -> Expr:
    size = x.size(axis)
    if size is not None and not -size <= index < size:
        raise ValueError(f"place {index} of an axis with {size} elements")
    stop = index + 1 if index != -1 else TO_THE_END
    return x.slice(axis, index, stop).squeeze([axis])


def slice_axis(node: AtenNode, build: Build) -> Expr:
    """Every step-th element from start to end."""
    x = node.operand("self")
    return sliced(node, x, build.axis(node.integer("dim", build, 0), x.rank), build)


def sliced(node: AtenNode, x: Expr, axis: int, build: Build) -> Expr:
    start, stop = node.size("start", 0), node.size("end", TO_THE_END)
    step = node.integer("step", build, 1)
    bounds = [_known(bound, build) for bound in (start, stop)]
    if all(b is not None for b in bounds):
        low, high = (int(b[0]) for b in bounds if b is not None)  # pyright: ignore
        if low == 0 and step == 1 and high >= TO_THE_END:
            return x
        return x.slices({axis: (low, min(high, TO_THE_END), step)})
    vectors = [build.shape_vector([b]) for b in (start, stop)]
    steps = build.weight(np.array([step], np.int64))
    return build.value(SliceOp, [x, *vectors, steps], axes=[axis])


def _known(size: Size, build: Build) -> Sequence[int] | None:
    """The number that a size is, where it is one."""
    if isinstance(size, int):
        return [size]
    return build.knowledge.integers(build.expr(size)) if isinstance(size, SSAValue) else None


def narrow(node: AtenNode, build: Build) -> Expr:
    """Some elements of an axis, by the first one and their number."""
    x = node.operand("self")
    axis = build.axis(node.integer("dim", build), x.rank)
    start, length = node.integer("start", build), node.integer("length", build)
    if start < 0:
        (size,) = x.sizes([axis], "a part counted from the end")
        start += size
    return x.slice(axis, start, start + length)


def split(node: AtenNode, build: Build) -> list[Expr]:
    """Parts of one size along an axis; the last may be smaller. Or of sizes that are listed."""
    x = node.operand("self")
    axis = build.axis(node.integer("dim", build, 0), x.rank)
    name = node.one_of("split_sizes", "split_size")
    listed = node.integers(name, build)
    if isinstance(node.argument(name), tuple):
        return parts_of(x, axis, listed)
    (size,) = x.sizes([axis], "parts of one size")
    step = listed[0]
    if step < 1:
        raise ValueError(f"parts of {step} elements")
    return parts_of(x, axis, [min(step, size - at) for at in range(0, max(size, 1), step)])


def parts_of(x: Expr, axis: int, sizes: Sequence[int]) -> list[Expr]:
    ends = list(accumulate(sizes))
    return [x.slice(axis, end - size, end) for size, end in zip(sizes, ends, strict=True)]


def chunk(node: AtenNode, build: Build) -> list[Expr]:
    """So many parts along an axis, of one size but for the last."""
    x, count = node.operand("self"), node.integer("chunks", build)
    axis = build.axis(node.integer("dim", build, 0), x.rank)
    (size,) = x.sizes([axis], "equal parts")
    step = max(-(-size // count), 1)
    return parts_of(x, axis, [min(step, size - at) for at in range(0, max(size, 1), step)])


_ALONG = {"vsplit": 0, "hsplit": 1, "dsplit": 2}


def tensor_split(node: AtenNode, build: Build) -> list[Expr]:
    """So many parts along an axis, as even as possible; or parts between places."""
    x = node.operand("self")
    axis = _ALONG.get(node.call.target.split(".")[1], node.integer("dim", build, 0))
    if axis == 1 and x.rank == 1:  # hsplit of a row
        axis = 0
    axis = build.axis(axis, x.rank)
    (size,) = x.sizes([axis], "even parts")
    if node.has("indices"):
        places = [p + size if p < 0 else min(p, size) for p in node.integers("indices", build)]
        starts, ends = [0, *places], [*places, size]
        return [x.slice(axis, a, max(a, b)) for a, b in zip(starts, ends, strict=True)]
    count = node.integer("sections", build)
    rest = size % count
    return parts_of(x, axis, [size // count + (i < rest) for i in range(count)])


def unbind(node: AtenNode, build: Build) -> list[Expr]:
    """The elements at each place of an axis."""
    x = node.operand("self")
    axis = build.axis(node.integer("dim", build, 0), x.rank)
    (size,) = x.sizes([axis], "a list of its parts")
    return [at_place(x, axis, index) for index in range(size)]


def diagonal(node: AtenNode, build: Build) -> Expr:
    """The elements of a matrix whose column is as far behind their row as `offset`; they become
    the last axis."""
    x = node.operand("self" if node.has("self") else "A")
    rank, offset = x.rank, node.integer("offset", build, 0)
    axes = [build.axis(node.integer(f"dim{i}", build, d), rank) for i, d in ((1, 0), (2, 1))]
    if "linalg" in node.call.target:
        axes = [
            build.axis(node.integer("dim1", build, -2), rank),
            build.axis(node.integer("dim2", build, -1), rank),
        ]
    rest = [axis for axis in range(rank) if axis not in axes]
    moved = x.transpose([*rest, *axes])
    rows, columns = moved.sizes([rank - 2, rank - 1], "a diagonal")
    first_row, first_column = max(-offset, 0), max(offset, 0)
    count = max(min(rows - first_row, columns - first_column), 0)
    places = (np.arange(count) + first_row) * columns + np.arange(count) + first_column
    flat = moved.reshape([*moved.all_sizes()[: rank - 2], rows * columns])
    return flat.take(places, rank - 2)


def diagonal_matrix(node: AtenNode, build: Build) -> Expr:
    """A matrix with the last axis as a diagonal, zeros elsewhere."""
    x, offset = node.operand("self"), node.integer("offset", build, 0)
    rank = x.rank + 1
    (size,) = x.sizes([rank - 2], "a diagonal")
    width = size + abs(offset)
    is_on = np.eye(width, k=offset, dtype=np.bool_)
    padded = x
    if offset:
        low, high = [0] * (rank - 1), [0] * (rank - 1)
        (low if offset > 0 else high)[-1] = abs(offset)
        padded = x.pad(low, high)
    spread = padded.unsqueeze([rank - 2])
    matrix = where(build.weight(is_on), spread, 0)
    axes = [build.axis(node.integer(n, build, d), rank) for n, d in (("dim1", -2), ("dim2", -1))]
    rows, columns = (rank - 2, rank - 1)
    order: list[int] = [-1] * rank
    order[axes[0]], order[axes[1]] = rows, columns
    rest = iter(range(rank - 2))
    return matrix.transpose([next(rest) if axis < 0 else axis for axis in order])


def diag(node: AtenNode, build: Build) -> Expr:
    """A vector as a diagonal, or a matrix' diagonal; `diagflat`: all elements as a vector."""
    x, is_flat = node.operand("self"), "diagflat" in node.call.target
    offset = node.integer("offset" if is_flat else "diagonal", build, 0)
    x = x.reshape([-1]) if is_flat else x
    if x.rank == 1:
        (size,) = x.sizes([0], "a diagonal")
        is_on = build.weight(np.eye(size + abs(offset), k=offset, dtype=np.bool_))
        low, high = ([abs(offset)], [0]) if offset > 0 else ([0], [abs(offset)])
        return where(is_on, x.pad(low, high).unsqueeze([0]), 0)
    rows, columns = x.sizes([0, 1], "a diagonal")
    places = [r * columns + r + offset for r in range(rows) if 0 <= r + offset < columns]
    return x.reshape([-1]).take(np.array(places, np.int64), 0)


def triangle(node: AtenNode, build: Build) -> Expr:
    """Zeros above (tril) or below (triu) a diagonal of the last two axes."""
    x, offset = node.operand("self"), node.integer("diagonal", build, 0)
    rank = x.rank
    is_lower = "tril" in node.call.target
    count, width = x.size(rank - 2), x.size(rank - 1)
    if count is not None and width is not None:
        full = np.ones((count, width), np.bool_)
        kept = np.tril(full, offset) if is_lower else np.triu(full, offset)
        return where(build.weight(kept), x, 0)
    rows = counted(x, rank - 2, build).unsqueeze([1]) + offset
    columns = counted(x, rank - 1, build).unsqueeze([0])
    return where(columns <= rows if is_lower else rows <= columns, x, 0)


def unfold(node: AtenNode, build: Build) -> Expr:
    """Parts of an axis, each `step` behind the one before, as a new last axis."""
    x = node.operand("self")
    rank = x.rank
    width, step = node.integer("size", build), node.integer("step", build)
    if not rank:  # a number has one part: itself, or nothing of it
        return x.reshape([1]).slices({0: (0, width, 1)})
    axis = build.axis(node.integer("dimension", build), rank)
    (size,) = x.sizes([axis], "parts that overlap")
    starts = np.arange(0, size - width + 1, step)
    places = starts[:, np.newaxis] + np.arange(width)
    gathered = x.take(places, axis)
    order = [a for a in range(rank + 1) if a != axis + 1]
    return gathered.transpose([*order, axis + 1])


def strided(node: AtenNode, build: Build) -> Expr:
    """Elements by steps through the tensor as a row, which has to be the file's own order."""
    x = node.operand("self")
    sizes, steps = node.integers("size", build), node.integers("stride", build)
    known = x.sizes(range(x.rank), "strides")
    count = int(np.prod(known))
    places = np.full((), node.integer("storage_offset", build, 0))
    for size, step in zip(sizes, steps, strict=True):
        places = places[..., np.newaxis] + np.arange(size) * step
    if places.size and int(places.max()) >= count:
        raise Unsupported("strides through more than the tensor itself")
    if places.size == count and (places.reshape(-1) == np.arange(count)).all():
        return x.reshape(list(sizes))
    return x.reshape([-1]).take(places, 0)


CONVERTERS = {
    "select.int": select,
    "select_copy.int": select,
    "slice.Tensor": slice_axis,
    "slice_copy.Tensor": slice_axis,
    "narrow": narrow,
    "narrow_copy": narrow,
    "split.Tensor": split,
    "split.sizes": split,
    "split": split,
    "split_copy.Tensor": split,
    "split_with_sizes": split,
    "split_with_sizes_copy": split,
    "unsafe_split.Tensor": split,
    "unsafe_split_with_sizes": split,
    "chunk": chunk,
    "unsafe_chunk": chunk,
    "tensor_split.sections": tensor_split,
    "tensor_split.indices": tensor_split,
    **{f"{name}.{o}": tensor_split for name in _ALONG for o in ("int", "array")},
    "unbind.int": unbind,
    "unbind_copy.int": unbind,
    "diagonal": diagonal,
    "diagonal_copy": diagonal,
    "linalg_diagonal": diagonal,
    "diag_embed": diagonal_matrix,
    "diag": diag,
    "diagflat": diag,
    "tril": triangle,
    "triu": triangle,
    "as_strided": strided,
    "as_strided_copy": strided,
    "unfold": unfold,
    "unfold_copy": unfold,
}
