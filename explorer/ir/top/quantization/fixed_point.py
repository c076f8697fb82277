"""Elementwise arithmetic on quantized numbers without a float: `top.fixed_point`.

    %y = top.fixed_point(%a, %b) {kind = "add", by = #top.requantization<...>}

    add, sub   both operands at twice the larger scale, lifted by L bits, then added:
               a' = fixed((a - za) << L, sa / (2 max(sa, sb)))        b' likewise
               y  = fixed(a' + b', 2 max(sa, sb) / (2^L sy)) + zy
    mul        y  = fixed((a - za) * (b - zb), sa sb / sy) + zy       the ratio in single precision
    max, min   y  = max(fixed(a - za, sa / sy), fixed(b - zb, sb / sy)) + zy
    prelu      y  = fixed(a - za, sa / sy) + zy where a >= za, else as mul: b are slopes

`fixed(x, ratio)` is x * ratio by the scheme of `by`. L is 20 for bytes and 15 for wider numbers.
With the scheme doubling_high_multiply these are the reference kernels of TensorFlow Lite (add, sub,
mul, prelu). Reference: Jacob et al., "Quantization and Training of Neural Networks for Efficient
Integer-Arithmetic-Only Inference", 2018, appendix A.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import StringAttr, TensorType
from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def

from explorer.ir.compute import KernelBuilder, Scalar, ScalarBuilder
from explorer.ir.operation import Access
from explorer.ir.requantization import (
    RequantizationAttr,
    fixed_point,
    integer_limits,
    multiplied,
)
from explorer.ir.top.arithmetic import in_arithmetic_types
from explorer.ir.top.support.binary_kinds import BINARY, BinaryKind
from explorer.ir.top.support.broadcasting import (
    ElementwiseOperation,
    broadcast_shapes,
    iteration,
)
from explorer.ir.top.support.quantized_scalars import (
    I32,
    Tables,
    centered,
    centered_scalar,
    fixed_point_scalar,
    fixed_point_tables,
    limited_scalar,
    scaled_scalar,
)
from explorer.ir.types import QuantizedType, element_type_of, numpy_dtype, shape_of, tensor_type

KINDS = ("add", "sub", "mul", "max", "min", "prelu")
BYTE_LIFT, WIDE_LIFT = 20, 15
"""Bits that summands are lifted by before they are scaled."""
MAX_INT32 = 2**31 - 1


@irdl_op_definition
class FixedPointOp(ElementwiseOperation):
    """y = kind(a, b) of quantized numbers with one scale per tensor, broadcasting as NumPy does."""

    name = "top.fixed_point"
    FAMILY: ClassVar[str] = "elementwise"
    KEEPS_FINITE: ClassVar[bool] = True
    TAKES_QUANTIZED: ClassVar[bool] = True

    left = operand_def(TensorType)
    right = operand_def(TensorType)
    kind = prop_def(StringAttr)
    by = prop_def(RequantizationAttr)
    output = result_def(TensorType)

    @property
    def kinds(self) -> tuple[QuantizedType, QuantizedType]:
        """Element types of the operands."""
        left, right = element_type_of(self.left), element_type_of(self.right)
        if not isinstance(left, QuantizedType) or not isinstance(right, QuantizedType):
            raise ValueError(f"{self.name} takes quantized numbers, not {left} and {right}")
        return left, right

    @property
    def is_sum(self) -> bool:
        return self.kind.data in ("add", "sub")

    @property
    def multiplies(self) -> bool:
        """Whether the operands are multiplied as they are, and what they make is scaled."""
        return self.kind.data in ("mul", "prelu")

    @property
    def combination(self) -> BinaryKind:
        """What the two operands, scaled or not, are combined by."""
        return BINARY["mul" if self.multiplies else self.kind.data]

    @property
    def lift(self) -> int:
        """Bits that the operands of a sum are shifted to the left by."""
        return WIDE_LIFT if self._is_wide else BYTE_LIFT

    @property
    def _is_wide(self) -> bool:
        return any(kind.storage.width.data > 8 for kind in self.kinds)

    @property
    def ratios(self) -> dict[str, float]:
        """What is scaled by the scheme, and by how much: `left`, `right`, `result`."""
        if self.multiplies:
            left, right, made = (kind.scale_array[0] for kind in (*self.kinds, self.by.to))
            kept = {"left": float(left / made)} if self.kind.data == "prelu" else {}
            return {**kept, "result": float(left * right / made)}
        left, right = (float(kind.double_scales[0]) for kind in self.kinds)
        made = float(self.by.to.double_scales[0])
        if not self.is_sum:
            return {"left": left / made, "right": right / made}
        twice = 2 * max(left, right)
        return {
            "left": left / twice,
            "right": right / twice,
            "result": twice / (2**self.lift * made),
        }

    def infer_types(self) -> list[Attribute]:
        self._check()
        shape = broadcast_shapes(shape_of(self.left), shape_of(self.right))
        return [tensor_type(self.by.to, shape)]

    def _check(self) -> None:
        """ValueError for what has no meaning, or may exceed 32 bits."""
        kinds, by = self.kinds, self.by
        by.check()
        if self.kind.data not in KINDS:
            raise ValueError(f"unknown kind {self.kind.data!r}; known: {', '.join(KINDS)}")
        if by.how.scheme == "float":
            raise ValueError(f"{self.name} has no scheme of floats")
        if any(not kind.is_per_tensor for kind in kinds):
            raise ValueError(f"{self.name} knows one scale per tensor, not one per slice")
        largest = [_largest(kind) for kind in kinds]
        if self.is_sum:
            reached = max(largest) << self.lift
        else:
            reached = largest[0] * largest[1] if self.multiplies else max(largest)
        if reached > MAX_INT32:
            raise ValueError(
                f"{self.kind.data} of {kinds[0].storage} and {kinds[1].storage} may reach "
                f"{reached:,}: more than 32 bits hold"
            )
        for ratio in self.ratios.values():
            fixed_point(np.array([ratio]), by.how)

    @in_arithmetic_types
    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        how, kind = self.by.how, self.kind.data
        factors = {n: fixed_point(np.array(ratio), how) for n, ratio in self.ratios.items()}
        a, b = (centered(x, own) for x, own in zip(operands, self.kinds, strict=True))
        if self.is_sum:
            a, b = a << self.lift, b << self.lift
        if not self.multiplies:
            a, b = multiplied(a, factors["left"], how), multiplied(b, factors["right"], how)
        result = self.combination.meaning(a, b)
        if "result" in factors:
            result = multiplied(result, factors["result"], how)
        if kind == "prelu":
            result = np.where(a >= 0, multiplied(a, factors["left"], how), result)
        result = result + int(self.by.to.zero_point_array[0])
        return (np.clip(result, *self.by.limits).astype(numpy_dtype(self.by.to)),)

    def kernel_constants(self) -> Tables:
        return [
            table
            for name, ratio in self.ratios.items()
            for table in fixed_point_tables(np.array([ratio]), self.by.how, f"{name}_")
        ]

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        left, right, *tables = inputs
        d = k.dimensions(**iteration(output.shape))
        reads = [left.broadcast(d), right.broadcast(d), *[table.at(0) for table in tables]]
        k.generic("plain", reads, output.at(*d), self._body)
        return "elementwise"

    def _body(self, s: ScalarBuilder, a: Scalar, b: Scalar, *tables: Scalar) -> Scalar:
        kind, ratios = self.kind.data, list(self.ratios)
        factors = {name: tables[2 * i : 2 * i + 2] for i, name in enumerate(ratios)}
        a, b = (centered_scalar(x, own) for x, own in zip((a, b), self.kinds, strict=True))
        if self.is_sum:
            a, b = a.shift_left(self.lift), b.shift_left(self.lift)
        if not self.multiplies:
            a = self._scaled(a, factors["left"])
            b = self._scaled(b, factors["right"])
        result = self.combination.body(a, b)
        if "result" in factors:
            result = scaled_scalar(result.convert(I32), self.by, *factors["result"])
        if kind == "prelu":
            kept = scaled_scalar(a, self.by, *factors["left"])
            result = a.compare("ge", 0).select(kept, result)
        return limited_scalar(result, self.by)

    def _scaled(self, x: Scalar, factors: Sequence[Scalar]) -> Scalar:
        """An operand at the common scale. Summands of bytes stay below 2^29 and are at least
        halved, so that 32 bits hold them; wider ones may need 64."""
        if self.is_sum and self._is_wide:
            return fixed_point_scalar(x, self.by.how, *factors)
        return scaled_scalar(x, self.by, *factors)

    def label(self) -> str:
        return f"{self.kind.data} in fixed point"


def _largest(kind: QuantizedType) -> int:
    """The largest magnitude of a stored number minus its zero point."""
    low, high = integer_limits(kind.storage)
    zero = int(kind.zero_point_array[0])
    return max(zero - low, high - zero)
