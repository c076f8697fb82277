"""Movement: the same numbers under another shape or in another place."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
from xdsl.ir import SSAValue

from explorer.importers.building.build import Axis, Build, Size, Undecided, Unsupported
from explorer.importers.pytorch.file.program import Ref
from explorer.importers.pytorch.operators.node import AtenNode
from explorer.importers.pytorch.operators.promotion import promoted_types
from explorer.ir.top.casting import BitcastOp
from explorer.ir.top.movement.slices import TO_THE_END, SliceOp
from explorer.ir.types import element_type_from_numpy

# -- shapes ----------------------------------------------------------------------------------------


def same(node: AtenNode, build: Build) -> SSAValue:
    """The tensor itself: what is copied has no meaning here."""
    del build
    return node.operand(next(iter(node.call.arguments)))


def view(node: AtenNode, build: Build) -> SSAValue:
    """The same elements, in row-major order, under another shape."""
    sizes = node.sizes("size" if node.has("size") else "shape")
    return build.reshape(node.operand("self"), sizes)


def view_as(node: AtenNode, build: Build) -> SSAValue:
    """The same elements under the shape of another tensor."""
    return build.reshape(node.operand("self"), build.all_sizes(node.operand("other")))


def flatten(node: AtenNode, build: Build) -> SSAValue:
    """Some axes as one."""
    x = node.operand("self")
    rank = build.rank(x)
    if not rank:
        return build.reshape(x, [1])
    first = build.axis(node.integer("start_dim", build, 0), rank)
    last = build.axis(node.integer("end_dim", build, -1), rank)
    return joined_axes(x, first, last, build)


def joined_axes(x: SSAValue, first: int, last: int, build: Build) -> SSAValue:
    """The axes from the first to the last as one."""
    sizes = build.all_sizes(x)
    known = [build.size(x, axis) for axis in range(first, last + 1)]
    numbers = [size for size in known if size is not None]
    middle: Size = int(np.prod(numbers)) if len(numbers) == len(known) else -1
    return build.reshape(x, [*sizes[:first], middle, *sizes[last + 1 :]])


def unflatten(node: AtenNode, build: Build) -> SSAValue:
    """One axis as several."""
    x = node.operand("self")
    axis = build.axis(node.integer("dim", build), build.rank(x))
    sizes = build.all_sizes(x)
    return build.reshape(x, [*sizes[:axis], *node.sizes("sizes"), *sizes[axis + 1 :]])


def squeeze(node: AtenNode, build: Build) -> SSAValue:
    """Without axes of size 1: all of them, or some."""
    x = node.operand("self")
    rank = build.rank(x)
    asked = node.integers("dim", build, range(rank)) if rank else []
    axes = [axis for axis in build.axes(asked, rank) if build.size(x, axis) == 1]
    return build.squeeze(x, axes) if axes else x


def unsqueeze(node: AtenNode, build: Build) -> SSAValue:
    """A new axis of size 1."""
    return build.unsqueeze(node.operand("self"), [node.integer("dim", build)])


def expand(node: AtenNode, build: Build) -> SSAValue:
    """Repeated along axes of size 1 and new leading ones; -1 keeps a size."""
    x, sizes = node.operand("self"), node.sizes("size")
    missing = len(sizes) - build.rank(x)
    kept = [
        Axis(x, axis - missing) if isinstance(size, int) and size == -1 else size
        for axis, size in enumerate(sizes)
    ]
    return expanded(x, kept, build)


def expand_as(node: AtenNode, build: Build) -> SSAValue:
    """Repeated to the shape of another tensor."""
    return expanded(node.operand("self"), build.all_sizes(node.operand("other")), build)


def expanded(x: SSAValue, sizes: Sequence[Size], build: Build) -> SSAValue:
    """x itself where it has the shape already."""
    known = build.all_sizes(x)
    if len(known) == len(sizes) and all(
        (isinstance(s, Axis) and s == k) or (isinstance(s, int) and s == build.size(x, k.axis))
        for s, k in zip(sizes, known, strict=True)
        if isinstance(k, Axis)
    ):
        return x
    return build.expand(x, sizes)


def broadcast_all(node: AtenNode, build: Build) -> list[SSAValue]:
    """Tensors in the shape that all of them broadcast to."""
    tensors = node.tensors("tensors")
    shapes = [build.sizes(t, range(build.rank(t)), "a common shape") for t in tensors]
    shape = list(np.broadcast_shapes(*map(tuple, shapes)))
    return [expanded(t, shape, build) for t in tensors]


def transpose(node: AtenNode, build: Build) -> SSAValue:
    """Two axes change places."""
    x = node.operand("self")
    rank = build.rank(x)
    if not rank:
        return x
    names = ("dim0", "dim1") if node.has("dim0") else ("axis0", "axis1")
    first, second = (build.axis(node.integer(name, build), rank) for name in names)
    order = list(range(rank))
    order[first], order[second] = second, first
    return build.transpose(x, order)


def matrix_transpose(node: AtenNode, build: Build) -> SSAValue:
    """Rows become columns: the last two axes change places."""
    x = node.operand("self")
    rank = build.rank(x)
    return x if rank < 2 else build.transpose(x, [*range(rank - 2), rank - 1, rank - 2])


def reversed_axes(node: AtenNode, build: Build) -> SSAValue:
    """All axes in the opposite order."""
    x = node.operand("self")
    return build.transpose(x, list(reversed(range(build.rank(x)))))


def permute(node: AtenNode, build: Build) -> SSAValue:
    """Axes in another order."""
    x = node.operand("self")
    rank = build.rank(x)
    return build.transpose(x, [build.axis(a, rank) for a in node.integers("dims", build)])


def move_axes(node: AtenNode, build: Build) -> SSAValue:
    """Some axes at other places; the rest keep their order."""
    x = node.operand("self")
    rank = build.rank(x)
    sources = [build.axis(a, rank) for a in node.integers("source", build)]
    targets = [build.axis(a, rank) for a in node.integers("destination", build)]
    order = [axis for axis in range(rank) if axis not in sources]
    for target, source in sorted(zip(targets, sources, strict=True)):
        order.insert(target, source)
    return build.transpose(x, order)


# -- parts -----------------------------------------------------------------------------------------


def select(node: AtenNode, build: Build) -> SSAValue:
    """The elements at one place of an axis."""
    x = node.operand("self")
    axis = build.axis(node.integer("dim", build), build.rank(x))
    index = node.integer("index", build)
    return at_place(x, axis, index, build)


def at_place(x: SSAValue, axis: int, index: int, build: Build) -> SSAValue:
    size = build.size(x, axis)
    if size is not None and not -size <= index < size:
        raise ValueError(f"place {index} of an axis with {size} elements")
    stop = index + 1 if index != -1 else TO_THE_END
    return build.squeeze(build.slice(x, axis, index, stop), [axis])


def slice_axis(node: AtenNode, build: Build) -> SSAValue:
    """Every step-th element from start to end."""
    x = node.operand("self")
    axis = build.axis(node.integer("dim", build, 0), build.rank(x))
    return sliced(node, x, axis, build)


def sliced(node: AtenNode, x: SSAValue, axis: int, build: Build) -> SSAValue:
    start, stop = node.size("start", 0), node.size("end", TO_THE_END)
    step = node.integer("step", build, 1)
    bounds = [
        build.knowledge.integers(b) if isinstance(b, SSAValue) else [b] for b in (start, stop)
    ]
    if all(b is not None for b in bounds):
        low, high = (int(b[0]) for b in bounds if b is not None)  # pyright: ignore
        if low == 0 and step == 1 and high >= TO_THE_END:
            return x
        return build.slices(x, {axis: (low, min(high, TO_THE_END), step)})
    vectors = [build.shape_vector([b]) for b in (start, stop)]
    steps = build.weight(np.array([step], np.int64))
    return build.value(SliceOp, [x, *vectors, steps], axes=[axis])


def narrow(node: AtenNode, build: Build) -> SSAValue:
    """Some elements of an axis, by the first one and their number."""
    x = node.operand("self")
    axis = build.axis(node.integer("dim", build), build.rank(x))
    start, length = node.integer("start", build), node.integer("length", build)
    if start < 0:
        (size,) = build.sizes(x, [axis], "a part counted from the end")
        start += size
    return build.slice(x, axis, start, start + length)


def split(node: AtenNode, build: Build) -> list[SSAValue]:
    """Parts of one size along an axis; the last may be smaller. Or of sizes that are listed."""
    x = node.operand("self")
    axis = build.axis(node.integer("dim", build, 0), build.rank(x))
    name = next(n for n in ("split_sizes", "split_size") if node.has(n))
    listed = node.integers(name, build)
    if isinstance(node.argument(name), tuple):
        return parts_of(x, axis, listed, build)
    (size,) = build.sizes(x, [axis], "parts of one size")
    step = listed[0]
    if step < 1:
        raise ValueError(f"parts of {step} elements")
    return parts_of(x, axis, [min(step, size - at) for at in range(0, max(size, 1), step)], build)


def parts_of(x: SSAValue, axis: int, sizes: Sequence[int], build: Build) -> list[SSAValue]:
    ends = list(accumulate(sizes))
    return [build.slice(x, axis, end - size, end) for size, end in zip(sizes, ends, strict=True)]


def chunk(node: AtenNode, build: Build) -> list[SSAValue]:
    """So many parts along an axis, of one size but for the last."""
    x, count = node.operand("self"), node.integer("chunks", build)
    axis = build.axis(node.integer("dim", build, 0), build.rank(x))
    (size,) = build.sizes(x, [axis], "equal parts")
    step = max(-(-size // count), 1)
    return parts_of(x, axis, [min(step, size - at) for at in range(0, max(size, 1), step)], build)


def tensor_split(node: AtenNode, build: Build) -> list[SSAValue]:
    """So many parts along an axis, as even as possible; or parts between places."""
    x = node.operand("self")
    axis = build.axis(node.integer("dim", build, 0), build.rank(x))
    (size,) = build.sizes(x, [axis], "even parts")
    if node.has("indices"):
        places = [p + size if p < 0 else min(p, size) for p in node.integers("indices", build)]
        starts, ends = [0, *places], [*places, size]
        return [build.slice(x, axis, a, max(a, b)) for a, b in zip(starts, ends, strict=True)]
    count = node.integer("sections", build)
    rest = size % count
    return parts_of(x, axis, [size // count + (i < rest) for i in range(count)], build)


def unbind(node: AtenNode, build: Build) -> list[SSAValue]:
    """The elements at each place of an axis."""
    x = node.operand("self")
    axis = build.axis(node.integer("dim", build, 0), build.rank(x))
    (size,) = build.sizes(x, [axis], "a list of its parts")
    return [at_place(x, axis, index, build) for index in range(size)]


def diagonal(node: AtenNode, build: Build) -> SSAValue:
    """The elements of a matrix whose column is as far behind their row as `offset`; they become
    the last axis."""
    x = node.operand("self" if node.has("self") else "A")
    rank, offset = build.rank(x), node.integer("offset", build, 0)
    axes = [build.axis(node.integer(f"dim{i}", build, d), rank) for i, d in ((1, 0), (2, 1))]
    if "linalg" in node.call.target:
        axes = [
            build.axis(node.integer("dim1", build, -2), rank),
            build.axis(node.integer("dim2", build, -1), rank),
        ]
    rest = [axis for axis in range(rank) if axis not in axes]
    moved = build.transpose(x, [*rest, *axes])
    rows, columns = build.sizes(moved, [rank - 2, rank - 1], "a diagonal")
    first_row, first_column = max(-offset, 0), max(offset, 0)
    count = max(min(rows - first_row, columns - first_column), 0)
    places = (np.arange(count) + first_row) * columns + np.arange(count) + first_column
    flat = build.reshape(moved, [*build.all_sizes(moved)[: rank - 2], rows * columns])
    return build.gather(flat, places, rank - 2)


def diagonal_matrix(node: AtenNode, build: Build) -> SSAValue:
    """A matrix with the last axis as a diagonal, zeros elsewhere."""
    x, offset = node.operand("self"), node.integer("offset", build, 0)
    rank = build.rank(x) + 1
    (size,) = build.sizes(x, [rank - 2], "a diagonal")
    width = size + abs(offset)
    is_on = np.eye(width, k=offset, dtype=np.bool_)
    padded = x
    if offset:
        low, high = [0] * (rank - 1), [0] * (rank - 1)
        (low if offset > 0 else high)[-1] = abs(offset)
        padded = build.padded(x, low, high)
    spread = build.unsqueeze(padded, [rank - 2])
    matrix = build.select(build.weight(is_on), spread, build.scalar_like(0, x))
    axes = [build.axis(node.integer(n, build, d), rank) for n, d in (("dim1", -2), ("dim2", -1))]
    rows, columns = (rank - 2, rank - 1)
    order: list[int] = [-1] * rank
    order[axes[0]], order[axes[1]] = rows, columns
    rest = iter(range(rank - 2))
    return build.transpose(matrix, [next(rest) if axis < 0 else axis for axis in order])


def diag(node: AtenNode, build: Build) -> SSAValue:
    """A vector as a diagonal, or a matrix' diagonal."""
    x = node.operand("self")
    offset = node.integer("diagonal", build, 0)
    if build.rank(x) == 1:
        (size,) = build.sizes(x, [0], "a diagonal")
        is_on = build.weight(np.eye(size + abs(offset), k=offset, dtype=np.bool_))
        low, high = ([abs(offset)], [0]) if offset > 0 else ([0], [abs(offset)])
        row = build.unsqueeze(build.padded(x, low, high), [0])
        return build.select(is_on, row, build.scalar_like(0, x))
    rows, columns = build.sizes(x, [0, 1], "a diagonal")
    places = [r * columns + r + offset for r in range(rows) if 0 <= r + offset < columns]
    return build.gather(build.reshape(x, [-1]), np.array(places, np.int64), 0)


