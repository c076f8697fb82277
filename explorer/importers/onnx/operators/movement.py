"""Movement: reshapes, transposes, slices, pads, gathers; the same numbers in another place."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from explorer.importers.building.attention_scores import counted
from explorer.importers.building.build import Undecided
from explorer.importers.building.expr import Expr, Size
from explorer.importers.onnx.operators.computed_axes import squeeze_by_data, unsqueeze_by_data
from explorer.importers.onnx.program.build import Build
from explorer.importers.onnx.program.nodes import Node, Unsupported, converts
from explorer.ir.top.elementwise import SelectOp
from explorer.ir.top.indexing import GatherElementsOp, GatherNdOp, GatherOp
from explorer.ir.top.movement.pad import PadOp, fill_properties
from explorer.ir.top.movement.reshape import ReshapeOp
from explorer.ir.top.movement.slices import TO_THE_END, SliceOp

_BEYOND_ANY_AXIS = 10**8
"""Exporters write "to the end" as 10**9, 2**31 - 1 or 2**63 - 1."""

# -- shape ---------------------------------------------------------------------------------------


@converts("Reshape", until=4)
def reshape_by_attribute(node: Node, build: Build) -> Expr:
    return _reshape(node.operand(0), node.integers("shape") or (), False)


@converts("Reshape", since=5)
def reshape(node: Node, build: Build) -> Expr:
    x, target = node.operand(0), node.operand(1)
    allow_zero = bool(node.integer("allowzero", 0))
    sizes = build.stored(target)
    if sizes is None:
        return build.value(ReshapeOp, [x, target], allow_zero=allow_zero or None)
    if sizes.ndim != 1:
        raise ValueError(f"the shape is a tensor with {sizes.ndim} axes, one expected")
    return _reshape(x, [int(s) for s in sizes], allow_zero)


@converts("Flatten")
def flatten(node: Node, build: Build) -> Expr:
    """Two axes: what is before `axis`, and the rest."""
    x = node.operand(0)
    shape = x.shape
    axis = node.integer("axis", 1)
    axis = axis + len(shape) if axis < 0 else axis
    for part, position in ((shape[axis:], 1), (shape[:axis], 0)):
        known = [size for size in part if isinstance(size, int)]
        if len(known) == len(part) and 0 not in known:
            size = int(np.prod(known, dtype=np.int64))
            return x.reshape([-1, size] if position else [size, -1])
    if axis == 1:
        return x.reshape([x.dim(0), -1])
    raise Undecided(f"axis {axis} of the shape {shape}: give symbolic dimensions a size")


@converts("Squeeze", until=12)
def squeeze_by_attribute(node: Node, build: Build) -> Expr:
    return _squeeze(node.operand(0), node.integers("axes"), build)


@converts("Squeeze", since=13)
def squeeze(node: Node, build: Build) -> Expr:
    x, axes = node.operand(0), node.optional(1)
    if axes is None:
        return _squeeze(x, None, build)
    listed = build.knowledge.integers(axes)
    return squeeze_by_data(x, axes, build) if listed is None else _squeeze(x, listed, build)


@converts("Unsqueeze", until=12)
def unsqueeze_by_attribute(node: Node, build: Build) -> Expr:
    return node.operand(0).unsqueeze(node.integers("axes") or ())


@converts("Unsqueeze", since=13)
def unsqueeze(node: Node, build: Build) -> Expr:
    x, axes = node.operand(0), node.operand(1)
    listed = build.knowledge.integers(axes)
    return unsqueeze_by_data(x, axes, build) if listed is None else x.unsqueeze(listed)


@converts("Transpose")
def transpose(node: Node, build: Build) -> Expr:
    x = node.operand(0)
    order = node.integers("perm") or tuple(reversed(range(x.rank)))
    return x.transpose(order)


@converts("DepthToSpace")
def depth_to_space(node: Node, build: Build) -> Expr:
    """Channels become blocks of pixels: DCR counts the block first, CRD the channel."""
    x, block = node.operand(0), node.integer("blocksize")
    (channels,) = x.sizes([1], "DepthToSpace")
    height, width = x.dim(2), x.dim(3)
    if block < 1 or channels % block**2:
        raise ValueError(f"{channels} channels are no blocks of {block} x {block}")
    outer, batch = channels // block**2, x.dim(0)
    if node.text("mode", "DCR") == "DCR":
        split = x.reshape([batch, block, block, outer, height, width])
        moved = split.transpose([0, 3, 4, 1, 5, 2])
    else:
        split = x.reshape([batch, outer, block, block, height, width])
        moved = split.transpose([0, 1, 4, 2, 5, 3])
    sizes = [build.times(size, block) for size in (height, width)]
    return moved.reshape([batch, outer, *sizes])


@converts("SpaceToDepth")
def space_to_depth(node: Node, build: Build) -> Expr:
    """Blocks of pixels become channels, which count the block first (DCR) or the channel (CRD)."""
    x, block = node.operand(0), node.integer("blocksize")
    channels, height, width = x.sizes([1, 2, 3], "SpaceToDepth")
    if block < 1 or height % block or width % block:
        raise ValueError(f"{height} x {width} pixels are no blocks of {block} x {block}")
    rows, columns, batch = height // block, width // block, x.dim(0)
    split = x.reshape([batch, channels, rows, block, columns, block])
    is_block_first = node.text("mode", "DCR") == "DCR"
    moved = split.transpose([0, 3, 5, 1, 2, 4] if is_block_first else [0, 1, 3, 5, 2, 4])
    return moved.reshape([batch, channels * block**2, rows, columns])


def _reshape(x: Expr, sizes: Sequence[int], allow_zero: bool) -> Expr:
    """0 stands for the operand's size, unless `allow_zero`."""
    rank = x.rank
    if any(size == 0 and axis >= rank for axis, size in enumerate(sizes)) and not allow_zero:
        raise ValueError(f"shape {list(sizes)} copies a size that the operand does not have")
    chosen: list[Size] = [
        x.dim(axis) if size == 0 and not allow_zero else size for axis, size in enumerate(sizes)
    ]
    return x.reshape(chosen)


