"""Movement: the same numbers under another shape or in another place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from explorer.importers.building.attention_scores import counted_to, length
from explorer.importers.building.build import Build, Undecided, Unsupported
from explorer.importers.building.expr import Axis, Expr, Size, maximum, minimum, where
from explorer.importers.pytorch.operators.node import AtenNode
from explorer.ir.top.casting import BitcastOp
from explorer.ir.top.movement.slices import TO_THE_END
from explorer.ir.types import element_type_from_numpy

# -- shapes ----------------------------------------------------------------------------------------


def same(node: AtenNode, build: Build) -> Expr:
    """The tensor itself: what is copied has no meaning here."""
    del build
    return node.operand(node.first())


def view(node: AtenNode, build: Build) -> Expr:
    """The same elements, in row-major order, under another shape."""
    sizes = node.sizes("size" if node.has("size") else "shape")
    return node.operand("self").reshape(sizes)


def view_as(node: AtenNode, build: Build) -> Expr:
    """The same elements under the shape of another tensor."""
    return node.operand("self").reshape(node.operand("other").all_sizes())


def flatten(node: AtenNode, build: Build) -> Expr:
    """Some axes as one."""
    x = node.operand("self")
    rank = x.rank
    if not rank:
        return x.reshape([1])
    first = build.axis(node.integer("start_dim", build, 0), rank)
    return joined_axes(x, first, build.axis(node.integer("end_dim", build, -1), rank))


def joined_axes(x: Expr, first: int, last: int) -> Expr:
    """The axes from the first to the last as one."""
    sizes = x.all_sizes()
    known = [x.size(axis) for axis in range(first, last + 1)]
    numbers = [size for size in known if size is not None]
    middle: Size = int(np.prod(numbers)) if len(numbers) == len(known) else -1
    return x.reshape([*sizes[:first], middle, *sizes[last + 1 :]])


def unflatten(node: AtenNode, build: Build) -> Expr:
    """One axis as several."""
    x = node.operand("self")
    axis = build.axis(node.integer("dim", build), x.rank)
    sizes = x.all_sizes()
    return x.reshape([*sizes[:axis], *node.sizes("sizes"), *sizes[axis + 1 :]])


def squeeze(node: AtenNode, build: Build) -> Expr:
    """Without axes of size 1: all of them, or some."""
    x = node.operand("self")
    rank = x.rank
    asked = node.integers("dim", build, range(rank)) if rank else []
    axes = [axis for axis in build.axes(asked, rank) if x.size(axis) == 1]
    return x.squeeze(axes) if axes else x


def unsqueeze(node: AtenNode, build: Build) -> Expr:
    """A new axis of size 1."""
    return node.operand("self").unsqueeze([node.integer("dim", build)])


def expand(node: AtenNode, build: Build) -> Expr:
    """Repeated along axes of size 1 and new leading ones; -1 keeps a size."""
    x, sizes = node.operand("self"), node.sizes("size")
    missing = len(sizes) - x.rank
    kept = [
        x.dim(axis - missing) if isinstance(size, int) and size == -1 else size
        for axis, size in enumerate(sizes)
    ]
    return expanded(x, kept)


def expand_as(node: AtenNode, build: Build) -> Expr:
    """Repeated to the shape of another tensor."""
    return expanded(node.operand("self"), node.operand("other").all_sizes())


def expanded(x: Expr, sizes: Sequence[Size]) -> Expr:
    """x itself where it has the shape already."""
    known = x.all_sizes()
    if len(known) == len(sizes) and all(
        (isinstance(s, Axis) and s == k) or (isinstance(s, int) and s == x.size(k.axis))
        for s, k in zip(sizes, known, strict=True)
        if isinstance(k, Axis)
    ):
        return x
    return x.broadcast_to(sizes)


def broadcast_all(node: AtenNode, build: Build) -> list[Expr]:
    """Tensors in the shape that all of them broadcast to."""
    tensors = node.tensors("tensors")
    shapes = [t.sizes(range(t.rank), "a common shape") for t in tensors]
    shape = list(np.broadcast_shapes(*map(tuple, shapes)))
    return [expanded(t, shape) for t in tensors]


def transpose(node: AtenNode, build: Build) -> Expr:
    """Two axes change places."""
    x = node.operand("self")
    rank = x.rank
    if not rank:
        return x
    names = ("dim0", "dim1") if node.has("dim0") else ("axis0", "axis1")
    first, second = (build.axis(node.integer(name, build), rank) for name in names)
    order = list(range(rank))
    order[first], order[second] = second, first
    return x.transpose(order)


def matrix_transpose(node: AtenNode, build: Build) -> Expr:
    """Rows become columns: the last two axes change places."""
    x = node.operand("self")
    rank = x.rank
    return x if rank < 2 else x.transpose([*range(rank - 2), rank - 1, rank - 2])


def reversed_axes(node: AtenNode, build: Build) -> Expr:
    """All axes in the opposite order."""
    x = node.operand("self")
    return x.transpose(list(reversed(range(x.rank))))


def permute(node: AtenNode, build: Build) -> Expr:
    """Axes in another order."""
    x = node.operand("self")
    rank = x.rank
    return x.transpose([build.axis(a, rank) for a in node.integers("dims", build)])


def move_axes(node: AtenNode, build: Build) -> Expr:
    """Some axes at other places; the rest keep their order."""
    x = node.operand("self")
    rank = x.rank
    sources = [build.axis(a, rank) for a in node.integers("source", build)]
    targets = [build.axis(a, rank) for a in node.integers("destination", build)]
    order = [axis for axis in range(rank) if axis not in sources]
    for target, source in sorted(zip(targets, sources, strict=True)):
        order.insert(target, source)
    return x.transpose(order)


def half_turned(node: AtenNode, build: Build) -> Expr:
    """What stands first along axes comes to their middle, or back: halves change places."""
    x = node.operand("self")
    axes = node.integers("dim", build, range(x.rank))
    for axis in build.axes(axes, x.rank):
        (size,) = x.sizes([axis], "halves")
        half = size // 2 if "ifft" in node.call.target else -(size // 2)
        x = x.take((np.arange(size) + half) % max(size, 1), axis)
    return x


# -- padding ---------------------------------------------------------------------------------------


def pad(node: AtenNode, build: Build) -> Expr:
    """Elements around: of a value, or copies of what is inside. Pads begin with the last axis."""
    x, pads = node.operand("self"), node.integers("pad" if node.has("pad") else "padding", build)
    target = node.call.target.removeprefix("aten.")
    mode = node.text("mode", target.split("_")[0] if target != "pad" else "constant")
    rank = x.rank
    if len(pads) % 2 or len(pads) > 2 * rank:
        raise ValueError(f"pads {pads} of a tensor with {rank} axes")
    low, high = [0] * rank, [0] * rank
    for index in range(len(pads) // 2):
        low[rank - 1 - index], high[rank - 1 - index] = pads[2 * index : 2 * index + 2]
    if mode == "constant":
        value = node.scalar("value", 0.0)
        cut = {
            axis: (max(-a, 0), min(b, 0) or TO_THE_END, 1)
            for axis, (a, b) in enumerate(zip(low, high, strict=True))
            if a < 0 or b < 0
        }
        x = x.slices(cut) if cut else x
        return x.pad([max(a, 0) for a in low], [max(b, 0) for b in high], value)
    for axis in range(rank):
        if low[axis] or high[axis]:
            x = x.take(_copied(x, axis, low[axis], high[axis], mode, build), axis)
    return x


def _copied(x: Expr, axis: int, low: int, high: int, mode: str, build: Build) -> np.ndarray | Expr:
    """Places of the elements that a padded axis consists of."""
    size = x.size(axis)
    if mode == "circular" and min(low, high) < 0:  # what is cut off is no part of the circle
        (size,) = x.sizes([axis], "padding with a part of what is inside")
        inside = np.arange(max(-low, 0), size - max(-high, 0))
        return inside[np.arange(-max(low, 0), len(inside) + max(high, 0)) % len(inside)]
    if size is not None:
        return _inside(np.arange(-low, size + high), size, mode, np.where)
    size = length(x, axis, build)
    places = _inside(counted_to(size + (low + high), build) - low, size, mode, where)
    return minimum(maximum(places, 0), size - 1)


def _inside(places: Any, size: Any, mode: str, pick: Callable[..., Any]) -> Any:
    """Places around an axis, as places of elements that it has: numbers, or computed ones."""
    if mode in ("replicate", "replication"):
        places = pick(places < 0, 0, places)
        return pick(places >= size, size - 1, places)
    if mode == "circular":
        return (places + size) % size
    if mode not in ("reflect", "reflection"):
        raise Unsupported(f"mode {mode!r}")
    places = abs(places)
    return pick(places >= size, (size - 1) * 2 - places, places)


# -- blocks ----------------------------------------------------------------------------------------


def pixel_shuffle(node: AtenNode, build: Build) -> Expr:
    """Channels become blocks of pixels."""
    x, block = node.operand("self"), node.integer("upscale_factor", build)
    rank = x.rank
    (channels,) = x.sizes([rank - 3], "blocks of pixels")
    *rest, _, height, width = x.all_sizes()
    split = x.reshape([*rest, channels // block**2, block, block, height, width])
    n = rank - 3
    moved = split.transpose([*range(n), n, n + 3, n + 1, n + 4, n + 2])
    sizes = [build.times(size, block) for size in (height, width)]
    return moved.reshape([*rest, channels // block**2, *sizes])


def pixel_unshuffle(node: AtenNode, build: Build) -> Expr:
    """Blocks of pixels become channels."""
    x, block = node.operand("self"), node.integer("downscale_factor", build)
    rank = x.rank
    (channels,) = x.sizes([rank - 3], "blocks of pixels")
    rest = x.all_sizes()[: rank - 3]
    if None in (x.size(rank - 2), x.size(rank - 1)):
        each = (TO_THE_END, block)
        parts = [
            x.slices({rank - 2: (row, *each), rank - 1: (column, *each)})
            for row in range(block)
            for column in range(block)
        ]
        stacked = build.concat([part.unsqueeze([rank - 2]) for part in parts], rank - 2)
        return stacked.reshape([*rest, channels * block**2, *parts[0].all_sizes()[rank - 2 :]])
    height, width = x.sizes([rank - 2, rank - 1], "blocks of pixels")
    rows, columns = height // block, width // block
    split = x.reshape([*rest, channels, rows, block, columns, block])
    n = rank - 3
    moved = split.transpose([*range(n), n, n + 2, n + 4, n + 1, n + 3])
    return moved.reshape([*rest, channels * block**2, rows, columns])


def channel_shuffle(node: AtenNode, build: Build) -> Expr:
    """Channels of groups, one of each in turn."""
    x, groups = node.operand("self" if node.has("self") else "input"), node.integer("groups", build)
    (channels,) = x.sizes([1], "groups of channels")
    batch, *rest = x.all_sizes()
    split = x.reshape([batch, groups, channels // groups, *rest[1:]])
    order = [0, 2, 1, *range(3, x.rank + 1)]
    return split.transpose(order).reshape([batch, *rest])


# -- element types ---------------------------------------------------------------------------------


def convert(node: AtenNode, build: Build) -> Expr:
    """In another element type, where one is asked for."""
    x = node.operand("self")
    if node.has("other"):
        return x.astype(node.operand("other").dtype)
    dtype = node.dtype()
    return x if dtype is None else x.astype(dtype)


def view_bits(node: AtenNode, build: Build) -> Expr:
    """The same bits as elements of another type."""
    x, dtype = node.operand("self"), node.dtype()
    if dtype is None or dtype.itemsize != x.dtype.itemsize:
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
    "matrix_H": matrix_transpose,
    "fft_fftshift": half_turned,
    "fft_ifftshift": half_turned,
    "adjoint": matrix_transpose,
    "permute": permute,
    "permute_copy": permute,
    "movedim.int": move_axes,
    "movedim.intlist": move_axes,
    "moveaxis.int": move_axes,
    "moveaxis.intlist": move_axes,
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