def triangle(node: AtenNode, build: Build) -> SSAValue:
    """Zeros above (tril) or below (triu) a diagonal of the last two axes."""
    x, offset = node.operand("self"), node.integer("diagonal", build, 0)
    rank = build.rank(x)
    rows, columns = build.sizes(x, [rank - 2, rank - 1], "a triangle")
    full = np.ones((rows, columns), np.bool_)
    kept = np.tril(full, offset) if "tril" in node.call.target else np.triu(full, offset)
    return build.select(build.weight(kept), x, build.scalar_like(0, x))


def unfold(node: AtenNode, build: Build) -> SSAValue:
    """Parts of an axis, each `step` behind the one before, as a new last axis."""
    x = node.operand("self")
    rank = build.rank(x)
    width, step = node.integer("size", build), node.integer("step", build)
    if not rank:  # a number has one part: itself, or nothing of it
        return build.slices(build.reshape(x, [1]), {0: (0, width, 1)})
    axis = build.axis(node.integer("dimension", build), rank)
    (size,) = build.sizes(x, [axis], "parts that overlap")
    starts = np.arange(0, size - width + 1, step)
    places = starts[:, np.newaxis] + np.arange(width)
    gathered = build.gather(x, places, axis)
    order = [a for a in range(rank + 1) if a != axis + 1]
    return build.transpose(gathered, [*order, axis + 1])


