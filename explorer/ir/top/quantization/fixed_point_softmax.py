"""Softmax of bytes, to 8 or 16 bits, in fixed point of 32 bits: `top.fixed_point_softmax`.

    %y = top.fixed_point_softmax(%x) {axis = 1, beta = 1.0, to = !top.quantized<i8, 0.0039:-128>}

Unlike `top.integer_softmax`, which rounds as little as 64 bits allow, this is the reference kernel
of TensorFlow Lite to the last bit. Source: tensorflow/lite/kernels/internal/reference/softmax.h.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import frexp

import numpy as np
from xdsl.dialects.builtin import FloatAttr, IndexType, IntegerAttr, TensorType
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def

from explorer.ir.compute import KernelBuilder, Scalar, ScalarBuilder
from explorer.ir.interfaces import AlongAxis
from explorer.ir.operation import Access
from explorer.ir.requantization import integer_limits
from explorer.ir.top.arithmetic import in_arithmetic_types
from explorer.ir.top.definitions import load_element, scratch, store_element
from explorer.ir.top.quantization.integer_normalizations import IntegerNormalization
from explorer.ir.top.reductions.domain import ReductionDomain
from explorer.ir.top.support.gemmlowp import (
    EXPONENT_FRACTION_BITS,
    divided_by_power,
    exponentials,
    high_multiply,
    high_multiply_scalar,
    leading,
    leading_scalar,
    reciprocal,
    reciprocal_scalar,
)
from explorer.ir.top.support.quantized_scalars import I32, I64, Tables
from explorer.ir.types import QuantizedType

INTEGER_BITS = 5
"""Before the point of what exponentials are taken of."""
SUM_BITS = 12
"""Before the point of their sum: of up to 4,096 numbers."""
BYTE_BITS = 8
RESULT_BITS = (8, 16)


@irdl_op_definition
class FixedPointSoftmaxOp(AlongAxis, IntegerNormalization):
    """exp(beta x) / sum(exp(beta x)) along an axis, of bytes.

        d = x - max(x)                                  whole numbers up to 0
        e = exp(d beta scale)                           a table: 31 bits behind the point
        s = sum(round(e / 2^12))                        19 bits behind the point
        y = round(e (1 / s) 2^n) + lowest number        1 / s by Newton's iteration

    The result has n bits, 8 or 16, and the scale 2^-n; its lowest number stands for 0, whatever
    `to` says.
    """

    name = "top.fixed_point_softmax"

    input = operand_def(TensorType)
    axis = prop_def(IntegerAttr)
    beta = prop_def(FloatAttr)
    to = prop_def(QuantizedType)
    output = result_def(TensorType)

    def mixed_axes(self) -> Sequence[int]:
        return (self.get("axis"),)

    def check(self) -> None:
        if self.source.storage.width.data != BYTE_BITS or self.result_bits not in RESULT_BITS:
            raise ValueError(f"{self.name} takes bytes and makes numbers of 8 or 16 bits")
        if not self.get("beta") > 0:
            raise ValueError(f"beta is {self.get('beta')}; a positive number expected")

    @property
    def result_bits(self) -> int:
        return self.made.storage.width.data

    @property
    def exponentials(self) -> np.ndarray:
        """2^31 e^(-d beta scale) for d = 0 ... 255; 0 where it is too small to count."""
        factor = float(np.float32(self.get("beta"))) * float(self.source.scale_array[0])
        real = min(factor * 2.0**EXPONENT_FRACTION_BITS, 2.0**31 - 1)
        fraction, exponent = frexp(real)
        multiplier = int(np.floor(fraction * 2**31 + 0.5))
        if multiplier == 1 << 31:
            multiplier, exponent = multiplier >> 1, exponent + 1
        exponent = max(exponent, 0)
        farthest = ((1 << INTEGER_BITS) - 1) << EXPONENT_FRACTION_BITS >> exponent
        distances = np.arange(2**BYTE_BITS, dtype=np.int64)
        counted = np.minimum(distances, farthest)
        table = exponentials(high_multiply(-counted << exponent, multiplier))
        return np.where(distances <= farthest, table, 0)

    @in_arithmetic_types
    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        axis, x = self.get("axis"), operands[0].astype(np.int64)
        lowest = integer_limits(self.source.storage)[0]
        distance = np.max(x, axis=axis, keepdims=True, initial=lowest) - x
        e = self.exponentials[distance]
        total = divided_by_power(e, SUM_BITS).sum(axis=axis, keepdims=True)
        lifted, shift = leading(np.maximum(total, 1))
        share = high_multiply(reciprocal(lifted - (1 << 31)), e)
        exponent = SUM_BITS - shift + 31 - self.result_bits
        rounded = (share + (np.int64(1) << (exponent - 1))) >> exponent
        return (self._from_lowest(rounded),)

    def _from_lowest(self, numbers: np.ndarray) -> np.ndarray:
        zero = int(self.made.zero_point_array[0])
        return self.stored(numbers + integer_limits(self.made.storage)[0] - zero)

    def kernel_constants(self) -> Tables:
        return [("exponentials", self.exponentials.astype(np.int32))]

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        x, table = inputs
        loops = ReductionDomain.of(self, (self.get("axis"),), True, x, output)
        kept = tuple(loops.outer_loops.values())
        greatest, total = scratch(k, "greatest", kept, I32), scratch(k, "total", kept, I64)
        factor, exponent = scratch(k, "factor", kept, I64), scratch(k, "exponent", kept, I64)
        self.define_greatest(k, loops, x, greatest)
        d = k.dimensions(**loops.outer_loops)
        k.generic("plain", [], total.at(*d), lambda s: s.constant(0))

        def exponential(s: ScalarBuilder, indices: Sequence[Scalar]) -> Scalar:
            stored = load_element(s, x, loops.input_subscripts(indices)).convert(I32)
            distance = load_element(s, greatest, indices[: len(kept)]) - stored
            return load_element(s, table, [distance.convert(IndexType())]).convert(I64)

        def add(s: ScalarBuilder, *indices: Scalar) -> None:
            at = indices[: len(kept)]
            half = 1 << (SUM_BITS - 1)
            part = (exponential(s, indices) + half).shift_right(SUM_BITS)
            store_element(s, load_element(s, total, at) + part, total, at)

        def share(s: ScalarBuilder, *indices: Scalar) -> None:
            at = indices[: len(kept)]
            by = load_element(s, exponent, at)
            part = high_multiply_scalar(exponential(s, indices), load_element(s, factor, at))
            half = by.constant(1).shift_left(by - 1)
            moved = integer_limits(self.made.storage)[0] - int(self.made.zero_point_array[0])
            result = self.stored_scalar((part + half).shift_right(by) + moved)
            store_element(s, result, output, loops.input_subscripts(indices))

        def invert(s: ScalarBuilder, *at: Scalar) -> None:
            lifted, shift = leading_scalar(load_element(s, total, at).maximum(1))
            store_element(s, reciprocal_scalar(lifted - (1 << 31)), factor, at)
            bits = shift.constant(SUM_BITS + 31 - self.result_bits) - shift
            store_element(s, bits, exponent, at)

        k.nest(loops.all_loops, add, parallel=" ".join(loops.outer_loops))
        k.nest(loops.outer_loops, invert, parallel=" ".join(loops.outer_loops))
        k.nest(loops.all_loops, share, parallel=" ".join(loops.all_loops))
        return "explicit"

    def label(self) -> str:
        return "softmax in fixed point"
