"""Operators that move elements: what they do to quantized numbers they do to what is stored."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from explorer.importers.building.build import Build, Unsupported
from explorer.importers.building.expr import Expr
from explorer.importers.tflite.operators.node import TfliteNode, kind_of
from explorer.importers.tflite.operators.schemes import rounded_away
from explorer.importers.tflite.operators.tables import looked_up
from explorer.ir.top.indexing import GatherOp
from explorer.ir.top.movement.reshape import ReshapeOp
from explorer.ir.top.shapes import RangeOp, ShapeOp
from explorer.ir.types import QuantizedType


def reshape(node: TfliteNode, build: Build) -> Expr:
    """The same elements in another shape: the second operand's, or the option's without one."""
    x = node.operand(0, build)
    if not node.has(1):
        return x.reshape(node.integers("new_shape"))
    known = build.knowledge.integers(node.plain(1))
    if known is not None:
        return x.reshape(known)
    return build.value(ReshapeOp, [x, node.plain(1).astype(np.int64)])


def expand_dims(node: TfliteNode, build: Build) -> Expr:
    """A new axis of size 1."""
    x = node.operand(0, build)
    (axis,) = node.integers_of(1, "the new axis", build)
    return x.unsqueeze([axis])


def squeeze(node: TfliteNode, build: Build) -> Expr:
    """Without some axes of size 1, or all of them."""
    x = node.operand(0, build)
    axes = node.integers("squeeze_dims")
    if not axes:
        shape = x.sizes(range(x.rank), "a squeeze of all axes")
        axes = [axis for axis, size in enumerate(shape) if size == 1]
    return x.squeeze(axes)


def transpose(node: TfliteNode, build: Build) -> Expr:
    """The axes in another order."""
    x = node.operand(0, build)
    order = node.integers_of(1, "the order of axes", build)
    return x.transpose([build.axis(axis, x.rank) for axis in order])


def concatenation(node: TfliteNode, build: Build) -> Expr:
    """Tensors one behind the other; quantized ones of other scales in the result's first."""
    parts = [_rescaled(node, index, build) for index in range(len(node.given))]
    return build.concat(parts, build.axis(node.integer("axis"), parts[0].rank))


def _rescaled(node: TfliteNode, index: int, build: Build) -> Expr:
    x, kind, to = node.operand(index, build), kind_of(node.tensor(index)), node.result_kind
    if kind == to or kind is None or to is None:
        return x
    if node.result.element_type != "uint8":
        raise Unsupported("numbers of different scales, which the kernel joins as they are stored")
    return looked_up(node, x, to, _as_concatenated, build)


def _as_concatenated(
    node: TfliteNode, numbers: np.ndarray, source: QuantizedType, to: QuantizedType
) -> np.ndarray:
    """round(x * scale + bias) + zero point, in single precision.

    Source: tensorflow/lite/kernels/internal/reference/concatenation.h, `ConcatenationWithScaling`.
    """
    scale = source.scale_array[0] * (np.float32(1) / to.scale_array[0])
    bias = np.float32(-int(source.zero_point_array[0])) * scale
    moved = rounded_away(numbers.astype(np.float32) * scale + bias)
    return moved.astype(np.int64) + int(to.zero_point_array[0])


def pack(node: TfliteNode, build: Build) -> Expr:
    """Tensors of one shape side by side along a new axis."""
    parts = [node.operand(index, build) for index in range(len(node.given))]
    axis = build.axis(node.integer("axis"), parts[0].rank + 1)
    return build.concat([part.unsqueeze([axis]) for part in parts], axis)


def unpack(node: TfliteNode, build: Build) -> Sequence[Expr]:
    """The slices of an axis, without it."""
    x = node.operand(0, build)
    axis = build.axis(node.integer("axis"), x.rank)
    (size,) = x.sizes([axis], "slices of an axis")
    return [x.slice(axis, i, i + 1).squeeze([axis]) for i in range(size)]