def strided(node: AtenNode, build: Build) -> SSAValue:
    """Elements by steps through the tensor as a row, which has to be the file's own order."""
    x = node.operand("self")
    sizes, steps = node.integers("size", build), node.integers("stride", build)
    known = build.sizes(x, range(build.rank(x)), "strides")
    count = int(np.prod(known))
    places = np.full((), node.integer("storage_offset", build, 0))
    for size, step in zip(sizes, steps, strict=True):
        places = places[..., np.newaxis] + np.arange(size) * step
    if places.size and int(places.max()) >= count:
        raise Unsupported("strides through more than the tensor itself")
    if places.size == count and (places.reshape(-1) == np.arange(count)).all():
        return build.reshape(x, list(sizes))
    return build.gather(build.reshape(x, [-1]), places, 0)


# -- joining ---------------------------------------------------------------------------------------


def cat(node: AtenNode, build: Build) -> SSAValue:
    """Tensors one behind the other along an axis, in one element type."""
    tensors = _of_one_type(node, build)
    kept = [t for t in tensors if build.shape(t) != (0,)] or tensors[:1]
    axis = build.axis(node.integer("dim", build, 0), build.rank(kept[0]))
    return build.concat(kept, axis)


def stack(node: AtenNode, build: Build) -> SSAValue:
    """Tensors side by side along a new axis."""
    tensors = _of_one_type(node, build)
    axis = build.axis(node.integer("dim", build, 0), build.rank(tensors[0]) + 1)
    return build.concat([build.unsqueeze(t, [axis]) for t in tensors], axis)


