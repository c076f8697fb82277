"""Quantization as arithmetic on whole numbers in floats.

    QuantizeLinear     clip(round(x / scale) + zero point), stored as integers
    DequantizeLinear   (x - zero point) * scale

Reference: ONNX operators, QuantizeLinear-10 to -13 (one scale, or one per slice of `axis`).
"""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from explorer.importers.onnx.build import Build
from explorer.importers.onnx.nodes import Node, Unsupported, converts


@converts("QuantizeLinear", since=10)
def quantize(node: Node, build: Build) -> SSAValue:
    x, scale, zero_point = node.operand(0), node.operand(1), node.optional(2)
    dtype = np.dtype(np.uint8) if zero_point is None else build.dtype(zero_point)
    scale = _aligned(scale, node, x, build)
    zero = None if zero_point is None else _aligned(zero_point, node, x, build)
    return _quantized(build.binary("div", x, scale), zero, dtype, build)


@converts("DequantizeLinear", since=10)
def dequantize(node: Node, build: Build) -> SSAValue:
    x, scale, zero_point = node.operand(0), node.operand(1), node.optional(2)
    real = build.cast(x, build.dtype(scale))
    scale_there = _aligned(scale, node, x, build)
    if zero_point is not None:
        zero = build.cast(_aligned(zero_point, node, x, build), build.dtype(scale))
        real = build.binary("sub", real, zero)
    return build.binary("mul", real, scale_there)


def _quantized(x: SSAValue, zero: SSAValue | None, dtype: np.dtype, build: Build) -> SSAValue:
    """x, already divided by its scale, as integers of the type."""
    if dtype.kind not in "iu" or dtype.itemsize > 2:
        raise Unsupported(f"quantization to {dtype}")
    rounded = build.unary("round", x)
    if zero is not None:
        rounded = build.binary("add", rounded, build.cast(zero, build.dtype(x)))
    limits = np.iinfo(dtype)
    return build.cast(build.unary("clip", rounded, float(limits.min), float(limits.max)), dtype)


def _aligned(parameter: SSAValue, node: Node, x: SSAValue, build: Build) -> SSAValue:
    """A scale or zero point in a form that broadcasts to x."""
    rank = build.rank(x)
    if node.integer("block_size", 0):
        raise Unsupported("quantization in blocks")
    if build.rank(parameter) == 0:
        return parameter
    if build.size(parameter, 0) == 1 and build.rank(parameter) == 1:
        return build.reshape(parameter, [])
    axis = build.axis(node.integer("axis", 1), rank)
    return build.reshape(parameter, [*build.all_sizes(parameter), *[1] * (rank - axis - 1)])
