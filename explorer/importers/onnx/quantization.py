"""Quantization as arithmetic on whole numbers in floats.

    QuantizeLinear     clip(round(x / scale) + zero point), stored as integers
    DequantizeLinear   (x - zero point) * scale

Reference: ONNX operators, QuantizeLinear-10 to -13 (one scale, or one per slice of `axis`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from xdsl.ir import SSAValue

from explorer.importers.onnx.build import Build
from explorer.importers.onnx.nn import conv
from explorer.importers.onnx.nodes import Node, Unsupported, converts
from explorer.importers.onnx.tensors import read_tensor


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


@converts("QLinearConv", since=10)
def qlinear_conv(node: Node, build: Build) -> SSAValue:
    """The convolution of whole numbers, held exactly in floats, rescaled at the end."""
    x, x_scale, x_zero, weight, w_scale, w_zero = (node.operand(index) for index in range(6))
    bias = node.optional(8)
    plain = replace(
        node,
        operands=(
            _centered(x, x_zero, build),
            _centered(weight, _per_filter(w_zero, build.rank(weight), build), build),
            None if bias is None else build.cast(bias, np.float32),
        ),
    )
    y = conv.convert(plain, build)
    assert isinstance(y, SSAValue)
    scale = build.binary("mul", x_scale, w_scale)
    return _requantized(y, _per_filter(scale, build.rank(weight) - 1, build), node, 6, build)


@converts("QLinearMatMul", since=10)
def qlinear_matmul(node: Node, build: Build) -> SSAValue:
    left, left_scale, left_zero, right, right_scale, right_zero = (
        node.operand(index) for index in range(6)
    )
    if any(build.rank(s) and build.size(s, 0) != 1 for s in (left_scale, right_scale)):
        raise Unsupported("scales per row or column")
    product = build.matmul(_centered(left, left_zero, build), _centered(right, right_zero, build))
    return _requantized(product, build.binary("mul", left_scale, right_scale), node, 6, build)


@converts("QLinearAdd", "QLinearMul", domain="com.microsoft")
def qlinear_binary(node: Node, build: Build) -> SSAValue:
    """(left, scale, zero point), (right, scale, zero point), then those of the result."""
    parts = []
    for first in (0, 3):
        x, scale, zero = (node.operand(first), node.operand(first + 1), node.optional(first + 2))
        parts.append(build.binary("mul", _centered(x, zero, build), scale))
    y = build.binary("add" if node.operator == "QLinearAdd" else "mul", *parts)
    dtype = build.dtype(node.operand(0))
    return _quantized(build.binary("div", y, node.operand(6)), node.optional(7), dtype, build)


@converts("RequantShift")
def requantize_by_shift(node: Node, build: Build) -> SSAValue:
    """clip(floor((x * factor + offset) / div + 1/2)): integers by integers, as Deeploy has it.

    Scherer et al., "Deeploy: Enabling Energy-Efficient Deployment of Small Language Models on
    Heterogeneous Microcontrollers", 2024. All numbers are whole, held in floats.
    """
    x, factor, offset = (node.operand(index) for index in range(3))
    divisor, levels, is_signed = (_number(node, name) for name in ("div", "n_levels_out", "signed"))
    scaled = build.binary("add", build.binary("mul", x, factor), offset)
    half = build.scalar_like(0.5, x)
    divided = build.binary("add", build.scaled(scaled, 1 / divisor), half)
    shifted = build.unary("floor", divided)
    low = -levels / 2 if is_signed else 0.0
    return build.unary("clip", shifted, low, low + levels - 1)


@converts("Quant")
def fake_quantize(node: Node, build: Build) -> SSAValue:
    """(clip(round(x / scale + zero point)) - zero point) * scale, as QONNX has it.

    Pappalardo et al., "QONNX: Representing Arbitrary-Precision Quantized Neural Networks", 2022.
    """
    x, scale, zero = (node.operand(index) for index in range(3))
    bits = build.known(node.operand(3), "the number of bits").item()
    if node.text("rounding_mode", "ROUND").upper() != "ROUND":
        raise Unsupported(f"rounding_mode {node.text('rounding_mode', '')!r}")
    is_signed, is_narrow = node.integer("signed", 1), node.integer("narrow", 0)
    low = -(2.0 ** (bits - 1)) + is_narrow if is_signed else 0.0
    high = 2.0 ** (bits - 1) - 1 if is_signed else 2.0**bits - 1 - is_narrow
    stored = build.binary("add", build.binary("div", x, scale), zero)
    clipped = build.unary("clip", build.unary("round", stored), low, high)
    return build.binary("mul", build.binary("sub", clipped, zero), scale)


def _centered(x: SSAValue, zero: SSAValue | None, build: Build) -> SSAValue:
    """Stored integers minus their zero point, as floats."""
    real = build.cast(x, np.float32)
    return real if zero is None else build.binary("sub", real, build.cast(zero, np.float32))


def _per_filter(parameter: SSAValue, rank: int, build: Build) -> SSAValue:
    """A vector over the first of `rank` axes."""
    if build.rank(parameter) == 0 or build.size(parameter, 0) == 1:
        return build.reshape(parameter, []) if build.rank(parameter) else parameter
    return build.reshape(parameter, [*build.all_sizes(parameter), *[1] * (rank - 1)])


def _requantized(y: SSAValue, scale: SSAValue, node: Node, first: int, build: Build) -> SSAValue:
    """y * scale / result scale, as integers; operand `first` is the result's scale."""
    result_scale, zero = node.operand(first), node.operand(first + 1)
    factor = build.binary("div", scale, result_scale)
    return _quantized(build.binary("mul", y, factor), zero, build.dtype(zero), build)


def _number(node: Node, name: str) -> float:
    """An attribute that holds one number in a tensor."""
    tensor = node.tensor(name)
    if tensor is None:
        raise ValueError(f"attribute {name} is missing")
    return float(read_tensor(tensor, None).item())