def stack_axis(node: AtenNode, build: Build) -> SSAValue:
    """Rows, columns or planes beside each other (hstack, vstack, dstack, column_stack)."""
    kind = node.call.target.removeprefix("aten.")
    tensors = _of_one_type(node, build)
    least = {"hstack": 1, "vstack": 2, "dstack": 3, "column_stack": 2}[kind]
    full = [_at_least(t, least, kind, build) for t in tensors]
    axis = {"hstack": 0 if build.rank(full[0]) == 1 else 1, "vstack": 0, "dstack": 2}.get(kind, 1)
    return build.concat(full, axis)


def _at_least(x: SSAValue, rank: int, kind: str, build: Build) -> SSAValue:
    own = build.rank(x)
    if own >= rank:
        return x
    if kind == "column_stack":
        return build.reshape(x, [-1, 1])
    if own == 0:
        return build.reshape(x, [1] * rank)
    sizes = build.all_sizes(x)
    if own == 1:
        return build.reshape(x, {1: sizes, 2: [1, *sizes], 3: [1, *sizes, 1]}[rank])
    return build.reshape(x, [*sizes, 1])


def at_least(node: AtenNode, build: Build) -> SSAValue:
    """With axes of size 1 until there are 1, 2 or 3."""
    rank = int(node.call.target.split("_")[1][0])
    return _at_least(node.operand("self"), rank, "", build)


