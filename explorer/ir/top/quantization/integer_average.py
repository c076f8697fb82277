"""Averages of the stored numbers that lie inside the image: `top.integer_average`.

    %y = top.integer_average(%x) {window = [3, 3], strides = [1, 1], pads = [1, 1, 1, 1],
                                  low = -128, high = 127}

    s = sum of the stored numbers of the window that lie inside the image           32 bits
    y = s / n, rounded, ties away from zero; kept within [low, high]                n of them

Numbers keep their scale and zero point: the average of stored numbers is that of the numbers they
stand for. Source: tensorflow/lite/kernels/internal/reference/integer_ops/pooling.h, `AveragePool`.

    %y = top.integer_average(%x) {..., by = #top.requantization<...>}

    s = sum of (stored number - zx) of the window that lie inside the image
    y = fixed(s << L, sx / (2^L sy n)) + zy                             a factor for each n

`fixed(x, ratio)` is x * ratio by the scheme of `by`, one of integers. L is 0, or up to 6 for the
scheme that rounds twice, so that the first rounding moves next to nothing onto a half.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, IntegerType, TensorType
from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def

from explorer.ir.compute import KernelBuilder, Scalar, ScalarBuilder
from explorer.ir.interfaces import Blockable, MixesAxes, SizeConstrained, SizeContents
from explorer.ir.operation import Access
from explorer.ir.requantization import (
    RequantizationAttr,
    fixed_point,
    integer_limits,
    multiplied,
    ratio_of,
)
from explorer.ir.sizes.relations import Relation, window_relations
from explorer.ir.top.arithmetic import in_arithmetic_types
from explorer.ir.top.definitions import (
    clear_padding_channels,
    common_extents,
    load_element,
    scratch,
    store_element,
)
from explorer.ir.top.support.operands import require_counts
from explorer.ir.top.support.quantized_scalars import (
    I32,
    Tables,
    centered,
    fixed_point_tables,
    limited_scalar,
    scaled_scalar,
    table_reads,
)
from explorer.ir.top.support.windows import SPATIAL, WINDOW, window_output
from explorer.ir.types import (
    QuantizedType,
    element_type_of,
    numpy_dtype,
    shape_of,
    static_shape,
    tensor_type,
)

MAX_LIFT = 6
"""Bits by which sums are lifted: 64 is the largest power of two among signed bytes, which machines
multiply by."""
MAX_LIFTED = 2**30
"""What lifted sums stay within."""


@irdl_op_definition
class IntegerAverageOp(MixesAxes, SizeConstrained, Blockable):
    """The average of windows over (N, C, spatial...) of one scale per tensor.

    window, strides, dilations (1 unless given): one number per spatial dimension, of which there
    are 1 to 3; pads: all begins, then all ends. low, high: limits of a result of the same type;
    `by` stands in their place for one of another type.
    """

    name = "top.integer_average"
    FAMILY: ClassVar[str] = "pooling"
    KEEPS_FINITE: ClassVar[bool] = True
    TAKES_QUANTIZED: ClassVar[bool] = True

    input = operand_def(TensorType)
    window = prop_def(DenseArrayBase)
    strides = prop_def(DenseArrayBase)
    pads = prop_def(DenseArrayBase)
    dilations = opt_prop_def(DenseArrayBase)
    low = opt_prop_def(IntegerAttr)
    high = opt_prop_def(IntegerAttr)
    by = opt_prop_def(RequantizationAttr)
    output = result_def(TensorType)

    @property
    def kind(self) -> QuantizedType:
        kind = element_type_of(self.input)
        if not isinstance(kind, QuantizedType) or kind.storage.width.data > 16:
            raise ValueError(f"{self.name} takes quantized numbers of at most 16 bits, not {kind}")
        return kind

    @property
    def to(self) -> QuantizedType:
        """Element type of the result."""
        return self.kind if self.by is None else self.by.to

    @property
    def limits(self) -> tuple[int, int]:
        """What results are kept within."""
        return (self.get("low"), self.get("high")) if self.by is None else self.by.limits

    @property
    def steps(self) -> Sequence[int]:
        """From one element of a window to the next, by axis."""
        return self.get("dilations", [1] * len(self.get("window")))

    @property
    def reach(self) -> int:
        """What no sum of stored numbers less their zero point goes beyond."""
        zero = int(self.kind.zero_point_array[0])
        largest = max(abs(limit - zero) for limit in integer_limits(self.kind.storage))
        return prod(self.get("window")) * largest

    @property
    def lift(self) -> int:
        """Bits that sums are shifted to the left by before they are scaled."""
        if self.by is None or self.by.how.scheme != "doubling_high_multiply":
            return 0
        return max(
            bits for bits in range(MAX_LIFT + 1) if not bits or self.reach << bits <= MAX_LIFTED
        )

    @property
    def ratios(self) -> np.ndarray:
        """What lifted sums of 1, 2, ... numbers are multiplied by, where they get another type:
        f64."""
        assert self.by is not None
        counts = np.arange(1, prod(self.get("window")) + 1) * 2.0**self.lift
        return ratio_of(self.kind, self.by).astype(np.float64)[0] / counts

    @property
    def is_inside(self) -> bool:
        """Whether all windows lie inside the image, so that all average as many numbers."""
        return not any(self.get("pads"))

    def why_not_blocked(self, block: int) -> str:
        return "" if self.is_inside else "its windows reach into the padding"

    def infer_types(self) -> list[Attribute]:
        x, window, pads = shape_of(self.input), self.get("window"), self.get("pads")
        rank = len(x) - 2
        if not self.kind.is_per_tensor:
            raise ValueError(f"{self.name} knows one scale per tensor, not one per slice")
        if rank not in SPATIAL or len(window) != rank:
            raise ValueError(
                f"{self.name} takes (N, C, spatial...) of 1 to 3 spatial dimensions and a window "
                f"of as many, not {len(x)} axes and a window of {len(window)}"
            )
        require_counts(
            self.name,
            rank,
            window=(window, rank, 1),
            strides=(self.get("strides"), rank, 1),
            dilations=(self.steps, rank, 1),
            pads=(pads, 2 * rank, 0),
        )
        if any(pad > (window[i % rank] - 1) * self.steps[i % rank] for i, pad in enumerate(pads)):
            raise ValueError(f"{self.name}: a window of {window} may lie in the padding {pads}")
        self._check_scaling()
        spatial = [
            window_output(
                x[2 + axis],
                window[axis],
                self.get("strides")[axis],
                pads[axis],
                pads[rank + axis],
                self.steps[axis],
            )
            for axis in range(rank)
        ]
        return [tensor_type(self.to, (x[0], x[1], *spatial))]

    def _check_scaling(self) -> None:
        """ValueError for limits that are none, or factors or sums that 32 bits do not hold."""
        if (self.by is None) != (self.low is not None and self.high is not None):
            raise ValueError(f"{self.name} takes either low and high, or by")
        if self.by is None:
            least, most = integer_limits(self.kind.storage)
            if not least <= self.get("low") <= self.get("high") <= most:
                raise ValueError(f"limits outside of {self.kind.storage}")
            return
        self.by.check()
        if self.by.how.scheme == "float":
            raise ValueError(f"{self.name} has no scheme of floats")
        if self.reach > integer_limits(IntegerType(32))[1]:
            raise ValueError(f"sums may reach {self.reach:,}: more than 32 bits hold")
        fixed_point(self.ratios, self.by.how)

    def mixed_axes(self) -> Sequence[int]:
        """Each image by itself, each element of which may depend on all of it."""
        return range(1, len(shape_of(self.input)))

    def size_relations(self, contents: SizeContents) -> Iterator[Relation]:
        x = shape_of(self.input)
        return window_relations(x, self.get("window"), self.get("pads"), self.steps)

    @in_arithmetic_types
    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        x = operands[0].astype(np.int64)
        count = self.counts(x.shape[2:])
        if self.by is None:
            total = self._sums(x)
            moved = np.where(total > 0, total + count // 2, total - count // 2)
            average = np.sign(moved) * (np.abs(moved) // count)
        else:
            factors = fixed_point(self.ratios[count - 1], self.by.how)
            total = self._sums(centered(x, self.kind)) << self.lift
            average = multiplied(total, factors, self.by.how)
            average = average + int(self.to.zero_point_array[0])
        return (np.clip(average, *self.limits).astype(numpy_dtype(self.to)),)

    def counts(self, image: Sequence[int]) -> np.ndarray:
        """How many numbers each window has inside an image of these sizes, at least 1: i64 of
        (1, 1, spatial...)."""
        return np.maximum(self._sums(np.ones((1, 1, *image), np.int64)), 1)

    def _sums(self, x: np.ndarray) -> np.ndarray:
        window, pads, steps = self.get("window"), self.get("pads"), self.steps
        rank = len(window)
        widths = list(zip(pads[:rank], pads[rank:], strict=True))
        padded = np.pad(x, [(0, 0), (0, 0), *widths])
        reach = [(size - 1) * step + 1 for size, step in zip(window, steps, strict=True)]
        axes = tuple(range(2, 2 + rank))
        windows = np.lib.stride_tricks.sliding_window_view(padded, reach, axis=axes)
        every = [slice(None, None, stride) for stride in self.get("strides")]
        taps = [slice(None, None, step) for step in steps]
        return windows[(slice(None), slice(None), *every, *taps)].sum(
            axis=tuple(range(2 + rank, 2 + 2 * rank))
        )

    def kernel_constants(self) -> Tables:
        """Factors by how many numbers were added up, less one; where that is one number, its."""
        if self.by is None:
            return []
        ratios = self.ratios[-1:] if self.is_inside else self.ratios
        return fixed_point_tables(ratios, self.by.how)

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        """Padding is never read: indices are clamped, and what was clamped adds nothing."""
        x, *tables = inputs
        if self.is_inside:
            return self._define_inside(k, x, tables, output)
        sizes = static_shape(self.input)[2:]
        rank = len(sizes)
        names = ("n", "c", *SPATIAL[rank])
        loops: dict[str, int] = dict(zip(names, static_shape(self.output), strict=True))
        window: dict[str, int] = dict(zip(WINDOW[rank], self.get("window"), strict=True))
        sums = scratch(k, "sums", static_shape(self.output), I32)
        zero = self.subtracted

        def add(s: ScalarBuilder, *indices: Scalar) -> None:
            target, taps = list(indices[: 2 + rank]), indices[2 + rank :]
            source, inside = [], s.index(0).compare("eq", 0)
            for axis, position in enumerate(self._positions(target, taps)):
                is_here = position.compare("ge", 0).logical_and(position.compare("lt", sizes[axis]))
                inside = inside.logical_and(is_here)
                source.append(position.maximum(0).minimum(sizes[axis] - 1))
            value = load_element(s, x, [*target[:2], *source]).convert(I32) - zero
            held = load_element(s, sums, target)
            store_element(s, held + inside.select(value, 0), sums, target)

        def divide(s: ScalarBuilder, *target: Scalar) -> None:
            count = self._count(s, target, sizes)
            total = load_element(s, sums, target)
            factors = [load_element(s, table, [count - 1]) for table in tables]
            kept = self._divided(total, count.convert(I32), factors)
            store_element(s, kept, output, target)

        d = k.dimensions(**loops)
        k.generic("plain", [], sums.at(*d), lambda s: s.constant(0))
        k.nest({**loops, **window}, add, parallel=" ".join(loops))
        k.nest(loops, divide, parallel=" ".join(loops))
        return "explicit"

    def _define_inside(
        self, k: KernelBuilder, x: Access, tables: Sequence[Access], output: Access
    ) -> str:
        """Sums of whole windows, of channels that may lie in blocks."""
        rank = x.rank - 2
        outer = common_extents(x.shape[:2], output.shape[:2])
        names = ("n", "c", *SPATIAL[rank])
        domain = dict(zip(names, (*outer, *output.shape[2:]), strict=True))
        window = dict(zip(WINDOW[rank], self.get("window"), strict=True))
        count, zero = prod(self.get("window")), self.subtracted
        buffer = k.argument("sums", output.buffer.type.get_shape(), I32, "scratch")
        sums = Access(buffer, output.shape, output.shift)
        d = k.dimensions(**domain)
        k.generic("init", [], sums.at(*d), lambda s: s.constant(0))
        d = k.dimensions(**domain, **window)
        places = [
            at * stride + tap * step
            for at, tap, stride, step in zip(
                d[2 : 2 + rank], d[2 + rank :], self.get("strides"), self.steps, strict=True
            )
        ]
        k.generic(
            "main",
            [x.at(d[0], d[1], *places)],
            sums.at(*d[: 2 + rank]),
            lambda s, x, y: y + (x.convert(I32) - zero),
            reductions=" ".join(window),
            accumulates=True,
        )
        d = k.dimensions(**domain)
        k.generic(
            "epilogue",
            [sums.at(*d), *table_reads(tables, 0)],
            output.at(*d),
            lambda s, total, *factors: self._divided(total, s.constant(count, I32), factors),
        )
        clear_padding_channels(k, output, outer[1])
        return "pool"

    @property
    def subtracted(self) -> int:
        """What is subtracted from stored numbers before they are added up."""
        return 0 if self.by is None else int(self.kind.zero_point_array[0])

    def _divided(self, total: Scalar, count: Scalar, factors: Sequence[Scalar]) -> Scalar:
        """The result of a sum of `count` numbers (i32)."""
        if self.by is not None:
            lifted = total.shift_left(self.lift)
            return limited_scalar(scaled_scalar(lifted, self.by, *factors), self.by)
        low, high = self.limits
        half = count / 2
        moved = total.compare("gt", 0).select(total + half, total - half)
        return (moved / count).maximum(low).minimum(high).convert(self.kind.storage)

    def _positions(self, target: Sequence[Scalar], taps: Sequence[Scalar]) -> Iterator[Scalar]:
        """Where an element of a window lies along each spatial axis, maybe outside."""
        pads, strides = self.get("pads"), self.get("strides")
        for axis, (tap, step) in enumerate(zip(taps, self.steps, strict=True)):
            yield target[2 + axis] * strides[axis] + tap * step - pads[axis]

    def _count(self, s: ScalarBuilder, target: Sequence[Scalar], sizes: Sequence[int]) -> Scalar:
        """How many elements of a window lie inside, at least 1."""
        count = s.index(1)
        for axis, size in enumerate(sizes):
            width, step = self.get("window")[axis], self.steps[axis]
            begin = target[2 + axis] * self.get("strides")[axis] - self.get("pads")[axis]
            before, within = (
                ((begin * -1 + end).maximum(0) + (step - 1)) / step for end in (0, size)
            )
            count = count * (within.minimum(width) - before.minimum(width))
        return count.maximum(1)

    def label(self) -> str:
        return "average of integers"
