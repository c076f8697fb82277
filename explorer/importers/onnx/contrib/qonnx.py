"""Quantization to any number of bits as Brevitas, QKeras and FINN write it: operators of QONNX.

    Quant          (clip(round(x / scale + zero point)) - zero point) * scale
    BipolarQuant   scale where x >= 0, -scale elsewhere
    Trunc          a quantized number without its lowest bits
    Conv ...       ONNX's operators on tensors whose channels come last

They take and give real numbers. Exporters write them under several domains, or none.
Reference: Pappalardo et al., "QONNX: Representing Arbitrary-Precision Quantized Neural Networks",
2022; its documentation of IntQuant-1, BipolarQuant-1, Trunc-1 and Trunc-2.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from explorer.importers.building.expr import Expr, where
from explorer.importers.onnx.program.build import Build
from explorer.importers.onnx.program.nodes import Node, Unsupported, converts

DOMAINS = ("qonnx.custom_op.general", "finn.custom_op.general", "onnx.brevitas", "")
CHANNELS_LAST = "qonnx.custom_op.channels_last"

MIN_OPSET, USUAL_OPSET = 9, 13
"""The version of channels-last operators is that of ONNX's; some files have 1 there."""


@converts("Quant", "IntQuant", domain=DOMAINS)
def quantize(node: Node, build: Build) -> Expr:
    """Real numbers rounded to those that integers of some bits stand for.

    One signed bit is -1 or 1.
    """
    x, scale, zero = (node.operand(index) for index in range(3))
    bits = build.scalar(node.operand(3), "the number of bits")
    is_signed = bool(node.integer("signed", 1))
    stored = x / scale + zero
    if bits == 1 and is_signed:
        rounded = _signs(stored)
    else:
        clipped = _clipped(stored, bits, is_signed, bool(node.integer("narrow", 0)))
        rounded = _rounded(clipped, node.text("rounding_mode", "ROUND"))
    return (rounded - zero) * scale


@converts("BipolarQuant", domain=DOMAINS)
def quantize_signs(node: Node, build: Build) -> Expr:
    """The scale with the sign of x; that of 0 is positive."""
    return _signs(node.operand(0)) * node.operand(1)


@converts("Trunc", domain=DOMAINS)
def truncate(node: Node, build: Build) -> Expr:
    """(round(x / scale + zero point) / 2^n, rounded again), as a real number.

    With five operands n is how many bits less the result has, and it keeps the scale; with six or
    seven (a zero point that is not read) the result has a scale of its own, which says n, and is
    clipped.
    """
    x, scale, zero = (node.operand(index) for index in range(3))
    stored = (x / scale + zero).round()
    mode = node.text("rounding_mode", "FLOOR")
    if len(node.operands) <= 5:
        before, after = (build.known(node.operand(i), "the number of bits") for i in (3, 4))
        factor = 2.0 ** (float(before.item()) - float(after.item()))
        return (_rounded(stored.scaled(1 / factor), mode) - zero) * scale
    old, new = (build.known(node.operand(i), "a scale of Trunc") for i in (1, 4))
    factors = build.weight((2.0 ** np.round(np.log2(new / old))).astype(x.dtype))
    bits = build.known(node.operand(len(node.operands) - 1), "the number of bits").item()
    divided = stored / factors
    is_signed, is_narrow = bool(node.integer("signed", 1)), bool(node.integer("narrow", 0))
    cut = _rounded(_clipped(divided, bits, is_signed, is_narrow), mode)
    return (cut - zero / factors) * node.operand(4)


@converts("Conv", "MaxPool", "AveragePool", "BatchNormalization", domain=CHANNELS_LAST)
def channels_last(node: Node, build: Build) -> Expr:
    """The operator of ONNX, with the channels of x (and of a convolution's filters) moved."""
    moved = 2 if node.operator == "Conv" else 1
    operands = [
        _channels_first(operand) if index < moved and operand is not None else operand
        for index, operand in enumerate(node.optional(i) for i in range(len(node.operands)))
    ]
    opset = node.opset if node.opset >= MIN_OPSET else USUAL_OPSET
    plain = replace(node, domain="", opset=opset, operands=tuple(operands))
    result = build.graphs.convert(plain)[0]
    if not isinstance(result, Expr):
        raise Unsupported(f"{node.operator} without a result")
    return result.transpose([0, *range(2, result.rank), 1])


def _channels_first(x: Expr) -> Expr:
    rank = x.rank
    return x.transpose([0, rank - 1, *range(1, rank - 1)])


def _clipped(x: Expr, bits: float, is_signed: bool, is_narrow: bool) -> Expr:
    """x within the range of integers of so many bits; a narrow one lacks a number."""
    low = -(2.0 ** (bits - 1)) + is_narrow if is_signed else 0.0
    high = 2.0 ** (bits - 1) - 1 if is_signed else 2.0**bits - 1 - is_narrow
    return x.clip(low, high)


def _signs(x: Expr) -> Expr:
    zero, one, minus = (x.constant(number) for number in (0, 1, -1))
    return where(x >= zero, one, minus)


def _rounded(x: Expr, mode: str) -> Expr:
    """Whole numbers. UP and DOWN go away from and towards 0, and so do ties of HALF_UP and
    HALF_DOWN; ties of ROUND go to even numbers."""
    mode = mode.upper()
    if mode in ("ROUND", "HALF_EVEN"):
        return x.round()
    if mode in ("CEIL", "FLOOR"):
        return x.unary(mode.lower())
    size, sign = abs(x), x.sign()
    if mode == "UP":
        whole = size.ceil()
    elif mode in ("DOWN", "ROUND_TO_ZERO"):
        whole = size.floor()
    elif mode in ("HALF_UP", "HALF_DOWN"):
        half = x.constant(0.5)
        shifted = size.binary("add" if mode == "HALF_UP" else "sub", half)
        whole = shifted.unary("floor" if mode == "HALF_UP" else "ceil")
    else:
        raise Unsupported(f"rounding_mode {mode!r}")
    return whole * sign
