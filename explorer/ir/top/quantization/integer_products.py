"""Products of quantized tensors: sums of integers, requantized at the end.

    x : ui8 (scale sx, zero zx)    w : i8 (scales sw, zeros zw)    bias : i32
    sum = bias + sum of (x - zx) * (w - zw)            i32 with the scale sx * sw and no zero point
    y   = requantize(sum)                              where the operation has a `requantization`

Where the operation says `subtracted`, that number takes the place of zx: its bias makes up for the
difference. Padding stands for zx all the same.

What is known at run time only (dynamic quantization) comes in operands of its own:

    right_zero                in the place of zw
    left_zero, right_sums     sum - (left_zero - subtracted) * right_sums, where right_sums are
                              those of (w - zw) of each channel, in i32
    scale, channel_scales     f32(sum) * (scale * channel_scales): the result is f32, so that
                              bias, residual and activation follow in floats

Zero points of signed bytes w leave the inner loop: sum of x * (w - zw) = sum of x * w - zw * sum
of x, and the sum of x is the same for all channels.

`splits_signs`: sizes of w are multiplied with x whose bits are flipped where w is negative, which
takes sign_sums: what the sums begin as,

    (x - o) * w = |w| * ((x - o) ^ s) + |w| * -s        s = -1 where w < 0, else 0

where x - o (o = `subtracted`) is a signed byte. Two such products fit 16 bits for all bytes, which
two of an unsigned and a signed byte do not: what `vpmaddubsw` needs.

Sums wrap around at 32 bits, as they do in generated code. Reference: Jacob et al., "Quantization
and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference", 2018, section 2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import AnyFloat, IntegerType, Signedness
from xdsl.ir import Attribute

from explorer.ir.compute import Buffer, KernelBuilder, Scalar, ScalarBuilder, Subscript
from explorer.ir.interfaces import Quantizable, RowWise
from explorer.ir.layout import rounded_channels
from explorer.ir.operation import Access
from explorer.ir.requantization import RequantizationAttr
from explorer.ir.top.support.quantized_scalars import (
    F32,
    I32,
    Tables,
    centered,
    centered_scalar,
    requantization_tables,
    requantized_array,
    requantized_scalar,
    stored_array,
    stored_scalar,
    table_reads,
    zero_table,
)
from explorer.ir.types import (
    QuantizedType,
    arithmetic_type,
    element_type_of,
    layout_of,
    shape_of,
    stored_type,
)

I8 = IntegerType(8)
SIGNED_BYTES: dict[Attribute, int] = {I8: 0, IntegerType(8, Signedness.UNSIGNED): 128}
"""What is subtracted from bytes of a type so that they are signed."""
ZERO_TYPES = (I8, IntegerType(8, Signedness.UNSIGNED), I32)
"""Of a zero point that is known at run time only."""
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
    scales = left.double_scales * right.double_scales
    axis = -1 if right.is_per_tensor else result_axis
    return QuantizedType.get(I32, scales.tolist(), [0] * len(scales), axis)


@dataclass(frozen=True)
class RunTime:
    """What is known at run time only, as values, arrays or accesses; None for what is not there."""

    left_zero: Any
    right_zero: Any
    right_sums: Any
    scale: Any
    channel_scales: Any
    sign_sums: Any

    @property
    def is_scaled(self) -> bool:
        """The result is made of real numbers."""
        return self.scale is not None or self.channel_scales is not None

    @property
    def present(self) -> tuple[Any, ...]:
        return tuple(part for part in vars(self).values() if part is not None)

    def mapped(self, change: Callable[[Any], Any]) -> RunTime:
        """The same with each part changed that is there."""
        parts = vars(self).items()
        return RunTime(**{name: None if part is None else change(part) for name, part in parts})


def unsigned_offset(kind: QuantizedType) -> int:
    """What stored bytes are unsigned bytes without: 0, or -128 where they have a sign."""
    return 0 if kind.storage.signedness.data == Signedness.UNSIGNED else -128


class IntegerProduct(Quantizable, RowWise):
    """What convolution and matmul do where their operands are quantized."""

    TAKES_QUANTIZED: ClassVar[bool] = True

    def quantized_weight(self) -> tuple[int, int]:
        return 1, self.channel_axes()[0]

    def channel_axes(self) -> tuple[int, int]:
        """The axes of the second operand and of the result that scales may run along."""
        raise NotImplementedError(self.name)

    def at_run_time(self, operands: Sequence) -> RunTime:
        """What `operands` (of whatever kind) hold for the optional ones of that name."""
        raise NotImplementedError(self.name)

    @property
    def run_time(self) -> RunTime:
        return self.at_run_time(self.operands)

    @property
    def requantizes(self) -> RequantizationAttr | None:
        return self.requantization  # pyright: ignore[reportAttributeAccessIssue]

    @property
    def result_type(self) -> QuantizedType | None:
        """What a product of f32 is quantized as; None where it is not."""
        return self.to  # pyright: ignore[reportAttributeAccessIssue]

    @property
    def requantized_type(self) -> QuantizedType | None:
        """The type of the numbers that `requantization` takes."""
        if self.result_type is None:
            return self.sums
        return self.taken_as or self.result_type  # pyright: ignore[reportAttributeAccessIssue]

    @property
    def rounds(self) -> bool:
        """Whether the result is made of whole numbers by `quantize` or `requantize`."""
        return self.result_type is not None or self.requantizes is not None

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
    def has_filter_offset(self) -> bool:
        """Whether signed bytes of the second operand have zero points other than 0.

        Dense products then add up what they read once more, instead of subtracting them from every
        filter.
        """
        right = element_type_of(self.operands[1])
        if self.sums is None or not isinstance(right, QuantizedType) or right.storage != I8:
            return False
        return self.run_time.right_zero is not None or bool(np.any(right.zero_point_array))

    @property
    def multiplies_bytes(self) -> bool:
        """Whether unsigned bytes, x's zero point folded, are multiplied with signed ones."""
        left, right = (element_type_of(operand) for operand in list(self.operands)[:2])
        if not isinstance(left, QuantizedType) or not isinstance(right, QuantizedType):
            return False
        zeros = right.zero_point_array
        return (
            left.storage.width.data == right.storage.width.data == 8
            and self.input_offset == unsigned_offset(left)
            and right.storage.signedness.data != Signedness.UNSIGNED
            and (self.adds_up_input or bool(np.all(zeros == zeros[0])))
        )

    def product_element(self) -> Attribute:
        """Element type of the result."""
        sums, by, run_time = self.sums, self.requantizes, self.run_time
        if self.result_type is not None:
            return self._quantized_element(self.result_type)
        if sums is None:
            if by is not None or self.get("subtracted") is not None or run_time.present:
                raise ValueError(f"{self.name} requantizes what is not quantized")
            return element_type_of(self.operands[0])
        self._check_run_time(run_time)
        count = len(self.operands) - len(run_time.present)
        others = [stored_type(element_type_of(o)) for o in list(self.operands)[2:count]]
        if run_time.is_scaled:
            if by is not None or any(kind != F32 for kind in others):
                raise ValueError(f"{self.name} with a scale is one of f32, and not requantized")
            return F32
        if self.get("activation") or any(kind != I32 for kind in others) or len(others) > 1:
            raise ValueError(f"{self.name} of quantized numbers takes an i32 bias and no more")
        if by is None:
            return sums
        by.check()
        requantization_tables(sums, by)
        return by.to

    def _quantized_element(self, to: QuantizedType) -> Attribute:
        """Element type of a product of f32 that is quantized."""
        by, taken = self.requantizes, self.requantized_type
        if any(element_type_of(o) != F32 for o in self.operands):
            raise ValueError(f"{self.name} quantizes products of f32 only")
        if not to.is_per_tensor:
            raise ValueError(f"{self.name} quantizes with one scale per tensor")
        if by is None:
            return to
        assert taken is not None
        if taken.storage != to.storage or taken.axis_number not in (-1, self.channel_axes()[1]):
            raise ValueError(f"{self.name} cannot take {to} as {taken}")
        by.check()
        requantization_tables(taken, by)
        return by.to

    def _check_run_time(self, given: RunTime) -> None:
        """ValueError where what is known at run time only has not the types or shapes it needs."""
        if (given.left_zero is None) != (given.right_sums is None):
            raise ValueError(f"{self.name} takes left_zero and right_sums together")
        if given.right_zero is not None and not self.adds_up_input:
            raise ValueError(f"{self.name} takes a right_zero of dense signed bytes only")
        if (given.sign_sums is None) == bool(self.get("splits_signs")):
            raise ValueError(f"{self.name} takes splits_signs and sign_sums together")
        if given.sign_sums is not None and not self._multiplies_signed_bytes:
            raise ValueError(f"{self.name} splits signs of products of signed bytes only")
        right, axis = shape_of(self.operands[1]), self.channel_axes()[0]
        one, each = ((), (1,)), (right[axis],)
        batched = () if axis == 0 or len(right) == 2 else ((*right[:-2], 1, right[-1]),)
        for name, value, kinds, shapes in (
            ("left_zero", given.left_zero, ZERO_TYPES, one),
            ("right_zero", given.right_zero, ZERO_TYPES, (*one, each)),
            ("right_sums", given.right_sums, (I32,), batched or (each,)),
            ("scale", given.scale, (F32,), (*one, each)),
            ("channel_scales", given.channel_scales, (F32,), (each,)),
            ("sign_sums", given.sign_sums, (I32,), (each,)),
        ):
            if value is None:
                continue
            kind, shape = element_type_of(value), shape_of(value)
            if kind not in kinds or shape not in shapes:
                raise ValueError(f"{self.name} cannot take {kind} of shape {shape} as {name}")

    # -- arrays ----------------------------------------------------------------------------------
    def factors(
        self, left: np.ndarray, right: np.ndarray, given: RunTime
    ) -> tuple[np.ndarray, np.ndarray]:
        """The operands as they are multiplied; integers as doubles, which hold their sums exactly.

        (Products of 16-bit numbers, 2^21 of them, stay below 2^53.)
        """
        if self.sums is None:
            return left, right
        filters = centered(right, self._right)
        if given.right_zero is not None:
            filters = filters - given.right_zero
        return (
            (left.astype(np.int64) - self.input_offset).astype(np.float64),
            filters.astype(np.float64),
        )

    def finished_sums(
        self, sums: np.ndarray, bias: np.ndarray | None, given: RunTime
    ) -> np.ndarray:
        """Sums with the bias in 32 bits, requantized or scaled if asked.

        `bias` and what runs along channels come in shapes that broadcast.
        """
        kind, by = self.sums, self.requantizes
        assert kind is not None
        total = sums.astype(np.int64)
        if given.left_zero is not None:
            zero = given.left_zero.astype(np.int64).reshape(()) - self.input_offset
            total = total - zero * given.right_sums
        if bias is not None and not given.is_scaled:
            total = total + bias
        if given.sign_sums is not None:
            total = total + given.sign_sums
        wrapped = total.astype(np.int32)
        if given.is_scaled:
            factors = [f for f in (given.scale, given.channel_scales) if f is not None]
            return wrapped.astype(np.float32) * reduce(np.multiply, factors)
        return wrapped if by is None else requantized_array(wrapped, kind, by)

    def quantized_array(self, real: np.ndarray) -> np.ndarray:
        """Real numbers as `to` has them, requantized where `requantization` is given."""
        to, taken, by = self.result_type, self.requantized_type, self.requantizes
        assert to is not None and taken is not None
        stored = stored_array(real, to)
        return stored if by is None else requantized_array(centered(stored, taken), taken, by)

    # -- kernels ---------------------------------------------------------------------------------
    def kernel_constants(self) -> Tables:
        taken, by = self.requantized_type, self.requantizes
        if taken is None:
            return []
        tables = [
            *([] if self.sums is None else zero_table(self._right, "weight_zeros")),
            *([] if by is None else requantization_tables(taken, by)),
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
        """Where sums are held: the output, or a buffer of i32 where they become something else, or
        of f32 where they are quantized or rounded to a narrow float once all is added."""
        kind = F32 if self.result_type is not None else element_type_of(self.results[0])
        is_float = self.sums is None and isinstance(kind, AnyFloat)
        is_narrow = is_float and arithmetic_type(kind) != element_type_of(self.results[0])
        if self.requantizes is None and not self.run_time.is_scaled and not is_narrow:
            return output
        wide = arithmetic_type(kind) if is_narrow else I32
        buffer = k.argument("sums", output.buffer.type.get_shape(), wide, "scratch")
        return Access(buffer, output.shape, output.shift)

    def quantized_scalar(self, real: Scalar, *tables: Scalar) -> Scalar:
        """A real number as `to` has it, requantized where `requantization` is given."""
        to, taken, by = self.result_type, self.requantized_type, self.requantizes
        assert to is not None and taken is not None
        stored = stored_scalar(real, to)
        if by is None:
            return stored
        return requantized_scalar(centered_scalar(stored, taken), by, *tables)

    def multiplied(self, s: ScalarBuilder, x: Scalar, w: Scalar, *rest: Scalar) -> Scalar:
        """The sum so far (last) plus one product; in between the zero point of this slice of w."""
        *zeros, y = rest
        if self.sums is None:
            return y + x * w
        if self.get("splits_signs"):
            wide = w.convert(I32)
            sign = wide.shift_right(I32.width.data - 1)
            return y + self.factor(x).logical_xor(sign) * (wide.logical_xor(sign) - sign)
        filters = w.convert(I32) if self.adds_up_input else centered_scalar(w, self._right, *zeros)
        return y + self.factor(x) * filters

    def inner_zeros(self, zeros: Sequence[Access], channel: Subscript) -> Reads:
        """Zero points that the inner loop subtracts: none where `define_offsets` makes up for
        them."""
        return [] if self.adds_up_input else table_reads(zeros, channel)

    def moved_by_zero(self, added: Scalar, zeros: Sequence[Scalar]) -> Scalar:
        """What the zero points of w take from a sum: `added` is that of x; `zeros` are known at
        run time, or differ between channels."""
        if zeros:
            return (added * zeros[0].convert(I32)).negate()
        return added * -int(self._right.zero_point_array[0])

    def factor(self, x: Scalar) -> Scalar:
        offset = self.input_offset
        wide = x.convert(I32)
        return wide - offset if offset else wide

    @property
    def _multiplies_signed_bytes(self) -> bool:
        """Whether x - `subtracted` and w, as it is stored, are signed bytes."""
        left, right = (element_type_of(operand) for operand in list(self.operands)[:2])
        assert isinstance(left, QuantizedType) and isinstance(right, QuantizedType)
        is_plain = self.adds_up_input or not np.any(right.zero_point_array)
        return (
            right.storage == I8 and is_plain and SIGNED_BYTES.get(left.storage) == self.input_offset
        )

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
        """Statements that make the sum of x, the same for every filter, in a buffer of i32.

        `read` and `place` give the subscripts of x and of the buffer (`shape`).
        """
        buffer = k.argument("offsets", shape, I32, "scratch")
        offsets = Access(buffer, tuple(shape), (0,) * len(shape))
        d = k.dimensions(**kept)
        k.generic("plain", [], offsets.at(*place(*d)), lambda s: s.constant(0))
        d = k.dimensions(**kept, **reduced)

        def body(s: ScalarBuilder, x: Scalar, y: Scalar) -> Scalar:
            return y + self.factor(x)

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
        """The last statement where sums of integers are requantized."""
        by = self.requantizes
        if by is None or self.result_type is not None:
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
