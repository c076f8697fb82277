"""Softmax and layer normalization of quantized numbers in integers.

    %y = top.integer_softmax(%x) {axis = 3, to = !top.quantized<ui8, 0.00392...:0>}
    %y = top.integer_layer_norm(%x, %m, %b) {axis = 2, epsilon = 1e-5, fraction_bits = 49, to = ...}

Both make few roundings, all in 64 bits: results are within one step of the rounded real ones.
References: Kim et al., "I-BERT: Integer-only BERT Quantization", 2021, whose order of computation
this is; exponentials are tables here, which are exact, instead of polynomials.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, log2
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import (
    BoolAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    TensorType,
)
from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def

from explorer.ir.compute import KernelBuilder, Scalar, ScalarBuilder
from explorer.ir.interfaces import AlongAxis, MixesAxes
from explorer.ir.operation import Access
from explorer.ir.requantization import (
    Requantization,
    fixed_point,
    integer_limits,
    multiplied,
    rounding_shift,
)
from explorer.ir.top.arithmetic import in_arithmetic_types
from explorer.ir.top.definitions import load_element, scratch, store_element
from explorer.ir.top.reductions.domain import ReductionDomain, reduced_shape
from explorer.ir.top.support.integer_roots import (
    half_lift_scalar,
    lifted,
    square_root,
    square_root_scalar,
)
from explorer.ir.top.support.operands import require_broadcast
from explorer.ir.top.support.quantized_scalars import (
    I32,
    I64,
    Tables,
    centered,
    centered_scalar,
    fixed_point_scalar,
    fixed_point_tables,
)
from explorer.ir.types import (
    QuantizedType,
    element_type_of,
    is_static,
    numpy_dtype,
    shape_of,
    static_shape,
    tensor_type,
)

UNIT_BITS = 30
"""Behind the point of exponentials and of shares of their sum."""
ONCE = Requantization("multiplier_shift", "nearest_up")
"""How shares become stored numbers: one rounding of a product in 64 bits."""
LARGEST_VARIANCE = 2**62
RECIPROCAL_BITS = 61
Distance = Callable[[ScalarBuilder, Sequence[Scalar]], Scalar]


class IntegerNormalization(MixesAxes):
    """What they share: quantized numbers with one scale become others, of the type `to`."""

    FAMILY: ClassVar[str] = "normalization"
    KEEPS_FINITE: ClassVar[bool] = True
    TAKES_QUANTIZED: ClassVar[bool] = True

    @property
    def source(self) -> QuantizedType:
        kind = element_type_of(self.operands[0])
        if not isinstance(kind, QuantizedType) or kind.storage.width.data > 16:
            raise ValueError(f"{self.name} takes quantized numbers of at most 16 bits, not {kind}")
        return kind

    @property
    def made(self) -> QuantizedType:
        return self.to  # pyright: ignore[reportAttributeAccessIssue]

    def infer_types(self) -> list[Attribute]:
        if not self.source.is_per_tensor or not self.made.is_per_tensor:
            raise ValueError(f"{self.name} knows one scale per tensor, not one per slice")
        shape = shape_of(self.operands[0])
        reduced_shape(shape, (self.get("axis"),), True)
        self.check()
        return [tensor_type(self.made, shape)]

    def check(self) -> None:
        """ValueError for what cannot be computed in 64 bits."""

    def stored(self, numbers: np.ndarray) -> np.ndarray:
        """Whole numbers with the zero point of the result, kept within its storage."""
        low, high = integer_limits(self.made.storage)
        result = np.clip(numbers + self.made.zero_point_array[0], low, high)
        return result.astype(numpy_dtype(self.made))

    def stored_scalar(self, x: Scalar) -> Scalar:
        low, high = integer_limits(self.made.storage)
        moved = x + int(self.made.zero_point_array[0])
        return moved.maximum(low).minimum(high).convert(I32).convert(self.made.storage)

    def define_greatest(
        self, k: KernelBuilder, loops: ReductionDomain, x: Access, greatest: Access
    ) -> None:
        """The largest stored number along the axis, as i32."""
        lowest = integer_limits(self.source.storage)[0]
        d = k.dimensions(**loops.outer_loops)
        k.generic("plain", [], greatest.at(*d), lambda s: s.constant(lowest))
        d = k.dimensions(**loops.all_loops)
        k.generic(
            "plain",
            [x.at(*loops.input_subscripts(d))],
            greatest.at(*d[: len(loops.outer_loops)]),
            lambda s, x, m: m.maximum(x.convert(I32)),
            reductions=loops.reductions,
            accumulates=True,
        )


class SumsExponentials(AlongAxis, IntegerNormalization):
    """Of the distances to the largest number along an axis:

    d = max(x) - x                          whole numbers from 0 on
    e = round(exp(-d scale) 2^30)           tables: of d, or of its upper and lower byte

    Their sum has 64 bits, and is at least 2^30.
    """

    def mixed_axes(self) -> Sequence[int]:
        return (self.get("axis"),)

    @property
    def exponentials(self) -> list[np.ndarray]:
        """exp(-d scale) 2^30 of d = 0 ... 255, and for numbers of 16 bits of d = 0, 256, ..."""
        count = 2 ** min(self.source.storage.width.data, 8)
        steps = np.arange(count) * float(self.source.double_scales[0])
        strides = (1, 256) if self.source.storage.width.data > 8 else (1,)
        return [np.rint(np.exp(-stride * steps) * 2.0**UNIT_BITS) for stride in strides]

    @property
    def exponential_tables(self) -> Tables:
        names = ("exponentials", "upper_exponentials")
        tables = zip(names, self.exponentials, strict=False)
        return [(name, table.astype(np.int32)) for name, table in tables]

    def distances(self, stored: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """d and e, as i64."""
        x, axis = stored.astype(np.int64), self.get("axis")
        lowest = integer_limits(self.source.storage)[0]
        distance = np.max(x, axis=axis, keepdims=True, initial=lowest) - x
        low, *high = (table.astype(np.int64) for table in self.exponentials)
        e = low[distance & 255]
        return distance, _halved(e * high[0][distance >> 8]) if high else e

    def define_total(
        self, k: KernelBuilder, loops: ReductionDomain, x: Access, tables: Sequence[Access]
    ) -> tuple[Access, Distance]:
        """The sum of e (i64) for each row, and what makes d (i32) at indices of all loops."""
        kept = tuple(loops.outer_loops.values())
        greatest, total = scratch(k, "greatest", kept, I32), scratch(k, "total", kept, I64)
        self.define_greatest(k, loops, x, greatest)
        d = k.dimensions(**loops.outer_loops)
        k.generic("plain", [], total.at(*d), lambda s: s.constant(0))

        def distance(s: ScalarBuilder, indices: Sequence[Scalar]) -> Scalar:
            stored = load_element(s, x, loops.input_subscripts(indices)).convert(I32)
            return load_element(s, greatest, indices[: len(kept)]) - stored

        def add(s: ScalarBuilder, *indices: Scalar) -> None:
            at = indices[: len(kept)]
            so_far = load_element(s, total, at)
            store_element(s, so_far + _exponential(s, distance(s, indices), tables), total, at)

        k.nest(loops.all_loops, add, parallel=" ".join(loops.outer_loops))
        return total, distance


@irdl_op_definition
class IntegerSoftmaxOp(SumsExponentials):
    """exp(x) / sum(exp(x)) along an axis.

        p = e (2^60 / sum(e)) / 2^30            the share with 30 bits behind the point
        y = round(p / (2^30 scale of y)) + zero point

    The sum of exponentials e (`SumsExponentials`) is divided by once a row.
    """

    name = "top.integer_softmax"

    input = operand_def(TensorType)
    axis = prop_def(IntegerAttr)
    to = prop_def(QuantizedType)
    output = result_def(TensorType)

    def check(self) -> None:
        fixed_point(self._ratio, ONCE)

    @property
    def _ratio(self) -> np.ndarray:
        return 2.0**-UNIT_BITS / self.made.double_scales

    @property
    def share_factor(self) -> tuple[int, int]:
        """Multiplier and shift of a share, which is rounded to nearest, ties up."""
        found = fixed_point(self._ratio, ONCE)
        return int(found.multipliers.item()), int(found.shifts.item())

    @in_arithmetic_types
    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        _, e = self.distances(operands[0])
        total = e.sum(axis=self.get("axis"), keepdims=True)
        share = _halved(e * ((1 << 2 * UNIT_BITS) // np.maximum(total, 1)))
        return (self.stored(multiplied(share, fixed_point(self._ratio, ONCE), ONCE)),)

    def kernel_constants(self) -> Tables:
        return [*self.exponential_tables, *fixed_point_tables(self._ratio, ONCE)]

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        x, *tables = inputs
        exponentials, factors = tables[:-2], tables[-2:]
        loops = ReductionDomain.of(self, (self.get("axis"),), True, x, output)
        kept = tuple(loops.outer_loops.values())
        total, distance = self.define_total(k, loops, x, exponentials)
        reciprocal = scratch(k, "reciprocal", kept, I64)

        def share(s: ScalarBuilder, *indices: Scalar) -> None:
            factor = load_element(s, reciprocal, indices[: len(kept)])
            e = _exponential(s, distance(s, indices), exponentials)
            part = _halved_scalar(e * factor).convert(I32)
            how = [load_element(s, table, [s.index(0)]) for table in factors]
            result = self.stored_scalar(fixed_point_scalar(part, ONCE, *how))
            store_element(s, result, output, loops.input_subscripts(indices))

        d = k.dimensions(**loops.outer_loops)
        k.generic(
            "plain",
            [total.at(*d)],
            reciprocal.at(*d),
            lambda s, t: t.constant(1 << 2 * UNIT_BITS) / t.maximum(1),
        )
        k.nest(loops.all_loops, share, parallel=" ".join(loops.all_loops))
        return "explicit"

    def label(self) -> str:
        return "softmax in integers"


def _halved(x: np.ndarray) -> np.ndarray:
    """A product of two numbers with `UNIT_BITS` behind the point, with as many."""
    return (x + (1 << (UNIT_BITS - 1))) >> UNIT_BITS


def _halved_scalar(x: Scalar) -> Scalar:
    return (x + (1 << (UNIT_BITS - 1))).shift_right(UNIT_BITS)


def _exponential(s: ScalarBuilder, distance: Scalar, tables: Sequence[Access]) -> Scalar:
    """e of a distance (i32), as i64."""

    def entry(table: Access, index: Scalar) -> Scalar:
        return load_element(s, table, [index.convert(IndexType())]).convert(I64)

    if len(tables) == 1:
        return entry(tables[0], distance)
    low, high = tables
    product = entry(low, distance.logical_and(255)) * entry(high, distance.shift_right(8))
    return _halved_scalar(product)


@irdl_op_definition
class IntegerLayerNormOp(IntegerNormalization):
    """Normalizes slices over the axes from `axis` on, in whole numbers.

        c = n x - sum(x)                        exact; without `centered` n x
        V = n sum(x^2) - sum(x)^2 + E           exact; E = n^2 epsilon / scale^2
        u = c / sqrt(V)                         `unit_bits` behind the point
        y = round((u multiplier + offset) / 2^fraction_bits) + zero point

    where x is stored - zero point, and n the numbers of a slice. Multipliers (i32) and offsets
    (i64), which broadcast to the input, are the scales and shifts of a layer normalization in units
    of the result (`layer_norm_factors`). sqrt(V) is found by Newton's iteration, once a slice.
    """

    name = "top.integer_layer_norm"

    input = operand_def(TensorType)
    multiplier = operand_def(TensorType)
    offset = operand_def(TensorType)
    axis = prop_def(IntegerAttr)
    epsilon = prop_def(FloatAttr)
    fraction_bits = prop_def(IntegerAttr)
    centered = opt_prop_def(BoolAttr)
    to = prop_def(QuantizedType)
    output = result_def(TensorType)

    @property
    def is_centered(self) -> bool:
        return self.get("centered", True)

    @property
    def axes(self) -> tuple[int, ...]:
        return tuple(range(self.get("axis"), len(shape_of(self.input))))

    @property
    def count(self) -> int:
        """Numbers of a slice."""
        return int(np.prod([static_shape(self.input)[axis] for axis in self.axes]))

    @property
    def variance_offset(self) -> int:
        scale = float(self.source.double_scales[0])
        return max(round(self.count**2 * self.get("epsilon") / scale**2), 1)

    def mixed_axes(self) -> Sequence[int]:
        return self.axes

    def check(self) -> None:
        for operand, bits in ((self.multiplier, 32), (self.offset, 64)):
            require_broadcast("a multiplier or offset", shape_of(operand), shape_of(self.input))
            if element_type_of(operand) != IntegerType(bits):
                raise ValueError(f"{self.name} multiplies with i32 and adds i64")
        if is_static(self.input):
            low, high = integer_limits(self.source.storage)
            zero = int(self.source.zero_point_array[0])
            reached = (self.count * max(zero - low, high - zero)) ** 2 + self.variance_offset
            if reached >= LARGEST_VARIANCE:
                raise ValueError(f"variances of {self.name} may exceed 62 bits")

    @in_arithmetic_types
    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        stored, multiplier, offset = operands
        x, count = centered(stored, self.source), self.count
        total = x.sum(axis=self.axes, keepdims=True) if self.is_centered else np.int64(0)
        squares = (x * x).sum(axis=self.axes, keepdims=True)
        v, halves = lifted(count * squares - total * total + self.variance_offset)
        reciprocal = (1 << RECIPROCAL_BITS) // square_root(v)
        shift = RECIPROCAL_BITS - unit_bits(count) - halves
        unit = ((count * x - total) * reciprocal + (np.int64(1) << (shift - 1))) >> shift
        sums = unit * multiplier.astype(np.int64) + offset
        bits = np.array(self.get("fraction_bits"))
        return (self.stored(rounding_shift(sums, bits, "nearest_up")),)

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        x, multiplier, offset = inputs
        loops = ReductionDomain.of(self, self.axes, True, x, output)
        kept = tuple(loops.outer_loops.values())
        count, bits = self.count, self.get("fraction_bits")

        def summed(name: str, term) -> Access:
            target = scratch(k, name, kept, I64)
            d = k.dimensions(**loops.outer_loops)
            k.generic("plain", [], target.at(*d), lambda s: s.constant(0))
            d = k.dimensions(**loops.all_loops)
            k.generic(
                "plain",
                [x.at(*loops.input_subscripts(d))],
                target.at(*d[: len(kept)]),
                lambda s, x, t: t + term(centered_scalar(x, self.source).convert(I64)),
                reductions=loops.reductions,
                accumulates=True,
            )
            return target

        def per_slice(name: str, reads: Sequence[Access], body) -> Access:
            target = scratch(k, name, kept, I64)
            d = k.dimensions(**loops.outer_loops)
            k.generic("plain", [r.at(*d) for r in reads], target.at(*d), body)
            return target

        squares = summed("squares", lambda x: x * x)
        totals = [summed("total", lambda x: x)] if self.is_centered else []

        def variance(s: ScalarBuilder, q: Scalar, *total: Scalar) -> Scalar:
            whole = q * count + self.variance_offset
            return whole - total[0] * total[0] if total else whole

        spread = per_slice("variance", [squares, *totals], variance)
        halves = per_slice("halves", [spread], lambda s, v: half_lift_scalar(v))
        reciprocal = per_slice(
            "reciprocal",
            [spread, halves],
            lambda s, v, j: (
                v.constant(1 << RECIPROCAL_BITS) / square_root_scalar(v.shift_left(j + j))
            ),
        )

        def body(s: ScalarBuilder, x: Scalar, r: Scalar, j: Scalar, *rest: Scalar) -> Scalar:
            *total, m, b = rest
            centered = centered_scalar(x, self.source).convert(I64) * count
            centered = centered - total[0] if total else centered
            shift = j.constant(RECIPROCAL_BITS - unit_bits(count)) - j
            half = j.constant(1).shift_left(shift - 1)
            unit = (centered * r + half).shift_right(shift)
            sums = unit * m.convert(I64) + b
            return self.stored_scalar((sums + (1 << (bits - 1))).shift_right(bits))

        d = k.dimensions(**loops.all_loops)
        at = loops.input_subscripts(d)
        per_row = [access.at(*d[: len(kept)]) for access in (reciprocal, halves, *totals)]
        reads = [x.at(*at), *per_row, multiplier.broadcast(at), offset.broadcast(at)]
        k.generic("plain", reads, output.at(*at), body)
        return "plain"

    def label(self) -> str:
        return "layer norm in integers" if self.is_centered else "rms norm in integers"


def unit_bits(count: int) -> int:
    """Bits behind the point of normalized numbers: none exceeds sqrt(count), and 2^30 holds it."""
    return UNIT_BITS - ceil(log2(max(count, 1)) / 2)


def layer_norm_factors(
    scale: np.ndarray, shift: np.ndarray, count: int, to: QuantizedType
) -> tuple[np.ndarray, np.ndarray, int]:
    """Multipliers (i32), offsets (i64) and `fraction_bits` of a layer normalization.

    As many bits as fit: multipliers stay below 2^31, offsets below 2^61.
    """
    step = float(to.double_scales[0])
    scale, shift = scale.astype(np.float64) / step, shift.astype(np.float64) / step
    if not (np.isfinite(scale).all() and np.isfinite(shift).all()):
        raise ValueError("its scale or shift is not finite")
    unit = unit_bits(count)
    own = min(UNIT_BITS - _bits_before_point(scale), 61 - unit - _bits_before_point(shift), 30)
    if own < 0:
        raise ValueError("its scale or shift is too large for the steps of its result")
    multipliers = np.rint(np.ldexp(scale, own)).astype(np.int32)
    offsets = np.rint(np.ldexp(shift, unit + own)).astype(np.int64)
    return multipliers, offsets, unit + own


def _bits_before_point(numbers: np.ndarray) -> int:
    largest = float(np.abs(numbers).max(initial=0.0))
    return ceil(log2(largest + 1))
