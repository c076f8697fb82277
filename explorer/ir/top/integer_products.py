"""Products of quantized tensors: sums of integers, requantized at the end.

    x : ui8 (scale sx, zero zx)    w : i8 (scales sw, zeros zw)    bias : i32
    sum = bias + sum of (x - zx) * (w - zw)            i32 with the scale sx * sw and no zero point
    y   = requantize(sum)                              where the operation has a `requantization`

Sums wrap around at 32 bits, as they do in generated code. Reference: Jacob et al., "Quantization
and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference", 2018, section 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.ir import Attribute

from explorer.ir.compute import Buffer, KernelBuilder, Scalar, ScalarBuilder, Subscript
from explorer.ir.operation import Access, TopOperation
from explorer.ir.requantization import RequantizationAttr
from explorer.ir.top.quantized_scalars import (
    I32,
    Tables,
    centered,
    centered_scalar,
    requantization_tables,
    requantized_array,
    requantized_scalar,
    table_reads,
    zero_table,
)
from explorer.ir.types import QuantizedType, element_type_of, shape_of, stored_type

Reads = list[tuple[Buffer, list[Subscript]]]


def sums_type(
    left: QuantizedType, right: QuantizedType, right_axis: int, result_axis: int
) -> QuantizedType:
    """Element type of the sums; ValueError where scales vary along an axis that is summed over."""
    if not left.is_per_tensor:
        raise ValueError("the first operand of an integer product has one scale per tensor")
    if right.axis_number not in (-1, right_axis):
        raise ValueError(
            f"scales of the second operand run along axis {right.axis_number}; "
            f"only axis {right_axis} is not summed over"
        )
    scales = left.scale_array * right.scale_array
    axis = -1 if right.is_per_tensor else result_axis
    return QuantizedType.get(I32, scales.tolist(), [0] * len(scales), axis)


class IntegerProduct(TopOperation):
    """What convolution and matmul do where their operands are quantized."""

    TAKES_QUANTIZED: ClassVar[bool] = True

    def channel_axes(self) -> tuple[int, int]:
        """The axes of the second operand and of the result that scales may run along."""
        raise NotImplementedError(self.name)

    @property
    def requantizes(self) -> RequantizationAttr | None:
        return self.requantization  # pyright: ignore[reportAttributeAccessIssue]

    @property
    def sums(self) -> QuantizedType | None:
        """Element type of the sums; None for products of plain numbers."""
        left, right = (element_type_of(operand) for operand in list(self.operands)[:2])
        if not isinstance(left, QuantizedType) or not isinstance(right, QuantizedType):
            if isinstance(left, QuantizedType) or isinstance(right, QuantizedType):
                raise ValueError(f"{self.name} of quantized and other numbers: {left}, {right}")
            return None
        return sums_type(left, right, *self.channel_axes())

    def product_element(self) -> Attribute:
        """Element type of the result."""
        sums, by = self.sums, self.requantizes
        if sums is None:
            if by is not None:
                raise ValueError(f"{self.name} requantizes what is not quantized")
            return element_type_of(self.operands[0])
        others = [stored_type(element_type_of(o)) for o in list(self.operands)[2:]]
        if self.get("activation") or any(kind != I32 for kind in others) or len(others) > 1:
            raise ValueError(f"{self.name} of quantized numbers takes an i32 bias and no more")
        if by is None:
            return sums
        by.check()
        requantization_tables(sums, by)
        return by.to

    # -- arrays ----------------------------------------------------------------------------------
    def factors(self, left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The operands as they are multiplied; integers as doubles, which hold their sums exactly.

        (Products of 16-bit numbers, 2^21 of them, stay below 2^53.)
        """
        if self.sums is None:
            return left, right
        kinds = (element_type_of(operand) for operand in list(self.operands)[:2])
        left_kind, right_kind = (k for k in kinds if isinstance(k, QuantizedType))
        return (
            centered(left, left_kind).astype(np.float64),
            centered(right, right_kind).astype(np.float64),
        )

    def finished_sums(self, sums: np.ndarray, bias: np.ndarray | None) -> np.ndarray:
        """Sums with the bias (in a shape that broadcasts) in 32 bits, requantized if asked."""
        kind, by = self.sums, self.requantizes
        assert kind is not None
        total = sums.astype(np.int64)
        if bias is not None:
            total = total + bias
        wrapped = total.astype(np.int32)
        return wrapped if by is None else requantized_array(wrapped, kind, by)

    # -- kernels ---------------------------------------------------------------------------------
    def kernel_constants(self) -> Tables:
        sums, by = self.sums, self.requantizes
        if sums is None:
            return []
        return [
            *zero_table(self._right, "weight_zeros"),
            *([] if by is None else requantization_tables(sums, by)),
        ]

    @property
    def _right(self) -> QuantizedType:
        kind = element_type_of(self.operands[1])
        assert isinstance(kind, QuantizedType)
        return kind

    def table_accesses(self, inputs: Sequence[Access]) -> tuple[Sequence[Access], Sequence[Access]]:
        """The zero points of the second operand, if they differ, and factors of requantization."""
        tables = inputs[len(self.operands) :]
        count = 0 if self.sums is None else len(zero_table(self._right, "weight_zeros"))
        return tables[:count], tables[count:]

    def held_sums(self, k: KernelBuilder, output: Access) -> Access:
        """Where sums are held: the output, or a buffer of i32 where they are requantized."""
        if self.requantizes is None:
            return output
        buffer = k.argument("sums", output.buffer.type.get_shape(), I32, "scratch")
        return Access(buffer, output.shape, output.shift)

    def multiplied(self, s: ScalarBuilder, x: Scalar, w: Scalar, *rest: Scalar) -> Scalar:
        """The sum so far (last) plus one product; in between the zero point of this slice of w."""
        *zeros, y = rest
        if self.sums is None:
            return y + x * w
        left = element_type_of(self.operands[0])
        assert isinstance(left, QuantizedType)
        return y + centered_scalar(x, left) * centered_scalar(w, self._right, *zeros)

    def define_requantization(
        self,
        k: KernelBuilder,
        dimensions: dict[str, int],
        held: Access,
        output: Access,
        factors: Sequence[Access],
    ) -> None:
        """The last statement where sums are requantized."""
        by = self.requantizes
        if by is None:
            return
        d = k.dimensions(**dimensions)
        channel = d[self.channel_axes()[1] - self._merged_axes(len(d))]
        k.generic(
            "epilogue",
            [held.at(*d), *table_reads(factors, channel)],
            output.at(*d),
            lambda s, x, *tables: requantized_scalar(x, by, *tables),
        )

    def _merged_axes(self, rank: int) -> int:
        """Axes of the result that a kernel sees as one: it stands before the channels."""
        return len(shape_of(self.results[0])) - rank