def _squeeze(x: Expr, axes: Sequence[int] | None, build: Build) -> Expr:
    """Without axes all of size 1 go."""
    if axes is None:
        known = x.sizes(range(x.rank), "a squeeze without axes")
        axes = [axis for axis, size in enumerate(known) if size == 1]
    for axis in axes:
        if x.size(axis) not in (1, None):
            raise ValueError(f"axis {axis} has size {build.size(x, axis)}, not 1")
    return x.squeeze(axes)


# -- parts ---------------------------------------------------------------------------------------


@converts("Concat")
def concat(node: Node, build: Build) -> Expr:
    operands = node.given()
    return build.concat(operands, build.axis(node.integer("axis", 1), operands[0].rank))


@converts("Split", until=12)
def split_by_attribute(node: Node, build: Build) -> Sequence[Expr]:
    return _split(node, node.integers("split"), build)


@converts("Split", since=13)
def split(node: Node, build: Build) -> Sequence[Expr]:
    sizes = node.optional(1)
    return _split(node, None if sizes is None else build.integers(sizes, "the sizes"), build)


@converts("Slice", until=9)
def slice_by_attributes(node: Node, build: Build) -> Expr:
    x = node.operand(0)
    starts, stops = node.integers("starts") or (), node.integers("ends") or ()
    axes = node.integers("axes") or tuple(range(len(starts)))
    return _slice(x, starts, stops, axes, [1] * len(starts), build)


@converts("Slice", since=10)
def slice_by_operands(node: Node, build: Build) -> Expr:
    x, starts, stops, steps = (node.optional(index) for index in (0, 1, 2, 4))
    if x is None or starts is None or stops is None:
        raise ValueError("an operand is missing")
    rank, count = x.rank, starts.sizes([0], "a slice")[0]
    axes = node.optional(3)
    listed = range(count) if axes is None else build.integers(axes, "the list of axes")
    stored = [build.stored(bound) for bound in (starts, stops)]
    steps_known = [1] * count if steps is None else build.stored(steps)
    if stored[0] is None or stored[1] is None or steps_known is None:
        normalized = [build.axis(axis, rank) for axis in listed]
        bounds = [None if b is None else b.astype(np.int64) for b in (starts, stops, steps)]
        return build.value(SliceOp, [x, *bounds], axes=normalized)
    numbers = [[int(i) for i in b] for b in (stored[0], stored[1], steps_known)]
    return _slice(x, numbers[0], numbers[1], listed, numbers[2], build)


