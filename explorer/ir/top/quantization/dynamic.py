"""Quantization by a scale and a zero point that are taken from the numbers themselves.

    %q, %scale, %zero = top.dynamic_quantize(%x) : tensor<4x8xui8>, tensor<f32>, tensor<ui8>

One kernel: extremes of each row, then of all rows, the parameters, and the bytes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod
from typing import ClassVar

import numpy as np
from xdsl.dialects import math
from xdsl.dialects.builtin import BoolAttr, Float32Type, IntegerType, Signedness, TensorType
from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, result_def

from explorer.ir.compute import Buffer, KernelBuilder, Scalar, ScalarBuilder
from explorer.ir.operation import Access, TopOperation
from explorer.ir.top.arithmetic import in_arithmetic_types
from explorer.ir.top.support.broadcasting import iteration
from explorer.ir.types import element_type_of, shape_of, tensor_type

F32, I32, I8 = Float32Type(), IntegerType(32), IntegerType(8)
UI8 = IntegerType(8, Signedness.UNSIGNED)
LEVELS = 255.0
"""Steps between the least and the greatest byte."""
SYMMETRIC_LEVELS = 127.0
"""Steps from 0 to the greatest signed byte."""
LONGEST_ROW, SHORTEST_SHARE = 1024, 16
"""Numbers whose extremes are found by one task; a sixteenth of them are still a row."""


@irdl_op_definition
class DynamicQuantizeOp(TopOperation):
    """x as unsigned bytes, the scale (f32) and the zero point (ui8) of all of them.

        low, high = min(x, 0), max(x, 0)      scale = (high - low) / 255, 1 where x is all zeros
        zero = clip(round(-low / scale))      q = clip(round(x / scale) + zero)

    Rounding is to even. Reference: ONNX operators, DynamicQuantizeLinear; the scale of zeros is
    onnxruntime's (the function of ONNX divides by zero).

    symmetric: signed bytes without a zero point,

        range = max(|x|)        scale = range / 127, 1 where x is all zeros
        q = clip(round(x (127 / range)), -127, 127)

    Rounding is away from zero. Source: TensorFlow Lite, `SymmetricQuantizeFloats`.
    """

    name = "top.dynamic_quantize"
    FAMILY: ClassVar[str] = "quantization"

    input = operand_def(TensorType)
    symmetric = opt_prop_def(BoolAttr)
    output = result_def(TensorType)
    scale = result_def(TensorType)
    zero_point = result_def(TensorType)

    def infer_types(self) -> list[Attribute]:
        if element_type_of(self.input) != F32:
            raise ValueError(f"{self.name} takes f32, not {element_type_of(self.input)}")
        shape = shape_of(self.input)
        byte = I8 if self.is_symmetric else UI8
        return [tensor_type(byte, shape), tensor_type(F32, ()), tensor_type(byte, ())]

    @property
    def is_symmetric(self) -> bool:
        return bool(self.get("symmetric", False))

    @in_arithmetic_types
    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        (x,) = operands
        low, high = (np.float32(f(x, initial=0.0)) for f in (np.min, np.max))
        if self.is_symmetric:
            return _symmetric(x, max(-low, high))
        with np.errstate(all="ignore"):
            scale = (high - low) / np.float32(LEVELS)
            scale = scale if scale != 0 else np.float32(1)
            zero = np.clip(np.rint(-low / scale), 0, LEVELS)
            q = np.clip(np.rint(x / scale) + zero, 0, LEVELS).astype(np.uint8)
        return q, np.asarray(scale), np.asarray(zero).astype(np.uint8)

    def kernel_shapes(
        self,
        operands: list[tuple[int, ...]],
        output: tuple[int, ...],
        kept: Collection[int] = (),
    ) -> tuple[list[tuple[int, ...]], tuple[int, ...]]:
        """Rows of about LONGEST_ROW numbers, whatever the tensor's axes are: each is a task."""
        count = prod(output)
        longest = next((n for n in range(LONGEST_ROW, 0, -1) if count % n == 0), 1)
        columns = longest if longest * SHORTEST_SHARE >= LONGEST_ROW else max(count, 1)
        rows = (count // columns, columns)
        return [rows], rows

    def define(
        self, k: KernelBuilder, inputs: Sequence[Access], output: Access, *others: Access
    ) -> str:
        (x,), q, (scale, zero) = inputs, output, others
        extents = iteration(x.shape)
        rows = dict(list(extents.items())[:-1]) or {"row": 1}
        low, high = (_Extreme(k, name, rows) for name in ("low", "high"))
        for extreme in (low, high):
            d = k.dimensions(**rows)
            k.generic("plain", [], (extreme.each, d), lambda s: s.constant(0.0))
            k.dimensions(one=1)
            k.generic("plain", [], (extreme.all, [0]), lambda s: s.constant(0.0))
        for extreme in (low, high):
            d = k.dimensions(**extents)
            own = d[:-1] or (0,)
            k.generic(
                "plain",
                [x.at(*d)],
                (extreme.each, own),
                extreme.step,
                reductions=list(extents)[-1],
                accumulates=True,
            )
        for extreme in (low, high):
            d = k.dimensions(one=1, **rows)
            reads = [(extreme.each, d[1:])]
            names = " ".join(rows)
            k.generic(
                "plain", reads, (extreme.all, [0]), extreme.step, reductions=names, accumulates=True
            )
        k.dimensions(one=1)
        both = [(low.all, [0]), (high.all, [0])]
        if self.is_symmetric:
            k.generic("plain", both, scale.at(0), lambda s, a, b: _symmetric_scale(a, b))
            k.generic("plain", [], zero.at(0), lambda s: s.constant(0))
            d = k.dimensions(**extents)
            reads = [x.at(*d), (low.all, [0]), (high.all, [0])]
            k.generic("plain", reads, q.at(*d), _symmetrically)
            return "dynamic_quantize"
        k.generic("plain", both, scale.at(0), lambda s, low, high: _scale(low, high))
        k.generic("plain", both, zero.at(0), lambda s, low, high: _zero_point(low, high))
        d = k.dimensions(**extents)
        k.generic("plain", [x.at(*d), scale.at(0), zero.at(0)], q.at(*d), _quantized)
        return "dynamic_quantize"

    def label(self) -> str:
        return "quantize by its range"


class _Extreme:
    """The least or greatest number, and 0, of every row (`each`) and of all (`all`)."""

    def __init__(self, k: KernelBuilder, name: str, rows: dict[str, int]):
        self.is_low = name == "low"
        self.each: Buffer = k.argument(f"{name}s", tuple(rows.values()), F32, "scratch")
        self.all: Buffer = k.argument(name, (1,), F32, "scratch")

    def step(self, s: ScalarBuilder, x: Scalar, y: Scalar) -> Scalar:
        # x first: whether it is no number is asked beside the chain of comparisons.
        return x.minimum(y) if self.is_low else x.maximum(y)


def _scale(low: Scalar, high: Scalar) -> Scalar:
    scale = (high - low) / LEVELS
    return scale.compare("eq", 0.0).select(1.0, scale)


def _zero_point(low: Scalar, high: Scalar) -> Scalar:
    rounded = (low.negate() / _scale(low, high)).unary(math.RoundEvenOp)
    return rounded.maximum(0.0).minimum(LEVELS).convert(I32).convert(UI8)


def _quantized(s: ScalarBuilder, x: Scalar, scale: Scalar, zero: Scalar) -> Scalar:
    moved = (x / scale).unary(math.RoundEvenOp) + zero.convert(I32).convert(F32)
    return moved.maximum(0.0).minimum(LEVELS).convert(I32).convert(UI8)


def _symmetric(x: np.ndarray, reach: np.float32) -> tuple[np.ndarray, ...]:
    """x as signed bytes by its largest magnitude, the scale and 0."""
    levels = np.float32(SYMMETRIC_LEVELS)
    if reach == 0:
        return np.zeros(x.shape, np.int8), np.asarray(np.float32(1)), np.asarray(np.int8(0))
    with np.errstate(all="ignore"):
        steps = x * (levels / reach)
        whole = np.copysign(np.floor(np.abs(steps) + np.float32(0.5)), steps)
        q = np.clip(whole, -levels, levels).astype(np.int8)
    return q, np.asarray(reach / levels), np.asarray(np.int8(0))


def _symmetric_scale(low: Scalar, high: Scalar) -> Scalar:
    reach = low.negate().maximum(high)
    return reach.compare("eq", 0.0).select(1.0, reach / SYMMETRIC_LEVELS)


def _symmetrically(s: ScalarBuilder, x: Scalar, low: Scalar, high: Scalar) -> Scalar:
    reach = low.negate().maximum(high)
    harmless = reach.compare("eq", 0.0).select(1.0, reach)
    steps = x * (s.constant(SYMMETRIC_LEVELS, F32) / harmless)
    whole = (steps.unary(math.AbsFOp) + 0.5).unary(math.FloorOp).copy_sign(steps)
    limited = whole.maximum(-SYMMETRIC_LEVELS).minimum(SYMMETRIC_LEVELS)
    return limited.convert(I32).convert(I8)