def meshgrid(node: AtenNode, build: Build) -> list[SSAValue]:
    """Each vector along an axis of its own, repeated along those of the others."""
    tensors = [build.reshape(t, [-1]) for t in node.tensors("tensors")]
    swaps = node.text("indexing", "ij") == "xy" and len(tensors) > 1
    order = [1, 0, *range(2, len(tensors))] if swaps else list(range(len(tensors)))
    sizes = [build.all_sizes(tensors[axis])[0] for axis in order]
    found = []
    for number, tensor in enumerate(tensors):
        shape: list[Size] = [1] * len(tensors)
        shape[order.index(number)] = -1
        found.append(build.expand(build.reshape(tensor, shape), sizes))
    return found


def diagonal_blocks(node: AtenNode, build: Build) -> SSAValue:
    """Matrices along the diagonal of a larger one, zeros elsewhere."""
    blocks = [_at_least(t, 2, "vstack", build) for t in _of_one_type(node, build)]
    widths = [build.sizes(block, [1], "blocks")[0] for block in blocks]
    rows = [
        build.padded(block, [0, sum(widths[:i])], [0, sum(widths[i + 1 :])])
        for i, block in enumerate(blocks)
    ]
    return build.concat(rows, 0)


def sum_to_size(node: AtenNode, build: Build) -> SSAValue:
    """Summed along the axes that a shape would broadcast."""
    x, sizes = node.operand("self"), node.integers("size", build)
    extra = build.rank(x) - len(sizes)
    x = build.reduce("sum", x, range(extra))
    axes = [a for a, size in enumerate(sizes) if size == 1 and build.size(x, a) != 1]
    return build.reduce("sum", x, axes, True)


