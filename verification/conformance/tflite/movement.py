"""Random models of operators that move elements."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from verification.conformance.tflite.drawing import Draw, Drawn
from verification.conformance.tflite.models import TensorOf

TYPES = ("float32", "int32", "int8", "uint8")


def moved_operand(draw: Draw, rank: int | None = None, types: tuple[str, ...] = TYPES) -> TensorOf:
    return draw.tensor("x", draw.shape(rank), draw.choice(*types))


def reshape(draw: Draw) -> Drawn:
    x = moved_operand(draw)
    shape = tuple(int(size) for size in draw.random.permutation(x.shape)) + (1,) * draw.flag()
    return Drawn(
        inputs=[x, draw.constant("s", shape)],
        results=[draw.like(x, "y", shape)],
        options="ReshapeOptions",
    )


def expand_dims(draw: Draw) -> Drawn:
    x = moved_operand(draw)
    axis = draw.axis(len(x.shape) + 1)
    shape = list(x.shape)
    shape.insert(axis % (len(shape) + 1), 1)
    return Drawn(inputs=[x, draw.constant("a", axis)], results=[draw.like(x, "y", shape)])


def squeeze(draw: Draw) -> Drawn:
    x = moved_operand(draw)
    x = draw.like(x, "x", (1, *x.shape))
    return Drawn(
        inputs=[x],
        results=[draw.like(x, "y", x.shape[1:])],
        options="SqueezeOptions",
        values={"SqueezeDims": [draw.choice(0, -len(x.shape))]},
    )


def transpose(draw: Draw) -> Drawn:
    x = moved_operand(draw)
    order = draw.random.permutation(len(x.shape))
    shape = [x.shape[axis] for axis in order]
    return Drawn(inputs=[x, draw.constant("p", order)], results=[draw.like(x, "y", shape)])


def concatenation(draw: Draw) -> Drawn:
    shape, dtype = draw.shape(), draw.choice(*TYPES)
    axis = draw.axis(len(shape))
    first = draw.tensor("x0", shape, dtype)
    parts, total = [first], shape[axis]
    for index in range(1, draw.integer(2, 3)):
        sizes = list(shape)
        sizes[axis] = draw.integer(1, 5)
        total += sizes[axis]
        other = draw.tensor(f"x{index}", sizes, dtype)
        parts.append(other if dtype == "uint8" else draw.like(first, f"x{index}", sizes))
    result = list(shape)
    result[axis] = total
    return Drawn(
        inputs=parts,
        results=[draw.like(first, "y", result)],
        options="ConcatenationOptions",
        values={"Axis": axis},
    )


def pack(draw: Draw) -> Drawn:
    x = moved_operand(draw, draw.integer(1, 3))
    count, axis = draw.integer(1, 3), draw.axis(len(x.shape) + 1)
    shape = list(x.shape)
    shape.insert(axis % (len(shape) + 1), count)
    return Drawn(
        inputs=[draw.like(x, f"x{i}", x.shape) for i in range(count)],
        results=[draw.like(x, "y", shape)],
        options="PackOptions",
        values={"Axis": axis, "ValuesCount": count},
    )


def unpack(draw: Draw) -> Drawn:
    x = moved_operand(draw, draw.integer(1, 4))
    axis, count = draw.axis(len(x.shape)), draw.integer(1, 3)
    shape = list(x.shape)
    rest = list(shape)
    shape[axis] = count
    del rest[axis]
    x = draw.like(x, "x", shape)
    return Drawn(
        inputs=[x],
        results=[draw.like(x, f"y{i}", rest) for i in range(count)],
        options="UnpackOptions",
        values={"Axis": axis, "Num": count},
    )


def split(draw: Draw) -> Drawn:
    x = moved_operand(draw)
    axis, count = draw.axis(len(x.shape)), draw.integer(1, 3)
    shape = list(x.shape)
    shape[axis] *= count
    return Drawn(
        inputs=[draw.constant("a", axis), draw.like(x, "x", shape)],
        results=[draw.like(x, f"y{i}", x.shape) for i in range(count)],
        options="SplitOptions",
        values={"NumSplits": count},
    )


def split_v(draw: Draw) -> Drawn:
    x = moved_operand(draw)
    axis = draw.axis(len(x.shape))
    sizes = [draw.integer(1, 4) for _ in range(draw.integer(1, 3))]
    shape, results = list(x.shape), []
    shape[axis] = sum(sizes)
    for index, size in enumerate(sizes):
        part = list(shape)
        part[axis] = size
        results.append(draw.like(x, f"y{index}", part))
    if draw.flag():
        sizes[draw.integer(0, len(sizes) - 1)] = -1
    return Drawn(
        inputs=[
            draw.like(x, "x", shape), draw.constant("s", sizes), draw.constant("a", axis),
        ],
        results=results,
        options="SplitVOptions",
        values={"NumSplits": len(sizes)},
    )  # fmt: skip


def pad(draw: Draw) -> Drawn:
    x = moved_operand(draw, types=("float32", "int8", "uint8"))
    amounts = draw.random.integers(0, 3, (len(x.shape), 2))
    shape = np.array(x.shape) + amounts.sum(1)
    inputs = [x, draw.constant("p", amounts)]
    if draw.kind == "PADV2":
        if x.element_type == "float32":
            inputs.append(draw.floats("v", (1,)))
        else:
            value = np.full((1,), draw.integer(3, 90), x.element_type)
            inputs.append(TensorOf(name="v", shape=(1,), element_type=x.element_type,
                                   scales=x.scales, zeros=x.zeros, data=value))  # fmt: skip
    return Drawn(inputs=inputs, results=[draw.like(x, "y", shape.tolist())])


def mirror_pad(draw: Draw) -> Drawn:
    x = moved_operand(draw)
    mode = draw.integer(0, 1)
    most = np.minimum(np.array(x.shape) - (mode == 0), 3)[:, np.newaxis]
    amounts = draw.random.integers(0, most + 1, (len(x.shape), 2))
    shape = np.array(x.shape) + amounts.sum(1)
    return Drawn(
        inputs=[x, draw.constant("p", amounts)],
        results=[draw.like(x, "y", shape.tolist())],
        options="MirrorPadOptions",
        values={"Mode": mode},
    )


def slice_(draw: Draw) -> Drawn:
    x = moved_operand(draw)
    begins = [draw.integer(0, size - 1) for size in x.shape]
    sizes = [draw.integer(1, n - b) for n, b in zip(x.shape, begins, strict=True)]
    said = [-1 if b + s == n and draw.flag() else s
            for n, b, s in zip(x.shape, begins, sizes, strict=True)]  # fmt: skip
    return Drawn(
        inputs=[x, draw.constant("b", begins), draw.constant("s", said)],
        results=[draw.like(x, "y", sizes)],
    )


def strided_slice(draw: Draw) -> Drawn:
    """Bounds from the front or the back, left out by masks, beyond the ends, backwards."""
    x = moved_operand(draw)
    masks = {"BeginMask": 0, "EndMask": 0, "ShrinkAxisMask": 0}
    begins, ends, steps, shape = [], [], [], []
    for axis, size in enumerate(x.shape):
        begin, end = draw.integer(-size, size - 1), draw.integer(-size - 1, size + 1)
        step = draw.choice(1, 1, 2, -1, -2)
        if draw.integer(0, 5) == 0:
            masks["ShrinkAxisMask"] |= 1 << axis
            step = 1
        else:
            has_begin, has_end = draw.flag(), draw.flag()
            masks["BeginMask"] |= (not has_begin) << axis
            masks["EndMask"] |= (not has_end) << axis
            bounds = slice(begin if has_begin else None, end if has_end else None, step)
            count = len(range(*bounds.indices(size)))
            if not count:
                begin, step = 0, 1
                masks["BeginMask"] |= 1 << axis
                masks["EndMask"] |= 1 << axis
                count = size
            shape.append(count)
        begins.append(begin)
        ends.append(end)
        steps.append(step)
    named = zip("bes", (begins, ends, steps), strict=True)
    return Drawn(
        inputs=[x, *(draw.constant(name, values) for name, values in named)],
        results=[draw.like(x, "y", shape)],
        options="StridedSliceOptions",
        values=masks,
    )


def tile(draw: Draw) -> Drawn:
    x = moved_operand(draw)
    counts = [draw.integer(1, 3) for _ in x.shape]
    shape = [size * count for size, count in zip(x.shape, counts, strict=True)]
    return Drawn(inputs=[x, draw.constant("n", counts)], results=[draw.like(x, "y", shape)])


def reverse(draw: Draw) -> Drawn:
    x = moved_operand(draw)
    axes = [draw.axis(len(x.shape))]
    return Drawn(inputs=[x, draw.constant("a", axes)], results=[draw.like(x, "y", x.shape)])


def of_shapes(draw: Draw) -> Drawn:
    """SHAPE and RANK."""
    x = moved_operand(draw)
    values = {"OutType": 2} if draw.kind == "SHAPE" else {}
    result = (len(x.shape),) if draw.kind == "SHAPE" else ()
    return Drawn(
        inputs=[x],
        results=[draw.tensor("y", result, "int32")],
        options=f"{draw.kind.capitalize()}Options",
        values=values,
    )


def fill(draw: Draw) -> Drawn:
    shape, dtype = draw.shape(), draw.choice("float32", "int32", "int64")
    value = draw.tensor("v", (), dtype)
    return Drawn(inputs=[draw.constant("s", shape), value], results=[draw.like(value, "y", shape)])


def broadcast_to(draw: Draw) -> Drawn:
    x = moved_operand(draw, types=("float32", "int32"))
    shape = x.shape
    x = draw.like(x, "x", draw.broadcast(shape))
    return Drawn(inputs=[x, draw.constant("s", shape)], results=[draw.like(x, "y", shape)])


def broadcast_args(draw: Draw) -> Drawn:
    shape = draw.shape()
    parts = [draw.constant("a", shape), draw.constant("b", draw.broadcast(shape))]
    return Drawn(inputs=parts, results=[draw.tensor("y", (len(shape),), "int32")])


def space(draw: Draw) -> Drawn:
    """SPACE_TO_DEPTH and DEPTH_TO_SPACE."""
    batch, height, width, depth = draw.shape(4)
    block, dtype = draw.integer(1, 3), draw.choice(*TYPES)
    fine = (batch, height * block, width * block, depth)
    coarse = (batch, height, width, depth * block * block)
    source, to = (fine, coarse) if draw.kind == "SPACE_TO_DEPTH" else (coarse, fine)
    x = draw.tensor("x", source, dtype)
    name = "SpaceToDepthOptions" if draw.kind == "SPACE_TO_DEPTH" else "DepthToSpaceOptions"
    return Drawn(
        inputs=[x], results=[draw.like(x, "y", to)], options=name, values={"BlockSize": block}
    )


def batches(draw: Draw) -> Drawn:
    """SPACE_TO_BATCH_ND and BATCH_TO_SPACE_ND, each the other backwards."""
    batch, height, width, depth = draw.shape(4)
    blocks = [draw.integer(1, 3), draw.integer(1, 3)]
    edges = draw.random.integers(0, 2, (2, 2))
    inner = [size * block for size, block in zip((height, width), blocks, strict=True)]
    cut = [size - int(edge.sum()) for size, edge in zip(inner, edges, strict=True)]
    if min(cut) < 1:
        edges[:] = 0
        cut = inner
    whole = (batch, *cut, depth)
    parts = (batch * prod(blocks), height, width, depth)
    source, to = (whole, parts) if draw.kind == "SPACE_TO_BATCH_ND" else (parts, whole)
    x = draw.tensor("x", source, draw.choice("float32", "int32", "int8", "uint8"))
    return Drawn(
        inputs=[x, draw.constant("b", blocks), draw.constant("e", edges)],
        results=[draw.like(x, "y", to)],
    )


def range_(draw: Draw) -> Drawn:
    start, count, step = draw.integer(-9, 9), draw.integer(1, 300), draw.choice(-3, -1, 1, 2)
    dtype = draw.choice("float32", "int32")
    numbers = (start, start + count * step, step)
    parts = [draw.constant(n, v, dtype) for n, v in zip("abc", numbers, strict=True)]
    return Drawn(inputs=parts, results=[draw.tensor("y", (count,), dtype)], options="RangeOptions")


def interior(draw: Draw) -> Drawn:
    """DILATE and STABLEHLO_PAD."""
    x = moved_operand(draw, types=("float32", "int32"))
    value = draw.constant("v", draw.integer(-3, 3), x.element_type)
    sizes, between = np.array(x.shape), draw.random.integers(0, 3, len(x.shape))
    spread = sizes + (sizes - 1) * between
    if draw.kind == "DILATE":
        return Drawn(
            inputs=[x, draw.constant("n", between + 1), value],
            results=[draw.like(x, "y", spread.tolist())],
        )
    low, high = draw.random.integers(-1, 3, (2, len(sizes)))
    low, high = (np.where(spread < 3, np.maximum(edge, 0), edge) for edge in (low, high))
    names = ("EdgePaddingLow", "EdgePaddingHigh", "InteriorPadding")
    return Drawn(
        inputs=[x, value],
        results=[draw.like(x, "y", (spread + low + high).tolist())],
        options="StablehloPadOptions",
        values=dict(zip(names, (low, high, between), strict=True)),
    )


DRAWS: dict[str, Callable[[Draw], Drawn]] = {
    "RESHAPE": reshape, "EXPAND_DIMS": expand_dims, "SQUEEZE": squeeze, "TRANSPOSE": transpose,
    "CONCATENATION": concatenation, "PACK": pack, "UNPACK": unpack, "SPLIT": split,
    "SPLIT_V": split_v, "PAD": pad, "PADV2": pad, "MIRROR_PAD": mirror_pad, "SLICE": slice_,
    "STRIDED_SLICE": strided_slice, "TILE": tile, "REVERSE_V2": reverse, "SHAPE": of_shapes,
    "RANK": of_shapes, "FILL": fill, "BROADCAST_TO": broadcast_to,
    "BROADCAST_ARGS": broadcast_args, "SPACE_TO_DEPTH": space, "DEPTH_TO_SPACE": space,
    "SPACE_TO_BATCH_ND": batches, "BATCH_TO_SPACE_ND": batches, "RANGE": range_,
    "DILATE": interior, "STABLEHLO_PAD": interior,
}  # fmt: skip
