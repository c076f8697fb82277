"""Pooling: the maximum or the average of a window that moves over the spatial dimensions.

max      y[n, c, i, j] = max over p, q of x[n, c, i * stride + p * dilation - pad, ...]
average  y[n, c, i, j] = sum of the same / window size
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import BoolAttr, DenseArrayBase, StringAttr, TensorType
from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def

from explorer.ir.compute import KernelBuilder, Subscript
from explorer.ir.operation import Access, TopOperation
from explorer.ir.top.definitions import (
    clear_padding_channels,
    common_extents,
    element_type,
    lowest,
)
from explorer.ir.top.linear import SPATIAL, WINDOW, window_output
from explorer.ir.types import element_type_of, shape_of, tensor_type

KINDS = ("max", "average")


@irdl_op_definition
class PoolOp(TopOperation):
    """Maximum or average of windows over 1 to 3 spatial dimensions, as ONNX's MaxPool, AveragePool.

    x: (N, C, spatial...). window, strides, dilations: one number per spatial dimension; pads: all
    begins, then all ends. An average divides by the window's size, or, without
    `includes_padding`, by the number of elements of the window that lie inside the input.
    """

    name = "top.pool"
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

    def infer_types(self) -> list[Attribute]:
        x, window = shape_of(self.input), self.get("window")
        rank = len(x) - 2
        if self.get("kind") not in KINDS:
            raise ValueError(f"unknown kind {self.get('kind')!r}; known: {', '.join(KINDS)}")
        numbers = (len(window), len(self.get("strides")), len(self.get("dilations")))
        if rank not in SPATIAL or {*numbers, len(self.get("pads")) / 2} != {rank}:
            raise ValueError(
                f"pooling {x}: window, strides and dilations need one number and pads two for each "
                "of 1 to 3 spatial dimensions"
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
        return [tensor_type(element_type_of(self.input), (x[0], x[1], *spatial))]

    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        (x,) = operands
        if self.get("kind") == "max":
            fill = lowest(element_type_of(self.input))
            return (np.maximum.reduce(list(self._taps(x, fill))),)
        total = sum(self._taps(x, 0))
        if self.counts_padding:
            return (np.asarray(total / prod(self.get("window"))).astype(x.dtype),)
        inside = sum(self._taps(np.ones_like(x), 0))
        return (np.asarray(total / np.maximum(inside, 1)).astype(x.dtype),)

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

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        """Padding is read outside the input's interior: its halo must hold the fill."""
        (x,) = inputs
        kind, rank = self.get("kind"), x.rank - 2
        if kind == "average" and not self.counts_padding and any(self.get("pads")):
            raise NotImplementedError(
                "an average that leaves padding out has no direct definition: it is an average "
                "with padding, times window size / elements inside"
            )
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
        return f"{self.get('kind')} pool {window}"
