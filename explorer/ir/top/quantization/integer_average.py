"""Averages of stored numbers by whole-number division: `top.integer_average`.

    %y = top.integer_average(%x) {window = [3, 3], strides = [1, 1], pads = [1, 1, 1, 1],
                                  low = -128, high = 127}

    s = sum of the stored numbers of the window that lie inside the image           32 bits
    y = s / n, rounded, ties away from zero; kept within [low, high]                n of them

Numbers keep their scale and zero point: the average of stored numbers is that of the numbers they
stand for. Source: tensorflow/lite/kernels/internal/reference/integer_ops/pooling.h, `AveragePool`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, TensorType
from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def

from explorer.ir.compute import KernelBuilder, Scalar, ScalarBuilder
from explorer.ir.interfaces import MixesAxes, SizeConstrained, SizeContents
from explorer.ir.operation import Access
from explorer.ir.requantization import integer_limits
from explorer.ir.sizes.relations import Relation, window_relations
from explorer.ir.top.arithmetic import in_arithmetic_types
from explorer.ir.top.definitions import load_element, scratch, store_element
from explorer.ir.top.support.operands import require_counts
from explorer.ir.top.support.quantized_scalars import I32
from explorer.ir.top.support.windows import SPATIAL, WINDOW, window_output
from explorer.ir.types import (
    QuantizedType,
    element_type_of,
    numpy_dtype,
    shape_of,
    static_shape,
    tensor_type,
)

RANK = 2
"""Height and width."""


@irdl_op_definition
class IntegerAverageOp(MixesAxes, SizeConstrained):
    """The average of windows over images (N, C, height, width) of one scale per tensor."""

    name = "top.integer_average"
    FAMILY: ClassVar[str] = "pooling"
    KEEPS_FINITE: ClassVar[bool] = True
    TAKES_QUANTIZED: ClassVar[bool] = True

    input = operand_def(TensorType)
    window = prop_def(DenseArrayBase)
    strides = prop_def(DenseArrayBase)
    pads = prop_def(DenseArrayBase)
    low = prop_def(IntegerAttr)
    high = prop_def(IntegerAttr)
    output = result_def(TensorType)

    @property
    def kind(self) -> QuantizedType:
        kind = element_type_of(self.input)
        if not isinstance(kind, QuantizedType) or kind.storage.width.data > 16:
            raise ValueError(f"{self.name} takes quantized numbers of at most 16 bits, not {kind}")
        return kind

    def infer_types(self) -> list[Attribute]:
        x, window, pads = shape_of(self.input), self.get("window"), self.get("pads")
        if not self.kind.is_per_tensor:
            raise ValueError(f"{self.name} knows one scale per tensor, not one per slice")
        if len(x) != 2 + RANK:
            raise ValueError(f"{self.name} takes images, not a tensor of {len(x)} axes")
        require_counts(
            self.name,
            RANK,
            window=(window, RANK, 1),
            strides=(self.get("strides"), RANK, 1),
            pads=(pads, 2 * RANK, 0),
        )
        if any(pad >= window[axis % RANK] for axis, pad in enumerate(pads)):
            raise ValueError(f"{self.name}: a window of {window} may lie in the padding {pads}")
        least, most = integer_limits(self.kind.storage)
        if not least <= self.get("low") <= self.get("high") <= most:
            raise ValueError(f"limits outside of {self.kind.storage}")
        spatial = [
            window_output(
                x[2 + axis],
                window[axis],
                self.get("strides")[axis],
                pads[axis],
                pads[RANK + axis],
                1,
            )
            for axis in range(RANK)
        ]
        return [tensor_type(self.kind, (x[0], x[1], *spatial))]

    def mixed_axes(self) -> Sequence[int]:
        """Each image by itself, each element of which may depend on all of it."""
        return range(1, len(shape_of(self.input)))

    def size_relations(self, contents: SizeContents) -> Iterator[Relation]:
        x = shape_of(self.input)
        return window_relations(x, self.get("window"), self.get("pads"), [1] * RANK)

    @in_arithmetic_types
    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        x = operands[0].astype(np.int64)
        total, count = self._sums(x), self.counts(x.shape[2:])
        moved = np.where(total > 0, total + count // 2, total - count // 2)
        average = np.sign(moved) * (np.abs(moved) // count)
        kept = np.clip(average, self.get("low"), self.get("high"))
        return (kept.astype(numpy_dtype(self.kind)),)

    def counts(self, image: Sequence[int]) -> np.ndarray:
        """How many numbers each window has inside an image of these sizes: (1, 1, h, w) of i64."""
        return self._sums(np.ones((1, 1, *image), np.int64))

    def _sums(self, x: np.ndarray) -> np.ndarray:
        top, left, bottom, right = self.get("pads")
        padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, self.get("window"), axis=(2, 3))
        down, across = self.get("strides")
        return windows[:, :, ::down, ::across].sum(axis=(4, 5))

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        """Padding is never read: indices are clamped, and what was clamped adds nothing."""
        (x,) = inputs
        sizes = static_shape(self.input)[2:]
        names = ("n", "c", *SPATIAL[RANK])
        loops: dict[str, int] = dict(zip(names, static_shape(self.output), strict=True))
        window: dict[str, int] = dict(zip(WINDOW[RANK], self.get("window"), strict=True))
        sums = scratch(k, "sums", static_shape(self.output), I32)
        pads, strides = self.get("pads"), self.get("strides")

        def add(s: ScalarBuilder, *indices: Scalar) -> None:
            target, taps = list(indices[: 2 + RANK]), indices[2 + RANK :]
            source, inside = [], s.index(0).compare("eq", 0)
            for axis in range(RANK):
                position = target[2 + axis] * strides[axis] + taps[axis] - pads[axis]
                is_here = position.compare("ge", 0).logical_and(position.compare("lt", sizes[axis]))
                inside = inside.logical_and(is_here)
                source.append(position.maximum(0).minimum(sizes[axis] - 1))
            value = load_element(s, x, [*target[:2], *source]).convert(I32)
            held = load_element(s, sums, target)
            store_element(s, held + inside.select(value, 0), sums, target)

        def divide(s: ScalarBuilder, *target: Scalar) -> None:
            count = None
            for axis in range(RANK):
                begin = target[2 + axis] * strides[axis] - pads[axis]
                end = (begin + self.get("window")[axis]).minimum(sizes[axis])
                along = end - begin.maximum(0)
                count = along if count is None else count * along
            assert count is not None
            total, count = load_element(s, sums, target), count.convert(I32)
            half = count / 2
            moved = total.compare("gt", 0).select(total + half, total - half)
            kept = (moved / count).maximum(self.get("low")).minimum(self.get("high"))
            store_element(s, kept.convert(self.kind.storage), output, target)

        d = k.dimensions(**loops)
        k.generic("plain", [], sums.at(*d), lambda s: s.constant(0))
        k.nest({**loops, **window}, add, parallel=" ".join(loops))
        k.nest(loops, divide, parallel=" ".join(loops))
        return "explicit"

    def label(self) -> str:
        return "average of integers"