def all_at_least(node: AtenNode, build: Build) -> list[SSAValue]:
    """Each tensor with axes of size 1 until there are 1, 2 or 3."""
    rank = int(node.call.target.split("_")[1][0])
    return [_at_least(tensor, rank, "", build) for tensor in node.tensors("tensors")]


def _of_one_type(node: AtenNode, build: Build) -> list[SSAValue]:
    tensors = node.tensors("tensors")
    if not tensors:
        raise ValueError("no tensors to join")
    dtype = build.dtype(tensors[0])
    for tensor in tensors[1:]:
        dtype = promoted_types(dtype, build.dtype(tensor))
    return [build.cast(tensor, dtype) for tensor in tensors]


def repeat(node: AtenNode, build: Build) -> SSAValue:
    """The whole tensor so many times along each axis."""
    x, counts = (
        node.operand("self"),
        node.integers("repeats" if node.has("repeats") else "dims", build),
    )
    rank = max(len(counts), build.rank(x))
    counts = [*[1] * (rank - len(counts)), *counts]
    sizes = [*[1] * (rank - build.rank(x)), *build.all_sizes(x)]
    x = build.reshape(x, sizes) if len(sizes) != build.rank(x) else x
    for axis, count in enumerate(counts):
        if count == 0:
            x = build.slice(x, axis, 0, 0)
        elif count > 1:
            x = build.concat([x] * count, axis)
    return x


def repeat_each(node: AtenNode, build: Build) -> SSAValue:
    """Each element so many times, one behind the other."""
    x = node.operand("self")
    if not node.has("dim"):
        x = build.reshape(x, [-1])
    axis = build.axis(node.integer("dim", build, 0), build.rank(x))
    (size,) = build.sizes(x, [axis], "elements that are repeated")
    repeats = node.argument("repeats")
    if isinstance(repeats, Ref) and repeats.name not in node.numbers:
        counts = np.array(
            build.integers(node.operand("repeats"), "how often elements are repeated")
        )
        counts = np.broadcast_to(counts, (size,))
    else:
        counts = np.full(size, node.integer("repeats", build))
    return build.gather(x, np.repeat(np.arange(size), counts), axis)


def flip(node: AtenNode, build: Build) -> SSAValue:
    """Some axes backwards."""
    x = node.operand("self")
    rank = build.rank(x)
    listed = {"fliplr": [1], "flipud": [0]}.get(node.call.target.removeprefix("aten."))
    axes = listed if listed is not None else node.integers("dims", build)
    return (
        build.slices(x, dict.fromkeys(build.axes(axes, rank), (-1, -TO_THE_END, -1))) if axes else x
    )


def roll(node: AtenNode, build: Build) -> SSAValue:
    """Elements that leave an axis at its end come in at its beginning."""
    x = node.operand("self")
    shape = build.all_sizes(x)
    axes = node.integers("dims", build, [])
    shifts = node.integers("shifts", build)
    flat = not axes
    if flat:
        x, axes = build.reshape(x, [-1]), [0]
    for axis, shift in zip(axes, shifts, strict=True):
        axis = build.axis(axis, build.rank(x))
        (size,) = build.sizes(x, [axis], "elements that go round")
        if size and shift % size:
            cut = size - shift % size
            x = build.concat([build.slice(x, axis, cut, size), build.slice(x, axis, 0, cut)], axis)
    return build.reshape(x, shape) if flat else x


def rotate(node: AtenNode, build: Build) -> SSAValue:
    """A plane of two axes, turned by quarters."""
    x, turns = node.operand("self"), node.integer("k", build, 1) % 4
    rank = build.rank(x)
    first, second = (build.axis(a, rank) for a in node.integers("dims", build, [0, 1]))
    order = list(range(rank))
    order[first], order[second] = second, first

    def backwards(value: SSAValue, *axes: int) -> SSAValue:
        return build.slices(value, dict.fromkeys(axes, (-1, -TO_THE_END, -1)))

    if turns == 1:
        return build.transpose(backwards(x, second), order)
    if turns == 2:
        return backwards(x, first, second)
    return backwards(build.transpose(x, order), second) if turns == 3 else x


# -- padding ---------------------------------------------------------------------------------------