@converts("Gather")
def gather(node: Node, build: Build) -> Expr:
    x, indices = node.operand(0), node.operand(1)
    axis = build.axis(node.integer("axis", 0), x.rank)
    return build.value(GatherOp, [x, indices], axis=axis)


@converts("GatherElements", since=11)
def gather_elements(node: Node, build: Build) -> Expr:
    x, indices = node.operand(0), node.operand(1)
    axis = build.axis(node.integer("axis", 0), x.rank)
    return build.value(GatherElementsOp, [x, indices], axis=axis)


@converts("GatherND", since=11)
def gather_nd(node: Node, build: Build) -> Expr:
    operands = [node.operand(0), node.operand(1)]
    return build.value(GatherNdOp, operands, batch_dims=node.integer("batch_dims", 0))


@converts("Trilu", since=14)
def triangle(node: Node, build: Build) -> Expr:
    """A mask chooses between the operand and zero; a constant one where all sizes are known."""
    x, shift = node.operand(0), node.optional(1)
    shift = build.weight(np.array(0, np.int64)) if shift is None else shift.reshape([])
    distance = counted(x, x.rank - 1, build) - counted(x, x.rank - 2, build).unsqueeze([1])
    mask = distance >= shift if node.integer("upper", 1) else distance <= shift
    known = build.knowledge.array(mask)
    mask = mask if known is None else build.weight(known)
    return build.value(SelectOp, [mask, x, x.constant(0)])