def split(node: TfliteNode, build: Build) -> Sequence[Expr]:
    """Equal parts of an axis, which is the first operand."""
    x = node.operand(1, build)
    axis = build.axis(node.integers_of(0, "the axis", build)[0], x.rank)
    count = len(node.file.outputs)
    (size,) = x.sizes([axis], "parts of an axis")
    if size % count:
        raise ValueError(f"{size} slices in {count} equal parts")
    return _parts(x, axis, [size // count] * count)


def split_v(node: TfliteNode, build: Build) -> Sequence[Expr]:
    """Parts of an axis of given sizes; one may be -1, the rest."""
    x = node.operand(0, build)
    sizes = node.integers_of(1, "sizes of parts", build)
    axis = build.axis(node.integers_of(2, "the axis", build)[0], x.rank)
    (whole,) = x.sizes([axis], "parts of an axis")
    if -1 in sizes:
        sizes[sizes.index(-1)] = whole - sum(sizes) - 1
    if sum(sizes) != whole or min(sizes) < 0:
        raise ValueError(f"parts of {sizes} slices of {whole}")
    return _parts(x, axis, sizes)


def _parts(x: Expr, axis: int, sizes: Sequence[int]) -> list[Expr]:
    ends = np.cumsum(sizes).tolist()
    return [x.slice(axis, e - s, e) for s, e in zip(sizes, ends, strict=True)]


def pad(node: TfliteNode, build: Build) -> Expr:
    """Elements around those of the operand: zero, or the number of the third operand."""
    x = node.operand(0, build)
    amounts = np.array(node.integers_of(1, "padding", build)).reshape(-1, 2)
    kind = kind_of(node.tensor(0))
    value = 0.0 if kind is None else float(kind.zero_point_array[0])
    if node.has(2):
        value = build.scalar(node.plain(2), "what is padded with")
    if amounts.min(initial=0) < 0:
        raise ValueError(f"padding of {amounts.tolist()} elements")
    low, high = amounts[:, 0].tolist(), amounts[:, 1].tolist()
    return x.pad(low, high, value)


def mirror_pad(node: TfliteNode, build: Build) -> Expr:
    """Elements of the operand, mirrored, around it; the edge itself with mode SYMMETRIC."""
    x = node.operand(0, build)
    amounts = np.array(node.integers_of(1, "padding", build)).reshape(-1, 2)
    mode = "reflect" if node.options.get("mode", "REFLECT") == "REFLECT" else "symmetric"
    for axis, (low, high) in enumerate(amounts.tolist()):
        if not low and not high:
            continue
        (size,) = x.sizes([axis], "mirrored padding")
        most = size - 1 if mode == "reflect" else size
        if not 0 <= min(low, high) <= max(low, high) <= most:
            raise ValueError(f"{low} and {high} mirrored elements of {size}")
        x = x.take(np.pad(np.arange(size), (low, high), mode), axis)
    return x


def slice_(node: TfliteNode, build: Build) -> Expr:
    """A block of given begin and size; -1 reaches to the end."""
    x = node.operand(0, build)
    begins = node.integers_of(1, "where a slice begins", build)
    sizes = node.integers_of(2, "the size of a slice", build)
    known = x.sizes(range(x.rank), "a slice")
    bounds = {}
    for axis, (begin, size, whole) in enumerate(zip(begins, sizes, known, strict=True)):
        stop = whole if size == -1 else begin + size
        if not 0 <= begin <= stop <= whole:
            raise ValueError(f"elements {begin} to {stop} of {whole}")
        bounds[axis] = (begin, stop, 1)
    return x.slices(bounds)


def strided_slice(node: TfliteNode, build: Build) -> Expr:
    """Python's slices: bits of the masks leave bounds out, drop axes or make new ones."""
    x = node.operand(0, build)
    begins, ends, steps = (
        node.integers_of(index, "the bounds of a slice", build) for index in (1, 2, 3)
    )
    if node.integer("offset"):
        ends = [begin + size for begin, size in zip(begins, ends, strict=True)]
    masks = {
        name: node.integer(f"{name}_mask")
        for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
    }
    bounds: dict[int, tuple[int, int, int]] = {}
    dropped, added, axis = [], [], 0
    rank = x.rank
    taken = sum(1 for i in range(len(begins)) if not _bits(masks, i, "ellipsis", "new_axis"))
    for index, (begin, end, step) in enumerate(zip(begins, ends, steps, strict=True)):
        if _bits(masks, index, "ellipsis"):
            axis += rank - taken
            continue
        if _bits(masks, index, "new_axis"):
            added.append(axis - len(dropped) + len(added))
            continue
        (size,) = x.sizes([axis], "a slice")
        first = None if _bits(masks, index, "begin") else begin
        last = None if _bits(masks, index, "end") else end
        if _bits(masks, index, "shrink_axis"):
            if not -size <= begin < size:
                raise ValueError(f"element {begin} of {size}")
            first, last, step = begin % size, begin % size + 1, 1
            dropped.append(axis)
        bounds[axis] = _in_numbers(slice(first, last, step), size)
        axis += 1
    y = x.slices(bounds) if bounds else x
    y = y.squeeze(dropped) if dropped else y
    return y.unsqueeze(added) if added else y


def _bits(masks: dict[str, int], index: int, *names: str) -> bool:
    return any((masks[name] >> index) & 1 for name in names)


def _in_numbers(bounds: slice, size: int) -> tuple[int, int, int]:
    """Python's slice as `top.slice` has it: a stop before the first element is -size - 1."""
    start, stop, step = bounds.indices(size)
    return start, (-size - 1 if stop < 0 else stop), step


def tile(node: TfliteNode, build: Build) -> Expr:
    """The whole tensor several times along each axis."""
    x = node.operand(0, build)
    for axis, count in enumerate(node.integers_of(1, "how often", build)):
        x = build.concat([x] * count, axis) if count != 1 else x
    return x


def gather(node: TfliteNode, build: Build) -> Expr:
    """Slices of an axis at given positions."""
    x = node.operand(0, build)
    if node.integer("batch_dims"):
        raise Unsupported("a gather for each of several batches")
    axis = build.axis(node.integer("axis"), x.rank)
    return build.value(GatherOp, [x, node.plain(1).astype(np.int64)], axis=axis)


def shape(node: TfliteNode, build: Build) -> Expr:
    """The sizes of all axes."""
    return build.value(ShapeOp, [node.plain(0)]).astype(np.dtype(node.result.element_type))


def rank(node: TfliteNode, build: Build) -> Expr:
    """The number of axes."""
    return build.weight(np.array(node.plain(0).rank, np.int32))


def fill(node: TfliteNode, build: Build) -> Expr:
    """One number in every place of a shape."""
    sizes = node.integers_of(0, "a shape", build)
    return node.operand(1, build).broadcast_to(sizes)


def broadcast_to(node: TfliteNode, build: Build) -> Expr:
    """Repeated along axes of size 1 to a shape."""
    return node.operand(0, build).broadcast_to(node.integers_of(1, "a shape", build))


def broadcast_args(node: TfliteNode, build: Build) -> Expr:
    """The shape that two shapes broadcast to."""
    shapes = [node.integers_of(index, "a shape", build) for index in (0, 1)]
    found = np.broadcast_shapes(*map(tuple, shapes))
    return build.weight(np.array(found, node.result.element_type))


def range_(node: TfliteNode, build: Build) -> Expr:
    """Numbers from a start to a limit by a step."""
    operands = [node.plain(index).reshape([]) for index in range(3)]
    return build.value(RangeOp, operands)


def reverse(node: TfliteNode, build: Build) -> Expr:
    """Axes from their end to their beginning."""
    x = node.operand(0, build)
    bounds = {}
    for axis in build.axes(node.integers_of(1, "axes", build), x.rank):
        (size,) = x.sizes([axis], "a reversed axis")
        bounds[axis] = _in_numbers(slice(None, None, -1), size)
    return x.slices(bounds)


def space_to_batch(node: TfliteNode, build: Build) -> Expr:
    """Every b-th row and column as an image of its own, after padding."""
    x = node.operand(0, build)
    blocks = node.integers_of(1, "blocks", build)
    amounts = np.array(node.integers_of(2, "padding", build)).reshape(-1, 2)
    kind = kind_of(node.tensor(0))
    value = 0.0 if kind is None else float(kind.zero_point_array[0])
    rest = [0] * (x.rank - 1 - len(blocks))
    low, high = ([0, *amounts[:, end].tolist(), *rest] for end in (0, 1))
    x = x.pad(low, high, value)
    batch, *sizes = x.sizes(range(x.rank), "blocks")
    spatial, behind = sizes[: len(blocks)], sizes[len(blocks) :]
    if any(size % block for size, block in zip(spatial, blocks, strict=True)):
        raise ValueError(f"images of {spatial} in blocks of {blocks}")
    cut = [n for s, b in zip(spatial, blocks, strict=True) for n in (s // b, b)]
    split_up = x.reshape([batch, *cut, *behind])
    count = len(blocks)
    inner = [2 + 2 * axis for axis in range(count)]
    outer = [1 + 2 * axis for axis in range(count)]
    order = [*inner, 0, *outer, *range(1 + 2 * count, 1 + 2 * count + len(behind))]
    moved = split_up.transpose(order)
    quotients = [s // b for s, b in zip(spatial, blocks, strict=True)]
    return moved.reshape([batch * int(np.prod(blocks)), *quotients, *behind])


def batch_to_space(node: TfliteNode, build: Build) -> Expr:
    """Images that are every b-th row and column of one as that one, then cut at its edges."""
    x = node.operand(0, build)
    blocks = node.integers_of(1, "blocks", build)
    cuts = np.array(node.integers_of(2, "cuts", build)).reshape(-1, 2)
    batch, *sizes = x.sizes(range(x.rank), "blocks")
    spatial, behind = sizes[: len(blocks)], sizes[len(blocks) :]
    count, whole = len(blocks), int(np.prod(blocks))
    if batch % whole:
        raise ValueError(f"{batch} images in blocks of {blocks}")
    split_up = x.reshape([*blocks, batch // whole, *spatial, *behind])
    pairs = [n for axis in range(count) for n in (count + 1 + axis, axis)]
    order = [count, *pairs, *range(2 * count + 1, 2 * count + 1 + len(behind))]
    moved = split_up.transpose(order)
    sizes = [s * b for s, b in zip(spatial, blocks, strict=True)]
    y = moved.reshape([batch // whole, *sizes, *behind])
    bounds = {
        1 + axis: (low, size - high, 1)
        for axis, (size, (low, high)) in enumerate(zip(sizes, cuts.tolist(), strict=True))
        if low or high
    }
    return y.slices(bounds) if bounds else y


def space_to_depth(node: TfliteNode, build: Build) -> Expr:
    """Blocks of pixels as one pixel of more channels."""
    x, block = node.operand(0, build), node.integer("block_size", 1)
    batch, height, width, depth = x.sizes(range(4), "blocks of pixels")
    split_up = x.reshape([batch, height // block, block, width // block, block, depth])
    moved = split_up.transpose([0, 1, 3, 2, 4, 5])
    return moved.reshape([batch, height // block, width // block, block * block * depth])


def depth_to_space(node: TfliteNode, build: Build) -> Expr:
    """Channels of one pixel as a block of pixels."""
    x, block = node.operand(0, build), node.integer("block_size", 1)
    batch, height, width, depth = x.sizes(range(4), "blocks of pixels")
    split_up = x.reshape([batch, height, width, block, block, depth // block**2])
    moved = split_up.transpose([0, 1, 3, 2, 4, 5])
    return moved.reshape([batch, height * block, width * block, depth // block**2])


CONVERTERS = {
    "RESHAPE": reshape,
    "EXPAND_DIMS": expand_dims,
    "SQUEEZE": squeeze,
    "TRANSPOSE": transpose,
    "CONCATENATION": concatenation,
    "PACK": pack,
    "UNPACK": unpack,
    "SPLIT": split,
    "SPLIT_V": split_v,
    "PAD": pad,
    "PADV2": pad,
    "MIRROR_PAD": mirror_pad,
    "SLICE": slice_,
    "STRIDED_SLICE": strided_slice,
    "TILE": tile,
    "GATHER": gather,
    "SHAPE": shape,
    "RANK": rank,
    "FILL": fill,
    "BROADCAST_TO": broadcast_to,
    "RANGE": range_,
    "BROADCAST_ARGS": broadcast_args,
    "REVERSE_V2": reverse,
    "SPACE_TO_BATCH_ND": space_to_batch,
    "BATCH_TO_SPACE_ND": batch_to_space,
    "SPACE_TO_DEPTH": space_to_depth,
    "DEPTH_TO_SPACE": depth_to_space,
}
