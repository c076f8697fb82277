"""Tensors about tensors: `top.shape` and `top.range`.

    top.shape(%x) {start = 0, end = 2}     x: (batch, 3, 8, 8)  ->  [batch, 3]

A shape has no compiled form: once it is known, a pass replaces it by a constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, TensorType, i64
from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, result_def

from explorer.ir.compute import KernelBuilder, Scalar, ScalarBuilder
from explorer.ir.interfaces import (
    STATIC,
    ComputesSizes,
    Elements,
    Rows,
    RowWise,
    SizeContents,
    Status,
    require_rows,
)
from explorer.ir.operation import Access
from explorer.ir.sizes.dimensions import UNKNOWN, expression_of
from explorer.ir.sizes.symbols import Expression, number
from explorer.ir.top.definitions import load_element, store_element
from explorer.ir.top.sizes import expressions
from explorer.ir.top.support.operands import require_same_type, require_scalar
from explorer.ir.types import Shape, element_type_of, shape_of, tensor_type


@irdl_op_definition
class ShapeOp(ComputesSizes):
    """The input's sizes as an i64 vector, from axis `start` up to `end` (as in Python's slices)."""

    name = "top.shape"
    FAMILY: ClassVar[str] = "movement"
    TAKES_QUANTIZED: ClassVar[bool] = True

    input = operand_def(TensorType)
    start = opt_prop_def(IntegerAttr)
    end = opt_prop_def(IntegerAttr)
    output = result_def(TensorType)

    @property
    def sizes(self) -> Shape:
        """The sizes that it returns; integers where they are known."""
        return shape_of(self.input)[self.get("start", 0) : self.get("end")]

    def infer_types(self) -> list[Attribute]:
        return [tensor_type(i64, (len(self.sizes),))]

    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        shape = operands[0].shape[self.get("start", 0) : self.get("end")]
        return (np.array(shape, np.int64),)

    def computed_sizes(self, elements: Elements) -> np.ndarray | None:
        found = [expression_of(size) for size in self.sizes]
        return None if None in found else expressions(found)

    def missing_form(self) -> str:
        return "a shape is no computation: it is folded once it is known"

    def define(self, k, inputs, output) -> str:
        raise NotImplementedError(self.missing_form())


@irdl_op_definition
class RangeOp(ComputesSizes, RowWise):
    """start, start + delta, start + 2 delta ... before limit; three scalars of one type."""

    name = "top.range"
    FAMILY: ClassVar[str] = "movement"
    SIZES_FROM: ClassVar[int | None] = 0

    start = operand_def(TensorType)
    limit = operand_def(TensorType)
    delta = operand_def(TensorType)
    output = result_def(TensorType)

    def infer_types(self) -> list[Attribute]:
        """The length depends on values: what was declared, else unknown."""
        for name in ("start", "limit", "delta"):
            require_scalar(f"the {name} of a range", getattr(self, name))
        require_same_type("start, limit and delta of a range", self.operands)
        if self.results:
            return [self.output.type]
        return [tensor_type(element_type_of(self.start), (UNKNOWN,))]

    @property
    def is_sized_by_contents(self) -> bool:
        return True

    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        start, limit, delta = (operand.item() for operand in operands)
        if delta == 0:
            raise ValueError("a range with a step of 0 has no end")
        dtype = operands[0].dtype
        if isinstance(start, int):
            # In their own type: sums that wrap around are exact, and Python's would be too wide.
            count = max(-((start - limit) // delta), 0)
            return (operands[0] + np.arange(count).astype(dtype) * operands[2],)
        count = max(int(np.ceil((limit - start) / delta)), 0)
        return ((start + np.arange(count) * delta).astype(dtype),)

    def result_bytes(self, *operands: np.ndarray) -> int | None:
        start, limit, delta = (operand.item() for operand in operands)
        return int(abs((limit - start) / delta) + 1) * operands[0].itemsize if delta else 0

    def computed_sizes(self, elements: Elements) -> np.ndarray | None:
        return None

    def end_of_numbers(self, contents: SizeContents) -> Expression | None:
        return contents.single(self.limit) if contents.single(self.delta) == number(1) else None

    def check_rows(self, given: Sequence[Status], result: Rows, contents: SizeContents) -> None:
        """Numbers from the same start in the same steps, as many as there are rows."""
        require_rows((given[0], given[2]) == (STATIC, STATIC), "it starts or counts by the size")

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        """start + i * delta for each element; how many there are must be known."""
        start, _, delta = inputs
        element = element_type_of(self.output)

        def count(s: ScalarBuilder, number: Scalar) -> None:
            first, step = load_element(s, start, []), load_element(s, delta, [])
            store_element(s, first + number.convert(element) * step, output, [number])

        k.nest({"d0": output.shape[0]}, count, parallel="d0")
        return "explicit"
