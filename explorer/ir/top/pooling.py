"""Pooling: the maximum or the average of a window that moves over the spatial dimensions.

max      y[n, c, i, j] = max over p, q of x[n, c, i * stride + p * dilation - pad, ...]
average  y[n, c, i, j] = sum of the same / window size
max_position: where in the plane (h * width + w) the maximum stands
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import (
    BoolAttr,
    DenseArrayBase,
    IndexType,
    StringAttr,
    TensorType,
    i64,
)
from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def

from explorer.ir.compute import KernelBuilder, Scalar, ScalarBuilder, Subscript, clamp_index
from explorer.ir.interfaces import (
    Blockable,
    MixesAxes,
    Moving,
    Quantizable,
    SizeConstrained,
    SizeContents,
    Windowed,
)
from explorer.ir.operation import Access, PropertyValue
from explorer.ir.sizes.relations import Relation, window_relations
from explorer.ir.top.arithmetic import in_arithmetic_types
from explorer.ir.top.definitions import (
    clear_padding_channels,
    common_extents,
    element_type,
    load_element,
    lowest,
    store_element,
)
from explorer.ir.top.support.operands import require_counts
from explorer.ir.top.support.windows import SPATIAL, WINDOW, window_output
from explorer.ir.types import (
    QuantizedType,
    Shape,
    element_type_of,
    shape_of,
    static_shape,
    stored_type,
    tensor_type,
)

KINDS = ("max", "max_position", "average")


@irdl_op_definition
class PoolOp(Quantizable, MixesAxes, SizeConstrained, Blockable, Windowed, Moving):
    """Maximum or average of windows over 1 to 3 spatial dimensions, as ONNX's MaxPool, AveragePool.

    x: (N, C, spatial...). window, strides, dilations: one number per spatial dimension; pads: all
    begins, then all ends. An average divides by the window's size, or, without
    `includes_padding`, by the number of elements of the window that lie inside the input.
    max_position (i64): of equal elements the first; NaN is no maximum.
    """

    name = "top.pool"
    TAKES_QUANTIZED: ClassVar[bool] = True
    FAMILY: ClassVar[str] = "pooling"
    KEEPS_FINITE: ClassVar[bool] = True

    input = operand_def(TensorType)
    kind = prop_def(StringAttr)
    window = prop_def(DenseArrayBase)
    strides = prop_def(DenseArrayBase)
    pads = prop_def(DenseArrayBase)
    dilations = prop_def(DenseArrayBase)
    includes_padding = opt_prop_def(BoolAttr)
    output = result_def(TensorType)

    @property
    def counts_padding(self) -> bool:
        """Whether a window's elements outside the input count for the average: yes unless said."""
        return self.get("includes_padding", True)

    @property
    def is_quantizable(self) -> bool:
        return False

    @property
    def has_integer_form(self) -> bool:
        """An average; a maximum moves numbers."""
        return self.get("kind") == "average"

    @property
    def reads_padding(self) -> bool:
        """Positions are of elements only."""
        return self.get("kind") != "max_position"

    @property
    def keeps_numbers(self) -> bool:
        return self.get("kind") == "max"

    def on_stored(self, kind: QuantizedType) -> Mapping[str, PropertyValue] | None:
        if self.get("kind") != "max":
            return None
        if not kind.is_per_tensor:
            raise ValueError("it compares numbers with a scale per slice")
        return {}

    @property
    def padding_fill(self) -> float:
        """The least number for a maximum."""
        if self.get("kind") == "max":
            return float(lowest(stored_type(element_type_of(self.input))))
        return super().padding_fill

    def infer_types(self) -> list[Attribute]:
        x, window = shape_of(self.input), self.get("window")
        rank = len(x) - 2
        if isinstance(element_type_of(self.input), QuantizedType) and self.get("kind") != "max":
            raise ValueError(f"{self.get('kind')} pool of quantized numbers: only max is defined")
        if self.get("kind") not in KINDS:
            raise ValueError(f"unknown kind {self.get('kind')!r}; known: {', '.join(KINDS)}")
        numbers = (len(window), len(self.get("strides")), len(self.get("dilations")))
        if rank not in SPATIAL or {*numbers, len(self.get("pads")) / 2} != {rank}:
            raise ValueError(
                f"pooling {x}: window, strides and dilations need one number and pads two for each "
                "of 1 to 3 spatial dimensions"
            )
        require_counts(
            self.name,
            rank,
            window=(window, rank, 1),
            strides=(self.get("strides"), rank, 1),
            dilations=(self.get("dilations"), rank, 1),
            pads=(self.get("pads"), 2 * rank, 0),
        )
        pads = self.get("pads")
        spatial = [
            window_output(
                x[2 + axis],
                window[axis],
                self.get("strides")[axis],
                pads[axis],
                pads[rank + axis],
                self.get("dilations")[axis],
            )
            for axis in range(rank)
        ]
        if self.get("kind") != "average":
            self._check_windows(x[2:])
        element = i64 if self.get("kind") == "max_position" else element_type_of(self.input)
        return [tensor_type(element, (x[0], x[1], *spatial))]

    def mixed_axes(self) -> Sequence[int]:
        """Each image by itself, each element of which may depend on all of it."""
        return range(1, len(shape_of(self.input)))

    def size_relations(self, contents: SizeContents) -> Iterator[Relation]:
        x, window = shape_of(self.input), self.get("window")
        return window_relations(x, window, self.get("pads"), self.get("dilations"))

    def _check_windows(self, sizes: Shape) -> None:
        """ValueError where a window has no element of the input, so that nothing is its maximum.

        Along each axis the first window is looked at, and the last: those between them have one
        if these do, but for an axis that is shorter than a dilation.
        """
        pads, rank = self.get("pads"), len(sizes)
        for axis, size in enumerate(sizes):
            width, step = self.get("window")[axis], self.get("dilations")[axis]
            stride, before = self.get("strides")[axis], pads[axis]
            starts = [-before]
            if isinstance(size, int):
                after = pads[rank + axis]
                count = window_output(size, width, stride, before, after, step)
                starts.append((int(count) - 1) * stride - before)
            for start in starts:
                # The first element of the window that does not stand before the input.
                taps = max(-(start // step), 0)
                is_beyond = isinstance(size, int) and start + taps * step >= size
                if taps >= width or is_beyond:
                    raise ValueError(
                        f"a window of {width} along axis {2 + axis} lies in the padding "
                        f"{before}, {pads[rank + axis]} altogether: pads are smaller than windows"
                    )

    @in_arithmetic_types
    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        (x,) = operands
        if self.get("kind") == "max_position":
            return (self._positions_of_maxima(x),)
        if self.get("kind") == "max":
            fill = lowest(stored_type(element_type_of(self.input)))
            return (np.maximum.reduce(list(self._taps(x, fill))),)
        total = sum(self._taps(x, 0))
        if self.counts_padding:
            return (np.asarray(total / prod(self.get("window"))).astype(x.dtype),)
        inside = sum(self._taps(np.ones_like(x), 0))
        return (np.asarray(total / np.maximum(inside, 1)).astype(x.dtype),)

    def _positions_of_maxima(self, x: np.ndarray) -> np.ndarray:
        places = np.arange(prod(x.shape[2:]), dtype=np.int64).reshape(1, 1, *x.shape[2:])
        values = np.where(np.isnan(x), -np.inf, x) if x.dtype.kind == "f" else x
        found = np.stack(list(self._taps(values, lowest(stored_type(element_type_of(self.input))))))
        positions = np.stack(list(self._taps(places, -1)))
        # What lies outside is as low as the lowest, but it is no element.
        best = np.max(found, axis=0, keepdims=True)
        first = np.argmax((found == best) & (positions >= 0), axis=0)[np.newaxis]
        return np.take_along_axis(np.broadcast_to(positions, found.shape), first, 0)[0]

    def _taps(self, x: np.ndarray, fill: float) -> Iterator[np.ndarray]:
        """For each position in the window the elements that all windows have there."""
        pads, strides, dilations = self.get("pads"), self.get("strides"), self.get("dilations")
        rank = x.ndim - 2
        widths = [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:], strict=True)]
        padded = np.pad(x, widths, constant_values=fill)
        spatial = [
            window_output(size, window, stride, 0, 0, step)
            for size, window, stride, step in zip(
                padded.shape[2:], self.get("window"), strides, dilations, strict=True
            )
        ]
        for position in product(*[range(size) for size in self.get("window")]):
            begins = [p * step for p, step in zip(position, dilations, strict=True)]
            yield padded[
                (
                    ...,
                    *[
                        slice(begin, begin + (int(count) - 1) * stride + 1, stride)
                        for begin, count, stride in zip(begins, spatial, strides, strict=True)
                    ],
                )
            ]

    def missing_form(self) -> str:
        if self.get("kind") == "average" and not self.counts_padding and any(self.get("pads")):
            return (
                "an average that leaves padding out has no direct definition: it is an average "
                "with padding, times window size / elements inside"
            )
        return ""

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        """Padding is read outside the input's interior: its halo must hold the fill."""
        self.check_form()
        (x,) = inputs
        kind, rank = self.get("kind"), x.rank - 2
        if kind == "max_position":
            return self._define_positions(k, x, output)
        size = prod(self.get("window"))
        outer = common_extents(x.shape[:2], output.shape[:2])
        names = ("n", "c", *SPATIAL[rank])
        domain = dict(zip(names, (*outer, *output.shape[2:]), strict=True))
        window = dict(zip(WINDOW[rank], self.get("window"), strict=True))
        start = lowest(element_type(output)) if kind == "max" else 0

        d = k.dimensions(**domain)
        k.generic("init", [], output.at(*d), lambda s: s.constant(start))
        d = k.dimensions(**domain, **window)
        at, taps = d[2 : 2 + rank], d[2 + rank :]
        k.generic(
            "main",
            [x.at(d[0], d[1], *self._positions(at, taps))],
            output.at(*d[: 2 + rank]),
            lambda s, x, y: y.maximum(x) if kind == "max" else y + x,
            reductions=" ".join(window),
            accumulates=True,
        )
        if kind == "average":
            d = k.dimensions(**domain)
            k.generic("epilogue", [], output.at(*d), lambda s, y: y / size, accumulates=True)
        clear_padding_channels(k, output, outer[1])
        return "pool"

    def _define_positions(self, k: KernelBuilder, x: Access, output: Access) -> str:
        """The result itself holds the best position so far, -1 before there is one.

        Padding is never read: indices are clamped, and what was clamped does not count.
        """
        rank, sizes = x.rank - 2, static_shape(self.input)[2:]
        outer = common_extents(x.shape[:2], output.shape[:2])
        names = ("n", "c", *SPATIAL[rank])
        loops = dict(zip(names, (*outer, *output.shape[2:]), strict=True))
        window = dict(zip(WINDOW[rank], self.get("window"), strict=True))

        def step(s: ScalarBuilder, *indices: Scalar) -> None:
            n, c, at, taps = (
                indices[0],
                indices[1],
                indices[2 : 2 + rank],
                indices[2 + rank :],
            )
            target = [n, c, *at]
            place, inside = s.index(0), s.index(0).compare("eq", 0)
            source = []
            for position, size in zip(self._index_positions(at, taps), sizes, strict=True):
                is_inside = position.compare("ge", 0).logical_and(position.compare("lt", size))
                inside = inside.logical_and(is_inside)
                source.append(position.maximum(0).minimum(size - 1))
                place = place * size + source[-1]
            best = load_element(s, output, target)
            rest, present = clamp_index(s, best.convert(IndexType()), prod(sizes)), []
            for size in reversed(sizes):
                present.insert(0, rest.remainder(size))
                rest = rest / size
            value = load_element(s, x, [n, c, *source])
            is_better = value.compare("gt", load_element(s, x, [n, c, *present]))
            is_open = best.compare("lt", 0).logical_or(is_better)
            takes = inside.logical_and(is_open).logical_and(value.compare("eq", value))
            store_element(s, takes.select(place.convert(i64), best), output, target)

        d = k.dimensions(**loops)
        k.generic("plain", [], output.at(*d), lambda s: s.constant(-1))
        k.nest({**loops, **window}, step, parallel=" ".join(loops))
        clear_padding_channels(k, output, outer[1])
        return "explicit"

    def _index_positions(self, outer: Sequence[Scalar], inner: Sequence[Scalar]) -> list[Scalar]:
        strides, dilations, pads = self.get("strides"), self.get("dilations"), self.get("pads")
        return [
            i * stride + p * step - pad
            for i, p, stride, step, pad in zip(outer, inner, strides, dilations, pads, strict=False)
        ]

    def _positions(self, outer: Sequence, inner: Sequence) -> list[Subscript]:
        strides, dilations, pads = self.get("strides"), self.get("dilations"), self.get("pads")
        return [
            i * stride + p * step - pad if pad else i * stride + p * step
            for i, p, stride, step, pad in zip(outer, inner, strides, dilations, pads, strict=False)
        ]

    def kernel_parameters(self) -> dict[str, int]:
        return {"stride": self.get("strides")[-1]}

    def label(self) -> str:
        window = "x".join(str(size) for size in self.get("window"))
        kind = self.get("kind").replace("_", " ")
        return f"{kind} pool {window}"
