"""Running sums and products along an axis.

top.cumulative {kind = "sum", axis = 0}    [1, 2, 3]  ->  [1, 3, 6]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import BoolAttr, IntegerAttr, StringAttr, TensorType
from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def

from explorer.ir.compute import KernelBuilder, Scalar, ScalarBuilder
from explorer.ir.interfaces import MixesAxes
from explorer.ir.operation import Access
from explorer.ir.top.arithmetic import in_arithmetic_types
from explorer.ir.top.definitions import (
    CHANNELS,
    clear_padding_channels,
    common_extents,
    domain,
    load_element,
    store_element,
)
from explorer.ir.top.reductions.domain import reduced_shape
from explorer.ir.top.support.operands import require_numbers
from explorer.ir.types import element_type_of, shape_of, static_shape, tensor_type

NEUTRAL = {"sum": 0, "prod": 1}


@irdl_op_definition
class CumulativeOp(MixesAxes):
    """Running sums or products along an axis; `exclusive` leaves each element itself out.

    kind: sum (ONNX's CumSum) or prod (CumProd). `reverse` begins at the end.
    """

    name = "top.cumulative"
    FAMILY: ClassVar[str] = "reduction"

    input = operand_def(TensorType)
    kind = prop_def(StringAttr)
    axis = prop_def(IntegerAttr)
    exclusive = prop_def(BoolAttr)
    reverse = prop_def(BoolAttr)
    output = result_def(TensorType)

    @property
    def keeps_finite(self) -> bool:
        return self.kind.data == "sum"

    def infer_types(self) -> list[Attribute]:
        if self.kind.data not in NEUTRAL:
            raise ValueError(f"unknown kind {self.kind.data!r}; known: {', '.join(NEUTRAL)}")
        require_numbers(self.name, self.input)
        reduced_shape(shape_of(self.input), (self.get("axis"),), True)
        return [tensor_type(element_type_of(self.input), shape_of(self.input))]

    def mixed_axes(self) -> Sequence[int]:
        return (self.get("axis"),)

    @in_arithmetic_types
    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        (x,) = operands
        axis, kind = self.get("axis"), self.kind.data
        ordered = np.flip(x, axis) if self.get("reverse") else x
        accumulate = {"sum": np.cumsum, "prod": np.cumprod}[kind]
        with np.errstate(all="ignore"):
            result = accumulate(ordered, axis=axis, dtype=x.dtype)
        if self.get("exclusive"):
            widths = [(0, 0)] * x.ndim
            widths[axis] = (1, 0)
            before = (slice(None),) * axis + (slice(x.shape[axis]),)
            result = np.pad(result, widths, constant_values=NEUTRAL[kind])[before]
        return (np.flip(result, axis) if self.get("reverse") else result,)

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        """y[a] = y[a - 1] + x[a] (exclusive: x[a - 1]), before the first the neutral number."""
        (x,) = inputs
        axis, size = self.get("axis"), static_shape(self.input)[self.get("axis")]
        extents = common_extents(x.shape, output.shape)
        extents[axis] = size
        loops = domain(extents)
        inner = list(loops)[axis]
        ordered = {**{n: e for n, e in loops.items() if n != inner}, inner: size}
        neutral = NEUTRAL[self.kind.data]

        def step(s: ScalarBuilder, *indices: Scalar) -> None:
            by_name = dict(zip(ordered, indices, strict=True))
            at = [by_name[name] for name in loops]
            previous = list(at)
            number = at[axis]
            if self.get("reverse"):
                at[axis] = s.index(size - 1) - number
                previous[axis] = (at[axis] + 1).minimum(size - 1)
            else:
                previous[axis] = (number - 1).maximum(0)
            is_first = number.compare("eq", 0)
            total = load_element(s, output, previous)
            added = load_element(s, x, previous if self.get("exclusive") else at)
            grown = total + added if self.kind.data == "sum" else total * added
            first = neutral if self.get("exclusive") else added.widened()
            store_element(s, is_first.select(first, grown), output, at)

        parallel = " ".join(n for n in loops if n != inner)
        k.nest(ordered, step, parallel=parallel)
        if output.rank > CHANNELS:
            clear_padding_channels(k, output, extents[CHANNELS])
        return "explicit"

    def label(self) -> str:
        return f"cumulative {self.kind.data}"
