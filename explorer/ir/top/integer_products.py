"""Products of quantized tensors: sums of integers, requantized at the end.

    x : ui8 (scale sx, zero zx)    w : i8 (scales sw, zeros zw)    bias : i32
    sum = bias + sum of (x - zx) * (w - zw)            i32 with the scale sx * sw and no zero point
    y   = requantize(sum)                              where the operation has a `requantization`

Where the operation says `subtracted`, that number takes the place of zx: its bias makes up for the
difference. Padding stands for zx all the same.

Sums wrap around at 32 bits, as they do in generated code. Reference: Jacob et al., "Quantization
and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference", 2018, section 2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute

from explorer.ir.compute import Buffer, KernelBuilder, Scalar, ScalarBuilder, Subscript
from explorer.ir.layout import rounded_channels
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
from explorer.ir.types import QuantizedType, element_type_of, layout_of, shape_of, stored_type

I8 = IntegerType(8)
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

    @property
    def input_offset(self) -> int:
        """What is subtracted from the stored numbers of the first operand: its zero point, or
        `subtracted`."""
        left, stated = element_type_of(self.operands[0]), self.get("subtracted")
        assert isinstance(left, QuantizedType)
        return int(left.zero_point_array[0]) if stated is None else int(stated)

    @property
    def padding_factor(self) -> int:
        """What padding is multiplied as: 0, unless something else than zx is subtracted."""
        left = element_type_of(self.operands[0])
        if not isinstance(left, QuantizedType):
            return 0
        return int(left.zero_point_array[0]) - self.input_offset

    @property
    def filter_offset(self) -> int:
        """The one zero point of a constant second operand of signed bytes, where that is not 0.

        Dense products then add up what they read once more, instead of subtracting it from every
        filter: sum of x * (w - z) = sum of x * w - z * sum of x.
        """
        right = element_type_of(self.operands[1])
        if self.sums is None or not isinstance(right, QuantizedType) or right.storage != I8:
            return 0
        zeros = right.zero_point_array
        return int(zeros[0]) if len(zeros) and np.all(zeros == zeros[0]) else 0

    def product_element(self) -> Attribute:
        """Element type of the result."""
        sums, by = self.sums, self.requantizes
        if sums is None:
            if by is not None or self.get("subtracted") is not None:
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
        return (
            (left.astype(np.int64) - self.input_offset).astype(np.float64),
            centered(right, self._right).astype(np.float64),
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
        tables = [
            *zero_table(self._right, "weight_zeros"),
            *([] if by is None else requantization_tables(sums, by)),
        ]
        return [(name, self._rounded_up(table)) for name, table in tables]

    def _rounded_up(self, table: np.ndarray) -> np.ndarray:
        """A table per channel with an entry for each channel that fills up the last block."""
        layout = layout_of(self.results[0])
        missing = rounded_channels(len(table), layout) - len(table) if len(table) > 1 else 0
        return np.pad(table, (0, missing), mode="edge") if missing else table

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
        filters = w.convert(I32) if self.adds_up_input else centered_scalar(w, self._right, *zeros)
        return y + self._factor(x) * filters

    def _factor(self, x: Scalar) -> Scalar:
        offset = self.input_offset
        wide = x.convert(I32)
        return wide - offset if offset else wide

    @property
    def adds_up_input(self) -> bool:
        """Whether filters are multiplied as they are stored (`define_offsets` makes up for it)."""
        return False

    def define_offsets(
        self,
        k: KernelBuilder,
        kept: dict[str, int],
        reduced: dict[str, int],
        read: Callable[..., tuple[Buffer, Sequence[Subscript]]],
        shape: Sequence[int],
        place: Callable[..., Sequence[Subscript]],
    ) -> Access:
        """Statements that make -z * sum of x, the same for every filter, in a buffer of i32.

        `read` and `place` give the subscripts of x and of the buffer (`shape`).
        """
        buffer = k.argument("offsets", shape, I32, "scratch")
        offsets = Access(buffer, tuple(shape), (0,) * len(shape))
        d = k.dimensions(**kept)
        k.generic("plain", [], offsets.at(*place(*d)), lambda s: s.constant(0))
        d = k.dimensions(**kept, **reduced)

        def body(s: ScalarBuilder, x: Scalar, y: Scalar) -> Scalar:
            return y + self._factor(x) * -self.filter_offset

        outer = d[: len(kept)]
        k.generic(
            "plain",
            [read(*d)],
            offsets.at(*place(*outer)),
            body,
            reductions=" ".join(reduced),
            accumulates=True,
        )
        return offsets

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
