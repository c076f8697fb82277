"""Convolutions and matrix products."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from explorer.importers.building import windows
from explorer.importers.building.expr import Expr
from explorer.importers.building.windows import Window
from explorer.importers.onnx.operators.windows import padded, window_of
from explorer.importers.onnx.program.build import Build
from explorer.importers.onnx.program.nodes import Node, converts
from explorer.ir.top.determinant import DeterminantOp


@converts("Conv")
def conv(node: Node, build: Build) -> Expr:
    x, weight, bias = node.operand(0), node.operand(1), node.optional(2)
    sizes = weight.sizes(range(2, weight.rank), "a convolution")
    x, window = padded(node, x, sizes, 0.0)
    return windows.conv(x, weight, bias, window, node.integer("group", 1), build)


@converts("ConvTranspose")
def conv_transpose(node: Node, build: Build) -> Expr:
    """A convolution with mirrored filters over the input with zeros between its elements."""
    x, weight, bias = node.operand(0), node.operand(1), node.optional(2)
    sizes = weight.sizes(range(2, weight.rank), "a transposed convolution")
    window, extra = _transposed_window(node, x, tuple(sizes))
    return windows.transposed_conv(x, weight, bias, window, extra, node.integer("group", 1), build)


@converts("Gemm")
def gemm(node: Node, build: Build) -> Expr:
    """alpha * A B + beta * C; C is a bias where it is a vector as long as the rows.

    Before opset 7 C broadcasts only if asked; where it fits, both mean the same. Integers with a
    factor that is none are computed in f64. Unsigned ones wrap around, as C's do.
    """
    left, right, addend = node.operand(0), node.operand(1), node.optional(2)
    dtype = left.dtype
    factors = node.number("alpha", 1.0), node.number("beta", 1.0)
    if not left.is_float and not all(factor.is_integer() for factor in factors):
        left, right = (value.astype(np.float64) for value in (left, right))
        addend = None if addend is None else addend.astype(np.float64)
    return _scaled_product(node, left, right, addend, build).astype(dtype)


def _scaled_product(node: Node, left: Expr, right: Expr, addend: Expr | None, build: Build) -> Expr:
    if node.integer("transA", 0):
        left = left.transpose([1, 0])
    if node.integer("transB", 0):
        right = right.transpose([1, 0])
    left = _scaled(left, node.number("alpha", 1.0), build)
    beta = node.number("beta", 1.0)
    if addend is None or beta == 0:  # what is infinite in C does not become NaN
        return left @ right
    addend = _scaled(addend, beta, build)
    if addend.shape == right.shape[1:]:
        return build.matmul(left, right, addend)
    return left @ right + addend


def _scaled(x: Expr, factor: float, build: Build) -> Expr:
    if x.is_float or factor == 1.0:
        return x.scaled(factor)
    bits = 8 * x.dtype.itemsize
    wrapped = np.array(int(factor) % 2**bits, f"u{x.dtype.itemsize}")
    return x * build.weight(wrapped.astype(x.dtype))


@converts("MatMul")
def matmul(node: Node, build: Build) -> Expr:
    """As NumPy: a vector is a row on the left and a column on the right."""
    left, right = node.operand(0), node.operand(1)
    rows, columns = left.rank, right.rank
    if rows == 1:
        left = left.unsqueeze([0])
    if columns == 1:
        right = right.unsqueeze([1])
    result = left @ right
    dropped = [axis for axis, rank in ((-2, rows), (-1, columns)) if rank == 1]
    return result.squeeze(dropped) if dropped else result


@converts("Det", since=11)
def determinant(node: Node, build: Build) -> Expr:
    return build.value(DeterminantOp, [node.operand(0)])


def _transposed_window(
    node: Node, x: Expr, sizes: tuple[int, ...]
) -> tuple[Window, tuple[int, ...]]:
    """The window with the pads that give the demanded output, and `output_padding`."""
    rank = len(sizes)
    extra = node.integers("output_padding") or (0,) * rank
    shape = node.integers("output_shape")
    automatic = node.text("auto_pad", "NOTSET")
    others = {k: v for k, v in node.attributes.items() if k != "auto_pad"}
    window = window_of(replace(node, attributes=others), x, sizes)
    is_same = automatic in ("SAME_UPPER", "SAME_LOWER")
    if shape is None and not is_same:
        return window, extra
    known = x.sizes(range(2, 2 + rank), "output_shape or auto_pad")
    wanted = shape or tuple(size * s for size, s in zip(known, window.strides, strict=True))
    totals = [
        window.strides[a] * (known[a] - 1) + extra[a] + window.reach(a) - wanted[-rank:][a]
        for a in range(rank)
    ]
    if shape is not None:
        # What the windows do not reach of a demanded shape is bias alone: as `output_padding`.
        extra = tuple(e + max(-total, 0) for e, total in zip(extra, totals, strict=True))
    totals = [max(total, 0) for total in totals]
    halves = tuple(total // 2 for total in totals)
    rests = tuple(total - total // 2 for total in totals)
    begins, ends = (halves, rests) if automatic == "SAME_UPPER" else (rests, halves)
    return Window(window.sizes, window.strides, window.dilations, begins, ends), extra
