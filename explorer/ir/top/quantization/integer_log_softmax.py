"""The logarithm of a softmax of quantized numbers in integers: `top.integer_log_softmax`.

    %y = top.integer_log_softmax(%x) {axis = 1, to = !top.quantized<i8, 0.1:127>}

Nothing is divided: the logarithm of a sum is that of its bits before the point, and a straight line
between two entries of a table behind it. All in 64 bits, within one step of the rounded real
result.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, log, log2

import numpy as np
from xdsl.dialects.builtin import IndexType, IntegerAttr, TensorType
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def

from explorer.ir.compute import KernelBuilder, Scalar, ScalarBuilder
from explorer.ir.operation import Access
from explorer.ir.top.arithmetic import in_arithmetic_types
from explorer.ir.top.definitions import load_element, scratch, store_element
from explorer.ir.top.quantization.integer_normalizations import UNIT_BITS, SumsExponentials
from explorer.ir.top.reductions.domain import ReductionDomain
from explorer.ir.top.support.gemmlowp import leading, leading_scalar
from explorer.ir.top.support.quantized_scalars import I64, Tables
from explorer.ir.types import QuantizedType, is_static, static_shape

SUM_BITS = 62
"""That a sum of exponentials fits into."""
MAX_SHIFT = SUM_BITS - 1 - UNIT_BITS
"""Of a sum that is one, until its leading bit is the highest."""
INDEX_BITS = 8
"""Behind the leading bit, that choose an entry of the table."""
REST_BITS = 22
"""Behind those, that say how far it is to the next entry."""
UNUSED_BITS = SUM_BITS - 1 - INDEX_BITS - REST_BITS
MAX_FRACTION_BITS, FEWEST_FRACTION_BITS = 30, 8
"""Behind the point of what is counted in steps of the result."""
LINE_ERROR = 2.0 ** (-2 * INDEX_BITS - 3)
"""Of straight lines instead of the logarithm between 1 and 2, at most."""
MAX_ERROR = 0.25
"""In steps, of all that is rounded before the result is."""


@irdl_op_definition
class IntegerLogSoftmaxOp(SumsExponentials):
    """x - max(x) - log(sum(exp(x - max(x)))) along an axis.

        sum(e) / 2^30 = m 2^k, 1 <= m < 2       e and d of `SumsExponentials`
        L = k ln 2 + ln m                       ln m: a table of 257 entries, lines between them
        y = round(-(d scale + L) / scale of y) + zero point

    d, ln 2 and the entries are counted in steps of the result, with `fraction_bits` behind the
    point.
    """

    name = "top.integer_log_softmax"

    input = operand_def(TensorType)
    axis = prop_def(IntegerAttr)
    to = prop_def(QuantizedType)
    output = result_def(TensorType)

    @property
    def step(self) -> float:
        return float(self.made.double_scales[0])

    @property
    def fraction_bits(self) -> int:
        """As many as 64 bits hold of the farthest distance, and of a difference of two entries
        times what lies between them."""
        farthest = 2.0**self.source.storage.width.data * float(self.source.double_scales[0])
        logarithms = SUM_BITS * log(2)
        before_point = ceil(log2(max(farthest, logarithms) / self.step + 1))
        between = ceil(log2(2.0**-INDEX_BITS / self.step + 1))
        return min(MAX_FRACTION_BITS, 60 - before_point, 62 - REST_BITS - between)

    def check(self) -> None:
        if self.fraction_bits < FEWEST_FRACTION_BITS:
            raise ValueError(f"steps of {self.step:g} are too small for what they count")
        error = LINE_ERROR
        if is_static(self.input):
            error += static_shape(self.input)[self.get("axis")] * 2.0 ** -(UNIT_BITS + 1)
        if error > MAX_ERROR * self.step:
            raise ValueError(f"logarithms are {error:g} off, too much for steps of {self.step:g}")

    def _counted(self, numbers: np.ndarray | float) -> np.ndarray:
        """Real numbers in steps of the result, with bits behind the point, as i64."""
        return np.rint(np.asarray(numbers) / self.step * 2.0**self.fraction_bits).astype(np.int64)

    @property
    def factors(self) -> np.ndarray:
        """Of a distance, and of a bit before the point."""
        return self._counted(np.array([float(self.source.double_scales[0]), log(2)]))

    @property
    def logarithms(self) -> np.ndarray:
        return self._counted(np.log1p(np.arange(2**INDEX_BITS + 1) / 2**INDEX_BITS))

    @in_arithmetic_types
    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        distance, e = self.distances(operands[0])
        total = e.sum(axis=self.get("axis"), keepdims=True)
        # An axis without numbers has a sum of 0, and no results.
        lifted, shift = leading(np.maximum(total, 1 << UNIT_BITS), SUM_BITS)
        place = (lifted >> UNUSED_BITS) & ((1 << (INDEX_BITS + REST_BITS)) - 1)
        index, rest = place >> REST_BITS, place & ((1 << REST_BITS) - 1)
        table, (of_distance, of_bit) = self.logarithms, self.factors
        line = table[index] + ((table[index + 1] - table[index]) * rest >> REST_BITS)
        counted = distance * of_distance + (line + (MAX_SHIFT - shift) * of_bit)
        bits = self.fraction_bits
        return (self.stored((np.int64(1 << (bits - 1)) - counted) >> bits),)

    def kernel_constants(self) -> Tables:
        return [
            *self.exponential_tables,
            ("logarithms", self.logarithms),
            ("factors", self.factors),
        ]

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        x, *exponentials, logarithms, factors = inputs
        loops = ReductionDomain.of(self, (self.get("axis"),), True, x, output)
        kept = tuple(loops.outer_loops.values())
        total, distance = self.define_total(k, loops, x, exponentials)
        subtracted = scratch(k, "subtracted", kept, I64)

        def logarithm(s: ScalarBuilder, *at: Scalar) -> None:
            lifted, shift = leading_scalar(
                load_element(s, total, at).maximum(1 << UNIT_BITS), SUM_BITS
            )
            mask = (1 << (INDEX_BITS + REST_BITS)) - 1
            place = lifted.shift_right(UNUSED_BITS).logical_and(mask)
            index = place.shift_right(REST_BITS).convert(IndexType())
            rest = place.logical_and((1 << REST_BITS) - 1)
            first = load_element(s, logarithms, [index])
            second = load_element(s, logarithms, [index + s.index(1)])
            line = first + ((second - first) * rest).shift_right(REST_BITS)
            bits = shift.constant(MAX_SHIFT) - shift
            whole = bits * load_element(s, factors, [s.index(1)])
            store_element(s, line + whole, subtracted, at)

        def subtract(s: ScalarBuilder, *indices: Scalar) -> None:
            wide = distance(s, indices).convert(I64) * load_element(s, factors, [s.index(0)])
            counted = wide + load_element(s, subtracted, indices[: len(kept)])
            bits = self.fraction_bits
            rounded = (counted.constant(1 << (bits - 1)) - counted).shift_right(bits)
            store_element(s, self.stored_scalar(rounded), output, loops.input_subscripts(indices))

        k.nest(loops.outer_loops, logarithm, parallel=" ".join(loops.outer_loops))
        k.nest(loops.all_loops, subtract, parallel=" ".join(loops.all_loops))
        return "explicit"

    def label(self) -> str:
        return "log softmax in integers"
