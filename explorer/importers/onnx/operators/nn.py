"""Convolutions and matrix products."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from xdsl.ir import SSAValue

from explorer.importers.onnx.operators.windows import Window, window_of
from explorer.importers.onnx.program.build import Build
from explorer.importers.onnx.program.nodes import Node, converts
from explorer.ir.top.determinant import DeterminantOp
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.movement.pad import PadOp


@converts("Conv")
def conv(node: Node, build: Build) -> SSAValue:
    x, weight, bias = node.operand(0), node.operand(1), node.optional(2)
    sizes = build.sizes(weight, range(2, build.rank(weight)), "a convolution")
    window = window_of(node, x, sizes, build)
    return _conv(x, weight, bias, window, node.integer("group", 1), build)


@converts("ConvTranspose")
def conv_transpose(node: Node, build: Build) -> SSAValue:
    """A convolution with mirrored filters over the input with zeros between its elements.

    Dumoulin and Visin, "A guide to convolution arithmetic for deep learning", 2016, section 4.
    """
    x, weight, bias = node.operand(0), node.operand(1), node.optional(2)
    filters = build.known(weight, "the weight of a transposed convolution")
    group = node.integer("group", 1)
    window, extra = _transposed_window(node, x, filters.shape[2:], build)
    rank = window.rank
    low = [window.reach(a) - 1 - window.begins[a] for a in range(rank)]
    high = [window.reach(a) - 1 - window.ends[a] + extra[a] for a in range(rank)]
    spread = build.value(
        PadOp,
        [x, None],
        low=[0, 0, *(max(n, 0) for n in low)],
        high=[0, 0, *(max(n, 0) for n in high)],
        interior=[0, 0, *(stride - 1 for stride in window.strides)],
        value=0.0,
    )
    if min(*low, *high) < 0:  # pads larger than the window cut elements off
        ends = {2 + a: (max(-low[a], 0), min(high[a], 0), 1) for a in range(rank)}
        known = build.sizes(spread, list(ends), "a transposed convolution")
        bounds = {
            axis: (start, size + stop, 1)
            for (axis, (start, stop, _)), size in zip(ends.items(), known, strict=True)
        }
        spread = build.slices(spread, bounds)
    mirrored = build.weight(_mirrored(filters, group), f"{build.name_of(weight)}.mirrored")
    ones, zeros = (1,) * rank, (0,) * rank
    plain = Window(window.sizes, ones, window.dilations, zeros, zeros)
    return _conv(spread, mirrored, bias, plain, group, build)


@converts("Gemm")
def gemm(node: Node, build: Build) -> SSAValue:
    """alpha * A B + beta * C; C is a bias where it is a vector as long as the rows.

    Before opset 7 C broadcasts only if asked; where it fits, both mean the same.
    """
    left, right, addend = node.operand(0), node.operand(1), node.optional(2)
    if node.integer("transA", 0):
        left = build.transpose(left, [1, 0])
    if node.integer("transB", 0):
        right = build.transpose(right, [1, 0])
    left = build.scaled(left, node.number("alpha", 1.0))
    if addend is None:
        return build.matmul(left, right)
    addend = build.scaled(addend, node.number("beta", 1.0))
    if build.shape(addend) == build.shape(right)[1:]:
        return build.matmul(left, right, addend)
    return build.binary("add", build.matmul(left, right), addend)


@converts("MatMul")
def matmul(node: Node, build: Build) -> SSAValue:
    """As NumPy: a vector is a row on the left and a column on the right."""
    left, right = node.operand(0), node.operand(1)
    rows, columns = build.rank(left), build.rank(right)
    if rows == 1:
        left = build.unsqueeze(left, [0])
    if columns == 1:
        right = build.unsqueeze(right, [1])
    result = build.matmul(left, right)
    dropped = [axis for axis, rank in ((-2, rows), (-1, columns)) if rank == 1]
    return build.squeeze(result, dropped) if dropped else result


@converts("Det", since=11)
def determinant(node: Node, build: Build) -> SSAValue:
    return build.value(DeterminantOp, [node.operand(0)])


def _conv(
    x: SSAValue,
    weight: SSAValue,
    bias: SSAValue | None,
    window: Window,
    group: int,
    build: Build,
) -> SSAValue:
    return build.value(
        ConvOp,
        [x, weight, bias, None],
        strides=window.strides,
        pads=window.pads,
        dilations=window.dilations,
        group=group,
    )


def _transposed_window(
    node: Node, x: SSAValue, sizes: tuple[int, ...], build: Build
) -> tuple[Window, tuple[int, ...]]:
    """The window with the pads that give the demanded output, and `output_padding`."""
    rank = len(sizes)
    extra = node.integers("output_padding") or (0,) * rank
    shape = node.integers("output_shape")
    automatic = node.text("auto_pad", "NOTSET")
    others = {k: v for k, v in node.attributes.items() if k != "auto_pad"}
    window = window_of(replace(node, attributes=others), x, sizes, build)
    is_same = automatic in ("SAME_UPPER", "SAME_LOWER")
    if shape is None and not is_same:
        return window, extra
    known = build.sizes(x, range(2, 2 + rank), "output_shape or auto_pad")
    if shape is None:
        shape = tuple(size * s for size, s in zip(known, window.strides, strict=True))
    totals = [
        window.strides[a] * (known[a] - 1) + extra[a] + window.reach(a) - shape[-rank:][a]
        for a in range(rank)
    ]
    if not is_same:
        # What the windows do not reach of a demanded shape is bias alone: as `output_padding`.
        extra = tuple(e + max(-total, 0) for e, total in zip(extra, totals, strict=True))
    totals = [max(total, 0) for total in totals]
    halves = tuple(total // 2 for total in totals)
    rests = tuple(total - total // 2 for total in totals)
    begins, ends = (halves, rests) if automatic == "SAME_UPPER" else (rests, halves)
    return Window(window.sizes, window.strides, window.dilations, begins, ends), extra


def _mirrored(filters: np.ndarray, group: int) -> np.ndarray:
    """(C, M / group, window...) of a transposed convolution as (M, C / group, window...)."""
    channels, per_group, *sizes = filters.shape
    grouped = filters.reshape(group, channels // group, per_group, *sizes)
    swapped = np.swapaxes(grouped, 1, 2).reshape(group * per_group, channels // group, *sizes)
    return np.ascontiguousarray(np.flip(swapped, tuple(range(2, swapped.ndim))))