def pad(node: AtenNode, build: Build) -> SSAValue:
    """Elements around: of a value, or copies of what is inside. Pads begin with the last axis."""
    x, pads = node.operand("self"), node.integers("pad" if node.has("pad") else "padding", build)
    target = node.call.target.removeprefix("aten.")
    mode = node.text("mode", target.split("_")[0] if target != "pad" else "constant")
    rank = build.rank(x)
    if len(pads) % 2 or len(pads) > 2 * rank:
        raise ValueError(f"pads {pads} of a tensor with {rank} axes")
    low, high = [0] * rank, [0] * rank
    for index in range(len(pads) // 2):
        low[rank - 1 - index], high[rank - 1 - index] = pads[2 * index : 2 * index + 2]
    if mode == "constant":
        value = node.number("value", 0.0)
        cut = {
            axis: (max(-a, 0), min(b, 0) or TO_THE_END, 1)
            for axis, (a, b) in enumerate(zip(low, high, strict=True))
            if a < 0 or b < 0
        }
        x = build.slices(x, cut) if cut else x
        return build.padded(x, [max(a, 0) for a in low], [max(b, 0) for b in high], value)
    for axis in range(rank):
        if low[axis] or high[axis]:
            (size,) = build.sizes(x, [axis], "padding with what is inside")
            x = build.gather(x, _copied(size, low[axis], high[axis], mode), axis)
    return x


def _copied(size: int, low: int, high: int, mode: str) -> np.ndarray:
    """Places of the elements that a padded axis consists of."""
    places = np.arange(-low, size + high)
    if mode in ("replicate", "replication"):
        return np.clip(places, 0, size - 1)
    if mode == "circular":
        return places % size
    if mode not in ("reflect", "reflection"):
        raise Unsupported(f"mode {mode!r}")
    places = np.abs(places)
    return np.where(places >= size, 2 * (size - 1) - places, places)


# -- blocks ----------------------------------------------------------------------------------------


def pixel_shuffle(node: AtenNode, build: Build) -> SSAValue:
    """Channels become blocks of pixels."""
    x, block = node.operand("self"), node.integer("upscale_factor", build)
    rank = build.rank(x)
    channels, height, width = build.sizes(x, range(rank - 3, rank), "blocks of pixels")
    rest = build.all_sizes(x)[: rank - 3]
    split = build.reshape(x, [*rest, channels // block**2, block, block, height, width])
    n = rank - 3
    moved = build.transpose(split, [*range(n), n, n + 3, n + 1, n + 4, n + 2])
    return build.reshape(moved, [*rest, channels // block**2, height * block, width * block])


def pixel_unshuffle(node: AtenNode, build: Build) -> SSAValue:
    """Blocks of pixels become channels."""
    x, block = node.operand("self"), node.integer("downscale_factor", build)
    rank = build.rank(x)
    channels, height, width = build.sizes(x, range(rank - 3, rank), "blocks of pixels")
    rest = build.all_sizes(x)[: rank - 3]
    rows, columns = height // block, width // block
    split = build.reshape(x, [*rest, channels, rows, block, columns, block])
    n = rank - 3
    moved = build.transpose(split, [*range(n), n, n + 2, n + 4, n + 1, n + 3])
    return build.reshape(moved, [*rest, channels * block**2, rows, columns])


def channel_shuffle(node: AtenNode, build: Build) -> SSAValue:
    """Channels of groups, one of each in turn."""
    x, groups = node.operand("self" if node.has("self") else "input"), node.integer("groups", build)
    (channels,) = build.sizes(x, [1], "groups of channels")
    batch, *rest = build.all_sizes(x)
    split = build.reshape(x, [batch, groups, channels // groups, *rest[1:]])
    order = [0, 2, 1, *range(3, build.rank(x) + 1)]
    return build.reshape(build.transpose(split, order), [batch, *rest])


# -- element types ---------------------------------------------------------------------------------


def convert(node: AtenNode, build: Build) -> SSAValue:
    """In another element type, where one is asked for."""
    x = node.operand("self")
    if node.has("other"):
        return build.cast(x, build.dtype(node.operand("other")))
    dtype = node.dtype()
    return x if dtype is None else build.cast(x, dtype)


def view_bits(node: AtenNode, build: Build) -> SSAValue:
    """The same bits as elements of another type."""
    x, dtype = node.operand("self"), node.dtype()
    if dtype is None or dtype.itemsize != build.dtype(x).itemsize:
        raise Undecided("bits of an element type of another size")
    return build.value(BitcastOp, [x], to=element_type_from_numpy(dtype))


CONVERTERS = {
    **dict.fromkeys(
        (
            "alias",
            "detach",
            "detach_",
            "lift_fresh",
            "lift_fresh_copy",
            "contiguous",
            "clone",
            "requires_grad_",
            "positive",
            "resolve_conj",
            "resolve_neg",
            "alias_copy",
            "detach_copy",
            "lift",
            "_conj",
            "conj",
            "conj_physical",
            "real",
            "view_as_real_copy",
            "_lazy_clone",
        ),
        same,
    ),
    "view": view,
    "view_copy": view,
    "reshape": view,
    "_unsafe_view": view,
    "_reshape_copy": view,
    "view_as": view_as,
    "reshape_as": view_as,
    "flatten.using_ints": flatten,
    "ravel": flatten,
    "unflatten.int": unflatten,
    **dict.fromkeys(
        (f"{n}{o}" for n in ("squeeze", "squeeze_copy") for o in ("", ".dim", ".dims")), squeeze
    ),
    "unsqueeze": unsqueeze,
    "unsqueeze_copy": unsqueeze,
    "expand": expand,
    "expand_copy": expand,
    "broadcast_to": expand,
    "expand_as": expand_as,
    "broadcast_tensors": broadcast_all,
    "transpose.int": transpose,
    "transpose_copy.int": transpose,
    "swapaxes": transpose,
    "swapdims": transpose,
    "t": reversed_axes,
    "t_copy": reversed_axes,
    "numpy_T": reversed_axes,
    "mT": matrix_transpose,
    "mH": matrix_transpose,
    "adjoint": matrix_transpose,
    "permute": permute,
    "permute_copy": permute,
    "movedim.int": move_axes,
    "movedim.intlist": move_axes,
    "moveaxis.int": move_axes,
    "moveaxis.intlist": move_axes,
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
    "unbind.int": unbind,
    "unbind_copy.int": unbind,
    "diagonal": diagonal,
    "diagonal_copy": diagonal,
    "linalg_diagonal": diagonal,
    "diag_embed": diagonal_matrix,
    "diag": diag,
    "tril": triangle,
    "triu": triangle,
    "as_strided": strided,
    "as_strided_copy": strided,
    "unfold": unfold,
    "unfold_copy": unfold,
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
    **{f"atleast_{d}d.Sequence": all_at_least for d in (1, 2, 3)},
    "meshgrid": meshgrid,
    "meshgrid.indexing": meshgrid,
    "block_diag": diagonal_blocks,
    "sum_to_size": sum_to_size,
    "repeat": repeat,
    "tile": repeat,
    "repeat_interleave.self_int": repeat_each,
    "repeat_interleave.self_Tensor": repeat_each,
    "flip": flip,
    "fliplr": flip,
    "flipud": flip,
    "roll": roll,
    "rot90": rotate,
    "pad": pad,
    "constant_pad_nd": pad,
    **dict.fromkeys(
        (f"{n}_pad{d}d" for n in ("reflection", "replication") for d in (1, 2, 3)), pad
    ),
    "pixel_shuffle": pixel_shuffle,
    "pixel_unshuffle": pixel_unshuffle,
    "channel_shuffle": channel_shuffle,
    "native_channel_shuffle": channel_shuffle,
    **dict.fromkeys(
        (
            "to.dtype",
            "to.dtype_layout",
            "to.device",
            "to.other",
            "to.prim_Device",
            "type_as",
            "_to_copy",
            "_cast_Float",
        ),
        convert,
    ),
    "view.dtype": view_bits,
    "view_copy.dtype": view_bits,
}
