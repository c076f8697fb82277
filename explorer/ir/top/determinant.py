"""Determinants of square matrices, by elimination with pivots.

top.determinant    (..., n, n)  ->  (...)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import TensorType, i64
from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, operand_def, result_def

from explorer.ir.compute import KernelBuilder, Scalar, ScalarBuilder
from explorer.ir.interfaces import MixesAxes
from explorer.ir.operation import Access
from explorer.ir.top.arithmetic import in_arithmetic_types
from explorer.ir.top.definitions import load_element, scratch, store_element
from explorer.ir.top.elimination import (
    LARGEST,
    Loops,
    at_each,
    choose_pivot,
    divide_below,
    exchange_rows,
    loops_over,
    stack_place,
    subtract_row,
)
from explorer.ir.top.support.operands import require_floats
from explorer.ir.types import element_type_of, shape_of, tensor_type


@irdl_op_definition
class DeterminantOp(MixesAxes):
    """The determinant of every matrix in the last two axes (ONNX's Det)."""

    name = "top.determinant"
    FAMILY: ClassVar[str] = "reduction"
    KEEPS_MIXED_AXES: ClassVar[bool] = False

    input = operand_def(TensorType)
    output = result_def(TensorType)

    def infer_types(self) -> list[Attribute]:
        shape = shape_of(self.input)
        sizes = {d for d in shape[-2:] if isinstance(d, int)}
        if len(shape) < 2 or len(sizes) > 1:
            raise ValueError(f"a determinant needs square matrices, not {shape}")
        require_floats("a determinant", [self.input])
        return [tensor_type(element_type_of(self.input), shape[:-2])]

    def mixed_axes(self) -> Sequence[int]:
        rank = len(shape_of(self.input))
        return (rank - 2, rank - 1)

    @in_arithmetic_types
    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        (x,) = operands
        return (np.asarray(np.linalg.det(x)),)

    def missing_form(self) -> str:
        size = shape_of(self.input)[-1]
        if isinstance(size, int) and size > LARGEST:
            return f"determinants of more than {LARGEST} rows are not compiled"
        return ""

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        """Column after column: the row with the largest element comes up, the others are reduced.

        The result is the product of the pivots, negated once for each exchange of rows.
        """
        self.check_form()
        (x,) = inputs
        *batch, size, _ = x.shape
        outer = loops_over(batch)
        kind = element_type_of(self.output)
        matrix = scratch(k, "matrix", x.shape, kind)
        factor = scratch(k, "factor", (*batch, size), kind)
        pivot = scratch(k, "pivot", batch, i64)
        d = k.dimensions(**at_each(outer))
        k.generic("plain", [], output.at(*d), lambda s: s.constant(1))
        d = k.dimensions(**outer, row=size, column=size)
        k.generic("plain", [x.at(*d)], matrix.at(*d), lambda s, a: a)
        for column in range(size):
            choose_pivot(k, outer, column, matrix, pivot)
            exchange_rows(k, outer, column, matrix, pivot)
            divide_below(k, outer, column, matrix, factor)
            subtract_row(k, outer, column, matrix, factor, rows_from=column + 1)
            self._multiply(k, outer, column, matrix, pivot, output)
        return "explicit"

    @staticmethod
    def _multiply(
        k: KernelBuilder, outer: Loops, column: int, matrix: Access, pivot: Access, output: Access
    ) -> None:
        """The product goes on with the pivot."""

        def multiply(s: ScalarBuilder, *indices: Scalar) -> None:
            at = stack_place(indices, outer)
            head = load_element(s, matrix, [*at, s.index(column), s.index(column)])
            is_same = load_element(s, pivot, at).compare("eq", column)
            signed = is_same.select(head, head.negate())
            store_element(s, load_element(s, output, at) * signed, output, at)

        k.nest(at_each(outer), multiply, parallel=" ".join(outer))