def _split(node: Node, sizes: Sequence[int] | None, build: Build) -> Sequence[Expr]:
    x = node.operand(0)
    axis = build.axis(node.integer("axis", 0), x.rank)
    if sizes is None:
        count = node.integer("num_outputs", len(node.results))
        if count != len(node.results):
            raise ValueError(f"num_outputs is {count}, but the node has {len(node.results)}")
        (size,) = x.sizes([axis], "a split into equal parts")
        part = -(-size // count)
        sizes = [max(min(part, size - begin * part), 0) for begin in range(count)]
    elif min(sizes, default=0) < 0 or len(sizes) != len(node.results):
        raise ValueError(
            f"parts {list(sizes)} for {len(node.results)} outputs: a size of 0 or more for each"
        )
    elif x.size(axis) not in (sum(sizes), None):
        raise ValueError(f"parts {list(sizes)} of an axis with {build.size(x, axis)} elements")
    ends = accumulate(sizes)
    return [x.slice(axis, end - s, end) for s, end in zip(sizes, ends, strict=True)]


def _slice(
    x: Expr,
    starts: Sequence[int],
    stops: Sequence[int],
    axes: Sequence[int],
    steps: Sequence[int],
    build: Build,
) -> Expr:
    bounds = {}
    for axis, start, stop, step in zip(axes, starts, stops, steps, strict=True):
        axis = build.axis(axis, x.rank)
        size = x.size(axis)
        if step == 0:
            raise ValueError("a slice with step 0")
        if step < 0:
            stop = _backward_stop(stop, size)
        elif stop >= (_BEYOND_ANY_AXIS if size is None else size):
            stop = TO_THE_END
        bounds[axis] = (start, stop, step)
    return x.slices(bounds)


def _backward_stop(stop: int, size: int | None) -> int:
    """Where a slice with a negative step ends: ONNX counts from the end, -1 is before element 0."""
    if stop >= 0:
        return stop
    if size is None:
        if stop <= -(2**31):
            return -1
        raise Undecided("a slice backwards of an axis whose size is not known")
    return max(stop + size, -1)


# -- pads ----------------------------------------------------------------------------------------


@converts("Pad", until=10)
def pad_by_attributes(node: Node, build: Build) -> Expr:
    amounts = node.integers("pads") or node.integers("paddings") or ()
    return _pad(node, amounts, node.number("value", 0.0), build)


@converts("Pad", since=11)
def pad(node: Node, build: Build) -> Expr:
    x, amounts = node.operand(0), node.operand(1)
    fill, axes = node.optional(2), node.optional(3)
    value = 0.0 if fill is None else build.scalar(fill, "the value of a pad")
    stored = build.stored(amounts)
    is_constant = node.text("mode", "constant") == "constant"
    if stored is None and axes is None and is_constant:
        known = build.knowledge.integers(amounts)
        if known is None or min(known) >= 0:
            return build.value(PadOp, [x, amounts], **fill_properties(value))
    numbers = build.integers(amounts, "the amounts of a pad")
    if axes is not None:
        numbers = _spread(numbers, build.integers(axes, "the list of axes"), x.rank, build)
    return _pad(node, numbers, value, build)


def _spread(amounts: Sequence[int], axes: Sequence[int], rank: int, build: Build) -> list[int]:
    """Amounts of some axes as amounts of all."""
    begins, ends = [0] * rank, [0] * rank
    for position, axis in enumerate(axes):
        begins[build.axis(axis, rank)] = amounts[position]
        ends[build.axis(axis, rank)] = amounts[len(axes) + position]
    return [*begins, *ends]


def _pad(node: Node, amounts: Sequence[int], value: float, build: Build) -> Expr:
    """Negative amounts cut, first of all; modes other than `constant` gather what is left, axis by
    axis."""
    x = node.operand(0)
    rank = x.rank
    if len(amounts) != 2 * rank:
        raise ValueError(f"{len(amounts)} amounts for {rank} dimensions")
    mode = node.text("mode", "constant")
    low, high = amounts[:rank], amounts[rank:]
    for axis, size in enumerate(x.shape):
        if isinstance(size, int) and size + low[axis] + high[axis] < 0:
            raise ValueError(
                f"pads {low[axis]} and {high[axis]} take more from axis {axis} than its {size} "
                "elements"
            )
    cuts = {
        axis: (max(-low[axis], 0), min(high[axis], 0) or TO_THE_END, 1)
        for axis in range(rank)
        if low[axis] < 0 or high[axis] < 0
    }
    if cuts:
        x = x.slices(cuts)
    low, high = ([max(n, 0) for n in amounts] for amounts in (low, high))
    if mode == "constant":
        return x.pad(low, high, value)
    for axis in range(rank):
        if low[axis] or high[axis]:
            x = _bordered(x, axis, mode, low[axis], high[axis], build)
    return x


def _bordered(x: Expr, axis: int, mode: str, low: int, high: int, build: Build) -> Expr:
    """Elements of the axis itself before and behind it.

    Where its size is not known they are counted from its ends, once around at most: the gathers
    then ask for an axis that is long enough.
    """
    size = x.size(axis)
    if size is not None:
        return x.take(_border(mode, size, low, high), axis)
    before, behind = np.arange(-low, 0), np.arange(high)
    ends = {
        "edge": (before * 0, behind * 0 - 1),
        "wrap": (before, behind),
        "reflect": (-before, -2 - behind),
    }
    if mode not in ends:
        raise Unsupported(f"pads in mode {mode!r}")
    first, last = (x.take(indices, axis) for indices in ends[mode])
    return build.concat([v for v, n in ((first, low), (x, 1), (last, high)) if n], axis)


def _border(mode: str, size: int, low: int, high: int) -> np.ndarray:
    """Positions in the operand that the padded axis shows."""
    positions = np.arange(-low, size + high)
    if mode == "edge":
        return np.clip(positions, 0, size - 1)
    if mode == "wrap":
        return positions % size
    if mode != "reflect":
        raise Unsupported(f"pads in mode {mode!r}")
    if size < 2:
        raise Unsupported("a reflecting pad of a single element")
    period = 2 * (size - 1)
    folded = positions % period
    return np.where(folded < size, folded, period - folded)
